//! Memory for what is sent: the parts of a plan, and what is built from them.
//!
//! Init maps what it needs and keeps it. The leader of a command of a session has a stretch of init's memory to itself, which the
//! next leader uses again: mapping and unmapping in memory that several processes share costs more than all else they do.

use core::cell::Cell;

use super::sys::{self, Result};

/// The most mappings beside the stretch.
const MOST: usize = 16;

/// Where memory comes from.
pub(super) struct Memory {
    /// The stretch, and how far it is used.
    start: usize,
    next: Cell<usize>,
    end: usize,
    /// What did not fit, to be given back.
    mapped: Cell<[(usize, usize); MOST]>,
    gives_back: bool,
}

impl Memory {
    /// Always maps, and keeps it.
    pub(super) const fn of_init() -> Memory {
        Memory::new(0, 0, false)
    }

    /// Always maps, to be given back.
    pub(super) const fn of_helper() -> Memory {
        Memory::new(0, 0, true)
    }

    /// From a stretch of memory that is nobody else's.
    pub(super) const fn of_leader(start: usize, end: usize) -> Memory {
        Memory::new(start, end, true)
    }

    const fn new(start: usize, end: usize, gives_back: bool) -> Memory {
        Memory { start, next: Cell::new(start), end, mapped: Cell::new([(0, 0); MOST]), gives_back }
    }

    /// So many bytes, which hold anything.
    pub(super) fn take(&self, bytes: usize) -> Result<*mut u8> {
        let from = self.next.get();
        let to = from.saturating_add(bytes).saturating_add(15) & !15;
        if to <= self.end {
            self.next.set(to);
            return Ok(from as *mut u8);
        }
        let start = sys::map_memory(bytes)?;
        if self.gives_back {
            let mut mapped = self.mapped.get();
            // More than a command has parts; should there be one too many, it stays.
            if let Some(free) = mapped.iter_mut().find(|free| free.1 == 0) {
                *free = (start as usize, start as usize + bytes);
            }
            self.mapped.set(mapped);
        }
        Ok(start)
    }

    /// Of the bytes at `start`, which were taken last, only so many are used.
    pub(super) fn shrink(&self, start: *mut u8, used: usize) {
        if (self.start..self.end).contains(&(start as usize)) {
            self.next.set((start as usize + used + 15) & !15);
        }
    }

    /// Gives back what was mapped beside the stretch.
    ///
    /// # Safety
    /// Nothing that was taken may be used any more.
    pub(super) unsafe fn give_back(&self) {
        for mapping in self.mapped.take() {
            // SAFETY: mapped here; the rest is the caller's promise.
            unsafe { sys::unmap(mapping) };
        }
    }
}
