//! Bodies on their way through the gate, part by part.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};

use crate::secrets::{RedactedStream, Redaction, SwapRefusal, SwapStream};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// Any body of this lane.
pub(crate) type AnyBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// What happens to the parts of a body.
pub(crate) trait Filter: Unpin {
    /// A part: `Ok(None)` lets it pass as it is.
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError>;
    /// The end, and what was held back.
    fn end(&mut self) -> Result<Bytes, BoxError>;
    /// Fields behind the body.
    fn trailers(&mut self, fields: &mut HeaderMap);
    /// Whether the body keeps its length.
    fn keeps_length(&self) -> bool;
}

/// A body whose parts go through a filter.
pub(crate) struct Filtered<B, F> {
    body: B,
    filter: F,
    /// Behind the last part, until they are handed on.
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl<B: Body, F> Filtered<B, F> {
    pub(crate) fn new(body: B, filter: F) -> Self {
        let ended = body.is_end_stream();
        Filtered { body, filter, trailers: None, ended }
    }
}

impl<B, F> Body for Filtered<B, F>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    F: Filter,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(this.trailers.take().map(|fields| Ok(Frame::trailers(fields))));
        }
        loop {
            let part = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => None,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(part) => Some(part),
                    Err(frame) => {
                        if let Ok(mut fields) = frame.into_trailers() {
                            this.filter.trailers(&mut fields);
                            this.trailers = Some(fields);
                        }
                        None
                    }
                },
            };
            let Some(part) = part else {
                this.ended = true;
                return Poll::Ready(match this.filter.end() {
                    Ok(rest) if rest.is_empty() => {
                        this.trailers.take().map(|fields| Ok(Frame::trailers(fields)))
                    }
                    Ok(rest) => Some(Ok(Frame::data(rest))),
                    Err(error) => Some(Err(error)),
                });
            };
            match this.filter.part(&part) {
                Ok(None) => return Poll::Ready(Some(Ok(Frame::data(part)))),
                // All of it is held back.
                Ok(Some(out)) if out.is_empty() => {}
                Ok(Some(out)) => return Poll::Ready(Some(Ok(Frame::data(out)))),
                Err(error) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Not when the body's own end has come: what is held back comes after it.
        self.ended && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.filter.keeps_length() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// A request's body: stand-ins that must not leave stop it.
pub(crate) struct SwapFilter {
    pub(crate) stream: SwapStream,
    /// Where the reason is left for whoever answers the client.
    pub(crate) refused: Rc<RefCell<Option<SwapRefusal>>>,
}

impl SwapFilter {
    fn stop(&self, refusal: SwapRefusal) -> BoxError {
        let error = refusal.to_string();
        *self.refused.borrow_mut() = Some(refusal);
        error.into()
    }
}

impl Filter for SwapFilter {
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError> {
        self.stream.push(part).map(|out| out.map(Bytes::from)).map_err(|refusal| self.stop(refusal))
    }

    fn end(&mut self) -> Result<Bytes, BoxError> {
        self.stream.finish().map(Bytes::from).map_err(|refusal| self.stop(refusal))
    }

    /// Nobody needs them in requests, and a server could read fields there that were looked at nowhere.
    fn trailers(&mut self, fields: &mut HeaderMap) {
        fields.clear();
    }

    fn keeps_length(&self) -> bool {
        self.stream.keeps_length()
    }
}

/// A response's body: real values become stand-ins.
pub(crate) struct RedactFilter {
    redaction: Redaction,
    stream: RedactedStream,
}

impl RedactFilter {
    pub(crate) fn new(redaction: &Redaction) -> Self {
        RedactFilter { redaction: redaction.clone(), stream: redaction.body() }
    }
}

impl Filter for RedactFilter {
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError> {
        Ok(self.stream.push(part).map(Bytes::from))
    }

    fn end(&mut self) -> Result<Bytes, BoxError> {
        Ok(self.stream.finish().into())
    }

    fn trailers(&mut self, fields: &mut HeaderMap) {
        self.redaction.fields(fields);
    }

    /// A length that was announced could be wrong by the difference of a value and its stand-in.
    fn keeps_length(&self) -> bool {
        false
    }
}
