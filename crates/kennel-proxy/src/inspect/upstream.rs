//! The gate's own connections to servers: verified, and in the protocol that both sides chose.

use std::io;
use std::sync::{Arc, OnceLock};

use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use kennel_policy::domain::Host;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::body::AnyBody;
use super::roots::Roots;
use super::stream::Buffered;
use crate::clock::within;
use crate::gate::Times;
use crate::relay::Wire;

pub(crate) const H1: &[u8] = b"http/1.1";
pub(crate) const H2: &[u8] = b"h2";

/// Whom and how the gate verifies.
#[derive(Debug)]
pub(crate) struct Verifier {
    roots: Arc<Roots>,
    /// With HTTP/2, and without.
    configs: [OnceLock<Arc<ClientConfig>>; 2],
}

impl Verifier {
    pub(crate) fn new(roots: Arc<Roots>) -> Verifier {
        Verifier { roots, configs: Default::default() }
    }

    fn config(&self, both: bool) -> Arc<ClientConfig> {
        Arc::clone(self.configs[usize::from(both)].get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(rustls::DEFAULT_VERSIONS)
                .expect("ring has suites for these versions")
                .with_root_certificates(self.roots.store())
                .with_no_client_auth();
            config.alpn_protocols = match both {
                true => vec![H2.to_vec(), H1.to_vec()],
                false => vec![H1.to_vec()],
            };
            Arc::new(config)
        }))
    }
}

/// A connection to a server that takes requests.
pub(crate) enum Sender {
    H1(http1::SendRequest<AnyBody>),
    H2(http2::SendRequest<AnyBody>),
}

impl Sender {
    pub(crate) fn is_h2(&self) -> bool {
        matches!(self, Sender::H2(_))
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Sender::H1(sender) => sender.is_closed(),
            Sender::H2(sender) => sender.is_closed(),
        }
    }

    /// Sends a request. One that was not begun is handed back, to be tried over another connection.
    pub(crate) async fn send(
        &mut self,
        request: Request<AnyBody>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<AnyBody>>)> {
        match self {
            Sender::H1(sender) => {
                if let Err(error) = sender.ready().await {
                    return Err((error, Some(request)));
                }
                sender.try_send_request(request).await
            }
            Sender::H2(sender) => {
                if let Err(error) = sender.ready().await {
                    return Err((error, Some(request)));
                }
                sender.try_send_request(request).await
            }
        }
        .map_err(|mut error| {
            let request = error.take_message();
            (error.into_error(), request)
        })
    }
}

/// What runs HTTP/2's streams: this thread.
#[derive(Clone, Copy)]
pub(crate) struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

/// Speaks HTTP over a connection, encrypted for `host` where there is one. `both` offers HTTP/2 as well.
pub(crate) async fn open(
    wire: Wire,
    tls: Option<(&Verifier, &Host)>,
    both: bool,
    times: Times,
) -> io::Result<Sender> {
    let stream = Buffered::from(wire);
    let Some((verifier, host)) = tls else {
        return speak(stream, false).await;
    };
    let name = match host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        Host::Ip(address) => ServerName::from(*address),
    };
    let connector = TlsConnector::from(verifier.config(both));
    let stream = within(times.connect, connector.connect(name, stream)).await?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    speak(stream, is_h2).await
}

async fn speak(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    is_h2: bool,
) -> io::Result<Sender> {
    let stream = TokioIo::new(stream);
    if is_h2 {
        let (sender, connection) = http2::Builder::new(Local)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .handshake(stream)
            .await
            .map_err(io::Error::other)?;
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        return Ok(Sender::H2(sender));
    }
    let (sender, connection) =
        http1::Builder::new().preserve_header_case(true).handshake(stream).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(Sender::H1(sender))
}
