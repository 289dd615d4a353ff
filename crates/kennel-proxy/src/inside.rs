//! Connecting to a server inside, from out here.
//!
//! A socket belongs to the network namespace in which it was made, and this process lives in another, which nobody but
//! root can change while it has threads. But a socket that was accepted belongs to its listener's namespace; and one
//! that is dissolved (`connect` to `AF_UNSPEC`) is as good as new, in the same namespace. So from two sockets that were
//! made inside, a *connector* and a *listener*, any number of others can be had: connect the one to the other, take
//! what the listener accepts, and dissolve both ends.
//!
//! Whoever is inside can connect to that listener too. Such a connection is known by its other end, and dropped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Mutex;

use crate::clock::within;
use crate::sockets::{self, Socket};

/// How long the two sockets may take to find each other. Only a flood of strangers from inside makes this long.
const TO_EACH_OTHER: Duration = Duration::from_secs(2);

/// Two sockets that were made inside, on its loopback, both of one address family.
#[derive(Debug)]
pub(crate) struct Source {
    family: IpAddr,
    /// One socket is made at a time: there is one connector.
    pair: Mutex<(Socket, TcpListener)>,
}

impl Source {
    /// Takes the two over. Both come as listeners, because that is what is made inside.
    pub(crate) fn new(connector: Socket, listener: Socket) -> io::Result<Source> {
        sockets::dissolve(&connector)?;
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let family = match listener.local_addr()? {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        Ok(Source { family, pair: Mutex::new((connector, TcpListener::from_std(listener)?)) })
    }

    /// A connection to this port of the inside's loopback.
    pub(crate) async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let socket = {
            let pair = self.pair.lock().await;
            let (connector, listener) = &*pair;
            let made = within(TO_EACH_OTHER, make(connector, listener)).await;
            // Also after a failure: the next one begins anew.
            let _ = sockets::dissolve(connector);
            made?
        };
        TcpSocket::from_std_stream(socket).connect(SocketAddr::new(self.family, port)).await
    }
}

/// A fresh socket of the listener's namespace.
async fn make(connector: &Socket, listener: &TcpListener) -> io::Result<std::net::TcpStream> {
    sockets::begin_to_connect(connector, listener.local_addr()?)?;
    let own = sockets::local_address(connector)?;
    loop {
        let (accepted, peer) = listener.accept().await?;
        if peer == own {
            let socket = accepted.into_std()?;
            sockets::dissolve(&socket)?;
            return Ok(socket);
        }
    }
}

/// The first of these families in which something answers inside: a server may listen on one of them only.
pub(crate) async fn connect(sources: &[Source], port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotConnected);
    for source in sources {
        match source.connect(port).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
