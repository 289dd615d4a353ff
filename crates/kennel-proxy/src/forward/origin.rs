//! Clients that believe they talk to a server: their connection was carried here, and each request has to be for that server.

use super::connection::ServerConnection;
use super::exchange::{Ends, exchange};
use super::refusal::Page;
use super::requests::{Next, close_with_page, next_request, respond_and_close};
use super::target::origin_form;
use crate::gate::Gate;
use crate::record::Door;
use crate::relay::Wire;
use crate::route::Target;
use crate::rules::DenyReason;

/// Serves a client that believes it talks to `target`, over a connection that was let through.
pub(crate) async fn serve(gate: &Gate, mut client: Wire, upstream: Wire, target: &Target, door: Door) {
    let times = gate.settings().times;
    let mut upstream =
        ServerConnection { target: target.clone(), wire: upstream, parent: None, reused: false };
    loop {
        // A server that closes while nothing is under way has done so to its client, who believes to talk to it.
        let request = tokio::select! {
            biased;
            next = next_request(&mut client, times, !upstream.reused) => next,
            () = upstream.hangs_up(), if upstream.reused => Next::End,
        };
        let request = match request {
            Next::Request(request) => request,
            Next::Malformed(error) => {
                gate.deny(target, door, DenyReason::Request(error.to_string()), None);
                return close_with_page(&client, &Page::malformed(error), times).await;
            }
            Next::Slow => return close_with_page(&client, &Page::slow(), times).await,
            Next::End => return,
        };
        let wanted = match origin_form(&request, target, false) {
            Ok(wanted) => wanted,
            Err(page) => {
                gate.deny(target, door, DenyReason::Request(page.text.clone()), None);
                return respond_and_close(&client, &page, &request, times).await;
            }
        };
        if wanted.target != *target {
            let reason = DenyReason::NameMismatch(wanted.target.to_string());
            let denial = gate.deny(target, door, reason, None);
            return respond_and_close(&client, &Page::denied(&denial), &request, times).await;
        }
        let host = wanted.authority();
        match exchange(gate, &mut client, upstream, &request, wanted.path, host, Ends::Together).await {
            Some(Some(next)) => upstream = ServerConnection { reused: true, ..next },
            _ => return,
        }
    }
}
