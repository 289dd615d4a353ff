//! The system calls, each as a small safe function, and the strings of `argv` and the environment block. Everything unsafe in
//! this library is here. (Constants and structures are those of the `libc` crate; none of its functions is used,
//! for there is no C library.)
//!
//! The process has one thread, always.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_long};
use core::mem::MaybeUninit;
use core::ptr::null;

#[path = "../../kennel-init/src/child/sys/raw.rs"]
mod raw;

/// What the system said.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Errno(c_int);

impl Errno {
    pub const ENOENT: Self = Self(libc::ENOENT);
    pub const ENOEXEC: Self = Self(libc::ENOEXEC);
    pub const EACCES: Self = Self(libc::EACCES);
    pub const E2BIG: Self = Self(libc::E2BIG);

    /// The words that everybody knows it by, for those that the calls below are likely to meet.
    pub fn text(self) -> Vec<u8> {
        let text = match self.0 {
            libc::EPERM => "Operation not permitted",
            libc::ENOENT => "No such file or directory",
            libc::EIO => "Input/output error",
            libc::E2BIG => "Argument list too long",
            libc::ENOEXEC => "Exec format error",
            libc::EAGAIN => "Resource temporarily unavailable",
            libc::ENOMEM => "Cannot allocate memory",
            libc::EACCES => "Permission denied",
            libc::ENOTDIR => "Not a directory",
            libc::EISDIR => "Is a directory",
            libc::EINVAL => "Invalid argument",
            libc::ENFILE => "Too many open files in system",
            libc::EMFILE => "Too many open files",
            libc::ETXTBSY => "Text file busy",
            libc::ENAMETOOLONG => "File name too long",
            libc::ENOSYS => "Function not implemented",
            libc::ELOOP => "Too many levels of symbolic links",
            libc::ESTALE => "Stale file handle",
            other => return ["error number ", &other.to_string()].concat().into_bytes(),
        };
        text.into()
    }
}

/// A system call with up to five arguments, as the kernel takes them: all of them machine words.
///
/// # Safety
///
/// Pointers among the arguments must be good for what that call does with them.
unsafe fn call(number: c_long, arguments: [usize; 5]) -> Result<usize, Errno> {
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: the caller's promise.
    match unsafe { raw::syscall(number as usize, [first, second, third, fourth, fifth, 0]) } {
        // The last page of the address space can be no answer: these are error numbers.
        returned @ -4095..0 => Err(Errno(c_int::try_from(-returned).unwrap_or(libc::EIO))),
        returned => Ok(returned.cast_unsigned()),
    }
}

/// A system call without pointers: process numbers, ids, flags, descriptors.
fn plain<const N: usize>(number: c_long, arguments: [c_int; N]) -> Result<usize, Errno> {
    let mut words = [0; 5];
    for (word, argument) in words.iter_mut().zip(arguments) {
        // Sign-extended, as C would do it.
        *word = (argument as isize).cast_unsigned();
    }
    // SAFETY: only used with calls that take no pointers.
    unsafe { call(number, words) }
}

/// The same for calls that take an id, which has no sign.
fn with_id(number: c_long, id: u32) -> Result<(), Errno> {
    // SAFETY: no pointers are involved.
    unsafe { call(number, [id as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Writes to stderr, as far as it goes: there is nobody to tell if it does not.
pub fn write_stderr(mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: `text` is `text.len()` readable bytes.
        let written =
            unsafe { call(libc::SYS_write, [2, text.as_ptr().expose_provenance(), text.len(), 0, 0]) };
        match written {
            Ok(length @ 1..) => text = &text[length..],
            _ => return,
        }
    }
}

/// Makes this process undumpable: no core file, and no ptrace and none of `/proc/PID/{environ,mem,maps,fd,...}` for
/// anybody without CAP_SYS_PTRACE, of the same user or not. execve undoes it, so the agent is not affected.
pub fn forbid_dumping() {
    // It has no way to fail.
    let _ = plain(libc::SYS_prctl, [libc::PR_SET_DUMPABLE, 0]);
}

/// The strings that the kernel gave to this process: its arguments, or its environment.
pub struct Strings(*const *mut c_char);

impl Strings {
    /// # Safety
    ///
    /// `list` must be a null-terminated array of C strings, all of which stay as they are, writable, and are nobody else's.
    pub unsafe fn new(list: *const *mut c_char) -> Self {
        Self(list)
    }
}

impl Iterator for Strings {
    type Item = InitialString;

    fn next(&mut self) -> Option<InitialString> {
        // SAFETY: what the maker of this value promised; this never passes the terminating null.
        let start = unsafe { self.0.as_ref() }.filter(|start| !start.is_null())?;
        // SAFETY: this element was not the terminating null, so there is another.
        self.0 = unsafe { self.0.add(1) };
        Some(InitialString(*start))
    }
}

/// One of them, which nobody else has.
pub struct InitialString(*mut c_char);

impl InitialString {
    pub fn get(&self) -> &CStr {
        // SAFETY: a C string, which only `wipe` changes.
        unsafe { CStr::from_ptr(self.0) }
    }

    /// Leaves it as it is for good.
    pub fn keep<'a>(self) -> &'a CStr {
        // SAFETY: a C string, which nobody can change any more.
        unsafe { CStr::from_ptr(self.0) }
    }

    /// Overwrites it with zeros, for good.
    pub fn wipe(self) {
        for at in 0..self.get().count_bytes() {
            // SAFETY: one of its bytes. Volatile: the compiler may not reason that nobody will read it.
            unsafe { self.0.add(at).write_volatile(0) };
        }
    }
}

// Files

pub fn chdir(directory: &CStr) -> Result<(), Errno> {
    // SAFETY: a C string.
    unsafe { call(libc::SYS_chdir, [directory.as_ptr().expose_provenance(), 0, 0, 0, 0]) }.map(drop)
}

/// The first `limit` bytes of a file.
pub fn read_file(path: &CStr, limit: usize) -> Result<Vec<u8>, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY;
    let path = path.as_ptr().expose_provenance();
    // SAFETY: a C string.
    let file = unsafe { call(libc::SYS_openat, [AT_WORKING_DIRECTORY, path, flags as usize, 0, 0])? };
    let mut content = Vec::new();
    let outcome = loop {
        content.reserve(1 << 14);
        let room = content.spare_capacity_mut();
        let (start, length) = (room.as_mut_ptr().expose_provenance(), room.len().min(limit - content.len()));
        // SAFETY: `start` is that much room.
        match unsafe { call(libc::SYS_read, [file, start, length, 0, 0]) } {
            Ok(0) => break Ok(content),
            // SAFETY: the kernel has filled in that many more bytes.
            Ok(more) => unsafe { content.set_len(content.len() + more) },
            Err(errno) => break Err(errno),
        }
    };
    close(c_int::try_from(file).unwrap_or(-1));
    outcome
}

const AT_WORKING_DIRECTORY: usize = (libc::AT_FDCWD as isize).cast_unsigned();

/// Whether this process could execute `file`: a regular file that it has the right to.
pub fn executable(file: &CStr) -> Result<(), Errno> {
    let path = file.as_ptr().expose_provenance();
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let place = status.as_mut_ptr().expose_provenance();
    // SAFETY: a C string, and room for a `stat`.
    unsafe { call(libc::SYS_newfstatat, [AT_WORKING_DIRECTORY, path, place, 0, 0])? };
    // SAFETY: the call succeeded, so it has been filled in.
    let mode = unsafe { status.assume_init() }.st_mode;
    if mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Errno::EACCES);
    }
    // SAFETY: a C string. Real and effective ids are equal here, so it does not matter which of them this asks about.
    unsafe { call(libc::SYS_faccessat, [AT_WORKING_DIRECTORY, path, libc::X_OK as usize, 0, 0]) }.map(drop)
}

/// Replaces this process; returns only if that failed.
pub fn exec(file: &CStr, arguments: &[&CStr], environment: &[&CStr]) -> Errno {
    let arguments = pointers(arguments);
    let environment = pointers(environment);
    let words = [
        file.as_ptr().expose_provenance(),
        arguments.as_ptr().expose_provenance(),
        environment.as_ptr().expose_provenance(),
        0,
        0,
    ];
    // SAFETY: a C string and two null-terminated arrays of C strings, all alive until the call returns or never does.
    match unsafe { call(libc::SYS_execve, words) } {
        Err(errno) => errno,
        // It does not return otherwise.
        Ok(_) => Errno(libc::EIO),
    }
}

/// The null-terminated array that execve takes. Valid for as long as the strings are.
fn pointers(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([null()]).collect()
}

// Descriptors

/// Closes every descriptor from `first` on.
///
/// This program keeps no descriptor open between its steps, so none is closed behind somebody's back.
pub fn close_from(first: c_int) -> Result<(), Errno> {
    plain(libc::SYS_close_range, [first, c_int::MAX, 0]).map(drop)
}

/// Makes an empty session keyring this process's own.
pub fn join_new_session_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: c_int = 1;
    plain(libc::SYS_keyctl, [KEYCTL_JOIN_SESSION_KEYRING, 0]).map(drop)
}

/// A number that is not open is not an error here.
pub fn close(descriptor: c_int) {
    let _ = plain(libc::SYS_close, [descriptor]);
}

/// The number that every descriptor opened under the current limit is below.
pub fn descriptor_limit() -> c_int {
    let mut limit = libc::rlimit { rlim_cur: 1 << 16, rlim_max: 0 };
    let place = (&raw mut limit).expose_provenance();
    // SAFETY: a place to write to. If the call should fail, the value above stands.
    let _ = unsafe { call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, 0, place, 0]) };
    c_int::try_from(limit.rlim_cur).unwrap_or(c_int::MAX)
}

// Identity

/// Real, effective and saved user id.
pub fn user_ids() -> [u32; 3] {
    three_ids(libc::SYS_getresuid)
}

/// Real, effective and saved group id.
pub fn group_ids() -> [u32; 3] {
    three_ids(libc::SYS_getresgid)
}

fn three_ids(number: c_long) -> [u32; 3] {
    let [mut real, mut effective, mut saved] = [0_u32; 3];
    let places = [
        (&raw mut real).expose_provenance(),
        (&raw mut effective).expose_provenance(),
        (&raw mut saved).expose_provenance(),
        0,
        0,
    ];
    // SAFETY: three places to write to. It cannot fail otherwise; and if it did, the answer would be root.
    let _ = unsafe { call(number, places) };
    [real, effective, saved]
}

pub fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the list is `groups.len()` long.
    unsafe { call(libc::SYS_setgroups, [groups.len(), groups.as_ptr().expose_provenance(), 0, 0, 0]) }
        .map(drop)
}

/// Whether this is the only supplementary group.
pub fn only_group_is(group: u32) -> bool {
    // Room for one more, so that a longer list shows; one that does not fit is an error to the kernel.
    let mut groups = [0_u32; 2];
    // SAFETY: room for two groups.
    let count = unsafe {
        call(libc::SYS_getgroups, [groups.len(), groups.as_mut_ptr().expose_provenance(), 0, 0, 0])
    };
    count == Ok(1) && groups[0] == group
}

pub fn set_group(group: u32) -> Result<(), Errno> {
    with_id(libc::SYS_setgid, group)
}

pub fn set_user(user: u32) -> Result<(), Errno> {
    with_id(libc::SYS_setuid, user)
}

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

/// `struct __user_cap_data_struct`; version 3 takes two, for the low and the high 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const OWN_CAPABILITIES: CapabilityHeader = CapabilityHeader { version: 0x2008_0522, pid: 0 };

/// Empties the permitted, effective and inheritable sets, and the ambient set with them.
pub fn clear_capabilities() -> Result<(), Errno> {
    let mut header = OWN_CAPABILITIES;
    let none = [CapabilitySets::default(); 2];
    // SAFETY: a version 3 header and the two structures that go with it.
    unsafe {
        call(
            libc::SYS_capset,
            [(&raw mut header).expose_provenance(), none.as_ptr().expose_provenance(), 0, 0, 0],
        )
    }
    .map(drop)
}

/// Whether any capability is left in any of those sets. Not being able to tell counts as yes.
pub fn has_capabilities() -> bool {
    let mut header = OWN_CAPABILITIES;
    let mut sets = [CapabilitySets::default(); 2];
    let places = [(&raw mut header).expose_provenance(), sets.as_mut_ptr().expose_provenance(), 0, 0, 0];
    // SAFETY: a version 3 header and room for the two structures that go with it.
    let outcome = unsafe { call(libc::SYS_capget, places) };
    outcome.is_err() || sets != [CapabilitySets::default(); 2]
}

// Signals

/// A set of signals as the kernel has it: bit 0 is signal 1.
pub struct SignalSet(u64);

impl SignalSet {
    pub const EMPTY: Self = Self(0);
    pub const FULL: Self = Self(u64::MAX);
    const SIZE: usize = size_of::<u64>();

    pub const fn without(self, signal: c_int) -> Self {
        Self(self.0 & !(1 << (signal - 1)))
    }
}

/// The highest signal number on these architectures.
pub const LAST_SIGNAL: c_int = 64;

/// Gives a signal its default action. For SIGKILL and SIGSTOP, which have no other, nothing happens.
pub fn default_action(signal: c_int) {
    // The kernel's `struct sigaction`, with room to spare. Zero is the default action, no flags, an empty mask.
    let action = [0_usize; 8];
    let words = [signal as usize, action.as_ptr().expose_provenance(), 0, SignalSet::SIZE, 0];
    // SAFETY: a structure to read; the old one is not asked for.
    let _ = unsafe { call(libc::SYS_rt_sigaction, words) };
}

/// Stops the interval timers: ITIMER_REAL (also alarm's), ITIMER_VIRTUAL and ITIMER_PROF.
pub fn stop_timers() {
    let never = [0_usize; 4];
    for timer in 0..3 {
        // SAFETY: a `struct itimerval` to read; the old one is not asked for.
        let _ = unsafe { call(libc::SYS_setitimer, [timer, never.as_ptr().expose_provenance(), 0, 0, 0]) };
    }
}

/// Replaces the set of blocked signals.
pub fn set_signal_mask(blocked: &SignalSet) {
    let words =
        [libc::SIG_SETMASK as usize, (&raw const blocked.0).expose_provenance(), 0, SignalSet::SIZE, 0];
    // SAFETY: a set to read; the old one is not asked for.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
}

/// Waits for one of the (blocked) signals. `None` when the wait was interrupted.
pub fn next_signal(waited: &SignalSet) -> Option<c_int> {
    let words = [(&raw const waited.0).expose_provenance(), 0, 0, SignalSet::SIZE, 0];
    // SAFETY: a set to read; no details are asked for, and there is no time limit.
    let signal = unsafe { call(libc::SYS_rt_sigtimedwait, words) };
    signal.ok().and_then(|signal| c_int::try_from(signal).ok())
}

// Processes

/// A process's number.
#[derive(PartialEq, Clone, Copy)]
pub struct Pid(c_int);

impl Pid {
    /// To the kernel, 0 stands for the caller.
    pub const SELF: Self = Self(0);

    fn from_kernel(number: usize) -> Option<Self> {
        c_int::try_from(number).ok().filter(|&number| number > 0).map(Self)
    }
}

/// How a process ended.
pub struct Ending(c_int);

impl Ending {
    /// As a shell counts it: the exit code, or 128 plus the signal's number.
    pub fn exit_code(&self) -> c_int {
        if libc::WIFSIGNALED(self.0) { 128 + libc::WTERMSIG(self.0) } else { libc::WEXITSTATUS(self.0) }
    }
}

pub fn is_pid_1() -> bool {
    plain(libc::SYS_getpid, []) == Ok(1)
}

pub fn become_subreaper() {
    // It cannot fail since Linux 3.4.
    let _ = plain(libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER, 1]);
}

/// `None` in the child, which is a whole copy of this process, having its only thread.
pub fn fork() -> Result<Option<Pid>, Errno> {
    plain(libc::SYS_clone, [libc::SIGCHLD]).map(Pid::from_kernel)
}

pub fn exit(code: c_int) -> ! {
    loop {
        let _ = plain(libc::SYS_exit_group, [code]);
    }
}

/// Makes the process the leader of a new group. If it already is, or has executed meanwhile, nothing happens.
pub fn make_process_group(pid: Pid) {
    let _ = plain(libc::SYS_setpgid, [pid.0, pid.0]);
}

/// Makes the caller's process group the terminal's foreground group, if its parent's group is that now.
///
/// If the parent is itself in the background, the terminal is not its to pass on.
pub fn pass_on_terminal() {
    let group_of = |pid: Result<usize, Errno>| {
        let pid = c_int::try_from(pid.ok()?).ok()?;
        c_int::try_from(plain(libc::SYS_getpgid, [pid]).ok()?).ok()
    };
    let parents_group = group_of(plain(libc::SYS_getppid, []));
    let own_group = group_of(Ok(0));
    for descriptor in 0..=2 {
        let mut foreground: c_int = 0;
        let words = [descriptor, libc::TIOCGPGRP as usize, (&raw mut foreground).expose_provenance(), 0, 0];
        // SAFETY: a place to write to. Not being a terminal is an error to the kernel.
        let is_terminal = unsafe { call(libc::SYS_ioctl, words) }.is_ok();
        if is_terminal
            && parents_group == Some(foreground)
            && let Some(group) = own_group
        {
            let words = [descriptor, libc::TIOCSPGRP as usize, (&raw const group).expose_provenance(), 0, 0];
            // SAFETY: a place to read from.
            let _ = unsafe { call(libc::SYS_ioctl, words) };
            return;
        }
    }
}

/// Collects a dead child, if there is one.
pub fn reap() -> Option<(Pid, Ending)> {
    let mut status: c_int = 0;
    let any_child = usize::MAX;
    let words = [any_child, (&raw mut status).expose_provenance(), libc::WNOHANG as usize, 0, 0];
    // SAFETY: a place to write to; resource usage is not asked for.
    let pid = unsafe { call(libc::SYS_wait4, words) }.ok().and_then(Pid::from_kernel)?;
    Some((pid, Ending(status)))
}

/// Sends a signal to the process group that `leader` was given, or to `leader` alone if it has moved to another.
///
/// `leader` has not been waited for yet, so its number is still its own.
pub fn signal_group(leader: Pid, signal: c_int) {
    if plain(libc::SYS_kill, [-leader.0, signal]).is_err() {
        let _ = plain(libc::SYS_kill, [leader.0, signal]);
    }
}
