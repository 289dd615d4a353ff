//! The quick way: clone this process and go on as PID 1 in the child.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use kennel_init::child::clone::{CloneArgs, clone_copy, flag};
use kennel_init::child::{self, InheritedMemory, sys};
use kennel_init::report::{ID_MAPS, Report};

use super::{IdMaps, Init, Launch, LaunchError, link, raw};

/// What PID 1 of a command line gets in place of the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Standard input, output and error, where they are not this process's.
    pub streams: [Option<BorrowedFd<'a>>; 3],
    /// Whether it is going to lead a session, which is to have a terminal.
    pub session: bool,
}

/// Clones PID 1 off this process.
///
/// # Safety
/// This process must have a single thread. `inherited` must describe this process's own memory: PID 1 gives up the
/// heap and wipes the environment. `launch` must refer to nothing on the heap, which PID 1 does not have.
pub unsafe fn launch(
    launch: &Launch,
    inherited: InheritedMemory,
    around: Surroundings,
) -> Result<Init, LaunchError> {
    if launch.network {
        // Or it would be the host's.
        return Err(LaunchError::Prepare(std::io::ErrorKind::Unsupported.into()));
    }
    let (ours, theirs) = link()?;
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs {
        flags: launch.namespaces | flag::PIDFD,
        pidfd: &raw mut pidfd as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = &launch.cgroup {
        args.flags |= flag::INTO_CGROUP;
        args.cgroup = u64::from(raw(cgroup).cast_unsigned());
    }
    // What PID 1 gives up at once need not be copied. Should the kernel refuse, it is only slower.
    let (start, end) = inherited.heap;
    // SAFETY: changes what a clone copies, and nothing for this process; the range is its own, as the caller promises.
    unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTFORK) };
    // SAFETY: a single thread, as the caller promises.
    match unsafe { clone_copy(&args) } {
        Ok(0) => {
            for (fd, number) in around.streams.into_iter().zip(0..) {
                if let Some(fd) = fd {
                    let _ = sys::dup3(raw(&fd), number, false);
                }
            }
            // SAFETY: this is the child; the caller's promise covers what is left of its memory.
            unsafe { become_init(launch, around.session, raw(&ours), raw(&theirs), inherited) }
        }
        Ok(pid) => {
            // SAFETY: the kernel has just put a fresh descriptor there.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            if matches!(launch.ids, IdMaps::Several(_)) {
                // The tools that write the maps may be started by a fork, whose child needs the heap for the exec.
                // SAFETY: as above.
                unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DOFORK) };
            }
            // Or a child that waits for its maps would not notice that this process has failed.
            drop(theirs);
            let namespaced = launch.namespaces & flag::NEWPID != 0;
            launch.ids.complete(Init { pid, pidfd, link: ours, namespaced, network: None })
        }
        Err(sys::Errno(errno)) => Err(LaunchError::Clone(std::io::Error::from_raw_os_error(errno))),
    }
}

/// The child. It has no heap: `launch` and all that it refers to lie on the stack.
///
/// # Safety
/// Must be the only thread of a fresh child.
unsafe fn become_init(
    launch: &Launch,
    session: bool,
    ours: i32,
    theirs: i32,
    inherited: InheritedMemory,
) -> ! {
    const PR_SET_PDEATHSIG: usize = 1;
    const PR_SET_DUMPABLE: usize = 4;
    const SIGKILL: usize = 9;
    // The controller is one thread, so its death is the process's. The link tells of it as well; this is at once.
    // Without a PID namespace init has to live a moment longer than its controller, to end what is inside.
    if launch.namespaces & flag::NEWPID != 0 {
        let _ = sys::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    }
    // Out of the caller's process group, so that what the terminal or `kill 0` sends there is not forwarded twice. Not if it
    // is to lead a session later, which the leader of a group cannot.
    if !session {
        let _ = sys::setpgid(0, 0);
    }
    // Or the link would never close: its other end would live on in here.
    sys::close(ours);
    if launch.namespaces & flag::NEWUSER != 0 {
        // What a process that is not dumpable has in /proc belongs to the host's root. A controller that holds secrets is so,
        // and this one may be its second try.
        let _ = sys::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        match launch.ids.write() {
            Ok(true) => {}
            // SAFETY: the caller's promise.
            Ok(false) => unsafe { child::run_when_mapped(theirs, inherited) },
            Err(sys::Errno(errno)) => {
                let _ = sys::send(theirs, &Report::Failed { step: ID_MAPS, errno }.encode());
                sys::exit(1);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { child::run(theirs, inherited) }
}
