//! The gateway's connections to a provider. They are kept for the next request, whichever client inside it comes from: a handshake
//! takes longer than everything else that the gateway does.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::connect;
use crate::gate::Gate;
use crate::gateway::refusal::Refusal;
use crate::gateway::{Gateway, Upstream};
use crate::route::{Exit, Target};
use crate::services::body::AnyBody;
use crate::services::upstream::{self, Sender};

/// The most connections of HTTP/1.1 that are kept while nobody uses them.
const MAX_KEPT: usize = 8;
/// Less than what routers remember a silent connection for.
const MAX_AGE: Duration = Duration::from_secs(90);

thread_local! {
    /// Of the gate that this thread serves. They belong to its event loop.
    static OWN: Rc<Connections> = Rc::default();
}

/// Connections that nobody uses.
#[derive(Default)]
pub(crate) struct Connections(RefCell<Vec<Kept>>);

struct Kept {
    provider: usize,
    sender: Sender,
    /// By the clock on the wall, which also counts the time that a computer sleeps.
    used: SystemTime,
}

impl Kept {
    fn new(provider: usize, sender: Sender) -> Kept {
        Kept { provider, sender, used: SystemTime::now() }
    }

    /// Whether it takes another request, as far as anybody can tell: of an old one nobody may know any more, and who uses it waits
    /// for minutes to find that out.
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.used.elapsed().is_ok_and(|age| age < MAX_AGE)
    }
}

/// A connection of HTTP/1.1 that is used, to be kept when the response has ended.
pub(crate) struct Lent {
    from: Rc<Connections>,
    provider: usize,
    sender: Option<Sender>,
}

impl Lent {
    /// The response was read to its end: the connection takes another request.
    pub(crate) fn give_back(mut self) {
        let mut kept = self.from.0.borrow_mut();
        if let Some(sender) = self.sender.take()
            && !sender.is_closed()
            && kept.len() < MAX_KEPT
        {
            kept.push(Kept::new(self.provider, sender));
        }
    }
}

/// Why there is no response, and whether the provider may have seen the request.
pub(crate) struct Failed {
    pub(crate) refusal: Refusal,
    pub(crate) left: bool,
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed { refusal, left: false }
    }
}

impl Connections {
    /// Those of this thread.
    pub(crate) fn own() -> Rc<Connections> {
        OWN.with(Rc::clone)
    }

    /// Sends a request to the provider of this number. One that a kept connection did not take any more goes by a new one.
    pub(crate) async fn send(
        self: &Rc<Self>,
        gate: &Gate,
        gateway: &Gateway,
        provider: usize,
        build: impl Fn(bool) -> Result<Request<()>, Refusal>,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, Lent), Failed> {
        let to = &gateway.providers[provider].upstream;
        for may_keep in [true, false] {
            let (mut sender, is_new) = match self.kept(provider).filter(|_| may_keep) {
                Some(sender) => (sender, false),
                None => (self.connect(gate, gateway, provider).await?, true),
            };
            let all: AnyBody = Box::pin(Full::new(body.clone()).map_err(|never| match never {}));
            let request = build(sender.is_h2())?.map(|()| all);
            let sent = tokio::time::timeout(gate.settings().times.response, sender.send(request)).await;
            match sent {
                Err(_) => {
                    let refusal = Refusal::Upstream(format!("{to} did not answer in time"));
                    return Err(Failed { refusal, left: true });
                }
                Ok(Ok(response)) => {
                    let sender = Some(sender).filter(|sender| !sender.is_h2());
                    return Ok((response, Lent { from: Rc::clone(self), provider, sender }));
                }
                // It was closed meanwhile, and the provider has seen nothing of this request.
                Ok(Err((_, Some(_)))) if !is_new => {}
                Ok(Err((error, unsent))) => {
                    let refusal = unreachable(to, &innermost(&error));
                    return Err(Failed { refusal, left: unsent.is_none() });
                }
            }
            self.0.borrow_mut().retain(|kept| kept.provider != provider);
        }
        Err(unreachable(to, "the connection was closed").into())
    }

    fn kept(&self, provider: usize) -> Option<Sender> {
        let mut kept = self.0.borrow_mut();
        kept.retain(Kept::is_fresh);
        let place = kept.iter().rposition(|kept| kept.provider == provider)?;
        if let Kept { sender: Sender::H2(shared), used, .. } = &mut kept[place] {
            // Shared by all.
            *used = SystemTime::now();
            return Some(Sender::H2(shared.clone()));
        }
        Some(kept.remove(place).sender)
    }

    async fn connect(&self, gate: &Gate, gateway: &Gateway, provider: usize) -> Result<Sender, Refusal> {
        let to = &gateway.providers[provider].upstream;
        let times = gate.settings().times;
        let target = Target { host: to.host.clone(), port: to.port };
        let route = gate.route_to(&target, if to.tls { Exit::Tunnel } else { Exit::Request }).await;
        let route = route.map_err(|error| unreachable(to, &error.to_string()))?;
        let wire = connect::tunnel(&route, &target, times).await;
        let wire = wire.map_err(|error| unreachable(to, &error.to_string()))?;
        let tls = to.tls.then_some((&gateway.verifier, &to.host));
        let sender = upstream::open(wire, tls, true, times).await.map_err(|error| not_opened(to, &error))?;
        if let Sender::H2(shared) = &sender {
            self.0.borrow_mut().push(Kept::new(provider, Sender::H2(shared.clone())));
        }
        Ok(sender)
    }
}

fn not_opened(to: &Upstream, error: &io::Error) -> Refusal {
    let tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    match tls {
        true => Refusal::Unverified(format!(
            "the certificate of {to} could not be verified: {error}; a server with a certificate of your own authority needs network.extra_ca"
        )),
        false => unreachable(to, &error.to_string()),
    }
}

fn unreachable(to: &Upstream, why: &str) -> Refusal {
    Refusal::Upstream(format!("talking to {to}: {why}"))
}

/// What went wrong first of all: the outer errors only say that something did.
fn innermost(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
