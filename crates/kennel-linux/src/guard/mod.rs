//! The guard: rules that have nothing to mount on and nothing to point Landlock at.
//!
//! A protected path that does not exist yet, a unix socket that is listed by its path. For these, and only when a policy
//! has such a rule, the seccomp filter sends the few calls concerned to the controller ([`filter_rules`]), and a thread
//! of it answers: [`Guard::serve`]. The thread starts with the first of these calls ([`crate::supervise`]). Nothing is placed on the host's disk for any of this.
//!
//! The guard reads a path's last component first and lets everything else go on at once. What bears a protected name
//! is resolved as the caller would resolve it ([`walk`]) and refused with EROFS, the error that an existing protected
//! path gives. Because the caller can change its memory after the guard's look, the folders are also watched
//! ([`watch`]): a name that appears all the same is taken away at once, recorded, and ends the sandbox. A connect is
//! not let go on at all, but made on the caller's behalf ([`connect`]): there is no race to win.

pub mod caller;
pub mod calls;
pub mod connect;
pub mod filter;
pub mod ground;
pub mod judge;
pub mod listener;
mod own;
mod rewrite;
pub mod rules;
mod violation;
pub mod walk;
pub mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;

pub use filter::{Additions, filter_rules};
pub use rules::{AllowedSocket, Anchor, Finding, Premises, Protected, Rules, Sockets};
pub use violation::{Violation, Violations};
pub use watch::Mended;

use calls::Call;
use connect::Connector;
use ground::Ground;
use judge::{Judge, Ruling};
use listener::{Answer, Listener, Notification};
use watch::Watch;

/// How the plan calls the descriptor that hears of the filter's notifications. The doors of a network have small numbers.
pub const LISTENER: u32 = u32::MAX;

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
         help: raise fs.inotify.max_user_instances and fs.inotify.max_user_watches (sysctl), or end other sandboxes"
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
}

/// A guard that has taken hold of its paths, and whose thread does not run yet.
#[derive(Debug)]
pub struct Guard {
    ground: Ground,
    rewritten: Ground,
    connector: Option<Connector>,
    one_root: bool,
}

impl Guard {
    /// Takes hold of the paths that `rules` speak of.
    ///
    /// # Errors
    /// When a path is not what it was when the rules were made.
    pub fn new(rules: &Rules, premises: Premises) -> Result<Guard, GuardError> {
        let changed = |(path, source)| GuardError::Changed { path, source };
        let connector = rules.sockets.as_ref().map(|sockets| Connector::new(sockets, premises.own_network));
        let connector = connector.transpose().map_err(changed)?;
        let ground = Ground::new(&rules.protected).map_err(changed)?;
        let rewritten = Ground::new(&rules.rewritten).map_err(changed)?;
        Ok(Guard { ground, rewritten, connector, one_root: premises.one_root })
    }

    /// Answers the calls that `listener` receives, on a thread, until [`GuardHandle::finish`]; calls made before wait.
    /// `end` is called when a rule was broken and must end the sandbox; it may be called more than once.
    ///
    /// # Errors
    /// When there is no thread to be had, or folders cannot be watched. The listener is closed then, and every call
    /// that waits for it fails.
    pub fn serve(
        self,
        listener: OwnedFd,
        end: impl FnMut() + Send + 'static,
    ) -> Result<GuardHandle, GuardError> {
        let start = |error: Errno| GuardError::Start(error.into());
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).map_err(start)?;
        let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 3).map_err(start)?;
        let record = Arc::new(Mutex::new(Violations::default()));
        let (over, ended) = sync_channel(1);
        let Guard { ground, rewritten, connector, one_root } = self;
        let watch = Watch::new(&ground).map_err(|error| GuardError::Watch(error.into()))?;
        let listener = Listener::new(listener);
        let told = record.clone();
        let service =
            Service { listener, ground, rewritten, one_root, watch, connector, stopped, record: told, end };
        let _unheard = SignalsBlocked::new();
        let thread = std::thread::Builder::new().name("guard".into()).stack_size(256 * 1024);
        let thread = thread.spawn(move || {
            let watch = service.run();
            let _ = over.send(());
            // Last, because it takes milliseconds and nobody has to wait for it.
            drop(watch);
        });
        thread.map_err(GuardError::Start)?;
        Ok(GuardHandle { stop, end: Some(ended), record })
    }
}

impl GuardHandle {
    /// What was tried so far.
    #[must_use]
    pub fn violations(&self) -> Violations {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
            Err(RecvTimeoutError::Timeout) => "a file system that it had to look at does not answer",
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
    listener: Listener,
    ground: Ground,
    rewritten: Ground,
    one_root: bool,
    watch: Watch,
    connector: Option<Connector>,
    stopped: OwnedFd,
    record: Arc<Mutex<Violations>>,
    end: E,
}

impl<E: FnMut()> Service<E> {
    /// Serves until it is told to stop. Returns what is slow to be dropped.
    fn run(self) -> Watch {
        let Service { listener, ground, rewritten, one_root, watch, connector, stopped, record, end } = self;
        let (mut watch, mut connector, mut end) = (watch, connector, end);
        let mut judge = Judge::new(&ground, &rewritten, &listener, one_root);
        let mut broken = false;
        let mut listening = true;
        while let Ok(ready) = wait(&listener, &watch, &stopped, listening, connector.as_ref()) {
            // First, so that a rule that was just broken is mended before anything else goes on.
            let happened = if ready.stopped && watch.has_begun() {
                (0..ground.paths().len()).collect()
            } else if ready.watch {
                watch.happened(&ground)
            } else {
                Default::default()
            };
            broken |= mend(&mut watch, &ground, &record, happened, &mut end);
            if ready.stopped {
                break;
            }
            if let Some(connector) = &mut connector {
                connector.go_on(&listener);
            }
            if ready.call {
                match listener.receive() {
                    Ok(notification) => {
                        let call = Call::of(&notification);
                        if call.is_some_and(Call::makes_a_name) && !watch.has_begun() {
                            broken |= begin(&mut watch, &ground, &record, &mut end);
                        }
                        let answer = match (call, &mut connector) {
                            _ if broken => Some(Answer::Refuse(libc::EACCES)),
                            (Some(Call::Connect(address)), Some(connector)) => {
                                connect(connector, &listener, &record, &notification, address)
                            }
                            (Some(Call::Listen(socket)), Some(connector)) => {
                                connector.listens(&listener, &notification, socket);
                                Some(Answer::Continue)
                            }
                            (Some(call), _) => Some(decide(&mut judge, &record, &notification, call)),
                            (None, _) => Some(Answer::Refuse(libc::ENOSYS)),
                        };
                        if let Some(answer) = answer {
                            let _ = listener.answer(notification.id, answer);
                        }
                    }
                    Err(Errno::NOENT | Errno::INTR) => {}
                    Err(_) => listening = false,
                }
            } else if ready.hung_up {
                listening = false;
            }
        }
        watch
    }
}

/// Places the watches; whatever stands at a protected path already is mended. Returns whether the sandbox was ended.
fn begin(watch: &mut Watch, ground: &Ground, record: &Mutex<Violations>, end: &mut impl FnMut()) -> bool {
    if let Err(error) = watch.begin(ground) {
        end();
        let why = GuardError::Watch(error.into()).to_string();
        add(record, Violation::GuardFailed { why });
        return true;
    }
    mend(watch, ground, record, (0..ground.paths().len()).collect(), end)
}

/// Mends these paths where they are broken. Returns whether any was; then the sandbox was ended.
fn mend(
    watch: &mut Watch,
    ground: &Ground,
    record: &Mutex<Violations>,
    paths: BTreeSet<usize>,
    end: &mut impl FnMut(),
) -> bool {
    let mut broken = false;
    for path in paths {
        if let Some(mended) = watch.mend(ground, path) {
            broken = true;
            end();
            let protected = &ground.paths()[path].protected;
            add(
                record,
                Violation::Broken { path: protected.path(), rule: protected.rule.to_string(), mended },
            );
        }
    }
    broken
}

/// Answers a call that makes a name, and records a refusal.
fn decide(judge: &mut Judge, record: &Mutex<Violations>, notification: &Notification, call: Call) -> Answer {
    match judge.judge(notification, call) {
        Ruling::Continue => Answer::Continue,
        Ruling::Done => Answer::Done,
        Ruling::Refuse { errno, protected } => {
            let (path, rule) = (protected.map(Protected::path), protected.map(|it| it.rule.to_string()));
            // Of a datagram socket nobody needs to hear: most are made to write to the system's log.
            if !matches!(call, Call::Socket(_)) {
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
    watch: bool,
    stopped: bool,
}

fn wait(
    listener: &Listener,
    watch: &Watch,
    stopped: &OwnedFd,
    listening: bool,
    connector: Option<&Connector>,
) -> Result<Ready, Errno> {
    let mut fds = Vec::with_capacity(8);
    fds.extend([PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN), PollFd::new(stopped, PollFlags::IN)]);
    // One that hung up is always ready, and would keep this loop spinning.
    if listening {
        fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
    }
    let waits = connector.filter(|connector| connector.any_waits());
    if let Some(connector) = waits {
        connector.register(&mut fds);
    }
    loop {
        match rustix::event::poll(&mut fds, waits.map(|_| &connect::PATIENCE)) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let of = |at: usize| fds.get(at).map_or(PollFlags::empty(), PollFd::revents);
    let of_listener = if listening { of(2) } else { PollFlags::empty() };
    Ok(Ready {
        call: of_listener.contains(PollFlags::IN),
        hung_up: of_listener.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        watch: !of(0).is_empty(),
        stopped: !of(1).is_empty(),
    })
}

/// Keeps a program's signals away from a thread that is started meanwhile.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> SignalsBlocked {
        // SAFETY: both sets are local; the call only changes this thread's mask.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
