//! What this process was born with: its arguments, its environment, its heap.
//!
//! PID 1 of a sandbox is a clone of this process, so it must be able to wipe what the caller did not mean for it;
//! for that, the strings of the environment are never copied but where they pass on.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use kennel::job::InheritedMemory;

static ARGUMENTS: AtomicUsize = AtomicUsize::new(0);
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);
static BREAK: AtomicUsize = AtomicUsize::new(0);

/// Notes where things lie. To be called before anything else: what is allocated earlier is not wiped.
///
/// Not left to the standard library, which learns of the arguments before `main` only from some C libraries.
///
/// # Safety
/// `arguments` must be the array that the kernel made, `count` long, with the environment behind it.
pub unsafe fn begin(count: c_int, arguments: *const *const c_char) {
    let behind = usize::try_from(count).unwrap_or(0) + 1;
    ARGUMENTS.store(arguments as usize, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    ENVIRONMENT.store(unsafe { arguments.add(behind) } as usize, Ordering::Relaxed);
    // The C library has taken what it needs for itself; what it allocates from here on lies above this mark.
    // SAFETY: only asks.
    BREAK.store(unsafe { libc::sbrk(0) } as usize, Ordering::Relaxed);
}

/// What was typed, the program's own name first.
pub fn arguments() -> impl Iterator<Item = OsString> {
    // SAFETY: the array that the kernel made; this program changes none of it.
    unsafe { strings(ARGUMENTS.load(Ordering::Relaxed)) }
        .map(|word| OsStr::from_bytes(word.to_bytes()).to_owned())
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
pub fn inherited() -> InheritedMemory {
    // SAFETY: the arrays that the kernel made.
    let (mut first, mut last) =
        unsafe { (strings(ARGUMENTS.load(Ordering::Relaxed)), strings(ENVIRONMENT.load(Ordering::Relaxed))) };
    let start = first.next().map_or(0, |string| string.as_ptr() as usize);
    let end = last.by_ref().last().map_or(start, |string| string.as_ptr() as usize + string.count_bytes());
    InheritedMemory {
        strings: (start, end),
        heap: super::heap::range(),
        program_break: BREAK.load(Ordering::Relaxed),
    }
}
