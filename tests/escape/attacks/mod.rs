//! What the attacker runs: tries that need more than a list of system calls. Each is a role of the suite's executable
//! and prints a line for every try, `done` or the name of the error.

pub mod fill;
pub mod links;
pub mod machine;
pub mod memory;
pub mod programs;
pub mod sockets;
pub mod terminal;
pub mod uring;

use std::io::Write;

/// The name of the last error.
pub fn last_error() -> String {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    match errno {
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::EIO => "EIO".into(),
        libc::EINVAL => "EINVAL".into(),
        libc::ENOSYS => "ENOSYS".into(),
        libc::ENOTTY => "ENOTTY".into(),
        libc::ESRCH => "ESRCH".into(),
        libc::EROFS => "EROFS".into(),
        libc::ENOENT => "ENOENT".into(),
        libc::ENXIO => "ENXIO".into(),
        errno => format!("errno {errno}"),
    }
}

/// `what: done` or `what: ERROR`, by whether `result` is negative.
pub fn tell(what: &str, result: i64, done: &str) {
    let outcome = if result < 0 { last_error() } else { done.to_owned() };
    println!("{what}: {outcome}");
    let _ = std::io::stdout().flush();
}
