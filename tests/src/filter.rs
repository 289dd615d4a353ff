//! A seccomp filter around a command, by which a test takes something of the kernel away from it.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Puts `program` on the command before it is executed.
pub fn put_on(command: &mut Command, program: Vec<libc::sock_filter>) {
    // SAFETY: two prctl calls on a program that was built before the fork.
    unsafe {
        command.pre_exec(move || {
            let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}
