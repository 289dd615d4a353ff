//! Processes: who they are, what they may do, their signals, their ends, and the time.

use core::ffi::CStr;

use super::{AT_EMPTY_PATH, Errno, Fd, Result, at};
use crate::child::clone::flag;

/// Gives up all other groups.
pub fn clear_groups() -> Result<()> {
    call!(SYS_setgroups, 0, 0).map(drop)
}

/// Becomes this user in every respect.
pub fn set_user(uid: u32) -> Result<()> {
    call!(SYS_setresuid, uid, uid, uid).map(drop)
}

/// Has this group in every respect.
pub fn set_group(gid: u32) -> Result<()> {
    call!(SYS_setresgid, gid, gid, gid).map(drop)
}

pub fn sethostname(name: &[u8]) -> Result<()> {
    call!(SYS_sethostname, name.as_ptr(), name.len()).map(drop)
}

/// Leaves the session keyring for a new one.
pub fn join_new_session_keyring() -> Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
    call!(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0).map(drop)
}

pub fn prctl(option: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    call!(SYS_prctl, option, a, b, c, d)
}

/// Sets the signal that this process gets when its parent ends.
pub fn set_death_signal(signal: i32) -> Result<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    prctl(PR_SET_PDEATHSIG, signal as usize, 0, 0, 0).map(drop)
}

/// The signal that this process gets when its parent ends.
pub fn death_signal() -> Result<i32> {
    const PR_GET_PDEATHSIG: usize = 2;
    let mut signal = 0i32;
    call!(SYS_prctl, PR_GET_PDEATHSIG, &raw mut signal)?;
    Ok(signal)
}

/// Sets whether others of the same user may look into this process, and it owns what it has in /proc.
pub fn set_dumpable(dumpable: bool) -> Result<()> {
    const PR_SET_DUMPABLE: usize = 4;
    prctl(PR_SET_DUMPABLE, usize::from(dumpable), 0, 0, 0).map(drop)
}

/// Sets this process's effective, permitted and inheritable capability sets.
pub fn capset(effective: u64, permitted: u64, inheritable: u64) -> Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let data: [u32; 6] = [
        effective as u32,
        permitted as u32,
        inheritable as u32,
        (effective >> 32) as u32,
        (permitted >> 32) as u32,
        (inheritable >> 32) as u32,
    ];
    call!(SYS_capset, header.as_ptr(), data.as_ptr()).map(drop)
}

/// The limit on open descriptors.
pub const NOFILE: u32 = 7;

/// A resource limit of this process: the soft and the hard one.
pub fn get_limit(resource: u32) -> Result<[u64; 2]> {
    let mut limit = [0u64; 2];
    call!(SYS_prlimit64, 0, resource, 0, limit.as_mut_ptr())?;
    Ok(limit)
}

/// Lowers a resource limit of this process. One that is lower already stays: only the host's root may raise it.
pub fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let hard = hard.min(get_limit(resource)?[1]);
    let limit = [soft.min(hard), hard];
    call!(SYS_prlimit64, 0, resource, limit.as_ptr(), 0).map(drop)
}

pub fn landlock_create(attributes: &[u64]) -> Result<Fd> {
    call!(SYS_landlock_create_ruleset, attributes.as_ptr(), size_of_val(attributes), 0)
        .map(|fd| Fd(fd as i32))
}

#[repr(C, packed)]
struct PathBeneath {
    access: u64,
    parent: i32,
}

pub fn landlock_allow_path(rules: &Fd, parent: i32, access: u64) -> Result<()> {
    let rule = PathBeneath { access, parent };
    call!(SYS_landlock_add_rule, rules.0, 1, &raw const rule, 0).map(drop)
}

pub fn landlock_allow_port(rules: &Fd, port: u16, access: u64) -> Result<()> {
    let rule = [access, u64::from(port)];
    call!(SYS_landlock_add_rule, rules.0, 2, rule.as_ptr(), 0).map(drop)
}

pub fn landlock_restrict(rules: i32) -> Result<()> {
    call!(SYS_landlock_restrict_self, rules, 0).map(drop)
}

/// Installs a filter of classic BPF instructions (8 bytes each). With `listener`, returns its notification fd.
pub fn seccomp_filter(program: &[u8], flags: usize) -> Result<usize> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const u8,
    }
    let len = u16::try_from(program.len() / 8).map_err(|_| Errno::EINVAL)?;
    let program = Program { len, filter: program.as_ptr() };
    call!(SYS_seccomp, 1, flags, &raw const program)
}

pub fn kill(pid: i32, signal: i32) -> Result<()> {
    call!(SYS_kill, pid, signal).map(drop)
}

pub fn getpid() -> i32 {
    call!(SYS_getpid).map_or(0, |pid| pid as i32)
}

/// A descriptor that refers to a process.
pub fn pidfd_open(pid: i32) -> Result<Fd> {
    call!(SYS_pidfd_open, pid, 0).map(|fd| Fd(fd as i32))
}

pub fn setpgid(pid: i32, group: i32) -> Result<()> {
    call!(SYS_setpgid, pid, group).map(drop)
}

pub fn setsid() -> Result<()> {
    call!(SYS_setsid).map(drop)
}

/// Replaces the set of blocked signals.
pub fn set_signal_mask(mask: u64) -> Result<()> {
    call!(SYS_rt_sigprocmask, 2, &raw const mask, 0, 8).map(drop)
}

/// The highest number of a signal.
pub const LAST_SIGNAL: i32 = 64;

/// Forgets the signals that are blocked and have come.
pub fn drop_signals() {
    let (all, no_time) = (u64::MAX, [0u64; 2]);
    while call!(SYS_rt_sigtimedwait, &raw const all, 0, no_time.as_ptr(), 8).is_ok() {}
}

/// Puts a signal's action back to the default.
pub fn default_action(signal: i32) {
    // struct kernel_sigaction, all zero: SIG_DFL, no flags, empty mask (it is 32 bytes on both architectures).
    let action = [0u64; 4];
    let _ = call!(SYS_rt_sigaction, signal, action.as_ptr(), 0, 8);
}

/// A descriptor that reads as the signals in `mask`.
pub fn signalfd(mask: u64) -> Result<Fd> {
    const SFD_CLOEXEC: usize = 0o2000000;
    const SFD_NONBLOCK: usize = 0o4000;
    call!(SYS_signalfd4, -1isize, &raw const mask, 8, SFD_CLOEXEC | SFD_NONBLOCK).map(|fd| Fd(fd as i32))
}

/// The time in nanoseconds, by the clock that nobody sets.
pub fn now() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    let _ = call!(SYS_clock_gettime, CLOCK_MONOTONIC, time.as_mut_ptr());
    time[0] * 1_000_000_000 + time[1]
}

/// The time of day, in seconds.
pub fn time_of_day() -> i64 {
    const CLOCK_REALTIME: usize = 0;
    let mut time = [0i64; 2];
    let _ = call!(SYS_clock_gettime, CLOCK_REALTIME, time.as_mut_ptr());
    time[0]
}

/// What processes have used.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// CPU time in programs, in microseconds.
    pub user: i64,
    /// CPU time in the kernel, in microseconds.
    pub system: i64,
    /// The most memory of any one of them, in KiB.
    pub peak: i64,
}

/// A child that changed state.
pub struct ChildState {
    pub pid: i32,
    /// [`CLD_EXITED`] and the like.
    pub code: i32,
    pub status: i32,
    /// Its own and that of the descendants it waited for.
    pub usage: Usage,
}

pub const CLD_EXITED: i32 = 1;
pub const CLD_KILLED: i32 = 2;
pub const CLD_DUMPED: i32 = 3;
pub const CLD_STOPPED: i32 = 5;

impl ChildState {
    pub fn has_ended(&self) -> bool {
        matches!(self.code, CLD_EXITED | CLD_KILLED | CLD_DUMPED)
    }
}

const WEXITED: usize = 4;

/// Children without a signal at their end too.
const WALL: usize = 0x4000_0000;

/// Takes one child's change of state, if there is one. `None` when there is none now; `ECHILD` when no child is
/// left.
pub fn wait_any() -> Result<Option<ChildState>> {
    const WNOHANG: usize = 1;
    const WSTOPPED: usize = 2;
    wait_all(WNOHANG | WSTOPPED | WEXITED | WALL)
}

/// Waits until some child has ended.
pub fn wait_next() -> Result<Option<ChildState>> {
    wait_all(WEXITED | WALL)
}

fn wait_all(which: usize) -> Result<Option<ChildState>> {
    const P_ALL: usize = 0;
    let mut info = [0i32; 32];
    // struct rusage: two times, each in seconds and microseconds, then the peak in KiB.
    let mut usage = [0i64; 18];
    call!(SYS_waitid, P_ALL, 0, info.as_mut_ptr(), which, usage.as_mut_ptr())?;
    // siginfo_t: si_code at int 2, si_pid at int 4, si_status at int 6.
    if info[4] == 0 {
        return Ok(None);
    }
    let [user, system] = [0, 2].map(|at| usage[at] * 1_000_000 + usage[at + 1]);
    let usage = Usage { user, system, peak: usage[4] };
    Ok(Some(ChildState { pid: info[4], code: info[2], status: info[6], usage }))
}

/// Waits for the end of a child.
pub fn wait_for(pid: i32) -> Result<()> {
    const P_PID: usize = 1;
    loop {
        match call!(SYS_waitid, P_PID, pid, 0, WEXITED | WALL, 0) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Leaves for a fresh network namespace.
pub fn unshare_network() -> Result<()> {
    call!(SYS_unshare, flag::NEWNET).map(drop)
}

/// Leaves for a copy of the mounts.
pub fn unshare_mounts() -> Result<()> {
    call!(SYS_unshare, flag::NEWNS).map(drop)
}

/// Leaves for a fresh user namespace.
pub fn unshare_user() -> Result<()> {
    call!(SYS_unshare, flag::NEWUSER).map(drop)
}

/// The effective user and group of this process.
pub fn own_ids() -> [u32; 2] {
    // Neither call can fail.
    [call!(SYS_geteuid).unwrap_or(0) as u32, call!(SYS_getegid).unwrap_or(0) as u32]
}

/// Leaves for a cgroup namespace that begins at the cgroups that this process is in.
pub fn unshare_cgroups() -> Result<()> {
    call!(SYS_unshare, flag::NEWCGROUP).map(drop)
}

/// Goes over to the namespace open as `fd`, of the type that a flag of clone names.
pub fn enter_namespace(fd: i32, kind: u64) -> Result<()> {
    call!(SYS_setns, fd, kind).map(drop)
}

/// Goes over to a network namespace.
pub fn enter_network(network: &Fd) -> Result<()> {
    enter_namespace(network.raw(), flag::NEWNET)
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call!(SYS_exit_group, code);
    }
}

/// Replaces this program. Returns only when it could not. Both arrays have to end in null.
pub fn execve(path: &CStr, argv: &[*const u8], envp: &[*const u8]) -> Errno {
    if !is_terminated(argv) || !is_terminated(envp) {
        return Errno::EINVAL;
    }
    call!(SYS_execve, at(path), argv.as_ptr(), envp.as_ptr()).err().unwrap_or(Errno::EINVAL)
}

/// Replaces this program by the one open as `fd`. Returns only when it could not. Both arrays have to end in null.
pub fn execveat(fd: i32, argv: &[*const u8], envp: &[*const u8]) -> Errno {
    if !is_terminated(argv) || !is_terminated(envp) {
        return Errno::EINVAL;
    }
    call!(SYS_execveat, fd, at(c""), argv.as_ptr(), envp.as_ptr(), AT_EMPTY_PATH)
        .err()
        .unwrap_or(Errno::EINVAL)
}

fn is_terminated(strings: &[*const u8]) -> bool {
    strings.last().is_some_and(|last| last.is_null())
}
