//! Reading requests from a client, one after the other over one connection, and the last words to one whose request is refused.

use std::io;

use super::refusal::Page;
use crate::clock::{expect_deadlines, within};
use crate::http::head::{self, Body, HeadError, Request};
use crate::metered::MeteredStream;
use crate::relay::{Wire, farewell, fill, send};
use crate::times::Times;

/// Where bytes come from, with what was read of them.
pub(crate) trait HeadSource {
    fn inbox(&mut self) -> &mut Vec<u8>;
    /// Reads some more; 0 is the end.
    async fn fill(&mut self) -> io::Result<usize>;
}

impl HeadSource for Wire {
    fn inbox(&mut self) -> &mut Vec<u8> {
        &mut self.inbox
    }

    async fn fill(&mut self) -> io::Result<usize> {
        Wire::fill(self).await
    }
}

impl HeadSource for (&MeteredStream, &mut Vec<u8>) {
    fn inbox(&mut self) -> &mut Vec<u8> {
        self.1
    }

    async fn fill(&mut self) -> io::Result<usize> {
        fill(self.0, self.1).await
    }
}

/// What comes next from a client.
pub(crate) enum Next {
    Request(Request),
    /// What is no request.
    Malformed(HeadError),
    /// A request that did not become whole in time.
    Slow,
    /// Nothing.
    End,
}

/// Reads the next request of a client, by whichever door it came: nothing else reads heads of requests in HTTP/1.1.
pub(crate) async fn next_request(client: &mut impl HeadSource, times: Times, first: bool) -> Next {
    expect_deadlines();
    let skip = head::leading_empty_lines(client.inbox());
    client.inbox().drain(..skip);
    if client.inbox().is_empty() {
        let patience = if first { times.head } else { times.idle };
        if !matches!(within(patience, client.fill()).await, Ok(1..)) {
            return Next::End;
        }
    }
    match within(times.head, read_head(client)).await {
        Ok(Some(bytes)) => match Request::parse(&bytes).and_then(|head| head.body().map(|_| head)) {
            Ok(request) => Next::Request(request),
            Err(error) => Next::Malformed(error),
        },
        Ok(None) => Next::End,
        Err(error) => match error.kind() {
            io::ErrorKind::InvalidData => Next::Malformed(HeadError::TooLarge),
            io::ErrorKind::TimedOut => Next::Slow,
            _ => Next::End,
        },
    }
}

/// A whole head; `None` when the connection ends before one.
pub(super) async fn read_head(source: &mut impl HeadSource) -> io::Result<Option<Vec<u8>>> {
    let mut seen = 0;
    loop {
        let inbox = source.inbox();
        let skip = if seen == 0 { head::leading_empty_lines(inbox) } else { 0 };
        inbox.drain(..skip);
        if let Some(end) = head::end(inbox, seen) {
            if end > head::MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            return Ok(Some(inbox.drain(..end).collect()));
        }
        seen = inbox.len();
        if seen > head::MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if source.fill().await? == 0 {
            return Ok(None);
        }
    }
}

/// Ends a connection with a page, when there is no request to answer.
pub(crate) async fn close_with_page(client: &Wire, page: &Page, times: Times) {
    farewell(&client.stream, &page.to_bytes("GET", false), times.stall).await;
}

pub(crate) async fn respond_and_close(client: &Wire, page: &Page, request: &Request, times: Times) {
    farewell(&client.stream, &page.to_bytes(&request.method, false), times.stall).await;
}

/// Answers a request with a page of the proxy's own. `None` when the connection is over: a body that nobody reads
/// would be taken for the next request.
pub(crate) async fn respond_and_drain(
    client: &Wire,
    page: &Page,
    request: &Request,
    times: Times,
) -> Option<()> {
    if !request.keeps_alive() || request.body() != Ok(Body::None) {
        respond_and_close(client, page, request, times).await;
        return None;
    }
    send(&client.stream, &page.to_bytes(&request.method, true), times.stall).await.ok()
}
