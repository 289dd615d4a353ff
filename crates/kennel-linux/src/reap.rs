//! Waiting for a process by its descriptor.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::processes::{no_usage, wait_for_end};

/// Waits for the process behind `pidfd` and takes what it and its descendants used; zeros where somebody else took it.
/// `__WALL`, because it was cloned without an exit signal.
///
/// # Errors
/// When the system fails this process itself.
pub fn reap(pidfd: BorrowedFd) -> io::Result<libc::rusage> {
    let mut usage = no_usage();
    loop {
        match wait_for_end(pidfd, &mut usage) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A wait loop of the caller's own took it; that it has ended is all that is needed.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(no_usage()),
            other => return other.map(|()| usage),
        }
    }
}
