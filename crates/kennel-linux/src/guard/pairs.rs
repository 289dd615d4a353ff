//! Pairs of datagram sockets, as pairs that stay pairs.
//!
//! A datagram socket can be connected anew, and send to any path or name without that: one end of a pair of them reaches
//! whatever the host's daemons listen on, and no filter sees the addresses that `sendmsg` takes from memory. A pair of
//! SOCK_SEQPACKET sockets keeps the bounds of messages too, but is connected for good: the kernel refuses another connect
//! and passes over addresses (`unix_seqpacket_sendmsg`). So who asks for the one gets the other. What differs: its type, if
//! it is asked for; and that the end of one side is an end of file for the other.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use kennel_init::report::Report;
use kennel_init::role::DescriptorRole;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::caller::Caller;
use super::listener::{Answer, Listener};
use super::{as_root, own, walk};
use crate::clock::timespec;
use crate::launch;
use crate::link::{self, Received};
use crate::sys::files::owner_of_namespace;

/// How long the helper that makes a pair has.
const PATIENCE: Duration = Duration::from_secs(5);

/// The arguments of `socketpair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCall {
    /// Which sockets.
    pub domain: i32,
    /// Of which type, and flags.
    pub kind: i32,
    /// Which protocol.
    pub protocol: i32,
    /// Where their numbers go.
    pub numbers: u64,
}

/// Makes the call on the caller's behalf.
pub fn make(listener: &Listener, id: u64, caller: Caller, call: PairCall) -> Answer {
    match make_pair(listener, id, caller, call) {
        Ok(()) => Answer::Done,
        Err(
            errno @ (Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::FAULT
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::PROTONOSUPPORT),
        ) => Answer::Refuse(errno.raw_os_error()),
        // What keeps the guard from making one is nothing that the caller could do something about.
        Err(_) => Answer::Refuse(libc::EPERM),
    }
}

fn make_pair(listener: &Listener, id: u64, caller: Caller, call: PairCall) -> Result<(), Errno> {
    const TYPE: i32 = 0xf;
    let flags = call.kind & !TYPE;
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    if call.domain != libc::AF_UNIX {
        return Err(Errno::OPNOTSUPP);
    }
    if ![0, libc::AF_UNIX].contains(&call.protocol) {
        return Err(Errno::PROTONOSUPPORT);
    }
    // Opened before it is known that the thread still waits, and used only if it does: whatever happens afterwards, this is
    // the memory of the process that called, and no other's that was given its number.
    let memory = memory(caller)?;
    let pair = sockets(caller)?;
    if flags & libc::SOCK_NONBLOCK != 0 {
        for socket in &pair {
            rustix::io::ioctl_fionbio(socket, true)?;
        }
    }
    if !listener.still_waits(id) {
        return Err(Errno::INTR);
    }
    // First tried: sockets that were handed over could not be taken back.
    write(&memory, call.numbers, [-1, -1])?;
    let hand_over = |socket: &OwnedFd| listener.hand_over(id, socket, flags & libc::SOCK_CLOEXEC != 0);
    let numbers = [hand_over(&pair[0])?, hand_over(&pair[1])?];
    write(&memory, call.numbers, numbers)
}

fn memory(caller: Caller) -> Result<File, Errno> {
    let path = format!("/proc/{}/mem", caller.tid());
    as_root::open_proc(&path, OFlags::WRONLY | OFlags::CLOEXEC).map(File::from)
}

fn write(memory: &File, address: u64, numbers: [i32; 2]) -> Result<(), Errno> {
    let bytes = [numbers[0].to_ne_bytes(), numbers[1].to_ne_bytes()].concat();
    memory.write_all_at(&bytes, address).map_err(|_| Errno::FAULT)
}

/// A pair in the caller's network.
fn sockets(caller: Caller) -> Result<[OwnedFd; 2], Errno> {
    let network = caller.network()?;
    if walk::identity(network.as_fd())? == walk::identity(own::own_network()?.as_fd())? {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        return rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).map(|(a, b)| [a, b]);
    }
    // The caller's own may be one below, with several users.
    let users = owner_of_namespace(&network)?;
    let helper = launch::exec::pair_maker(users.as_fd(), network.as_fd()).map_err(|_| Errno::AGAIN)?;
    let pair = received(&helper.link);
    helper.end();
    pair
}

fn received(link: &OwnedFd) -> Result<[OwnedFd; 2], Errno> {
    let mut sockets = Vec::with_capacity(2);
    while sockets.len() < 2 {
        let mut said = [PollFd::new(link, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut said, Some(&timespec(PATIENCE))))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        match link::receive(link, RecvFlags::DONTWAIT) {
            Ok(Received::Report(Some(Report::Descriptor { role: DescriptorRole::Pair }), fds)) => {
                sockets.extend(fds);
            }
            Ok(Received::Report(Some(Report::Failed { errno, .. }), _)) => {
                return Err(Errno::from_raw_os_error(errno));
            }
            Ok(_) | Err(_) => return Err(Errno::PROTO),
        }
    }
    sockets.try_into().map_err(|_| Errno::PROTO)
}
