//! One try: bytes for one server, by one door, made from a seed and a number, so that it can be made again.

use crate::attack_gate::rng::Rng;
use crate::attack_gate::servers::{Kind, Place};
use crate::attack_gate::{hello, requests};

/// The one host that is allowed.
pub const ALLOWED: &str = "host.kennel.internal";

/// The name of another host at the same place; the number tells which try it was.
pub fn other(number: u64) -> String {
    format!("t{number}.other.test")
}

/// The way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `CONNECT` to the proxy.
    Connect,
    /// SOCKS5.
    Socks,
    /// A plain connection.
    Direct,
    /// A request in absolute form to the proxy.
    Forward,
}

/// Each door and its word in a file.
pub const DOORS: [(&str, Door); 4] = [
    ("connect", Door::Connect),
    ("socks", Door::Socks),
    ("direct", Door::Direct),
    ("forward", Door::Forward),
];

/// Bytes, and how long nothing is said after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is sent.
    pub bytes: Vec<u8>,
    /// In milliseconds.
    pub pause: u64,
}

/// What is sent to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The server's port.
    pub port: u16,
    /// The way in.
    pub door: Door,
    /// One after the other.
    pub parts: Vec<Part>,
}

/// What stands before a request or a hello: what some servers skip, or other protocols begin with.
const PREFIXES: [&[u8]; 22] = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\0",
    b"\r\n\r\n\r\n",
    b"\xef\xbb\xbf",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x04\x57\x01\xbb",
    b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    b"\x15\x03\x01\x00\x02\x01\x00",
    b"\x15\x03\x03\x00\x02\x01\x5a",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x16\x03\x01\x00\x00",
    b"\x17\x03\x03\x00\x01\x00",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    b"EHLO x\r\nSTARTTLS\r\n",
    b"@RSYNCD: 31.0\n",
];

/// The try with this number.
pub fn make(seed: u64, number: u64, places: &[Place]) -> Try {
    let mut rng = Rng::new(seed, number);
    let place = &places[rng.below(places.len())];
    let tls = match place.kind {
        Kind::Http => rng.one_in(8),
        Kind::Tls => !rng.one_in(20),
        Kind::Both => rng.one_in(2),
    };
    let door = match rng.below(8) {
        0..=2 => Door::Connect,
        3 => Door::Socks,
        4 if !tls => Door::Forward,
        _ => Door::Direct,
    };
    let mut bytes = match (tls, door) {
        (true, _) if place.exact => hello::make(&mut rng, "other.test"),
        (true, _) => hello::make(&mut rng, &other(number)),
        (false, Door::Forward) => requests::forwarded(&mut rng, number, place.port),
        (false, _) => requests::make(&mut rng, number, place.port),
    };
    if rng.one_in(3) && door != Door::Forward {
        let prefix = rng.pick(&PREFIXES);
        bytes.splice(0..0, prefix.iter().copied());
    }
    if rng.one_in(30) {
        // Nothing that anybody planned.
        let random: Vec<u8> = (0..rng.below(40)).map(|_| rng.byte()).collect();
        bytes.splice(0..0, random);
    }
    let mut parts = Vec::new();
    if door == Door::Forward {
        // The login is put in when it is sent, and is not cut.
        let end = bytes.windows(4).position(|part| part == b"AUTH").map_or(0, |at| at + 4);
        let rest = bytes.split_off(end);
        parts.push(Part { bytes, pause: 0 });
        bytes = rest;
    }
    parts.extend(cut(&mut rng, bytes));
    Try { port: place.port, door, parts }
}

/// What is sent at once, and what after a while.
fn cut(rng: &mut Rng, bytes: Vec<u8>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    for _ in 0..rng.below(4) {
        if rest.len() < 2 {
            break;
        }
        // Often near the beginning, where it is decided what it is.
        let most = if rng.one_in(2) { rest.len().min(12) } else { rest.len() };
        let after = rest.split_off(1 + rng.below(most - 1));
        parts.push(Part { bytes: rest, pause: [0, 2, 15][rng.below(3)] });
        rest = after;
    }
    parts.push(Part { bytes: rest, pause: 0 });
    parts
}

/// Some small changes of bytes: what a fuzzer does that knows nothing.
pub fn disturb(rng: &mut Rng, bytes: &mut Vec<u8>, most: usize) {
    const SPECIAL: [u8; 16] =
        [0, 9, 10, 11, 12, 13, 32, 0x21, 0x2f, 0x3a, 0x40, 0x7f, 0x80, 0x85, 0xa0, 0xff];
    for _ in 0..rng.below(most + 1) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        let special = SPECIAL[rng.below(SPECIAL.len())];
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = special,
            2 => bytes.insert(at, special),
            3 => bytes.insert(at, rng.byte()),
            4 => drop(bytes.remove(at)),
            _ => {
                let end = (at + 1 + rng.below(8)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}
