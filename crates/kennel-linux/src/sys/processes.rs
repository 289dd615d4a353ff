//! Processes: their ends, their memory and their keys, and what this kernel can do.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_error;

/// What nobody has used.
#[must_use]
pub fn no_usage() -> libc::rusage {
    // SAFETY: plain numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Waits for the process behind `pidfd`, whether it has a signal for its parent or not. What it and its descendants used is
/// written to `usage`.
///
/// # Errors
/// What the kernel says: somebody else has taken it, or a signal came.
pub fn wait_for_end(pidfd: BorrowedFd, usage: &mut libc::rusage) -> io::Result<()> {
    const P_PIDFD: libc::c_int = 3;
    let (pidfd, which) = (pidfd.as_raw_fd(), libc::WEXITED | libc::__WALL);
    // SAFETY: a structure of the right size that the kernel fills in; nothing else is asked for.
    let result = unsafe {
        libc::syscall(libc::SYS_waitid, P_PIDFD, pidfd, std::ptr::null::<u8>(), which, &raw mut *usage)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads another process's memory; returns how much could be read.
///
/// # Errors
/// When nothing could.
pub fn read_memory(of: u32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the local part is the buffer; the remote address is only a number here.
    let read =
        unsafe { libc::process_vm_readv(of.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| last_error())
}

/// The kernel's number of a key or of a keyring.
pub type Key = libc::c_long;

const KEYCTL_UNLINK: libc::c_long = libc::KEYCTL_UNLINK as libc::c_long;
const KEYCTL_SEARCH: libc::c_long = libc::KEYCTL_SEARCH as libc::c_long;
const KEYCTL_READ: libc::c_long = libc::KEYCTL_READ as libc::c_long;

fn keyctl(operation: libc::c_long, words: [libc::c_long; 4]) -> io::Result<libc::c_long> {
    // SAFETY: the addresses among the words are of texts and room that those below borrow until the call returns.
    let result =
        unsafe { libc::syscall(libc::SYS_keyctl, operation, words[0], words[1], words[2], words[3]) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Searches a keyring for a key of this type and name, and links what is found to another.
///
/// # Errors
/// When there is none.
pub fn search_key(keyring: Key, kind: &CStr, name: &CStr, link_to: Key) -> io::Result<Key> {
    let (kind, name) = (kind.as_ptr() as libc::c_long, name.as_ptr() as libc::c_long);
    keyctl(KEYCTL_SEARCH, [keyring, kind, name, link_to])
}

/// Takes a key out of a keyring.
pub fn unlink_key(key: Key, keyring: Key) {
    let _ = keyctl(KEYCTL_UNLINK, [key, keyring, 0, 0]);
}

/// Reads a key into the room that `into` has.
///
/// # Errors
/// When it may not be read, or does not fit.
pub fn read_key(key: Key, into: &mut Vec<u8>) -> io::Result<()> {
    let room = into.spare_capacity_mut();
    let (start, size) = (room.as_mut_ptr() as libc::c_long, room.len());
    let length = keyctl(KEYCTL_READ, [key, start, size.cast_signed() as libc::c_long, 0])?;
    let length = usize::try_from(length).unwrap_or(0);
    if length > size {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // SAFETY: the kernel has written so many bytes behind those that were there.
    unsafe { into.set_len(into.len() + length) };
    Ok(())
}

/// The version of Landlock that this kernel has; below 1 for none.
#[must_use]
pub fn landlock_version() -> libc::c_long {
    const VERSION: usize = 1;
    // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, VERSION) }
}

/// Whether this kernel has `mount_setattr` (Linux 5.12), and nothing around this process takes it away.
#[must_use]
pub fn has_mount_setattr() -> bool {
    // SAFETY: fails, because there is no such descriptor, before it looks at anything else.
    let refused =
        unsafe { libc::syscall(libc::SYS_mount_setattr, -1, c"".as_ptr(), 0, std::ptr::null::<u8>(), 0) };
    refused != -1 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}
