//! Telling a client that was refused why, in the protocol that it speaks.
//!
//! A plain connection has no place for a reason. Where the protocol is known by its port or by the client's first
//! bytes, there is one; everything else gets a reset, at once.

use std::time::Duration;

use crate::clock::within;
use crate::forward::refusal::Page;
use crate::gate::{Denial, Gate};
use crate::relay::{Wire, farewell};
use crate::{sockets, ssh, tls};

/// How long a refused client has to show what it speaks.
const FIRST_BYTES: Duration = Duration::from_millis(500);
const SSH: u16 = 22;

/// Ends a connection that was made as if to the server.
pub(crate) async fn plainly(gate: &Gate, mut client: Wire, port: u16, denial: &Denial) {
    let stall = gate.settings().times.stall;
    if port == SSH {
        return in_ssh(gate, &client, denial).await;
    }
    if client.inbox.is_empty() {
        let _ = within(FIRST_BYTES, client.fill()).await;
    }
    in_its_words(client, denial, stall).await;
}

/// Ends a connection that was let through, and whose client then said something that is not carried.
pub(crate) async fn judged(gate: &Gate, client: Wire, denial: &Denial) {
    in_its_words(client, denial, gate.settings().times.stall).await;
}

async fn in_its_words(client: Wire, denial: &Denial, stall: Duration) {
    match client.inbox.first() {
        Some(22) => farewell(&client.stream, &tls::ACCESS_DENIED, stall).await,
        Some(b'A'..=b'Z') => {
            let page = Page::denied(denial).to_bytes("GET", false);
            farewell(&client.stream, &page, stall).await;
        }
        _ => sockets::reset_on_close(&client.stream),
    }
}

/// Ends a connection whose client waits for an SSH server.
pub(crate) async fn in_ssh(gate: &Gate, client: &Wire, denial: &Denial) {
    let text = format!("kennel blocked this connection: {denial}");
    farewell(&client.stream, &ssh::disconnect(&text), gate.settings().times.stall).await;
}
