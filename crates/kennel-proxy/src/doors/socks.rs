//! SOCKS5: CONNECT by name or address.

use std::io;

use kennel_policy::domain::Host;

use crate::connect;
use crate::doors::refuse;
use crate::doors::tunnel::Tunnel;
use crate::gate::{Exit, Gate, Refusal, Target};
use crate::record::Door;
use crate::relay::{Wire, farewell, send, within};
use crate::resolver::ResolveError;
use crate::socks::{self, Destination, Malformed, Parsed, Reply};

pub(crate) async fn serve(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let times = gate.settings().times;
    // Until the request is whole; a client that trickles its bytes does not live longer than that.
    let Ok(Some(request)) = within(times.head, negotiate(gate, &mut client)).await else { return None };
    let end = async |reply: Reply| {
        farewell(&client.stream, &reply.to_bytes(), times.stall).await;
        None
    };
    if request.command != socks::CONNECT {
        return end(Reply::CommandNotSupported).await;
    }
    let host = match host(&request.destination) {
        Ok(Some(host)) if request.port != 0 => host,
        Ok(None) => return end(Reply::AddressNotSupported).await,
        Ok(Some(host)) => {
            gate.deny_text(&host.to_string(), 0, Door::Socks, "port 0");
            return end(Reply::NotAllowed).await;
        }
        Err((text, why)) => {
            gate.deny_text(&text, request.port, Door::Socks, why);
            return end(Reply::NotAllowed).await;
        }
    };
    let target = Target { host: gate.by_name(host), port: request.port };
    let route = match gate.admit(&target, Door::Socks, Exit::Tunnel).await {
        Ok(route) => route,
        // `ssh` shows what an SSH server says, and of a SOCKS reply only that it was not zero.
        Err(Refusal::Denied(denial)) if target.port == 22 => {
            if send(&client.stream, &Reply::Succeeded.to_bytes(), times.stall).await.is_ok() {
                refuse::in_ssh(gate, &client, &denial).await;
            }
            return None;
        }
        Err(Refusal::Denied(_)) => return end(Reply::NotAllowed).await,
        Err(Refusal::Unresolved(ResolveError::TimedOut)) => return end(Reply::TimedOut).await,
        Err(Refusal::Unresolved(_)) => return end(Reply::HostUnreachable).await,
    };
    match connect::tunnel(&route, &target, times).await {
        Ok(upstream) => {
            send(&client.stream, &Reply::Succeeded.to_bytes(), times.stall).await.ok()?;
            Some(Tunnel { client, upstream, target, door: Door::Socks })
        }
        Err(error) => end(failure(&error)).await,
    }
}

fn failure(error: &io::Error) -> Reply {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
        io::ErrorKind::TimedOut => Reply::TimedOut,
        io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
        io::ErrorKind::HostUnreachable => Reply::HostUnreachable,
        _ => Reply::GeneralFailure,
    }
}

/// The host of a request; `None` when it is of an unknown kind, or the text that is none and why.
fn host(destination: &Destination) -> Result<Option<Host>, (String, String)> {
    match destination {
        Destination::Address(address) => Ok(Some(Host::from(*address))),
        Destination::Unknown => Ok(None),
        Destination::Name(bytes) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            match Host::parse(&text) {
                Ok(host) => Ok(Some(host)),
                Err(error) => Err((text, error.to_string())),
            }
        }
    }
}

/// Greeting, password where one is wanted, request. `None` when the client cannot or may not go on.
async fn negotiate(gate: &Gate, client: &mut Wire) -> io::Result<Option<socks::Request>> {
    let stall = gate.settings().times.stall;
    let credentials = gate.settings().credentials.as_ref();
    let greeting = take(client, socks::greeting).await?;
    let method = match credentials {
        Some(_) if greeting.password => socks::METHOD_PASSWORD,
        None if greeting.anonymous => socks::METHOD_ANONYMOUS,
        None if greeting.password => socks::METHOD_PASSWORD,
        _ => socks::METHOD_NONE_FITS,
    };
    if method == socks::METHOD_NONE_FITS {
        farewell(&client.stream, &socks::choose(method), stall).await;
        return Ok(None);
    }
    send(&client.stream, &socks::choose(method), stall).await?;
    if method == socks::METHOD_PASSWORD {
        let login = take(client, socks::login).await?;
        let welcome = credentials.is_none_or(|own| own.accept(&login.user, &login.password));
        if !welcome {
            farewell(&client.stream, &[1, 1], stall).await;
            return Ok(None);
        }
        send(&client.stream, &[1, 0], stall).await?;
    }
    take(client, socks::request).await.map(Some)
}

/// Reads until a message is whole, and takes it out of the inbox. Each message has at most 513 bytes.
async fn take<T>(client: &mut Wire, parse: impl Fn(&[u8]) -> Parsed<T>) -> io::Result<T> {
    loop {
        match parse(&client.inbox) {
            Ok(Some((message, used))) => {
                client.inbox.drain(..used);
                return Ok(message);
            }
            Ok(None) => {}
            Err(Malformed) => return Err(io::ErrorKind::InvalidData.into()),
        }
        if client.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
