//! A terminal of the command's own, whose other side kennel carries.
//!
//! The command never has the caller's terminal: it could change its modes, read what is typed after it has ended, and on systems
//! that let it, type there itself. Its own has the modes and the size of the caller's. The caller's is in raw mode while the
//! command runs, so that what is typed, Ctrl-C too, is for the command's terminal to understand.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize};

/// Both sides of a terminal.
#[derive(Debug)]
pub struct Pair {
    /// kennel's.
    pub ours: OwnedFd,
    /// The command's.
    pub theirs: OwnedFd,
}

impl Pair {
    /// A new terminal. Neither side becomes anybody's controlling terminal by being opened here.
    ///
    /// # Errors
    /// When the system has none left.
    pub fn new() -> io::Result<Pair> {
        let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
        rustix::pty::grantpt(&ours)?;
        rustix::pty::unlockpt(&ours)?;
        let name = rustix::pty::ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&name, flags, Mode::empty())?;
        Ok(Pair { ours, theirs })
    }

    /// Gives it a size.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(&self.ours, size)?)
    }

    /// Gives it the modes and the size of another one.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn copy_from(&self, other: BorrowedFd) -> io::Result<()> {
        let modes = rustix::termios::tcgetattr(other)?;
        rustix::termios::tcsetattr(&self.theirs, OptionalActions::Now, &modes)?;
        copy_size(other, self.ours.as_fd())
    }
}

/// Gives one terminal the size of another.
///
/// # Errors
/// When the system refuses.
pub fn copy_size(from: BorrowedFd, to: BorrowedFd) -> io::Result<()> {
    Ok(rustix::termios::tcsetwinsize(to, rustix::termios::tcgetwinsize(from)?)?)
}

/// The caller's terminal in raw mode, until this is dropped.
pub struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl Raw {
    /// Sets it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set(terminal: BorrowedFd) -> io::Result<Raw> {
        let terminal = terminal.try_clone_to_owned()?;
        let before = rustix::termios::tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Raw { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Whether this process may use its terminal: it is in the foreground.
#[must_use]
pub fn is_foreground(terminal: BorrowedFd) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
