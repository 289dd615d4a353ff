//! A socket whose bytes are counted where it leads away from the sandbox. Nothing else in the gate reads or writes a connection: what
//! is not counted has no way around this.

#[cfg(unix)]
mod polled;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::clock::within;
use crate::meter::{Flow, Halt, Meter};
use crate::sockets::{self, at_once};

#[cfg(unix)]
pub(crate) use polled::Pause;

pub(crate) struct MeteredStream {
    socket: TcpStream,
    /// `None` for a client inside, and where there is no budget.
    meter: Option<Meter>,
}

#[cfg(unix)]
impl std::os::fd::AsFd for MeteredStream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.socket)
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for MeteredStream {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        std::os::windows::io::AsSocket::as_socket(&self.socket)
    }
}

impl MeteredStream {
    /// A connection of a program inside, or one to a server inside.
    pub(crate) fn of_inside(socket: TcpStream) -> Self {
        MeteredStream { socket, meter: None }
    }

    /// One that leads away.
    pub(crate) fn of_outside(socket: TcpStream, meter: Option<Meter>) -> Self {
        MeteredStream { socket, meter }
    }

    /// The same, as one that leads away.
    pub(crate) fn counted(self, meter: Option<Meter>) -> Self {
        MeteredStream { meter, ..self }
    }

    pub(crate) fn original_destination(&self) -> io::Result<SocketAddr> {
        sockets::original_destination(&self.socket)
    }

    /// Waits until there is something to read, or the end, which stay there.
    pub(crate) async fn input(&self) -> io::Result<()> {
        sockets::input(&self.socket).await
    }

    /// Whether there is neither something to read nor the end, as far as is known.
    pub(crate) fn is_quiet(&self) -> bool {
        let look = self.socket.try_io(Interest::READABLE, || sockets::peek(&self.socket));
        look.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until there may be something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        if let Some(meter) = &self.meter {
            meter.until(Flow::In).await;
        }
        self.socket.readable().await
    }

    /// Waits until something can be written. A peer that takes nothing for `stall` is given up; what waits for its turn is not.
    pub(crate) async fn writable(&self, stall: Duration) -> io::Result<()> {
        if let Some(meter) = &self.meter {
            meter.until(Flow::Out).await;
        }
        within(stall, self.socket.writable()).await
    }

    /// Reads what is there, without having waited.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer.len(), |most| {
            at_once(&self.socket, Interest::READABLE, || sockets::receive(&self.socket, &mut buffer[..most]))
        })
    }

    /// The same after having waited.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer.len(), |most| self.socket.try_read(&mut buffer[..most]))
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes.len(), |most| {
            at_once(&self.socket, Interest::WRITABLE, || sockets::send(&self.socket, &bytes[..most]))
        })
    }

    /// Sends parts one behind the other, in one call.
    pub(crate) fn send_parts(&self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write(parts.iter().map(|part| part.len()).sum(), |most| {
            at_once(&self.socket, Interest::WRITABLE, || send_parts(&self.socket, parts, most))
        })
    }

    /// The limit of a budget that ended it, if one did.
    pub(crate) fn ended_by(&self) -> Option<&str> {
        self.meter.as_ref()?.ended_by()
    }

    fn read(&self, most: usize, call: impl FnOnce(usize) -> io::Result<usize>) -> io::Result<usize> {
        let Some(meter) = &self.meter else { return call(most) };
        match meter.pass(Flow::In, most, call) {
            Ok(moved) => moved,
            Err(Halt::Wait(_)) => Err(io::ErrorKind::WouldBlock.into()),
            // The end is no byte.
            Err(Halt::Spent(limit)) => {
                match at_once(&self.socket, Interest::READABLE, || sockets::peek(&self.socket))? {
                    0 => Ok(0),
                    _ => Err(meter.spent(limit)),
                }
            }
        }
    }

    fn write(&self, most: usize, call: impl FnOnce(usize) -> io::Result<usize>) -> io::Result<usize> {
        let Some(meter) = self.meter.as_ref().filter(|_| most > 0) else { return call(most) };
        match meter.pass(Flow::Out, most, call) {
            Ok(moved) => moved,
            Err(Halt::Wait(_)) => Err(io::ErrorKind::WouldBlock.into()),
            Err(Halt::Spent(limit)) => Err(meter.spent(limit)),
        }
    }
}

/// Parts in one call, of all together at most so many bytes.
fn send_parts(socket: &TcpStream, parts: &[io::IoSlice<'_>], most: usize) -> io::Result<usize> {
    let mut left = most;
    let whole = parts.iter().take_while(|part| {
        let fits = part.len() <= left;
        left -= if fits { part.len() } else { 0 };
        fits
    });
    let whole = whole.count();
    if whole == parts.len() {
        return sockets::send_parts(socket, parts);
    }
    match parts[..whole].iter().any(|part| !part.is_empty()) {
        true => sockets::send_parts(socket, &parts[..whole]),
        false => sockets::send(socket, &parts[whole][..left]),
    }
}
