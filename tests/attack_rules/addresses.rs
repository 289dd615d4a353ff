//! Addresses as numbers of 128 bits, and what translators make of them.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kennel_policy::domain::{Host, HostRule, ListKind};
use kennel_proxy::{Decision, Rules};

use super::Judgement;
use crate::attack_gate::rng::Rng;

/// An address: an IPv4 one as IPv6 writes it, behind [`MAPPED`].
type Number = u128;

const MAPPED: Number = 0xffff << 32;

fn v4(address: u32) -> Number {
    MAPPED | Number::from(address)
}

fn is_v4(address: Number) -> bool {
    address >> 32 == 0xffff
}

fn ip(address: Number) -> IpAddr {
    match is_v4(address) {
        true => IpAddr::V4(Ipv4Addr::from(address as u32)),
        false => IpAddr::V6(Ipv6Addr::from(address)),
    }
}

/// A network, by its first address and how many bits of 128 its addresses share.
#[derive(Clone, Copy, Debug)]
struct Network(Number, u32);

impl Network {
    fn has(self, address: Number) -> bool {
        is_v4(self.0) == is_v4(address) && (self.1 == 0 || (self.0 ^ address) >> (128 - self.1) == 0)
    }

    fn text(self) -> String {
        match (self.1, is_v4(self.0)) {
            (128, _) => ip(self.0).to_string(),
            (bits, true) => format!("{}/{}", ip(self.0), bits - 96),
            (bits, false) => format!("{}/{bits}", ip(self.0)),
        }
    }
}

fn network(text: &str) -> Network {
    let (address, bits) = text.split_once('/').unwrap();
    let bits: u32 = bits.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(address) => Network(v4(address.into()), bits + 96),
        IpAddr::V6(address) => Network(address.into(), bits),
    }
}

/// The bits of a number from `start`, which is counted from its highest.
fn bits(number: Number, start: u32, count: u32) -> Number {
    number << start >> (128 - count)
}

/// The IPv4 address that stands behind a prefix of so many bits (RFC 6052 §2.2): bits 64 to 71 are left out.
fn behind(address: Number, prefix: u32) -> u32 {
    let mut inside = 0;
    let mut at = prefix;
    for _ in 0..32 {
        if at == 64 {
            at = 72;
        }
        inside = inside << 1 | bits(address, at, 1) as u32;
        at += 1;
    }
    inside
}

/// All addresses that somebody on the way could take an address for; itself is the first.
fn readings(address: Number) -> Vec<Number> {
    let mut all = vec![address];
    let mut inside = |number: u32| all.push(v4(number));
    let last = address as u32;
    if is_v4(address) {
        return all;
    }
    // IPv4-compatible, where it is not `::` or `::1`; IPv4-translated (RFC 2765); NAT64 (RFC 6052).
    if (bits(address, 0, 96) == 0 && last > 1)
        || bits(address, 0, 96) == 0xffff_0000
        || bits(address, 0, 96) == 0x64_ff9b << 64
    {
        inside(last);
    }
    // RFC 8215. No translator makes 0.0.0.0/8 of anything.
    if bits(address, 0, 48) == 0x64_ff9b_0001 {
        inside(last);
        for prefix in [48, 56, 64] {
            let number = behind(address, prefix);
            if number >> 24 != 0 {
                inside(number);
            }
        }
    }
    // 6to4 (RFC 3056), Teredo's server and client (RFC 4380), ISATAP (RFC 5214).
    if bits(address, 0, 16) == 0x2002 {
        inside(bits(address, 16, 32) as u32);
    }
    if bits(address, 0, 32) == 0x2001_0000 {
        inside(bits(address, 32, 32) as u32);
        inside(!last);
    }
    if matches!(bits(address, 64, 32), 0x5efe | 0x0200_5efe) {
        inside(last);
    }
    all
}

/// Networks that no name may lead into by itself, by the classes of kennel's documentation.
const CLOSED: &[&str] = &[
    "127.0.0.0/8",
    "::1/128",
    "0.0.0.0/8",
    "::/128",
    "169.254.0.0/16",
    "fe80::/10",
    "fec0::/10",
    "168.63.129.16/32",
    "100.100.100.200/32",
    "192.0.0.192/32",
    "fd00:ec2::254/128",
    "fd20:ce::254/128",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "ff00::/8",
];

/// Mostly one of a few, so that rules and hosts meet.
fn some_v4(rng: &mut Rng) -> u32 {
    const KNOWN: &[u32] = &[
        0x0a00_0005,
        0x0a00_0006,
        0x0a01_0005,
        0x7f00_0001,
        0x7f01_0203,
        0xa9fe_a9fe,
        0xc0a8_0001,
        0x5db8_d822,
        0x0808_0808,
        0xe000_0001,
        0xffff_ffff,
        0x0000_0000,
        0x6464_64c8,
        0xa83f_8110,
        0x0000_0801,
    ];
    match rng.below(8) {
        0 => rng.next() as u32,
        1 => KNOWN[rng.below(KNOWN.len())] ^ 1 << rng.below(32),
        _ => KNOWN[rng.below(KNOWN.len())],
    }
}

fn some_address(rng: &mut Rng) -> Number {
    let inside = Number::from(some_v4(rng));
    let noise = Number::from(rng.next());
    match rng.below(14) {
        0..=4 => MAPPED | inside,
        5 => inside,
        6 => 0xffff_0000 << 32 | inside,
        7 => 0x64_ff9b << 96 | inside,
        8 => 0x64_ff9b_0001 << 80 | (noise & 0xffff_ffff_ffff) << 32 | inside,
        9 => {
            // Behind a prefix of 48, 56 or 64 bits.
            let prefix = [48, 56, 64][rng.below(3)];
            let mut address: Number = 0x64_ff9b_0001 << 80;
            let mut at = prefix;
            for bit in (0..32).rev() {
                if at == 64 {
                    at = 72;
                }
                address |= (inside >> bit & 1) << (127 - at);
                at += 1;
            }
            address
        }
        10 => 0x2002 << 112 | inside << 80 | noise,
        11 => match rng.one_in(2) {
            true => 0x2001 << 112 | inside << 64 | noise,
            false => 0x2001 << 112 | (noise & 0xffff_ffff) << 64 | (!inside & 0xffff_ffff),
        },
        12 => 0x2a00 << 112 | (noise & 0xffff) << 64 | [0x5efe, 0x0200_5efe][rng.below(2)] << 32 | inside,
        _ => {
            [1, 0, 0xfe80 << 112 | 1, 0xff02 << 112 | 1, 0x2606_4700 << 96 | 0x11, 0xfd00_0ec2 << 96 | 0x254]
                [rng.below(6)]
        }
    }
}

fn some_network(rng: &mut Rng) -> Network {
    let address = if rng.one_in(3) { some_address(rng) } else { v4(some_v4(rng)) };
    let bits = match (is_v4(address), rng.below(3)) {
        (_, 0) => 128,
        (true, _) => 96 + 1 + rng.below(32) as u32,
        (false, _) => 1 + rng.below(128) as u32,
    };
    let first = address >> (128 - bits) << (128 - bits);
    // A network of IPv6's that holds all of IPv4's is one of IPv6's.
    Network(if is_v4(address) { first | MAPPED } else { first }, bits)
}

/// One of the ways in which an address can be written.
fn spelling(rng: &mut Rng, address: Number) -> String {
    if is_v4(address) && !rng.one_in(4) {
        return spelling_v4(rng, address as u32);
    }
    let words: Vec<u16> = (0..8).map(|at| bits(address, at * 16, 16) as u16).collect();
    let dotted = rng.one_in(3);
    let count = if dotted { 6 } else { 8 };
    // A run of words that are zero and may be left out.
    let start = rng.below(count);
    let length = words[start..count].iter().take_while(|word| **word == 0).count();
    let gap = (length > 0 && rng.one_in(2)).then(|| start..start + 1 + rng.below(length));
    let mut text = String::new();
    for (at, word) in words[..count].iter().enumerate() {
        match &gap {
            Some(gap) if gap.start == at => text.push_str(if at == 0 { "::" } else { ":" }),
            Some(gap) if gap.contains(&at) => {}
            _ => {
                let width = 1 + rng.below(4);
                let digits =
                    if rng.one_in(2) { format!("{word:0width$x}") } else { format!("{word:0width$X}") };
                text.push_str(&digits);
                if at + 1 < count || dotted {
                    text.push(':');
                }
            }
        }
    }
    if dotted {
        write!(text, "{}", Ipv4Addr::from(address as u32)).unwrap();
    }
    if rng.one_in(2) { format!("[{text}]") } else { text }
}

fn spelling_v4(rng: &mut Rng, address: u32) -> String {
    let count = 1 + rng.below(4);
    let mut text = String::new();
    for part in 0..count {
        let shift = 24 - 8 * part as u32;
        let number = match part + 1 == count {
            true => (u64::from(address) & ((1u64 << (shift + 8)) - 1)) as u32,
            false => address >> shift & 0xff,
        };
        let zeros = "0".repeat(rng.below(3));
        match rng.below(4) {
            0 => write!(text, "0{}{zeros}{number:x}", if rng.one_in(2) { 'x' } else { 'X' }).unwrap(),
            1 => write!(text, "0{zeros}{number:o}").unwrap(),
            _ => write!(text, "{number}").unwrap(),
        }
        if part + 1 < count {
            text.push(*['.', '.', '.', '\u{3002}', '\u{ff0e}'].get(rng.below(5)).unwrap());
        }
    }
    if rng.one_in(6) {
        text.push('.');
    }
    if rng.one_in(6) {
        // Digits of full width, which names of hosts fold.
        text = text
            .chars()
            .map(|c| match c.to_digit(10) {
                Some(digit) if rng.one_in(2) => char::from_u32(0xff10 + digit).unwrap(),
                _ => c,
            })
            .collect();
    }
    text
}

/// A spelling of an address is that address, or none.
pub fn spell(rng: &mut Rng) -> Judgement {
    let address = some_address(rng);
    let text = spelling(rng, address);
    match Host::parse(&text) {
        Ok(Host::Ip(read)) if read == ip(address) => Judgement::Allowed,
        Err(_) => Judgement::Refused,
        Ok(read) => Judgement::Finding(format!("{text} is {}, and was read as {read:?}", ip(address))),
    }
}

/// Lists of addresses with ports, as numbers and as the gate has them.
struct Lists {
    allow: Vec<(Network, Option<u16>)>,
    deny: Vec<(Network, Option<u16>)>,
    rules: Rules,
    text: String,
}

const PORTS: [u16; 3] = [22, 80, 443];

fn lists(rng: &mut Rng) -> Option<Lists> {
    let list = |rng: &mut Rng, most: usize| -> Vec<(Network, Option<u16>)> {
        (0..rng.below(most + 1))
            .map(|_| (some_network(rng), rng.one_in(3).then(|| PORTS[rng.below(3)])))
            .collect()
    };
    let (allow, deny) = (list(rng, 4), list(rng, 2));
    let text = |list: &[(Network, Option<u16>)]| -> Vec<String> {
        let one = |(network, port): &(Network, Option<u16>)| match (port, is_v4(network.0)) {
            (None, _) => network.text(),
            (Some(port), true) => format!("{}:{port}", network.text()),
            (Some(port), false) => format!("[{}]:{port}", network.text()),
        };
        list.iter().map(one).collect()
    };
    let texts = (text(&allow), text(&deny));
    let parse = |texts: &[String], kind| -> Option<Vec<HostRule>> {
        texts.iter().map(|text| HostRule::parse(text, kind).ok()).collect()
    };
    // What is not a rule (`0.0.0.0/0`) is no policy.
    let rules = Rules::new(parse(&texts.0, ListKind::Allow)?, parse(&texts.1, ListKind::Deny)?);
    let text = format!("allow {:?} deny {:?}", texts.0, texts.1);
    Some(Lists { allow, deny, rules, text })
}

fn matches(list: &[(Network, Option<u16>)], address: Number, port: u16) -> bool {
    list.iter().any(|(network, own)| network.has(address) && own.is_none_or(|own| own == port))
}

/// What lists say of an address that is asked for.
pub fn decide(rng: &mut Rng) -> Judgement {
    let Some(lists) = lists(rng) else { return Judgement::Refused };
    let (address, port) = (some_address(rng), PORTS[rng.below(3)]);
    let readings = readings(address);
    let expected = matches(&lists.allow, address, port)
        && !readings.iter().any(|reading| matches(&lists.deny, *reading, port));
    let allowed = matches!(lists.rules.decide(&Host::from(ip(address)), port), Decision::Allow { .. });
    judge(expected, allowed, &readings, || format!("{} port {port}: {}", ip(address), lists.text))
}

/// What lists say of an address that a name led to.
pub fn check(rng: &mut Rng) -> Judgement {
    let Some(lists) = lists(rng) else { return Judgement::Refused };
    let (address, port) = (some_address(rng), PORTS[rng.below(3)]);
    let own = some_address(rng);
    let readings = readings(address);
    let closed = |reading: &Number| *reading == own || CLOSED.iter().any(|text| network(text).has(*reading));
    let expected = !readings.iter().any(|reading| matches(&lists.deny, *reading, port))
        && (matches(&lists.allow, address, port) || !readings.iter().any(closed));
    let allowed = lists.rules.check_address(ip(address), port, |one| one == ip(own)).is_ok();
    judge(expected, allowed, &readings, || {
        format!("{} port {port}, own {}: {}", ip(address), ip(own), lists.text)
    })
}

/// An address with one reading is decided as the slow reading does; others may be refused.
fn judge(expected: bool, allowed: bool, readings: &[Number], what: impl Fn() -> String) -> Judgement {
    match (expected, allowed) {
        (false, true) => Judgement::Finding(format!("allowed: {}", what())),
        (true, false) if readings.len() == 1 => Judgement::Finding(format!("refused: {}", what())),
        (true, true) => Judgement::Allowed,
        _ => Judgement::Refused,
    }
}
