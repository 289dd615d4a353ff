//! The parent proxy's password does not come back to the sandbox.
//!
//! The gate adds it to each plain request that goes out by an authenticated proxy. Whoever returns a request to its sender
//! returns the password with it: `TRACE`, an error page that shows the request, a parent that forgets to take the field out and
//! a server that echoes. So what comes back from such a proxy is searched for it, and cut off before it.

use crate::auth::Credentials;

/// A shorter one could be part of any text.
const LEAST_ALONE: usize = 12;

/// Searches a stream for the field that shows a password.
#[derive(Debug)]
pub(super) struct LeakSearch {
    needle: Vec<u8>,
    /// The end of what came, where it may be the beginning of the needle.
    held: Vec<u8>,
}

/// It was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leak;

impl LeakSearch {
    pub(super) fn new(credentials: &Credentials) -> Self {
        let field = credentials.basic();
        let token = field.strip_prefix("Basic ").unwrap_or(&field).trim_end_matches('=');
        let needle = if token.len() >= LEAST_ALONE { token } else { field.trim_end_matches('=') };
        LeakSearch { needle: needle.as_bytes().to_vec(), held: Vec::new() }
    }

    /// Whether a whole text has it.
    pub(super) fn check(&self, text: &[u8]) -> Result<(), Leak> {
        match text.windows(self.needle.len()).any(|part| part == self.needle) {
            true => Err(Leak),
            false => Ok(()),
        }
    }

    /// What of the stream may be handed on, now that this part has come.
    pub(super) fn pass(&mut self, part: &[u8]) -> Result<Vec<u8>, Leak> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(part);
        self.check(&all)?;
        let most = all.len().min(self.needle.len() - 1);
        let keep =
            (1..=most).rev().find(|count| self.needle.starts_with(&all[all.len() - count..])).unwrap_or(0);
        self.held = all.split_off(all.len() - keep);
        Ok(all)
    }

    /// What was held back, at the end of the stream.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search() -> LeakSearch {
        LeakSearch::new(&Credentials { user: "user".into(), password: "a long password".into() })
    }

    #[test]
    fn short_ones_are_searched_for_with_the_word_before_them() {
        let short = LeakSearch::new(&Credentials { user: "a".into(), password: "b".into() });
        assert_eq!(short.check(b"YTpi is a text"), Ok(()));
        assert_eq!(short.check(b"Proxy-Authorization: Basic YTpi"), Err(Leak));
    }

    proptest! {
        #[test]
        fn it_is_found_however_the_stream_is_cut(before in ".{0,40}", cuts in proptest::collection::vec(1usize..9, 1..40)) {
            let mut search = search();
            let needle = search.needle.clone();
            let stream = [before.as_bytes(), &needle, b" and more"].concat();
            let (mut passed, mut found) = (Vec::new(), false);
            let (mut rest, mut cuts) = (&stream[..], cuts.into_iter().cycle());
            while !rest.is_empty() && !found {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                rest = after;
                match search.pass(part) {
                    Ok(bytes) => passed.extend(bytes),
                    Err(Leak) => found = true,
                }
            }
            prop_assert!(found);
            prop_assert!(passed.len() <= before.len(), "no part of it was passed");
        }

        #[test]
        fn what_does_not_hold_it_comes_whole(text in "[dXNlcjphIGxvbmc ]{0,60}", cuts in proptest::collection::vec(1usize..9, 1..40)) {
            let mut search = search();
            prop_assume!(search.check(text.as_bytes()).is_ok());
            let mut passed = Vec::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                rest = after;
                passed.extend(search.pass(part).unwrap());
            }
            passed.extend(search.rest());
            prop_assert_eq!(passed, text.as_bytes());
        }
    }
}
