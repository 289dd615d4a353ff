//! HTTP/1.1 towards clients whose requests are read, over any stream. Each head is read by the gate's own reader
//! ([`crate::http::head`]), as at every other door; the answer is written anew.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::body::{AnyBody, BoxError, LINGER, MAX_DRAINED};
use super::stream::Buffered;
use crate::clock::within;
use crate::forward::refusal::Page;
use crate::forward::requests::{HeadSource, Next, next_request};
use crate::http::chunked::Decoder;
use crate::http::head::{self, HeadError};
use crate::relay::Wire;
use crate::times::Times;

/// As much is read at once.
const READ: usize = 16 << 10;

/// What a client is connected by.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + 'static> Stream for S {}

/// A stream with what was read from it too early.
pub(crate) struct ClientStream<S> {
    stream: S,
    inbox: Vec<u8>,
}

impl<S> ClientStream<S> {
    pub(crate) fn new(stream: S) -> ClientStream<S> {
        ClientStream { stream, inbox: Vec::new() }
    }

    /// The stream, of which nothing was read.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }
}

impl From<Wire> for ClientStream<Buffered> {
    fn from(Wire { stream, inbox }: Wire) -> Self {
        ClientStream { stream: Buffered::from(Wire::new(stream)), inbox }
    }
}

impl From<ClientStream<Buffered>> for Wire {
    fn from(ClientStream { stream, inbox }: ClientStream<Buffered>) -> Self {
        Wire { stream: stream.stream, inbox }
    }
}

impl<S: Stream> HeadSource for ClientStream<S> {
    fn inbox(&mut self) -> &mut Vec<u8> {
        &mut self.inbox
    }

    async fn fill(&mut self) -> io::Result<usize> {
        poll_fn(|context| fill(&mut self.stream, &mut self.inbox, context)).await
    }
}

/// Reads some more; 0 is the end.
fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    inbox: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut room = [0; READ];
    let mut buffer = ReadBuf::new(&mut room);
    ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
    inbox.extend_from_slice(buffer.filled());
    Poll::Ready(Ok(buffer.filled().len()))
}

/// What a client gets.
pub(crate) struct Answer {
    pub(crate) response: Response<AnyBody>,
    /// What becomes of the connection behind a response that changes the protocol.
    pub(crate) then: Option<Then>,
}

pub(crate) type Then = Box<dyn FnOnce(Box<dyn Stream>) -> Pin<Box<dyn Future<Output = ()>>>>;

impl From<Page> for Answer {
    fn from(page: Page) -> Answer {
        let (fields, text) = page.parts();
        let mut response: Response<AnyBody> =
            Response::new(Box::pin(Full::new(Bytes::from(text)).map_err(|never| match never {})));
        *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::BAD_GATEWAY);
        for head::Field { name, value } in fields {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        if let Ok(phrase) = ReasonPhrase::try_from(page.shown_phrase()) {
            response.extensions_mut().insert(phrase);
        }
        Answer { response, then: None }
    }
}

/// Serves a client until its connection ends. `service` answers one request; an error of its closes the connection. `refused` is told
/// of each head that is refused.
pub(crate) async fn serve<S: Stream>(
    mut client: ClientStream<S>,
    times: Times,
    service: impl AsyncFn(head::Request, AnyBody) -> Result<Answer, BoxError>,
    refused: impl Fn(HeadError),
) {
    loop {
        // Some clients connect before they have a request.
        let page = match next_request(&mut client, times, false).await {
            Next::Request(request) => {
                let Some(next) = respond(client, request, times, &service).await else { return };
                client = next;
                continue;
            }
            Next::Malformed(error) => {
                refused(error);
                Page::malformed(error)
            }
            Next::Slow => Page::slow(),
            Next::End => return,
        };
        let connection = Connection::new(client, head::Body::None, b"");
        let _ = connection.write(&page.to_bytes("GET", false)[..], times).await;
        return connection.close().await;
    }
}

/// Answers one request. `None` when the connection is over.
pub(crate) async fn respond<S: Stream>(
    client: ClientStream<S>,
    request: head::Request,
    times: Times,
    service: impl AsyncFnOnce(head::Request, AnyBody) -> Result<Answer, BoxError>,
) -> Option<ClientStream<S>> {
    let framing = request.body().ok()?;
    let expects =
        request.minor == 1 && head::list(&request.fields, "expect").any(|word| word == "100-continue");
    let interim: &[u8] = if expects { b"HTTP/1.1 100 Continue\r\n\r\n" } else { b"" };
    let connection = Rc::new(Connection::new(client, framing, interim));
    let end = converse(&connection, request, times, service).await;
    match end {
        End::Cut => None,
        End::Close => {
            connection.close().await;
            None
        }
        End::Stay => Rc::try_unwrap(connection).ok().map(Connection::into_client),
        End::Upgrade(then) => {
            let client = Rc::try_unwrap(connection).ok()?.into_client();
            let inbox = io::Cursor::new(client.inbox);
            let (reads, writes) = tokio::io::split(client.stream);
            let reads = tokio::io::AsyncReadExt::chain(inbox, reads);
            // Here, so that the connection keeps its slot.
            then(Box::new(tokio::io::join(reads, writes))).await;
            None
        }
    }
}

/// What becomes of a connection behind an answer.
enum End {
    /// The next request may come.
    Stay,
    /// It was the last one.
    Close,
    /// Something ended in the middle.
    Cut,
    /// It carries something else from here on.
    Upgrade(Then),
}

async fn converse<S: Stream>(
    connection: &Rc<Connection<S>>,
    request: head::Request,
    times: Times,
    service: impl AsyncFnOnce(head::Request, AnyBody) -> Result<Answer, BoxError>,
) -> End {
    let (is_head, minor) = (request.method == "HEAD", request.minor);
    let wants_to_stay = request.keeps_alive();
    // A client that goes away waits for no answer.
    let gone = connection.gone();
    tokio::pin!(gone);
    let answer = tokio::select! {
        biased;
        answer = service(request, connection.body()) => answer,
        () = &mut gone => return End::Cut,
    };
    let Ok(Answer { response, then }) = answer else { return End::Cut };
    // A client that waits for a word before it sends its body gets another one.
    if connection.state.get() == Reading::Left && connection.interim.get().is_empty() {
        connection.drain().await;
    }
    let is_whole = connection.state.get() == Reading::Done;
    // What was begun of it could not be told from the answer.
    let interim = connection.interim.replace(b"");
    if !interim.is_empty() && !interim.starts_with(b"HTTP") {
        return End::Cut;
    }
    let (parts, mut body) = response.into_parts();
    if let Some(then) = then {
        let head = head_bytes(&parts, Framing::None, true, minor);
        return match connection.write(&head[..], times).await {
            Ok(()) if is_whole => End::Upgrade(then),
            _ => End::Cut,
        };
    }
    let stated = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut framing = match stated.or_else(|| body.size_hint().exact()) {
        _ if is_head || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) => {
            Framing::None
        }
        Some(length) => Framing::Length(length),
        None if minor == 1 => Framing::Chunked,
        None => Framing::UntilClose,
    };
    let stays = wants_to_stay && is_whole && !matches!(framing, Framing::UntilClose);
    // Goes with the first part of the body where that is there already: a small answer is one packet, and wakes its client once.
    let mut head = Bytes::from(head_bytes(&parts, framing, stays, minor));
    while !matches!(framing, Framing::None) {
        let next = tokio::select! {
            biased;
            next = body.frame() => next,
            () = std::future::ready(()), if !head.is_empty() => {
                if connection.write(std::mem::take(&mut head), times).await.is_err() {
                    return End::Cut;
                }
                continue;
            }
            () = &mut gone => return End::Cut,
        };
        let data = match next {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => data,
                // Clients of this kind are not told of fields behind a body.
                Err(_) => continue,
            },
            Some(Err(_)) => {
                let _ = connection.write(head, times).await;
                return End::Cut;
            }
            None => break,
        };
        let written = match &mut framing {
            Framing::Length(left) => match left.checked_sub(data.len() as u64) {
                Some(rest) => {
                    *left = rest;
                    connection.write(std::mem::take(&mut head).chain(data), times).await
                }
                None => return End::Cut,
            },
            Framing::Chunked => {
                let size = Bytes::from(format!("{:x}\r\n", data.len()));
                let chunk = size.chain(data).chain(&b"\r\n"[..]);
                connection.write(std::mem::take(&mut head).chain(chunk), times).await
            }
            Framing::UntilClose | Framing::None => {
                connection.write(std::mem::take(&mut head).chain(data), times).await
            }
        };
        if written.is_err() {
            return End::Cut;
        }
    }
    let rest: &[u8] = if matches!(framing, Framing::Chunked) { b"0\r\n\r\n" } else { b"" };
    if matches!(framing, Framing::Length(1..)) || connection.write(head.chain(rest), times).await.is_err() {
        return End::Cut;
    }
    if stays { End::Stay } else { End::Close }
}

#[derive(Clone, Copy)]
enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// A response's head.
fn head_bytes(parts: &hyper::http::response::Parts, framing: Framing, stays: bool, minor: u8) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {:03} ", parts.status.as_u16()).into_bytes();
    match parts.extensions.get::<ReasonPhrase>() {
        Some(phrase) => bytes.extend_from_slice(phrase.as_bytes()),
        None => bytes.extend_from_slice(parts.status.canonical_reason().unwrap_or_default().as_bytes()),
    }
    bytes.extend_from_slice(b"\r\n");
    let mut field = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    let is_upgrade = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in &parts.headers {
        if is_upgrade || (name != CONNECTION && name != TRANSFER_ENCODING) {
            field(name.as_str(), value.as_bytes());
        }
    }
    match framing {
        Framing::Length(length) if !parts.headers.contains_key(CONTENT_LENGTH) => {
            field("content-length", length.to_string().as_bytes());
        }
        Framing::Chunked => field("transfer-encoding", b"chunked"),
        _ => {}
    }
    if !stays {
        field("connection", b"close");
    } else if minor == 0 {
        field("connection", b"keep-alive");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A request's head as services take it, with this path and query.
pub(crate) fn parts(request: &head::Request, line: &str) -> Result<Parts, Page> {
    let bad = || Page::request(400, "Bad Request", "the address is not valid.");
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(request.method.as_bytes()).map_err(|_| bad())?;
    parts.uri = line.parse().map_err(|_| bad())?;
    for head::Field { name, value } in &request.fields {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        parts.headers.append(name, HeaderValue::from_bytes(value).map_err(|_| bad())?);
    }
    Ok(parts)
}

/// How far the body of a request was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Somebody reads it.
    Open,
    /// To its end.
    Done,
    /// Nobody reads the rest.
    Left,
    /// It is broken, or the client is gone.
    Broken,
}

/// Takes the framing off a body.
enum Reader {
    Length(u64),
    Chunked(Decoder),
}

/// A client's connection while it is answered: the body of its request may be read by another task.
struct Connection<S> {
    stream: RefCell<S>,
    inbox: RefCell<Vec<u8>>,
    reader: RefCell<Reader>,
    state: Cell<Reading>,
    /// The state has changed.
    news: Notify,
    /// What of an interim answer is still to be written before the body is read.
    interim: Cell<&'static [u8]>,
}

impl<S: Stream> Connection<S> {
    fn new(client: ClientStream<S>, framing: head::Body, interim: &'static [u8]) -> Connection<S> {
        let (reader, state) = match framing {
            head::Body::Length(length) => (Reader::Length(length), Reading::Open),
            head::Body::Chunked => (Reader::Chunked(Decoder::default()), Reading::Open),
            head::Body::None | head::Body::UntilClose => (Reader::Length(0), Reading::Done),
        };
        Connection {
            stream: RefCell::new(client.stream),
            inbox: RefCell::new(client.inbox),
            reader: RefCell::new(reader),
            state: Cell::new(state),
            news: Notify::new(),
            interim: Cell::new(interim),
        }
    }

    fn into_client(self) -> ClientStream<S> {
        ClientStream { stream: self.stream.into_inner(), inbox: self.inbox.into_inner() }
    }

    fn set(&self, state: Reading) {
        self.state.set(state);
        self.news.notify_one();
    }

    fn body(self: &Rc<Self>) -> AnyBody {
        match self.state.get() {
            Reading::Open => Box::pin(RequestBody(Some(Rc::clone(self)))),
            _ => Box::pin(Empty::new().map_err(|never| match never {})),
        }
    }

    /// The next part of the request's body; `None` behind its end.
    fn poll_body(&self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.state.get() == Reading::Done {
            return Poll::Ready(None);
        }
        let part = self.poll_part(context);
        if let Poll::Ready(Some(Err(_))) = &part {
            self.set(Reading::Broken);
        }
        part
    }

    fn poll_part(&self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let (mut stream, mut inbox) = (self.stream.borrow_mut(), self.inbox.borrow_mut());
        while let interim @ [_, ..] = self.interim.get() {
            let count = ready!(Pin::new(&mut *stream).poll_write(context, interim))?;
            self.interim.set(&interim[count..]);
        }
        loop {
            if !inbox.is_empty() {
                let (data, used, is_end) = match &mut *self.reader.borrow_mut() {
                    Reader::Length(left) => {
                        let count = usize::try_from(*left).unwrap_or(usize::MAX).min(inbox.len());
                        *left -= count as u64;
                        (count, count, *left == 0)
                    }
                    Reader::Chunked(decoder) => {
                        let found = decoder.decode(&mut inbox[..]).map_err(|error| broken(&error))?;
                        (found.data, found.used, decoder.finished().is_some())
                    }
                };
                let part = Bytes::copy_from_slice(&inbox[..data]);
                inbox.drain(..used);
                if is_end {
                    self.set(Reading::Done);
                }
                match (part.is_empty(), is_end) {
                    (false, _) => return Poll::Ready(Some(Ok(part))),
                    (true, true) => return Poll::Ready(None),
                    (true, false) => {}
                }
            }
            ready!(Pin::new(&mut *stream).poll_flush(context))?;
            if ready!(fill(&mut *stream, &mut inbox, context))? == 0 {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
        }
    }

    /// Reads what nobody wants of a body, for a while.
    async fn drain(&self) {
        let drain = async {
            let mut left = MAX_DRAINED;
            while left > 0
                && let Some(part) = poll_fn(|context| self.poll_body(context)).await
            {
                left = left.saturating_sub(part?.len());
            }
            Ok(())
        };
        let _ = within(LINGER, drain).await;
    }

    /// Waits until the client ends, while none of its request is to be read. What it says of its next one is kept.
    async fn gone(&self) {
        while self.state.get() != Reading::Done {
            self.news.notified().await;
        }
        if self.inbox.borrow().is_empty() {
            let read = poll_fn(|context| {
                fill(&mut *self.stream.borrow_mut(), &mut self.inbox.borrow_mut(), context)
            });
            if !matches!(read.await, Ok(1..)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn write(&self, mut bytes: impl Buf, times: Times) -> io::Result<()> {
        let write = async {
            while bytes.has_remaining() {
                let count = poll_fn(|context| {
                    let mut parts = [IoSlice::new(&[]); 8];
                    let count = bytes.chunks_vectored(&mut parts);
                    Pin::new(&mut *self.stream.borrow_mut()).poll_write_vectored(context, &parts[..count])
                });
                match count.await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => bytes.advance(count),
                }
            }
            poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_flush(context)).await
        };
        within(times.stall, write).await
    }

    /// Closes in a way that lets the client read what it was told: closing a socket that still has unread input is a reset, which can
    /// overtake that.
    async fn close(&self) {
        let close = async {
            poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context)).await?;
            let (mut left, mut some) = (MAX_DRAINED, Vec::new());
            while left > 0 {
                let read = poll_fn(|context| fill(&mut *self.stream.borrow_mut(), &mut some, context));
                match read.await? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
                some.clear();
            }
            Ok(())
        };
        let _ = within(LINGER, close).await;
    }
}

fn broken(error: &HeadError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// The body of a request on its way to a service. It lets go of the connection at its end.
struct RequestBody<S: Stream>(Option<Rc<Connection<S>>>);

impl<S: Stream> Body for RequestBody<S> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(connection) = &self.0 else { return Poll::Ready(None) };
        let part = ready!(connection.poll_body(context));
        if connection.state.get() != Reading::Open {
            self.0 = None;
        }
        Poll::Ready(part.map(|part| part.map(Frame::data).map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.0.as_ref().map(|connection| connection.reader.borrow()).as_deref() {
            None => SizeHint::with_exact(0),
            Some(Reader::Length(left)) => SizeHint::with_exact(*left),
            Some(Reader::Chunked(_)) => SizeHint::default(),
        }
    }
}

impl<S: Stream> Drop for RequestBody<S> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take()
            && connection.state.get() == Reading::Open
        {
            connection.set(Reading::Left);
        }
    }
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
