//! This program's heap: one range of addresses, so that PID 1 of a sandbox, which starts as a clone of this process,
//! can give up all of it with one call, whichever C library is linked in.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};

/// Addresses asked for at first; what is not used costs nothing. Where a limit on addresses (`ulimit -v`) denies that
/// many, half of it is tried, and so on.
const MOST: usize = 16 << 30;
const LEAST: usize = 16 << 20;
/// How much more is made usable at a time.
const GROWTH: usize = 256 << 10;
const PAGE: usize = 4096;

#[global_allocator]
static HEAP: Heap = Heap(Mutex::new(Dlmalloc::new_with_allocator(Range)));

static START: AtomicUsize = AtomicUsize::new(0);
/// Up to where the range can be used so far.
static USABLE: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Where the heap lies, for whoever is to give it up.
pub fn range() -> (usize, usize) {
    (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed))
}

struct Heap(Mutex<Dlmalloc<Range>>);

/// The addresses between `START` and `END`. Only ever changed under the heap's lock.
struct Range;

// SAFETY: the memory comes from the range, which nobody else uses; the lock is held for every call.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise about the layout.
        unsafe { heap.malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut heap = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise about the block.
        unsafe { heap.free(block, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise about the layout.
        unsafe { heap.calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut heap = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise about the block.
        unsafe { heap.realloc(block, layout.size(), layout.align(), size) }
    }
}

impl Range {
    fn reserve() {
        let mut size = MOST;
        while size >= LEAST {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping, wherever the kernel likes.
            let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
            if start != libc::MAP_FAILED {
                USABLE.store(start as usize, Ordering::Relaxed);
                START.store(start as usize, Ordering::Relaxed);
                END.store(start as usize + size, Ordering::Relaxed);
                return;
            }
            size /= 2;
        }
    }
}

// SAFETY: hands out each part of a private mapping once.
unsafe impl Allocator for Range {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if START.load(Ordering::Relaxed) == 0 {
            Range::reserve();
        }
        let (from, end) = (USABLE.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
        let size = size.next_multiple_of(GROWTH);
        if size > end - from {
            return (ptr::null_mut(), 0, 0);
        }
        let start = ptr::with_exposed_provenance_mut::<u8>(from);
        // SAFETY: part of the range, which is mapped.
        if unsafe { libc::mprotect(start.cast(), size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return (ptr::null_mut(), 0, 0);
        }
        USABLE.store(from + size, Ordering::Relaxed);
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
    fn what_is_given_back_is_used_again() {
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 {
            places.insert(vec![1u8; 8 << 20].as_ptr() as usize);
        }
        assert!(places.len() < 50, "{} places", places.len());
    }
}
