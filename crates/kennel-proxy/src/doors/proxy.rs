//! The listener that proxy variables point to: HTTP and SOCKS5, told apart by the first byte.

use std::net::Ipv4Addr;
#[cfg(unix)]
use std::sync::Arc;

use kennel_policy::domain::Host;
use tokio::net::TcpStream;

use crate::clock::within;
use crate::connect::{self, Tunnel};
use crate::doors::socks;
use crate::forward::connection::{ServerConnection, out};
use crate::forward::exchange::{Ends, exchange};
use crate::forward::refusal::Page;
use crate::forward::requests::{Next, close_with_page, next_request, respond_and_close, respond_and_drain};
use crate::forward::target::{Wanted, absolute_form, agree};
use crate::gate::Gate;
#[cfg(unix)]
use crate::gateway::Gateway;
use crate::http::head::{Body, Request};
use crate::metered::MeteredStream;
use crate::record::{Door, Verdict};
use crate::relay::{Wire, both_ways, send};
use crate::route::{Exit, Target};
#[cfg(unix)]
use crate::services::{self, http1, inspect::terminate};
use crate::sockets;
use crate::socks::VERSION;

pub(crate) async fn serve(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let patience = gate.settings().times.head;
    if !matches!(within(patience, client.fill()).await, Ok(1..)) {
        return None;
    }
    // No HTTP method begins with a control character.
    let by_socks = client.inbox[0] == VERSION;
    let external = gate.settings().external;
    match (by_socks, external.http, external.socks) {
        (true, _, Some(port)) => hand_to_external_proxy(gate, client, Door::Socks, port).await,
        (false, Some(port), _) => hand_to_external_proxy(gate, client, Door::Http, port).await,
        (true, _, None) => return socks::serve(gate, client).await,
        (false, None, _) => return proxy(gate, client).await,
    }
    None
}

/// Serves a client that knows it talks to a proxy, until it ends or becomes a tunnel.
async fn proxy(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let times = gate.settings().times;
    let mut kept: Option<ServerConnection> = None;
    #[cfg(unix)]
    let inspection = gate.settings().inspect.as_ref();
    #[cfg(unix)]
    let inspection = inspection.map(|own| terminate::by_proxy(gate, Arc::clone(own), Door::Http));
    let mut first = true;
    loop {
        let request = match next_request(&mut client, times, first).await {
            Next::Request(request) => request,
            Next::Malformed(error) => {
                close_with_page(&client, &Page::malformed(error), times).await;
                return None;
            }
            Next::Slow => {
                close_with_page(&client, &Page::slow(), times).await;
                return None;
            }
            Next::End => return None,
        };
        first = false;
        if !authorized(gate, &request) {
            respond_and_drain(&client, &Page::unauthorized(), &request, times).await?;
            continue;
        }
        if request.method == "CONNECT" {
            return connect_method(gate, client, &request).await;
        }
        let mut wanted = match absolute_form(&request) {
            Ok(wanted) => wanted,
            Err(page) => {
                respond_and_drain(&client, &page, &request, times).await?;
                continue;
            }
        };
        wanted.target.host = gate.by_name(wanted.target.host);
        #[cfg(unix)]
        if let Some((gateway, number)) = provider_at(gate, &wanted.target) {
            let answer =
                async |request, body| services::gateway::answer(gate, gateway, number, request, body).await;
            client = Box::pin(http1::respond(client.into(), request, times, answer)).await?.into();
            continue;
        }
        #[cfg(unix)]
        if let Some(inspection) = &inspection {
            let answer = async |request, body| Ok(inspection.answer(&request, wanted, body).await);
            client = Box::pin(http1::respond(client.into(), request, times, answer)).await?.into();
            continue;
        }
        match prepare(gate, &request, wanted, kept.take()).await {
            Ok((upstream, line, host)) => {
                kept = exchange(gate, &mut client, upstream, &request, line, host, Ends::Apart).await?;
            }
            Err(page) => respond_and_drain(&client, &page, &request, times).await?,
        }
    }
}

/// The provider of models that a client means: some send requests for the loopback to the proxy as well.
#[cfg(unix)]
fn provider_at<'g>(gate: &'g Gate, target: &Target) -> Option<(&'g Arc<Gateway>, usize)> {
    let gateway = gate.settings().gateway.as_ref()?;
    Some((gateway, gateway.provider_at(target)?))
}

/// The connection for a request, its target as the other side wants it, and its `Host`.
async fn prepare(
    gate: &Gate,
    request: &Request,
    wanted: Wanted,
    kept: Option<ServerConnection>,
) -> Result<(ServerConnection, String, String), Page> {
    let upstream = out(gate, &wanted.target, kept).await?;
    // What the gate adds would come back with the rest.
    let returns = ["TRACE", "TRACK", "DEBUG"].iter().any(|own| own.eq_ignore_ascii_case(&request.method));
    if returns && upstream.parent.as_ref().is_some_and(|parent| parent.credentials.is_some()) {
        let text = "a request that the server echoes is not sent to a proxy that requires a password.";
        return Err(Page::request(405, "Method Not Allowed", text));
    }
    let host = wanted.authority();
    let line = match &upstream.parent {
        None => wanted.path,
        Some(_) => format!("http://{host}{}", wanted.path),
    };
    Ok((upstream, line, host))
}

fn authorized(gate: &Gate, request: &Request) -> bool {
    let Some(credentials) = &gate.settings().credentials else { return true };
    let mut shown = request.fields.iter().filter(|field| field.is("proxy-authorization"));
    match (shown.next(), shown.next()) {
        (Some(field), None) => credentials.accept_basic(&field.value),
        _ => false,
    }
}

async fn connect_method(gate: &Gate, client: Wire, request: &Request) -> Option<Tunnel> {
    let times = gate.settings().times;
    let end = async |page: Page| {
        respond_and_close(&client, &page, request, times).await;
        None
    };
    // RFC 9110 §9.3.6: host and port, both of them, and no body.
    let Some((host, port)) = request.target.rsplit_once(':') else {
        return end(Page::request(400, "Bad Request", "CONNECT requires a host and a port.")).await;
    };
    let Some(port) = port.parse().ok().filter(|number: &u16| *number != 0 && number.to_string() == port)
    else {
        return end(Page::request(400, "Bad Request", "CONNECT requires a port from 1 to 65535.")).await;
    };
    let host = match Host::parse(host) {
        Ok(host) => host,
        Err(error) => {
            let denial = gate.deny_text(host, port, Door::Connect, error);
            return end(Page::denied(&denial)).await;
        }
    };
    let target = Target { host, port };
    // What the client's `Host` is compared with is what it wrote; where it goes is the name behind it.
    let place = Target { host: gate.by_name(target.host.clone()), port };
    if request.body() != Ok(Body::None) {
        return end(Page::request(400, "Bad Request", "a CONNECT request must not have a body.")).await;
    }
    if let Err(page) = agree(&request.fields, &target, 443) {
        return end(page).await;
    }
    let wire = match gate.admit(&place, Door::Connect, Exit::Tunnel).await {
        Err(refusal) => return end(Page::refused(&refusal, &place.to_string())).await,
        Ok(route) => connect::tunnel(&route, &place, times).await,
    };
    match wire {
        Err(error) => end(Page::unreachable(&error, &place.to_string())).await,
        Ok(upstream) => {
            let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
            send(&client.stream, established, times.stall).await.ok()?;
            Some(Tunnel { client, upstream, target: place, door: Door::Connect })
        }
    }
}

/// Hands a client to a proxy on this host's loopback, which decides in the gate's place.
async fn hand_to_external_proxy(gate: &Gate, client: Wire, door: Door, port: u16) {
    let times = gate.settings().times;
    let place = Host::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
    gate.note(&place.to_string(), Some(port), door, Verdict::Allowed, None);
    let Ok(proxy) = within(times.connect, TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await else {
        return sockets::reset_on_close(&client.stream);
    };
    let proxy = MeteredStream::of_outside(proxy, gate.loopback_meter(port, door));
    sockets::prepare(&proxy);
    if send(&proxy, &client.inbox, times.stall).await.is_ok() {
        both_ways(&client.stream, &proxy, times.patience()).await;
    }
}
