//! Init as a program of its own: no standard library, no C library, a few kilobytes.
//!
//! Started by an exec from a sealed memory file, so that PID 1 of a library's sandbox holds nothing of the program
//! that uses the library. Its argument is the number of a descriptor: the link to the controller. A second argument says
//! that it waits for its id maps first; that it is not PID 1, but a helper of a sandbox that runs, which covers names again,
//! makes a pair of sockets, or gives the caller what other users have left; or the zygote, which clones inits.

#![no_std]
#![no_main]
#![allow(dead_code, reason = "the same modules also serve the library, which uses more of them")]

#[path = "../src/child/mod.rs"]
mod child;
mod no_libc;
#[path = "../src/report.rs"]
mod report;
#[path = "../src/role.rs"]
mod role;

use child::sys;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(".globl _start", "_start:", "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {main}", "ud2", main = sym main);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(".globl _start", "_start:", "mov x29, xzr", "mov x0, sp", "bl {main}", "brk 1", main = sym main);

/// # Safety
/// `stack` must be the stack pointer at the program's first instruction: the argument count, then the arguments.
unsafe extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the kernel lays out the count and that many strings; the launcher passes two or three.
    let (count, link) = unsafe { (*stack, *stack.add(2)) };
    if !(2..=3).contains(&count) {
        sys::exit(64);
    }
    // SAFETY: a NUL-terminated string of the kernel's making, which stays where it is.
    let link = unsafe { number(link as *const u8) };
    // SAFETY: this is a fresh process with one thread; it inherited no memory.
    let alone = unsafe { child::InheritedMemory::new((0, 0), (0, 0), 0) };
    if count == 3 {
        // SAFETY: the third of the three arguments, NUL-terminated.
        match unsafe { *(*stack.add(3) as *const u8) } {
            b'm' => child::mend::run(link),
            b'p' => child::pair::run(link),
            b'o' => child::owners::run(link),
            b'w' => child::run_when_mapped(link, alone),
            b'z' => child::zygote::run(link, alone),
            _ => sys::exit(64),
        }
    }
    child::run(link, alone)
}

/// # Safety
/// `digits` must be NUL-terminated.
unsafe fn number(digits: *const u8) -> i32 {
    let mut value = 0i32;
    let mut at = 0;
    // SAFETY: the caller's promise.
    while let digit @ b'0'..=b'9' = unsafe { *digits.add(at) } {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
        at += 1;
    }
    value
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::exit(70)
}
