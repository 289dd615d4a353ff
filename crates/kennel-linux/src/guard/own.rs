//! The unix sockets that the sandbox itself listens on, in folders of the host's.
//!
//! A socket's file does not tell who listens there: the sandbox, or a daemon of the host's whose socket it has moved to
//! that name. So the guard remembers: a program that calls `listen` has its socket looked at, and the kernel itself opens the
//! file that this socket is bound to. The file is held from then on, so that its number is given to no other; and since
//! a socket's file is made by the bind and never bound again, nobody else can come to listen there.

use std::os::fd::{AsFd, OwnedFd};

use kennel_init::plan::Identity;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};

use super::caller::Caller;
use super::walk;
use crate::sys::files::{file_of_socket, network_of_socket};

/// A sandbox could listen on any number, and each takes a descriptor.
const MAX: usize = 256;

/// The files of these sockets.
#[derive(Debug, Default)]
pub struct OwnSockets(Vec<(OwnedFd, Identity)>);

impl OwnSockets {
    /// Whether this file is one of them.
    #[must_use]
    pub fn hold(&self, file: Identity) -> bool {
        self.0.iter().any(|(_, own)| *own == file)
    }

    /// Remembers the file of a socket that [`own_file`] found.
    pub fn add(&mut self, file: OwnedFd) {
        let Ok(identity) = walk::identity(file.as_fd()) else { return };
        if self.hold(identity) {
            return;
        }
        if self.0.len() >= MAX {
            // What has no name any more nobody can connect to.
            self.0.retain(|(file, _)| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink > 0));
        }
        if self.0.len() < MAX {
            self.0.push((file, identity));
        }
    }
}

/// The file that a caller's socket is bound to, if the socket was made in the caller's own network, and that is not
/// this process's. A listening socket of the host's that somebody passed in is none of the sandbox's own.
///
/// # Errors
/// What keeps the guard from looking: the call goes on, and nothing is remembered.
pub fn own_file(caller: Caller, number: i32) -> Result<Option<OwnedFd>, Errno> {
    // Linux 4.11.
    let socket = caller.descriptor(number)?;
    if sockopt::socket_domain(&socket)? != AddressFamily::UNIX || !is_of_the_callers_network(caller, &socket)?
    {
        return Ok(None);
    }
    match file_of_socket(&socket) {
        Ok(file) => Ok(Some(file)),
        // An abstract name, or none.
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a socket was made in the caller's own network, and that is not this process's.
///
/// # Errors
/// What keeps the guard from looking: a socket of a network that this process has no power over is another's.
pub fn is_of_the_callers_network(caller: Caller, socket: &OwnedFd) -> Result<bool, Errno> {
    // Asks for CAP_NET_ADMIN over that network, which the owner of the sandbox's user namespace has.
    let network = namespace(&network_of_socket(socket)?)?;
    Ok(network == namespace(&caller.network()?)? && network != namespace(&own_network()?)?)
}

fn namespace(fd: &OwnedFd) -> Result<Identity, Errno> {
    walk::identity(fd.as_fd())
}

/// The network namespace of this thread.
pub fn own_network() -> Result<OwnedFd, Errno> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open("/proc/thread-self/ns/net", flags, rustix::fs::Mode::empty())
}
