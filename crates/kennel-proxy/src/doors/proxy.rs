//! The listener that proxy variables point to: HTTP and SOCKS5, told apart by the first byte.

use crate::doors::socks;
use crate::doors::tunnel::Tunnel;
use crate::gate::Gate;
use crate::http::forward;
use crate::relay::{Wire, within};
use crate::socks::VERSION;

pub(crate) async fn serve(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let patience = gate.settings().times.head;
    match within(patience, client.fill()).await {
        Ok(0) | Err(_) => None,
        // No HTTP method begins with a control character.
        Ok(_) if client.inbox[0] == VERSION => socks::serve(gate, client).await,
        Ok(_) => forward::proxy(gate, client).await,
    }
}
