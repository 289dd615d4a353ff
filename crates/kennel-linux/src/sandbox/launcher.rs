//! How PID 1 is made, and what is around it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kennel_init::child::InheritedMemory;

use crate::launch::{self, Init, Launch, LaunchError, copy::Surroundings};
use crate::sys::signals::SignalSet;

/// How PID 1 is made.
pub struct Birth {
    memory: Option<InheritedMemory>,
    /// Whether everything that this process inherits is the sandbox's.
    adopts: bool,
}

impl Birth {
    /// It is a program of its own, and holds nothing of this process's memory. For callers of any size and number of
    /// threads.
    #[must_use]
    pub fn program() -> Birth {
        Birth { memory: None, adopts: false }
    }

    /// The same for a process that has no other children: without a PID namespace it inherits what the sandbox leaves, and
    /// ends it.
    #[must_use]
    pub fn only_child() -> Birth {
        Birth { memory: None, adopts: true }
    }

    /// It is a clone of this process, which is the quicker way.
    #[must_use]
    pub fn copy(memory: InheritedMemory) -> Birth {
        Birth { memory: Some(memory), adopts: true }
    }
}

/// Makes PID 1, with what is around it.
pub(super) struct Launcher {
    pub(super) birth: Birth,
    /// Whether its streams are this process's own.
    pub(super) attached: bool,
    /// What it gets for standard streams, where they are not this process's; the first that there is.
    pub(super) ends: [Option<OwnedFd>; 3],
    pub(super) given: Option<[OwnedFd; 3]>,
    /// Whether it is going to lead a session, which is to have a terminal.
    pub(super) session: bool,
    /// The descriptors that the command is to keep.
    pub(super) keep: Vec<i32>,
}

impl Launcher {
    pub(super) fn launch(&self, how: &Launch) -> Result<Init, LaunchError> {
        if self.adopts_orphans() && how.namespaces == 0 {
            adopt_orphans();
        }
        match self.birth.memory {
            Some(memory) => launch::copy::launch(how, memory, self.around()),
            None => self.launch_program(how),
        }
    }

    /// Whether everything that this process inherits is the sandbox's.
    pub(super) fn adopts_orphans(&self) -> bool {
        self.attached && self.birth.adopts
    }

    /// Whether a zygote can make it.
    pub(super) fn can_be_a_zygotes(&self) -> bool {
        self.birth.memory.is_none() && !self.attached && self.keep.is_empty()
    }

    fn around(&self) -> Surroundings<'_> {
        let mut streams = self.ends.each_ref().map(|end| end.as_ref().map(AsFd::as_fd));
        if let Some(given) = &self.given {
            for (stream, given) in streams.iter_mut().zip(given) {
                stream.get_or_insert(given.as_fd());
            }
        }
        Surroundings { streams, session: self.session }
    }

    /// Launches init as a program, with what the copy of this process would have.
    fn launch_program(&self, how: &Launch) -> Result<Init, LaunchError> {
        // A stream that is closed here has to be something there.
        let nothing = std::fs::File::open("/dev/null")?;
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let mut streams: [BorrowedFd; 3] = [nothing.as_fd(); 3];
        for ((stream, own), other) in streams.iter_mut().zip(own).zip(self.around().streams) {
            let is_open = rustix::io::fcntl_getfd(own).is_ok();
            *stream = other.or(is_open.then_some(own)).unwrap_or(nothing.as_fd());
        }
        // What is attached to this process's terminal has to be its own child from the start, and a descriptor that is kept has
        // its number only here.
        if !self.attached
            && self.keep.is_empty()
            && how.namespaces != 0
            && launch::zygote::Zygote::serves(how)
            && let Some(zygote) = launch::zygote::current()
        {
            return zygote.launch(how, streams);
        }
        // Whoever is to lead a session cannot lead a group.
        match self.attached && !self.session {
            true => launch::exec::launch_apart(how, streams, &self.keep),
            false => launch::exec::launch(how, streams, &self.keep),
        }
    }
}

/// Without a PID namespace nobody but its parent notices when init is killed: what was inside becomes this process's.
fn adopt_orphans() {
    let _ = SignalSet::of(&[libc::SIGCHLD]).block();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}
