//! Where the C library's start-up code goes.
//!
//! `main` is C's, not Rust's: the runtime's own start reads /proc/self/maps and installs a handler for stack
//! overflows, which costs a tenth of a millisecond that every sandbox would pay.

use std::ffi::{c_char, c_int};

use super::memory;

/// # Safety
/// `arguments` must be the array that the kernel made, `count` long, with the environment behind it.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, allow(dead_code, reason = "the tests' own `main` is there"))]
pub unsafe extern "C" fn start(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { memory::begin(count, arguments) };
    open_standard_streams();
    heed_children();
    crate::kennel()
}

/// A caller that ignores its children's ends may pass that on; then nobody could wait for them.
fn heed_children() {
    // SAFETY: the default action is no handler that could run at a wrong time.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Opens /dev/null for a standard stream that the caller closed: the next file to be opened would take its number,
/// and with it whatever is written to standard error.
fn open_standard_streams() {
    for fd in 0..3 {
        // SAFETY: plain calls on a number; a closed one makes fcntl fail with EBADF.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                // The lowest free number is this one, because those below are open.
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}
