//! What the controller sends over the link before the command runs: the three parts of the plan, and whatever a step
//! waits for.

use super::sys::memory::{Memory, wipe};
use super::sys::{self, Errno, Result};
use super::wire::Reader;
use crate::report::{self, Order};

/// The most bytes of a plan in one message, and how many bytes at the start of the first hold the length of the part.
pub const CHUNK: usize = 64 * 1024;
/// See [`CHUNK`].
pub const LENGTH: usize = size_of::<u64>();

/// A part of the plan, in memory of its own.
pub(super) struct Part<'m>(&'m mut [u8]);

impl<'m> Part<'m> {
    /// Waits for a part, for which `memory` has room. The end of the link means that the controller is gone.
    pub(super) fn receive(link: i32, memory: &'m Memory) -> Result<Part<'m>> {
        let first = memory.take(LENGTH + CHUNK)?;
        let mut received = fill(link, first)?;
        let length = Reader::new(first.get(..received).unwrap_or_default()).u64()?;
        let length = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH));
        let length = length.ok_or(Errno::EPROTO)?;
        let whole = if length > first.len() {
            let larger = memory.take(length)?;
            for (to, from) in larger.iter_mut().zip(first.iter().take(received)) {
                *to = *from;
            }
            wipe(first);
            larger
        } else {
            memory.keep(first, length)
        };
        while received < length {
            received += fill(link, whole.get_mut(received..).ok_or(Errno::EPROTO)?)?;
        }
        Ok(Part(whole))
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(self.0.get(LENGTH..).unwrap_or_default())
    }

    /// Makes it unreadable for whoever takes this process over: it held the command's environment. Not by giving the
    /// memory back, which would have to tell every processor that has seen it; the child that became the command has
    /// made that more than one.
    pub(super) fn wipe(self) {
        wipe(self.0);
    }
}

/// Receives one message.
fn fill(link: i32, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match sys::recv(link, buffer) {
            Ok(0) => return Err(Errno::ECANCELED),
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Blocks until the controller says go, or hands over cgroups to enter first: a process that enters by itself is cheaper
/// to move than one that is moved. The end of the socket means that the controller is gone.
pub(super) fn await_go(link: i32) -> Result<()> {
    loop {
        let mut message = [0; report::LENGTH];
        let (length, entrances) = match sys::recv_with_fds(link, &mut message) {
            Ok((0, _)) => return Err(Errno::ECANCELED),
            Ok(received) => received,
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error),
        };
        match Order::decode(&message[..length]) {
            Some(Order::Go) => return Ok(()),
            Some(Order::Enter) => {
                return entrances
                    .iter()
                    .flatten()
                    .try_for_each(|entrance| sys::write_all(entrance.raw(), b"0"));
            }
            _ => {}
        }
    }
}
