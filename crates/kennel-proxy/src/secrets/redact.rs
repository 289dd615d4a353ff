//! What a server sends back is searched for the real values that it receives, and shows the stand-ins in their place.

use std::io;
use std::sync::Arc;

use hyper::header::HeaderMap;

use super::echo::{EchoStream, Echoes};
use super::swap::Swap;

/// What is put for real values in the responses of one host.
#[derive(Clone, Debug)]
pub(crate) struct Redaction(Arc<Echoes>);

impl Redaction {
    /// Of these secrets.
    pub(crate) fn new<'s>(swaps: impl IntoIterator<Item = &'s Swap>) -> io::Result<Redaction> {
        let pair = |swap: &'s Swap| (swap.value.expose(), swap.stand_in.as_bytes());
        Ok(Redaction(Arc::new(Echoes::new(swaps.into_iter().map(pair))?)))
    }

    /// Header fields of a response, or its trailers.
    pub(crate) fn fields(&self, fields: &mut HeaderMap) {
        self.0.fields(fields);
    }

    /// A whole text; `None` for one that holds no value.
    pub(crate) fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.0.in_text(text)
    }

    /// A body, in parts.
    pub(crate) fn body(&self) -> EchoStream {
        self.0.stream()
    }
}
