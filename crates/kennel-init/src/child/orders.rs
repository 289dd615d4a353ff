//! What the controller sends over the link before the command runs: the three parts of the plan, and whatever a step
//! waits for.

use super::memory::Memory;
use super::sys::{self, Errno, Result};
use super::wire::Reader;
use crate::report::{self, Order};

/// The most bytes of a plan in one message, and how many bytes at the start of the first hold the length of the part.
pub const CHUNK: usize = 64 * 1024;
/// See [`CHUNK`].
pub const LENGTH: usize = size_of::<u64>();

/// A part of the plan, in memory of its own.
pub(super) struct Part {
    start: *mut u8,
    length: usize,
    mapped: usize,
}

impl Part {
    /// Waits for a part, for which `memory` has room. The end of the link means that the controller is gone.
    pub(super) fn receive(link: i32, memory: &Memory) -> Result<Part> {
        let mut part = Part { start: memory.take(LENGTH + CHUNK)?, length: 0, mapped: LENGTH + CHUNK };
        let mut received = part.fill(link, 0, LENGTH + CHUNK)?;
        let length = Reader::new(part.bytes(0, received)).u64()?;
        let length = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH));
        part.length = length.ok_or(Errno::EPROTO)?;
        if part.length > part.mapped {
            part = part.grow(received, memory)?;
        } else {
            memory.shrink(part.start, part.length);
        }
        while received < part.length {
            received += part.fill(link, received, part.length)?;
        }
        Ok(part)
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(self.bytes(LENGTH, self.length))
    }

    /// Makes it unreadable for whoever takes this process over: it held the command's environment. Not by giving the
    /// memory back, which would have to tell every processor that has seen it; the child that became the command has
    /// made that more than one.
    ///
    /// # Safety
    /// Nothing may read it any more.
    pub(super) unsafe fn wipe(self) {
        // SAFETY: the caller's promise.
        unsafe { self.wipe_first(self.length) };
    }

    /// # Safety
    /// As [`Part::wipe`].
    unsafe fn wipe_first(&self, bytes: usize) {
        let words = (self.start.cast::<u64>(), bytes.div_ceil(size_of::<u64>()));
        // SAFETY: memory comes in whole words, so that the last one is this part's too. Volatile, so that the loop is not
        // dropped as a store that nobody reads.
        unsafe { (0..words.1).for_each(|at| core::ptr::write_volatile(words.0.add(at), 0)) };
    }

    fn bytes(&self, from: usize, to: usize) -> &[u8] {
        // SAFETY: callers stay below `mapped`; nothing writes to what has been received.
        unsafe { core::slice::from_raw_parts(self.start.add(from), to.saturating_sub(from)) }
    }

    /// Receives one message behind the first `from` bytes.
    fn fill(&mut self, link: i32, from: usize, to: usize) -> Result<usize> {
        // SAFETY: callers stay below `mapped`, and nothing refers to what has not been received.
        let buffer = unsafe { core::slice::from_raw_parts_mut(self.start.add(from), to - from) };
        loop {
            match sys::recv(link, buffer) {
                Ok(0) => return Err(Errno::ECANCELED),
                Err(Errno::EINTR) => {}
                other => return other,
            }
        }
    }

    fn grow(self, received: usize, memory: &Memory) -> Result<Part> {
        let larger = Part { start: memory.take(self.length)?, length: self.length, mapped: self.length };
        // SAFETY: two stretches of at least `received` bytes; the old one is used no more.
        unsafe {
            core::ptr::copy_nonoverlapping(self.start, larger.start, received);
            self.wipe_first(received);
        }
        Ok(larger)
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
