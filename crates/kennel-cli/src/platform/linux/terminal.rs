//! The terminal that kennel was started from.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Writes to standard error. A terminal that hangs is not waited for: whoever waits for kennel's end would wait for it too.
pub fn write_error(text: &str) {
    let mut stderr = io::stderr();
    let own = stderr.is_terminal().then(|| {
        // An open file of this process's own: the flag would hold for everybody who shares the caller's.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/2")
    });
    match own {
        Some(Ok(terminal)) => write_in_time(&terminal, text.as_bytes()),
        _ => drop(stderr.write_all(text.as_bytes())),
    }
}

fn write_in_time(mut terminal: &File, mut text: &[u8]) {
    const PATIENCE: libc::c_int = 1000;
    while !text.is_empty() {
        match terminal.write(text) {
            Ok(count) => text = &text[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one structure, which the kernel fills in.
                if unsafe { libc::poll(&raw mut ready, 1, PATIENCE) } == 0 {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Rows and columns of the terminal behind standard error; none where it does not say.
pub fn terminal_size() -> (u16, u16) {
    // SAFETY: the call fills in the structure that it is given.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(2, libc::TIOCGWINSZ, &raw mut size);
        (size.ws_row, size.ws_col)
    }
}

/// Ends this process by the signal that ended the command, if that is one of the keyboard's and there is a terminal:
/// Ctrl-C ended the command, which had the terminal to itself. Dying of the same signal is what tells a shell's loop
/// to stop; the shell shows the same exit code either way.
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
