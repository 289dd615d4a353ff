//! The kernel's side of a notification: receive a call that waits, answer it.
//!
//! See seccomp_unotify(2). A call waits until it is answered, its thread is killed, or the last copy of the listener
//! is closed; then it fails with ENOSYS. So a guard that dies lets nothing through.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys::files;

/// A call that waits.
pub type Notification = libc::seccomp_notif;

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel makes the call as if nothing had happened (Linux 5.5). It reads the caller's memory again.
    Continue,
    /// It fails with this error.
    Refuse(i32),
    /// It has been made on the caller's behalf, and succeeds.
    Done,
    /// The same for a call that returns this number.
    Returns(i32),
}

/// The listening end of a filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes over the descriptor that seccomp(2) returned for `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Listener {
        let _ = files::wake_on_same_cpu(&fd);
        Listener(fd)
    }

    /// The call that waits. `NOENT` when its thread was killed or interrupted in the meantime. To be called when the
    /// descriptor is readable: otherwise it waits.
    pub fn receive(&self) -> Result<Notification, Errno> {
        files::receive_notification(&self.0)
    }

    /// Answers. `NOENT` when nobody waits for it any more, which changes nothing.
    pub fn answer(&self, id: u64, answer: Answer) -> Result<(), Errno> {
        let (val, error, flags) = match answer {
            Answer::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Refuse(errno) => (0, -errno, 0),
            Answer::Done => (0, 0, 0),
            Answer::Returns(number) => (number.into(), 0, 0),
        };
        files::answer_notification(&self.0, libc::seccomp_notif_resp { id, val, error, flags })
    }

    /// Gives the caller a copy of a descriptor, and returns the number that it has there (Linux 5.9).
    ///
    /// # Errors
    /// When the caller has no room for it, or does not wait any more.
    pub fn hand_over(&self, id: u64, fd: &OwnedFd, close_on_exec: bool) -> Result<i32, Errno> {
        let newfd_flags = if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let srcfd = fd.as_raw_fd().cast_unsigned();
        let added = libc::seccomp_notif_addfd { id, flags: 0, srcfd, newfd: 0, newfd_flags };
        files::add_descriptor(&self.0, added)
    }

    /// Whether the call still waits. If it does, its thread has lived all the time since, and its number in /proc has
    /// not been given to another.
    #[must_use]
    pub fn still_waits(&self, id: u64) -> bool {
        files::notification_waits(&self.0, id)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
