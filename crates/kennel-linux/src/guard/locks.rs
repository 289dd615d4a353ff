//! Locks on files that can only be read.
//!
//! flock and read locks need no more than an open file, and a program of the host's that wants to write the file waits
//! for them. So on what the sandbox cannot write they are granted without being taken: nobody inside can write the file
//! either, so that there is nothing to keep apart. On what can be written they are taken as ever.
//!
//! The descriptor's number may mean another file when the kernel looks at it again: a program that seeks that can take a
//! lock on what it can read. SECURITY.md says so.

use std::os::fd::AsRawFd;

use rustix::fs::{Access, AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::as_root;
use super::caller::Caller;
use super::judge::Ruling;

/// What becomes of a lock on the caller's descriptor.
pub(super) fn judge(caller: Caller, number: i32) -> Ruling<'static> {
    // Taken hold of, because the process's own folder in /proc may be closed to the caller.
    let path = format!("/proc/{}/fd/{number}", caller.tid());
    let Ok(file) = as_root::open_proc(&path, OFlags::PATH | OFlags::CLOEXEC) else { return Ruling::Continue };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => Ruling::Done,
        // Permissions are asked for before the mount is; a file of the sandbox's own may be kept from itself by them.
        Err(Errno::ACCESS) => match rustix::fs::statvfs(&path) {
            Ok(about) if about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) => Ruling::Done,
            _ => Ruling::Continue,
        },
        _ => Ruling::Continue,
    }
}
