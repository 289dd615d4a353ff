//! Two things at a time: a network namespace takes the kernel as long to make as all the mounts together, and neither
//! needs the other. While this thread makes the network, a second one makes the mounts.
//!
//! The second thread shares everything with the first, is joined before any restriction is taken on, and nothing it
//! used is touched before that.

use core::sync::atomic::{AtomicU32, Ordering};

use super::clone::{CloneArgs, Entry, flag, thread_on_stack};
use super::sys::{self, Errno};

const STACK: usize = 64 * 1024;
/// The thread's id in the new PID namespace. Left to the kernel it would be 2, which is what people expect the command
/// to be; no namespace can be made too small for this one.
const THREAD_ID: u32 = 299;

/// What the second thread does, and what came of it.
struct Task<'w> {
    work: &'w mut dyn FnMut(),
}

/// Calls `aside` on a second thread and `here` on this one, and waits for both. Where no thread can be had, or not with
/// that id (before Linux 5.5), they come one after the other.
///
/// # Safety
/// The two must use nothing that the other changes.
pub(super) unsafe fn together(aside: &mut dyn FnMut(), here: impl FnOnce()) {
    // Not zero while the thread runs: the kernel clears it, and wakes whoever waits, when it has ended.
    let running = AtomicU32::new(1);
    let mut task = Task { work: aside };
    let stack = sys::map_memory(STACK);
    let id = THREAD_ID;
    let started = stack.and_then(|stack| {
        let args = CloneArgs {
            flags: flag::THREAD | flag::CHILD_CLEARTID,
            child_tid: running.as_ptr() as u64,
            stack: stack as u64,
            stack_size: STACK as u64,
            set_tid: &raw const id as u64,
            set_tid_size: 1,
            ..CloneArgs::default()
        };
        let entry: Entry = run;
        // SAFETY: the stack is fresh; `run` ends the thread and never returns; `task` outlives it, because nothing
        // leaves this function before it has ended.
        unsafe { thread_on_stack(&args, entry, (&raw mut task).cast()) }
    });
    here();
    match started {
        Ok(_) => {
            while running.load(Ordering::Acquire) != 0 {
                sys::futex_wait(&running, 1);
            }
        }
        Err(_) => (task.work)(),
    }
    if let Ok(stack) = stack {
        // SAFETY: the only thread that used it has ended.
        unsafe { sys::unmap((stack as usize, stack as usize + STACK)) };
    }
}

/// The second thread.
///
/// # Safety
/// `argument` must point to a [`Task`] that outlives the thread.
unsafe extern "C" fn run(argument: *mut u8) -> ! {
    // SAFETY: the caller's promise.
    let task = unsafe { &mut *argument.cast::<Task>() };
    (task.work)();
    sys::exit_thread()
}

/// The earlier of two failures.
pub(super) fn earlier(
    one: Result<(), (u32, Errno)>,
    other: Result<(), (u32, Errno)>,
) -> Result<(), (u32, Errno)> {
    match (one, other) {
        (Err(one), Err(other)) => Err(if other.0 < one.0 { other } else { one }),
        (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
        (Ok(()), Ok(())) => Ok(()),
    }
}
