//! Waiting for a process by its descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Waits for the process behind `pidfd` and takes what it and its descendants used; zeros where somebody else took it.
/// `__WALL`, because it was cloned without an exit signal.
///
/// # Errors
/// When the system fails this process itself.
pub fn reap(pidfd: BorrowedFd) -> io::Result<libc::rusage> {
    const P_PIDFD: libc::c_int = 3;
    loop {
        // SAFETY: both are plain memory of the right size that the kernel fills in.
        let (result, usage) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let mut usage: libc::rusage = std::mem::zeroed();
            let result = libc::syscall(
                libc::SYS_waitid,
                P_PIDFD,
                pidfd.as_raw_fd(),
                &raw mut info,
                libc::WEXITED | libc::__WALL,
                &raw mut usage,
            );
            (result, usage)
        };
        if result == 0 {
            return Ok(usage);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // A wait loop of the caller's own took it; that it has ended is all that is needed.
            Some(libc::ECHILD) => return Ok(usage),
            _ => return Err(error),
        }
    }
}
