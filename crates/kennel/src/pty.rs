//! A terminal for a command, whose other side is the caller's.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::handle::Handle;

/// The caller's side of a command's terminal: what is written here is typed there, and what is read here is shown there. Made
/// by [`Command::terminal`](crate::Command::terminal).
///
/// A command's output may be hostile: a program that passes it on to a terminal lets the command control that
/// terminal.
#[derive(Debug)]
pub struct Terminal(File);

impl Terminal {
    #[cfg(unix)]
    pub(crate) fn new(side: Handle) -> io::Result<Terminal> {
        // Whoever reads it waits, unless it is set otherwise.
        let flags = rustix::fs::fcntl_getfl(&side)?;
        rustix::fs::fcntl_setfl(&side, flags - rustix::fs::OFlags::NONBLOCK)?;
        Ok(Terminal(side.into()))
    }

    /// Resizes the command's terminal.
    ///
    /// # Errors
    /// When the command has ended.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        resize(&self.0, rows, columns)
    }

    /// Reads what is still shown, on a thread of its own, and drops it: a command that nobody reads waits.
    pub(crate) fn drain(mut self) -> io::Result<()> {
        let work = move || io::copy(&mut self, &mut io::sink());
        std::thread::Builder::new().name("kennel-drain".into()).spawn(work).map(drop)
    }

    /// Another handle to the same terminal: to read in one thread and write in another.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn try_clone(&self) -> io::Result<Terminal> {
        self.0.try_clone().map(Terminal)
    }
}

#[cfg(unix)]
fn resize(terminal: &File, rows: u16, columns: u16) -> io::Result<()> {
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

#[cfg(not(unix))]
fn resize(_: &File, _: u16, _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Read for Terminal {
    /// What the command shows; nothing when nobody has the terminal any more.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// What the kernel says of a terminal whose other side is closed.
        const EIO: i32 = 5;
        match self.0.read(buffer) {
            Err(error) if error.raw_os_error() == Some(EIO) => Ok(0),
            other => other,
        }
    }
}

impl Write for Terminal {
    /// Types.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<Terminal> for Handle {
    fn from(terminal: Terminal) -> Handle {
        terminal.0.into()
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Terminal {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
