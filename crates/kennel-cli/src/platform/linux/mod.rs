//! Linux, where this process becomes PID 1 of the sandbox by a clone of itself: so it has a heap that the clone can give up
//! and knows where its memory lies, and nothing that costs time happens before `main`.

mod heap;
mod memory;
mod start;
mod terminal;

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use memory::{arguments, environment, inherited};
pub use terminal::{die_of_terminal_signal, terminal_size, write_error};

/// Takes over a descriptor that the caller left open to be read.
///
/// # Safety
/// Nothing of this process's may use it.
///
/// # Errors
/// When it is not open, or cannot be read.
pub unsafe fn take_descriptor(number: i32) -> io::Result<File> {
    // A read of nothing says whether reading is possible at all.
    // SAFETY: no memory is touched; a number that is not open makes it fail.
    if unsafe { libc::read(number, std::ptr::null_mut(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the caller's promise.
    Ok(unsafe { File::from_raw_fd(number) })
}

/// Whether two paths lead to one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|found| Some(found) == identity(other))
}
