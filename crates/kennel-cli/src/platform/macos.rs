//! macOS: what the standard library offers everywhere, and descriptors, signals and terminals as on every Unix.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

pub use super::other::{arguments, environment, has_kennels_proc, inherited, is_same_file, write_error};

/// Takes over a descriptor that the caller left open to be read, under a number that was typed.
///
/// # Errors
/// When it is not open, or cannot be read.
pub fn take_descriptor(number: i32) -> io::Result<File> {
    // SAFETY: asks about a number; one that is not open makes it fail.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
    if flags == -1 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // The command must not find it open.
    // SAFETY: as above.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and was before this program started: nothing of this process's uses it.
    Ok(unsafe { File::from_raw_fd(number) })
}

/// Rows and columns of the terminal behind standard error; none where it does not say.
pub fn terminal_size() -> (u16, u16) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills in the structure that it is given.
    unsafe { libc::ioctl(2, libc::TIOCGWINSZ, &raw mut size) };
    (size.ws_row, size.ws_col)
}

/// Ends this process by the signal that ended the command, if that is one of the keyboard's and there is a terminal: that is
/// what tells a shell's loop to stop.
pub fn die_of_terminal_signal(signal: i32) {
    if !matches!(signal, libc::SIGINT | libc::SIGQUIT) {
        return;
    }
    // SAFETY: plain signal calls; this process has nothing left to do.
    unsafe {
        if libc::isatty(0) == 0 && libc::isatty(2) == 0 {
            return;
        }
        // A core dump of kennel would help nobody.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}
