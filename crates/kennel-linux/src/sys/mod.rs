//! System calls that rustix has no wrapper for, each behind a small safe function, in a file for each of the kernel's subjects.

use rustix::io::Errno;

pub mod files;
pub mod processes;
pub mod signals;

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
