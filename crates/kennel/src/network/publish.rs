//! Ports of the inside on the host's loopback.
//!
//! The host's listeners are bound before the sandbox starts, so that a port that is taken is an error and not a surprise;
//! they are closed with the gate.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

#[cfg(any(target_os = "linux", test))]
use kennel_policy::policy::PublishedPort;
use kennel_proxy::Socket;

#[cfg(any(target_os = "linux", test))]
use crate::network::Published;

/// Why a port cannot be published.
#[derive(Debug, thiserror::Error)]
#[error(
    "publishing a port of the sandbox ({origin}): listening on {address}: {source}\n\
     help: choose another port of the host, or 0 for any that is free"
)]
pub(crate) struct PublishError {
    origin: String,
    address: SocketAddr,
    source: io::Error,
}

/// Another try where the system gave a free port of one family that is taken in the other.
const TRIES: usize = 16;

/// The listeners of this side for one port.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn bind(port: &PublishedPort) -> Result<(Published, Vec<Socket>), PublishError> {
    let bound = if port.host == 0 { free_port() } else { both_families(port.host) };
    let (host, listeners) = bound.map_err(|(address, source)| PublishError {
        origin: port.origin.to_string(),
        address,
        source,
    })?;
    Ok((Published { inside: port.inside, host }, listeners))
}

/// A port that is free in both families, and its listeners.
pub(super) fn free_port() -> Result<(u16, Vec<Socket>), (SocketAddr, io::Error)> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match both_families(0) {
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            other => return other,
        }
    }
}

pub(super) fn both_families(port: u16) -> Result<(u16, Vec<Socket>), (SocketAddr, io::Error)> {
    let listen = |ip: IpAddr, port| {
        let address = SocketAddr::new(ip, port);
        TcpListener::bind(address).map_err(|error| (address, error))
    };
    let v4 = listen(Ipv4Addr::LOCALHOST.into(), port)?;
    let port = v4.local_addr().map_err(|error| (SocketAddr::from(([127, 0, 0, 1], port)), error))?.port();
    let mut listeners = vec![Socket::from(v4)];
    match listen(Ipv6Addr::LOCALHOST.into(), port) {
        Ok(v6) => listeners.push(v6.into()),
        // A host without IPv6, or with an empty loopback of it.
        Err((_, error)) if has_no_ipv6(&error) => {}
        // Somebody else's server there would get what is meant for the sandbox: clients try ::1 first.
        Err(error) => return Err(error),
    }
    Ok((port, listeners))
}

#[cfg(unix)]
fn has_no_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

#[cfg(windows)]
fn has_no_ipv6(error: &io::Error) -> bool {
    const WSAEAFNOSUPPORT: i32 = 10047;
    const WSAEADDRNOTAVAIL: i32 = 10049;
    matches!(error.raw_os_error(), Some(WSAEAFNOSUPPORT | WSAEADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_policy::policy::Origin;

    fn port(host: u16) -> PublishedPort {
        PublishedPort { host, inside: 80, origin: Origin("--publish".into()) }
    }

    #[test]
    fn only_the_loopback_listens() {
        let (published, listeners) = bind(&port(0)).expect("there is a free port");
        assert!(published.host != 0 && published.inside == 80 && !listeners.is_empty());
        for listener in listeners {
            let address = TcpListener::from(listener).local_addr().expect("bound");
            assert!(address.ip().is_loopback() && address.port() == published.host, "{address}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_named_with_advice() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = taken.local_addr().expect("bound").port();
        let error = bind(&port(number)).expect_err("it is taken").to_string();
        assert!(error.contains(&format!("127.0.0.1:{number}")) && error.contains("--publish"), "{error}");
        assert!(error.contains("help: choose another port"), "{error}");
    }
}
