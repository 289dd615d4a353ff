//! The messages that make a network namespace deliver everything to the gate's doors.
//!
//! Pure: bytes come out, and whoever sets up the namespace sends them. There are two batches, one for each netlink
//! protocol, and each is answered with a single acknowledgement:
//!
//! 1. *Routes.* The loopback goes up and gets an address that is not a loopback one (`AI_ADDRCONFIG` looks for such an
//!    address, and other programs for an interface that has it, which is there to be seen). Then every destination
//!    becomes local: `local 0.0.0.0/0 dev lo`. A listener inside that is bound to the wildcard address accepts
//!    connections to any address from now on.
//! 2. *Netfilter.* One chain sends each new TCP connection to the transparent door, whatever its port, and each UDP
//!    look-up to the name server. What is left (other UDP, ICMP) is rejected at once; without this the namespace
//!    itself would answer a ping to any address, as they are all its own.
//!
//! TCP look-ups need no rule: the transparent door hands connections to port 53 to the name server.

mod message;
mod netfilter;
mod route;

use std::net::IpAddr;

use crate::synthetic::{SANDBOX_V4, SANDBOX_V6};

/// Where the doors are inside the namespace: on 127.0.0.1, and with `ipv6` on `::1` as well. Netfilter's redirect
/// leads to the loopback, so a door that is bound there is reached by redirected connections and by nobody who
/// merely picks its port on another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorPorts {
    /// The port of the transparent door.
    pub transparent: u16,
    /// The port of the name server.
    pub dns: u16,
    /// Whether the kernel has IPv6.
    pub ipv6: bool,
    /// Whether the kernel carries segments of more than 64 KiB over a loopback, by both families (Linux 6.3). Each
    /// passes the connection table and the whole stack once, so downloads take a fifth less time.
    pub large_segments: bool,
}

/// Messages for one netlink socket, to be sent in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `NETLINK_ROUTE` or `NETLINK_NETFILTER`.
    pub protocol: i32,
    /// The messages, one behind the other.
    pub bytes: Vec<u8>,
    /// How many acknowledgements come back if all is well. An error is answered at once, whatever was asked for:
    /// the first `NLMSG_ERROR` with a number that is not zero is the failure, unless it answers [`A_TRY`].
    pub expected_acks: usize,
}

/// The sequence number of messages that may fail: what they ask for is done where the kernel can.
pub const A_TRY: u32 = 0;

/// `NETLINK_ROUTE`.
pub const ROUTE: i32 = 0;
/// `NETLINK_NETFILTER`.
pub const NETFILTER: i32 = 12;

/// Everything that a fresh network namespace needs, in the order in which it is to be sent. Where the second batch
/// cannot be used (no nftables in the kernel), the first one alone still delivers to listeners on chosen ports.
///
/// Preconditions: the doors are bound *after* the first batch. While a namespace has no local address at all, the
/// kernel takes 127.0.0.1 for a broadcast address (`inet_bind`: `RTN_BROADCAST`, so the socket keeps no source
/// address), and answers of a UDP socket that was bound then come from the wrong one.
#[must_use]
pub fn transparent_network(ports: &DoorPorts) -> Vec<Batch> {
    vec![routes(ports.ipv6, ports.large_segments), redirect(ports)]
}

/// The first batch: the loopback is up, and every destination is local.
#[must_use]
pub fn routes(ipv6: bool, large_segments: bool) -> Batch {
    let bytes = route::everything_is_local(SANDBOX_V4, ipv6.then_some(SANDBOX_V6), large_segments);
    Batch { protocol: ROUTE, bytes, expected_acks: 1 }
}

/// The second batch: connections and look-ups go to the doors, and nothing else goes anywhere.
#[must_use]
pub fn redirect(ports: &DoorPorts) -> Batch {
    Batch { protocol: NETFILTER, bytes: netfilter::redirect_to_doors(ports), expected_acks: 1 }
}

/// The message that asks where a packet to this address would go.
#[must_use]
pub fn route_question(address: IpAddr) -> Vec<u8> {
    route::question(address)
}

/// Whether the answer says that such a packet stays on this host. One that says something else, or nothing, does not.
#[must_use]
pub fn route_stays_here(answer: &[u8]) -> bool {
    route::stays_here(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, flags, sequence number and body of each message.
    fn messages(bytes: &[u8]) -> Vec<(u16, u16, u32, &[u8])> {
        let mut rest = bytes;
        let mut found = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let half = |at: usize| u16::from_ne_bytes(rest[at..at + 2].try_into().unwrap());
            let sequence = u32::from_ne_bytes(rest[8..12].try_into().unwrap());
            found.push((half(4), half(6), sequence, &rest[16..length]));
            rest = &rest[length.next_multiple_of(4)..];
        }
        found
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_routes_are_these_bytes() {
        let batch = routes(false, false);
        let found = messages(&batch.bytes);
        let (tries, found): (Vec<_>, Vec<_>) = found.into_iter().partition(|message| message.2 == A_TRY);
        let kind: &[u8] = &[
            0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0,
            12, 0, 18, 0x80, 8, 0, 1, 0, b'i', b'f', b'b', 0,
        ];
        assert_eq!(tries[1], (16, 0x601, A_TRY, kind));
        assert_eq!(tries.iter().map(|message| message.0).collect::<Vec<_>>(), [16, 16, 16, 20]);
        let link: &[u8] = &[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
        let address: &[u8] = &[2, 32, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 198, 18, 0, 1, 8, 0, 1, 0, 198, 18, 0, 1];
        let route: &[u8] =
            &[2, 0, 0, 0, 255, 4, 254, 2, 0, 0, 0, 0, 8, 0, 4, 0, 1, 0, 0, 0, 8, 0, 7, 0, 198, 18, 0, 1];
        assert_eq!(found, [(16, 0x001, 1, link), (20, 0x601, 2, address), (24, 0x605, 3, route)]);
    }

    #[test]
    fn both_families_and_the_rules_are_few_messages_with_one_acknowledgement_each() {
        let ports = DoorPorts { transparent: 0x1234, dns: 0x5678, ipv6: true, large_segments: true };
        let batches = transparent_network(&ports);
        let kinds =
            |batch: &Batch| messages(&batch.bytes).iter().map(|message| message.0).collect::<Vec<_>>();
        assert_eq!(kinds(&batches[0]), [16, 16, 16, 16, 16, 20, 20, 20, 24, 20, 24]);
        assert_eq!(kinds(&batches[1]), [16, 0xa00, 0xa03, 0xa06, 0xa06, 0xa06, 0xa06, 0xa06, 17]);
        for batch in &batches {
            let acks = messages(&batch.bytes).iter().filter(|message| message.1 & 4 != 0).count();
            assert_eq!(acks, batch.expected_acks);
        }
        let rules = messages(&batches[1].bytes);
        let has =
            |rule: usize, bytes: &[u8]| rules[rule].3.windows(bytes.len()).any(|window| window == bytes);
        assert!(has(5, b"redir\0") && has(5, &[0x12, 0x34, 0, 0]) && !has(5, &[0x56, 0x78]));
        assert!(has(6, b"redir\0") && has(6, &[0x56, 0x78, 0, 0]) && has(6, &[0, 53, 0, 0]));
        assert!(has(7, b"reject\0"));
    }
}
