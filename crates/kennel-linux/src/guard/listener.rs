//! The kernel's side of a notification: receive a call that waits, answer it.
//!
//! See seccomp_unotify(2). A call waits until it is answered, its thread is killed, or the last copy of the listener
//! is closed; then it fails with ENOSYS. So a guard that dies lets nothing through.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

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
}

/// The listening end of a filter.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes over the descriptor that seccomp(2) returned for `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Listener {
        const SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: u64 = 1;
        // From Linux 6.6 on: the caller and the guard hand one CPU to each other instead of waking another one up,
        // which makes a call five times cheaper. An older kernel refuses, and is slower.
        // SAFETY: for this request the argument is the flags themselves.
        let _ = unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP,
            )
        };
        Listener(fd)
    }

    /// The call that waits. `NOENT` when its thread was killed or interrupted in the meantime. To be called when the
    /// descriptor is readable: otherwise it waits.
    pub fn receive(&self) -> Result<Notification, Errno> {
        // SAFETY: a structure of numbers; the kernel insists on zeros.
        let mut notification: Notification = unsafe { std::mem::zeroed() };
        self.request(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut notification).cast())?;
        Ok(notification)
    }

    /// Answers. `NOENT` when nobody waits for it any more, which changes nothing.
    pub fn answer(&self, id: u64, answer: Answer) -> Result<(), Errno> {
        let (error, flags) = match answer {
            Answer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Refuse(errno) => (-errno, 0),
            Answer::Done => (0, 0),
        };
        let mut response = libc::seccomp_notif_resp { id, val: 0, error, flags };
        self.request(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut response).cast())
    }

    /// Gives the caller a copy of a descriptor, and returns the number that it has there (Linux 5.9).
    ///
    /// # Errors
    /// When the caller has no room for it, or does not wait any more.
    pub fn hand_over(&self, id: u64, fd: &OwnedFd, close_on_exec: bool) -> Result<i32, Errno> {
        let newfd_flags = if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let srcfd = fd.as_raw_fd().cast_unsigned();
        let mut added = libc::seccomp_notif_addfd { id, flags: 0, srcfd, newfd: 0, newfd_flags };
        // SAFETY: the request reads the structure, and returns a number of the caller's.
        let number =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added) };
        if number < 0 { Err(last_error()) } else { Ok(number) }
    }

    /// Whether the call still waits. If it does, its thread has lived all the time since, and its number in /proc has
    /// not been given to another.
    #[must_use]
    pub fn still_waits(&self, id: u64) -> bool {
        let mut id = id;
        self.request(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
    }

    fn request(&self, request: libc::Ioctl, argument: *mut libc::c_void) -> Result<(), Errno> {
        // SAFETY: each caller passes the structure that its request reads and writes.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if returned < 0 { Err(last_error()) } else { Ok(()) }
    }
}

pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
