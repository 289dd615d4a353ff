//! What macOS is asked for, each question behind a safe function.
//!
//! Private functions are taken by `dlsym`, so that a system without one still loads kennel. Their prototypes are those that
//! Chromium, LLVM and WebKit declare for themselves.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{pid_t, proc_bsdinfo, proc_taskinfo, rusage_info_v4};

use crate::exit::{self, Status};
use crate::units::{self, Timebase};

/// Which processes `proc_listpids` lists (`sys/proc_info.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// All of them.
    All,
    /// Those of a user.
    User(u32),
    /// The children of a process.
    Children(pid_t),
}

/// The numbers of processes. They may have ended by the time that somebody looks.
pub(crate) fn pids(which: Which) -> Vec<pid_t> {
    const ALL: u32 = 1;
    const USER: u32 = 4;
    const PARENT: u32 = 6;
    let (kind, of) = match which {
        Which::All => (ALL, 0),
        Which::User(user) => (USER, user),
        Which::Children(parent) => (PARENT, parent.cast_unsigned()),
    };
    let mut room = 1024usize;
    loop {
        let mut found: Vec<pid_t> = vec![0; room];
        let size = c_int::try_from(room * size_of::<pid_t>()).unwrap_or(c_int::MAX);
        // SAFETY: the buffer is writable and as large as is said.
        let written = unsafe { libc::proc_listpids(kind, of, found.as_mut_ptr().cast(), size) };
        let written = usize::try_from(written).unwrap_or(0);
        if written >= room * size_of::<pid_t>() && room < 1 << 20 {
            // As much as there was room for, so perhaps not all.
            room *= 2;
            continue;
        }
        found.truncate(written / size_of::<pid_t>());
        found.retain(|pid| *pid > 0);
        return found;
    }
}

/// One of the structures of `proc_pidinfo`; `None` for a process that has ended, or is not to be seen.
///
/// # Safety
/// `T` must be the structure of `flavor`, for which every pattern of bytes is a value.
unsafe fn pid_info<T>(pid: pid_t, flavor: c_int) -> Option<T> {
    let mut info = MaybeUninit::<T>::zeroed();
    let size = c_int::try_from(size_of::<T>()).ok()?;
    // SAFETY: the buffer is writable and as large as is said.
    let written = unsafe { libc::proc_pidinfo(pid, flavor, 0, info.as_mut_ptr().cast(), size) };
    // SAFETY: it was zeroed, and every pattern of bytes is a value.
    (written == size).then(|| unsafe { info.assume_init() })
}

/// Parent, group and start of a process.
pub(crate) struct Basics {
    pub(crate) parent: pid_t,
    pub(crate) group: pid_t,
    /// Microseconds.
    pub(crate) start: u64,
}

/// What is known of a process that has not ended.
pub(crate) fn basics(pid: pid_t) -> Option<Basics> {
    // SAFETY: this flavor's structure, of integers.
    let info: proc_bsdinfo = unsafe { pid_info(pid, libc::PROC_PIDTBSDINFO) }?;
    Some(Basics {
        parent: info.pbi_ppid.cast_signed(),
        group: info.pbi_pgid.cast_signed(),
        start: info.pbi_start_tvsec.saturating_mul(1_000_000).saturating_add(info.pbi_start_tvusec),
    })
}

/// How many threads a process has.
pub(crate) fn threads(pid: pid_t) -> Option<u64> {
    // SAFETY: this flavor's structure, of integers.
    let info: proc_taskinfo = unsafe { pid_info(pid, libc::PROC_PIDTASKINFO) }?;
    u64::try_from(info.pti_threadnum).ok()
}

/// The session of a process.
pub(crate) fn session(pid: pid_t) -> Option<pid_t> {
    // SAFETY: takes a number and returns one.
    Some(unsafe { libc::getsid(pid) }).filter(|session| *session > 0)
}

/// The program that a process runs.
pub(crate) fn program(pid: pid_t) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut buffer = vec![0u8; 4096];
    let size = u32::try_from(buffer.len()).ok()?;
    // SAFETY: the buffer is writable and as large as is said (`PROC_PIDPATHINFO_MAXSIZE`).
    let written = unsafe { libc::proc_pidpath(pid, buffer.as_mut_ptr().cast(), size) };
    buffer.truncate(usize::try_from(written).ok().filter(|length| *length > 0)?);
    Some(std::ffi::OsString::from_vec(buffer).into())
}

/// What a process uses.
pub(crate) struct ProcessUsage {
    /// Bytes, as the system's own monitor counts them.
    pub(crate) memory: u64,
    pub(crate) cpu_user: Duration,
    pub(crate) cpu_system: Duration,
}

/// What a process that has not ended uses.
pub(crate) fn process_usage(pid: pid_t) -> Option<ProcessUsage> {
    let mut info = MaybeUninit::<rusage_info_v4>::zeroed();
    // SAFETY: the buffer has this flavor's structure. The declared type is that of a pointer to it, by an old mistake of the
    // header's.
    let failed = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V4, info.as_mut_ptr().cast()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: it was zeroed, and is all integers.
    let info = unsafe { info.assume_init() };
    let timebase = timebase();
    Some(ProcessUsage {
        memory: info.ri_phys_footprint,
        cpu_user: timebase.time(info.ri_user_time),
        cpu_system: timebase.time(info.ri_system_time),
    })
}

/// How ticks become nanoseconds on this machine.
fn timebase() -> Timebase {
    #[repr(C)]
    struct Info {
        numerator: u32,
        denominator: u32,
    }
    unsafe extern "C" {
        /// `kern_return_t mach_timebase_info(mach_timebase_info_t info)`.
        fn mach_timebase_info(info: *mut Info) -> c_int;
    }
    static TIMEBASE: OnceLock<Timebase> = OnceLock::new();
    *TIMEBASE.get_or_init(|| {
        let mut info = Info { numerator: 1, denominator: 1 };
        // SAFETY: writes a structure of this form.
        let failed = unsafe { mach_timebase_info(&mut info) } != 0;
        match info {
            Info { numerator: 1.., denominator: 1.. } if !failed => {
                Timebase { numerator: info.numerator, denominator: info.denominator }
            }
            _ => Timebase { numerator: 1, denominator: 1 },
        }
    })
}

/// How a child ended, and what it and those that it waited for have used.
pub(crate) struct Reaped {
    pub(crate) status: Status,
    pub(crate) cpu_user: Duration,
    pub(crate) cpu_system: Duration,
    /// Bytes, of the largest process.
    pub(crate) peak_memory: u64,
}

/// Whether a child of this process has ended. It stays to be reaped, so that its number stays its own.
pub(crate) fn has_ended(pid: pid_t) -> io::Result<bool> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is writable.
    let failed = unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), info.as_mut_ptr(), options) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, and is integers and pointers that nobody follows. It stays zero if there is nothing to tell.
    Ok(unsafe { info.assume_init() }.si_pid == pid)
}

/// Reaps a child that has ended.
pub(crate) fn reap(pid: pid_t) -> io::Result<Reaped> {
    let mut status = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are writable.
    while unsafe { libc::wait4(pid, &mut status, 0, used.as_mut_ptr()) } == -1 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: it was zeroed, and is all integers.
    let used = unsafe { used.assume_init() };
    let time = |time: libc::timeval| units::timeval(time.tv_sec, i64::from(time.tv_usec));
    Ok(Reaped {
        status: exit::status(status),
        cpu_user: time(used.ru_utime),
        cpu_system: time(used.ru_stime),
        peak_memory: units::peak_memory(used.ru_maxrss),
    })
}

/// Sends a signal to a process, or with a negative number to a group.
pub(crate) fn kill(pid: pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Who runs this program.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A folder that the system has for this user: `confstr(_CS_DARWIN_USER_TEMP_DIR)` and its like.
pub(crate) fn user_folder(name: c_int) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut buffer = vec![0u8; 1024];
    // SAFETY: the buffer is writable and as large as is said.
    let needed = unsafe { libc::confstr(name, buffer.as_mut_ptr().cast(), buffer.len()) };
    // With the zero at its end.
    if needed < 2 || needed > buffer.len() {
        return None;
    }
    buffer.truncate(needed - 1);
    Some(std::ffi::OsString::from_vec(buffer).into())
}

/// Blocks all signals for this thread.
pub(crate) fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable, and filled before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Has a signal ignored; whether it was ignored before.
pub(crate) fn ignore(signal: c_int) -> bool {
    // SAFETY: no handler of anybody's is called by it.
    let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
    before == libc::SIG_IGN
}

/// Gives a signal its usual effect.
pub(crate) fn restore(signal: c_int) {
    // SAFETY: as above.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// `int sandbox_check(pid_t pid, const char *operation, enum sandbox_filter_type type, ...)`. It must be called as what it
/// is, a function of any number of arguments: on Apple's processors these are passed in another way.
type SandboxCheck = unsafe extern "C" fn(pid_t, *const c_char, c_int, ...) -> c_int;

fn sandbox_check() -> Option<SandboxCheck> {
    static FOUND: OnceLock<Option<SandboxCheck>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = symbol(c"sandbox_check")?;
        // SAFETY: the function of this name has this form (see above).
        Some(unsafe { std::mem::transmute::<*mut c_void, SandboxCheck>(found) })
    })
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Whether a process has any profile; `None` where the system cannot be asked.
pub(crate) fn is_sandboxed(pid: pid_t) -> Option<bool> {
    let check = sandbox_check()?;
    // SAFETY: without an operation it takes no further arguments.
    match unsafe { check(pid, std::ptr::null(), 0) } {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Whether a process may look up this service; `None` where the system cannot be asked. Nothing is logged.
pub(crate) fn may_look_up(pid: pid_t, service: &CString) -> Option<bool> {
    /// `SANDBOX_FILTER_GLOBAL_NAME`.
    const GLOBAL_NAME: c_int = 2;
    /// `SANDBOX_CHECK_NO_REPORT`.
    const NO_REPORT: c_int = 0x4000_0000;
    let check = sandbox_check()?;
    // SAFETY: this filter takes one string, which ends with a zero.
    match unsafe { check(pid, c"mach-lookup".as_ptr(), GLOBAL_NAME | NO_REPORT, service.as_ptr()) } {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}
