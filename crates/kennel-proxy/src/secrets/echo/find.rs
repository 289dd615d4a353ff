//! Finding texts in a time that depends on their lengths and on nothing else of them.
//!
//! A search that compares letter by letter, or looks for rare letters first, is slower where more of a secret text is there: whoever
//! chooses what is searched could tell a right beginning from a wrong one by the clock. So each place is compared by a rolling
//! hash with a random base, and only what has the same hash is compared letter by letter.

use std::io;
use std::ops::Range;

use subtle::ConstantTimeEq;

use super::super::locked::Locked;
use crate::random::random;

/// What is looked for, in groups of one length.
pub(super) struct Finder {
    base: u64,
    groups: Vec<Group>,
    texts: Locked,
}

struct Group {
    length: usize,
    /// What takes a letter out of the hash.
    out: u64,
    members: Vec<Member>,
}

struct Member {
    hash: u64,
    number: usize,
    at: usize,
}

impl Finder {
    /// Each text has a number of the caller's.
    pub(super) fn new(texts: &[(usize, &[u8])]) -> io::Result<Finder> {
        let mut bytes = [0; 8];
        random(&mut bytes)?;
        let base = u64::from_le_bytes(bytes) | 1;
        let mut store = Locked::new(texts.iter().map(|(_, text)| text.len()).sum())?;
        let mut groups: Vec<Group> = Vec::new();
        let mut at = 0;
        for (number, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
            store[at..at + text.len()].copy_from_slice(text);
            let member = Member { hash: hash(base, text), number: *number, at };
            at += text.len();
            match groups.iter_mut().find(|group| group.length == text.len()) {
                Some(group) => group.members.push(member),
                None => {
                    let power = |power: u64, _| power.wrapping_mul(base);
                    let out = (0..text.len()).fold(1, power);
                    groups.push(Group { length: text.len(), out, members: vec![member] });
                }
            }
        }
        Ok(Finder { base, groups, texts: store })
    }

    /// The length of the shortest.
    pub(super) fn least(&self) -> usize {
        self.groups.iter().map(|group| group.length).min().unwrap_or(usize::MAX)
    }

    /// The length of the longest.
    pub(super) fn most(&self) -> usize {
        self.groups.iter().map(|group| group.length).max().unwrap_or(0)
    }

    /// Tells of each place where one of them is, and of its number.
    pub(super) fn search(&self, text: &[u8], mut found: impl FnMut(Range<usize>, usize)) {
        for group in &self.groups {
            let Some((first, rest)) = text.split_at_checked(group.length) else { continue };
            let mut sum = hash(self.base, first);
            self.compare(group, sum, text, 0, &mut found);
            for (start, (old, new)) in text.iter().zip(rest).enumerate() {
                sum = sum
                    .wrapping_mul(self.base)
                    .wrapping_add(letter(*new))
                    .wrapping_sub(letter(*old).wrapping_mul(group.out));
                self.compare(group, sum, text, start + 1, &mut found);
            }
        }
    }

    #[inline]
    fn compare(
        &self,
        group: &Group,
        sum: u64,
        text: &[u8],
        start: usize,
        found: &mut impl FnMut(Range<usize>, usize),
    ) {
        for member in &group.members {
            if member.hash == sum {
                let place = start..start + group.length;
                let own = &self.texts[member.at..member.at + group.length];
                if bool::from(own.ct_eq(&text[place.clone()])) {
                    found(place, member.number);
                }
            }
        }
    }
}

/// Zeros count, too.
fn letter(byte: u8) -> u64 {
    u64::from(byte) + 1
}

fn hash(base: u64, text: &[u8]) -> u64 {
    text.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(base).wrapping_add(letter(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        #[kennel_claim::claim("secrets/nothing-tells-a-guess")]
        fn every_place_is_found_and_no_other(
            texts in prop::collection::vec(prop::collection::vec(0u8..3, 1..6), 1..5),
            text in prop::collection::vec(0u8..3, 0..80),
        ) {
            let named: Vec<(usize, &[u8])> = texts.iter().map(Vec::as_slice).enumerate().collect();
            let finder = Finder::new(&named).unwrap();
            let mut all = Vec::new();
            finder.search(&text, |place, number| all.push((place.start, number)));
            all.sort_unstable();
            let mut wanted = Vec::new();
            for start in 0..text.len() {
                for (number, one) in named.iter().filter(|(_, one)| text[start..].starts_with(one)) {
                    let _ = one;
                    wanted.push((start, *number));
                }
            }
            prop_assert_eq!(all, wanted);
        }
    }
}
