//! Carrying a connection to the host it was let through to, and to no other behind the same address.
//!
//! Many names share one address, and their server goes by the name that the client tells it. So the client's bytes are
//! held back until it is known what they are ([`crate::protocols`]). The server is connected to at once and what it says
//! is handed on at once, because in many protocols (SSH, SMTP, MySQL) the server speaks first and the client waits for it.

use std::cell::{Cell, RefCell};
use std::io;

use kennel_policy::domain::Host;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connect::Tunnel;
use crate::doors::refuse;
use crate::forward::origin;
use crate::gate::Gate;
use crate::metered::MeteredStream;
use crate::protocols::http_line::{Line, LineReader, UNKNOWN};
use crate::protocols::{Opening, Step, Terms};
use crate::relay::{Activity, Wire, both_ways, farewell, fill, read_leased, send};
use crate::rules::{Decision, DenyReason};
use crate::sockets;
use crate::times::Times;

/// The most bytes of a client that wait for its server's word.
const MAX_HELD: usize = 64 << 10;

pub(crate) async fn carry(gate: &Gate, tunnel: Tunnel) {
    #[cfg(unix)]
    let tunnel = match inspected(gate, tunnel).await {
        Some(tunnel) => tunnel,
        None => return,
    };
    let Tunnel { mut client, mut upstream, target, door } = tunnel;
    let Host::Name(name) = &target.host else {
        // Whoever allows an address allows all that is behind it.
        return opaque(gate, client, upstream).await;
    };
    let rules = gate.rules();
    let (named, allow_ech) = (rules.protocols(&target.host, target.port), rules.allow_ech);
    let terms = Terms { name: name.clone(), port: target.port, named, allow_ech };
    // Whatever name a client tells a public server, it reaches no other host than it may reach by that one's address.
    let public = rules.decide(&target.host, target.port) == Decision::Public;
    if public || rules.allow_sni_mismatch || terms.any_bytes() {
        return opaque(gate, client, upstream).await;
    }
    drop(rules);
    match first_words(gate, &mut client, &upstream).await {
        Ok(Words::Http) => return Box::pin(origin::serve(gate, client, upstream, &target, door)).await,
        Ok(Words::Other(unknown)) => {
            let opening = Opening::new(terms, unknown);
            let Err(error) = Box::pin(judged(gate, opening, &mut client, &mut upstream)).await else {
                return;
            };
            sockets::reset_on_close(&upstream.stream);
            match error.get_ref().and_then(|inner| inner.downcast_ref::<Stopped>()) {
                Some(Stopped::Refused(reason)) => {
                    let denial = gate.deny(&target, door, reason.clone(), None);
                    refuse::judged(gate, client, &denial).await;
                }
                Some(Stopped::ServerEnded) => {
                    farewell(&client.stream, &[], gate.settings().times.stall).await;
                }
                None => sockets::reset_on_close(&client.stream),
            }
        }
        Err(_) => {
            sockets::reset_on_close(&upstream.stream);
            sockets::reset_on_close(&client.stream);
        }
    }
}

/// The first byte of every TLS connection: a handshake.
#[cfg(unix)]
const TLS: u8 = 22;

/// Reads the connection where the policy wants it; hands it back where it does not.
#[cfg(unix)]
async fn inspected(gate: &Gate, tunnel: Tunnel) -> Option<Tunnel> {
    use crate::services::inspect::terminate;

    let Some(inspector) = &gate.settings().inspect else { return Some(tunnel) };
    let Tunnel { mut client, upstream, target, door } = tunnel;
    let ends_here = inspector.terminates(&target);
    let only_requests = inspector.has_http_rules(&target) || ends_here && inspector.is_for_secrets(&target);
    let is_name = matches!(target.host, Host::Name(_));
    if !is_name && !only_requests && !ends_here && !inspector.refuse_opaque {
        return Some(Tunnel { client, upstream, target, door });
    }
    let words = match first_words(gate, &mut client, &upstream).await {
        Ok(words) => words,
        Err(_) => {
            sockets::reset_on_close(&upstream.stream);
            sockets::reset_on_close(&client.stream);
            return None;
        }
    };
    let inspector = std::sync::Arc::clone(inspector);
    match words {
        Words::Http => {
            Box::pin(terminate::plain(gate, inspector, Tunnel { client, upstream, target, door })).await;
            None
        }
        Words::Other(_) if ends_here && client.inbox.first() == Some(&TLS) => {
            Box::pin(terminate::encrypted(gate, inspector, Tunnel { client, upstream, target, door })).await;
            None
        }
        Words::Other(unknown) if only_requests || inspector.refuse_opaque => {
            sockets::reset_on_close(&upstream.stream);
            let denial = gate.deny(&target, door, DenyReason::Unread(unknown), None);
            refuse::judged(gate, client, &denial).await;
            None
        }
        Words::Other(_) => Some(Tunnel { client, upstream, target, door }),
    }
}

async fn opaque(gate: &Gate, client: Wire, upstream: Wire) {
    let times = gate.settings().times;
    // What a parent proxy sent behind its answer.
    if send(&client.stream, &upstream.inbox, times.stall).await.is_ok()
        && send(&upstream.stream, &client.inbox, times.stall).await.is_ok()
    {
        both_ways(&client.stream, &upstream.stream, times.patience()).await;
    }
}

enum Words {
    Http,
    /// What they are called should they turn out to be nothing that is known.
    Other(&'static str),
}

/// Waits until either side speaks, and if it is the client, until it is clear whether it speaks HTTP.
async fn first_words(gate: &Gate, client: &mut Wire, upstream: &Wire) -> io::Result<Words> {
    let mut line = LineReader::default();
    let patience = gate.settings().times.head;
    let mut deadline = None;
    // A server that speaks first does not wait for a request.
    if !upstream.inbox.is_empty() {
        return Ok(Words::Other(UNKNOWN));
    }
    loop {
        match line.read(&client.inbox) {
            Line::Http => return Ok(Words::Http),
            Line::Other(what) => return Ok(Words::Other(what)),
            Line::More => {}
        }
        if deadline.is_none() && !client.inbox.is_empty() {
            deadline = Some(Instant::now() + patience);
        }
        tokio::select! {
            read = client.fill() => {
                if read? == 0 {
                    return match client.inbox.is_empty() {
                        true => Ok(Words::Other(UNKNOWN)),
                        // Whoever broke off in the middle of a line has said nothing.
                        false => Err(io::ErrorKind::UnexpectedEof.into()),
                    };
                }
            }
            spoken = upstream.stream.input() => {
                spoken?;
                return Ok(Words::Other(UNKNOWN));
            }
            // A line that was begun has to end: what waits here could be the rest of a request for another host.
            () = until(deadline) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits for a deadline; for ever where there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Why a connection is not carried any further.
#[derive(Debug)]
enum Stopped {
    /// The client may not say this here.
    Refused(DenyReason),
    /// The server has ended, and the client's bytes were waiting for its word. The client has all that it said.
    ServerEnded,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stopped::Refused(reason) => reason.fmt(f),
            Stopped::ServerEnded => f.write_str("the server closed the connection before it answered"),
        }
    }
}

impl std::error::Error for Stopped {}

fn refused(reason: DenyReason) -> io::Error {
    io::Error::other(Stopped::Refused(reason))
}

/// What the one who carries the client's bytes has to know of the server.
#[derive(Default)]
struct Heard {
    /// The server said something, or ended.
    news: Notify,
    /// The server will say nothing more.
    ended: Cell<bool>,
}

/// Carries both ways, the client's bytes as far as they are known for what they are.
async fn judged(gate: &Gate, opening: Opening, client: &mut Wire, upstream: &mut Wire) -> io::Result<()> {
    let times = gate.settings().times;
    let (opening, heard, activity) = (RefCell::new(opening), Heard::default(), Activity::new());
    let Wire { stream, inbox } = client;
    let early = std::mem::take(&mut upstream.inbox);
    let server = &upstream.stream;
    let up = async {
        open(stream, inbox, server, &opening, &heard, times).await?;
        send(server, &std::mem::take(inbox), times.stall).await?;
        activity.pump(stream, server, times.stall).await
    };
    let down = async {
        let hear = |bytes: &[u8]| {
            let taken = opening.borrow_mut().server(bytes);
            heard.news.notify_one();
            taken.map_err(refused)
        };
        // What a parent proxy sent behind its answer.
        if !early.is_empty() {
            hear(&early)?;
            send(stream, &early, times.stall).await?;
        }
        while !opening.borrow().is_open() {
            let (lease, count) = read_leased(server, u64::MAX).await?;
            if count == 0 {
                sockets::finish(stream);
                heard.ended.set(true);
                heard.news.notify_one();
                return Ok(());
            }
            hear(&lease[..count])?;
            send(stream, &lease[..count], times.stall).await?;
        }
        activity.pump(server, stream, times.stall).await
    };
    activity.until_both_end(up, down, times.half_closed).await
}

/// Takes the client's bytes to the server as far as they may go, until nothing more has to be looked at.
async fn open(
    stream: &MeteredStream,
    inbox: &mut Vec<u8>,
    server: &MeteredStream,
    opening: &RefCell<Opening>,
    heard: &Heard,
    times: Times,
) -> io::Result<()> {
    let (mut deadline, mut held, mut ended) = (None, None, false);
    loop {
        let step = opening.borrow_mut().client(inbox);
        let fills = match step {
            Step::Open => return Ok(()),
            Step::Refuse(reason) => return Err(refused(reason)),
            Step::Pass(count) => {
                send(server, &inbox[..count], times.stall).await?;
                inbox.drain(..count);
                (deadline, held) = (None, None);
                continue;
            }
            Step::More if ended && inbox.is_empty() => return Ok(()),
            // What was never whole is never judged.
            Step::More if ended => return Err(io::ErrorKind::UnexpectedEof.into()),
            Step::More => {
                if deadline.is_none() && !inbox.is_empty() {
                    deadline = Some(Instant::now() + times.head);
                }
                true
            }
            Step::Hold if heard.ended.get() => return Err(io::Error::other(Stopped::ServerEnded)),
            Step::Hold => {
                let fills = !ended && inbox.len() < MAX_HELD;
                // A client that has ended may still wait for an answer, or it may be gone, which looks the same. One that
                // is not read from cannot be seen to end. So from here on the server has only so long to speak: else
                // everybody who gave up on a silent server would keep a place in the gate for as long as it is silent.
                deadline = match fills {
                    true => None,
                    false => held.or_else(|| Some(Instant::now() + times.head)),
                };
                held = deadline;
                fills
            }
        };
        tokio::select! {
            read = fill(stream, inbox), if fills => ended = read? == 0,
            () = heard.news.notified() => {}
            () = until(deadline) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
