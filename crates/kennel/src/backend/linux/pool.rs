//! A pool: one thread prepares sandboxes and takes care of what is left of those that were used.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kennel_linux::launch::zygote::Zygote;
use kennel_linux::mounts::MountWatch;
use kennel_linux::sandbox::{Fit, Late, Ready, Started, Wanted};
use kennel_linux::signals;
use kennel_linux::supervise::{Remains, Supervisor};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{LowNumbers, Running, counting, given, start, watch};
use crate::backend::PoolKind;
use crate::job::{Hooks, Job, Streams};
use crate::network::SandboxNetwork;
use crate::{Result, Terminal};

/// How long the thread waits after a sandbox could not be prepared, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A pool of sandboxes for one policy. Dropping it ends those that wait, and waits until nothing is left of those that were
/// used.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    zygote: Arc<Zygote>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the policy: its variables may hold secrets.
        f.debug_struct("Pool").field("ready", &self.ready()).finish_non_exhaustive()
    }
}

struct Shared {
    kind: PoolKind,
    state: Mutex<State>,
    /// Wakes the thread.
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Entry>,
    /// What the thread has to end.
    discarded: Vec<Entry>,
    remains: Vec<Remains>,
    stopped: bool,
}

/// A sandbox that waits for its command, and the gate of its network.
struct Entry {
    ready: Ready,
    gate: Option<SandboxNetwork>,
    warnings: Vec<String>,
    made: Instant,
}

impl Pool {
    pub(super) fn start(zygote: Arc<Zygote>, kind: PoolKind) -> Result<Pool> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        let shared = Arc::new(Shared { kind, state: Mutex::default(), wake });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("kennel-pool".into()).spawn(move || {
            // The caller's signals are for the caller's own threads.
            signals::block_all();
            own.work();
        })?;
        Ok(Pool { shared, thread: Some(thread), zygote })
    }

    pub(super) fn ready(&self) -> usize {
        self.shared.lock().ready.len()
    }

    /// Starts a job in a sandbox that waits, or in a fresh one.
    pub(super) fn start_job(self: Arc<Pool>, job: Job) -> Result<Running> {
        // What waits was made for the thread that started the pool, with what that could do then.
        let waiting = if self.zygote.serves_this_thread() { self.shared.take(&job) } else { None };
        let Some((entry, fit)) = waiting else { return start::running(job) };
        let Entry { ready, gate, warnings, .. } = entry;
        let Job { policy, command, environment, streams, hooks, .. } = job;
        let Hooks { count, audience, questions, show, advice, .. } = hooks;
        let alone = matches!(streams, Streams::Attached);
        // Whoever captures waits for the end before anything else, and is told then.
        let silently = matches!(streams, Streams::Captured { .. });
        // Before anything else is opened: a descriptor of kennel's own must never pass for one of the caller's streams.
        let streams = streams.taken()?;
        let _low = LowNumbers::occupied()?;
        let (streams, mut pipes) = given(streams, &policy, true)?;
        let Started { supervisor, not_enforced, terminal } = ready.start(
            fit,
            Late {
                policy,
                wanted: Wanted { words: command, environment },
                workdir: None,
                streams,
                watch: watch(count, counting(audience, gate.as_ref()), questions, show, None),
                at_report: true,
                silently,
            },
        )?;
        // Not before: the next one can wait until this one runs, and as long as there are enough until it has ended.
        if self.shared.lock().ready.len() <= self.shared.kind.size / 2 {
            self.shared.wake();
        }
        pipes.terminal = terminal.map(Terminal::new).transpose()?;
        let supervisor = Attended { supervisor: ManuallyDrop::new(supervisor), pool: Some(self) };
        Ok(Running { supervisor, gate, alone, advice, not_enforced, warnings, pipes })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// A sandbox for this job, and how it fits. What does not fit any more is left to the thread to end.
    fn take(&self, job: &Job) -> Option<(Entry, Fit)> {
        // Its mounts stand: they are for no other files.
        if !self.kind.workspaces && job.policy.files != self.kind.policy.files {
            return None;
        }
        loop {
            let Some(entry) = self.lock().ready.pop_front() else {
                self.wake();
                return None;
            };
            let young = entry.made.elapsed() < self.kind.longest_wait;
            // An error is told by the start of a fresh one.
            let fit = entry.ready.fit(&job.policy, &job.cwd).ok().flatten().filter(|_| young);
            match fit {
                Some(fit) => return Some((entry, fit)),
                None => self.lock().discarded.push(entry),
            }
        }
    }

    /// The thread.
    fn work(&self) {
        let mut mounts = MountWatch::new();
        let (mut pause, mut not_before) = (FIRST_PAUSE, None::<Instant>);
        loop {
            let now = Instant::now();
            if mounts.as_ref().is_ok_and(MountWatch::has_changed) {
                mounts = MountWatch::new();
                // They hold the mounts that were there: of a disk that is to be taken away, too.
                let mut state = self.lock();
                let State { ready, discarded, .. } = &mut *state;
                discarded.extend(ready.drain(..));
            }
            let (ended, wants, oldest) = {
                let mut state = self.lock();
                if state.stopped {
                    let State { ready, discarded, remains, .. } = std::mem::take(&mut *state);
                    state.stopped = true;
                    drop(state);
                    drop((ready, discarded, remains));
                    return;
                }
                while state.ready.front().is_some_and(|entry| self.is_old(entry, now)) {
                    let old = state.ready.pop_front();
                    state.discarded.extend(old);
                }
                let gone: Vec<Remains> = state.remains.extract_if(.., |remains| is_over(remains)).collect();
                let ended = (std::mem::take(&mut state.discarded), gone);
                let wants = state.ready.len() < self.kind.size;
                (ended, wants, state.ready.front().map(|entry| entry.made + self.kind.longest_wait))
            };
            drop(ended);
            if wants && not_before.is_none_or(|time| now >= time) {
                match self.prepare() {
                    Ok(entry) => {
                        (pause, not_before) = (FIRST_PAUSE, None);
                        self.lock().ready.push_back(entry);
                    }
                    Err(_) => {
                        not_before = Some(Instant::now() + pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
                continue;
            }
            let next = [oldest, not_before.filter(|_| wants)].into_iter().flatten().min();
            self.wait(mounts.as_ref().ok(), next.map(|next| next.saturating_duration_since(now)));
        }
    }

    fn is_old(&self, entry: &Entry, now: Instant) -> bool {
        now.duration_since(entry.made) >= self.kind.longest_wait
    }

    /// Until there is something to do.
    fn wait(&self, mounts: Option<&MountWatch>, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let pidfds: Vec<OwnedFd> = {
            let state = self.lock();
            // Somebody may have left something in the meantime, and its word is in the eventfd.
            state.remains.iter().filter_map(|remains| remains.as_fd().try_clone_to_owned().ok()).collect()
        };
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(mounts.map(|mounts| PollFd::new(mounts, PollFlags::PRI)));
        fds.extend(pidfds.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        let _ = poll(&mut fds, limit.as_ref());
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    fn prepare(&self) -> Result<Entry> {
        let (ready, gate, warnings) = start::ready(&self.kind)?;
        Ok(Entry { ready, gate, warnings, made: Instant::now() })
    }
}

fn is_over(remains: &Remains) -> bool {
    let mut gone = [PollFd::new(remains, PollFlags::IN)];
    poll(&mut gone, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
}

/// A sandbox that is attended to; what is left of it in the end is the pool's that it came from, if it came from one.
#[derive(Debug)]
pub(super) struct Attended {
    supervisor: ManuallyDrop<Supervisor>,
    pool: Option<Arc<Pool>>,
}

impl Attended {
    /// One that came from no pool.
    pub(super) fn alone(supervisor: Supervisor) -> Attended {
        Attended { supervisor: ManuallyDrop::new(supervisor), pool: None }
    }
}

impl Deref for Attended {
    type Target = Supervisor;

    fn deref(&self) -> &Supervisor {
        &self.supervisor
    }
}

impl DerefMut for Attended {
    fn deref_mut(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        // SAFETY: taken here and nowhere else, and this value is not used again.
        let supervisor = unsafe { ManuallyDrop::take(&mut self.supervisor) };
        let Some(pool) = &self.pool else { return };
        let remains = supervisor.into_remains();
        let mut state = pool.shared.lock();
        if !state.stopped {
            state.remains.push(remains);
            drop(state);
            pool.shared.wake();
        }
    }
}
