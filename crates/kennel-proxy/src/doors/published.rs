//! The other direction: clients of this side come to a port of the inside.

use crate::clock::within;
use crate::gate::Gate;
use crate::inside::{self, Source};
use crate::metered::MeteredStream;
use crate::record::Door;
use crate::relay::{Wire, both_ways};
use crate::sockets;

pub(crate) async fn serve(gate: &Gate, client: Wire, sources: &[Source], port: u16) {
    let times = gate.settings().times;
    // The client is of this side: what it is sent leaves the sandbox.
    let meter = gate.loopback_meter(port, Door::Published);
    let client = Wire { stream: client.stream.counted(meter), ..client };
    match within(times.connect, inside::connect(sources, port)).await {
        Ok(server) => {
            let server = MeteredStream::of_inside(server);
            sockets::prepare(&server);
            both_ways(&client.stream, &server, times.patience()).await;
        }
        // Nobody listens inside, which is what a reset says.
        Err(_) => sockets::reset_on_close(&client.stream),
    }
}
