//! The parent proxy's password does not come back to the sandbox.
//!
//! The gate adds it to each plain request that goes out by an authenticated proxy. Whoever returns a request to its sender
//! returns the password with it: `TRACE`, an error page that shows the request, a parent that forgets to take the field out and
//! a server that echoes. So what comes back from such a proxy is searched for it as for any secret, and cut off before it.

use std::io;
use std::sync::Arc;

use crate::auth::Credentials;
pub(super) use crate::secrets::PAUSE;
use crate::secrets::{EchoStream, Echoes};

/// A shorter one could be part of any text.
const MIN_ALONE: usize = 12;
/// A shorter password, with its user's name, is in many texts.
const MIN_PASSWORD: usize = 8;

/// Searches a stream for the field that shows a password.
pub(super) struct LeakSearch {
    echoes: Arc<Echoes>,
    stream: EchoStream,
}

/// It was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leak;

impl LeakSearch {
    /// # Errors
    /// When the system has no memory.
    pub(super) fn new(credentials: &Credentials) -> io::Result<Self> {
        let field = credentials.basic();
        let token = field.strip_prefix("Basic ").unwrap_or(&field).trim_end_matches('=');
        let token = if token.len() >= MIN_ALONE { token } else { field.trim_end_matches('=') };
        let pair = format!("{}:{}", credentials.user, credentials.password);
        let pair = Some(pair).filter(|_| credentials.password.len() >= MIN_PASSWORD);
        let values = [Some(token), pair.as_deref()].into_iter().flatten();
        let echoes = Arc::new(Echoes::new(values.map(|value| (value.as_bytes(), &b""[..])))?);
        Ok(LeakSearch { stream: echoes.stream(), echoes })
    }

    /// Whether a whole text has it.
    pub(super) fn check(&self, text: &[u8]) -> Result<(), Leak> {
        match self.echoes.in_text(text) {
            Some(_) => Err(Leak),
            None => Ok(()),
        }
    }

    /// What of the stream may be handed on, now that this part has come.
    pub(super) fn pass(&mut self, part: &[u8]) -> Result<Vec<u8>, Leak> {
        let out = self.stream.push(part).map_err(|_| Leak)?;
        self.unless_found(out.unwrap_or_else(|| part.to_vec()))
    }

    /// Whether something is held back.
    pub(super) fn holds(&self) -> bool {
        self.stream.holds()
    }

    /// The server has paused: what was held back.
    pub(super) fn paused(&mut self) -> Result<Vec<u8>, Leak> {
        let out = self.stream.paused().map_err(|_| Leak)?;
        self.unless_found(out)
    }

    /// What was held back, at the end of the stream.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, Leak> {
        let out = self.stream.finish().map_err(|_| Leak)?;
        self.unless_found(out)
    }

    fn unless_found(&self, out: Vec<u8>) -> Result<Vec<u8>, Leak> {
        if self.stream.has_found() { Err(Leak) } else { Ok(out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn credentials() -> Credentials {
        Credentials { user: "user".into(), password: "a long password".into() }
    }

    fn search() -> LeakSearch {
        LeakSearch::new(&credentials()).unwrap()
    }

    #[test]
    fn short_ones_are_searched_for_with_the_word_before_them() {
        let short = LeakSearch::new(&Credentials { user: "a".into(), password: "b".into() }).unwrap();
        assert_eq!(short.check(b"YTpi is a text"), Ok(()));
        assert_eq!(short.check(b"Proxy-Authorization: Basic YTpi"), Err(Leak));
    }

    #[test]
    fn escaped_and_decoded_ones_are_found() {
        let field = credentials().basic();
        for text in [
            "{\"auth\": \"user:a long password\"}",
            "user%3Aa%20long%20password",
            "dXNlcjphIGxv\r\nbmcgcGFzc3dvcmQ=",
            &field.replace('=', "\\u003d"),
        ] {
            assert_eq!(search().check(text.as_bytes()), Err(Leak), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_is_found_however_the_stream_is_cut(before in ".{0,40}", cuts in prop::collection::vec(1usize..9, 1..40)) {
            let mut search = search();
            let field = credentials().basic();
            let stream = [before.as_bytes(), b" ", field.as_bytes(), b" and more"].concat();
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
            found |= search.rest().is_err();
            prop_assert!(found);
            prop_assert!(passed.len() <= before.len() + " Basic ".len(), "no part of it was passed");
        }

        #[test]
        fn what_does_not_hold_it_comes_whole(text in "[dXNlcjphIGxvbmc ]{0,60}", cuts in prop::collection::vec(1usize..9, 1..40)) {
            let mut search = search();
            prop_assume!(search.check(text.as_bytes()).is_ok());
            let mut passed = Vec::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                rest = after;
                passed.extend(search.pass(part).unwrap());
            }
            passed.extend(search.rest().unwrap());
            prop_assert_eq!(passed, text.as_bytes());
        }
    }
}
