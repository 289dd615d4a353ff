//! Memory: mapped, handed out in pieces, wiped and given back.
//!
//! Init maps what it needs and keeps it. The leader of a command of a session has a stretch of init's memory to itself, which the
//! next leader uses again: mapping and unmapping in memory that several processes share costs more than all else they do.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::slice::{from_raw_parts, from_raw_parts_mut};

use super::{Errno, Result};

/// From where to where.
type Range = (usize, usize);

/// Fresh zeroed memory, never given back.
pub fn map(bytes: usize) -> Result<&'static mut [u8]> {
    const READ_AND_WRITE: usize = 1 | 2;
    const PRIVATE_AND_ANONYMOUS: usize = 0x22;
    let start = call!(SYS_mmap, 0, bytes, READ_AND_WRITE, PRIVATE_AND_ANONYMOUS, -1isize, 0)?;
    // SAFETY: so many bytes, which the kernel has just mapped where nothing was.
    Ok(unsafe { from_raw_parts_mut(start as *mut u8, bytes) })
}

/// Gives memory back.
///
/// # Safety
/// Nothing may use it any more.
unsafe fn unmap((start, end): Range) {
    if end > start {
        let _ = call!(SYS_munmap, start, end - start);
    }
}

fn range_of(bytes: &[u8]) -> Range {
    let bytes = bytes.as_ptr_range();
    (bytes.start as usize, bytes.end as usize)
}

/// Makes bytes unreadable for whoever takes this process over.
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: any bytes are numbers. Volatile, so that no store is dropped as one that nobody reads.
    unsafe {
        let (first, words, last) = bytes.align_to_mut::<u64>();
        first.iter_mut().chain(last).for_each(|byte| core::ptr::write_volatile(byte, 0));
        words.iter_mut().for_each(|word| core::ptr::write_volatile(word, 0));
    }
}

/// Zeroed memory that is given back with the value.
pub struct Mapping(&'static mut [u8]);

impl Mapping {
    pub fn new(bytes: usize) -> Result<Mapping> {
        map(bytes).map(Mapping)
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and lent for as long as this value at most.
        unsafe { unmap(range_of(self.0)) };
    }
}

/// A list with room for so many, in memory that is given back with it.
pub struct List<T> {
    memory: Mapping,
    length: usize,
    holds: PhantomData<T>,
}

impl<T: Copy> List<T> {
    pub fn with_room(most: usize) -> Result<List<T>> {
        let bytes = most.checked_mul(size_of::<T>()).ok_or(Errno::EINVAL)?;
        Ok(List { memory: Mapping::new(bytes)?, length: 0, holds: PhantomData })
    }

    /// Fails when there is no more room.
    pub fn push(&mut self, value: T) -> Result<()> {
        if self.length >= self.memory.len() / size_of::<T>() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: there is room for it, at the start of a page or a whole number of values behind.
        unsafe { self.memory.as_mut_ptr().cast::<T>().add(self.length).write(value) };
        self.length += 1;
        Ok(())
    }

    pub fn pop(&mut self) -> Option<T> {
        let last = self.last().copied()?;
        self.length -= 1;
        Some(last)
    }

    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: as many have been written.
        unsafe { from_raw_parts(self.memory.as_ptr().cast(), self.length) }
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as many have been written.
        unsafe { from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }
}

/// The most mappings beside the stretch.
const MAX: usize = 16;

/// Where the memory for what is sent comes from: for the parts of a plan, and for what is built from them.
pub struct Memory {
    /// What is left of the stretch.
    left: Cell<Range>,
    /// What did not fit, to be given back.
    mapped: Cell<[Range; MAX]>,
    gives_back: bool,
}

impl Memory {
    /// Always maps, and keeps it.
    pub const fn of_init() -> Memory {
        Memory::new((0, 0), false)
    }

    /// Always maps, and gives it back.
    pub const fn of_helper() -> Memory {
        Memory::new((0, 0), true)
    }

    /// From a stretch of memory that is nobody else's.
    pub fn of_leader(stretch: &'static mut [u8]) -> Memory {
        let (start, end) = range_of(stretch);
        Memory::new((rounded(start), end), true)
    }

    const fn new(stretch: Range, gives_back: bool) -> Memory {
        Memory { left: Cell::new(stretch), mapped: Cell::new([(0, 0); MAX]), gives_back }
    }

    /// So many bytes, which hold anything and begin at a multiple of 16.
    #[allow(clippy::mut_from_ref, reason = "no byte is handed out twice")]
    pub fn take(&self, bytes: usize) -> Result<&mut [u8]> {
        let (from, end) = self.left.get();
        let to = rounded(from.saturating_add(bytes));
        if to <= end {
            self.left.set((to, end));
            // SAFETY: a part of the stretch that nobody has been given.
            return Ok(unsafe { from_raw_parts_mut(from as *mut u8, bytes) });
        }
        let piece = map(bytes)?;
        if self.gives_back {
            let mut mapped = self.mapped.get();
            // More than a command has parts; should there be one too many, it stays.
            if let Some(free) = mapped.iter_mut().find(|free| free.1 == 0) {
                *free = range_of(piece);
            }
            self.mapped.set(mapped);
        }
        Ok(piece)
    }

    /// Keeps the first bytes of a piece. The rest is there again for the next, if none was taken since.
    pub fn keep<'m>(&'m self, piece: &'m mut [u8], used: usize) -> &'m mut [u8] {
        let ((start, end), (left, end_of_all)) = (range_of(piece), self.left.get());
        if rounded(end) == left {
            self.left.set((rounded(start + used.min(piece.len())), end_of_all));
        }
        piece.get_mut(..used).unwrap_or_default()
    }

    /// A null-terminated array of pointers, all of them null until they are set.
    #[allow(clippy::mut_from_ref, reason = "no byte is handed out twice")]
    pub fn take_pointers(&self, count: usize) -> Result<&mut [*const u8]> {
        let bytes = self.take((count + 1) * size_of::<*const u8>())?;
        // SAFETY: memory of that size that begins at a multiple of 16; any bytes are pointers.
        let pointers = unsafe { from_raw_parts_mut(bytes.as_mut_ptr().cast(), count + 1) };
        pointers.fill(core::ptr::null());
        Ok(pointers)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for mapping in self.mapped.take() {
            // SAFETY: mapped here, and lent for as long as this value at most.
            unsafe { unmap(mapping) };
        }
    }
}

fn rounded(address: usize) -> usize {
    address.saturating_add(15) & !15
}

/// A process with a single thread, and the memory that its clone does not need: the arguments, the environment and the heap.
#[derive(Clone, Copy, Debug)]
pub struct InheritedMemory {
    strings: Range,
    heap: Range,
    program_break: usize,
}

impl InheritedMemory {
    /// Where the strings of the arguments and the environment lie; where the heap lies, to be given back as a whole; and above
    /// which break the C library has put what it allocated, or 0 to leave it alone.
    ///
    /// # Safety
    /// This process has a single thread, and starts no other as long as the value is used. Nothing that a clone of it runs uses
    /// this memory.
    #[must_use]
    pub const unsafe fn new(strings: Range, heap: Range, program_break: usize) -> InheritedMemory {
        InheritedMemory { strings, heap, program_break }
    }

    /// Whether the next clones get no copy of the heap, which costs time and which they would give up at once. Should the kernel
    /// refuse, it is only slower.
    pub fn keep_from_clones(&self, keep: bool) {
        const MADV_DONTFORK: usize = 10;
        const MADV_DOFORK: usize = 11;
        let advice = if keep { MADV_DONTFORK } else { MADV_DOFORK };
        let _ = call!(SYS_madvise, self.heap.0, self.heap.1 - self.heap.0, advice);
    }

    /// Forgets all of it, before there is a command: it could read this process's arguments, because
    /// /proc/1/cmdline asks no permission.
    pub(in crate::child) fn give_up(self) {
        // SAFETY: what the maker of the value promised.
        unsafe {
            wipe_range(self.strings);
            unmap(self.heap);
        }
        if self.program_break != 0 {
            // What the C library put in front of the mark may lie in the same page.
            let page = self.program_break.next_multiple_of(4096);
            // A break that has not moved leaves nothing mapped there to wipe.
            if call!(SYS_brk, 0).is_ok_and(|now| now > self.program_break) {
                // SAFETY: as above.
                unsafe { wipe_range((self.program_break, page)) };
            }
            let _ = call!(SYS_brk, page);
        }
    }
}

/// # Safety
/// The range must be mapped, writable, and used by nobody in this process.
unsafe fn wipe_range((start, end): Range) {
    if start != 0 && end > start {
        // SAFETY: the caller's promise.
        wipe(unsafe { from_raw_parts_mut(start as *mut u8, end - start) });
    }
}
