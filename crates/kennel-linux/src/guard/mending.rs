//! The thread that watches names: what appears at one is mended at once, whatever else goes on.
//!
//! It is woken by the kernel and by nobody else. Calls that make names are answered on another thread, which takes this one's
//! place only once: for the first call, before which the folders of absent names have to be watched.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::covered::{Changes, Covered, Exposure};
use super::folders::{FolderWatch, Happened, SHORT_RUN, Subscriber};
use super::protected_paths::ProtectedPaths;
use super::wake::WakeClock;
use super::watch::AbsentWatch;
use super::{GuardError, Violation, Violations, add};
use crate::clock::timespec;
use crate::sys::files::numbered;

/// What the guard owes its sandbox's caller: that rules hold, or the sandbox ends, and that it is told.
pub(super) struct Mending {
    absent: Arc<ProtectedPaths>,
    /// There until the thread ends.
    folders: Option<FolderWatch>,
    covered: Option<Covered>,
    started: Instant,
    watch: AbsentWatch,
    record: Arc<Mutex<Violations>>,
    /// Whether the sandbox was ended; nothing goes on from then on.
    broken: Arc<AtomicBool>,
    end: Box<dyn FnMut() + Send>,
}

/// For as long as a panic on another thread has left it in order, which is always: nothing of it is half done.
pub(super) fn lock(mending: &Mutex<Mending>) -> MutexGuard<'_, Mending> {
    mending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches until it is told to stop, and then looks at every absent path once more. Returns what may be slow to be dropped.
pub(super) fn serve(mending: &Mutex<Mending>, stopped: &OwnedFd) -> Option<FolderWatch> {
    let mut clock = WakeClock::of_this_thread();
    let number = lock(mending).folders.as_ref().map(|folders| folders.as_fd().as_raw_fd())?;
    // Only this thread takes it out of where it is, and does so when it waits no more. A copy of the descriptor would have to be
    // closed as well: see `FolderWatch`.
    let watched = numbered(number)?;
    loop {
        let until = lock(mending).begin_if_due();
        let mark = clock.mark();
        let ready = match wait(watched, stopped, Some(Duration::ZERO)) {
            // What is seen now happened at any time since the last look.
            Ok(ready) if ready.any() => Ok(ready),
            Ok(_) => {
                clock.nothing_until(mark);
                wait(watched, stopped, until)
            }
            Err(error) => Err(error),
        };
        let Ok(ready) = ready else {
            lock(mending).fail("it cannot wait".into());
            return None;
        };
        if ready.names {
            let since = clock.since();
            let mut mending = lock(mending);
            let mark = clock.mark();
            let happened = mending.folders.as_mut().map(FolderWatch::happened);
            // It reads all there is, or so much that some of it came later.
            clock.nothing_until(mark);
            if let Some(happened) = happened {
                mending.see(happened, since);
            }
        }
        if ready.stopped {
            return lock(mending).finish();
        }
    }
}

impl Mending {
    pub(super) fn new(
        absent: Arc<ProtectedPaths>,
        folders: FolderWatch,
        covered: Option<Covered>,
        started: Instant,
        record: Arc<Mutex<Violations>>,
        broken: Arc<AtomicBool>,
        end: impl FnMut() + Send + 'static,
    ) -> Mending {
        let (watch, end) = (AbsentWatch::of_a_run_that_starts(), Box::new(end));
        Mending { absent, folders: Some(folders), covered, started, watch, record, broken, end }
    }

    /// Watches covered names when it is time to; otherwise says when that is. Not for a command that is gone again in a
    /// moment: to take watches away costs milliseconds.
    fn begin_if_due(&mut self) -> Option<Duration> {
        self.covered.as_ref().filter(|covered| !covered.is_watched())?;
        let left = (self.started + SHORT_RUN).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        self.begin_covered();
        None
    }

    fn begin_covered(&mut self) {
        if self.broken.load(Ordering::Acquire) {
            return;
        }
        if let (Some(covered), Some(folders)) = (&mut self.covered, &mut self.folders) {
            let looked = covered.begin(folders, self.started);
            self.note(looked);
        }
    }

    /// Places the watches over absent names, before the first is made. What the host has made at one already is covered where
    /// the rule hides it; all else is mended.
    pub(super) fn begin_absent(&mut self) {
        let Some(folders) = self.folders.as_mut().filter(|_| !self.watch.has_begun()) else { return };
        if let Err(error) = self.watch.begin(&self.absent, folders) {
            return self.fail(GuardError::Watch(error.into()).to_string());
        }
        if let Some(covered) = &self.covered {
            let (hidden, mut left) = (covered.hidden(), false);
            for (path, guarded) in self.absent.paths().iter().enumerate() {
                left |= hidden.contains(&*guarded.protected.path()) && self.watch.leave(&self.absent, path);
            }
            // Before the first name is made: from then on the sandbox could write what is not covered.
            if left && !covered.is_watched() {
                self.begin_covered();
            }
        }
        self.mend(0..self.absent.paths().len());
    }

    /// Sees to what appeared in the watched folders, not before `since`.
    fn see(&mut self, happened: Happened, since: Instant) {
        let (paths, changes) = match happened {
            Happened::Unknown => ((0..self.absent.paths().len()).collect(), None),
            Happened::To(subscribers) => {
                let (mut paths, mut changes) = (Vec::new(), Changes::default());
                for subscriber in subscribers {
                    match subscriber {
                        Subscriber::Absent(path) => paths.push(path),
                        Subscriber::Covered(name) => drop(changes.names.insert(name)),
                        Subscriber::Base(base) => drop(changes.bases.insert(base)),
                    }
                }
                (paths, Some(changes))
            }
        };
        if let (Some(covered), Some(folders)) = (&mut self.covered, &mut self.folders) {
            let looked = covered.happened(folders, changes.as_ref(), since);
            self.note(looked);
        }
        if self.watch.has_begun() {
            self.mend(paths);
        }
    }

    /// Nothing inside is left that could make anything more.
    fn finish(&mut self) -> Option<FolderWatch> {
        if self.watch.has_begun() {
            self.mend(0..self.absent.paths().len());
        }
        self.covered = None;
        self.folders.take()
    }

    /// Mends these absent paths where they are broken; the sandbox is ended then.
    fn mend(&mut self, paths: impl IntoIterator<Item = usize>) {
        let Some(folders) = &mut self.folders else { return };
        for path in paths {
            if let Some(mended) = self.watch.mend(&self.absent, path, folders, &mut self.end) {
                self.broken.store(true, Ordering::Release);
                let protected = &self.absent.paths()[path].protected;
                let (path, rule) = (protected.path(), protected.rule.to_string());
                add(&self.record, Violation::Broken { path, rule, mended });
            }
        }
    }

    /// Notes what became of covered names.
    fn note(&mut self, looked: io::Result<Exposure>) {
        match looked {
            Ok(Exposure { exposed, ends }) => {
                if ends {
                    self.broken.store(true, Ordering::Release);
                    (self.end)();
                    self.record.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
                }
                exposed.into_iter().for_each(|exposed| add(&self.record, exposed));
            }
            Err(error) => self.fail(format!("covering a name that the host replaced: {error}")),
        }
    }

    /// What cannot be guarded ends.
    fn fail(&mut self, why: String) {
        self.broken.store(true, Ordering::Release);
        (self.end)();
        add(&self.record, Violation::GuardFailed { why });
    }
}

struct Ready {
    names: bool,
    stopped: bool,
}

impl Ready {
    fn any(&self) -> bool {
        self.names || self.stopped
    }
}

/// Waits for something to do.
fn wait(watched: BorrowedFd, stopped: &OwnedFd, until: Option<Duration>) -> Result<Ready, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(watched, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    let until = until.map(timespec);
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, until.as_ref()))?;
    Ok(Ready { names: !fds[0].revents().is_empty(), stopped: !fds[1].revents().is_empty() })
}
