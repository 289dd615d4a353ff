//! The listener that proxy variables point to: HTTP and SOCKS5, told apart by the first byte.

use std::net::Ipv4Addr;

use kennel_policy::domain::Host;
use tokio::net::TcpStream;

use crate::clock::within;
use crate::doors::socks;
use crate::doors::tunnel::Tunnel;
use crate::gate::Gate;
use crate::http::forward;
use crate::record::{Door, Verdict};
use crate::relay::{Wire, both_ways, send};
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
        (true, _, Some(port)) => elsewhere(gate, client, Door::Socks, port).await,
        (false, Some(port), _) => elsewhere(gate, client, Door::Http, port).await,
        (true, _, None) => return socks::serve(gate, client).await,
        (false, None, _) => {
            #[cfg(unix)]
            if let Some(inspector) = &gate.settings().inspect
                && !opens_tunnel(&mut client, patience).await
            {
                let inspector = std::sync::Arc::clone(inspector);
                Box::pin(crate::inspect::terminate::proxy(gate, inspector, client)).await;
                return None;
            }
            return forward::proxy(gate, client).await;
        }
    }
    None
}

/// Whether a client's first request is a `CONNECT`.
#[cfg(unix)]
async fn opens_tunnel(client: &mut Wire, patience: std::time::Duration) -> bool {
    const CONNECT: &[u8] = b"CONNECT ";
    loop {
        let skip = crate::http::head::leading_empty_lines(&client.inbox);
        let said = &client.inbox[skip..];
        if said.len() >= CONNECT.len() {
            return said.starts_with(CONNECT);
        }
        if !CONNECT.starts_with(said) || !matches!(within(patience, client.fill()).await, Ok(1..)) {
            return false;
        }
    }
}

/// Hands a client to a proxy on this host's loopback, which decides in the gate's place.
async fn elsewhere(gate: &Gate, client: Wire, door: Door, port: u16) {
    let times = gate.settings().times;
    let place = Host::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
    gate.note(&place.to_string(), Some(port), door, Verdict::Allowed, None);
    let Ok(proxy) = within(times.connect, TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await else {
        return sockets::reset_on_close(&client.stream);
    };
    sockets::prepare(&proxy);
    if send(&proxy, &client.inbox, times.stall).await.is_ok() {
        both_ways(&client.stream, &proxy, times.patience()).await;
    }
}
