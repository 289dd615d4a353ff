//! The ways into inspection: a TLS connection that ends here, a plain one, and the proxy door.
//!
//! A terminated connection is two: the client's, with a certificate of the sandbox's own authority, and the gate's, which
//! verifies the server as the client would have. The server's is made first, so that both speak the same version of HTTP and a
//! server that cannot be verified is told to the client as a page and not as a broken connection.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use kennel_policy::domain::Host;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::LazyConfigAcceptor;

use super::{InspectedClient, UpstreamConnection, failed, serve};
use crate::clock::within;
use crate::connect::Tunnel;
use crate::forward::refusal::Page;
use crate::gate::Gate;
use crate::inspect::{AllTaken, H1, H2, Inspector};
use crate::record::Door;
use crate::relay::farewell;
use crate::rules::DenyReason;
use crate::services::http1;
use crate::services::last_words::LastWords;
use crate::services::stream::Buffered;
use crate::services::upstream;
use crate::{sockets, tls};

/// Serves a client whose TLS connection to `target` ends here.
pub(crate) async fn encrypted(gate: &Gate, inspector: Arc<Inspector>, tunnel: Tunnel) {
    let Tunnel { client, upstream, target, door } = tunnel;
    let times = gate.settings().times;
    let patience = inspector.handshake_timeout.unwrap_or(times.head);
    let place = inspector.place();
    let hello = LazyConfigAcceptor::new(Acceptor::default(), Buffered::from(client));
    let start = match within(patience, hello).await {
        Ok(start) => start,
        Err(error) => {
            if error.kind() == io::ErrorKind::InvalidData {
                gate.deny(&target, door, DenyReason::Tls("it cannot be read"), None);
            }
            return;
        }
    };
    let hello = start.client_hello();
    let named = hello.server_name().map(Host::parse);
    let both = hello.alpn().is_some_and(|mut offered| offered.any(|protocol| protocol == H2));
    let elsewhere = match &named {
        Some(Ok(host)) => *host != target.host,
        Some(Err(_)) => true,
        None => false,
    };
    if elsewhere {
        let told = hello.server_name().unwrap_or_default().to_owned();
        gate.deny(&target, door, DenyReason::NameMismatch(told), None);
        sockets::reset_on_close(&upstream.stream);
        return farewell(&start.io.stream, &tls::ACCESS_DENIED, times.stall).await;
    }
    let words = LastWords::default();
    let (sender, failure) = match place {
        Ok(_) => {
            let tls = Some((&inspector.verifier, &target.host));
            match upstream::open_hearing(upstream, tls, both, times, &words).await {
                Ok(sender) => (Some(sender), None),
                Err(error) => (None, Some(failed(&error, &target))),
            }
        }
        Err(AllTaken) => {
            gate.deny(&target, door, DenyReason::TooMany, None);
            (None, Some(all_taken()))
        }
    };
    let is_h2 = sender.as_ref().map_or(both, upstream::Sender::is_h2);
    let Some(config) = config(&inspector, &target.host, is_h2) else { return };
    let accepted = within(patience, async { start.into_stream(config).await }).await;
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => {
            if is_distrust(&error) {
                gate.deny(&target, door, DenyReason::NotTrusted, None);
            }
            return;
        }
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let upstream = UpstreamConnection::new(target.clone(), true, both, sender, words);
    let client = InspectedClient {
        gate: gate.clone(),
        inspector,
        door,
        upstream: RefCell::new(Some(upstream)),
        encrypted: true,
        failure,
    };
    serve(Rc::new(client), target, http1::ClientStream::new(stream), is_h2).await;
}

fn all_taken() -> Page {
    let text = "kennel reads as many TLS connections as the policy allows; close one, or try again later.";
    Page { status: 503, phrase: "Service Unavailable".into(), code: "too-many-tunnels", text: text.into() }
}

/// Serves a client whose plain connection to `target` carries requests.
pub(crate) async fn plain(gate: &Gate, inspector: Arc<Inspector>, tunnel: Tunnel) {
    let Tunnel { client, upstream, target, door } = tunnel;
    let Ok(sender) = upstream::open(upstream, None, false, gate.settings().times).await else { return };
    let upstream = UpstreamConnection::new(target.clone(), false, false, Some(sender), LastWords::default());
    let serving =
        InspectedClient { upstream: RefCell::new(Some(upstream)), ..by_proxy(gate, inspector, door) };
    serve(Rc::new(serving), target, http1::ClientStream::from(client), false).await;
}

/// For a client of the proxy door, which names a server in each request.
pub(crate) fn by_proxy(gate: &Gate, inspector: Arc<Inspector>, door: Door) -> InspectedClient {
    InspectedClient {
        gate: gate.clone(),
        inspector,
        door,
        upstream: RefCell::default(),
        encrypted: false,
        failure: None,
    }
}

/// One certificate, whatever the client asks for: what it may ask for has been compared.
#[derive(Debug)]
struct This(Arc<CertifiedKey>);

impl ResolvesServerCert for This {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn config(inspector: &Inspector, host: &Host, is_h2: bool) -> Option<Arc<ServerConfig>> {
    let leaf = inspector.authority.as_ref()?.leaf(host).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(This(leaf)));
    config.alpn_protocols = match is_h2 {
        true => vec![H2.to_vec()],
        false => vec![H1.to_vec()],
    };
    // No sessions to take up again: each would be a secret more to keep.
    config.send_tls13_tickets = 0;
    Some(Arc::new(config))
}

/// Whether a client broke off because of the certificate: from here on it has nothing else to object to.
fn is_distrust(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::AlertReceived(_)))
}
