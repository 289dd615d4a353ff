//! Redis: commands are lists of strings, `*1\r\n$4\r\nPING\r\n`. Its other form, words in a line, is not known here: a line
//! can be many things.

use super::{Seen, State};

/// The name of a command is short.
const MAX_NAME: usize = 64;

pub(super) fn first(bytes: &[u8]) -> Seen {
    match name(bytes) {
        Some(true) => Seen::Mine(State::Open),
        Some(false) => Seen::NotMine,
        None => Seen::Perhaps,
    }
}

/// Whether these bytes begin with a list whose first string is the name of a command; `None` when more are needed.
fn name(bytes: &[u8]) -> Option<bool> {
    let Some((count, rest)) = number(bytes, b'*')? else { return Some(false) };
    let Some((length, rest)) = number(rest, b'$')? else { return Some(false) };
    if count == 0 || !(1..=MAX_NAME).contains(&length) {
        return Some(false);
    }
    // Modules put a dot into the names of theirs.
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'.' | b'_' | b'-');
    match rest.get(..length) {
        Some(name) => Some(name.iter().all(is_name)),
        None => (!rest.iter().all(is_name)).then_some(false),
    }
}

/// A number behind a sign, and what follows its line; `Some(None)` where there is none.
fn number(bytes: &[u8], sign: u8) -> Option<Option<(usize, &[u8])>> {
    let (first, rest) = bytes.split_first()?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if *first != sign || digits > 7 {
        return Some(None);
    }
    match (&rest[digits..], digits) {
        ([], _) | ([b'\r'], 1..) => None,
        ([b'\r', b'\n', after @ ..], 1..) => {
            let number = rest[..digits].iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
            Some(Some((number, after)))
        }
        _ => Some(None),
    }
}
