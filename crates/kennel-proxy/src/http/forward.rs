//! Requests and their answers, one after the other over one client connection.
//!
//! A client either knows that it talks to a proxy and names the server in each request, or believes that it talks
//! to the server: then its connection was carried here, and each request has to be for that server.

use std::io;

use kennel_policy::domain::Host;
use tokio::net::TcpStream;

use super::exchange::{Ends, exchange};
use super::head::{self, Body, Field, HeadError, Request};
use super::refusal::Page;
use crate::clock::{expect_deadlines, within};
use crate::connect;
use crate::doors::tunnel::Tunnel;
use crate::gate::{Exit, Gate, Route, Target, Times};
use crate::parent::{ParentProxy, split_authority};
use crate::record::Door;
use crate::relay::{Wire, farewell, fill, send};
use crate::rules::DenyReason;

/// Serves a client that knows it talks to a proxy, until it ends or becomes a tunnel.
pub(crate) async fn proxy(gate: &Gate, mut client: Wire) -> Option<Tunnel> {
    let times = gate.settings().times;
    let mut kept: Option<Upstream> = None;
    let mut first = true;
    loop {
        let request = match next_request(&mut client, times, first).await {
            Next::Request(request) => request,
            Next::Malformed(error) => {
                farewell_to(&client, &Page::malformed(error), times).await;
                return None;
            }
            Next::Slow => {
                farewell_to(&client, &Page::slow(), times).await;
                return None;
            }
            Next::End => return None,
        };
        first = false;
        if authorized(gate, &request) && request.method == "CONNECT" {
            return connect_method(gate, client, &request).await;
        }
        #[cfg(unix)]
        if authorized(gate, &request)
            && let Some(gateway) = &gate.settings().gateway
            && let Ok(wanted) = absolute_form(&request)
            && let Some(number) = gateway.provider_at(&wanted.target)
        {
            let inbox = [request.to_bytes(), std::mem::take(&mut client.inbox)].concat();
            let client = Wire { stream: client.stream, inbox };
            Box::pin(crate::gateway::serve(gate, gateway, number, client, true)).await;
            return None;
        }
        let ready = match authorized(gate, &request) {
            // A connection that began with a CONNECT goes on with nothing else, where requests are read.
            true if gate.reads_requests() => {
                let text = "this connection is for CONNECT; send other requests over another one.";
                Err(Page::request(400, "Bad Request", text))
            }
            true => prepare(gate, &request, kept.take()).await,
            false => Err(Page::unauthorized()),
        };
        match ready {
            Ok((upstream, line, host)) => {
                kept = exchange(gate, &mut client, upstream, &request, line, host, Ends::Apart).await?;
            }
            Err(page) => dismiss(&client, &page, &request, times).await?,
        }
    }
}

/// The connection for a request, its target as the other side wants it, and its `Host`.
async fn prepare(
    gate: &Gate,
    request: &Request,
    kept: Option<Upstream>,
) -> Result<(Upstream, String, String), Page> {
    let wanted = absolute_form(request)?;
    let upstream = out(gate, &wanted.target, kept).await?;
    // What the gate adds would come back with the rest.
    let returns = ["TRACE", "TRACK", "DEBUG"].iter().any(|own| own.eq_ignore_ascii_case(&request.method));
    if returns && upstream.parent.as_ref().is_some_and(|parent| parent.credentials.is_some()) {
        let text = "a request that the server echoes is not sent to a proxy that requires a password.";
        return Err(Page::request(405, "Method Not Allowed", text));
    }
    let host = wanted.authority();
    let line = match &upstream.parent {
        None => wanted.path,
        Some(_) => format!("http://{host}{}", wanted.path),
    };
    Ok((upstream, line, host))
}

/// Serves a client that believes it talks to `target`, over a connection that was let through.
pub(crate) async fn server(gate: &Gate, mut client: Wire, upstream: Wire, target: &Target, door: Door) {
    let times = gate.settings().times;
    let mut upstream = Upstream { target: target.clone(), wire: upstream, parent: None, reused: false };
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
                return farewell_to(&client, &Page::malformed(error), times).await;
            }
            Next::Slow => return farewell_to(&client, &Page::slow(), times).await,
            Next::End => return,
        };
        let wanted = match origin_form(&request, target) {
            Ok(wanted) => wanted,
            Err(page) => {
                gate.deny(target, door, DenyReason::Request(page.text.clone()), None);
                return last_page(&client, &page, &request, times).await;
            }
        };
        if wanted.target != *target {
            let reason = DenyReason::NameMismatch(wanted.target.to_string());
            let denial = gate.deny(target, door, reason, None);
            return last_page(&client, &Page::denied(&denial), &request, times).await;
        }
        let host = wanted.authority();
        match exchange(gate, &mut client, upstream, &request, wanted.path, host, Ends::Together).await {
            Some(Some(next)) => upstream = Upstream { reused: true, ..next },
            _ => return,
        }
    }
}

/// A connection to a server or to a parent proxy.
pub(super) struct Upstream {
    pub(super) target: Target,
    pub(super) wire: Wire,
    pub(super) parent: Option<ParentProxy>,
    /// It has served a request before, so the server may just have closed it.
    pub(super) reused: bool,
}

impl Upstream {
    /// Waits until the server closes, or says what nobody asked for.
    async fn hangs_up(&self) {
        while self.wire.stream.readable().await.is_ok() && self.is_quiet() {}
    }

    /// Whether it can be used again: a server that has closed, or sent what nobody asked for, is done with.
    fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let nothing = self.wire.stream.try_read(&mut byte);
        self.wire.inbox.is_empty() && nothing.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// What a request asks for.
struct Wanted {
    target: Target,
    path: String,
}

impl Wanted {
    /// The canonical host for the `Host` field: what was compared is what is asked for.
    fn authority(&self) -> String {
        if self.target.port == 80 {
            let full = self.target.to_string();
            return full.strip_suffix(":80").unwrap_or(&full).to_owned();
        }
        self.target.to_string()
    }
}

/// What comes next from a client.
enum Next {
    Request(Request),
    /// What is no request.
    Malformed(HeadError),
    /// A request that did not become whole in time.
    Slow,
    /// Nothing.
    End,
}

async fn next_request(client: &mut Wire, times: Times, first: bool) -> Next {
    expect_deadlines();
    let skip = head::leading_empty_lines(&client.inbox);
    client.inbox.drain(..skip);
    if client.inbox.is_empty() {
        let patience = if first { times.head } else { times.idle };
        if !matches!(within(patience, client.fill()).await, Ok(1..)) {
            return Next::End;
        }
    }
    match within(times.head, read_head(&client.stream, &mut client.inbox)).await {
        Ok(Some(bytes)) => match Request::parse(&bytes).and_then(|head| head.body().map(|_| head)) {
            Ok(request) => Next::Request(request),
            Err(error) => Next::Malformed(error),
        },
        Ok(None) => Next::End,
        Err(error) => match error.kind() {
            io::ErrorKind::InvalidData => Next::Malformed(HeadError::TooLarge),
            io::ErrorKind::TimedOut => Next::Slow,
            _ => Next::End,
        },
    }
}

/// Ends a connection with a page, when there is no request to answer.
async fn farewell_to(client: &Wire, page: &Page, times: Times) {
    farewell(&client.stream, &page.to_bytes("GET", false), times.stall).await;
}

/// A whole head; `None` when the connection ends before one.
pub(super) async fn read_head(stream: &TcpStream, inbox: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut seen = 0;
    loop {
        let skip = if seen == 0 { head::leading_empty_lines(inbox) } else { 0 };
        inbox.drain(..skip);
        if let Some(end) = head::end(inbox, seen) {
            if end > head::MOST_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            return Ok(Some(inbox.drain(..end).collect()));
        }
        seen = inbox.len();
        if seen > head::MOST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if fill(stream, inbox).await? == 0 {
            return Ok(None);
        }
    }
}

fn authorized(gate: &Gate, request: &Request) -> bool {
    let Some(credentials) = &gate.settings().credentials else { return true };
    let mut shown = request.fields.iter().filter(|field| field.is("proxy-authorization"));
    match (shown.next(), shown.next()) {
        (Some(field), None) => credentials.accept_basic(&field.value),
        _ => false,
    }
}

/// Answers a request with a page of the proxy's own. `None` when the connection is over: a body that nobody reads
/// would be taken for the next request.
async fn dismiss(client: &Wire, page: &Page, request: &Request, times: Times) -> Option<()> {
    if !request.keeps_alive() || request.body() != Ok(Body::None) {
        last_page(client, page, request, times).await;
        return None;
    }
    send(&client.stream, &page.to_bytes(&request.method, true), times.stall).await.ok()
}

async fn last_page(client: &Wire, page: &Page, request: &Request, times: Times) {
    farewell(&client.stream, &page.to_bytes(&request.method, false), times.stall).await;
}

async fn connect_method(gate: &Gate, client: Wire, request: &Request) -> Option<Tunnel> {
    let times = gate.settings().times;
    let end = async |page: Page| {
        last_page(&client, &page, request, times).await;
        None
    };
    // RFC 9110 §9.3.6: host and port, both of them, and no body.
    let Some((host, port)) = request.target.rsplit_once(':') else {
        return end(Page::request(400, "Bad Request", "CONNECT requires a host and a port.")).await;
    };
    let Some(port) = port.parse().ok().filter(|number: &u16| *number != 0 && number.to_string() == port)
    else {
        return end(Page::request(400, "Bad Request", "CONNECT requires a port from 1 to 65535.")).await;
    };
    let host = match Host::parse(host) {
        Ok(host) => host,
        Err(error) => {
            let denial = gate.deny_text(host, port, Door::Connect, error);
            return end(Page::denied(&denial)).await;
        }
    };
    let target = Target { host, port };
    // What the client's `Host` is compared with is what it wrote; where it goes is the name behind it.
    let place = Target { host: gate.by_name(target.host.clone()), port };
    if request.body() != Ok(Body::None) {
        return end(Page::request(400, "Bad Request", "a CONNECT request must not have a body.")).await;
    }
    if let Err(page) = agree(&request.fields, &target, 443) {
        return end(page).await;
    }
    let wire = match gate.admit(&place, Door::Connect, Exit::Tunnel).await {
        Err(refusal) => return end(Page::refused(&refusal, &place.to_string())).await,
        Ok(route) => connect::tunnel(&route, &place, times).await,
    };
    match wire {
        Err(error) => end(Page::unreachable(&error, &place.to_string())).await,
        Ok(upstream) => {
            let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
            send(&client.stream, established, times.stall).await.ok()?;
            Some(Tunnel { client, upstream, target: place, door: Door::Connect })
        }
    }
}

/// `GET http://host/path`, with a `Host` that says the same.
fn absolute_form(request: &Request) -> Result<Wanted, Page> {
    let bad = |text: &str| Page::request(400, "Bad Request", text);
    let (scheme, rest) = request.target.split_once("://").ok_or_else(|| {
        bad("this is a proxy: a request must name its server, as in `GET http://example.com/`.")
    })?;
    if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("wss") {
        return Err(bad("use CONNECT to reach an https address, so that only its server reads the request."));
    }
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("ws") {
        return Err(Page::request(501, "Not Implemented", "only http addresses are forwarded."));
    }
    let split = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(split);
    let path = match path {
        "" if request.method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    if authority.contains('@') || path.contains('#') {
        return Err(bad("the address has a user name or a fragment, which a request must not have."));
    }
    let (host, port) =
        split_authority(authority, Some(80)).ok_or_else(|| bad("the address has no valid host."))?;
    let wanted = Wanted { target: Target { host, port }, path };
    agree(&request.fields, &wanted.target, 80)?;
    Ok(wanted)
}

/// `GET /path`, or the absolute form; the server is the one that `Host` names, and `target` where nothing does.
fn origin_form(request: &Request, target: &Target) -> Result<Wanted, Page> {
    let bad = |text: &str| Page::request(400, "Bad Request", text);
    if request.method == "CONNECT" {
        // An allowed host that is itself a proxy would carry this to hosts that are not allowed.
        return Err(Page::request(
            405,
            "Method Not Allowed",
            "CONNECT through another server is not supported.",
        ));
    }
    if request.target.contains("://") && !request.target.starts_with('/') {
        return absolute_form(request);
    }
    if !request.target.starts_with('/') && request.target != "*" {
        return Err(bad("the request target is not a path."));
    }
    let mut hosts = request.fields.iter().filter(|field| field.is("host"));
    let named = match (hosts.next(), hosts.next()) {
        (None, _) => target.clone(),
        (Some(_), Some(_)) => return Err(bad("two Host fields.")),
        (Some(field), None) => {
            let text = std::str::from_utf8(&field.value).unwrap_or_default();
            // The port that a client left out is the one it connected to.
            let (host, port) = split_authority(text, Some(target.port))
                .ok_or_else(|| bad("the Host field has no valid host."))?;
            Target { host, port }
        }
    };
    Ok(Wanted { target: named, path: request.target.clone() })
}

/// The `Host` field, where there is one, has to name the target: a server may go by it alone.
fn agree(fields: &[Field], target: &Target, default_port: u16) -> Result<(), Page> {
    let mut hosts = fields.iter().filter(|field| field.is("host"));
    let (Some(field), None) = (hosts.next(), hosts.next()) else {
        return match fields.iter().filter(|field| field.is("host")).count() {
            0 => Ok(()),
            _ => Err(Page::request(400, "Bad Request", "two Host fields.")),
        };
    };
    let text = std::str::from_utf8(&field.value).unwrap_or_default();
    let host_only = Host::parse(text).is_ok_and(|host| host == target.host);
    let full = split_authority(text, Some(default_port))
        .is_some_and(|(host, port)| host == target.host && port == target.port);
    if full || host_only {
        return Ok(());
    }
    Err(Page::request(400, "Bad Request", "the Host field names a different server than the request."))
}

/// The connection for a request: the one that is kept if it leads to the same place, or a new one. The decision is
/// made for each request, so that new rules hold for the next one.
pub(super) async fn out(gate: &Gate, target: &Target, kept: Option<Upstream>) -> Result<Upstream, Page> {
    let name = target.to_string();
    let route = gate.admit(target, Door::Http, Exit::Request).await;
    let route = route.map_err(|refusal| Page::refused(&refusal, &name))?;
    if let Some(kept) = kept.filter(|kept| kept.target == *target && kept.is_quiet()) {
        return Ok(Upstream { reused: true, ..kept });
    }
    let times = gate.settings().times;
    let wire =
        connect::request(&route, target, times).await.map_err(|error| Page::unreachable(&error, &name))?;
    let parent = match route {
        Route::Parent(parent, _) => Some(parent),
        Route::Direct(_) | Route::Socks(_) => None,
    };
    Ok(Upstream { target: target.clone(), wire, parent, reused: false })
}
