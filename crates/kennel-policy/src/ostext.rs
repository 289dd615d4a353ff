//! Splitting text that need not be UTF-8: arguments, paths and variables are bytes on Linux.

use std::ffi::OsStr;

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
