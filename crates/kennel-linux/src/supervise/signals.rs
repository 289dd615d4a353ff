//! Signals that a controller receives and passes on to the command.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Signal;

use crate::signal_mask::SignalsBlocked;

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
    read: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes the signals over. One that is ignored (`nohup`) stays so.
    pub fn take() -> io::Result<Signals> {
        // SAFETY: the sets are plain memory that these calls fill in; signalfd makes a fresh descriptor.
        unsafe {
            let (mut read, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut read);
            for signal in FORWARDED.iter().chain(OWN) {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&raw mut read, signal.as_raw());
                }
            }
            let mut blocked = read;
            // What this process does with its terminal from the background would otherwise stop it, and not the inside.
            libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
            libc::sigaddset(&raw mut blocked, libc::SIGTTIN);
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const read, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), read, before })
        }
    }

    /// Whether a signal is taken, and not ignored.
    #[must_use]
    pub fn takes(&self, signal: Signal) -> bool {
        // SAFETY: the set was filled in when this value was made.
        unsafe { libc::sigismember(&raw const self.read, signal.as_raw()) == 1 }
    }

    /// Calls `take` for every signal that has arrived.
    pub fn each(&self, mut take: impl FnMut(Signal)) {
        loop {
            // SAFETY: the kernel writes whole records of this size.
            let info = unsafe {
                let mut info: libc::signalfd_siginfo = std::mem::zeroed();
                let size = size_of_val(&info);
                if libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) != size.cast_signed() {
                    return;
                }
                info
            };
            if let Some(signal) = Signal::from_named_raw(info.ssi_signo.cast_signed()) {
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
        // SAFETY: the set that was in force before.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Keeps all signals away from this thread: those to a program are for the program's own threads.
pub fn block_all() {
    std::mem::forget(SignalsBlocked::new());
}

/// Stops this process's group as the terminal would by `signal`; returns when somebody continues it, and whether it was
/// stopped at all: in a group that no shell watches the kernel discards the stop.
pub(super) fn stop_this_job(signal: i32) -> bool {
    // SAFETY: plain calls; the sets are memory that they fill in.
    unsafe {
        let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::kill(0, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, &raw mut before);
        // Here it stands.
        libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        // Blocked, so that it waits to be read: nothing else continues a process.
        let mut pending = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGCONT) == 1
    }
}

/// Signals that a failing write sends are ignored while this value lives: the error tells the same. To be made when PID 1
/// has been cloned, because a command would inherit it.
#[derive(Debug)]
pub struct WritesFailQuietly([(i32, libc::sigaction); 2]);

impl WritesFailQuietly {
    /// SIGPIPE, and SIGXFSZ for who has a limit on the size of files.
    #[must_use]
    pub fn new() -> WritesFailQuietly {
        WritesFailQuietly([libc::SIGPIPE, libc::SIGXFSZ].map(|signal| {
            // SAFETY: both structures are plain memory; ignoring runs no code.
            unsafe {
                let (mut ignore, mut before): (libc::sigaction, libc::sigaction) =
                    (std::mem::zeroed(), std::mem::zeroed());
                ignore.sa_sigaction = libc::SIG_IGN;
                libc::sigaction(signal, &raw const ignore, &raw mut before);
                (signal, before)
            }
        }))
    }
}

/// SIGPIPE is held back from this thread while this value lives, and one that came of a write meanwhile is taken: the thread
/// is a caller's own, and a command that closes its input must not kill its caller.
#[derive(Debug)]
pub(super) struct PipeSignalHeld {
    before: libc::sigset_t,
    /// Whether one was waiting before, which is the caller's.
    pending: bool,
}

impl PipeSignalHeld {
    pub(super) fn new() -> PipeSignalHeld {
        // SAFETY: the sets are plain memory that these calls fill in; only this thread's mask changes.
        unsafe {
            let mut before = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const *pipe_signal(), &raw mut before);
            PipeSignalHeld { before, pending: pipe_signal_waits() }
        }
    }
}

impl Drop for PipeSignalHeld {
    fn drop(&mut self) {
        // SAFETY: as above; without a time to wait the call only takes what is there.
        unsafe {
            if !self.pending && pipe_signal_waits() {
                let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                libc::sigtimedwait(&raw const *pipe_signal(), std::ptr::null_mut(), &raw const now);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

fn pipe_signal() -> Box<libc::sigset_t> {
    // SAFETY: plain memory that the calls fill in.
    unsafe {
        let mut set = Box::new(std::mem::zeroed());
        libc::sigemptyset(&raw mut *set);
        libc::sigaddset(&raw mut *set, libc::SIGPIPE);
        set
    }
}

fn pipe_signal_waits() -> bool {
    // SAFETY: plain memory that the call fills in.
    unsafe {
        let mut pending = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    }
}

impl Default for WritesFailQuietly {
    fn default() -> Self {
        WritesFailQuietly::new()
    }
}

impl Drop for WritesFailQuietly {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            // SAFETY: what was in force before.
            unsafe { libc::sigaction(*signal, &raw const *before, std::ptr::null_mut()) };
        }
    }
}
