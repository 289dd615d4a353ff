//! What this process was born with: its arguments, its environment, its heap, its standard streams.
//!
//! PID 1 of a sandbox is a clone of this process, so it must be able to wipe what the caller did not mean for it;
//! for that, the strings of the environment are never copied but where they pass on.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use kennel::attached::Memory;

static ARGUMENTS: AtomicUsize = AtomicUsize::new(0);
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);
static HEAP: AtomicUsize = AtomicUsize::new(0);

/// Runs before `main` and before the first allocation of this program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_start;

extern "C" fn at_start(_count: c_int, arguments: *const *const c_char, environment: *const *const c_char) {
    ARGUMENTS.store(arguments as usize, Ordering::Relaxed);
    ENVIRONMENT.store(environment as usize, Ordering::Relaxed);
    // The C library has allocated already, but nothing of the caller's: what comes later lies above this mark. Large
    // blocks would be mapped elsewhere unless told otherwise.
    // SAFETY: plain calls; the block is never given back.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        HEAP.store(libc::malloc(16) as usize, Ordering::Relaxed);
    }
}

/// The strings of a null-terminated array, without copying them.
///
/// # Safety
/// `array` must be null or a null-terminated array of strings that stay in place.
unsafe fn strings(array: usize) -> impl Iterator<Item = &'static CStr> + Clone {
    let array = array as *const *const c_char;
    (0..).map_while(move |index| {
        // SAFETY: the caller's promise; the first null ends it.
        unsafe {
            if array.is_null() || (*array.add(index)).is_null() {
                return None;
            }
            Some(CStr::from_ptr(*array.add(index)))
        }
    })
}

/// The caller's variables, where they lie.
pub fn environment() -> impl Iterator<Item = (&'static OsStr, &'static OsStr)> + Clone {
    // SAFETY: the array that the kernel made; this program changes none of it.
    unsafe { strings(ENVIRONMENT.load(Ordering::Relaxed)) }.filter_map(|pair| {
        let pair = pair.to_bytes();
        let equals = pair.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        Some((OsStr::from_bytes(&pair[..equals]), OsStr::from_bytes(&pair[equals + 1..])))
    })
}

/// What PID 1 is to wipe. The kernel puts the arguments and the environment into one block, in this order.
pub fn inherited() -> Memory {
    // SAFETY: the arrays that the kernel made.
    let (mut first, mut last) =
        unsafe { (strings(ARGUMENTS.load(Ordering::Relaxed)), strings(ENVIRONMENT.load(Ordering::Relaxed))) };
    let start = first.next().map_or(0, |string| string.as_ptr() as usize);
    let end = last.by_ref().last().map_or(start, |string| string.as_ptr() as usize + string.count_bytes());
    Memory { strings: (start, end), heap: HEAP.load(Ordering::Relaxed) }
}

/// Opens /dev/null for a standard stream that the caller closed: the next file to be opened would take its number,
/// and with it whatever is written to standard error.
pub fn open_standard_streams() {
    for fd in 0..3 {
        // SAFETY: plain calls on a number; a closed one makes fcntl fail with EBADF.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                // The lowest free number is this one, because those below are open.
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}
