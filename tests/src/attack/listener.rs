//! The host's own sockets, at which nothing may arrive that no rule lets out.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

/// A TCP and a UDP socket of the host's loopback, with the same port.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    udp: UdpSocket,
    port: u16,
}

impl Listener {
    /// Opens them.
    ///
    /// # Errors
    /// When the loopback has no port left.
    pub fn new() -> std::io::Result<Listener> {
        let mut last = None;
        for _ in 0..20 {
            let tcp = TcpListener::bind("127.0.0.1:0")?;
            let port = tcp.local_addr()?.port();
            match UdpSocket::bind(("127.0.0.1", port)) {
                Ok(udp) => {
                    tcp.set_nonblocking(true)?;
                    udp.set_nonblocking(true)?;
                    return Ok(Listener { tcp, udp, port });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
    }

    /// Their port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All that has arrived since the last time. A connection that says nothing counts as well.
    #[must_use]
    pub fn arrived(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = [0u8; 2048];
        while let Ok((mut stream, _)) = self.tcp.accept() {
            all.extend_from_slice(b"connected\n");
            let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                all.extend_from_slice(&buffer[..length]);
            }
        }
        while let Ok(length) = self.udp.recv(&mut buffer) {
            all.extend_from_slice(&buffer[..length]);
        }
        all
    }
}
