//! Bodies on their way through the gate, part by part.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use crate::clock::within;
use crate::secrets::{EchoStream, PAUSE, Redaction, SplitEcho, SwapRefusal, SwapStream};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// Any body of this lane.
pub(crate) type AnyBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// How long, and how much, a client is listened to that still sends what nobody wants: most hear only then why.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
pub(crate) const MAX_DRAINED: usize = 1 << 20;

/// A client's body, which whoever answers early can take back.
pub(crate) struct Lent(Rc<RefCell<Incoming>>);

/// What is left of it.
pub(crate) struct Lender(Rc<RefCell<Incoming>>);

impl Lent {
    pub(crate) fn of(body: Incoming) -> (Lent, Lender) {
        let body = Rc::new(RefCell::new(body));
        (Lent(Rc::clone(&body)), Lender(body))
    }
}

impl Lender {
    /// Reads what nobody wants of the body, for a while. Nothing, as long as somebody else has it.
    pub(crate) async fn drain(self) {
        let Some(body) = Rc::into_inner(self.0) else { return };
        let mut body = body.into_inner();
        let drain = async {
            let mut left = MAX_DRAINED;
            while left > 0
                && let Some(Ok(frame)) = body.frame().await
            {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            }
            Ok(())
        };
        let _ = within(LINGER, drain).await;
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut body = self.0.borrow_mut();
        Pin::new(&mut *body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.borrow().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.borrow().size_hint()
    }
}

/// What happens to the parts of a body.
pub(crate) trait Filter: Unpin {
    /// A part: `Ok(None)` lets it pass as it is.
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError>;
    /// The end, and what was held back.
    fn end(&mut self) -> Result<Bytes, BoxError>;
    /// Whether something is held back that may be handed on once the sender has paused.
    fn holds(&self) -> bool {
        false
    }
    /// The sender has paused: what was held back.
    fn paused(&mut self) -> Result<Bytes, BoxError> {
        Ok(Bytes::new())
    }
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
    /// Runs while something is held back and the sender sends nothing.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B: Body, F> Filtered<B, F> {
    pub(crate) fn new(body: B, filter: F) -> Self {
        let ended = body.is_end_stream();
        Filtered { body, filter, trailers: None, ended, pause: None }
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
            // Asked first: a client that does not read makes no pause of the sender's.
            let Poll::Ready(next) = Pin::new(&mut this.body).poll_frame(context) else {
                if !this.filter.holds() {
                    return Poll::Pending;
                }
                let pause = this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
                ready!(pause.as_mut().poll(context));
                this.pause = None;
                match this.filter.paused() {
                    Ok(out) if out.is_empty() => return Poll::Pending,
                    Ok(out) => return Poll::Ready(Some(Ok(Frame::data(out)))),
                    Err(error) => {
                        this.ended = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            };
            this.pause = None;
            let part = match next {
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
            // Where a body ends in an empty part (HTTP/2), that would be a frame of its own, which says nothing. Node's clients
            // end a connection that has brought a thousand such.
            if part.is_empty() {
                continue;
            }
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

/// A value of which a part was handed on already.
pub(crate) fn split(_: SplitEcho) -> BoxError {
    "the response holds a secret, in two parts with a pause between them".into()
}

/// A response's body: real values become stand-ins.
pub(crate) struct RedactFilter {
    redaction: Redaction,
    stream: EchoStream,
}

impl RedactFilter {
    pub(crate) fn new(redaction: Redaction) -> Self {
        RedactFilter { stream: redaction.body(), redaction }
    }
}

impl Filter for RedactFilter {
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError> {
        self.stream.push(part).map(|out| out.map(Bytes::from)).map_err(split)
    }

    fn end(&mut self) -> Result<Bytes, BoxError> {
        self.stream.finish().map(Bytes::from).map_err(split)
    }

    fn holds(&self) -> bool {
        self.stream.holds()
    }

    fn paused(&mut self) -> Result<Bytes, BoxError> {
        self.stream.paused().map(Bytes::from).map_err(split)
    }

    fn trailers(&mut self, fields: &mut HeaderMap) {
        self.redaction.fields(fields);
    }

    /// A length that was announced could be wrong by the difference of a value and its stand-in.
    fn keeps_length(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Parts, one behind the other.
    struct Parts(VecDeque<&'static str>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
        }
    }

    /// Lets everything pass.
    struct Open;

    impl Filter for Open {
        fn part(&mut self, _: &Bytes) -> Result<Option<Bytes>, BoxError> {
            Ok(None)
        }

        fn end(&mut self) -> Result<Bytes, BoxError> {
            Ok(Bytes::new())
        }

        fn trailers(&mut self, _: &mut HeaderMap) {}

        fn keeps_length(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn an_empty_part_is_no_frame() {
        let parts = ["", "data: a\n\n", "", "", "data: b\n\n", ""];
        let mut body = Filtered::new(Parts(parts.into()), Open);
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            frames.push(frame.expect("nothing fails").into_data().expect("no trailers"));
        }
        assert_eq!(frames, ["data: a\n\n", "data: b\n\n"]);
    }
}
