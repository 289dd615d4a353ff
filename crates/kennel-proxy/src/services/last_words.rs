//! Why a server broke off, also where its reset overtakes the reason.
//!
//! In TLS 1.3 a server that misses its client's certificate says so after the handshake, and closes. The request is on its way then:
//! writing it fails, and whoever stops there never reads the alert that came before the reset. So a write that fails reads once more.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a server's last alert said.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWords(Arc<Mutex<Option<String>>>);

impl LastWords {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another connection has said nothing yet.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn hear(&self, error: &io::Error) -> bool {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let is_alert = matches!(tls, Some(rustls::Error::AlertReceived(_)));
        if let (true, Some(tls)) = (is_alert, tls) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tls.to_string());
        }
        is_alert
    }
}

/// A stream whose last words are kept.
pub(super) struct Heard<S> {
    stream: S,
    words: LastWords,
    /// A write failed, and the reason may still be to be read.
    failed: Option<io::Error>,
    /// What was read on the way to it.
    early: Vec<u8>,
}

/// As much is kept of what came before a reset.
const MAX_EARLY: usize = 256 << 10;

impl<S> Heard<S> {
    pub(super) fn new(stream: S, words: LastWords) -> Heard<S> {
        Heard { stream, words, failed: None, early: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> Heard<S> {
    /// What a write came to. One that failed because the other side is gone waits for what that side said: a socket that was reset
    /// can be read to the end, so this does not wait for long.
    fn written<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match done {
            Poll::Ready(Err(error)) => {
                let is_gone = matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset);
                if self.words.hear(&error) || !is_gone {
                    return Poll::Ready(Err(error));
                }
                self.failed = Some(error);
                self.reason(context).map(Err)
            }
            done => done,
        }
    }

    fn reason(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut room = [0; 4096];
        let reason = loop {
            let mut buffer = ReadBuf::new(&mut room);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() && self.early.len() < MAX_EARLY => {
                    self.early.extend_from_slice(buffer.filled());
                }
                Err(reason) if self.words.hear(&reason) => break Some(reason),
                _ => break None,
            }
        };
        let failed = self.failed.take();
        Poll::Ready(reason.or(failed).unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let count = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early[..count]);
            self.early.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.words.hear(error);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return self.reason(context).map(Err);
        }
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return self.reason(context).map(Err);
        }
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
