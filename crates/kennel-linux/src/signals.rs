//! Signals that a controller receives and passes on to the command.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Signal;

use crate::sys::signals::{Ignored, SignalSet, SignalsBlocked, is_ignored};

const FORWARDED: &[Signal] = &[
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::TSTP,
];

/// Signals that are for this process itself: who has continued it may have given it the terminal.
const OWN: &[Signal] = &[Signal::CONT];

/// A descriptor from which the forwarded signals are read. While it exists they are blocked in this thread; the
/// controller of a command line is its only one.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    read: SignalSet,
    before: SignalSet,
}

impl Signals {
    /// Takes the signals over. One that is ignored (`nohup`) stays so.
    pub fn take() -> io::Result<Signals> {
        let signals = FORWARDED.iter().chain(OWN).map(|signal| signal.as_raw());
        let mut signals: Vec<i32> = signals.filter(|signal| !is_ignored(*signal)).collect();
        let read = SignalSet::of(&signals);
        let fd = read.descriptor()?;
        // What this process does with its terminal from the background would otherwise stop it, and not the inside.
        signals.extend([libc::SIGTTOU, libc::SIGTTIN]);
        let before = SignalSet::of(&signals).block();
        Ok(Signals { fd, read, before })
    }

    /// Whether a signal is taken, and not ignored.
    #[must_use]
    pub fn takes(&self, signal: Signal) -> bool {
        self.read.has(signal.as_raw())
    }

    /// A second descriptor of the same, for [`Signals::ask_to_end`].
    pub fn watch(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Whether one of the signals that have arrived at such a descriptor asks this process to end. They are taken.
    #[must_use]
    pub fn ask_to_end(signals: BorrowedFd) -> bool {
        const END: &[Signal] = &[Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
        let mut asked = false;
        Signals::each_of(signals, |signal| asked |= END.contains(&signal));
        asked
    }

    /// Calls `take` for every signal that has arrived.
    pub fn each(&self, take: impl FnMut(Signal)) {
        Signals::each_of(self.fd.as_fd(), take);
    }

    fn each_of(signals: BorrowedFd, mut take: impl FnMut(Signal)) {
        loop {
            // Whole records of this size, in which the signal's number comes first.
            let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
            if rustix::io::read(signals, &mut info) != Ok(info.len()) {
                return;
            }
            let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            if let Some(signal) = Signal::from_named_raw(number) {
                take(signal);
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.before.block_only();
    }
}

/// Keeps all signals away from this thread: those to a program are for the program's own threads.
pub fn block_all() {
    std::mem::forget(SignalsBlocked::new());
}

/// Stops this process's group as the terminal would by `signal`; returns when somebody continues it, and whether it was
/// stopped at all: in a group that no shell watches the kernel discards the stop.
pub(super) fn stop_this_job(signal: i32) -> bool {
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = rustix::process::kill_current_process_group(signal);
    }
    let before = SignalSet::of(&[signal]).unblock();
    // Here it stands.
    before.block_only();
    // Blocked, so that it waits to be read: nothing else continues a process.
    SignalSet::pending().has(libc::SIGCONT)
}

/// Signals that a failing write sends are ignored while this value lives: the error tells the same. To be made when PID 1
/// has been cloned, because a command would inherit it.
#[derive(Debug)]
pub struct WritesFailQuietly {
    _ignored: [Ignored; 2],
}

impl WritesFailQuietly {
    /// SIGPIPE, and SIGXFSZ for who has a limit on the size of files.
    #[must_use]
    pub fn new() -> WritesFailQuietly {
        WritesFailQuietly { _ignored: [libc::SIGPIPE, libc::SIGXFSZ].map(Ignored::new) }
    }
}

impl Default for WritesFailQuietly {
    fn default() -> Self {
        WritesFailQuietly::new()
    }
}

/// SIGPIPE is held back from this thread while this value lives, and one that came of a write meanwhile is taken: the thread
/// is a caller's own, and a command that closes its input must not kill its caller.
#[derive(Debug)]
pub(super) struct PipeSignalHeld {
    before: SignalSet,
    /// Whether one was waiting before, which is the caller's.
    pending: bool,
}

impl PipeSignalHeld {
    pub(super) fn new() -> PipeSignalHeld {
        let before = SignalSet::of(&[libc::SIGPIPE]).block();
        PipeSignalHeld { before, pending: SignalSet::pending().has(libc::SIGPIPE) }
    }
}

impl Drop for PipeSignalHeld {
    fn drop(&mut self) {
        if !self.pending && SignalSet::pending().has(libc::SIGPIPE) {
            SignalSet::of(&[libc::SIGPIPE]).take_one();
        }
        self.before.block_only();
    }
}
