//! Carrying a connection to the host it was let through to, and to no other behind the same address.
//!
//! Many names share one address, and their server goes by the name that the client tells it: in a TLS ClientHello,
//! or in each HTTP request's `Host`. So the first bytes of the client are held back until they can be judged. The
//! server is connected to at once and what it says is handed on at once, because in many protocols (SSH, SMTP,
//! MySQL, FTP) the server speaks first and the client waits for it.

use std::io;

use kennel_policy::domain::Host;

use crate::clock::within;
use crate::gate::{Gate, Target};
use crate::http::forward;
use crate::record::Door;
use crate::relay::{Activity, Wire, both_ways, farewell, fill, send};
use crate::rules::DenyReason;
use crate::sockets;
use crate::tls::{self, Hello};

/// The most bytes of a first line that may turn out to be of an HTTP request.
const MOST_LINE: usize = 16 << 10;

/// A connection that was let through and answered for. Doors hand it back and end, so that what they needed to
/// get here is freed: a connection may live for days, and there may be a thousand of them.
pub(crate) struct Tunnel {
    pub(crate) client: Wire,
    pub(crate) upstream: Wire,
    pub(crate) target: Target,
    pub(crate) door: Door,
}

pub(crate) async fn carry(gate: &Gate, tunnel: Tunnel) {
    let Tunnel { mut client, mut upstream, target, door } = tunnel;
    let times = gate.settings().times;
    // What a parent proxy sent behind its answer.
    if send(&client.stream, &std::mem::take(&mut upstream.inbox), times.stall).await.is_err() {
        return;
    }
    let Host::Name(name) = &target.host else {
        // Whoever allows an address allows all that is behind it.
        return opaque(gate, client, upstream).await;
    };
    if gate.rules().allow_sni_mismatch {
        return opaque(gate, client, upstream).await;
    }
    match first_words(gate, &mut client, &upstream).await {
        Ok(Words::Http) => return Box::pin(forward::server(gate, client, upstream, &target, door)).await,
        Ok(Words::Other) => {}
        Err(_) => {
            sockets::reset_on_close(&upstream.stream);
            return sockets::reset_on_close(&client.stream);
        }
    }
    let activity = Activity::new();
    let Wire { stream, inbox } = &mut client;
    let up = async {
        judge(stream, inbox, &upstream, name, times).await?;
        activity.pump(stream, &upstream.stream, times.stall).await
    };
    let down = activity.pump(&upstream.stream, stream, times.stall);
    if let Err(error) = activity.until_both_end(up, down, times.half_closed).await {
        sockets::reset_on_close(&upstream.stream);
        match error.get_ref().and_then(|inner| inner.downcast_ref::<OtherName>()) {
            Some(OtherName(told)) => {
                gate.deny(&target, door, DenyReason::NameMismatch(told.clone()), None);
                farewell(&client.stream, &tls::ACCESS_DENIED, times.stall).await;
            }
            None => sockets::reset_on_close(&client.stream),
        }
    }
}

async fn opaque(gate: &Gate, client: Wire, upstream: Wire) {
    let times = gate.settings().times;
    if send(&upstream.stream, &client.inbox, times.stall).await.is_ok() {
        both_ways(&client.stream, &upstream.stream, times.patience()).await;
    }
}

enum Words {
    Http,
    Other,
}

/// Waits until either side speaks, and if it is the client, until it is clear whether it speaks HTTP.
async fn first_words(gate: &Gate, client: &mut Wire, upstream: &Wire) -> io::Result<Words> {
    loop {
        match looks_like_http(&client.inbox) {
            Some(true) => return Ok(Words::Http),
            Some(false) => return Ok(Words::Other),
            None => {}
        }
        let begun = !client.inbox.is_empty();
        let patience = gate.settings().times.head;
        tokio::select! {
            read = client.fill() => {
                if read? == 0 {
                    return Ok(Words::Other);
                }
            }
            ready = upstream.stream.readable() => {
                ready?;
                return Ok(Words::Other);
            }
            // A line that was begun has to end: what waits here could be the rest of a request for another host.
            () = tokio::time::sleep(patience), if begun => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Whether these are the first bytes of an HTTP/1 request; `None` when more are needed. Also says yes to what a
/// forgiving server would take for one: the strict reader that comes next will refuse it.
fn looks_like_http(bytes: &[u8]) -> Option<bool> {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let bytes = &bytes[start..];
    let method =
        bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')).count();
    match bytes.get(method) {
        None if method <= 32 => return None,
        Some(b' ' | b'\t') if (1..=32).contains(&method) => {}
        _ => return Some(false),
    }
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = bytes[..end].to_ascii_uppercase();
            let version = line.windows(7).rposition(|word| word == b"HTTP/1.");
            Some(version.is_some())
        }
        None if bytes.len() > MOST_LINE => Some(false),
        None => None,
    }
}

/// The client told the server another name.
#[derive(Debug)]
struct OtherName(String);

impl std::fmt::Display for OtherName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OtherName {}

/// Holds back the client's first bytes until they are known to be no ClientHello, or one for `name`.
async fn judge(
    stream: &tokio::net::TcpStream,
    inbox: &mut Vec<u8>,
    upstream: &Wire,
    name: &str,
    times: crate::gate::Times,
) -> io::Result<()> {
    if hello(stream, inbox, name, times, tls::client_hello).await? == Spoke::Tls {
        let behind = inbox.split_off(tls::hello_end(inbox));
        send(&upstream.stream, inbox, times.stall).await?;
        *inbox = behind;
        if between_hellos(stream, inbox, upstream, times).await? {
            hello(stream, inbox, name, times, tls::second_hello).await?;
        }
    }
    send(&upstream.stream, &std::mem::take(inbox), times.stall).await
}

/// Carries what can lie between two hellos, record by record. Says whether the next bytes could be a second one.
async fn between_hellos(
    stream: &tokio::net::TcpStream,
    inbox: &mut Vec<u8>,
    upstream: &Wire,
    times: crate::gate::Times,
) -> io::Result<bool> {
    let mut carried = 0;
    while carried < tls::MOST_BETWEEN {
        match tls::record_between(inbox) {
            Some(None) => return Ok(true),
            Some(Some(length)) if inbox.len() >= length => {
                send(&upstream.stream, &inbox[..length], times.stall).await?;
                inbox.drain(..length);
                carried += length;
            }
            _ => {
                if fill(stream, inbox).await? == 0 {
                    return Ok(false);
                }
            }
        }
    }
    Ok(false)
}

#[derive(PartialEq, Eq)]
enum Spoke {
    Tls,
    Other,
}

async fn hello(
    stream: &tokio::net::TcpStream,
    inbox: &mut Vec<u8>,
    name: &str,
    times: crate::gate::Times,
    read: impl Fn(&[u8]) -> Hello,
) -> io::Result<Spoke> {
    loop {
        match read(inbox) {
            Hello::NotTls => return Ok(Spoke::Other),
            // Without a name the server has only its address to go by.
            Hello::Named(None) => return Ok(Spoke::Tls),
            Hello::Named(Some(told)) if Host::parse(&told) == Ok(Host::Name(name.to_owned())) => {
                return Ok(Spoke::Tls);
            }
            Hello::Named(Some(told)) => return Err(io::Error::other(OtherName(told))),
            Hello::Malformed(why) => return Err(io::Error::other(OtherName(why.to_owned()))),
            Hello::Incomplete if inbox.len() > 2 * tls::MOST_HELLO => {
                return Err(io::Error::other(OtherName("a hello that is too long".to_owned())));
            }
            Hello::Incomplete => {}
        }
        let count = match inbox.is_empty() {
            true => fill(stream, inbox).await?,
            false => within(times.head, fill(stream, inbox)).await?,
        };
        if count == 0 {
            return Ok(Spoke::Other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::looks_like_http;
    use proptest::prelude::*;

    #[test]
    fn http_is_known_by_its_first_line() {
        for (text, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(true)),
            (b"\r\nGET / HTTP/1.0\r\n", Some(true)),
            (b"M-SEARCH * HTTP/1.1\n", Some(true)),
            (b"GET / http/1.1 \n", Some(true)),
            (b"GET / HTTP/1.1", None),
            (b"GE", None),
            (b"", None),
            (b"PRI * HTTP/2.0\r\n", Some(false)),
            (b"DESCRIBE rtsp://x RTSP/1.0\r\n", Some(false)),
            (b"SSH-2.0-OpenSSH\r\n", Some(false)),
            (b"NICK x\r\n", Some(false)),
            (b"\x16\x03\x01", Some(false)),
            (b"\x00\x00\x00\x08", Some(false)),
            (b"*1\r\n$4\r\nPING\r\n", Some(false)),
        ] {
            assert_eq!(looks_like_http(text), expected, "{:?}", text.escape_ascii().to_string());
        }
    }

    proptest! {
        #[test]
        fn looking_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = looks_like_http(&bytes);
        }

        #[test]
        fn what_a_strict_reader_takes_for_a_request_is_seen_as_one(target in "[!-~]{1,20}", method in "[A-Z]{1,10}") {
            let line = format!("{method} {target} HTTP/1.1\r\n");
            prop_assert_eq!(looks_like_http(line.as_bytes()), Some(true));
        }
    }
}
