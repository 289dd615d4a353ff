//! The caller's terminal. Nobody but the controller holds it while a sandbox runs.
//!
//! It is opened once more, so that this process has an open file of its own which can be set not to wait: that flag belongs
//! to the open file, and the caller's is shared with shells and pipelines. Its modes are changed only while this process's
//! group is in the foreground, and set back if nobody else has changed them since.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::QueueSelector;

use super::modes::{self, Modes, Size};

/// How much may be written at once to a terminal that could not be opened once more. A write to it may wait, though it was
/// said to be ready; the less it is the less probable that is.
const SMALL: usize = 64;

#[derive(Debug)]
pub(crate) struct CallerTerminal {
    fd: OwnedFd,
    /// Whether the open file is this process's own.
    own: bool,
    /// Whether it is the terminal of this session, whose foreground belongs to one group at a time.
    controlling: bool,
    /// The modes before this process changed them, and what they were changed to.
    changed: Option<(Modes, Modes)>,
    /// The reply that it still owes to a request of kennel's own. It is not for the inside.
    owed: Option<Vec<u8>>,
}

/// What a read gave.
pub(super) enum Read {
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Somebody else is in the foreground.
    NotOurs,
    /// The terminal has gone.
    Gone,
}

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl CallerTerminal {
    /// The terminal of this session.
    pub(super) fn of_session() -> Option<CallerTerminal> {
        let fd = rustix::fs::open("/dev/tty", FLAGS, Mode::empty()).ok()?;
        Some(CallerTerminal { fd, own: true, controlling: true, changed: None, owed: None })
    }

    /// The terminal behind a stream.
    pub(crate) fn behind(stream: BorrowedFd) -> io::Result<CallerTerminal> {
        if is_controlling(stream)
            && let Some(terminal) = CallerTerminal::of_session()
        {
            return Ok(terminal);
        }
        let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
        let (fd, own) = match rustix::fs::open(path, FLAGS, Mode::empty()) {
            Ok(fd) => (fd, true),
            // It may belong to another user, who handed it on.
            Err(_) => (rustix::io::fcntl_dupfd_cloexec(stream, 3)?, false),
        };
        Ok(CallerTerminal { fd, own, controlling: false, changed: None, owed: None })
    }

    /// Whether this process may use it: one that is not the session's has no foreground.
    pub(super) fn is_foreground(&self) -> bool {
        !self.controlling || rustix::termios::tcgetpgrp(&self.fd) == Ok(rustix::process::getpgrp())
    }

    pub(super) fn modes(&self) -> Option<Modes> {
        Modes::of(&self.fd).ok()
    }

    pub(super) fn size(&self) -> Option<Size> {
        modes::size(&self.fd).ok()
    }

    /// Sets other modes, to be set back by [`CallerTerminal::restore`].
    pub(super) fn change(&mut self, to: impl FnOnce(&Modes) -> Modes) {
        let Some(now) = self.modes().filter(|_| self.is_foreground()) else { return };
        let before = match self.changed {
            // Changed by nobody else since: what was before is still what was before.
            Some((before, ours)) if ours == now => before,
            _ => now,
        };
        let wanted = to(&before);
        if wanted == now || wanted.set(&self.fd).is_ok() {
            // As the kernel has taken them.
            self.changed = Some((before, self.modes().unwrap_or(wanted)));
        }
    }

    /// Sets the modes back to what they were, if they are still this process's.
    pub(super) fn restore(&mut self) {
        if let Some((before, ours)) = self.changed.take()
            && self.is_foreground()
            && self.modes() == Some(ours)
        {
            let _ = before.set(&self.fd);
        }
    }

    /// Drops what was typed and not yet read.
    pub(super) fn flush_input(&self) {
        let _ = rustix::termios::tcflush(&self.fd, QueueSelector::IFlush);
    }

    /// Reads what is there. To be called when poll says that there is something.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Read {
        match rustix::io::read(&self.fd, buffer) {
            Ok(0) => Read::Gone,
            Ok(count) => Read::Bytes(count),
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            // SIGTTIN is blocked, so that a read from the background fails instead of stopping this process.
            Err(Errno::IO) if !self.is_foreground() => Read::NotOurs,
            Err(_) => Read::Gone,
        }
    }

    pub(super) fn owes_reply(&mut self, reply: Option<Vec<u8>>) {
        self.owed = reply;
    }

    /// Takes the reply that is owed out of what was typed; returns how much is left.
    pub(super) fn take_reply(&mut self, typed: &mut [u8]) -> usize {
        let Some(reply) = self.owed.as_deref() else { return typed.len() };
        let length = reply.len();
        let Some(at) = typed.windows(length).position(|part| part == reply) else { return typed.len() };
        self.owed = None;
        typed.copy_within(at + length.., at);
        typed.len() - length
    }

    /// Writes as much as it takes. To be called when poll says that it takes something, unless it is this process's own.
    pub(crate) fn write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let length = if self.own { bytes.len() } else { bytes.len().min(SMALL) };
        rustix::io::write(&self.fd, &bytes[..length])
    }

    /// Whether a write never waits.
    pub(super) fn never_waits(&self) -> bool {
        self.own
    }

    /// Whether there is still somebody at the other end.
    pub(super) fn is_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// However a run ends, and also when the command never started.
impl Drop for CallerTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

impl AsFd for CallerTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the terminal behind `stream` is this session's. Only of that one does the kernel tell the session.
pub(super) fn is_controlling(stream: BorrowedFd) -> bool {
    rustix::termios::tcgetsid(stream).is_ok()
}
