//! SOCKS5: CONNECT by name or address.

use std::io;

use kennel_policy::domain::Host;

use crate::clock::within;
use crate::connect::{self, Tunnel};
use crate::doors::refuse;
use crate::gate::{Denial, Gate, Refusal};
use crate::meter::BudgetSpent;
use crate::record::Door;
use crate::relay::{Wire, farewell, send};
use crate::resolver::ResolveError;
use crate::route::{Exit, Target};
use crate::rules::Decision;
use crate::socks::{self, Destination, Malformed, Parsed, Reply};

/// `ssh` shows what an SSH server says, and of a SOCKS reply only that it was not zero.
const SSH: u16 = 22;

pub(crate) async fn serve(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let times = gate.settings().times;
    // Until the request is whole; a client that trickles its bytes does not live longer than that.
    let Ok(Some((request, known))) = within(times.head, negotiate(gate, &mut client)).await else {
        return None;
    };
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
    if !known {
        refuse_stranger(gate, &client, &target).await;
        return None;
    }
    let route = match gate.admit(&target, Door::Socks, Exit::Tunnel).await {
        Ok(route) => route,
        Err(Refusal::Denied(denial)) if target.port == SSH => {
            refuse_in_ssh(gate, &client, &denial).await;
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
        Err(error) if BudgetSpent::of(&error).is_some() => end(Reply::NotAllowed).await,
        Err(error) => end(failure(&error)).await,
    }
}

async fn refuse_in_ssh(gate: &Gate, client: &Wire, denial: &Denial) {
    if send(&client.stream, &Reply::Succeeded.to_bytes(), gate.settings().times.stall).await.is_ok() {
        refuse::in_ssh(gate, client, denial).await;
    }
}

/// A client without the password, as those that `ssh` is given mostly are, gets nothing, but is told why.
async fn refuse_stranger(gate: &Gate, client: &Wire, target: &Target) {
    let denial = match gate.decide(&target.host, target.port) {
        Decision::Deny { reason, rule } => gate.deny(target, Door::Socks, reason, rule),
        Decision::Allow { .. } | Decision::Ask | Decision::Public => {
            let why = "the client did not send the proxy's password, which is in the proxy variables";
            gate.deny_text(&target.host.to_string(), target.port, Door::Socks, why)
        }
    };
    if target.port == SSH {
        return refuse_in_ssh(gate, client, &denial).await;
    }
    farewell(&client.stream, &Reply::NotAllowed.to_bytes(), gate.settings().times.stall).await;
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

/// Greeting, password where one is wanted, request; and whether the password was given, or none is wanted. `None` when the
/// client cannot or may not go on.
async fn negotiate(gate: &Gate, client: &mut Wire) -> io::Result<Option<(socks::Request, bool)>> {
    let stall = gate.settings().times.stall;
    let credentials = gate.settings().credentials.as_ref();
    let greeting = take(client, socks::greeting).await?;
    let method = match credentials {
        Some(_) if greeting.password => socks::METHOD_PASSWORD,
        None if !greeting.anonymous && greeting.password => socks::METHOD_PASSWORD,
        _ if greeting.anonymous => socks::METHOD_ANONYMOUS,
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
    let known = credentials.is_none() || method == socks::METHOD_PASSWORD;
    take(client, socks::request).await.map(|request| Some((request, known)))
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
