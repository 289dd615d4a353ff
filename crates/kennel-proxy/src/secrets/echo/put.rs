//! Writes a stand-in in the place of its value.
//!
//! How it is written does not depend on how the value happened to be: a server that escapes some letters, or has two letters of base64
//! or cases of digits to choose from, would tell by them which letters the value has. So it stands as it is where the value was plain or
//! escaped, which reads the same to whoever undoes escapes; in base64 in the letters of RFC 4648 §4, in one piece; in lower-case
//! digits, with what stood between the value's own.

use super::super::encodings;
use super::decode::{Kind, View};
use super::{Edges, Form, hold};

/// `text` is the value as it was found.
pub(super) fn put(form: Form, stand_in: &[u8], text: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Line => out.extend_from_slice(stand_in),
        Form::Base64(edges) => {
            out.extend(base64(edges, stand_in, text).into_iter().map(encodings::base64_letter));
        }
        Form::Hex => {
            let digits: Vec<u8> = stand_in
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0') as u8)
                .collect();
            in_place(&digits, text, out);
        }
    }
}

/// The numbers of the letters of a stand-in, and those at its edges with the bits that belong to its neighbours.
fn base64(edges: Edges, stand_in: &[u8], text: &[u8]) -> Vec<u8> {
    let mut view = View::default();
    view.read(text, Kind::Nested);
    let mut old = view.letters.iter().filter_map(|letter| encodings::base64_number(*letter));
    let (first, last) = (old.next().unwrap_or(0), old.next_back().unwrap_or(0));
    let mut numbers = Vec::new();
    if edges.first {
        // Of the value's first byte four bits, or two.
        let bits = 6 - edges.before * 2;
        let shown = stand_in.first().copied().unwrap_or(0) >> (8 - bits);
        numbers.push(first >> bits << bits | shown);
    }
    numbers.extend(encodings::base64_inside(stand_in, edges.before));
    if edges.last_bits > 0 {
        let place = 6 - edges.last_bits;
        let same = (edges.before + stand_in.len()) * 8 % 6 == edges.last_bits;
        let shown = stand_in.last().copied().filter(|_| same).unwrap_or(0) & ((1 << edges.last_bits) - 1);
        numbers.push(last & ((1 << place) - 1) | shown << place);
    }
    numbers
}

/// New digits in the places of the old ones, with what stands between; or in one piece, where they are others in number.
fn in_place(digits: &[u8], text: &[u8], out: &mut Vec<u8>) {
    let is_digit = u8::is_ascii_hexdigit;
    let plain = text.iter().all(|byte| is_digit(byte) || hold::separates(*byte) || *byte == b'-');
    if !plain || text.iter().filter(|byte| is_digit(byte)).count() != digits.len() {
        return out.extend_from_slice(digits);
    }
    let mut digits = digits.iter();
    out.extend(
        text.iter().filter_map(|byte| if is_digit(byte) { digits.next().copied() } else { Some(*byte) }),
    );
}
