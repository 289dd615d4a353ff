//! rtnetlink(7): the loopback goes up, gets an address, and every destination becomes its own.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::message::{ACK, Attributes, CREATE, Messages};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFF_UP: u32 = 1;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// The most that the loopback takes (`GSO_MAX_SIZE`).
const LARGEST_SEGMENT: u32 = 8 * 65535;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate address detection: the address can be used at once.
const IFA_F_NODAD: u8 = 2;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The loopback is the first interface of every namespace.
const LOOPBACK: u32 = 1;

/// All of it in one batch. Only the last message asks for an acknowledgement: errors are told for each.
pub(super) fn everything_is_local(v4: Ipv4Addr, v6: Option<Ipv6Addr>, large_segments: bool) -> Vec<u8> {
    let mut messages = Messages::default();
    let mut link = Attributes::default();
    if large_segments {
        link = link.with(IFLA_GSO_MAX_SIZE, &LARGEST_SEGMENT.to_ne_bytes());
        link = link.with(IFLA_GSO_IPV4_MAX_SIZE, &LARGEST_SEGMENT.to_ne_bytes());
    }
    messages.push(RTM_NEWLINK, 0, &link_up(), &link);
    messages.push(RTM_NEWADDR, CREATE, &address_header(AF_INET, 32, 0), &addresses(&v4.octets()));
    let last_of_v4 = if v6.is_none() { ACK } else { 0 };
    // Without a preferred source the kernel takes the destination as the source of a connection to it
    // (`ip_route_output_key_hash_rcu`, for local routes).
    messages.push(RTM_NEWROUTE, CREATE | last_of_v4, &route_header(AF_INET), &route(&v4.octets()));
    if let Some(v6) = v6 {
        let header = address_header(AF_INET6, 128, IFA_F_NODAD);
        messages.push(RTM_NEWADDR, CREATE, &header, &addresses(&v6.octets()));
        messages.push(RTM_NEWROUTE, CREATE | ACK, &route_header(AF_INET6), &route(&v6.octets()));
    }
    messages.into_bytes()
}

/// `struct ifinfomsg`.
fn link_up() -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for number in [LOOPBACK, IFF_UP, IFF_UP] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// `struct ifaddrmsg` with global scope.
fn address_header(family: u8, prefix: u8, flags: u8) -> Vec<u8> {
    let mut bytes = vec![family, prefix, flags, 0];
    bytes.extend_from_slice(&LOOPBACK.to_ne_bytes());
    bytes
}

fn addresses(octets: &[u8]) -> Attributes {
    Attributes::default().with(IFA_LOCAL, octets).with(IFA_ADDRESS, octets)
}

/// `struct rtmsg`: a default route of type *local*, in the table that is looked at first.
fn route_header(family: u8) -> Vec<u8> {
    const RT_TABLE_LOCAL: u8 = 255;
    const RTPROT_STATIC: u8 = 4;
    const RT_SCOPE_HOST: u8 = 254;
    const RTN_LOCAL: u8 = 2;
    vec![family, 0, 0, 0, RT_TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0]
}

fn route(source: &[u8]) -> Attributes {
    Attributes::default().with(RTA_OIF, &LOOPBACK.to_ne_bytes()).with(RTA_PREFSRC, source)
}
