//! The quick way: clone this process and go on as PID 1 in the child.

use std::os::fd::BorrowedFd;

use kennel_init::child::clone::{clone_copy, flag};
use kennel_init::child::{self, InheritedMemory, sys};
use kennel_init::report::{ID_MAPS, Report};

use super::{IdMaps, Init, Launch, LaunchError, link, raw};
use crate::sys::files::owned;

/// What PID 1 of a command line gets in place of the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Standard input, output and error, where they are not this process's.
    pub streams: [Option<BorrowedFd<'a>>; 3],
    /// Whether it is going to lead a session, which is to have a terminal.
    pub session: bool,
}

/// Clones PID 1 off this process, which has a single thread, as the maker of `inherited` promised. `launch` must refer to nothing
/// on the heap, which PID 1 does not have.
pub fn launch(
    launch: &Launch,
    inherited: InheritedMemory,
    around: Surroundings,
) -> Result<Init, LaunchError> {
    if launch.network {
        // Or it would be the host's.
        return Err(LaunchError::Prepare(std::io::ErrorKind::Unsupported.into()));
    }
    let (ours, theirs) = link()?;
    inherited.keep_from_clones(true);
    match clone_copy(launch.namespaces, launch.cgroup.as_ref().map(raw), &inherited) {
        Ok(None) => {
            for (fd, number) in around.streams.into_iter().zip(0..) {
                if let Some(fd) = fd {
                    let _ = sys::dup3(raw(&fd), number, false);
                }
            }
            become_init(launch, around.session, raw(&ours), raw(&theirs), inherited)
        }
        Ok(Some((pid, pidfd))) => {
            if matches!(launch.ids, IdMaps::Several(_)) {
                // The tools that write the maps may be started by a fork, whose child needs the heap for the exec.
                inherited.keep_from_clones(false);
            }
            // Or a child that waits for its maps would not notice that this process has failed.
            drop(theirs);
            let namespaced = launch.namespaces & flag::NEWPID != 0;
            launch.ids.complete(Init { pid, pidfd: owned(pidfd), link: ours, namespaced, network: None })
        }
        Err(sys::Errno(errno)) => Err(LaunchError::Clone(std::io::Error::from_raw_os_error(errno))),
    }
}

/// The child. It has no heap: `launch` and all that it refers to lie on the stack.
fn become_init(launch: &Launch, session: bool, ours: i32, theirs: i32, inherited: InheritedMemory) -> ! {
    // The controller is one thread, so its death is the process's. The link tells of it as well; this is at once.
    // Without a PID namespace init has to live a moment longer than its controller, to end what is inside.
    if launch.namespaces & flag::NEWPID != 0 {
        let _ = sys::set_death_signal(libc::SIGKILL);
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
        let _ = sys::set_dumpable(true);
        match launch.ids.write() {
            Ok(true) => {}
            Ok(false) => child::run_when_mapped(theirs, inherited),
            Err(sys::Errno(errno)) => {
                let _ = sys::send(theirs, &Report::Failed { step: ID_MAPS, errno }.encode());
                sys::exit(1);
            }
        }
    }
    child::run(theirs, inherited)
}
