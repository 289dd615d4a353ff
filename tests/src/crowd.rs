//! A fork bomb with a limit, so that it can be set off on a machine that others use.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The role: `crowd MARKER MAX` fills up to MAX processes and then goes on replacing them for ever, each child
/// forking before its parent ends, so that whoever kills one by one is always late. After 30 s they all give up, so
/// that a sandbox which does not end them is a failed test and not a lost machine.
pub fn crowd(arguments: &[OsString]) -> i32 {
    let most: u32 = arguments[1].to_string_lossy().parse().expect("a number");
    // SAFETY: a fresh shared mapping of one page, which starts as zeroes and outlives every process here.
    let alive = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED, "a page of memory");
        &*page.cast::<AtomicU32>()
    };
    let end = Instant::now() + Duration::from_secs(30);
    // SAFETY: this process has one thread, so its children may go on as it would.
    if unsafe { libc::fork() } != 0 {
        std::thread::sleep(Duration::from_secs(60));
    }
    alive.fetch_add(1, Ordering::Relaxed);
    while Instant::now() < end {
        let room = most.saturating_sub(alive.load(Ordering::Relaxed)).min(2);
        for _ in 0..room.max(1) {
            alive.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as above.
            match unsafe { libc::fork() } {
                0 => break,
                -1 => drop(alive.fetch_sub(1, Ordering::Relaxed)),
                _ => {
                    if alive.load(Ordering::Relaxed) > most {
                        alive.fetch_sub(1, Ordering::Relaxed);
                        // SAFETY: ends this process without its parent's exit handlers.
                        unsafe { libc::_exit(0) };
                    }
                }
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    0
}
