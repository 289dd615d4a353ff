//! Who may use the proxy door: whoever shows the sandbox's token.
//!
//! Inside its own network namespace nobody else can reach the door. The token is for the tier without namespaces,
//! where every process of the host can.

use std::fmt;

/// A user name and a password that a client of the proxy has to show.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl Credentials {
    /// Whether these are they. Takes the same time wherever they differ.
    pub(crate) fn accept(&self, user: &[u8], password: &[u8]) -> bool {
        same(self.user.as_bytes(), user) & same(self.password.as_bytes(), password)
    }

    /// Whether the value of a `Proxy-Authorization` field holds them.
    pub(crate) fn accept_basic(&self, value: &[u8]) -> bool {
        let Some((scheme, encoded)) = value.split_at_checked(6) else { return false };
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return false;
        }
        let Some(decoded) = decode(encoded.trim_ascii()) else { return false };
        match decoded.iter().position(|byte| *byte == b':') {
            Some(colon) => self.accept(&decoded[..colon], &decoded[colon + 1..]),
            None => false,
        }
    }

    /// The value of a `Proxy-Authorization` field that shows them.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", encode(format!("{}:{}", self.user, self.password).as_bytes()))
    }
}

fn same(own: &[u8], shown: &[u8]) -> bool {
    let difference = own.iter().zip(shown).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0 && own.len() == shown.len()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for letter in text {
        let value = ALPHABET.iter().position(|own| own == letter)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_right_pair_is_accepted() {
        let own = Credentials { user: "kennel".into(), password: "to:ken".into() };
        assert_eq!(own.basic(), "Basic a2VubmVsOnRvOmtlbg==");
        assert!(own.accept_basic(own.basic().as_bytes()));
        assert!(own.accept_basic(b"basic  a2VubmVsOnRvOmtlbg=="));
        for wrong in [
            &b"Basic a2VubmVsOg=="[..],
            b"Basic a2VubmVs",
            b"Bearer a2VubmVsOnRvOmtlbg==",
            b"Basic",
            b"",
            b"Basic !!",
        ] {
            assert!(!own.accept_basic(wrong), "{wrong:?}");
        }
        assert!(!own.accept(b"kennel", b"to:ke"));
        assert!(!own.accept(b"kennel", b"to:kenn"));
        assert!(!format!("{own:?}").contains("to:ken"));
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
