//! The gate's connection for a plain request: to its server, or to a parent proxy.

use super::refusal::Page;
use crate::connect;
use crate::gate::Gate;
use crate::parent::ParentProxy;
use crate::record::Door;
use crate::relay::Wire;
use crate::route::{Exit, Hop, Target};

/// A connection to a server or to a parent proxy.
pub(crate) struct ServerConnection {
    pub(crate) target: Target,
    pub(crate) wire: Wire,
    pub(crate) parent: Option<ParentProxy>,
    /// It has served a request before, so the server may just have closed it.
    pub(crate) reused: bool,
}

impl ServerConnection {
    /// Waits until the server closes, or says what nobody asked for.
    pub(super) async fn hangs_up(&self) {
        while self.wire.stream.readable().await.is_ok() && self.is_quiet() {}
    }

    /// Whether it can be used again: a server that has closed, or sent what nobody asked for, is done with.
    fn is_quiet(&self) -> bool {
        self.wire.inbox.is_empty() && self.wire.stream.is_quiet()
    }
}

/// The connection for a request: the one that is kept if it leads to the same place, or a new one. The decision is
/// made for each request, so that new rules hold for the next one.
pub(crate) async fn out(
    gate: &Gate,
    target: &Target,
    kept: Option<ServerConnection>,
) -> Result<ServerConnection, Page> {
    let name = target.to_string();
    let route = gate.admit(target, Door::Http, Exit::Request).await;
    let route = route.map_err(|refusal| Page::refused(&refusal, &name))?;
    if let Some(kept) = kept.filter(|kept| kept.target == *target && kept.is_quiet()) {
        return Ok(ServerConnection { reused: true, ..kept });
    }
    let times = gate.settings().times;
    let wire =
        connect::request(&route, target, times).await.map_err(|error| Page::unreachable(&error, &name))?;
    let parent = match route.hop {
        Hop::Parent(parent, _) => Some(parent),
        Hop::Direct(_) | Hop::Socks(_) => None,
    };
    Ok(ServerConnection { target: target.clone(), wire, parent, reused: false })
}
