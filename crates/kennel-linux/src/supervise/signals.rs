//! Signals that a controller receives and passes on to the command.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Signal;

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

/// A descriptor from which the forwarded signals are read. While it exists they are blocked in this thread; the
/// controller of a command line is its only one.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes the signals over. One that is ignored (`nohup`) stays so.
    pub fn take() -> io::Result<Signals> {
        // SAFETY: the sets are plain memory that these calls fill in; signalfd makes a fresh descriptor.
        unsafe {
            let (mut read, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut read);
            for signal in FORWARDED {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&raw mut read, signal.as_raw());
                }
            }
            let mut blocked = read;
            // Taking the terminal back from the background would otherwise stop this process.
            libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const read, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), before })
        }
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
