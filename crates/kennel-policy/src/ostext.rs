//! Splitting and comparing text that need not be UTF-8: arguments, paths and variables are bytes on Linux.

use std::ffi::{OsStr, OsString};

/// The two sides of the first such character.
///
/// ```
/// use kennel_policy::ostext::split_once;
/// assert_eq!(split_once("A=b=c".as_ref(), b'='), Some(("A".as_ref(), "b=c".as_ref())));
/// ```
#[must_use]
pub fn split_once(text: &OsStr, at: u8) -> Option<(&OsStr, &OsStr)> {
    let position = text.as_encoded_bytes().iter().position(|byte| *byte == at)?;
    split_around(text, position)
}

/// The two sides of the last such character.
#[must_use]
pub fn rsplit_once(text: &OsStr, at: u8) -> Option<(&OsStr, &OsStr)> {
    let position = text.as_encoded_bytes().iter().rposition(|byte| *byte == at)?;
    split_around(text, position)
}

fn split_around(text: &OsStr, position: usize) -> Option<(&OsStr, &OsStr)> {
    let bytes = text.as_encoded_bytes();
    if !bytes.get(position)?.is_ascii() {
        return None;
    }
    // SAFETY: the bytes come from an `OsStr` and are split right before and right after an ASCII character, which
    // `from_encoded_bytes_unchecked` names as a safe place: a non-empty UTF-8 string ends or starts there.
    unsafe {
        Some((
            OsStr::from_encoded_bytes_unchecked(&bytes[..position]),
            OsStr::from_encoded_bytes_unchecked(&bytes[position + 1..]),
        ))
    }
}

/// Whether two names are of one variable: on Windows `Path` is `PATH`.
pub(crate) fn is_same(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

/// A text with brackets around those of its ASCII characters that `which` chooses by place and character.
///
/// ```
/// use kennel_policy::ostext::bracketed;
/// assert_eq!(bracketed("a*b".as_ref(), |_, byte| byte == b'*'), "a[*]b");
/// ```
#[must_use]
pub fn bracketed(text: &OsStr, which: impl Fn(usize, u8) -> bool) -> OsString {
    let mut bytes = Vec::with_capacity(text.len() + 8);
    for (at, byte) in text.as_encoded_bytes().iter().enumerate() {
        if byte.is_ascii() && which(at, *byte) {
            bytes.extend_from_slice(&[b'[', *byte, b']']);
        } else {
            bytes.push(*byte);
        }
    }
    // SAFETY: the bytes of an `OsStr` with ASCII characters before and after some of its ASCII characters.
    unsafe { OsString::from_encoded_bytes_unchecked(bytes) }
}

/// A text without the brackets that stand around one ASCII character.
///
/// ```
/// use kennel_policy::ostext::unbracketed;
/// assert_eq!(unbracketed("a[*]b[cd]".as_ref()), "a*b[cd]");
/// ```
#[must_use]
pub fn unbracketed(text: &OsStr) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_encoded_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'[', [inner, b']', after @ ..]) if inner.is_ascii() => (inner, after),
            _ => (first, after),
        };
        bytes.push(*byte);
        rest = after;
    }
    // SAFETY: the bytes of an `OsStr`, of which ASCII characters beside another one are missing.
    unsafe { OsString::from_encoded_bytes_unchecked(bytes) }
}

/// A part of a file of the system's own: names are any bytes where there are such files.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> Option<&OsStr> {
    #[cfg(unix)]
    return Some(std::os::unix::ffi::OsStrExt::from_bytes(bytes));
    #[cfg(not(unix))]
    return std::str::from_utf8(bytes).ok().map(OsStr::new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_keep_bytes_that_are_no_text() {
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let (left, right) = split_once(OsStr::from_bytes(b"\xff=\xfe="), b'=').unwrap();
            assert_eq!((left.as_bytes(), right.as_bytes()), (&b"\xff"[..], &b"\xfe="[..]));
        }
        assert_eq!(rsplit_once("a:b:c".as_ref(), b':'), Some(("a:b".as_ref(), "c".as_ref())));
        assert_eq!(split_once("abc".as_ref(), b'='), None);
        assert_eq!(split_once("é".as_ref(), 0xc3), None);
    }
}
