//! The guard: what has to be seen to while a sandbox runs.
//!
//! Some rules have nothing to mount on and nothing to point Landlock at: a protected path that does not exist yet, a unix
//! socket that is listed by its path. For these the seccomp filter sends the few calls concerned to the controller
//! ([`filter_rules`]), and a thread of it answers: [`Guard::serve`]. And a mount is on a file, while a rule is about
//! a name: what the host replaces has to be covered again ([`covered`]). The thread starts with the first call, or
//! when a sandbox with covered names has run for a moment ([`crate::supervise`]). Nothing is placed on the host's
//! disk for any of this.
//!
//! The guard reads a path's last component first and lets everything else go on at once. What bears a protected name
//! is resolved as the caller would resolve it ([`walk`]) and refused with EROFS, the error that an existing protected
//! path gives. Because the caller can change its memory after the guard's look, the folders are also watched
//! ([`watch`]): a name that appears all the same ends the sandbox, and is taken away. A connect is not let go on at
//! all, but made on the caller's behalf ([`connect`]): there is no race to win.

mod as_root;
pub mod caller;
pub mod calls;
pub mod connect;
pub mod covered;
pub mod filter;
pub mod folders;
pub mod judge;
pub mod listener;
mod locks;
pub mod mender;
mod modes;
pub mod outer;
mod own;
pub mod pairs;
mod permission;
pub mod protected_paths;
mod rewrite;
pub mod trail;
pub mod walk;
pub mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;

use crate::clock::timespec;
use crate::signal_mask::SignalsBlocked;

pub use crate::resolve::guard_rules::{
    AllowedSocket, Anchor, Asks, CoveredName, Finding, GuardAssumptions, Protected, Rules, Sockets,
};
pub use filter::filter_rules;
pub use kennel_policy::outcome::{Mended, Violation, Violations};
pub use mender::Namespaces;

use calls::Call;
use connect::Connector;
use covered::{Covered, Exposure};
pub use folders::SHORT_RUN;
use folders::{FolderWatch, Happened, Subscriber};
use judge::{Judge, Ruling};
use listener::{Answer, Listener, Notification};
use protected_paths::ProtectedPaths;
use watch::AbsentWatch;

/// How long the guard has for its last look, before nobody waits for it any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A protected path is not what the rules were made for any more.
    #[error("guarding {}: {source}\nhelp: something changed it while the sandbox started; try again", .path.display())]
    Changed {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folders cannot be watched.
    #[error(
        "watching the folders of protected paths: {0}\n\
         help: raise fs.inotify.max_user_instances and fs.inotify.max_user_watches (sysctl), or stop other sandboxes"
    )]
    Watch(#[source] io::Error),
    /// Threads or descriptors ran out.
    #[error("starting the guard: {0}")]
    Start(#[source] io::Error),
}

/// A guard of which the thread runs.
#[derive(Debug)]
pub struct GuardHandle {
    stop: OwnedFd,
    /// Tells that the thread is through; taken when that is known.
    end: Option<Receiver<()>>,
    record: Arc<Mutex<Violations>>,
    made_names: Arc<AtomicBool>,
}

/// A guard that has taken hold of its paths, and whose thread does not run yet.
#[derive(Debug)]
pub struct Guard {
    absent: ProtectedPaths,
    standing: ProtectedPaths,
    rewritten: ProtectedPaths,
    /// There where names have to be watched.
    folders: Option<FolderWatch>,
    connector: Option<Connector>,
    covered: Option<Covered>,
    one_root: bool,
    started: Instant,
    /// Where its rights end, with several users inside, this helper goes on.
    helper: Option<OwnedFd>,
}

impl Guard {
    /// Takes hold of the paths that `rules` speak of. The folders are watched from a descriptor that is opened here,
    /// before there is a command that could use all of them up.
    ///
    /// # Errors
    /// When a path is not what it was when the rules were made.
    pub fn new(rules: &Rules, assumptions: GuardAssumptions) -> Result<Guard, GuardError> {
        let changed = |(path, source)| GuardError::Changed { path, source };
        let connector =
            rules.sockets.as_ref().map(|sockets| Connector::new(sockets, assumptions.own_network));
        let connector = connector.transpose().map_err(changed)?;
        let watched = (rules.names() || !rules.covered.is_empty()).then(FolderWatch::new);
        Ok(Guard {
            absent: ProtectedPaths::new(&rules.protected).map_err(changed)?,
            standing: ProtectedPaths::new(&rules.standing).map_err(changed)?,
            rewritten: ProtectedPaths::new(&rules.rewritten).map_err(changed)?,
            folders: watched.transpose().map_err(|error| GuardError::Watch(error.into()))?,
            connector,
            covered: None,
            one_root: assumptions.one_root,
            started: Instant::now(),
            helper: None,
        })
    }

    /// Has a helper go on where the guard's rights end, because there are several users inside.
    pub fn help(&mut self, helper: OwnedFd) {
        self.helper = Some(helper);
    }

    /// Has these paths stay absent in a sandbox with this root, which init has handed over.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn keep_in_root(&mut self, findings: &[Finding], root: OwnedFd) -> Result<(), GuardError> {
        self.absent.add_in_root(findings, root).map_err(|error| GuardError::Start(error.into()))
    }

    /// Has the names that `rules` hide or keep covered again when the host replaces them, in these namespaces, with what
    /// is in this store.
    pub fn cover(&mut self, rules: Rules, namespaces: Namespaces, store: OwnedFd) {
        self.covered = Some(Covered::new(rules, namespaces, store));
    }

    /// Answers the calls that `listener` receives and watches over the names, on a thread, until
    /// [`GuardHandle::finish`]; calls made before wait. `end` is called when a rule was broken and must end the sandbox;
    /// it may be called more than once.
    ///
    /// # Errors
    /// When there is no thread to be had, or folders cannot be watched. The listener is closed then, and every call
    /// that waits for it fails.
    pub fn serve(
        self,
        listener: Option<OwnedFd>,
        end: impl FnMut() + Send + 'static,
    ) -> Result<GuardHandle, GuardError> {
        let start = |error: Errno| GuardError::Start(error.into());
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).map_err(start)?;
        let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 3).map_err(start)?;
        let record = Arc::new(Mutex::new(Violations::default()));
        let (over, ended) = sync_channel(1);
        let listener = listener.map(Listener::new);
        let made_names = Arc::new(AtomicBool::new(false));
        let made = Arc::clone(&made_names);
        let duty =
            Duty { record: record.clone(), end, watch: AbsentWatch::of_a_run_that_starts(), broken: false };
        let service = Service { guard: self, listener, stopped, made, duty };
        let _unheard = SignalsBlocked::new();
        let thread = std::thread::Builder::new().name("guard".into()).stack_size(256 * 1024);
        let thread = thread.spawn(move || {
            let folders = service.run();
            let _ = over.send(());
            // Last, because it may take milliseconds and nobody has to wait for it.
            drop(folders);
        });
        thread.map_err(GuardError::Start)?;
        Ok(GuardHandle { stop, end: Some(ended), record, made_names })
    }
}

impl GuardHandle {
    /// What was tried so far.
    #[must_use]
    pub fn violations(&self) -> Violations {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a call was let go on that may have made a name: which one, the caller could have changed since.
    #[must_use]
    pub fn made_names(&self) -> bool {
        self.made_names.load(Ordering::Acquire)
    }

    /// Stops the guard, when nothing of the sandbox is left: looks at every protected path once more, and tells all
    /// that was tried.
    #[must_use]
    pub fn finish(mut self) -> Violations {
        self.stop();
        self.violations()
    }

    fn stop(&mut self) {
        let Some(end) = self.end.take() else { return };
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        let why = match end.recv_timeout(PATIENCE) {
            Ok(()) => return,
            Err(RecvTimeoutError::Timeout) => "a file system that it had to check does not respond",
            Err(RecvTimeoutError::Disconnected) => "its thread panicked",
        };
        add(&self.record, Violation::GuardFailed { why: why.into() });
    }
}

impl Drop for GuardHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the guard's thread owns.
struct Service<E> {
    guard: Guard,
    listener: Option<Listener>,
    stopped: OwnedFd,
    /// Whether a call was let go on that may have made a name.
    made: Arc<AtomicBool>,
    duty: Duty<E>,
}

impl<E: FnMut()> Service<E> {
    /// Serves until it is told to stop. Returns what may be slow to be dropped.
    fn run(self) -> Option<FolderWatch> {
        drop_capabilities();
        let Service { mut guard, listener, stopped, made, mut duty } = self;
        as_root::use_helper(guard.helper.take());
        let Guard { absent, standing, rewritten, started, .. } = guard;
        let Guard { mut folders, mut connector, mut covered, one_root, .. } = guard;
        let grounds = judge::Grounds { absent: &absent, standing: &standing, rewritten: &rewritten };
        let mut judge = listener.as_ref().map(|listener| Judge::new(grounds, listener, one_root));
        let mut hears = listener.as_ref();
        loop {
            let mut until = None;
            if let (Some(folders), Some(covered)) =
                (&mut folders, covered.as_mut().filter(|covered| !covered.is_watched()))
            {
                // Not for a command that is gone again in a moment: to take watches away costs milliseconds.
                let begin = started + SHORT_RUN;
                match begin.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => until = Some(left),
                    _ => duty.note(covered.begin(folders)),
                }
            }
            let Ok(ready) = wait(hears, folders.as_ref(), &stopped, connector.as_ref(), until) else { break };
            // First, so that a name that was just replaced, or a rule that was just broken, is mended before anything
            // else goes on.
            if let Some(folders) = folders.as_mut().filter(|_| ready.folders) {
                duty.see(folders.happened(), &absent, folders, covered.as_mut());
            }
            if ready.stopped {
                // Nothing inside is left that could make anything more.
                if let Some(folders) = folders.as_mut().filter(|_| duty.watch.has_begun()) {
                    duty.mend(0..absent.paths().len(), &absent, folders);
                }
                break;
            }
            let Some(listener) = hears else { continue };
            if let Some(connector) = &mut connector {
                connector.go_on(listener);
            }
            if ready.call {
                match listener.receive() {
                    Ok(notification) => {
                        let call = Call::of(&notification);
                        let makes_a_name = call.is_some_and(Call::makes_a_name);
                        made.fetch_or(makes_a_name, Ordering::Release);
                        if let Some(folders) = folders.as_mut().filter(|_| !duty.watch.has_begun())
                            && makes_a_name
                        {
                            duty.begin(&absent, folders, covered.as_mut());
                        }
                        let answer = match (call, &mut connector, &mut judge) {
                            _ if duty.broken => Some(Answer::Refuse(libc::EACCES)),
                            (Some(Call::Connect(address)), Some(connector), _) => {
                                connect(connector, listener, &duty.record, &notification, address)
                            }
                            (Some(Call::Listen(socket)), Some(connector), _) => {
                                connector.listens(listener, &notification, socket);
                                Some(Answer::Continue)
                            }
                            (Some(Call::Pair(pair)), ..) => {
                                let caller = caller::Caller::new(notification.pid);
                                Some(pairs::make(listener, notification.id, caller, pair))
                            }
                            (Some(call), _, Some(judge)) => {
                                Some(decide(judge, &duty.record, &notification, call))
                            }
                            _ => Some(Answer::Refuse(libc::ENOSYS)),
                        };
                        if let Some(answer) = answer {
                            let _ = listener.answer(notification.id, answer);
                        }
                    }
                    Err(Errno::NOENT | Errno::INTR) => {}
                    Err(_) => hears = None,
                }
            } else if ready.hung_up {
                hears = None;
            }
        }
        folders
    }
}

/// What the guard owes its sandbox's caller: that rules hold, or the sandbox ends, and that it is told.
struct Duty<E> {
    record: Arc<Mutex<Violations>>,
    end: E,
    watch: AbsentWatch,
    /// Whether the sandbox was ended; nothing goes on from then on.
    broken: bool,
}

impl<E: FnMut()> Duty<E> {
    /// Places the watches over absent names. What the host has made at one already is covered where the rule hides it; all
    /// else is mended.
    fn begin(&mut self, absent: &ProtectedPaths, folders: &mut FolderWatch, covered: Option<&mut Covered>) {
        if let Err(error) = self.watch.begin(absent, folders) {
            return self.fail(GuardError::Watch(error.into()).to_string());
        }
        if let Some(covered) = covered {
            let (hidden, mut left) = (covered.hidden(), false);
            for (path, guarded) in absent.paths().iter().enumerate() {
                left |= hidden.contains(&*guarded.protected.path()) && self.watch.leave(absent, path);
            }
            // Before the first name is made: from then on the sandbox could write what is not covered.
            if left && !covered.is_watched() {
                self.note(covered.begin(folders));
            }
        }
        self.mend(0..absent.paths().len(), absent, folders);
    }

    /// Sees to what appeared in the watched folders.
    fn see(
        &mut self,
        happened: Happened,
        absent: &ProtectedPaths,
        folders: &mut FolderWatch,
        covered: Option<&mut Covered>,
    ) {
        let (paths, names): (Vec<usize>, Option<BTreeSet<usize>>) = match happened {
            Happened::Unknown => ((0..absent.paths().len()).collect(), None),
            Happened::To(subscribers) => {
                let (mut paths, mut names) = (Vec::new(), BTreeSet::new());
                for subscriber in subscribers {
                    match subscriber {
                        Subscriber::Absent(path) => paths.push(path),
                        Subscriber::Covered(name) => drop(names.insert(name)),
                    }
                }
                (paths, Some(names))
            }
        };
        if let Some(covered) = covered {
            self.note(covered.happened(folders, names.as_ref()));
        }
        if self.watch.has_begun() {
            self.mend(paths, absent, folders);
        }
    }

    /// Mends these absent paths where they are broken; the sandbox is ended then.
    fn mend(
        &mut self,
        paths: impl IntoIterator<Item = usize>,
        absent: &ProtectedPaths,
        folders: &mut FolderWatch,
    ) {
        for path in paths {
            if let Some(mended) = self.watch.mend(absent, path, folders, &mut self.end) {
                self.broken = true;
                let protected = &absent.paths()[path].protected;
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
                    self.broken = true;
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
        self.broken = true;
        (self.end)();
        add(&self.record, Violation::GuardFailed { why });
    }
}

/// Answers a call that makes a name, and records a refusal.
fn decide(judge: &mut Judge, record: &Mutex<Violations>, notification: &Notification, call: Call) -> Answer {
    match judge.judge(notification, call) {
        Ruling::Continue => Answer::Continue,
        Ruling::Done => Answer::Done,
        Ruling::Refuse { errno, protected } => {
            let (path, rule) = (protected.map(Protected::path), protected.map(|it| it.rule.to_string()));
            // Of a datagram socket nobody needs to hear: most are made to write to the system's log.
            // And what the kernel said of a mode is the caller's business. A question tries nothing.
            if !matches!(call, Call::Socket(_) | Call::Chmod { .. } | Call::Ask(_)) {
                let rule = rule.unwrap_or_default();
                add(record, Violation::Refused { call: call.name(), path, rule, times: 1 });
            }
            Answer::Refuse(errno)
        }
    }
}

/// Connects on a caller's behalf, and records a refusal. Without an answer the call still waits for its peer.
fn connect(
    connector: &mut Connector,
    listener: &Listener,
    record: &Mutex<Violations>,
    notification: &Notification,
    address: calls::Address,
) -> Option<Answer> {
    match connector.connect(listener, notification, address) {
        connect::Outcome::Answered(answer) => Some(answer),
        connect::Outcome::Waits => None,
        connect::Outcome::Refused(path) => {
            let rule = "network.allow_unix_sockets does not list it".to_owned();
            add(record, Violation::Refused { call: "connect", path: Some(path), rule, times: 1 });
            Some(Answer::Refuse(libc::EACCES))
        }
    }
}

fn add(record: &Mutex<Violations>, violation: Violation) {
    record.lock().unwrap_or_else(PoisonError::into_inner).add(violation);
}

struct Ready {
    call: bool,
    hung_up: bool,
    folders: bool,
    stopped: bool,
}

/// Waits for something to do. A listener that hung up is not passed any more: it would always be ready.
fn wait(
    listener: Option<&Listener>,
    folders: Option<&FolderWatch>,
    stopped: &OwnedFd,
    connector: Option<&Connector>,
    until: Option<Duration>,
) -> Result<Ready, Errno> {
    let mut fds = Vec::with_capacity(8);
    fds.push(PollFd::new(stopped, PollFlags::IN));
    fds.extend(folders.map(|folders| PollFd::from_borrowed_fd(folders.as_fd(), PollFlags::IN)));
    let listener_at = fds.len();
    fds.extend(listener.map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)));
    let waits = connector.filter(|connector| connector.any_waits());
    if let Some(connector) = waits {
        connector.register(&mut fds);
    }
    loop {
        let limit = until.into_iter().chain(waits.map(|_| connect::PATIENCE)).min().map(timespec);
        match rustix::event::poll(&mut fds, limit.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let of = |at: usize| fds.get(at).map_or(PollFlags::empty(), PollFd::revents);
    let of_listener = if listener.is_some() { of(listener_at) } else { PollFlags::empty() };
    Ok(Ready {
        call: of_listener.contains(PollFlags::IN),
        hung_up: of_listener.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        folders: folders.is_some() && !of(1).is_empty(),
        stopped: !of(0).is_empty(),
    })
}

/// What the guard does on a caller's behalf it may do with the caller's own rights and no more: a thread of root's would
/// otherwise pass permissions that hold for root's sandbox. It still may look into the sandbox, because its user owns
/// the sandbox's user namespace.
fn drop_capabilities() {
    // The kernel's third layout: two words each of effective, permitted and inheritable.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    let none = [0u32; 6];
    // SAFETY: a header and a data structure of this version; without the C library's wrapper only this thread changes.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
}
