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
//!
//! Names are watched and mended on one thread (`mending`) and calls are answered on another (`answering`): how long an
//! answer takes, the sandbox has a say in.

mod answering;
mod as_root;
pub mod bases;
pub mod caller;
pub mod calls;
pub mod connect;
pub mod covered;
pub mod denials;
pub mod filter;
pub mod folders;
pub mod judge;
pub mod listener;
mod locks;
pub mod mender;
mod mending;
mod modes;
pub mod obeyed;
pub mod on_host;
pub mod outer;
mod own;
pub mod pairs;
pub mod path_calls;
mod permission;
pub mod protected_paths;
mod repositories;
mod rewrite;
pub mod trail;
mod wake;
pub mod walk;
pub mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys::signals::SignalsBlocked;

pub use crate::resolve::guard_rules::{
    AllowedSocket, Anchor, Asks, CoveredName, Explained, Finding, GuardAssumptions, Protected, Rules, Sockets,
};
pub use filter::filter_rules;
pub use kennel_policy::outcome::{Denials, Mended, Violation, Violations};
pub use mender::Namespaces;

use answering::Answering;
use as_root::SharedHelper;
use connect::Connector;
use covered::Covered;
use denials::{CallWatch, Layout, Suspects};
use folders::FolderWatch;
pub use folders::SHORT_RUN;
use listener::Listener;
use mending::Mending;
use obeyed::Obeyed;
use protected_paths::ProtectedPaths;
use repositories::SharedRepositories;

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
    /// Tells of each thread that it is through; taken when all are.
    end: Option<Receiver<()>>,
    threads: usize,
    record: Arc<Mutex<Violations>>,
    made_names: Arc<AtomicBool>,
    explained: Option<Explaining>,
}

/// What is noted of calls that fail, and what it is explained by.
#[derive(Clone, Debug)]
struct Explaining {
    every_call: bool,
    layout: Arc<Layout>,
    suspects: Arc<Mutex<Suspects>>,
}

/// A guard that has taken hold of its paths, and whose thread does not run yet.
#[derive(Debug)]
pub struct Guard {
    absent: Arc<ProtectedPaths>,
    standing: ProtectedPaths,
    rewritten: ProtectedPaths,
    obeyed: Option<Obeyed>,
    /// There where names have to be watched.
    folders: Option<FolderWatch>,
    connector: Option<Connector>,
    covered: Option<Covered>,
    repositories: SharedRepositories,
    one_root: bool,
    own_mounts: bool,
    explained: Option<Explained>,
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
            absent: ProtectedPaths::new(&rules.protected).map_err(changed)?.into(),
            standing: ProtectedPaths::new(&rules.standing).map_err(changed)?,
            rewritten: ProtectedPaths::new(&rules.rewritten).map_err(changed)?,
            obeyed: rules.obeyed.clone().map(Obeyed::new),
            folders: watched.transpose().map_err(|error| GuardError::Watch(error.into()))?,
            connector,
            covered: None,
            repositories: SharedRepositories::new(&rules.repositories).map_err(changed)?,
            one_root: assumptions.one_root,
            own_mounts: assumptions.own_mounts,
            explained: rules.explained.clone(),
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
        let absent = Arc::get_mut(&mut self.absent);
        let absent = absent.ok_or_else(|| GuardError::Start(io::ErrorKind::ResourceBusy.into()))?;
        absent.add_in_root(findings, root).map_err(|error| GuardError::Start(error.into()))
    }

    /// Has the names that `rules` hide or keep covered again when the host replaces them, in these namespaces, with what
    /// is in this store.
    pub fn cover(&mut self, rules: Rules, namespaces: Namespaces, store: OwnedFd) {
        let mut seen = HashSet::new();
        let anchors = self.absent.anchors().chain(self.standing.anchors());
        let anchors = anchors.filter(|(anchor, _)| seen.insert(&anchor.path));
        let anchors = anchors.map(|(anchor, folder)| (Arc::clone(anchor), Arc::clone(folder))).collect();
        self.covered = Some(Covered::new(rules, anchors, namespaces, store));
    }

    /// Answers the calls that `listener` receives and watches over the names, on a thread each, until
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
        let Guard { absent, standing, rewritten, obeyed, folders, .. } = self;
        let Guard { connector, covered, repositories, one_root, own_mounts, started, helper, .. } = self;
        let explained = self.explained.map(|Explained { every_call, points }| Explaining {
            every_call,
            layout: Arc::new(Layout::new(points)),
            suspects: Arc::default(),
        });
        let record = Arc::new(Mutex::new(Violations::default()));
        let made_names = Arc::new(AtomicBool::new(false));
        let broken = Arc::new(AtomicBool::new(false));
        let helper = SharedHelper::new(helper);
        let (over, ended) = sync_channel(2);
        let mut handle = GuardHandle {
            stop,
            end: Some(ended),
            threads: 0,
            record,
            made_names,
            explained: explained.clone(),
        };
        let stopped = rustix::io::fcntl_dupfd_cloexec(&handle.stop, 3).map_err(start)?;
        let _unheard = SignalsBlocked::new();
        let mending = match folders {
            Some(folders) => {
                let (record, broken) = (handle.record.clone(), broken.clone());
                let mending = Mending::new(absent.clone(), folders, covered, started, record, broken, end);
                let mending = Arc::new(Mutex::new(mending));
                let stopped = rustix::io::fcntl_dupfd_cloexec(&stopped, 3).map_err(start)?;
                let (shared, helper) = (mending.clone(), helper.clone());
                thread("guard-names", over.clone(), move || {
                    as_root::use_helper(helper);
                    mending::serve(&shared, &stopped)
                })?;
                handle.threads += 1;
                Some(mending)
            }
            None => None,
        };
        if let Some(listener) = listener.map(Listener::new) {
            let watch = explained.map(|Explaining { every_call, layout, suspects }| {
                CallWatch::new(every_call, layout, own_mounts, suspects)
            });
            let answering = Answering {
                watch,
                absent,
                standing,
                rewritten,
                obeyed,
                repositories,
                one_root,
                listener,
                connector,
                stopped,
                record: handle.record.clone(),
                made: handle.made_names.clone(),
                broken,
                mending,
            };
            thread("guard", over, move || {
                as_root::use_helper(helper);
                answering.serve();
            })?;
            handle.threads += 1;
        }
        Ok(handle)
    }
}

/// Starts a thread of the guard, which tells when it is `over`. What it returns may be slow to be dropped.
fn thread<T>(
    name: &str,
    over: SyncSender<()>,
    serve: impl FnOnce() -> T + Send + 'static,
) -> Result<(), GuardError> {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(256 * 1024);
    let thread = thread.spawn(move || {
        drop_capabilities();
        let left = serve();
        let _ = over.send(());
        // Last, because it may take milliseconds and nobody has to wait for it.
        drop(left);
    });
    thread.map(drop).map_err(GuardError::Start)
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

    /// What the command could not do with files. Stops the guard first, as [`GuardHandle::finish`] does.
    #[must_use]
    pub fn denials(&mut self) -> Denials {
        self.stop();
        let Some(Explaining { every_call, layout, suspects }) = self.explained.take() else {
            return Denials::default();
        };
        let suspects = std::mem::take(&mut *suspects.lock().unwrap_or_else(PoisonError::into_inner));
        on_host::denials(suspects, layout, every_call)
    }

    fn stop(&mut self) {
        let Some(end) = self.end.take() else { return };
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        let until = Instant::now() + PATIENCE;
        for _ in 0..self.threads {
            let why = match end.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(()) => continue,
                Err(RecvTimeoutError::Timeout) => "a file system that it had to check does not respond",
                Err(RecvTimeoutError::Disconnected) => "its thread panicked",
            };
            return add(&self.record, Violation::GuardFailed { why: why.into() });
        }
    }
}

impl Drop for GuardHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

fn add(record: &Mutex<Violations>, violation: Violation) {
    record.lock().unwrap_or_else(PoisonError::into_inner).add(violation);
}

/// What the guard does on a caller's behalf it may do with the caller's own rights and no more: a thread of root's would
/// otherwise pass permissions that hold for root's sandbox. It still may look into the sandbox, because its user owns
/// the sandbox's user namespace.
fn drop_capabilities() {
    let none = CapabilitySet::empty();
    // Only this thread's change.
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let _ = rustix::thread::set_capabilities(None, none);
}
