//! Standard streams that the controller carries: the command has a pipe in the place of what the caller gave.
//!
//! A regular file behind standard output could be changed by its descriptor (mode, times, attributes), opened again to be
//! read where reading it is denied, and truncated; so could a FIFO that has a name, and a device takes commands. A pipe is
//! none of that. What comes out of it is written to the caller's own descriptor, which keeps its position and whether it
//! appends, in the order in which it came.
//!
//! Nothing here waits but a write to a regular file: what the other side does not take stays where it is, and whoever
//! writes waits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::readiness::Interest;
use super::terminal::{CallerTerminal, Queue};

const AT_ONCE: usize = 64 * 1024;
/// A pipe that poll calls ready takes this much without waiting.
const PIPE_BUFFER: usize = 4096;

/// All streams that are carried.
#[derive(Debug, Default)]
pub struct Carried {
    outlets: Vec<Outlet>,
    inlet: Option<Inlet>,
    /// Standard input as it was opened again inside: it tells how far the command has read.
    input: Option<OwnedFd>,
    /// The regular file behind the input, which is to stand where the command has left it.
    file: Option<OwnedFd>,
    failed: Option<(&'static str, Errno)>,
}

/// Where output goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// A regular file or a block device: takes everything at once. With the most that it may grow to.
    File(OwnedFd, Option<u64>),
    /// A terminal that is not the one the command has.
    Terminal(CallerTerminal),
    /// Whatever else: pipes, sockets, devices.
    Other(OwnedFd),
}

/// A stream that goes out.
#[derive(Debug)]
struct Outlet {
    /// For errors.
    doing: &'static str,
    /// The pipe's end, until nobody writes any more, or nobody reads.
    from: Option<OwnedFd>,
    to: Sink,
    queue: Queue,
    /// How much more may pass.
    left: Option<u64>,
    truncated: bool,
}

/// The stream that goes in.
#[derive(Debug)]
struct Inlet {
    /// `None` at its end.
    from: Option<OwnedFd>,
    to: Option<OwnedFd>,
    queue: Queue,
    /// The pipe's other end, if the input is a regular file, whose position is to tell how far the command has read: what is
    /// still in the pipe was not.
    unread: Option<OwnedFd>,
}

impl Carried {
    /// Has an output carried to `sink`; the pipe's end is for the command. No more than `cap` bytes pass.
    pub(super) fn output(
        &mut self,
        doing: &'static str,
        to: Sink,
        cap: Option<u64>,
    ) -> rustix::io::Result<OwnedFd> {
        let (from, end) = pipe_for_output()?;
        let (from, queue) = (Some(from), Queue::new(AT_ONCE));
        self.outlets.push(Outlet { doing, from, to, queue, left: cap, truncated: false });
        Ok(end)
    }

    /// Has input carried from `from`; the pipe's end is for the command.
    pub(super) fn input(&mut self, from: OwnedFd, seekable: bool) -> rustix::io::Result<OwnedFd> {
        let (end, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        self.feed(from, to, seekable)?;
        Ok(end)
    }

    /// Has input carried from `from` to a pipe.
    pub(super) fn feed(&mut self, from: OwnedFd, to: OwnedFd, seekable: bool) -> rustix::io::Result<()> {
        rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK)?;
        let path = format!("/proc/self/fd/{}", to.as_raw_fd());
        let reading = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let unread = seekable.then(|| rustix::fs::open(path, reading, Mode::empty()).ok()).flatten();
        self.inlet = Some(Inlet { from: Some(from), to: Some(to), queue: Queue::new(AT_ONCE), unread });
        Ok(())
    }

    /// Has `file` stand in the end where the command has left it: whoever reads on reads what follows.
    pub(super) fn restore(&mut self, file: OwnedFd) {
        self.file = Some(file);
    }

    /// Follows how far the command reads a file that it has open by itself.
    pub(super) fn follow(&mut self, input: OwnedFd) {
        self.input = Some(input);
    }

    /// Whether there was more output than the cap.
    pub(super) fn truncated(&self) -> bool {
        self.outlets.iter().any(|outlet| outlet.truncated)
    }

    pub(super) fn register<'a>(&'a self, fds: &mut Vec<Interest<'a>>) {
        for outlet in &self.outlets {
            fds.extend(outlet.waits_for().map(|(fd, flags)| Interest::from_borrowed(fd, flags)));
        }
        if let Some(inlet) = &self.inlet {
            fds.extend(inlet.waits_for().map(|(fd, flags)| Interest::from_borrowed(fd, flags)));
        }
    }

    /// Moves what can be moved. `ready` are the answers to what was registered.
    pub(super) fn carry(&mut self, ready: &[PollFlags]) {
        let mut ready = ready.iter().copied();
        for outlet in &mut self.outlets {
            if outlet.waits_for().is_some()
                && !ready.next().unwrap_or(PollFlags::empty()).is_empty()
                && let Err(error) = outlet.carry()
            {
                self.failed.get_or_insert((outlet.doing, error));
            }
        }
        if let Some(inlet) = &mut self.inlet
            && inlet.waits_for().is_some()
        {
            inlet.carry(ready.next().unwrap_or(PollFlags::empty()));
        }
    }

    /// Whether output is still to be written.
    pub(super) fn is_busy(&self) -> bool {
        self.outlets.iter().any(|outlet| outlet.from.is_some() || !outlet.queue.is_empty())
    }

    /// The file behind the input stands where the command has left it.
    pub(super) fn finish(&mut self) {
        let (input, inlet) = (self.input.take(), self.inlet.take());
        let Some(file) = &self.file else { return };
        if let Some(position) = input.and_then(|input| rustix::fs::tell(input).ok()) {
            let _ = rustix::fs::seek(file, SeekFrom::Start(position));
        }
        if let Some(inlet) = inlet {
            inlet.give_back(file);
        }
    }

    /// An output that could not be written: what was being done, and what the system said.
    pub(crate) fn failure(&mut self) -> Option<(&'static str, io::Error)> {
        self.failed.take().map(|(doing, error)| (doing, error.into()))
    }
}

fn pipe_for_output() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (from, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Only this end: the flag belongs to the open file, and each end of a pipe is one of its own.
    rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK)?;
    Ok((from, end))
}

impl Outlet {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        if self.queue.is_empty() {
            self.from.as_ref().map(|from| (from.as_fd(), PollFlags::IN))
        } else {
            Some((self.to.as_fd(), PollFlags::OUT))
        }
    }

    /// Reads when there is nothing to write, and writes otherwise. At most one buffer's worth: a flood on one stream does
    /// not starve the other, or the clock.
    fn carry(&mut self) -> Result<(), Errno> {
        if self.queue.is_empty() {
            self.read();
            if !matches!(self.to, Sink::File(..)) {
                return Ok(());
            }
        }
        match self.queue.drain_once(|bytes| self.to.write(bytes)) {
            Ok(()) => Ok(()),
            Err(error) => {
                // The command is told by SIGPIPE, as it is when a reader goes away.
                self.from = None;
                self.queue.clear();
                if error == Errno::PIPE { Ok(()) } else { Err(error) }
            }
        }
    }

    fn read(&mut self) {
        let Some(from) = &self.from else { return };
        let (left, truncated) = (&mut self.left, &mut self.truncated);
        let ended = self.queue.fill(|buffer| match rustix::io::read(from, buffer) {
            Ok(0) => (0, true),
            Ok(count) => {
                // Beyond the cap output is read and dropped, so that the command goes on as it would.
                let passed = left.map_or(count, |left| count.min(usize::try_from(left).unwrap_or(count)));
                *truncated |= passed < count;
                *left = left.map(|left| left - passed as u64);
                (passed, false)
            }
            Err(Errno::AGAIN | Errno::INTR) => (0, false),
            Err(_) => (0, true),
        });
        if ended {
            self.from = None;
        }
    }
}

impl Sink {
    fn write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Sink::File(file, None) => rustix::io::write(file, bytes),
            Sink::File(file, Some(most)) => {
                let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
                let at = match appends {
                    true => rustix::fs::fstat(file)?.st_size.unsigned_abs(),
                    false => rustix::fs::tell(file)?,
                };
                let room = usize::try_from(most.saturating_sub(at)).unwrap_or(usize::MAX);
                match &bytes[..bytes.len().min(room)] {
                    [] => Err(Errno::FBIG),
                    some => rustix::io::write(file, some),
                }
            }
            Sink::Terminal(terminal) => terminal.write(bytes),
            Sink::Other(fd) => rustix::io::write(fd, &bytes[..bytes.len().min(PIPE_BUFFER)]),
        }
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Sink::File(fd, _) | Sink::Other(fd) => fd.as_fd(),
            Sink::Terminal(terminal) => terminal.as_fd(),
        }
    }
}

impl Inlet {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let (from, to) = (self.from.as_ref(), self.to.as_ref()?);
        match from {
            Some(from) if self.queue.is_empty() => Some((from.as_fd(), PollFlags::IN)),
            _ => Some((to.as_fd(), PollFlags::OUT)),
        }
    }

    fn carry(&mut self, ready: PollFlags) {
        if ready.is_empty() {
            return;
        }
        if self.queue.is_empty()
            && let Some(from) = &self.from
        {
            let ended = self.queue.fill(|buffer| match rustix::io::read(from, buffer) {
                Ok(0) => (0, true),
                Ok(count) => (count, false),
                Err(Errno::AGAIN | Errno::INTR) => (0, false),
                Err(_) => (0, true),
            });
            if ended {
                (self.from, self.to) = (None, None);
                return;
            }
        }
        if let Some(to) = &self.to
            && self.queue.drain(|bytes| rustix::io::write(to, bytes)).is_err()
        {
            // The command wants no more.
            (self.from, self.to) = (None, None);
        }
    }

    /// What the command has not read of a file is for whoever reads on.
    fn give_back(self, file: &OwnedFd) {
        let Some(in_pipe) = self.unread.and_then(|end| rustix::io::ioctl_fionread(end).ok()) else { return };
        let unread = in_pipe + self.queue.waiting().len() as u64;
        if unread > 0 {
            let back = -i64::try_from(unread).unwrap_or(0);
            let _ = rustix::fs::seek(file, SeekFrom::Current(back));
        }
    }
}
