//! The instruction that makes a system call. kennel-entrypoint has it from here too.

/// Makes a system call. What it returns is the kernel's answer: from -4095 to -1 the number of an error.
///
/// # Safety
/// The arguments must be what the kernel expects of call `number`: pointers valid for what it reads and writes.
#[inline]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: the caller vouches for the arguments; the instruction clobbers only rcx, r11 and memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => returned, in("rdi") a, in("rsi") b,
            in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: the caller vouches for the arguments; the instruction clobbers only x0 and memory.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => returned, in("x1") b,
            in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("the system calls of x86_64 and arm64 are known, and no others");
    returned
}
