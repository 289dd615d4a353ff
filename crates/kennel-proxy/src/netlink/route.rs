//! rtnetlink(7): the loopback goes up, gets an address, and every destination becomes its own.
//!
//! Beside it stands, where the kernel has one to offer, an interface that leads nowhere. Programs that want to know
//! whether they are online (Chromium, Java, many by Node's `os.networkInterfaces()`) pass over addresses of a loopback,
//! and look for another interface that is up. Nothing is ever sent by it: the routes above win for every destination,
//! and what a program sends by binding to it is dropped by its driver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{ACK, Attributes, CREATE, Messages};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const IFF_UP: u32 = 1;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// The most that the loopback takes (`GSO_MAX_SIZE`).
const LARGEST_SEGMENT: u32 = 8 * 65535;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate address detection: the address can be used at once.
const IFA_F_NODAD: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The loopback is the first interface of every namespace.
const LOOPBACK: u32 = 1;
/// A number that no interface has which the kernel itself puts into a new namespace (`sit0`, `tunl0`, …).
const INTERFACE: u32 = 100;
/// What programs expect.
const NAME: &str = "eth0";
/// Kinds of interfaces that need nothing, lead nowhere and have a carrier (a bridge without ports has none). Both are
/// modules on most systems, which the kernel loads by itself.
const KINDS: [&str; 2] = ["dummy", "ifb"];
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// No link-local address: the kernel would look for routers by it.
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

/// All of it in one batch. Only the last message asks for an acknowledgement: errors are told for each.
pub(super) fn everything_is_local(v4: Ipv4Addr, v6: Option<Ipv6Addr>, large_segments: bool) -> Vec<u8> {
    let mut messages = Messages::default();
    let mut link = Attributes::default();
    if large_segments {
        link = link.with(IFLA_GSO_MAX_SIZE, &LARGEST_SEGMENT.to_ne_bytes());
        link = link.with(IFLA_GSO_IPV4_MAX_SIZE, &LARGEST_SEGMENT.to_ne_bytes());
    }
    messages.push(RTM_NEWLINK, 0, &link_header(LOOPBACK, IFF_UP), &link);
    interface_to_nowhere(&mut messages, v4, v6);
    messages.push(RTM_NEWADDR, CREATE, &address_header(AF_INET, LOOPBACK), &addresses(&v4.octets()));
    let last_of_v4 = if v6.is_none() { ACK } else { 0 };
    // Without a preferred source the kernel takes the destination as the source of a connection to it
    // (`ip_route_output_key_hash_rcu`, for local routes).
    messages.push(RTM_NEWROUTE, CREATE | last_of_v4, &route_header(AF_INET), &route(&v4.octets()));
    if let Some(v6) = v6 {
        messages.push(RTM_NEWADDR, CREATE, &address_header(AF_INET6, LOOPBACK), &addresses(&v6.octets()));
        messages.push(RTM_NEWROUTE, CREATE | ACK, &route_header(AF_INET6), &route(&v6.octets()));
    }
    messages.into_bytes()
}

/// The first of [`KINDS`] that there is: for the next the name is taken. It has the loopback's second address.
fn interface_to_nowhere(messages: &mut Messages, v4: Ipv4Addr, v6: Option<Ipv6Addr>) {
    for kind in KINDS {
        let kind = Attributes::default().with_text(IFLA_INFO_KIND, kind);
        let attributes = Attributes::default().with_text(IFLA_IFNAME, NAME).with_nested(IFLA_LINKINFO, &kind);
        messages.push_try(RTM_NEWLINK, CREATE, &link_header(INTERFACE, 0), &attributes);
    }
    if v6.is_some() {
        // By itself: when a link is made, this is not looked at, and one that goes up goes up first.
        let mode = Attributes::default().with(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
        let families = Attributes::default().with_nested(AF_INET6.into(), &mode);
        let special = Attributes::default().with_nested(IFLA_AF_SPEC, &families);
        messages.push_try(RTM_NEWLINK, 0, &link_header(INTERFACE, 0), &special);
    }
    messages.push_try(RTM_NEWLINK, 0, &link_header(INTERFACE, IFF_UP), &Attributes::default());
    messages.push_try(RTM_NEWADDR, CREATE, &address_header(AF_INET, INTERFACE), &addresses(&v4.octets()));
    if let Some(v6) = v6 {
        messages.push_try(
            RTM_NEWADDR,
            CREATE,
            &address_header(AF_INET6, INTERFACE),
            &addresses(&v6.octets()),
        );
    }
}

/// `struct ifinfomsg`: these flags set.
fn link_header(link: u32, flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for number in [link, flags, flags] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// `struct ifaddrmsg`: one address, with global scope.
fn address_header(family: u8, link: u32) -> Vec<u8> {
    let (prefix, flags) = if family == AF_INET { (32, 0) } else { (128, IFA_F_NODAD) };
    let mut bytes = vec![family, prefix, flags, 0];
    bytes.extend_from_slice(&link.to_ne_bytes());
    bytes
}

fn addresses(octets: &[u8]) -> Attributes {
    Attributes::default().with(IFA_LOCAL, octets).with(IFA_ADDRESS, octets)
}

/// Asks where a packet to this address would go.
pub(super) fn question(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    };
    let mut messages = Messages::default();
    let header = [family, (octets.len() * 8) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    messages.push(RTM_GETROUTE, 0, &header, &Attributes::default().with(RTA_DST, &octets));
    messages.into_bytes()
}

/// Whether the answer says that it stays here: as a host's own, for all in its network, or for whoever is a router there.
pub(super) fn stays_here(answer: &[u8]) -> bool {
    const RTN_BROADCAST: u8 = 3;
    const RTN_ANYCAST: u8 = 4;
    // Behind the header of the message, `struct rtmsg`, of which the eighth byte is the type.
    let is_route = answer.get(4..6) == Some(&RTM_NEWROUTE.to_ne_bytes()[..]);
    is_route && answer.get(23).is_some_and(|kind| [RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST].contains(kind))
}

const RTN_LOCAL: u8 = 2;

/// `struct rtmsg`: a default route of type *local*, in the table that is looked at first.
fn route_header(family: u8) -> Vec<u8> {
    const RT_TABLE_LOCAL: u8 = 255;
    const RTPROT_STATIC: u8 = 4;
    const RT_SCOPE_HOST: u8 = 254;
    vec![family, 0, 0, 0, RT_TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0]
}

fn route(source: &[u8]) -> Attributes {
    Attributes::default().with(RTA_OIF, &LOOPBACK.to_ne_bytes()).with(RTA_PREFSRC, source)
}
