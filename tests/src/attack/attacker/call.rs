//! System calls, made as they are: what a C library would check or retry is part of what is tried here.

use std::ffi::CStr;

/// The current directory, where a call takes a folder's descriptor.
pub(super) const HERE: usize = libc::AT_FDCWD as usize;

/// Makes a system call; an error is its number below zero. Every pointer among the arguments is that of a buffer or a
/// text which the caller holds until the call returns, as long as the call takes it to be.
pub(super) fn call(number: libc::c_long, arguments: &[usize]) -> i64 {
    let word = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: what the kernel reads and writes is the caller's, as said above. The process may be harmed by what it
    // does to itself; it is an attacker, and ends soon.
    match unsafe { libc::syscall(number, word(0), word(1), word(2), word(3), word(4), word(5)) } {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        result => result,
    }
}

/// A descriptor as an argument.
pub(super) fn fd(fd: i32) -> usize {
    fd as usize
}

/// Flags as an argument.
pub(super) fn flags(flags: i32) -> usize {
    flags as usize
}

/// A text as an argument.
pub(super) fn text(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// A descriptor that is closed with the value.
pub(super) struct Fd(pub(super) i32);

impl Fd {
    /// Opens a path; an error is its number below zero.
    pub(super) fn open(at: usize, path: &CStr, how: i32) -> Result<Fd, i64> {
        let how = flags(how | libc::O_CLOEXEC | libc::O_NONBLOCK);
        match call(libc::SYS_openat, &[at, text(path), how, 0o644]) {
            error if error < 0 => Err(error),
            fd => Ok(Fd(i32::try_from(fd).unwrap_or(-1))),
        }
    }

    /// As an argument.
    pub(super) fn arg(&self) -> usize {
        fd(self.0)
    }

    /// Hands the number out; it stays open.
    pub(super) fn keep(self) -> i32 {
        let number = self.0;
        std::mem::forget(self);
        number
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if self.0 >= 0 {
            call(libc::SYS_close, &[self.arg()]);
        }
    }
}

/// How much of a file is read.
const PART: usize = 1024;

/// The beginning of what a descriptor can read.
pub(super) fn contents(fd: usize) -> Vec<u8> {
    let mut data = vec![0u8; PART];
    let mut length = call(libc::SYS_pread64, &[fd, data.as_mut_ptr() as usize, PART, 0]);
    if length < 0 {
        // A pipe has no places to read at.
        length = call(libc::SYS_read, &[fd, data.as_mut_ptr() as usize, PART]);
    }
    data.truncate(usize::try_from(length).unwrap_or(0));
    data
}

/// Writes a buffer.
pub(super) fn write(fd: usize, bytes: &[u8]) -> i64 {
    call(libc::SYS_write, &[fd, bytes.as_ptr() as usize, bytes.len()])
}
