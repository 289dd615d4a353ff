//! Going out: from a checked route to a connected socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kennel_policy::domain::Host;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::clock::within;
use crate::http::head::{self, Field, Request, Response};
use crate::meter::Meter;
use crate::metered::MeteredStream;
use crate::parent::ParentProxy;
use crate::record::Door;
use crate::relay::{Wire, send};
use crate::route::{Hop, Route, Target};
use crate::rules::HOST_ALIAS;
use crate::times::Times;
use crate::{sockets, socks};

/// RFC 8305 §5: how long the next address waits for the one before it.
const STAGGER: Duration = Duration::from_millis(250);

/// A connection that was let through and answered for. Doors hand it back and end, so that what they needed to
/// get here is freed: a connection may live for days, and there may be a thousand of them.
pub(crate) struct Tunnel {
    pub(crate) client: Wire,
    pub(crate) upstream: Wire,
    pub(crate) target: Target,
    pub(crate) door: Door,
}

/// Connects for bytes: by a parent proxy this is a `CONNECT`.
pub(crate) async fn tunnel(route: &Route, target: &Target, times: Times) -> io::Result<Wire> {
    let meter = route.meter.clone();
    match &route.hop {
        Hop::Direct(addresses) => Ok(Wire::new(any_of(addresses, times.connect, meter).await?)),
        Hop::Parent(parent, addresses) => {
            let stream = any_of(addresses, times.connect, meter).await?;
            within(times.connect, connect_through(parent, stream, target, times.stall)).await
        }
        Hop::Socks(proxy) => {
            let stream = any_of(&[*proxy], times.connect, meter).await?;
            within(times.connect, socks_through(stream, target, times.stall)).await
        }
    }
}

/// Connects for plain HTTP requests: by a parent proxy this is a connection to the proxy.
pub(crate) async fn request(route: &Route, target: &Target, times: Times) -> io::Result<Wire> {
    match &route.hop {
        Hop::Direct(addresses) | Hop::Parent(_, addresses) => {
            Ok(Wire::new(any_of(addresses, times.connect, route.meter.clone()).await?))
        }
        Hop::Socks(_) => tunnel(route, target, times).await,
    }
}

/// What a proxy on this host knows a host by.
fn outside(target: &Target) -> Target {
    match &target.host {
        Host::Name(name) if name == HOST_ALIAS => {
            Target { host: Host::Name("localhost".into()), port: target.port }
        }
        host => Target { host: host.clone(), port: target.port },
    }
}

/// Asks a SOCKS proxy that wants no password for a connection.
async fn socks_through(stream: MeteredStream, target: &Target, stall: Duration) -> io::Result<Wire> {
    let refused = |why: &str| io::Error::other(format!("the SOCKS proxy {why}"));
    let Target { host, port } = outside(target);
    send(&stream, &socks::ask_without_password(), stall).await?;
    let mut wire = Wire::new(stream);
    if take(&mut wire, 2).await?.as_slice() != [socks::VERSION, socks::METHOD_ANONYMOUS] {
        return Err(refused("wants a password"));
    }
    let message = socks::ask_to_connect(&host, port).ok_or_else(|| refused("takes no such long name"))?;
    send(&wire.stream, &message, stall).await?;
    let head = take(&mut wire, 5).await?;
    let rest = match head[3] {
        1 => 4 + 2 - 1,
        4 => 16 + 2 - 1,
        3 => usize::from(head[4]) + 2,
        _ => return Err(refused("gave no valid answer")),
    };
    take(&mut wire, rest).await?;
    match head[1] {
        0 => Ok(wire),
        code => Err(refused(&format!("answered {code}"))),
    }
}

/// So many bytes from the front of what comes.
async fn take(wire: &mut Wire, count: usize) -> io::Result<Vec<u8>> {
    while wire.inbox.len() < count {
        if wire.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(wire.inbox.drain(..count).collect())
}

async fn any_of(addresses: &[SocketAddr], time: Duration, meter: Option<Meter>) -> io::Result<MeteredStream> {
    if let Some(meter) = &meter {
        meter.opening().await?;
    }
    let stream = match addresses {
        [only] => within(time, sockets::connect(*only)).await?,
        several => within(time, first_of(several)).await?,
    };
    sockets::prepare(&stream);
    sockets::watch(&stream);
    Ok(MeteredStream::of_outside(stream, meter))
}

/// The first address that accepts. The next one is tried when one fails, or has not answered for a moment.
async fn first_of(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    if let Some(address) = waiting.next() {
        // Mostly this is the one, and on this host it answers at once: the race is set up when it does not.
        let mut first = Box::pin(sockets::connect(address));
        tokio::select! {
            biased;
            done = &mut first => match done {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = tokio::time::sleep(STAGGER) => drop(attempts.spawn_local(first)),
        }
    }
    let mut start_next = true;
    loop {
        if std::mem::take(&mut start_next)
            && let Some(address) = waiting.next()
        {
            attempts.spawn_local(sockets::connect(address));
        }
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => {
                    failure = error;
                    start_next = true;
                }
                Some(Err(_)) => start_next = true,
                None => return Err(failure),
            },
            () = tokio::time::sleep(STAGGER), if waiting.len() > 0 => start_next = true,
        }
        if attempts.is_empty() && waiting.len() == 0 {
            return Err(failure);
        }
    }
}

async fn connect_through(
    parent: &ParentProxy,
    stream: MeteredStream,
    target: &Target,
    stall: Duration,
) -> io::Result<Wire> {
    let target = outside(target);
    let mut fields = vec![Field::new("Host", target.to_string())];
    fields.extend(authorization(parent));
    let head = Request { method: "CONNECT".into(), target: target.to_string(), minor: 1, fields };
    send(&stream, &head.to_bytes(), stall).await?;
    let mut wire = Wire::new(stream);
    let mut seen = 0;
    loop {
        if let Some(end) = head::end(&wire.inbox, seen) {
            let response = Response::parse(&wire.inbox[..end])
                .map_err(|error| io::Error::other(format!("the parent proxy's answer: {error}")))?;
            wire.inbox.drain(..end);
            return match response.status {
                200..=299 => Ok(wire),
                status => Err(io::Error::other(format!("the parent proxy answered {status}"))),
            };
        }
        seen = wire.inbox.len();
        if seen > head::MAX_HEAD || wire.fill().await? == 0 {
            return Err(io::Error::other("the parent proxy gave no answer"));
        }
    }
}

pub(crate) fn authorization(parent: &ParentProxy) -> Option<Field> {
    let credentials = parent.credentials.as_ref()?;
    Some(Field::new("Proxy-Authorization", credentials.basic()))
}
