//! What a server sends back is searched for real values, and shows the stand-ins in their place.
//!
//! The agent asked, the gate put the key in, and whoever echoes the request (an error page, a debugging endpoint, a model that
//! was told to repeat its headers) would hand the key to the agent.

use std::io;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderValue};

use super::encodings;
use super::replace::{Replacements, Stream};
use super::swap::Swap;

/// What is put for real values in responses.
#[derive(Clone, Debug)]
pub(crate) struct Redaction {
    all: Arc<Replacements>,
    /// Those that change no length: a frame keeps its own.
    same_length: Arc<Replacements>,
}

impl Redaction {
    pub(crate) fn new(swaps: &[Swap]) -> io::Result<Redaction> {
        let pairs =
            || swaps.iter().flat_map(|swap| encodings::pairs(swap.value.expose(), swap.stand_in.as_bytes()));
        let same = pairs().filter(|pair| pair.find.len() == pair.put.len());
        Ok(Redaction {
            all: Arc::new(Replacements::new(pairs())?),
            same_length: Arc::new(Replacements::new(same)?),
        })
    }

    /// Header fields of a response, or its trailers. Returns how many places were replaced.
    pub(crate) fn fields(&self, fields: &mut HeaderMap) -> usize {
        let mut count = 0;
        for value in fields.values_mut() {
            if self.all.occur_in(value.as_bytes()) {
                let (text, replaced) = self.all.in_text(value.as_bytes());
                count += replaced;
                *value = HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static(""));
            }
        }
        count
    }

    /// A body, in parts.
    pub(crate) fn body(&self) -> RedactedStream {
        RedactedStream { all: Arc::clone(&self.all), stream: Stream::default() }
    }

    /// Frames of a protocol that a connection was changed to.
    pub(crate) fn frames(&self) -> RedactedStream {
        RedactedStream { all: Arc::clone(&self.same_length), stream: Stream::default() }
    }
}

/// One stream of a response.
pub(crate) struct RedactedStream {
    all: Arc<Replacements>,
    stream: Stream,
}

impl RedactedStream {
    /// What of the stream may be handed on, now that this part has come; `None` for the part as it is.
    pub(crate) fn push(&mut self, part: &[u8]) -> Option<Vec<u8>> {
        if self.stream.passes(&self.all, part) {
            return None;
        }
        let mut out = Vec::with_capacity(part.len());
        self.stream.push(&self.all, part, &mut out);
        Some(out)
    }

    /// What was held back, at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.stream.finish(&self.all, &mut out);
        out
    }
}
