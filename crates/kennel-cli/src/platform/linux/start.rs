//! Where the C library's start-up code goes, and what this process was born with: its arguments, its environment, its memory and
//! descriptors.
//!
//! `main` is C's, not Rust's: the runtime's own start reads /proc/self/maps and installs a handler for stack
//! overflows, which costs a tenth of a millisecond that every sandbox would pay.
//!
//! PID 1 of a sandbox is a clone of this process, so it must be able to wipe what the caller did not mean for it;
//! for that, the strings of the environment are never copied but where they pass on.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use kennel::job::InheritedMemory;

use super::heap;

static ARGUMENTS: AtomicUsize = AtomicUsize::new(0);
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);
static BREAK: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// `arguments` must be the array that the kernel made, `count` long, with the environment behind it.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, allow(dead_code, reason = "the tests' own `main` is there"))]
pub unsafe extern "C" fn start(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { begin(count, arguments) };
    open_standard_streams();
    if has_anothers_power() {
        eprintln!(
            "kennel: refusing to run: this program has its set-user-ID or set-group-ID bit or file capabilities, and would run \
             any policy with somebody else's power\nhelp: remove them (chmod ug-s, setcap -r); kennel needs none"
        );
        return 125;
    }
    heed_children();
    crate::kennel()
}

/// Notes where things lie. To be called before anything else: what is allocated earlier is not wiped.
///
/// Not left to the standard library, which learns of the arguments before `main` only from some C libraries.
///
/// # Safety
/// `arguments` must be the array that the kernel made, `count` long, with the environment behind it.
unsafe fn begin(count: c_int, arguments: *const *const c_char) {
    let behind = usize::try_from(count).unwrap_or(0) + 1;
    ARGUMENTS.store(arguments as usize, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    ENVIRONMENT.store(unsafe { arguments.add(behind) } as usize, Ordering::Relaxed);
    // The C library has taken what it needs for itself; what it allocates from here on lies above this mark.
    // SAFETY: only asks.
    BREAK.store(unsafe { libc::sbrk(0) } as usize, Ordering::Relaxed);
}

/// Whether this program file gave this process what its caller does not have.
fn has_anothers_power() -> bool {
    // SAFETY: plain questions.
    let (users, groups, secure) = unsafe {
        (
            [libc::getuid(), libc::geteuid()],
            [libc::getgid(), libc::getegid()],
            libc::getauxval(libc::AT_SECURE),
        )
    };
    if users[0] != users[1] || groups[0] != groups[1] {
        return true;
    }
    // A security module can ask for this care too, and gives nothing. With root's number all capabilities are the caller's own.
    secure != 0 && users[0] != 0 && has_capabilities()
}

fn has_capabilities() -> bool {
    // The kernel's third layout: two words each of effective, permitted and inheritable, between each other.
    const VERSION: u32 = 0x2008_0522;
    let (header, mut sets) = ([VERSION, 0], [0u32; 6]);
    // SAFETY: a header and a data structure of this version.
    let told = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } == 0;
    !told || sets[1] != 0 || sets[4] != 0
}

/// A caller that ignores its children's ends may pass that on; then nobody could wait for them.
fn heed_children() {
    // SAFETY: the default action is no handler that could run at a wrong time.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Opens /dev/null for a standard stream that the caller closed: the next file to be opened would take its number,
/// and with it whatever is written to standard error.
fn open_standard_streams() {
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

/// What PID 1 is to wipe, if it can be a clone of this process: before any thread is started. The kernel puts the arguments and the
/// environment into one block, in this order.
pub fn inherited() -> Option<InheritedMemory> {
    if heap::threads() > 1 {
        return None;
    }
    // SAFETY: the arrays that the kernel made.
    let (mut first, mut last) =
        unsafe { (strings(ARGUMENTS.load(Ordering::Relaxed)), strings(ENVIRONMENT.load(Ordering::Relaxed))) };
    let start = first.next().map_or(0, |string| string.as_ptr() as usize);
    let end = last.by_ref().last().map_or(start, |string| string.as_ptr() as usize + string.count_bytes());
    // SAFETY: this is the only thread, and what PID 1 runs neither allocates nor looks at the strings.
    Some(unsafe { InheritedMemory::new((start, end), heap::range(), BREAK.load(Ordering::Relaxed)) })
}

/// Takes over a descriptor that the caller left open to be read, under a number that was typed.
///
/// # Errors
/// When it is not open, or cannot be read.
pub fn take_descriptor(number: i32) -> io::Result<File> {
    // A read of nothing says whether reading is possible at all.
    // SAFETY: no memory is touched; a number that is not open makes it fail.
    if unsafe { libc::read(number, std::ptr::null_mut(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and was before this program started: nothing of this process's uses it.
    Ok(unsafe { File::from_raw_fd(number) })
}
