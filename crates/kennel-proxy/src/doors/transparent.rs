//! Connections that a program made as usual, to an address, and that the sandbox's network delivered here.

use kennel_policy::domain::Host;

use crate::connect::{self, Tunnel};
use crate::doors::{dns, refuse};
use crate::gate::{Gate, Refusal};
use crate::record::Door;
use crate::relay::Wire;
use crate::route::{Exit, Target};
use crate::rules::DenyReason;
use crate::sockets;

const DNS: u16 = 53;

pub(crate) async fn serve(gate: &Gate, client: Wire) -> Option<Tunnel> {
    let destination = client.stream.original_destination().ok()?;
    let (address, port) = (destination.ip(), destination.port());
    // A look-up over TCP, to whichever server the program believes in.
    if port == DNS {
        dns::serve_stream(gate, client).await;
        return None;
    }
    let target = match gate.behind(address) {
        Some(Some(name)) => Target { host: Host::Name(name), port },
        Some(None) => {
            let target = Target { host: Host::from(address), port };
            let denial = gate.deny(&target, Door::Transparent, DenyReason::UnknownName, None);
            refuse::plainly(gate, client, port, &denial).await;
            return None;
        }
        // Nobody is redirected from the loopback: this client has found the listener and connected to it.
        None if address.is_loopback() => {
            sockets::reset_on_close(&client.stream);
            return None;
        }
        None => Target { host: Host::from(address), port },
    };
    let upstream = match gate.admit(&target, Door::Transparent, Exit::Tunnel).await {
        Ok(route) => connect::tunnel(&route, &target, gate.settings().times).await.ok(),
        Err(Refusal::Denied(denial)) => {
            refuse::plainly(gate, client, port, &denial).await;
            return None;
        }
        Err(Refusal::Unresolved(_)) => None,
    };
    let Some(upstream) = upstream else {
        sockets::reset_on_close(&client.stream);
        return None;
    };
    Some(Tunnel { client, upstream, target, door: Door::Transparent })
}
