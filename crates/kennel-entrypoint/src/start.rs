//! Running without a C library: the first instruction, and memory.
//!
//! Why without: a static C library looks at the processor before `main`, with some fifty CPUID instructions. In a virtual
//! machine each of them is an exit to the hypervisor; that made half a millisecond of the start of every agent, ten times
//! all the rest of this program. It also keeps the program at a few dozen kilobytes, all of which can be read here.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

// Builds whose panics unwind (all but releases) need the standard library for its unwinder. Nothing else of it may be
// used: it expects a C library that has been started.
#[cfg(panic = "unwind")]
extern crate std;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {main}",
    "brk 1",
    main = sym main
);

/// # Safety
///
/// To be called by `_start` only, with the stack pointer as it was at the first instruction.
unsafe extern "C" fn main(stack: *mut usize) -> ! {
    // SAFETY: there the kernel has put the number of arguments, the arguments, a null, the environment, a null; the
    // strings that they point to are higher up on the same stack. There is one thread, and nobody has looked yet.
    let code = unsafe {
        let count = *stack;
        let arguments = stack.add(1);
        let environment = arguments.add(count + 1);
        let [arguments, environment] =
            [arguments, environment].map(|list| kennel_entrypoint::Strings::new(list.cast()));
        kennel_entrypoint::boot(arguments, environment)
    };
    kennel_entrypoint::exit(code)
}

/// A panic is a bug, or memory that ran out; either way the agent does not start.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    kennel_entrypoint::die_of_panic()
}

// Memory

/// Memory that is given out once and never taken back: this program ends, or becomes another, long before it matters.
///
/// It is zero-filled memory of the program file's own, so no page of it exists before it is used. The largest consumers
/// are lists of pointers to environment strings; the kernel limits arguments and environment to 6 MiB together.
struct Arena {
    memory: UnsafeCell<[MaybeUninit<u8>; ARENA_SIZE]>,
    used: AtomicUsize,
}

const ARENA_SIZE: usize = 64 << 20;

// SAFETY: there is only one thread.
unsafe impl Sync for Arena {}

#[global_allocator]
static ARENA: Arena =
    Arena { memory: UnsafeCell::new([MaybeUninit::uninit(); ARENA_SIZE]), used: AtomicUsize::new(0) };

impl Arena {
    fn base(&self) -> *mut u8 {
        self.memory.get().cast()
    }
}

// SAFETY: what `alloc` returns is aligned, inside `memory`, and disjoint from all that was returned before, since `used`
// only grows; a block is made longer in place only if nothing follows it.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = self.used.load(Relaxed);
        // SAFETY: `used` is at most the size of the memory.
        let padding = unsafe { self.base().add(used) }.align_offset(layout.align());
        let start = used.checked_add(padding);
        let end = start.and_then(|start| start.checked_add(layout.size()));
        match (start, end) {
            (Some(start), Some(end)) if end <= ARENA_SIZE => {
                self.used.store(end, Relaxed);
                // SAFETY: inside the memory, as was just checked.
                unsafe { self.base().add(start) }
            }
            _ => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let start = block.addr() - self.base().addr();
        let is_last = start + layout.size() == self.used.load(Relaxed);
        if is_last && new_size <= ARENA_SIZE - start {
            self.used.store(start + new_size, Relaxed);
            return block;
        }
        // SAFETY: the caller's promise: `new_size` is not too large for the alignment.
        let moved = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: two disjoint blocks, each at least that long.
            unsafe { core::ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size)) };
        }
        moved
    }
}
