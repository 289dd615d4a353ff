//! ClientHellos for another host, in all the ways in which some server may take one for it.

use crate::attack_gate::rng::Rng;
use crate::attack_gate::tries::{ALLOWED, disturb};

fn vector(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(body)].concat()
}

fn entry(kind: u8, name: &str) -> Vec<u8> {
    [vec![kind], vector(name.as_bytes())].concat()
}

fn names(entries: &[Vec<u8>]) -> Vec<u8> {
    extension(0, &vector(&entries.concat()))
}

/// What a hello offers.
#[derive(Clone, Copy)]
struct Offer {
    /// TLS 1.3 beside 1.2.
    newest: bool,
    /// A share of a key that servers take; without it they ask for another hello.
    share: bool,
}

/// The message, with these extensions for the name.
fn message(rng: &mut Rng, offer: Offer, name: &[Vec<u8>], request: Option<&str>) -> Vec<u8> {
    let mut extensions = vec![
        extension(10, &vector(&[0, 29, 0, 23])),
        extension(11, &[1, 0]),
        extension(13, &vector(&[4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1])),
        extension(23, &[]),
    ];
    if offer.newest {
        extensions.push(extension(43, &[4, 3, 4, 3, 3]));
        let share: Vec<u8> = (0..32).map(|_| rng.byte()).collect();
        let shares = if offer.share { [vec![0, 29], vector(&share)].concat() } else { Vec::new() };
        extensions.push(extension(51, &vector(&shares)));
        extensions.push(extension(45, &[1, 1]));
    }
    // The name comes first, last, or on both sides of the rest.
    for (index, one) in name.iter().enumerate() {
        let at = if index == 0 && rng.one_in(2) { 0 } else { rng.below(extensions.len() + 1) };
        extensions.insert(at, one.clone());
    }
    if rng.one_in(20) {
        extensions.push(extension(0xfe0d, &[0; 40]));
    }
    if rng.one_in(10) {
        extensions.push(extension(21, &vec![0; rng.below(300)]));
    }
    if let Some(name) = request {
        // A request in the hello, for servers that pass over what they do not understand.
        let text = format!("\r\nGET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
        extensions.push(extension(0x7777, text.as_bytes()));
    }
    let mut body = vec![3, if rng.one_in(8) { [1, 2, 0, 4][rng.below(4)] } else { 3 }];
    body.extend((0..32).map(|_| rng.byte()));
    let session = if rng.one_in(8) { [16, 33][rng.below(2)] } else { [0, 32][rng.below(2)] };
    body.push(session);
    body.extend((0..session).map(|_| rng.byte()));
    let suites: &[u8] = if offer.newest {
        &[0x13, 1, 0x13, 2, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0, 0x9c, 0, 0x2f]
    } else {
        &[0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30, 0, 0x9c, 0, 0x2f, 0xc0, 0x09]
    };
    body.extend(vector(suites));
    body.extend_from_slice(&[1, 0]);
    body.extend(vector(&extensions.concat()));
    [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
}

/// The extensions that name the other host, somehow.
fn other_names(rng: &mut Rng, name: &str) -> Vec<Vec<u8>> {
    let (own, other) = (entry(0, ALLOWED), entry(0, name));
    match rng.below(30) {
        0 => vec![names(&[own, other])],
        1 => vec![names(&[other, own])],
        2 => vec![names(&[own]), names(&[other])],
        3 => vec![names(&[other]), names(&[own])],
        4 => vec![names(&[entry(1, ALLOWED), other])],
        5 => vec![names(&[entry(0, &format!("{name}."))])],
        6 => vec![names(&[entry(0, &name.to_uppercase())])],
        7 => vec![extension(0, &[vector(&other), vector(&own)].concat())],
        8 => vec![extension(0, &other)],
        9 => vec![names(&[entry(0, &format!("{ALLOWED}\0.{name}"))])],
        10 => vec![names(&[entry(0, &format!("{name}\0{ALLOWED}"))])],
        _ => vec![names(&[other])],
    }
}

/// The records that carry a message.
fn records(rng: &mut Rng, message: &[u8]) -> Vec<u8> {
    let size = match rng.below(12) {
        0 => 1,
        1 => 1 + rng.below(8),
        2 => 1 + rng.below(message.len()),
        _ => message.len(),
    };
    let version = [[3, 1], [3, 1], [3, 1], [3, 3], [3, 0], [3, 4], [2, 0], [2, 3], [0xfe, 0xff], [3, 255]]
        [rng.below(10)];
    let mut bytes = Vec::new();
    for (index, chunk) in message.chunks(size).enumerate() {
        if index > 0 && rng.one_in(40) {
            // Something between the parts of a hello.
            bytes.extend_from_slice(rng.pick(&[
                &[21, 3, 1, 0, 2, 1, 0][..],
                &[20, 3, 3, 0, 1, 1],
                &[22, 3, 1, 0, 0],
                &[23, 3, 3, 0, 1, 0],
            ]));
        }
        bytes.extend_from_slice(&[22, version[0], version[1]]);
        bytes.extend(vector(chunk));
    }
    bytes
}

/// A hello for the other host, perhaps behind one for the allowed host.
pub fn make(rng: &mut Rng, name: &str) -> Vec<u8> {
    let offer = Offer { newest: rng.one_in(2), share: !rng.one_in(3) };
    let names = other_names(rng, name);
    let second = message(rng, offer, &names, None);
    let own = [self::names(&[entry(0, ALLOWED)])];
    let mut bytes = match rng.below(8) {
        // A server that has no use for the key share of the first asks for another hello.
        0 | 1 => {
            let first = message(rng, Offer { newest: true, share: false }, &own, None);
            let between: &[u8] = rng.pick(&[
                &[][..],
                &[20, 3, 3, 0, 1, 1],
                &[23, 3, 3, 0, 3, 1, 2, 3],
                &[21, 3, 3, 0, 2, 1, 0],
            ]);
            [records(rng, &first), between.to_vec(), records(rng, &second)].concat()
        }
        // Both in one record, or the second behind the first.
        2 => {
            let first = message(rng, offer, &own, None);
            records(rng, &[first, second].concat())
        }
        // SSL 2.0's, which has no name; some servers then take theirs from elsewhere.
        3 => {
            let body = [&[1, 3, 3, 0, 6, 0, 0, 0, 16, 0, 0, 0x2f, 0, 0, 0x35][..], &[7; 16]].concat();
            let first = [&[0x80, body.len() as u8][..], &body].concat();
            [first, records(rng, &second)].concat()
        }
        // One for the allowed host, with a request for the other in it or behind it.
        4 => {
            let first = message(rng, offer, &own, Some(name));
            let early = format!("\r\nGET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            let early = [&[23, 3, 3][..], &vector(early.as_bytes())].concat();
            [records(rng, &first), early].concat()
        }
        _ => records(rng, &second),
    };
    if rng.one_in(5) {
        disturb(rng, &mut bytes, 3);
    }
    bytes
}

/// A hello of TLS 1.2 as it should be, for this name.
pub fn plain(name: &str) -> Vec<u8> {
    let extensions = [
        names(&[entry(0, name)]),
        extension(10, &vector(&[0, 29, 0, 23])),
        extension(11, &[1, 0]),
        extension(13, &vector(&[4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1])),
        extension(23, &[]),
    ];
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend(vector(&[0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30, 0, 0x9c, 0, 0x2f]));
    body.extend_from_slice(&[1, 0]);
    body.extend(vector(&extensions.concat()));
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    [&[22, 3, 1][..], &vector(&message)].concat()
}
