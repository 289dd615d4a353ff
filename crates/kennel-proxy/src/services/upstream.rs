//! The gate's own connections to servers: verified, and in the protocol that both sides chose.

use std::io;

use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use kennel_policy::domain::Host;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::body::AnyBody;
use super::last_words::{Heard, LastWords};
use super::stream::Buffered;
use crate::clock::within;
use crate::inspect::{H2, Verifier};
use crate::relay::Wire;
use crate::times::Times;

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
    open_hearing(wire, tls, both, times, &LastWords::default()).await
}

/// The same, with a place for what the server says when it breaks off.
pub(crate) async fn open_hearing(
    wire: Wire,
    tls: Option<(&Verifier, &Host)>,
    both: bool,
    times: Times,
    words: &LastWords,
) -> io::Result<Sender> {
    words.forget();
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
    speak(Heard::new(stream, words.clone()), is_h2).await
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
