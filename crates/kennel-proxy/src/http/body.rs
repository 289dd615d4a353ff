//! Carrying one body from socket to socket.

use std::time::Duration;

use tokio::net::TcpStream;

use super::chunked::Decoder;
use super::head::{self, Body, HeadError};
use crate::relay::{Turn, read_leased, send, send_parts};

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
}

/// Carries one body. What was read beyond its end goes back to the inbox.
pub(super) async fn copy_body(
    from: &TcpStream,
    inbox: &mut Vec<u8>,
    to: &TcpStream,
    body: Body,
    framing: Framing,
    stall: Duration,
) -> Result<(), CopyError> {
    match body {
        Body::None => Ok(()),
        Body::Length(length) => {
            let first = usize::try_from(length).unwrap_or(usize::MAX).min(inbox.len());
            send(to, &inbox[..first], stall).await.map_err(|_| CopyError::To)?;
            inbox.drain(..first);
            copy_plain(from, to, length - first as u64, EndOfFile::TooEarly, stall).await
        }
        Body::UntilClose => {
            send(to, inbox, stall).await.map_err(|_| CopyError::To)?;
            inbox.clear();
            copy_plain(from, to, u64::MAX, EndOfFile::IsTheEnd, stall).await
        }
        Body::Chunked => copy_chunked(from, inbox, to, framing, stall).await,
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
    from: &TcpStream,
    to: &TcpStream,
    mut left: u64,
    end: EndOfFile,
    stall: Duration,
) -> Result<(), CopyError> {
    let mut turn = Turn::default();
    while left > 0 {
        let (lease, count) = read_leased(from, left).await.map_err(|_| CopyError::From)?;
        if count == 0 {
            return if end == EndOfFile::IsTheEnd { Ok(()) } else { Err(CopyError::From) };
        }
        send(to, &lease[..count], stall).await.map_err(|_| CopyError::To)?;
        drop(lease);
        left -= count as u64;
        turn.took(count).await;
    }
    Ok(())
}

async fn copy_chunked(
    from: &TcpStream,
    inbox: &mut Vec<u8>,
    to: &TcpStream,
    framing: Framing,
    stall: Duration,
) -> Result<(), CopyError> {
    let mut decoder = Decoder::default();
    let mut turn = Turn::default();
    let mut first = std::mem::take(inbox);
    let found = decoder.decode(&mut first).map_err(CopyError::Malformed)?;
    inbox.extend_from_slice(&first[found.used..]);
    send_chunk(to, &first[..found.data], framing, stall).await?;
    while decoder.finished().is_none() {
        let (mut lease, count) = read_leased(from, u64::MAX).await.map_err(|_| CopyError::From)?;
        if count == 0 {
            return Err(CopyError::From);
        }
        let found = decoder.decode(&mut lease[..count]).map_err(CopyError::Malformed)?;
        inbox.extend_from_slice(&lease[found.used..count]);
        send_chunk(to, &lease[..found.data], framing, stall).await?;
        drop(lease);
        turn.took(count).await;
    }
    if framing == Framing::Chunked {
        let mut end = b"0\r\n".to_vec();
        head::push_fields(&mut end, decoder.finished().unwrap_or_default());
        end.extend_from_slice(b"\r\n");
        send(to, &end, stall).await.map_err(|_| CopyError::To)?;
    }
    Ok(())
}

async fn send_chunk(to: &TcpStream, data: &[u8], framing: Framing, stall: Duration) -> Result<(), CopyError> {
    if data.is_empty() {
        return Ok(());
    }
    let sent = match framing {
        Framing::Plain => send(to, data, stall).await,
        Framing::Chunked => {
            let size = format!("{:x}\r\n", data.len());
            send_parts(to, [size.as_bytes(), data, b"\r\n"], stall).await
        }
    };
    sent.map_err(|_| CopyError::To)
}
