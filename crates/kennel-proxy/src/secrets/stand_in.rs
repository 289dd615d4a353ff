//! What a command gets in place of a secret: a text of the same shape that is worth nothing.

use std::io;

use crate::random::random;

/// The letters of stand-ins: they survive JSON, addresses and shells.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// As many letters as hold 128 bits.
const MIN_RANDOM: usize = 22;
/// A shorter value is part of many texts.
const MIN_VALUE: usize = 8;
/// Larger ones fit no header field.
const MAX_VALUE: usize = 64 << 10;

/// Why there is no stand-in for a value.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// Too short.
    #[error("it has less than {MIN_VALUE} characters, so it could not be told from other text")]
    TooShort,
    /// Too long.
    #[error("it has more than {} KiB", MAX_VALUE >> 10)]
    TooLong,
    /// A line break, or NUL.
    #[error("it holds a line break or another control character, which no header field can hold")]
    ControlCharacter,
    /// No random bytes.
    #[error("getting random bytes: {0}")]
    Random(#[from] io::Error),
}

/// A stand-in for a value: its prefix (`sk-ant-api03-`, `ghp_`), its length where that holds 128 random bits, and nothing else
/// of it.
pub fn stand_in_for(value: &[u8]) -> Result<String, StandInError> {
    check(value)?;
    let prefix = prefix(value);
    let length = value.len().max(prefix.len() + MIN_RANDOM);
    let mut text = prefix.to_owned();
    text.push_str(&letters(length - prefix.len())?);
    Ok(text)
}

/// Whether a value can be swapped.
pub(super) fn check(value: &[u8]) -> Result<(), StandInError> {
    if value.len() < MIN_VALUE {
        return Err(StandInError::TooShort);
    }
    if value.len() > MAX_VALUE {
        return Err(StandInError::TooLong);
    }
    if value.iter().any(|byte| *byte < b' ' || *byte == 0x7f) {
        return Err(StandInError::ControlCharacter);
    }
    Ok(())
}

/// So many random letters.
pub(super) fn letters(count: usize) -> io::Result<String> {
    let mut text = String::with_capacity(count);
    let mut some = [0; 64];
    while text.len() < count {
        random(&mut some)?;
        let left = count - text.len();
        text.extend(some.iter().take(left).map(|byte| char::from(LETTERS[usize::from(byte & 63)])));
    }
    Ok(text)
}

/// The prefixes by which makers let their keys be known. What only looks like a prefix may be half of a password.
const PREFIXES: &[&str] = &[
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-",
    "sk-proj-",
    "sk-or-v1-",
    "sk-svcacct-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "lin_api_",
    "gsk_",
    "xai-",
];

fn prefix(value: &[u8]) -> &'static str {
    let fits = |prefix: &&&str| value.starts_with(prefix.as_bytes());
    PREFIXES.iter().filter(fits).max_by_key(|prefix| prefix.len()).unwrap_or(&"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_has_the_shape_and_nothing_else() {
        let real = b"sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";
        let text = stand_in_for(real).unwrap();
        assert!(text.starts_with("sk-ant-api03-") && text.len() == real.len(), "{text}");
        assert_ne!(text.as_bytes(), real);
        assert_ne!(text, stand_in_for(real).unwrap());
        assert_eq!(stand_in_for(b"hunter22").unwrap().len(), MIN_RANDOM);
        assert!(text.bytes().all(|byte| LETTERS.contains(&byte)));
    }

    #[test]
    fn values_that_cannot_be_swapped_are_refused() {
        assert!(matches!(stand_in_for(b"hunter2"), Err(StandInError::TooShort)));
        assert!(matches!(stand_in_for(b"with a\nline break"), Err(StandInError::ControlCharacter)));
        assert!(matches!(stand_in_for(&[b'x'; 70_000]), Err(StandInError::TooLong)));
    }
}
