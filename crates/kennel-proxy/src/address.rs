//! Which addresses an allowed *name* must not lead to.
//!
//! Whoever owns an allowed name decides what it resolves to. Without this check a name on the allow list could be
//! pointed at the host's loopback, at a cloud's metadata service, or at any of the host's own addresses, and the
//! sandbox would reach what no rule speaks of (DNS rebinding). Private networks (RFC 1918) are not in the list:
//! a company's own registry is a usual thing to allow by name. A deny rule with their addresses keeps them out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kennel_policy::domain::{Host, HostPattern};

/// Why an address is refused unless a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// 127.0.0.0/8, `::1`.
    Loopback,
    /// 0.0.0.0/8, `::`: on Linux a connection to it reaches the loopback.
    Unspecified,
    /// 169.254.0.0/16, `fe80::/10`, and the deprecated site-local `fec0::/10`.
    LinkLocal,
    /// Where clouds hand out credentials to whoever asks from the machine.
    Metadata,
    /// 224.0.0.0/4, `ff00::/8`, and the broadcast address.
    Multicast,
    /// An address of one of this host's interfaces.
    OwnAddress,
    /// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, `fc00::/7`.
    Private,
    /// 100.64.0.0/10, behind which carriers and VPNs keep their own networks.
    Shared,
    /// What is set aside for documentation, measurements, protocols or later.
    Reserved,
    /// An IPv6 address that a translator would make another one of, which is not known.
    Translated,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressClass::Loopback => "a loopback address",
            AddressClass::Unspecified => "the unspecified address",
            AddressClass::LinkLocal => "a link-local address",
            AddressClass::Metadata => "a cloud metadata address",
            AddressClass::Multicast => "a multicast or broadcast address",
            AddressClass::OwnAddress => "one of this host's own addresses",
            AddressClass::Private => "a private address",
            AddressClass::Shared => "an address of a carrier's or VPN's own network",
            AddressClass::Reserved => "a reserved address",
            AddressClass::Translated => "an address of a translator",
        })
    }
}

const METADATA_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    // Azure's wire server, Alibaba's and Oracle's metadata services are outside the link-local range.
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The class of an address that only a rule with that very address or its network can open, looking also at the
/// IPv4 address inside an IPv6 one. `is_own` tells the addresses of this host.
#[must_use]
pub fn classify(address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Option<AddressClass> {
    readings(address).find_map(|address| classify_one(address, &is_own))
}

/// The class of an address that is not a public one, looking also at the IPv4 address inside an IPv6 one. What no list says to be
/// public is not.
#[must_use]
pub fn not_public(address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Option<AddressClass> {
    let address = address.to_canonical();
    classify(address, is_own).or_else(|| readings(address).find_map(special))
}

const fn v4(a: u8, b: u8, c: u8, bits: u8, class: AddressClass) -> (HostPattern, AddressClass) {
    (HostPattern::Net(IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), bits), class)
}

const fn v6(first: u16, second: u16, bits: u8, class: AddressClass) -> (HostPattern, AddressClass) {
    (HostPattern::Net(IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), bits), class)
}

/// IANA's registries of special-purpose addresses, as far as [`classify_one`] does not have them, and what nobody has been given.
static SPECIAL: [(HostPattern, AddressClass); 18] = [
    v4(10, 0, 0, 8, AddressClass::Private),
    v4(172, 16, 0, 12, AddressClass::Private),
    v4(192, 168, 0, 16, AddressClass::Private),
    v4(100, 64, 0, 10, AddressClass::Shared),
    v4(192, 0, 0, 24, AddressClass::Reserved),
    v4(192, 0, 2, 24, AddressClass::Reserved),
    v4(192, 88, 99, 24, AddressClass::Reserved),
    v4(198, 18, 0, 15, AddressClass::Reserved),
    v4(198, 51, 100, 24, AddressClass::Reserved),
    v4(203, 0, 113, 24, AddressClass::Reserved),
    v4(240, 0, 0, 4, AddressClass::Reserved),
    v6(0xfc00, 0, 7, AddressClass::Private),
    // Protocols, Teredo among them.
    v6(0x2001, 0, 23, AddressClass::Reserved),
    v6(0x2001, 0xdb8, 32, AddressClass::Reserved),
    v6(0x2002, 0, 16, AddressClass::Translated),
    v6(0x3ffe, 0, 16, AddressClass::Reserved),
    v6(0x3fff, 0, 20, AddressClass::Reserved),
    // The prefix that translators of a network's own share, at any length.
    v6(0x64, 0xff9b, 32, AddressClass::Translated),
];

/// The prefix by which every translator means the same (RFC 6052): what is inside is looked at.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

fn special(address: IpAddr) -> Option<AddressClass> {
    let words = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => Some(v6.segments()),
    };
    if words.is_some_and(|words| words[..6] == NAT64) {
        return None;
    }
    let host = Host::Ip(address);
    if let Some((_, class)) = SPECIAL.iter().find(|(network, _)| network.matches(&host)) {
        return Some(*class);
    }
    match words? {
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(AddressClass::Translated),
        // All that has been given out so far.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressClass::Reserved),
    }
}

/// The address itself, then the IPv4 addresses that some translator on the way would make of it: IPv4-mapped, IPv4-compatible
/// and IPv4-translated (RFC 2765), NAT64 (RFC 6052, and RFC 8215 with prefixes of every length), 6to4, Teredo (its server and
/// its client) and ISATAP. A translator with a prefix of a network's own cannot be known by its addresses.
///
/// For rules and classes that deny. An address with another inside is not that other one.
pub(crate) fn readings(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let mut found = [Some(address), None, None, None, None];
    if let IpAddr::V6(v6) = address {
        let bytes = v6.octets();
        let at = |start: usize| {
            IpAddr::V4(Ipv4Addr::new(bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3]))
        };
        let words = v6.segments();
        match words {
            [0, 0, 0, 0, 0, 0xffff, ..] => found[1] = Some(at(12)),
            [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => found[1] = Some(at(12)),
            [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => found[1] = Some(at(12)),
            [0x64, 0xff9b, 1, ..] => {
                found[1] = Some(at(12));
                // Prefixes of 48, 56 and 64 bits leave the ninth byte out (RFC 6052 §2.2). Where the prefix is longer, these bytes
                // are zero: no translator makes 0.0.0.0/8 of anything.
                let spread = |places: [usize; 4]| {
                    let inside = Ipv4Addr::from(places.map(|place| bytes[place]));
                    Some(IpAddr::V4(inside)).filter(|_| inside.octets()[0] != 0)
                };
                found[2] = spread([6, 7, 9, 10]);
                found[3] = spread([7, 9, 10, 11]);
                found[4] = spread([9, 10, 11, 12]);
            }
            [0x2002, ..] => found[1] = Some(at(2)),
            [0x2001, 0, ..] => {
                found[1] = Some(at(4));
                found[2] = Some(IpAddr::V4(Ipv4Addr::new(!bytes[12], !bytes[13], !bytes[14], !bytes[15])));
            }
            [_, _, _, _, 0 | 0x200, 0x5efe, ..] => found[1] = Some(at(12)),
            _ => {}
        }
    }
    found.into_iter().flatten()
}

fn classify_one(address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Option<AddressClass> {
    let class = match address {
        IpAddr::V4(v4) if METADATA_V4.contains(&v4) => AddressClass::Metadata,
        IpAddr::V4(v4) if v4.is_loopback() => AddressClass::Loopback,
        IpAddr::V4(v4) if v4.octets()[0] == 0 => AddressClass::Unspecified,
        IpAddr::V4(v4) if v4.is_link_local() => AddressClass::LinkLocal,
        IpAddr::V4(v4) if v4.is_multicast() || v4.is_broadcast() => AddressClass::Multicast,
        IpAddr::V6(v6) if METADATA_V6.contains(&v6) => AddressClass::Metadata,
        IpAddr::V6(v6) if v6.is_loopback() => AddressClass::Loopback,
        IpAddr::V6(v6) if v6.is_unspecified() => AddressClass::Unspecified,
        IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.segments()[0] & 0xffc0 == 0xfec0 => {
            AddressClass::LinkLocal
        }
        IpAddr::V6(v6) if v6.is_multicast() => AddressClass::Multicast,
        _ if is_own(address) => AddressClass::OwnAddress,
        _ => return None,
    };
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(text: &str) -> Option<AddressClass> {
        let own: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        classify(text.parse().unwrap(), |address| own.contains(&address))
    }

    #[test]
    fn each_class_is_known_by_its_edges() {
        use AddressClass::*;
        for (text, expected) in [
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.254", Some(Loopback)),
            ("126.255.255.255", None),
            ("128.0.0.1", None),
            ("::1", Some(Loopback)),
            ("0.0.0.0", Some(Unspecified)),
            ("0.1.2.3", Some(Unspecified)),
            ("::", Some(Unspecified)),
            ("169.254.0.1", Some(LinkLocal)),
            ("169.254.169.254", Some(Metadata)),
            ("168.63.129.16", Some(Metadata)),
            ("fd00:ec2::254", Some(Metadata)),
            ("100.100.100.200", Some(Metadata)),
            ("fe80::1", Some(LinkLocal)),
            ("febf::1", Some(LinkLocal)),
            ("fec0::1", Some(LinkLocal)),
            ("224.0.0.1", Some(Multicast)),
            ("239.255.255.255", Some(Multicast)),
            ("255.255.255.255", Some(Multicast)),
            ("ff02::1", Some(Multicast)),
            ("192.0.2.7", Some(OwnAddress)),
            ("2001:db8::7", Some(OwnAddress)),
            ("10.0.0.1", None),
            ("93.184.216.34", None),
            ("2606:2800:220:1::1", None),
        ] {
            assert_eq!(class(text), expected, "{text}");
        }
    }

    #[test]
    fn an_ipv4_address_is_found_inside_every_ipv6_form_that_carries_one() {
        for text in [
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::127.0.0.1",
            "2002:7f00:1::1",
            "2001:0:7f00:1::",
            // Teredo keeps the client's address inverted.
            "2001:0:101:101:0:0:80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:7f00:1",
        ] {
            assert_eq!(class(text), Some(AddressClass::Loopback), "{text}");
        }
        assert_eq!(class("64:ff9b::a9fe:a9fe"), Some(AddressClass::Metadata));
        assert_eq!(class("2002:c000:207::"), Some(AddressClass::OwnAddress));
        assert_eq!(class("64:ff9b::8.8.8.8"), None);
    }

    fn refused(text: &str) -> Option<AddressClass> {
        not_public(text.parse().unwrap(), |_| false)
    }

    #[test]
    #[kennel_claim::claim("network/public-is-public")]
    fn public_is_what_the_registries_give_out() {
        use AddressClass::*;
        for (text, expected) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(Private)),
            ("10.255.255.255", Some(Private)),
            ("11.0.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.0", None),
            ("192.167.255.255", None),
            ("192.168.0.0", Some(Private)),
            ("192.169.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Shared)),
            ("100.127.255.255", Some(Shared)),
            ("100.128.0.0", None),
            ("192.0.0.1", Some(Reserved)),
            ("192.0.0.192", Some(Metadata)),
            ("192.0.2.1", Some(Reserved)),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(Reserved)),
            ("198.19.255.255", Some(Reserved)),
            ("198.51.100.1", Some(Reserved)),
            ("203.0.113.1", Some(Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.1", Some(Multicast)),
            ("240.0.0.1", Some(Reserved)),
            ("255.255.255.255", Some(Multicast)),
            ("127.0.0.1", Some(Loopback)),
            ("0.0.0.0", Some(Unspecified)),
            ("168.63.129.16", Some(Metadata)),
            ("93.184.216.34", None),
            ("2606:2800:220:1::1", None),
            ("2a00:1450:4001:81b::200e", None),
            ("1fff:ffff::1", Some(Reserved)),
            // Teredo, by a server that is nobody's, and by one that is somebody's.
            ("2001::1", Some(Unspecified)),
            ("2001:0:808:808::f7f7:f7f7", Some(Reserved)),
            ("2001:1ff:ffff::1", Some(Reserved)),
            ("2001:200::1", None),
            ("2001:db8::1", Some(Reserved)),
            ("2002:808:808::1", Some(Translated)),
            ("3fff::1", Some(Reserved)),
            ("4000::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            ("100::1", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fdff::1", Some(Private)),
            ("fe80::1", Some(LinkLocal)),
            ("fec0::1", Some(LinkLocal)),
            ("ff02::1", Some(Multicast)),
            ("::1", Some(Loopback)),
            // Of what translators make only the well-known prefix is taken, with a public address inside.
            ("::ffff:8.8.8.8", None),
            ("::ffff:10.0.0.1", Some(Private)),
            ("::8.8.8.8", Some(Reserved)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some(Private)),
            ("64:ff9b::192.168.1.1", Some(Private)),
            ("64:ff9b::100.64.0.1", Some(Shared)),
            ("64:ff9b:1::8.8.8.8", Some(Translated)),
            ("64:ff9b:0:1::8.8.8.8", Some(Translated)),
            ("2a00::5efe:8.8.8.8", Some(Translated)),
            ("2a00::200:5efe:a00:1", Some(Translated)),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert_eq!(not_public("93.184.216.34".parse().unwrap(), |_| true), Some(OwnAddress));
    }

    proptest! {
        #[test]
        #[kennel_claim::claim("network/public-is-public")]
        fn no_form_of_a_private_address_is_public(low: u32, network in 0usize..6, prefix: [u16; 4], length in 0usize..5) {
            let (start, bits) = [
                (0x0a00_0000u32, 8), (0xac10_0000, 12), (0xc0a8_0000, 16), (0x6440_0000, 10), (0x7f00_0000, 8), (0xa9fe_0000, 16),
            ][network];
            let v4 = Ipv4Addr::from(start | low & (u32::MAX >> bits));
            let [a, b, c, d] = v4.octets();
            let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            // RFC 6052 §2.2: where the address stands for each length of prefix.
            let mut nat64 = Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0).octets();
            let places = [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15], [12, 13, 14, 15]][length];
            for (place, byte) in places.into_iter().zip(v4.octets()) {
                nat64[place] = byte;
            }
            let [p, q, r, s] = prefix;
            for v6 in [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, words[0], words[1]),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, words[0], words[1]),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, words[0], words[1]),
                Ipv6Addr::from(nat64),
                Ipv6Addr::new(0x2002, words[0], words[1], p, q, r, s, 1),
                Ipv6Addr::new(0x2001, 0, words[0], words[1], p, q, r, s),
                Ipv6Addr::new(0x2001, 0, p, q, r, s, !words[0], !words[1]),
                Ipv6Addr::new(p, q, r, s, 0, 0x5efe, words[0], words[1]),
                Ipv6Addr::new(p, q, r, s, 0x200, 0x5efe, words[0], words[1]),
            ] {
                prop_assert!(not_public(v6.into(), |_| false).is_some(), "{}", v6);
            }
            prop_assert!(not_public(v4.into(), |_| false).is_some(), "{}", v4);
        }

        #[test]
        fn an_embedded_loopback_address_is_never_missed(low in 0u32..=0x00ff_ffff) {
            let v4 = Ipv4Addr::from(0x7f00_0000 | low);
            let [a, b, c, d] = v4.octets();
            let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            for v6 in [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, words[0], words[1]),
                Ipv6Addr::new(0x2002, words[0], words[1], 0, 0, 0, 0, 1),
            ] {
                prop_assert_eq!(classify(v6.into(), |_| false), Some(AddressClass::Loopback));
            }
        }

        #[test]
        fn classifying_never_panics(bits: u128, short: u32) {
            let _ = classify(Ipv6Addr::from(bits).into(), |_| false);
            let _ = classify(Ipv4Addr::from(short).into(), |_| false);
        }
    }
}
