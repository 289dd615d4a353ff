//! A port of this host's loopback that is found inside too: what listens there decides, and the gate only carries.

use std::net::Ipv4Addr;

use crate::clock::within;
use crate::gate::Gate;
use crate::metered::MeteredStream;
use crate::record::Door;
use crate::relay::{Wire, both_ways, send};
use crate::sockets;

/// Carries a client to `port`, which is sent `greeting` first. If it does not take that, nothing of the client's reaches it.
pub(crate) async fn serve(gate: &Gate, client: Wire, port: u16, greeting: &[u8]) {
    let times = gate.settings().times;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let Ok(server) = within(times.connect, sockets::connect(address)).await else {
        return sockets::reset_on_close(&client.stream);
    };
    let server = MeteredStream::of_outside(server, gate.loopback_meter(port, Door::Transparent));
    sockets::prepare(&server);
    match send(&server, greeting, times.stall).await {
        Ok(()) => both_ways(&client.stream, &server, times.patience()).await,
        Err(_) => sockets::reset_on_close(&client.stream),
    }
}
