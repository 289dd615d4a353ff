//! Connections that a program made as usual, to an address, and that the sandbox's network delivered here.

use kennel_policy::domain::Host;

use crate::connect;
use crate::doors::{dns, refuse, tunnel};
use crate::gate::{Exit, Gate, Refusal, Target};
use crate::record::Door;
use crate::relay::Wire;
use crate::rules::DenyReason;
use crate::sockets;

const DNS: u16 = 53;

pub(crate) async fn serve(gate: &Gate, client: Wire) {
    let Ok(destination) = sockets::original_destination(&client.stream) else { return };
    let (address, port) = (destination.ip(), destination.port());
    // A look-up over TCP, to whichever server the program believes in.
    if port == DNS {
        return dns::serve_stream(gate, client).await;
    }
    let target = match gate.behind(address) {
        Some(Some(name)) => Target { host: Host::Name(name), port },
        Some(None) => {
            let target = Target { host: Host::from(address), port };
            let denial = gate.deny(&target, Door::Transparent, DenyReason::UnknownName, None);
            return refuse::plainly(gate, client, port, &denial).await;
        }
        // Nobody is redirected from the loopback: this client has found the listener and connected to it.
        None if address.is_loopback() => return sockets::reset_on_close(&client.stream),
        None => Target { host: Host::from(address), port },
    };
    let route = match gate.admit(&target, Door::Transparent, Exit::Tunnel).await {
        Ok(route) => route,
        Err(Refusal::Denied(denial)) => return refuse::plainly(gate, client, port, &denial).await,
        Err(Refusal::Unresolved(_)) => return sockets::reset_on_close(&client.stream),
    };
    match connect::tunnel(&route, &target, gate.settings().times).await {
        Ok(upstream) => tunnel::carry(gate, client, upstream, &target, Door::Transparent).await,
        Err(_) => sockets::reset_on_close(&client.stream),
    }
}
