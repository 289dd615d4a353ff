//! Addresses and networks, in every spelling that a resolver would take for one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::HostRuleError;
use crate::printed::show;

/// What a folded name is when read as an IPv4 address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Address(Ipv4Addr),
    /// Its last label is a number, so no resolver would look it up as a name; but it is no address either.
    Invalid,
    Name,
}

/// Reads what `inet_aton` reads: one to four numbers in decimal, octal (`0177`) or hexadecimal (`0x7f`), the last
/// of which fills the bytes that remain.
pub(super) fn ipv4(name: &str) -> Reading {
    let last = name.rsplit('.').next().unwrap_or_default();
    // Wider than `number`: one that is too large, or a bare `0x`, is an address to some reader somewhere.
    let is_number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    if !is_number {
        return Reading::Name;
    }
    read_numbers(name).map_or(Reading::Invalid, Reading::Address)
}

fn read_numbers(name: &str) -> Option<Ipv4Addr> {
    let mut parts = [0u64; 4];
    let mut count = 0;
    for part in name.split('.') {
        *parts.get_mut(count)? = number(part)?;
        count += 1;
    }
    let (last, leading) = parts[..count].split_last()?;
    let mut address = 0u64;
    for part in leading {
        if *part > 255 {
            return None;
        }
        address = address << 8 | part;
    }
    let bits = 32 - 8 * leading.len();
    if *last >= 1 << bits {
        return None;
    }
    u32::try_from(address << bits | last).ok().map(Ipv4Addr::from_bits)
}

fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    // `from_str_radix` would take a sign. A bare `0x` is zero to the browsers and nothing to libc.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// An IPv6 address, in brackets or recognised by its colons. IPv4 in brackets is nothing.
pub(super) fn bracketed(text: &str) -> Result<Option<IpAddr>, HostRuleError> {
    let bad = || HostRuleError::Address6(show(text.as_bytes()));
    let inner = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(bad)?,
        None if text.contains(':') => text,
        None => return Ok(None),
    };
    // A zone (`fe80::1%eth0`) is refused with everything else that is not part of the address.
    inner.parse::<Ipv6Addr>().map(|address| Some(address.into())).map_err(|_| bad())
}

/// Whether a text with a slash means a network rather than a URL's path.
pub(super) fn looks_like_a_network(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'/'))
}

/// Reads `10.0.0.0/8` or `fd00::/8`. Short forms are refused here: `10/8` is 10.0.0.0 to some and 0.0.0.10 to
/// others.
pub(super) fn network(text: &str) -> Result<(IpAddr, u8), HostRuleError> {
    let bad = || HostRuleError::Network(show(text.as_bytes()));
    let (address, bits) = text.split_once('/').ok_or_else(bad)?;
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    if !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let bits: u8 = bits.parse().map_err(|_| bad())?;
    if bits > width(address) {
        return Err(bad());
    }
    let (address, bits) = match (address.to_canonical(), address) {
        (mapped @ IpAddr::V4(_), IpAddr::V6(_)) if bits >= 96 => (mapped, bits - 96),
        _ => (address, bits),
    };
    let start = masked(address, bits);
    if start != address {
        return Err(HostRuleError::HostBits { given: text.to_owned(), network: format!("{start}/{bits}") });
    }
    Ok((address, bits))
}

pub(super) fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && masked(address, bits) == network
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `bits` bits cleared.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let cleared = u32::from(width(address).saturating_sub(bits));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}
