//! One request and its answer. Bodies stream in both directions at the same time; nothing but heads is ever held
//! whole.

use std::cell::Cell;
use std::io;

use tokio::time::Instant;

use super::body::{CopyError, Framing, Sink, copy_body};
use super::connection::{ServerConnection, out};
use super::leak::{Leak, LeakSearch};
use super::refusal::Page;
use super::requests::read_head;
use crate::connect;
use crate::gate::{Denial, Gate};
use crate::http::head::{self, Body, Field, HeadError, Request, Response};
use crate::metered::MeteredStream;
use crate::parent::ParentProxy;
use crate::record::Door;
use crate::relay::{self, Wire, farewell, send};
use crate::rules::DenyReason;
use crate::sockets;
use crate::times::Times;

/// The head that goes to the server.
fn outgoing(
    request: &Request,
    body: Body,
    line: String,
    host: &str,
    parent: Option<&ParentProxy>,
) -> Request {
    let mut fields = vec![Field::new("Host", host)];
    // Without it no proxy on the way is the last one, which would answer by itself.
    let last_stop = |field: &Field| parent.is_some() && field.is("max-forwards");
    let framed = |field: &Field| body == Body::Chunked && field.is("content-length");
    let own = head::end_to_end(&request.fields).into_iter();
    fields.extend(own.filter(|field| !field.is("host") && !framed(field) && !last_stop(field)));
    if body == Body::Chunked {
        fields.push(Field::new("Transfer-Encoding", "chunked"));
    }
    let mut connection = Vec::new();
    if head::list(&request.fields, "te").any(|word| word == "trailers") {
        fields.push(Field::new("TE", "trailers"));
        connection.push("TE");
    }
    if let Some(protocol) = upgrade(request) {
        fields.push(Field::new("Upgrade", protocol));
        connection.push("Upgrade");
    }
    if !connection.is_empty() {
        fields.push(Field::new("Connection", connection.join(", ")));
    }
    fields.extend(parent.and_then(connect::authorization));
    Request { method: request.method.clone(), target: line, minor: 1, fields }
}

/// The protocols that a connection can be changed to: WebSocket, and what Docker and Kubernetes carry their streams in.
/// Others are not offered to the server: HTTP/2 names its servers request by request, and TLS (RFC 2817) in its hello, out
/// of sight from here on.
const UPGRADES: [&str; 3] = ["websocket", "tcp", "SPDY/3.1"];

/// The protocol that a client wants to change to, where it may.
fn upgrade(request: &Request) -> Option<String> {
    let asks = head::list(&request.fields, "connection").any(|word| word == "upgrade");
    let mut protocols = request.fields.iter().filter(|field| field.is("upgrade"));
    let (Some(field), None, true) = (protocols.next(), protocols.next(), asks) else { return None };
    let protocol = String::from_utf8(field.value.clone()).ok()?;
    UPGRADES.iter().any(|own| own.eq_ignore_ascii_case(&protocol)).then_some(protocol)
}

/// How the client's connection depends on the server's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Not at all: the next request may go elsewhere.
    Apart,
    /// They are two halves of one, as the client sees it.
    Together,
}

/// One request and its answer. `None` when the client's connection is over; otherwise what is left of the
/// connection to the server.
pub(crate) async fn exchange(
    gate: &Gate,
    client: &mut Wire,
    mut upstream: ServerConnection,
    request: &Request,
    line: String,
    host: String,
    ends: Ends,
) -> Option<Option<ServerConnection>> {
    let times = gate.settings().times;
    let body = request.body().ok()?;
    let bytes = outgoing(request, body, line, &host, upstream.parent.as_ref()).to_bytes();
    let repeatable = body == Body::None && matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    loop {
        let credentials = upstream.parent.as_ref().and_then(|parent| parent.credentials.as_ref());
        let mut search = credentials.map(LeakSearch::new).transpose().ok()?;
        let wire = &mut upstream.wire;
        let outcome = converse(client, wire, request, body, &bytes, ends, times, search.as_mut()).await;
        if let (Err(failure), Some(limit)) = (&outcome, upstream.wire.stream.ended_by()) {
            match failure {
                Failure::Cut | Failure::Leak { .. } => sockets::reset_on_close(&client.stream),
                _ => {
                    let denial = Denial::over_budget(&upstream.target, limit);
                    let page = Page::denied(&denial).to_bytes(&request.method, false);
                    farewell(&client.stream, &page, times.stall).await;
                }
            }
            return None;
        }
        match outcome {
            Ok(Answered { upgraded: true, .. }) => {
                match &mut search {
                    None => change_protocol(client, &mut upstream.wire, times).await,
                    Some(search) => {
                        if changed_and_searched(client, &mut upstream.wire, times, search).await.is_err() {
                            gate.deny(&upstream.target, Door::Http, DenyReason::Leak, None);
                        }
                    }
                }
                return None;
            }
            Ok(Answered { client_stays, server_stays, .. }) => {
                if !client_stays {
                    farewell(&client.stream, &[], times.stall).await;
                    return None;
                }
                return Some(server_stays.then_some(upstream));
            }
            // The server closed a connection that was kept, just as it was used again.
            Err(Failure::NoAnswer) if upstream.reused && ends == Ends::Together => return None,
            Err(Failure::NoAnswer) if upstream.reused && repeatable => {
                match out(gate, &upstream.target, None).await {
                    Ok(fresh) => upstream = fresh,
                    Err(page) => {
                        farewell(&client.stream, &page.to_bytes(&request.method, false), times.stall).await;
                        return None;
                    }
                }
            }
            Err(failure) => {
                if let Failure::Leak { .. } = failure {
                    gate.deny(&upstream.target, Door::Http, DenyReason::Leak, None);
                }
                let page = match failure {
                    Failure::NoAnswer => Page::bad_answer("it closed the connection"),
                    Failure::Slow => Page::no_answer(),
                    Failure::BadAnswer(error) => Page::bad_answer(&error.to_string()),
                    Failure::BadRequest(error) => Page::malformed(error),
                    Failure::Leak { begun: false } => {
                        Page::bad_answer("it holds the parent proxy's password")
                    }
                    Failure::Cut | Failure::Leak { .. } => {
                        sockets::reset_on_close(&client.stream);
                        return None;
                    }
                };
                farewell(&client.stream, &page.to_bytes(&request.method, false), times.stall).await;
                return None;
            }
        }
    }
}

struct Answered {
    upgraded: bool,
    client_stays: bool,
    server_stays: bool,
}

enum Failure {
    /// The server closed before it said anything.
    NoAnswer,
    /// The server said nothing for too long.
    Slow,
    /// What the server said is no answer, and the client has seen none of it.
    BadAnswer(HeadError),
    /// The client's body is broken, and it has seen no answer.
    BadRequest(HeadError),
    /// Something ended in the middle; only a reset can say so.
    Cut,
    /// The answer holds the parent proxy's password.
    Leak {
        /// The client has seen some of the answer.
        begun: bool,
    },
}

#[expect(clippy::too_many_arguments, reason = "a conversation has two sides, and each its bytes")]
async fn converse(
    client: &mut Wire,
    upstream: &mut Wire,
    request: &Request,
    body: Body,
    bytes: &[u8],
    ends: Ends,
    times: Times,
    search: Option<&mut LeakSearch>,
) -> Result<Answered, Failure> {
    let Wire { stream: client_stream, inbox: client_inbox } = client;
    let Wire { stream: server_stream, inbox: server_inbox } = upstream;
    send(server_stream, bytes, times.stall).await.map_err(|_| Failure::NoAnswer)?;

    let begun = Cell::new(false);
    let framing = if body == Body::Chunked { Framing::Chunked } else { Framing::Plain };
    let sink = Sink { to: server_stream, framing, stall: times.stall, search: None };
    let up = copy_body(client_stream, client_inbox, body, sink);
    let down = answer(server_stream, server_inbox, client_stream, request, &begun, ends, times, search);
    tokio::pin!(up, down);
    let (mut up_done, mut sent_whole) = (body == Body::None, body == Body::None);
    let mut deadline = Instant::now() + times.response;
    loop {
        tokio::select! {
            result = &mut up, if !up_done => {
                up_done = true;
                deadline = Instant::now() + times.response;
                match result {
                    Ok(()) => sent_whole = true,
                    Err(CopyError::To) if server_stream.ended_by().is_some() => {
                        return Err(if begun.get() { Failure::Cut } else { Failure::Slow });
                    }
                    // A server that has heard enough closes its side; its answer may still come.
                    Err(CopyError::To) => {}
                    Err(CopyError::Malformed(error)) if !begun.get() => return Err(Failure::BadRequest(error)),
                    Err(_) => return Err(Failure::Cut),
                }
            }
            result = &mut down => {
                let mut answered = result?;
                answered.client_stays &= sent_whole;
                answered.server_stays &= sent_whole;
                return Ok(answered);
            }
            () = tokio::time::sleep_until(deadline), if up_done && !begun.get() => return Err(Failure::Slow),
        }
    }
}

/// Reads the server's answer and hands it on, with all that comes before the final one (100, 103).
#[expect(clippy::too_many_arguments, reason = "a conversation has two sides, and each its bytes")]
async fn answer(
    server: &MeteredStream,
    inbox: &mut Vec<u8>,
    client: &MeteredStream,
    request: &Request,
    begun: &Cell<bool>,
    ends: Ends,
    times: Times,
    mut search: Option<&mut LeakSearch>,
) -> Result<Answered, Failure> {
    loop {
        let bytes = match read_head(&mut (server, &mut *inbox)).await {
            Ok(Some(bytes)) => bytes,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(Failure::BadAnswer(HeadError::TooLarge));
            }
            _ if begun.get() || !inbox.is_empty() => return Err(Failure::Cut),
            _ => return Err(Failure::NoAnswer),
        };
        let cannot = |error| if begun.get() { Failure::Cut } else { Failure::BadAnswer(error) };
        let response = Response::parse(&bytes).map_err(cannot)?;
        let body = response.body(&request.method).map_err(cannot)?;
        let upgraded = response.status == 101;
        if upgraded && upgrade(request).is_none() {
            return Err(cannot(HeadError::Malformed("it switches to a protocol that was not requested")));
        }
        let interim = response.status < 200 && !upgraded;
        // HTTP/1.0 knows no interim answers and no chunks.
        if interim && request.minor == 0 {
            continue;
        }
        let framing = match body {
            Body::Chunked if request.minor == 1 => Framing::Chunked,
            _ => Framing::Plain,
        };
        let ends_by_close = body == Body::UntilClose || body == Body::Chunked && framing == Framing::Plain;
        let server_stays = response.keeps_alive() && body != Body::UntilClose;
        let served_on = server_stays || ends == Ends::Apart;
        let client_stays = interim || request.keeps_alive() && !ends_by_close && served_on;
        let head = incoming(&response, request, framing, upgraded, client_stays);
        let mut bytes = head.to_bytes();
        if let Some(search) = &search
            && search.check(&bytes).is_err()
        {
            return Err(Failure::Leak { begun: begun.get() });
        }
        begun.set(true);
        let mut body = body;
        // What has come of a body goes with the head: a small answer is one packet, and wakes its client once.
        if let Body::Length(left) = &mut body
            && !interim
            && search.is_none()
        {
            let first = usize::try_from(*left).unwrap_or(usize::MAX).min(inbox.len());
            bytes.extend(inbox.drain(..first));
            *left -= first as u64;
        }
        send(client, &bytes, times.stall).await.map_err(|_| Failure::Cut)?;
        if interim {
            continue;
        }
        if !upgraded {
            let sink = Sink { to: client, framing, stall: times.stall, search: search.as_deref_mut() };
            copy_body(server, inbox, body, sink).await.map_err(|error| match error {
                CopyError::Leak => Failure::Leak { begun: true },
                _ => Failure::Cut,
            })?;
        }
        return Ok(Answered { upgraded, client_stays, server_stays });
    }
}

/// The head that goes to the client.
fn incoming(
    response: &Response,
    request: &Request,
    framing: Framing,
    upgraded: bool,
    stays: bool,
) -> Response {
    let mut fields = head::end_to_end(&response.fields);
    if framing == Framing::Chunked {
        fields.push(Field::new("Transfer-Encoding", "chunked"));
    }
    if upgraded {
        fields.extend(response.fields.iter().filter(|field| field.is("upgrade")).cloned());
        fields.push(Field::new("Connection", "Upgrade"));
    } else if !stays {
        fields.push(Field::new("Connection", "close"));
    } else if request.minor == 0 {
        fields.push(Field::new("Connection", "keep-alive"));
    }
    Response { minor: 1, status: response.status, reason: response.reason.clone(), fields }
}

async fn change_protocol(client: &mut Wire, server: &mut Wire, times: Times) {
    let to_server = send(&server.stream, &client.inbox, times.stall);
    let to_client = send(&client.stream, &server.inbox, times.stall);
    if let (Ok(()), Ok(())) = tokio::join!(to_server, to_client) {
        relay::both_ways(&client.stream, &server.stream, times.patience()).await;
    }
}

/// The same where what comes back is searched for the parent proxy's password.
async fn changed_and_searched(
    client: &mut Wire,
    server: &mut Wire,
    times: Times,
    search: &mut LeakSearch,
) -> Result<(), Leak> {
    let Wire { stream: client, inbox: from_client } = client;
    let Wire { stream: server, inbox: from_server } = server;
    let (framing, stall) = (Framing::Plain, times.stall);
    let up = async {
        let sink = Sink { to: server, framing, stall, search: None };
        let done = copy_body(client, from_client, Body::UntilClose, sink).await;
        sockets::finish(server);
        done
    };
    let down = async {
        let sink = Sink { to: client, framing, stall, search: Some(search) };
        let done = copy_body(server, from_server, Body::UntilClose, sink).await;
        sockets::finish(client);
        done
    };
    match tokio::try_join!(up, down) {
        Ok(_) => Ok(()),
        Err(error) => {
            sockets::reset_on_close(client);
            sockets::reset_on_close(server);
            if matches!(error, CopyError::Leak) { Err(Leak) } else { Ok(()) }
        }
    }
}
