//! A socket with what was read from it too early, as others take streams.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::metered::{MeteredStream, Pause};
use crate::relay::Wire;

pub(crate) struct Buffered {
    inbox: Vec<u8>,
    used: usize,
    pub(crate) stream: MeteredStream,
    reading: Pause,
    writing: Pause,
}

impl From<Wire> for Buffered {
    fn from(Wire { stream, inbox }: Wire) -> Self {
        Buffered { inbox, used: 0, stream, reading: Pause::default(), writing: Pause::default() }
    }
}

impl AsyncRead for Buffered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.used < self.inbox.len() {
            let count = buffer.remaining().min(self.inbox.len() - self.used);
            buffer.put_slice(&self.inbox[self.used..self.used + count]);
            self.used += count;
            if self.used == self.inbox.len() {
                (self.inbox, self.used) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        let Buffered { stream, reading, .. } = &mut *self;
        let count = ready!(stream.poll_read(context, buffer.initialize_unfilled(), reading))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Buffered { stream, writing, .. } = self.get_mut();
        stream.poll_write(context, parts, writing)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(context)
    }
}
