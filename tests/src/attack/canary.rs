//! Secrets that can be recognised wherever they turn up: in what the attacker reads, in what leaves, in what it wrote.

use std::collections::BTreeSet;

/// What every canary starts with. The word appears nowhere else.
const START: &[u8] = b"KCNRY";
/// Hexadecimal digits after it.
const DIGITS: usize = 14;

/// A secret: unique over all histories of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Canary(String);

impl Canary {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What a file holds that has it.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        format!("{} this is secret\n", self.0).into_bytes()
    }
}

/// Gives out canaries.
#[derive(Clone, Debug)]
pub struct Canaries {
    nonce: u64,
    next: u64,
}

impl Canaries {
    /// Whose canaries no other one gives out.
    #[must_use]
    pub fn new(nonce: u64) -> Canaries {
        Canaries { nonce, next: 0 }
    }

    /// Another one.
    pub fn make(&mut self) -> Canary {
        self.next += 1;
        let bits = super::rng::Rng::of(self.nonce, self.next).bits();
        Canary(format!("{}{:014x}", String::from_utf8_lossy(START), bits >> 8))
    }
}

/// All canaries in a text.
#[must_use]
pub fn find(text: &[u8]) -> BTreeSet<Canary> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.windows(START.len()).position(|window| window == START) {
        rest = &rest[at + START.len()..];
        if let Some(digits) = rest.get(..DIGITS).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            found.insert(Canary(String::from_utf8_lossy(&[START, digits].concat()).into_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canaries_differ_and_are_found_in_any_bytes() {
        let mut canaries = Canaries::new(7);
        let (one, two) = (canaries.make(), canaries.make());
        assert_ne!(one, two);
        let text = [b"\xffKCNRY", one.text().as_bytes(), &two.content(), b"KCNRY12"].concat();
        assert_eq!(find(&text), BTreeSet::from([one, two]));
    }
}
