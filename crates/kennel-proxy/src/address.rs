//! Which addresses an allowed *name* must not lead to.
//!
//! Whoever owns an allowed name decides what it resolves to. Without this check a name on the allow list could be
//! pointed at the host's loopback, at a cloud's metadata service, or at any of the host's own addresses, and the
//! sandbox would reach what no rule speaks of (DNS rebinding). Private networks (RFC 1918) are not in the list:
//! a company's own registry is a usual thing to allow by name; `denied_addresses` is for who wants them out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// The address itself, then the IPv4 addresses that some translator on the way would make of it: IPv4-mapped and
/// IPv4-compatible, NAT64 (RFC 6052, RFC 8215), 6to4, Teredo (its server and its client) and ISATAP.
pub(crate) fn readings(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let mut found = [Some(address), None, None];
    if let IpAddr::V6(v6) = address {
        let bytes = v6.octets();
        let at = |start: usize| {
            IpAddr::V4(Ipv4Addr::new(bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3]))
        };
        let words = v6.segments();
        match words {
            [0, 0, 0, 0, 0, 0xffff, ..] => found[1] = Some(at(12)),
            [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => found[1] = Some(at(12)),
            [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => found[1] = Some(at(12)),
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

    proptest! {
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
