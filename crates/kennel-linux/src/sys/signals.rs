//! Signals: sets of them, this thread's mask, and what is ignored.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A set of signals.
#[derive(Clone, Copy, Debug)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// Signals by their numbers.
    #[must_use]
    pub fn of(signals: &[i32]) -> SignalSet {
        // SAFETY: plain memory that the calls fill in.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            SignalSet(set)
        }
    }

    /// Those that wait for this thread.
    #[must_use]
    pub fn pending() -> SignalSet {
        let mut set = SignalSet::of(&[]);
        // SAFETY: plain memory that the call fills in.
        unsafe { libc::sigpending(&raw mut set.0) };
        set
    }

    /// Whether a signal is one of them.
    #[must_use]
    pub fn has(&self, signal: i32) -> bool {
        // SAFETY: the set was filled in when this value was made.
        unsafe { libc::sigismember(&raw const self.0, signal) == 1 }
    }

    /// Blocks them in this thread, beside those that are. Returns what was blocked before.
    #[must_use]
    pub fn block(&self) -> SignalSet {
        self.mask(libc::SIG_BLOCK)
    }

    /// Blocks them in this thread no more. Returns what was blocked before.
    #[must_use]
    pub fn unblock(&self) -> SignalSet {
        self.mask(libc::SIG_UNBLOCK)
    }

    /// Blocks them in this thread and no others.
    pub fn block_only(&self) {
        self.mask(libc::SIG_SETMASK);
    }

    /// The call cannot fail: it is one that the kernel knows, on sets that are there.
    fn mask(&self, how: libc::c_int) -> SignalSet {
        let mut before = SignalSet::of(&[]);
        // SAFETY: two sets; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        before
    }

    /// Takes one of them that waits.
    pub fn take_one(&self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a set and a time; without a time to wait the call only takes what is there.
        unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const now) };
    }

    /// A descriptor from which they are read.
    ///
    /// # Errors
    /// When there is none to be had.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: a set; the call gives a fresh descriptor, or none.
        unsafe {
            let fd = libc::signalfd(-1, &raw const self.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
        }
    }
}

/// Whether this process ignores a signal.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain memory that the call fills in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}

/// A signal that this process ignores while this value lives.
#[derive(Debug)]
pub struct Ignored(i32, libc::sigaction);

impl Ignored {
    /// Ignores it.
    #[must_use]
    pub fn new(signal: i32) -> Ignored {
        // SAFETY: both structures are plain memory; ignoring runs no code.
        unsafe {
            let (mut ignore, mut before): (libc::sigaction, libc::sigaction) =
                (std::mem::zeroed(), std::mem::zeroed());
            ignore.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(signal, &raw const ignore, &raw mut before);
            Ignored(signal, before)
        }
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        // SAFETY: what was in force before.
        unsafe { libc::sigaction(self.0, &raw const self.1, std::ptr::null_mut()) };
    }
}

/// All signals of this thread are blocked while it lives: what it starts then inherits that.
///
/// The signals of a program that uses this crate are for its own threads. A handler of the program's must not run in a
/// thread or a process of kennel's, least of all in one that shares its memory.
pub(crate) struct SignalsBlocked(SignalSet);

impl SignalsBlocked {
    pub(crate) fn new() -> SignalsBlocked {
        let mut all = SignalSet::of(&[]);
        // SAFETY: plain memory that the call fills in.
        unsafe { libc::sigfillset(&raw mut all.0) };
        SignalsBlocked(all.mask(libc::SIG_SETMASK))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        self.0.block_only();
    }
}
