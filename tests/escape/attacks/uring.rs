//! io_uring: system calls made by the kernel on one's behalf, which no filter sees.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::tell;

const OP_OPENAT: u8 = 18;
const OP_SOCKET: u8 = 45;
const OFF_SQ_RING: i64 = 0;
const OFF_CQ_RING: i64 = 0x800_0000;
const OFF_SQES: i64 = 0x1000_0000;

/// Opens a file and makes a socket through a ring.
pub fn open_and_socket(words: &[OsString]) -> i32 {
    // struct io_uring_params: 120 bytes; sq_off starts at 40, cq_off at 80.
    let mut parameters = [0u32; 30];
    // SAFETY: the kernel fills in the parameters.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    tell("ring", ring, "made");
    if ring < 0 {
        return 0;
    }
    let ring = i32::try_from(ring).unwrap();
    let map = |length: usize, offset: i64| {
        // SAFETY: a fresh mapping of the ring at an address of the kernel's choice.
        let place = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                ring,
                offset,
            )
        };
        assert_ne!(place, libc::MAP_FAILED);
        place.cast::<u8>()
    };
    let (submit, complete, entries) = (map(4096, OFF_SQ_RING), map(4096, OFF_CQ_RING), map(4096, OFF_SQES));
    let path = CString::new(words[0].as_bytes()).unwrap();
    for (index, name) in ["open", "socket"].into_iter().enumerate() {
        let mut entry = [0u8; 64];
        if index == 0 {
            entry[0] = OP_OPENAT;
            entry[4..8].copy_from_slice(&libc::AT_FDCWD.to_ne_bytes());
            entry[16..24].copy_from_slice(&(path.as_ptr() as u64).to_ne_bytes());
        } else {
            // Family, protocol and type stand where other operations have a descriptor, a length and an offset.
            entry[0] = OP_SOCKET;
            entry[4..8].copy_from_slice(&libc::AF_UNIX.to_ne_bytes());
            entry[8..16].copy_from_slice(&(libc::SOCK_STREAM as u64).to_ne_bytes());
        }
        // SAFETY: the offsets are the kernel's own (tail and array of the submission ring, head, tail and entries of
        // the completion ring); nobody else uses the ring, and `enter` returns when the kernel is done.
        let result = unsafe {
            ptr::copy_nonoverlapping(entry.as_ptr(), entries.add(64 * index), 64);
            let (tail, array) = (submit.add(parameters[11] as usize), submit.add(parameters[16] as usize));
            array.cast::<u32>().add(index).write(u32::try_from(index).unwrap());
            tail.cast::<u32>().write_volatile(u32::try_from(index).unwrap() + 1);
            libc::syscall(libc::SYS_io_uring_enter, ring, 1, 1, 1, 0, 0);
            let completion = complete.add(parameters[25] as usize + 16 * index);
            completion.add(8).cast::<i32>().read_volatile()
        };
        println!("{name}: {}", if result >= 0 { "done".into() } else { format!("errno {}", -result) });
    }
    0
}
