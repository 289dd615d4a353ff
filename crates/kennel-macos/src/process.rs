//! A command in its sandbox, with everything that it starts: waited for by a kqueue, killed by the ledger.
//!
//! The queue tells when the command ends, when it becomes another program, and when a member of the ledger forks, whose children are
//! entered at once. The command's own process is reaped last, when everything else is dead: until then its number, which is
//! also that of its group and its session, cannot be anybody else's.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kennel_policy::outcome::Usage;
use libc::pid_t;
use rustix::event::kqueue::{self, Event, EventFilter, EventFlags, ProcessEvents};
use rustix::process::{Pid, Signal};

use crate::command_line::SANDBOX_EXEC;
use crate::exit::{Executed, Fate, fate};
use crate::ledger::{Ledger, Listed, marker, stranger};
use crate::limits::{EVERY, Exceeded, Used, Watched, exceeded};
use crate::spawn::{self, Start};
use crate::sys::{self, Which};
use crate::units::peak_of_all;

/// How long the rest of a sandbox is killed again and again before it is given up.
const TO_DIE: Duration = Duration::from_secs(5);

/// How long to wait between two rounds.
const ROUND: Duration = Duration::from_millis(5);

/// The longest wait for the queue: should it keep an end from us, it is found this much later.
const LONGEST: Duration = Duration::from_secs(1);

/// Signals that a command line passes on.
const FORWARDED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// A command in its sandbox.
#[derive(Debug)]
pub struct Sandboxed {
    pid: pid_t,
    queue: OwnedFd,
    shared: Arc<Shared>,
    executed: Executed,
    watched: Watched,
    cpu_limit: Option<Duration>,
    /// The most memory that was seen of all together.
    peak: Option<u64>,
    most_tasks: Option<u64>,
    /// How often there were too many processes.
    refused: u64,
    /// Whether to look though nothing is limited.
    count: bool,
    /// Whether the queue has told the command's end, which can be waited for a moment later.
    is_ending: bool,
    /// What could not be ended.
    left: Option<String>,
    forwarded: Vec<Signal>,
    resize: Option<Resize>,
}

/// Is called when the terminal has another size.
struct Resize(Box<dyn Fn() + Send>);

impl std::fmt::Debug for Resize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resize")
    }
}

/// What other threads may use.
#[derive(Debug)]
struct Shared {
    /// `None` once everything has ended.
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    root: pid_t,
    /// When the command started.
    born: u64,
    ledger: Ledger,
    names: Option<Names>,
}

/// The names by which a member of the sandbox is known.
#[derive(Debug)]
struct Names {
    marker: CString,
    stranger: CString,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Whether the command ran, and how it ended.
    pub fate: Fate,
    /// CPU time of the command and all that it waited for.
    pub cpu_user: Duration,
    /// The same, in the kernel.
    pub cpu_system: Duration,
    /// Bytes.
    pub peak_memory: u64,
    /// Whether that is of everything together.
    pub memory_counted: bool,
    /// The most processes and threads that were seen at once, where they were counted.
    pub most_tasks: Option<u64>,
    /// How often there were too many.
    pub tasks_refused: u64,
}

impl Names {
    /// Whether a process has the profile in which these names are. Without any profile it may look up both.
    fn are_of(&self, pid: pid_t) -> bool {
        sys::may_look_up(pid, &self.marker) == Some(true)
            && sys::may_look_up(pid, &self.stranger) == Some(false)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All processes that may be members. Those that are not known, and not older than the command, are asked for its mark.
    fn list(&self) -> Vec<Listed> {
        let user = sys::user();
        // Root can become anybody inside, nobody else can.
        let which = if user == 0 { Which::All } else { Which::User(user) };
        let own = std::process::id().cast_signed();
        sys::pids(which)
            .into_iter()
            .filter(|pid| *pid != own)
            .filter_map(|pid| {
                let found = sys::basics(pid)?;
                let group = if sys::session(pid) == Some(self.root) { self.root } else { found.group };
                let is_marked = found.start >= self.born
                    && !self.ledger.knows(pid, found.start)
                    && self.names.as_ref().is_some_and(|names| names.are_of(pid));
                Some(Listed { pid, parent: found.parent, group, start: found.start, is_marked })
            })
            .collect()
    }

    /// Members that are alive.
    fn look(&mut self) -> Vec<pid_t> {
        let all = self.list();
        self.ledger.look(&all)
    }

    /// What they use together, and what the one uses that has used most CPU time.
    fn used(&mut self) -> (Used, Usage) {
        let mut used = Used::default();
        let (mut user, mut system) = (Duration::ZERO, Duration::ZERO);
        for pid in self.look() {
            used.tasks += sys::threads(pid).unwrap_or(1);
            if let Some(process) = sys::process_usage(pid) {
                used.memory = used.memory.saturating_add(process.memory);
                used.cpu_time = used.cpu_time.max(process.cpu_user + process.cpu_system);
                user += process.cpu_user;
                system += process.cpu_system;
            }
        }
        let usage = Usage {
            memory: Some(used.memory),
            cpu_user: Some(user),
            cpu_system: Some(system),
            processes: Some(used.tasks),
            ..Usage::default()
        };
        (used, usage)
    }
}

impl Sandboxed {
    /// Starts a command. `tag` is that of its profile; with `count` what is used is looked at though nothing limits it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(
        start: Start,
        tag: &str,
        watched: Watched,
        cpu_limit: Option<Duration>,
        count: bool,
    ) -> io::Result<Sandboxed> {
        let queue = kqueue::kqueue()?;
        let names = CString::new(marker(tag)).ok().zip(CString::new(stranger(tag)).ok());
        let names = names.map(|(marker, stranger)| Names { marker, stranger });
        let pid = spawn::spawn(start)?;
        let born = sys::basics(pid).map_or(0, |found| found.start);
        let state = State { root: pid, born, ledger: Ledger::new(pid, born), names };
        let shared = Arc::new(Shared { state: Mutex::new(Some(state)) });
        let mut started = Sandboxed {
            pid,
            queue,
            shared,
            executed: Executed::Unknown,
            watched,
            cpu_limit,
            peak: None,
            most_tasks: None,
            refused: 0,
            count,
            is_ending: false,
            left: None,
            forwarded: Vec::new(),
            resize: None,
        };
        // One that has ended already cannot be added. It is found by `has_ended`.
        if let Err(error) = started.follow(pid)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            // Which kills it.
            drop(started);
            return Err(error);
        }
        // After it was added: whatever it becomes later is told.
        started.executed = match sys::program(pid) {
            Some(program) if program == std::path::Path::new(SANDBOX_EXEC) => Executed::No,
            Some(_) => Executed::Yes,
            None => Executed::Unknown,
        };
        Ok(started)
    }

    /// The command's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Passes signals that this process gets on to the command, and calls `resize` when the terminal has another size. From now on
    /// they do not end this process. Only for a program that has no use for them itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn forward_signals(&mut self, resize: Option<Box<dyn Fn() + Send>>) -> io::Result<()> {
        self.resize = resize.map(Resize);
        let window = self.resize.is_some().then_some(Signal::WINCH);
        for signal in FORWARDED.into_iter().chain(window) {
            // One that is ignored, as below `nohup`, stays so.
            if !sys::ignore(signal.as_raw()) {
                self.forwarded.push(signal);
                self.change(EventFilter::Signal { signal, times: 0 }, EventFlags::ADD)?;
            }
        }
        Ok(())
    }

    /// Waits for the command to end, no longer than until `until`. Everything else is dead when the end is returned.
    ///
    /// # Errors
    /// When the system fails this process.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<Option<End>> {
        loop {
            if sys::has_ended(self.pid)? {
                // What the queue still has may say that it became the command.
                self.take_events(Duration::ZERO)?;
                self.end_rest();
                return self.reap().map(Some);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let longest = if self.is_ending { Duration::from_millis(1) } else { LONGEST };
            self.take_events(left.unwrap_or(longest).min(longest))?;
            if until.is_some_and(|until| Instant::now() >= until) && !sys::has_ended(self.pid)? {
                return Ok(None);
            }
        }
    }

    /// Takes what the queue has, waiting at most so long for it, and does what it asks for.
    fn take_events(&mut self, at_most: Duration) -> io::Result<()> {
        let mut events = Vec::with_capacity(16);
        let room = rustix::buffer::spare_capacity(&mut events);
        // SAFETY: none of the events is about a descriptor.
        let taken = unsafe { kqueue::kevent(&self.queue, &[], room, Some(at_most)) };
        match taken {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            match event.filter() {
                EventFilter::Proc { pid, flags } => {
                    let pid = pid.as_raw_nonzero().get();
                    if flags.contains(ProcessEvents::EXEC) && pid == self.pid {
                        self.executed = Executed::Yes;
                    }
                    self.is_ending |= flags.contains(ProcessEvents::EXIT) && pid == self.pid;
                    if flags.contains(ProcessEvents::FORK) {
                        self.enter_children(pid);
                    }
                }
                EventFilter::Signal { signal, .. } if signal == Signal::WINCH => {
                    if let Some(Resize(resize)) = &self.resize {
                        resize();
                    }
                }
                EventFilter::Signal { signal, .. } => {
                    let _ = sys::kill(-self.pid, signal.as_raw());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Enters the children of a member that are not known, and theirs.
    fn enter_children(&mut self, parent: pid_t) {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            for pid in sys::pids(Which::Children(parent)) {
                let Some(found) = sys::basics(pid).filter(|found| found.parent == parent) else { continue };
                let mut state = self.shared.lock();
                let Some(state) = &mut *state else { return };
                if state.ledger.knows(pid, found.start) {
                    continue;
                }
                state.ledger.enter(pid, found.start);
                parents.push(pid);
                let _ = self.follow(pid);
            }
        }
    }

    /// Has the queue tell what a process does.
    fn follow(&self, pid: pid_t) -> io::Result<()> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        let mut flags = ProcessEvents::FORK | ProcessEvents::EXIT;
        if pid.as_raw_nonzero().get() == self.pid {
            flags |= ProcessEvents::EXEC;
        }
        // Cleared when it was told: otherwise a fork would be told for ever.
        self.change(EventFilter::Proc { pid, flags }, EventFlags::ADD | EventFlags::CLEAR)
    }

    fn change(&self, filter: EventFilter, flags: EventFlags) -> io::Result<()> {
        let change = [Event::new(filter, flags, std::ptr::null_mut())];
        let mut none: [Event; 0] = [];
        // SAFETY: it is about no descriptor. Without room for events an error is returned and not told as one.
        unsafe { kqueue::kevent(&self.queue, &change, &mut none[..], Some(Duration::ZERO)) }?;
        Ok(())
    }

    /// Kills everything but the command's own process, which has ended, until nothing is left.
    fn end_rest(&mut self) {
        let begin = Instant::now();
        loop {
            let alive = {
                let mut state = self.shared.lock();
                let Some(state) = &mut *state else { return };
                // The group at once, whoever is in it by now.
                let _ = sys::kill(-self.pid, libc::SIGKILL);
                let mut alive = state.look();
                alive.retain(|pid| *pid != self.pid);
                alive
            };
            if alive.is_empty() {
                return;
            }
            for pid in &alive {
                let _ = sys::kill(*pid, libc::SIGKILL);
            }
            if begin.elapsed() > TO_DIE {
                self.left =
                    Some(format!("{} processes of the sandbox could not be killed: {alive:?}", alive.len()));
                return;
            }
            // Also wakes for the end of one of them.
            let _ = self.take_events(ROUND);
        }
    }

    /// The last part: from here on the numbers may be other processes'.
    fn reap(&mut self) -> io::Result<End> {
        let mut state = self.shared.lock();
        let reaped = sys::reap(self.pid);
        *state = None;
        drop(state);
        let reaped = reaped?;
        let (peak_memory, memory_counted) = peak_of_all(self.peak, reaped.peak_memory);
        Ok(End {
            fate: fate(reaped.status, self.executed, self.cpu_limit),
            cpu_user: reaped.cpu_user,
            cpu_system: reaped.cpu_system,
            peak_memory,
            memory_counted,
            most_tasks: self.most_tasks,
            tasks_refused: self.refused,
        })
    }

    /// What could not be ended, if anything.
    pub fn take_left(&mut self) -> Option<String> {
        self.left.take()
    }

    /// How often [`Sandboxed::watch`] has to be called, if there is anything to watch.
    #[must_use]
    pub fn watch_every(&self) -> Option<Duration> {
        (self.count || !self.watched.is_empty()).then_some(EVERY)
    }

    /// Looks at what is used; the limit that is exceeded, if one is.
    pub fn watch(&mut self) -> Option<Exceeded> {
        let (used, _) = self.shared.lock().as_mut()?.used();
        self.peak = self.peak.max(Some(used.memory));
        self.most_tasks = self.most_tasks.max(Some(used.tasks));
        let exceeded = exceeded(&self.watched, &used);
        self.refused += u64::from(exceeded == Some(Exceeded::Tasks));
        exceeded
    }

    /// Kills the command and its group, from any thread; what is left is killed when that is noticed.
    #[must_use]
    pub fn killer(&self) -> Arc<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || {
            if let Some(state) = &*shared.lock() {
                let _ = sys::kill(-state.root, libc::SIGKILL);
                let _ = sys::kill(state.root, libc::SIGKILL);
            }
        })
    }

    /// Sends a signal to the command's group, from any thread.
    #[must_use]
    pub fn signaller(&self) -> Box<dyn Fn(i32) -> io::Result<()> + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move |signal| match &*shared.lock() {
            Some(state) => sys::kill(-state.root, signal),
            None => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        })
    }

    /// Tells what is used, from any thread.
    #[must_use]
    pub fn meter(&self) -> Arc<dyn Fn() -> Usage + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.lock().as_mut().map(|state| state.used().1).unwrap_or_default())
    }

    /// Ready to read when [`Sandboxed::wait`] has something to do.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Has the descriptor become ready at this time.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wake_at(&self, at: Option<Instant>) -> io::Result<()> {
        const CLOCK: isize = 1;
        // In whole milliseconds, rounded up: the units in which a timer is set know no smaller ones in every case.
        let left = at.map(|at| at.saturating_duration_since(Instant::now()).as_millis() + 1);
        let left = left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)));
        let filter = |timer| EventFilter::Timer { ident: CLOCK, timer };
        match left {
            Some(left) => self.change(filter(Some(left)), EventFlags::ADD | EventFlags::ONESHOT),
            None => match self.change(filter(None), EventFlags::DELETE) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                other => other,
            },
        }
    }
}

/// Dropping it kills everything, if nobody has waited for the end.
impl Drop for Sandboxed {
    fn drop(&mut self) {
        if self.shared.lock().is_some() {
            self.killer()();
            // An error says that there is nobody to wait for.
            while let Ok(None) = self.wait(None) {}
        }
        for signal in &self.forwarded {
            sys::restore(signal.as_raw());
        }
    }
}

/// Blocks all signals for this thread.
pub fn block_signals() {
    sys::block_signals();
}

/// How many processes the user has now.
#[must_use]
pub fn own_processes() -> u64 {
    sys::pids(Which::User(sys::user())).len() as u64
}
