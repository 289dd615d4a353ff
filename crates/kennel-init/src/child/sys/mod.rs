//! Raw system calls, for code that may not touch libc: no errno, no locks, no allocation.
//!
//! Everything here is a thin, typed line over one kernel call, in a file for each of the kernel's subjects. The callers are
//! PID 1 and the few instructions between a clone and an exec, where libc's state belongs to somebody else (a vfork child
//! shares its parent's).

#![allow(missing_docs, reason = "the names and arguments are the kernel's own; see its manual pages")]

use core::ffi::CStr;

/// A kernel error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const EINTR: Errno = Errno(4);
    pub const ENOEXEC: Errno = Errno(8);
    pub const ECHILD: Errno = Errno(10);
    pub const EAGAIN: Errno = Errno(11);
    pub const EACCES: Errno = Errno(13);
    pub const EEXIST: Errno = Errno(17);
    pub const ENOTDIR: Errno = Errno(20);
    pub const EROFS: Errno = Errno(30);
    pub const ELIBACC: Errno = Errno(79);
    pub const ETOOMANYREFS: Errno = Errno(109);
    pub const EINVAL: Errno = Errno(22);
    pub const ELOOP: Errno = Errno(40);
    pub const ENOSYS: Errno = Errno(38);
    pub const EPROTO: Errno = Errno(71);
    /// What was opened is not what the planner saw: somebody changed the path during set-up.
    pub const ESTALE: Errno = Errno(116);
    pub const ECANCELED: Errno = Errno(125);
}

/// Makes a system call.
///
/// # Safety
/// As for the raw one.
#[inline]
pub(super) unsafe fn syscall(number: usize, arguments: [usize; 6]) -> Result<usize> {
    // SAFETY: the caller's promise.
    returned(unsafe { raw::syscall(number, arguments) })
}

/// What a raw return value means.
#[inline]
pub(super) fn returned(ret: isize) -> Result<usize> {
    if (-4095..0).contains(&ret) { Err(Errno(-ret as i32)) } else { Ok(ret as usize) }
}

/// A path argument: always NUL-terminated, because it comes as a `CStr`.
fn at(path: &CStr) -> usize {
    path.as_ptr() as usize
}

/// Makes a system call on numbers, and on pointers to what the function that uses this has borrowed: only within this folder.
macro_rules! call {
    ($n:ident $(, $a:expr)*) => {{
        let list: &[usize] = &[$($a as usize),*];
        let mut a = [0usize; 6];
        a[..list.len()].copy_from_slice(list);
        // SAFETY: every pointer that is passed comes from a reference or slice that outlives the call.
        unsafe { $crate::child::sys::syscall($crate::child::sys::nr::$n, a) }
    }};
}

mod fs;
pub mod memory;
pub mod mount;
mod net;
pub mod nr;
mod process;
mod raw;

pub use fs::*;
pub use mount::*;
pub use net::*;
pub use process::*;

pub const AT_FDCWD: i32 = -100;

const AT_EMPTY_PATH: usize = 0x1000;
const AT_SYMLINK_NOFOLLOW: usize = 0x100;

/// An open descriptor that closes itself.
pub struct Fd(pub i32);

impl Drop for Fd {
    fn drop(&mut self) {
        let _ = call!(SYS_close, self.0);
    }
}

impl Fd {
    pub fn raw(&self) -> i32 {
        self.0
    }

    /// Gives up the closing.
    pub fn into_raw(self) -> i32 {
        core::mem::ManuallyDrop::new(self).0
    }
}
