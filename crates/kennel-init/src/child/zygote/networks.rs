//! Networks with a loopback and nothing else, used again as long as nobody has used them.
//!
//! To make a network and to take it apart costs the kernel more than all else that a sandbox is made of, and most commands
//! never send a packet. So a network is taken back when the sandbox that it was lent to has ended, if the kernel's own counts
//! say that it is as it was when it was made: no packet was sent, no connection tried, nothing refused. Otherwise it is thrown
//! away. Nobody inside could change a network's settings, because the namespace that has power over it is the zygote's, which
//! no sandbox is in. What is left are things that an ordinary process makes without a packet: sockets, which end with the
//! last descriptor (but that may have been handed to somebody outside, so they are counted too), and IPv6 flow labels,
//! which outlive their socket.

use core::ffi::CStr;

use super::super::mounts::number;
use super::super::network::{loopback_up, this_network};
use super::super::sys::{self, AT_FDCWD, Fd, POLLIN, PollFd, Result, open};
use super::super::users::write_own_maps;

/// The most networks that are lent or kept. Beyond that they are used once.
const MOST: usize = 64;
/// The most that are kept for the next.
const MOST_KEPT: usize = 16;

/// Whatever is sent, received or refused in a network is counted in one of the first four, for each network by itself. The
/// fifth counts routes, which a mere `connect` of a datagram socket makes; the last holds labels that were asked for, until
/// half a minute or more after their socket is closed.
const COUNTS: [&CStr; 6] = [
    c"/proc/self/net/dev",
    c"/proc/self/net/snmp",
    c"/proc/self/net/snmp6",
    c"/proc/self/net/netstat",
    c"/proc/self/net/rt6_stats",
    c"/proc/self/net/ip6_flowlabel",
];

/// Begins with the number of sockets in a network, whoever holds them and of whatever family. (What follows are counts of the
/// whole machine.)
const SOCKETS: &CStr = c"/proc/self/net/sockstat";
const NO_SOCKET: &[u8] = b"sockets: used 0\n";

/// A network, and a sum over its counts when it was made.
pub(super) struct Network {
    fd: Fd,
    counts: Option<u64>,
}

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
    lent: [Option<Lent>; MOST],
    kept: [Option<Network>; MOST_KEPT],
}

impl Networks {
    pub(super) const fn none() -> Networks {
        Networks { enclosed: false, next: 1, lent: [const { None }; MOST], kept: [const { None }; MOST_KEPT] }
    }

    /// Goes over to a network that nobody has used.
    pub(super) fn enter_one(&mut self) -> Result<Network> {
        if !self.enclosed {
            enclose()?;
            self.enclosed = true;
        }
        if let Some(network) = self.kept.iter_mut().find_map(Option::take) {
            sys::enter_network(&network.fd)?;
            return Ok(network);
        }
        sys::unshare_network()?;
        loopback_up()?;
        Ok(Network { fd: this_network()?, counts: counts() })
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

    /// Keeps it for the next, if it is as it was and its sandbox has ended.
    pub(super) fn take_back(&mut self, number: u32) {
        let is_it = |place: &&mut Option<Lent>| place.as_ref().is_some_and(|lent| lent.number == number);
        let Some(Lent { network, init, .. }) = self.lent.iter_mut().find(is_it).and_then(Option::take) else {
            return;
        };
        // PID 1 ends last.
        let mut ended = [PollFd { fd: init.raw(), events: POLLIN, revents: 0 }];
        let unused = matches!(sys::poll_for(&mut ended, 0), Ok(1))
            && sys::enter_network(&network.fd).is_ok()
            && network.counts.is_some()
            && network.counts == counts()
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

/// A sum over the counts of the network that this process is in; `None` where they cannot be read.
fn counts() -> Option<u64> {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut buffer = [0; 4096];
    for path in COUNTS {
        let file = sys::openat(AT_FDCWD, path, open::RDONLY).ok()?;
        let mut length = 0;
        loop {
            let read = sys::read(file.raw(), &mut buffer).ok()?;
            if read == 0 {
                break;
            }
            length += read;
            for byte in &buffer[..read] {
                // FNV-1a: what it is taken over is the kernel's text, which nobody inside can choose.
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        if length == 0 {
            return None;
        }
    }
    Some(sum)
}
