//! This program's heap: one range of addresses, so that PID 1 of a sandbox, which starts as a clone of this process,
//! can give up all of it with one call, whichever C library is linked in.
//!
//! The range has parts, each with a lock of its own: threads that look through a large tree at the same time would
//! otherwise wait for each other most of the time.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};

/// Addresses asked for at first; what is not used costs nothing. Where a limit on addresses (`ulimit -v`) denies that
/// many, half of it is tried, and so on.
const MAX: usize = 16 << 30;
const MIN: usize = 16 << 20;
/// How much more is made usable at a time.
const GROWTH: usize = 256 << 10;
const PAGE: usize = 4096;
const PARTS: usize = 4;
/// The first part, which the first thread uses, has this many shares of the range, each of the others has one.
const FIRST_SHARES: usize = 5;
const SHARES: usize = FIRST_SHARES + PARTS - 1;

#[global_allocator]
static HEAP: Heap = Heap([Heap::part(0), Heap::part(1), Heap::part(2), Heap::part(3)]);

static RESERVED: Once = Once::new();
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// Threads that have allocated something so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The part that this thread allocates from, once it does. Without a destructor, so that it can be asked at any time.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Where the heap lies, for whoever is to give it up.
pub fn range() -> (usize, usize) {
    (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed))
}

/// How many threads have allocated something so far.
pub fn threads() -> usize {
    THREADS.load(Ordering::Relaxed)
}

struct Heap([Mutex<Dlmalloc<Part>>; PARTS]);

/// A part of the range. Only ever changed under its lock.
struct Part {
    index: usize,
    /// Up to where it can be used so far; 0 before the first use.
    usable: AtomicUsize,
}

impl Heap {
    const fn part(index: usize) -> Mutex<Dlmalloc<Part>> {
        Mutex::new(Dlmalloc::new_with_allocator(Part { index, usable: AtomicUsize::new(0) }))
    }

    fn lock(&self, part: usize) -> MutexGuard<'_, Dlmalloc<Part>> {
        self.0[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that a block was allocated from.
    fn part_of(block: *mut u8) -> usize {
        let (start, end) = range();
        let share = (block.addr() - start) / ((end - start) / SHARES);
        (share + 1).saturating_sub(FIRST_SHARES).min(PARTS - 1)
    }

    /// Has this thread's part allocate something, or the first where that has no room.
    fn allocate(&self, from: impl Fn(&mut Dlmalloc<Part>) -> *mut u8) -> *mut u8 {
        let own = OWN.get().unwrap_or_else(|| {
            let own = THREADS.fetch_add(1, Ordering::Relaxed) % PARTS;
            OWN.set(Some(own));
            own
        });
        let block = from(&mut self.lock(own));
        if block.is_null() && own != 0 { from(&mut self.lock(0)) } else { block }
    }
}

// SAFETY: the memory comes from the range, which nobody else uses; a part's lock is held for every call to it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout.
        self.allocate(|part| unsafe { part.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about the block.
        unsafe { self.lock(Heap::part_of(block)).free(block, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout.
        self.allocate(|part| unsafe { part.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise about the block.
        unsafe { self.lock(Heap::part_of(block)).realloc(block, layout.size(), layout.align(), size) }
    }
}

fn reserve() {
    let mut size = MAX;
    while size >= MIN {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping, wherever the kernel likes.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        if start != libc::MAP_FAILED {
            START.store(start as usize, Ordering::Relaxed);
            END.store(start as usize + size, Ordering::Relaxed);
            return;
        }
        size /= 2;
    }
}

impl Part {
    /// Where it begins and ends.
    fn bounds(&self) -> (usize, usize) {
        RESERVED.call_once(reserve);
        let (start, end) = range();
        let share = (end - start) / SHARES;
        let shares_before = |index: usize| if index == 0 { 0 } else { FIRST_SHARES + index - 1 };
        (start + shares_before(self.index) * share, start + shares_before(self.index + 1) * share)
    }
}

// SAFETY: hands out each part of a private mapping once.
unsafe impl Allocator for Part {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (start, end) = self.bounds();
        let from = self.usable.load(Ordering::Relaxed).max(start);
        let size = size.next_multiple_of(GROWTH);
        if size > end - from {
            return (ptr::null_mut(), 0, 0);
        }
        let start = ptr::with_exposed_provenance_mut::<u8>(from);
        // SAFETY: part of the range, which is mapped.
        if unsafe { libc::mprotect(start.cast(), size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return (ptr::null_mut(), 0, 0);
        }
        self.usable.store(from + size, Ordering::Relaxed);
        (start, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_lies_in_the_range() {
        let (small, large) = (Box::new(7u64), vec![0u8; 40 << 20]);
        let (start, end) = range();
        for address in [&raw const *small as usize, large.as_ptr() as usize] {
            assert!((start..end).contains(&address), "{address:#x} is not in {start:#x}..{end:#x}");
        }
    }

    #[test]
    fn every_part_serves_a_thread_and_takes_back_what_another_one_frees() {
        let block = || {
            let block = vec![1; 1 << 20];
            (OWN.get().unwrap(), block)
        };
        let blocks: Vec<(usize, Vec<u8>)> =
            (0..2 * PARTS).map(|_| std::thread::spawn(block).join().unwrap()).collect();
        let mut used = [false; PARTS];
        for (own, block) in &blocks {
            assert_eq!(Heap::part_of(block.as_ptr().cast_mut()), *own);
            used[*own] = true;
        }
        assert_eq!(used, [true; PARTS]);
        let bounds: Vec<_> = HEAP
            .0
            .iter()
            .enumerate()
            .map(|(index, _)| Part { index, usable: AtomicUsize::new(0) }.bounds())
            .collect();
        assert!(bounds.windows(2).all(|two| two[0].1 == two[1].0), "{bounds:x?}");
        for (part, (start, end)) in bounds.iter().enumerate() {
            let address = |at: usize| ptr::without_provenance_mut(at);
            assert_eq!([Heap::part_of(address(*start)), Heap::part_of(address(end - 1))], [part; 2]);
        }
    }

    #[test]
    fn what_is_given_back_is_used_again() {
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 {
            places.insert(vec![1u8; 8 << 20].as_ptr() as usize);
        }
        assert!(places.len() < 50, "{} places", places.len());
    }
}
