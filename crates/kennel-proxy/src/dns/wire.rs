//! Names and record types, as both directions need them.

/// A record type that someone here cares about.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const SRV: u16 = 33;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const ANY: u16 = 255;
}

pub(crate) const CLASS_IN: u16 = 1;
pub(crate) const HEADER: usize = 12;

/// The most labels pointers may lead through. A name has at most 127 labels; a message that needs more jumps than
/// this is a loop or an attack.
const MAX_JUMPS: usize = 32;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Whether compression pointers are followed. A question has none: nothing comes before it to point at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointers {
    Followed,
    Refused,
}

/// Reads a name at `at`: its dotted text without the last dot, and where the message goes on. Only letters, digits,
/// `-` and `_` survive; a label with a dot or a control character in it could otherwise be read as another name.
pub(crate) fn name(message: &[u8], at: usize, pointers: Pointers) -> Option<(String, usize)> {
    let mut text = String::new();
    let (mut place, mut after, mut jumps) = (at, None, 0);
    loop {
        let length = *message.get(place)?;
        match length {
            0 => {
                let end = after.unwrap_or(place + 1);
                return Some((text, end));
            }
            1..=63 => {
                let label = message.get(place + 1..place + 1 + usize::from(length))?;
                if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                    return None;
                }
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(label.iter().map(|&byte| char::from(byte.to_ascii_lowercase())));
                if text.len() > 253 {
                    return None;
                }
                place += 1 + usize::from(length);
            }
            192..=255 if pointers == Pointers::Followed && jumps < MAX_JUMPS => {
                let target = usize::from(u16_at(message, place)? & 0x3fff);
                after.get_or_insert(place + 2);
                jumps += 1;
                place = target;
            }
            _ => return None,
        }
    }
}

/// Where the message goes on after a name, whatever characters it has.
pub(crate) fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            192..=255 => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

/// Appends a name; the text is one that [`name`] or the policy's grammar let through.
pub(crate) fn push_name(message: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        message.push(label.len() as u8);
        message.extend_from_slice(label);
    }
    message.push(0);
}

/// A record after its owner's name.
pub(crate) struct Record<'a> {
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    pub(crate) data: &'a [u8],
    /// Where `data` starts in the message: names in it may point backwards.
    pub(crate) data_at: usize,
    pub(crate) end: usize,
}

/// Reads a record whose owner's name ends at `at`.
pub(crate) fn record(message: &[u8], at: usize) -> Option<Record<'_>> {
    let length = usize::from(u16_at(message, at + 8)?);
    let data_at = at + 10;
    let data = message.get(data_at..data_at + length)?;
    Some(Record {
        kind: u16_at(message, at)?,
        class: u16_at(message, at + 2)?,
        ttl: u32_at(message, at + 4)?,
        data,
        data_at,
        end: data_at + length,
    })
}
