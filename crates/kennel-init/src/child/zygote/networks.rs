//! Networks with a loopback and nothing else, used again as long as nobody has used them.
//!
//! To make a network and to take it apart costs the kernel more than all else that a sandbox is made of, and most commands have
//! no use for it. All that can be done to a network from inside is done through a socket in it: nobody inside has power over its
//! settings, because the namespace that has is the zygote's, which no sandbox is in. So the sandbox's filter sends every call that
//! makes a socket there to the controller. Where none came, and no socket is left that somebody may hold, the network is as it was
//! made, and is lent again; otherwise it is thrown away.

use core::ffi::CStr;

use super::super::mounts::number;
use super::super::network::{loopback_up, this_network};
use super::super::sys::{self, AT_FDCWD, Fd, POLLIN, PollFd, Result, open};
use super::super::users::write_own_maps;

/// The most networks that are lent or kept. Beyond that they are used once.
const MAX: usize = 64;
/// The most that are kept for the next.
const MAX_KEPT: usize = 16;

/// Begins with the number of sockets in a network, whoever holds them and of whatever family. (What follows are counts of the
/// whole machine.)
const SOCKETS: &CStr = c"/proc/self/net/sockstat";
const NO_SOCKET: &[u8] = b"sockets: used 0\n";

/// A network that nobody has used.
pub(super) struct Network(Fd);

/// One that was lent, and to whom.
struct Lent {
    number: u32,
    network: Network,
    init: Fd,
}

/// All networks of a zygote.
pub(super) struct Networks {
    /// Whether this process lives in a user namespace of its own.
    enclosed: bool,
    next: u32,
    lent: [Option<Lent>; MAX],
    kept: [Option<Network>; MAX_KEPT],
}

impl Networks {
    pub(super) const fn none() -> Networks {
        Networks { enclosed: false, next: 1, lent: [const { None }; MAX], kept: [const { None }; MAX_KEPT] }
    }

    /// Goes over to a network that nobody has used.
    pub(super) fn enter_one(&mut self) -> Result<Network> {
        if !self.enclosed {
            enclose()?;
            self.enclosed = true;
        }
        if let Some(network) = self.kept.iter_mut().find_map(Option::take) {
            sys::enter_network(&network.0)?;
            return Ok(network);
        }
        sys::unshare_network()?;
        loopback_up()?;
        Ok(Network(this_network()?))
    }

    /// Takes note of who has it. Returns the number under which it is given back; 0 if it is used once.
    pub(super) fn lend(&mut self, network: Network, init: &Fd) -> u32 {
        let Some(place) = self.lent.iter_mut().find(|place| place.is_none()) else { return 0 };
        let Ok(init) = sys::dup_above(init.raw(), 3) else { return 0 };
        let number = self.next;
        self.next = self.next.checked_add(1).unwrap_or(1);
        *place = Some(Lent { number, network, init: Fd(init) });
        number
    }

    /// Keeps it for the next, if nobody has touched it and its sandbox has ended.
    pub(super) fn take_back(&mut self, number: u32, untouched: bool) {
        let is_it = |place: &&mut Option<Lent>| place.as_ref().is_some_and(|lent| lent.number == number);
        let Some(Lent { network, init, .. }) = self.lent.iter_mut().find(is_it).and_then(Option::take) else {
            return;
        };
        // PID 1 ends last.
        let mut ended = [PollFd { fd: init.raw(), events: POLLIN, revents: 0 }];
        let unused = untouched
            && matches!(sys::poll_for(&mut ended, 0), Ok(1))
            && sys::enter_network(&network.0).is_ok()
            && has_no_socket();
        if let Some(place) = self.kept.iter_mut().find(|place| place.is_none()).filter(|_| unused) {
            *place = Some(network);
        }
    }
}

/// A user namespace of this process's own, in which it is who it is outside and may make networks.
fn enclose() -> Result<()> {
    let ids = sys::own_ids();
    sys::unshare_user()?;
    let [user, group] = ids.map(|id| {
        let mut digits = [0; 24];
        let digits = number(u64::from(id), 10, &mut digits).to_bytes();
        let mut line = [b' '; 32];
        line[..digits.len()].copy_from_slice(digits);
        line[12..12 + digits.len()].copy_from_slice(digits);
        line[24] = b'1';
        line
    });
    write_own_maps(&user, &group)
}

/// Whether there is no socket in the network that this process is in.
fn has_no_socket() -> bool {
    let mut start = [0; NO_SOCKET.len()];
    let read =
        sys::openat(AT_FDCWD, SOCKETS, open::RDONLY).and_then(|file| sys::read(file.raw(), &mut start));
    read.is_ok() && start == NO_SOCKET
}
