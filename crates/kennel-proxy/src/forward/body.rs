//! Carrying one body from socket to socket.

use std::time::Duration;

use super::leak::{LeakSearch, PAUSE};
use crate::http::chunked::Decoder;
use crate::http::head::{self, Body, HeadError};
use crate::metered::MeteredStream;
use crate::relay::{Lease, Turn, read_leased, send, send_parts};

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Plain,
    Chunked,
}

pub(super) enum CopyError {
    /// The sender broke off.
    From,
    /// The receiver does not take it.
    To,
    /// The sender's chunks are broken.
    Malformed(HeadError),
    /// It holds what must not come back.
    Leak,
}

/// Where a body goes.
pub(super) struct Sink<'a> {
    pub(super) to: &'a MeteredStream,
    pub(super) framing: Framing,
    pub(super) stall: Duration,
    /// What it must not hold.
    pub(super) search: Option<&'a mut LeakSearch>,
}

impl Sink<'_> {
    async fn send(&mut self, data: &[u8]) -> Result<(), CopyError> {
        match &mut self.search {
            None => self.write(data).await,
            Some(search) => {
                let data = search.pass(data).map_err(|_| CopyError::Leak)?;
                self.write(&data).await
            }
        }
    }

    /// The end of a body: what was held back belongs to it.
    async fn end(&mut self) -> Result<(), CopyError> {
        match &mut self.search {
            None => Ok(()),
            Some(search) => {
                let rest = search.rest().map_err(|_| CopyError::Leak)?;
                self.write(&rest).await
            }
        }
    }

    /// What comes next. While something is held back, a sender that pauses lets it go.
    async fn next(&mut self, from: &MeteredStream, most: u64) -> Result<(Lease, usize), CopyError> {
        if let Some(search) = &mut self.search
            && search.holds()
        {
            match tokio::time::timeout(PAUSE, read_leased(from, most)).await {
                Ok(read) => return read.map_err(|_| CopyError::From),
                Err(_) => {
                    let held = search.paused().map_err(|_| CopyError::Leak)?;
                    self.write(&held).await?;
                }
            }
        }
        read_leased(from, most).await.map_err(|_| CopyError::From)
    }

    async fn write(&self, data: &[u8]) -> Result<(), CopyError> {
        if data.is_empty() {
            return Ok(());
        }
        let sent = match self.framing {
            Framing::Plain => send(self.to, data, self.stall).await,
            Framing::Chunked => {
                let size = format!("{:x}\r\n", data.len());
                send_parts(self.to, [size.as_bytes(), data, b"\r\n"], self.stall).await
            }
        };
        sent.map_err(|_| CopyError::To)
    }
}

/// Carries one body. What was read beyond its end goes back to the inbox.
pub(super) async fn copy_body(
    from: &MeteredStream,
    inbox: &mut Vec<u8>,
    body: Body,
    mut sink: Sink<'_>,
) -> Result<(), CopyError> {
    match body {
        Body::None => Ok(()),
        Body::Length(length) => {
            let first = usize::try_from(length).unwrap_or(usize::MAX).min(inbox.len());
            sink.send(&inbox[..first]).await?;
            inbox.drain(..first);
            copy_plain(from, &mut sink, length - first as u64, EndOfFile::TooEarly).await?;
            sink.end().await
        }
        Body::UntilClose => {
            sink.send(inbox).await?;
            inbox.clear();
            copy_plain(from, &mut sink, u64::MAX, EndOfFile::IsTheEnd).await?;
            sink.end().await
        }
        Body::Chunked => copy_chunked(from, inbox, sink).await,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EndOfFile {
    TooEarly,
    IsTheEnd,
}

/// Waits for the sender for as long as it takes: events may be hours apart, and one that has vanished is noticed by
/// TCP's keep-alive.
async fn copy_plain(
    from: &MeteredStream,
    sink: &mut Sink<'_>,
    mut left: u64,
    end: EndOfFile,
) -> Result<(), CopyError> {
    let mut turn = Turn::default();
    while left > 0 {
        let (lease, count) = sink.next(from, left).await?;
        if count == 0 {
            return if end == EndOfFile::IsTheEnd { Ok(()) } else { Err(CopyError::From) };
        }
        sink.send(&lease[..count]).await?;
        drop(lease);
        left -= count as u64;
        turn.took(count).await;
    }
    Ok(())
}

async fn copy_chunked(
    from: &MeteredStream,
    inbox: &mut Vec<u8>,
    mut sink: Sink<'_>,
) -> Result<(), CopyError> {
    let mut decoder = Decoder::default();
    let mut turn = Turn::default();
    let mut first = std::mem::take(inbox);
    let found = decoder.decode(&mut first).map_err(CopyError::Malformed)?;
    inbox.extend_from_slice(&first[found.used..]);
    sink.send(&first[..found.data]).await?;
    while decoder.finished().is_none() {
        let (mut lease, count) = sink.next(from, u64::MAX).await?;
        if count == 0 {
            return Err(CopyError::From);
        }
        let found = decoder.decode(&mut lease[..count]).map_err(CopyError::Malformed)?;
        inbox.extend_from_slice(&lease[found.used..count]);
        sink.send(&lease[..found.data]).await?;
        drop(lease);
        turn.took(count).await;
    }
    sink.end().await?;
    if sink.framing == Framing::Chunked {
        let mut end = b"0\r\n".to_vec();
        head::push_fields(&mut end, decoder.finished().unwrap_or_default());
        end.extend_from_slice(b"\r\n");
        if let Some(search) = &sink.search {
            search.check(&end).map_err(|_| CopyError::Leak)?;
        }
        send(sink.to, &end, sink.stall).await.map_err(|_| CopyError::To)?;
    }
    Ok(())
}
