//! What the gate asks of a socket beyond reading and writing.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A socket that somebody else made.
#[cfg(unix)]
pub type Socket = std::os::fd::OwnedFd;
/// A socket that somebody else made.
#[cfg(windows)]
pub type Socket = std::os::windows::io::OwnedSocket;

/// Where a client of the transparent door wanted to go. A redirect by netfilter rewrites the destination and keeps
/// the old one in its connection table; without one the connection arrived at the very address it was made to.
#[cfg(target_os = "linux")]
pub(crate) fn original_destination(client: &TcpStream) -> io::Result<SocketAddr> {
    let local = client.local_addr()?;
    let redirected = match local.ip().to_canonical() {
        IpAddr::V4(_) => sockopt::ip_original_dst(client).map(SocketAddr::V4),
        IpAddr::V6(_) => sockopt::ipv6_original_dst(client).map(SocketAddr::V6),
    };
    let found = redirected.unwrap_or(local);
    Ok(SocketAddr::new(found.ip().to_canonical(), found.port()))
}

/// Only Linux has a transparent door.
#[cfg(not(target_os = "linux"))]
pub(crate) fn original_destination(client: &TcpStream) -> io::Result<SocketAddr> {
    client.local_addr()
}

/// Whether an address is one of this host's: a packet to it would stay here, it can be had here, or the kernel would use that very
/// address as the source of such a packet. Connecting a UDP socket asks for the route and sends nothing.
///
/// Each of them misses something: of a second address in a network the first one is the source, and no socket can be bound to one
/// that only a route makes the host's own (`ip -6 route add local 2001:db8::/64 dev lo`). The first needs netlink.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    #[cfg(target_os = "linux")]
    if stays_here(address).unwrap_or(false) {
        return true;
    }
    // Where any address can be had (`ip_nonlocal_bind`), even one of a document, this tells nothing.
    let of_nobody: IpAddr = match address {
        IpAddr::V4(_) => [192, 0, 2, 1].into(),
        IpAddr::V6(_) => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
    };
    if UdpSocket::bind((address, 0)).is_ok() && UdpSocket::bind((of_nobody, 0)).is_err() {
        return true;
    }
    let any: SocketAddr = match address {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    // Without a descriptor nothing can be said, and then nothing is let through.
    let Ok(socket) = UdpSocket::bind(any) else { return true };
    match socket.connect((address, 9)) {
        Ok(()) => socket.local_addr().is_ok_and(|source| source.ip() == address),
        Err(_) => false,
    }
}

/// What the kernel's tables of routes say, all of its rules about them considered. They answer at once.
#[cfg(target_os = "linux")]
fn stays_here(address: IpAddr) -> io::Result<bool> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::send(&socket, &crate::netlink::route_question(address), SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    Ok(crate::netlink::route_stays_here(&answer[..length]))
}

/// Undoes what a socket is connected to, or listens on: it is then as good as new, in the namespace it was made in.
#[cfg(unix)]
pub(crate) fn dissolve(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(socket)?)
}

/// Windows cannot, and has no namespaces to make sockets in.
#[cfg(windows)]
pub(crate) fn dissolve(_: impl AsFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Connects a socket that does not block; the other end tells when it is done.
pub(crate) fn begin_to_connect(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        #[cfg(windows)]
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tries without having waited for the socket to be ready, which takes a turn of the event loop for one that is new to
/// it. After [`io::ErrorKind::WouldBlock`] it is to be waited for.
pub(crate) fn at_once<T>(
    stream: &TcpStream,
    interest: Interest,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let tried = call();
    if matches!(&tried, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        // What the event loop knew of it is no longer true.
        let _ = stream.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
    tried
}

pub(crate) fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(stream, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// How much there is to read of one byte, which stays there; 0 is the end.
pub(crate) fn peek(stream: &TcpStream) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(stream, &mut [0u8; 1][..], RecvFlags::PEEK)?;
    Ok(count)
}

/// Waits until there is something to read, or the end. What the event loop remembers of a socket that was read from
/// before may be out of date, so the socket itself is asked.
pub(crate) async fn input(stream: &TcpStream) -> io::Result<()> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || peek(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(drop),
        }
    }
}

#[cfg(not(any(target_vendor = "apple", windows)))]
pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)?)
}

/// Sends parts one behind the other, in one call. The standard library's own sends a signal to a program that is not told by
/// its language's start-up to ignore it, and the command's `main` is C's.
#[cfg(not(any(target_vendor = "apple", windows)))]
pub(crate) fn send_parts(stream: &TcpStream, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    let mut none = rustix::net::SendAncillaryBuffer::default();
    // More parts than the system takes in one call are an error to it, and no part to who calls.
    let parts = &parts[..parts.len().min(MAX_PARTS)];
    Ok(rustix::net::sendmsg(stream, parts, &mut none, SendFlags::NOSIGNAL)?)
}

/// Linux's IOV_MAX.
#[cfg(not(any(target_vendor = "apple", windows)))]
const MAX_PARTS: usize = 1024;

/// See [`send`].
#[cfg(target_vendor = "apple")]
pub(crate) fn send_parts(stream: &TcpStream, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    sockopt::set_socket_nosigpipe(stream, true)?;
    stream.try_write_vectored(parts)
}

/// See [`send`].
#[cfg(windows)]
pub(crate) fn send_parts(stream: &TcpStream, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    stream.try_write_vectored(parts)
}

/// Apple's systems have no such flag for one call. A socket that was accepted does not have the option that its listener
/// has, so it is set here.
#[cfg(target_vendor = "apple")]
pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    sockopt::set_socket_nosigpipe(stream, true)?;
    Ok(rustix::net::send(stream, bytes, SendFlags::empty())?)
}

/// Nobody is told by a signal here.
#[cfg(windows)]
pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, SendFlags::empty())?)
}

/// Connects. Within one host that is done at once, and the event loop need not be asked.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = new_socket(address)?;
    begin_to_connect(&socket, address)?;
    let connected = rustix::net::getpeername(&socket).is_ok();
    let stream = TcpStream::from_std(socket.into())?;
    if !connected {
        stream.writable().await?;
        stream.take_error()?.map_or(Ok(()), Err)?;
    }
    Ok(stream)
}

/// A stream socket that does not block and is not passed on to other programs.
fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    use rustix::net::{AddressFamily, SocketType};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
        Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        #[cfg(unix)]
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }
}

/// The name of this end.
pub(crate) fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    let name = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(name).map_err(|_| io::ErrorKind::AddrNotAvailable.into())
}

/// Small messages go out at once.
pub(crate) fn prepare(stream: &impl AsFd) {
    let _ = sockopt::set_tcp_nodelay(stream.as_fd(), true);
}

/// A server that has vanished is noticed within two minutes. A client cannot vanish: its kernel is ours.
pub(crate) fn watch(stream: &impl AsFd) {
    let _ = sockopt::set_socket_keepalive(stream.as_fd(), true);
    let _ = sockopt::set_tcp_keepidle(stream.as_fd(), Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream.as_fd(), Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepcnt(stream.as_fd(), 4);
}

/// Makes closing this socket a reset. An end of file would say that what came is all there is.
pub(crate) fn reset_on_close(stream: &impl AsFd) {
    let _ = sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO));
}

/// Says that nothing more will be sent.
pub(crate) fn finish(stream: &impl AsFd) {
    let _ = rustix::net::shutdown(stream.as_fd(), rustix::net::Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_addresses_are_known_without_a_list() {
        for own in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(is_own_address(own.parse().unwrap()), "{own}");
        }
        assert!(!is_own_address("192.0.2.1".parse().unwrap()));
        assert!(!is_own_address("2001:db8::1".parse().unwrap()));
    }
}
