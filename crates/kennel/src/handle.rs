//! What this system calls an open file.

#[cfg(unix)]
pub(crate) use std::os::fd::OwnedFd as Handle;
#[cfg(windows)]
pub(crate) use std::os::windows::io::OwnedHandle as Handle;
