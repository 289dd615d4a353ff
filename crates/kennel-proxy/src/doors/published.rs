//! The other direction: clients of this side come to a port of the inside.

use crate::clock::within;
use crate::gate::Gate;
use crate::inside::{self, Source};
use crate::relay::{Wire, both_ways};
use crate::sockets;

pub(crate) async fn serve(gate: &Gate, client: Wire, sources: &[Source], port: u16) {
    let times = gate.settings().times;
    match within(times.connect, inside::connect(sources, port)).await {
        Ok(server) => {
            sockets::prepare(&server);
            both_ways(&client.stream, &server, times.patience()).await;
        }
        // Nobody listens inside, which is what a reset says.
        Err(_) => sockets::reset_on_close(&client.stream),
    }
}
