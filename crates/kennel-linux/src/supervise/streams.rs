//! The command's standard streams, carried by the controller: input fed, output captured up to a cap.
//!
//! Output beyond the cap is read and dropped, so that the command goes on as it would, while the controller's memory
//! stays bounded whatever it writes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::readiness::Interest;

/// How much is read at once.
const AT_ONCE: usize = 64 * 1024;

/// What was captured of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes, up to the cap.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub truncated: bool,
}

/// The controller's ends of the pipes.
#[derive(Debug)]
pub struct Streams {
    input: Option<(OwnedFd, Vec<u8>, usize)>,
    outputs: [Option<OwnedFd>; 2],
    captured: [Captured; 2],
    cap: usize,
    buffer: Vec<u8>,
}

/// The command's ends, to be closed here once it runs.
#[derive(Debug)]
pub struct ChildEnds {
    /// Standard input, output and error.
    pub fds: [OwnedFd; 3],
}

impl Streams {
    /// Makes the pipes. Without `input` the command reads an empty one.
    pub fn new(input: Option<Vec<u8>>, cap: usize) -> io::Result<(Streams, ChildEnds)> {
        let (streams, ends) = Streams::some(input, cap, [true; 3])?;
        let [Some(stdin), Some(stdout), Some(stderr)] = ends else {
            return Err(io::ErrorKind::Other.into());
        };
        Ok((streams, ChildEnds { fds: [stdin, stdout, stderr] }))
    }

    /// Makes pipes for those streams that are `wanted`; returns the command's ends.
    pub fn some(
        mut input: Option<Vec<u8>>,
        cap: usize,
        wanted: [bool; 3],
    ) -> io::Result<(Streams, [Option<OwnedFd>; 3])> {
        let mut streams = Streams {
            input: None,
            outputs: [None, None],
            captured: Default::default(),
            cap,
            buffer: Vec::new(),
        };
        let mut ends = [const { None }; 3];
        for (index, end) in ends.iter_mut().enumerate().filter(|(index, _)| wanted[*index]) {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            let (ours, theirs) = if index == 0 { (writer, reader) } else { (reader, writer) };
            // Only this end: the flag belongs to the open file, and each end of a pipe is one of its own.
            rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
            *end = Some(theirs);
            match index {
                0 => {
                    let bytes = input.take().filter(|bytes| !bytes.is_empty());
                    streams.input = bytes.map(|bytes| (ours, bytes, 0));
                }
                output => streams.outputs[output - 1] = Some(ours),
            }
        }
        Ok((streams, ends))
    }

    pub(super) fn register<'a>(&'a self, fds: &mut Vec<Interest<'a>>) {
        if let Some((fd, ..)) = &self.input {
            fds.push(Interest::new(fd, PollFlags::OUT));
        }
        fds.extend(self.outputs.iter().flatten().map(|fd| Interest::new(fd, PollFlags::IN)));
    }

    /// Moves what can be moved without waiting.
    pub(super) fn carry(&mut self) {
        if let Some((fd, bytes, at)) = &mut self.input {
            let closed = loop {
                match rustix::io::write(&*fd, &bytes[*at..]) {
                    Ok(n) => *at += n,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break false,
                    // The command does not want any more (EPIPE; the signal is held back).
                    Err(_) => break true,
                }
                if *at == bytes.len() {
                    break true;
                }
            };
            if closed {
                self.input = None;
            }
        }
        // One buffer's worth of each in turn: a flood on one stream does not starve the other, or the clock.
        for index in 0..2 {
            self.read_some(index);
        }
    }

    /// Reads once from one stream; true while there may be more to come.
    fn read_some(&mut self, index: usize) -> bool {
        let (Some(fd), captured) = (&self.outputs[index], &mut self.captured[index]) else { return false };
        let room = self.cap.saturating_sub(captured.bytes.len());
        let more = read_some(fd, &mut self.buffer, captured, room).is_continue();
        if !more {
            self.outputs[index] = None;
        }
        more
    }

    /// Whether there is something to feed.
    pub(super) fn feeds(&self) -> bool {
        self.input.is_some()
    }

    /// Takes what is left in the pipes once every writer is gone.
    pub(super) fn drain(&mut self) {
        for index in 0..2 {
            // Bounded by the pipe's capacity: nobody inside is left to write.
            for _ in 0..64 {
                if !self.read_some(index) {
                    break;
                }
            }
            self.outputs[index] = None;
        }
    }

    /// Whether there was more output than the cap.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.captured.iter().any(|captured| captured.truncated)
    }

    /// What was captured: standard output and standard error.
    #[must_use]
    pub fn into_captured(self) -> [Captured; 2] {
        self.captured
    }
}

/// Reads once; of what comes, keeps as much as there is `room` for. `buffer` is empty before and after.
fn read_some(
    fd: impl AsFd,
    buffer: &mut Vec<u8>,
    captured: &mut Captured,
    room: usize,
) -> std::ops::ControlFlow<()> {
    // On the heap and never cleared: of 64 KiB on the stack every page would be touched, for a command that says nothing.
    buffer.reserve_exact(AT_ONCE);
    let read = rustix::io::read(fd, spare_capacity(buffer));
    let taken = buffer.len();
    captured.bytes.extend_from_slice(&buffer[..taken.min(room)]);
    captured.truncated |= taken > room;
    buffer.clear();
    match read {
        Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => std::ops::ControlFlow::Continue(()),
        Ok(0) | Err(_) => std::ops::ControlFlow::Break(()),
    }
}
