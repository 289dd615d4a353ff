//! The same socket for hyper, which asks again when it is worth it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use super::MeteredStream;
use crate::meter::{Flow, Meter};

/// Waiting for a rate.
#[derive(Default)]
pub(crate) struct Pause(Option<Pin<Box<Sleep>>>);

impl Pause {
    fn poll(&mut self, meter: Option<&Meter>, way: Flow, context: &mut Context<'_>) -> Poll<()> {
        let Some(meter) = meter else { return Poll::Ready(()) };
        loop {
            if let Some(sleep) = &mut self.0 {
                ready!(sleep.as_mut().poll(context));
                self.0 = None;
            }
            match meter.wait(way) {
                Some(time) => self.0 = Some(Box::pin(tokio::time::sleep(time))),
                None => return Poll::Ready(()),
            }
        }
    }
}

impl MeteredStream {
    /// Reads for those who are asked again when it is worth it; `pause` holds what they wait for.
    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        pause: &mut Pause,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(pause.poll(self.meter.as_ref(), Flow::In, context));
            ready!(self.socket.poll_read_ready(context))?;
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Writes in the same way.
    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
        pause: &mut Pause,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(pause.poll(self.meter.as_ref(), Flow::Out, context));
            ready!(self.socket.poll_write_ready(context))?;
            match self.send_parts(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Ends what is sent.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.socket), context)
    }
}
