//! Ways out by sockets. Each sends something that the host recognises; the host sees whether it arrives.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use super::{Actor, Answer};
use crate::attack::script::Op;
use crate::attack::word;

/// No address that can be reached takes longer.
const WAIT: Duration = Duration::from_millis(200);

impl Actor {
    pub(super) fn network(&mut self, op: &Op) -> Answer {
        let port = op.word(1).replace("{port}", &self.port).parse::<u16>().unwrap_or(0);
        let address = (op.word(0), port);
        let done = match op.verb.as_str() {
            "tcp" => tcp(address, &self.evil()),
            "udp" => UdpSocket::bind(if op.word(0).contains(':') { "[::]:0" } else { "0.0.0.0:0" })
                .and_then(|socket| socket.send_to(&self.evil(), address))
                .map(|_| ()),
            "proxy" => proxy(address, &self.evil()),
            "unix" => UnixStream::connect(word::place(&self.top, op.word(0)))
                .and_then(|mut stream| stream.write_all(&self.evil())),
            "sock" => UnixListener::bind(word::place(&self.top, op.word(0))).map(std::mem::forget),
            _ => Ok(()),
        };
        match done {
            Ok(()) => Answer::of(0),
            Err(error) => Answer::of(-i64::from(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }
}

fn tcp(address: (&str, u16), message: &[u8]) -> std::io::Result<()> {
    let mut last = Ok(());
    for address in address.to_socket_addrs()? {
        last = TcpStream::connect_timeout(&address, WAIT).and_then(|mut stream| stream.write_all(message));
        if last.is_ok() {
            break;
        }
    }
    last
}

/// By the proxy that the environment names.
fn proxy((host, port): (&str, u16), message: &[u8]) -> std::io::Result<()> {
    let names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"];
    let Some(proxy) = names.iter().find_map(|name| std::env::var(name).ok()) else { return Ok(()) };
    let rest = proxy.rsplit_once("://").map_or(proxy.as_str(), |(_, rest)| rest);
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place).trim_end_matches('/');
    let address = place.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    write!(stream, "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")?;
    let mut reply = [0u8; 512];
    let length = stream.read(&mut reply)?;
    if reply[..length].windows(4).any(|word| word == b" 200") {
        stream.write_all(message)?;
    }
    Ok(())
}
