//! The library's way: a clone that shares memory, and an exec of init's own program.
//!
//! The caller may be huge and have hundreds of threads. Nothing of it is copied: CLONE_VM | CLONE_VFORK suspends
//! only the calling thread for the dozen system calls that `vfork_child` makes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use kennel_init::child::clone::{CloneArgs, clone_on_stack, flag};
use kennel_init::child::sys;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::signal_mask::SignalsBlocked;

use super::vfork_child::{self, Failure, Orders};
use super::{IdMaps, Init, Launch, LaunchError, link, raw};

const STACK: usize = 64 * 1024;

/// Starts init as a program of its own. `stdio` becomes its standard input, output and error; `keep` stays open
/// under the same numbers.
pub fn launch(launch: &Launch, stdio: [BorrowedFd; 3], keep: &[i32]) -> Result<Init, LaunchError> {
    start(launch, stdio, keep, Group::Callers, None)
}

/// The same in a process group of its own, for a caller on whose terminal the command runs: what the terminal or
/// `kill 0` sends to the caller's group would be forwarded and come twice.
pub fn launch_apart(launch: &Launch, stdio: [BorrowedFd; 3], keep: &[i32]) -> Result<Init, LaunchError> {
    start(launch, stdio, keep, Group::Own, None)
}

/// Which process group init is born in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Callers,
    Own,
}

/// Starts init's program as a helper that enters the namespaces `user` and `mounts` of a sandbox, which has this
/// `store`, and covers the names that it is told over the link.
pub fn mender(user: BorrowedFd, mounts: BorrowedFd, store: BorrowedFd) -> Result<Init, LaunchError> {
    let ids = IdMaps::of_caller(kennel_policy::policy::UserMode::Self_);
    let here = Launch { namespaces: 0, ids: &ids, cgroup: None, network: false };
    start(&here, [user, mounts, store], &[], Group::Callers, Some(c"mend"))
}

/// Starts init's program as a helper that enters the namespaces `user` and `network` of a sandbox, makes a pair of sockets,
/// sends it over the link and ends.
pub fn pair_maker(user: BorrowedFd, network: BorrowedFd) -> Result<Init, LaunchError> {
    let ids = IdMaps::of_caller(kennel_policy::policy::UserMode::Self_);
    let here = Launch { namespaces: 0, ids: &ids, cgroup: None, network: false };
    start(&here, [user, network, network], &[], Group::Callers, Some(c"pair"))
}

/// Starts init's program as a helper that enters the namespace `user` of a sandbox, waits until its PID 1 has ended, and gives
/// the caller what is left in the folders that it gets over the link; until then it makes the guard's `calls`. In a group of its own: it outlives this process.
pub fn owners(user: BorrowedFd, init: BorrowedFd, calls: BorrowedFd) -> Result<Init, LaunchError> {
    let ids = IdMaps::of_caller(kennel_policy::policy::UserMode::Self_);
    let here = Launch { namespaces: 0, ids: &ids, cgroup: None, network: false };
    start(&here, [user, init, calls], &[], Group::Own, Some(c"owners"))
}

/// Starts init's program as a zygote.
pub(super) fn zygote() -> Result<Init, LaunchError> {
    let ids = IdMaps::of_caller(kennel_policy::policy::UserMode::Self_);
    let here = Launch { namespaces: 0, ids: &ids, cgroup: None, network: false };
    let nothing = std::fs::File::open("/dev/null")?;
    start(&here, [nothing.as_fd(); 3], &[], Group::Callers, Some(c"zygote"))
}

fn start(
    launch: &Launch,
    stdio: [BorrowedFd; 3],
    keep: &[i32],
    group: Group,
    role: Option<&CStr>,
) -> Result<Init, LaunchError> {
    if launch.network {
        // Or it would be the host's.
        return Err(LaunchError::Prepare(io::ErrorKind::Unsupported.into()));
    }
    let program = program()?;
    let (ours, theirs) = link()?;
    let link_number = (3..).find(|number| !keep.contains(number)).unwrap_or(3);
    let arguments =
        [CString::from(c"kennel-init"), CString::new(link_number.to_string()).unwrap_or_default()];
    let ids = (launch.namespaces & flag::NEWUSER != 0).then_some(launch.ids);
    // It waits for its maps first, after the exec: until then this thread is suspended.
    let role = role.or(matches!(ids, Some(IdMaps::Several(_))).then_some(c"wait"));
    let mut orders = Orders {
        ids,
        stdio: stdio.map(|fd| raw(&fd)),
        link: (raw(&theirs), link_number),
        keep,
        own_group: group == Group::Own,
        program: raw(&program),
        arguments: [
            arguments[0].as_ptr().cast(),
            arguments[1].as_ptr().cast(),
            role.map_or(std::ptr::null(), |role| role.as_ptr().cast()),
            std::ptr::null(),
        ],
        failure: None,
    };
    let stack = Stack::new()?;
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs {
        flags: launch.namespaces | flag::PIDFD | flag::VM | flag::VFORK,
        pidfd: &raw mut pidfd as u64,
        // No exit signal, so that a failed launch disturbs nobody. The exec gives init one: a wait loop of the
        // caller's may take it, which `reap` allows for.
        stack: stack.0 as u64,
        stack_size: STACK as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = &launch.cgroup {
        args.flags |= flag::INTO_CGROUP;
        args.cgroup = u64::from(raw(cgroup).cast_unsigned());
    }
    // A handler of the caller's that ran in the child would run in the caller's memory.
    let blocked = SignalsBlocked::new();
    // SAFETY: a fresh stack; `run` never returns and keeps to raw calls; `orders` outlives the child's use of it.
    let cloned = unsafe { clone_on_stack(&args, vfork_child::run, (&raw mut orders).cast()) };
    drop(blocked);
    let from_errno = |sys::Errno(errno)| io::Error::from_raw_os_error(errno);
    let pid = cloned.map_err(|errno| LaunchError::Clone(from_errno(errno)))?;
    // SAFETY: the kernel has just put a fresh descriptor there.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let init =
        Init { pid, pidfd, link: ours, namespaced: launch.namespaces & flag::NEWPID != 0, network: None };
    drop(theirs);
    match orders.failure {
        None => match ids {
            Some(ids) => ids.complete(init),
            None => Ok(init),
        },
        Some(failure) => {
            let _ = crate::reap::reap(init.pidfd.as_fd());
            Err(match failure {
                Failure::IdMaps(errno) => LaunchError::IdMaps(from_errno(errno)),
                Failure::Exec(errno) => LaunchError::Exec(from_errno(errno)),
            })
        }
    }
}

/// Init's program in a sealed memory file, made once per process.
fn program() -> io::Result<BorrowedFd<'static>> {
    static PROGRAM: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(fd) = PROGRAM.get() {
        return Ok(fd.as_fd());
    }
    let sealing = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match rustix::fs::memfd_create("kennel-init", sealing | MemfdFlags::EXEC) {
        // Before 6.3 the flag is unknown and every memory file is executable.
        Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create("kennel-init", sealing)?,
        other => other?,
    };
    let mut rest = kennel_init::PROGRAM;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(PROGRAM.get_or_init(|| file).as_fd())
}

/// Memory for the child's stack; returned when the child has left it.
struct Stack(*mut std::ffi::c_void);

impl Stack {
    fn new() -> io::Result<Stack> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                STACK,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::STACK,
            )?
        };
        Ok(Stack(start))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the child has executed or exited, so nobody stands on it.
        let _ = unsafe { rustix::mm::munmap(self.0, STACK) };
    }
}
