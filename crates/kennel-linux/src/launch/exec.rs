//! The library's way: a clone that shares memory, and an exec of init's own program.
//!
//! The caller may be huge and have hundreds of threads. Nothing of it is copied: CLONE_VM | CLONE_VFORK suspends
//! only the calling thread for the dozen system calls that `vfork_child` makes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use kennel_init::child::clone::{self, flag};
use kennel_init::child::sys::{self, memory::Mapping};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::sys::files::owned;
use crate::sys::signals::SignalsBlocked;

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
    let from_errno = |sys::Errno(errno)| io::Error::from_raw_os_error(errno);
    let mut stack = Mapping::new(STACK).map_err(from_errno)?;
    let cgroup = launch.cgroup.as_ref().map(raw);
    // A handler of the caller's that ran in the child would run in the caller's memory.
    let blocked = SignalsBlocked::new();
    // No exit signal, so that a failed launch disturbs nobody. The exec gives init one: a wait loop of the caller's may take
    // it, which `reap` allows for.
    // SAFETY: `run` keeps to raw calls.
    let cloned =
        unsafe { clone::vfork(launch.namespaces, cgroup, &mut stack, &mut orders, vfork_child::run) };
    drop(blocked);
    let (pid, pidfd) = cloned.map_err(|errno| LaunchError::Clone(from_errno(errno)))?;
    let pidfd = owned(pidfd);
    let namespaced = launch.namespaces & flag::NEWPID != 0;
    let init = Init { pid, pidfd, link: ours, namespaced, network: None };
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
