//! Typing into the terminal.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;

use super::tell;

/// `sti` types a newline with TIOCSTI, `linux` pastes with TIOCLINUX, on each way to the terminal.
pub fn inject(words: &[OsString]) -> i32 {
    let number: libc::c_ulong = if words[0] == "sti" { libc::TIOCSTI } else { 0x541c };
    let byte = if words[0] == "sti" { b'\n' } else { 3 };
    for place in ["/dev/tty", "/dev/console", "0"] {
        let opened = match place {
            "0" => None,
            path => match File::options().read(true).write(true).open(path) {
                Ok(file) => Some(file),
                Err(error) => {
                    println!("{place}: cannot be opened: {error}");
                    continue;
                }
            },
        };
        let fd = opened.as_ref().map_or(0, AsRawFd::as_raw_fd);
        // SAFETY: both requests read one byte.
        tell(place, unsafe { libc::ioctl(fd, number, &raw const byte) }.into(), "done");
    }
    0
}
