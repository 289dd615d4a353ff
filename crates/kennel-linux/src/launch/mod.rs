//! Making PID 1: the clone into the new namespaces, by one of three ways.
//!
//! [`copy`] clones this process and calls init's code in the child: the quickest, for small single-threaded programs
//! (kennel's own command line). [`exec`] makes a vfork-like clone that shares memory and executes init's tiny static
//! program from a sealed memory file: for library callers of any size and number of threads. [`zygote`] has a process that
//! was made so before, and is small, make the copy: for callers of any size that start many.

pub mod copy;
pub mod exec;
mod id_maps;
mod numbers;
mod vfork_child;
pub mod zygote;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kennel_init::child::clone::flag;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::tier::Tier;
use crate::users::UsersError;
pub use id_maps::IdMaps;

/// Whether the cgroup namespace of this process is not the first one, whose number is always the same.
#[must_use]
pub fn is_in_cgroup_namespace() -> bool {
    const FIRST: &str = "cgroup:[4026531835]";
    std::fs::read_link("/proc/self/ns/cgroup").is_ok_and(|name| name.as_os_str() != FIRST)
}

/// PID 1, as its controller holds it.
#[derive(Debug)]
pub struct Init {
    /// Its pid in the controller's namespace.
    pub pid: i32,
    /// Refers to it for as long as it is held, even after it died.
    pub pidfd: OwnedFd,
    /// The socket over which it reports; closing it ends the sandbox.
    pub link: OwnedFd,
    /// Whether it is PID 1 of a namespace, so that the kernel ends everything inside when it dies.
    pub namespaced: bool,
    /// The network that it was born in, where that was lent to it.
    pub network: Option<zygote::LentNetwork>,
}

impl Init {
    /// Kills it and waits until it is gone.
    pub fn end(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        let _ = crate::reap::reap(self.pidfd.as_fd());
    }
}

/// Why there is no PID 1.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The kernel refused the namespaces.
    #[error("cloning into new namespaces: {0}")]
    Clone(#[source] io::Error),
    /// The kernel refused the mapping of users.
    #[error("mapping the user into the new user namespace: {0}")]
    IdMaps(#[source] io::Error),
    /// Several users could not be mapped.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// Init's program could not be executed.
    #[error("executing init from memory: {0}")]
    Exec(#[source] io::Error),
    /// Sockets, memory files or the like.
    #[error("preparing the launch: {0}")]
    Prepare(#[from] io::Error),
}

/// What both ways need.
pub struct Launch<'a> {
    /// clone3's namespace flags.
    pub namespaces: u64,
    /// Who the command is.
    pub ids: &'a IdMaps,
    /// The cgroup to be born in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Whether to be born in a network with a loopback and nothing else, which only a zygote has.
    pub network: bool,
}

/// The namespaces that PID 1 is born in. The network's is a step of the plan, because some policies keep the host's.
#[must_use]
pub fn namespaces(tier: Tier) -> u64 {
    match tier {
        Tier::Full | Tier::HostProc => {
            flag::NEWUSER | flag::NEWNS | flag::NEWPID | flag::NEWIPC | flag::NEWUTS | flag::NEWCGROUP
        }
        Tier::LandlockOnly => 0,
    }
}

/// Tries whether this host lets this process make every namespace that a sandbox has.
///
/// # Errors
/// What the kernel said when it did not.
pub fn try_namespaces() -> Result<(), LaunchError> {
    let ids = IdMaps::of_caller(kennel_policy::policy::UserMode::Self_);
    let namespaces = namespaces(Tier::Full) | flag::NEWNET;
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    // It waits for a plan that never comes.
    exec::launch(&Launch { namespaces, ids: &ids, cgroup: None, network: false }, stdio, &[])?.end();
    Ok(())
}

/// A pair of sockets that keep message boundaries: the controller's end and init's.
pub(crate) fn link() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn raw(fd: &impl AsFd) -> i32 {
    use std::os::fd::AsRawFd;
    fd.as_fd().as_raw_fd()
}
