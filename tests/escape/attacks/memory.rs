//! Memory: one's own through /proc/self/mem, others' through process_vm_* and ptrace.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::tell;

/// Maps a file that can only be read and writes the mapping through /proc/self/mem.
pub fn write_own(words: &[OsString]) -> i32 {
    let file = File::open(&words[0]).unwrap();
    for (name, kind) in [("private", libc::MAP_PRIVATE), ("shared", libc::MAP_SHARED)] {
        // SAFETY: a fresh mapping at an address of the kernel's choice; it is only read below.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, kind, file.as_raw_fd(), 0) };
        assert_ne!(map, libc::MAP_FAILED);
        let written = File::options()
            .write(true)
            .open("/proc/self/mem")
            .and_then(|mem| mem.write_at(b"EVIL", map as u64));
        // SAFETY: one readable byte of the mapping; volatile, because the compiler knows of no writer.
        let changed = unsafe { map.cast::<u8>().read_volatile() } == b'E';
        if changed && written.is_ok() {
            println!("{name}: changed");
        }
    }
    0
}

/// Tries a child of this process's own first, then PID 1.
pub fn other_process(words: &[OsString]) -> i32 {
    let secret = *b"a page of memory";
    let mut buffer = [0u8; 16];
    // SAFETY: a single thread; the child only waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: no arguments.
            unsafe { libc::pause() };
        }
    }
    let here = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 16 };
    let there = libc::iovec { iov_base: secret.as_ptr().cast_mut().cast(), iov_len: 16 };
    // SAFETY: the local part is a buffer of 16 bytes; the remote part is read or written in another process, whose
    // copy of these pages nobody uses.
    unsafe {
        if words[0] == "vm" {
            tell(
                "child",
                i64::try_from(libc::process_vm_readv(child, &here, 1, &there, 1, 0)).unwrap(),
                "read",
            );
            tell(
                "child",
                i64::try_from(libc::process_vm_writev(child, &here, 1, &there, 1, 0)).unwrap(),
                "written",
            );
            tell("1", i64::try_from(libc::process_vm_readv(1, &here, 1, &there, 1, 0)).unwrap(), "read");
            tell("1", i64::try_from(libc::process_vm_writev(1, &here, 1, &there, 1, 0)).unwrap(), "written");
        } else {
            let null = std::ptr::null_mut::<libc::c_void>();
            tell("child", libc::ptrace(libc::PTRACE_SEIZE, child, null, null), "attached");
            tell("attach 1", libc::ptrace(libc::PTRACE_ATTACH, 1, null, null), "attached");
            tell("seize 1", libc::ptrace(libc::PTRACE_SEIZE, 1, null, null), "attached");
        }
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    0
}
