//! Roads into the kernel that no library takes: the 32-bit gate and the fixed page of old programs.

use std::ffi::OsString;

/// A call of the 32-bit table by `int 0x80`.
#[cfg(target_arch = "x86_64")]
pub fn compatibility_call(words: &[OsString]) -> i32 {
    /// The gate takes the number in eax and arguments in ebx, ecx, edx, of 32 bits each.
    fn int80(number: u32, first: u32, second: u32) -> i32 {
        let answer: i32;
        // SAFETY: the calls made here write nothing. rbx belongs to the compiler and is put back.
        unsafe {
            std::arch::asm!(
                "xchg rbx, {first}",
                "int 0x80",
                "xchg rbx, {first}",
                first = inout(reg) u64::from(first) => _,
                inlateout("eax") number.cast_signed() => answer,
                in("ecx") second,
                in("edx") 0,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        answer
    }
    if words[0] == "int80" {
        const GETPID: u32 = 20;
        let pid = int80(GETPID, 0, 0);
        println!("{}", if pid.cast_unsigned() == std::process::id() { "same pid" } else { "something else" });
    } else {
        const SOCKETCALL: u32 = 102;
        const SOCKET: u32 = 1;
        // The arguments have to lie where 32 bits reach.
        // SAFETY: a fresh mapping, filled before it is used.
        let place = unsafe {
            let place = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
                -1,
                0,
            );
            assert_ne!(place, libc::MAP_FAILED);
            place.cast::<[u32; 3]>().write([1, 1, 0]); // AF_UNIX, SOCK_STREAM
            place as usize
        };
        let fd = int80(SOCKETCALL, SOCKET, u32::try_from(place).unwrap());
        println!("{}", if fd >= 0 { "a socket".into() } else { format!("errno {}", -fd) });
    }
    0
}

/// Calls or reads the vsyscall page at its fixed address.
#[cfg(target_arch = "x86_64")]
pub fn vsyscall(words: &[OsString]) -> i32 {
    const PAGE: usize = 0xffff_ffff_ff60_0000;
    let entry = if words[0] == "time" { PAGE + 0x400 } else { PAGE + 0x10 };
    // SAFETY: at PAGE + 0x400 the kernel answers as `time` does, or ends this process; anywhere else it ends it.
    let answer = unsafe {
        let call: extern "C" fn(*mut i64) -> i64 = std::mem::transmute(entry);
        call(std::ptr::null_mut())
    };
    println!("{}", if answer > 1_500_000_000 { "time" } else { "nonsense" });
    0
}

#[cfg(not(target_arch = "x86_64"))]
pub fn compatibility_call(_: &[OsString]) -> i32 {
    1
}

#[cfg(not(target_arch = "x86_64"))]
pub fn vsyscall(_: &[OsString]) -> i32 {
    128 + libc::SIGSEGV
}
