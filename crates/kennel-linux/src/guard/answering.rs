//! The thread that answers calls. Each answer has a bounded cost ([`super::walk`]); what it still takes holds up other
//! calls of this sandbox, and nothing else.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::caller::Caller;
use super::calls::{Address, Call};
use super::connect::{self, Connector};
use super::denials::{CallWatch, is_only_looked_at};
use super::judge::{Grounds, Judge, Ruling};
use super::listener::{Answer, Listener, Notification};
use super::mending::{self, Mending};
use super::obeyed::Obeyed;
use super::protected_paths::ProtectedPaths;
use super::repositories::SharedRepositories;
use super::{Violation, Violations, add, pairs};
use crate::clock::timespec;
use crate::resolve::guard_rules::Protected;

/// What the thread owns.
pub(super) struct Answering {
    /// There where it is to be told why calls fail.
    pub(super) watch: Option<CallWatch>,
    pub(super) absent: Arc<ProtectedPaths>,
    pub(super) standing: ProtectedPaths,
    pub(super) rewritten: ProtectedPaths,
    pub(super) obeyed: Option<Obeyed>,
    pub(super) repositories: SharedRepositories,
    pub(super) one_root: bool,
    pub(super) listener: Listener,
    pub(super) connector: Option<Connector>,
    pub(super) stopped: OwnedFd,
    pub(super) record: Arc<Mutex<Violations>>,
    /// Whether a call was let go on that may have made a name.
    pub(super) made: Arc<AtomicBool>,
    /// Whether the sandbox was ended; nothing goes on from then on.
    pub(super) broken: Arc<AtomicBool>,
    /// There where names have to be watched.
    pub(super) mending: Option<Arc<Mutex<Mending>>>,
}

impl Answering {
    /// Answers until nobody is left who could call, and ends when it is told to.
    pub(super) fn serve(self) {
        let Answering { absent, standing, rewritten, obeyed, one_root, listener, .. } = self;
        let Answering {
            mut repositories,
            mut connector,
            mut watch,
            stopped,
            record,
            made,
            broken,
            mending,
            ..
        } = self;
        let obeyed = obeyed.as_ref();
        let grounds = Grounds { absent: &absent, standing: &standing, rewritten: &rewritten, obeyed };
        let mut judge = Judge::new(grounds, &listener, one_root);
        // Whether names are watched, or need not be.
        let mut watched = mending.is_none();
        while let Ok(ready) = wait(&listener, &stopped, connector.as_ref()) {
            if ready.stopped {
                break;
            }
            if let Some(connector) = &mut connector {
                connector.go_on(&listener);
            }
            if !ready.call {
                // Nobody is left who could call, or whose connect could wait.
                if ready.hung_up {
                    break;
                }
                continue;
            }
            let notification = match listener.receive() {
                Ok(notification) => notification,
                Err(Errno::NOENT | Errno::INTR) => continue,
                Err(_) => break,
            };
            let call = Call::of(&notification);
            let makes_a_name = call.is_some_and(Call::makes_a_name);
            made.fetch_or(makes_a_name, Ordering::Release);
            if let Some(mending) = mending.as_ref().filter(|_| makes_a_name && !watched) {
                mending::lock(mending).begin_absent();
                watched = true;
            }
            let only_looked_at =
                watch.is_some() && is_only_looked_at(&notification, !repositories.is_empty());
            let answer = match (call, &mut connector) {
                _ if broken.load(Ordering::Acquire) => Some(Answer::Refuse(libc::EACCES)),
                _ if only_looked_at => Some(Answer::Continue),
                (Some(Call::Connect(address)), Some(connector)) => {
                    connect(connector, &listener, &record, &notification, address)
                }
                (Some(Call::Listen(socket)), Some(connector)) => {
                    connector.listens(&listener, &notification, socket);
                    Some(Answer::Continue)
                }
                (Some(Call::Pair(pair)), _) => {
                    let caller = Caller::new(notification.pid);
                    Some(pairs::make(&listener, notification.id, caller, pair))
                }
                (Some(call), _) => {
                    let made = repositories.perform(&listener, &record, &notification, call);
                    Some(made.unwrap_or_else(|| decide(&mut judge, &record, &notification, call)))
                }
                (None, _) => Some(Answer::Refuse(libc::ENOSYS)),
            };
            if let (Some(watch), Some(Answer::Continue)) = (&mut watch, answer) {
                watch.look(&listener, &notification);
            }
            if let Some(answer) = answer {
                let _ = listener.answer(notification.id, answer);
            }
        }
        // Nobody waits for an answer any more. A helper that covers names, if it was started here, ends with this thread.
        drop((listener, connector));
        let mut stop = [PollFd::new(&stopped, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut stop, None));
        // Nothing inside is left that could make anything more.
        repositories.remove_locks();
    }
}

/// Answers a call that makes a name, and records a refusal.
fn decide(judge: &mut Judge, record: &Mutex<Violations>, notification: &Notification, call: Call) -> Answer {
    match judge.judge(notification, call) {
        Ruling::Continue => Answer::Continue,
        Ruling::Done => Answer::Done,
        Ruling::Refuse { errno, protected } => {
            let rule = protected.as_ref().map(|it| it.rule.to_string());
            let path = protected.as_deref().map(Protected::path);
            // Of a datagram socket nobody needs to hear: most are made to write to the system's log.
            // And what the kernel said of a mode is the caller's business. A question tries nothing, and of a path with no
            // end it is not known what it tries.
            let is_told = !matches!(call, Call::Socket(_) | Call::Chmod { .. } | Call::Ask(_));
            if is_told && errno != libc::ELOOP {
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
    address: Address,
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

struct Ready {
    call: bool,
    hung_up: bool,
    stopped: bool,
}

/// Waits for something to do.
fn wait(listener: &Listener, stopped: &OwnedFd, connector: Option<&Connector>) -> Result<Ready, Errno> {
    let mut fds = Vec::with_capacity(8);
    fds.push(PollFd::new(stopped, PollFlags::IN));
    fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
    let waits = connector.filter(|connector| connector.any_waits());
    if let Some(connector) = waits {
        connector.register(&mut fds);
    }
    let until = waits.map(|_| timespec(connect::PATIENCE));
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, until.as_ref()))?;
    let (stop, listener) = (fds[0].revents(), fds[1].revents());
    Ok(Ready {
        call: listener.contains(PollFlags::IN),
        hung_up: listener.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        stopped: !stop.is_empty(),
    })
}
