//! Callers that are large, because the cost of a start must not grow with them.

use std::io;

use crate::Failure;

/// Becomes a large program: page tables as a heap of small allocations makes them, and threads that wait.
///
/// # Errors
/// When there is no memory for it.
pub fn grow(size: usize, threads: usize) -> Result<(), Failure> {
    const PAGE: usize = 4096;
    // SAFETY: a fresh mapping, advised and written within its bounds, and never unmapped.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0);
        if start == libc::MAP_FAILED || libc::madvise(start, size, libc::MADV_NOHUGEPAGE) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        for at in (0..size).step_by(PAGE) {
            start.cast::<u8>().add(at).write_volatile(1);
        }
    }
    for _ in 0..threads {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    Ok(())
}
