//! One service for every request that is inspected: of terminated TLS, of plain connections, and of the proxy door. A server reads exactly
//! what was looked at, because the request is written anew.

pub(crate) mod terminate;
mod web_socket;

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ALT_SVC, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_EXTENSIONS, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use kennel_policy::http_rule::{RequestTarget, stands_for_a_method};
use kennel_policy::printed::Ascii;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use web_socket::Frames;

use super::body::{AnyBody, BoxError, Filtered, Lent, RedactFilter, SwapFilter};
use super::http1::{self, Answer, Stream};
use super::last_words::LastWords;
use super::upstream::{self, Local, Sender};
use crate::connect;
use crate::forward::refusal::Page;
use crate::forward::target::{Wanted, origin_form};
use crate::gate::{Denial, Gate};
use crate::http::head::{self, Field, HeadError};
use crate::inspect::{Inspector, folded};
use crate::parent::ParentProxy;
use crate::record::Door;
use crate::route::{Exit, Hop, Target};
use crate::rules::{Decision, DenyReason};
use crate::secrets::{
    AwsRefusal, MAX_BODY, Redaction, Signing, SwapError, SwapRefusal, ask_for_searchable, unsearchable,
};

/// Whether a field may stand for another method or path than the request's own, in whatever spelling.
fn overrides(name: &str) -> bool {
    const PARTS: [&str; 2] = ["original-ur", "rewrite-ur"];
    const FORWARDED: [&str; 3] = ["x-forwarded-uri", "x-forwarded-path", "x-forwarded-prefix"];
    let name = folded(name);
    PARTS.iter().any(|part| name.contains(part))
        || FORWARDED.contains(&name.as_str())
        // A browser's question before a request, which servers answer by their own rules.
        || stands_for_a_method(&name) && name != "access-control-request-method"
}

/// A client's connection.
pub(crate) struct InspectedClient {
    gate: Gate,
    inspector: Arc<Inspector>,
    door: Door,
    upstream: RefCell<Option<Rc<UpstreamConnection>>>,
    encrypted: bool,
    /// What every request is answered with, where there is no way to the server.
    failure: Option<Page>,
}

/// A connection to a server, made anew when it has closed.
struct UpstreamConnection {
    target: Target,
    encrypted: bool,
    both: bool,
    sender: RefCell<Option<Sender>>,
    /// Of the last connection.
    words: LastWords,
    /// A proxy that wants whole addresses.
    parent: RefCell<Option<ParentProxy>>,
}

impl UpstreamConnection {
    fn new(
        target: Target,
        encrypted: bool,
        both: bool,
        sender: Option<Sender>,
        words: LastWords,
    ) -> Rc<UpstreamConnection> {
        let sender = RefCell::new(sender);
        Rc::new(UpstreamConnection { target, encrypted, both, sender, words, parent: RefCell::default() })
    }

    /// A connection that takes a request. Of HTTP/1.1 it is taken out, and put back behind the answer's head.
    async fn sender(&self, client: &InspectedClient) -> Result<Sender, Page> {
        // By itself: in the condition the borrow would last for the whole block.
        let kept = self.sender.borrow_mut().take();
        if let Some(sender) = kept.filter(|sender| !sender.is_closed()) {
            if let Sender::H2(shared) = &sender {
                let own = Sender::H2(shared.clone());
                *self.sender.borrow_mut() = Some(sender);
                return Ok(own);
            }
            return Ok(sender);
        }
        self.connect(client).await
    }

    async fn connect(&self, client: &InspectedClient) -> Result<Sender, Page> {
        let (gate, name) = (&client.gate, self.target.to_string());
        let times = gate.settings().times;
        let exit = if self.encrypted { Exit::Tunnel } else { Exit::Request };
        let route = gate.admit(&self.target, client.door, exit).await;
        let route = route.map_err(|refusal| Page::refused(&refusal, &name))?;
        // What a proxy with a password sends back would have to be searched for it: a tunnel shows it nothing.
        let whole = match &route.hop {
            Hop::Parent(parent, _) if !self.encrypted && parent.credentials.is_none() => Some(parent.clone()),
            _ => None,
        };
        let wire = match &whole {
            Some(_) => connect::request(&route, &self.target, times).await,
            None => connect::tunnel(&route, &self.target, times).await,
        };
        let wire = wire.map_err(|error| Page::unreachable(&error, &name))?;
        *self.parent.borrow_mut() = whole;
        let tls = self.encrypted.then_some((&client.inspector.verifier, &self.target.host));
        let sender = upstream::open_hearing(wire, tls, self.both, times, &self.words).await;
        let sender = sender.map_err(|error| failed(&error, &self.target))?;
        if let Sender::H2(shared) = &sender {
            *self.sender.borrow_mut() = Some(Sender::H2(shared.clone()));
        }
        Ok(sender)
    }

    fn put_back(&self, sender: Sender) {
        if !sender.is_h2() && !sender.is_closed() {
            *self.sender.borrow_mut() = Some(sender);
        }
    }
}

/// Why the gate could not talk to a server.
fn failed(error: &io::Error, target: &Target) -> Page {
    match tls_error(error) {
        Some(error) => not_verified(error, target),
        None => Page::unreachable(error, &target.to_string()),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn not_verified(error: &dyn std::fmt::Display, target: &Target) -> Page {
    let host = &target.host;
    let text = format!(
        "kennel could not connect to {}: {error}.\nhelp: a server with a certificate of your own authority needs \
         network.extra_ca; one that wants a certificate of its clients needs network.no_terminate = [\"{host}\"], \
         which carries its connections unread.",
        Ascii(&target.to_string())
    );
    Page { status: 502, phrase: "Bad Gateway".into(), code: "tls-failure", text }
}

/// Serves a client that believes it talks to `target`, over a stream that carries HTTP/1.1, or HTTP/2.
async fn serve(
    client: Rc<InspectedClient>,
    target: Target,
    stream: http1::ClientStream<impl Stream>,
    is_h2: bool,
) {
    let times = client.gate.settings().times;
    if is_h2 {
        return serve_h2(client, target, stream).await;
    }
    let service = async |request: head::Request, body| {
        let wanted = origin_form(&request, &target, client.encrypted);
        let wanted = wanted.and_then(|wanted| client.same_server(wanted, &target));
        Ok(match wanted {
            Ok(wanted) => client.answer(&request, wanted, body).await,
            Err(page) => page.into(),
        })
    };
    let refused = |error: HeadError| {
        client.gate.deny(&target, client.door, DenyReason::Request(error.to_string()), None);
    };
    http1::serve(stream, times, service, refused).await;
}

async fn serve_h2(client: Rc<InspectedClient>, target: Target, stream: http1::ClientStream<impl Stream>) {
    let target = Rc::new(target);
    let service = service_fn(move |request: Request<Incoming>| {
        let (client, target) = (Rc::clone(&client), Rc::clone(&target));
        async move {
            let (head, body) = request.into_parts();
            let is_head = head.method == Method::HEAD;
            let waits = head.headers.contains_key(EXPECT);
            let (body, lender) = Lent::of(body);
            let answer = match client.named_in_frames(&head, &target) {
                Ok(wanted) => client.carry(head, wanted, Box::pin(body)).await,
                Err(page) => {
                    drop(body);
                    Err(page)
                }
            };
            // A client that still sends takes the end of its stream for an error, and not the answer.
            if answer.is_err() && !waits {
                lender.drain().await;
            }
            let mut response = answer.unwrap_or_else(Answer::from).response;
            if is_head {
                *response.body_mut() = Box::pin(Empty::new().map_err(|never| match never {}));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut server = hyper::server::conn::http2::Builder::new(Local);
    server
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let _ = server.serve_connection(TokioIo::new(stream.into_stream()), service).await;
}

/// A request that is ready to go.
struct Ready {
    request: Request<AnyBody>,
    refused: Rc<RefCell<Option<SwapRefusal>>>,
    redaction: Option<Redaction>,
    signing: Option<Signing>,
}

impl InspectedClient {
    /// The answer to one request in HTTP/1.1.
    pub(crate) async fn answer(&self, request: &head::Request, wanted: Wanted, body: AnyBody) -> Answer {
        let answer = match http1::parts(request, &wanted.path) {
            Ok(head) => self.carry(head, wanted, body).await,
            Err(page) => Err(page),
        };
        answer.unwrap_or_else(Answer::from)
    }

    /// A request is for the server of its connection.
    fn same_server(&self, wanted: Wanted, target: &Target) -> Result<Wanted, Page> {
        if wanted.target == *target {
            return Ok(wanted);
        }
        let reason = DenyReason::NameMismatch(wanted.target.to_string());
        let mut page = Page::denied(&self.gate.deny(target, self.door, reason, None));
        // A client that uses one connection for several hosts (HTTP/2) makes another one.
        (page.status, page.phrase) = (421, "Misdirected Request".into());
        Err(page)
    }

    /// What a request in HTTP/2 asks for, by the rules of HTTP/1.1: `:authority` is a `Host`. Where there is a `Host` as well, both have to
    /// name the server.
    fn named_in_frames(&self, head: &Parts, target: &Target) -> Result<Wanted, Page> {
        let line = head.uri.path_and_query().map_or("/", |line| line.as_str()).to_owned();
        let mut request =
            head::Request { method: head.method.to_string(), target: line, minor: 1, fields: Vec::new() };
        let mut wanted = origin_form(&request, target, true)?;
        let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        let hosts: Vec<&[u8]> = head.headers.get_all(HOST).iter().map(HeaderValue::as_bytes).collect();
        if hosts.len() > 1 {
            return Err(Page::malformed(HeadError::Malformed("two Host fields")));
        }
        for host in authority.into_iter().chain(hosts) {
            request.fields = vec![Field::new("Host", host)];
            wanted = self.same_server(origin_form(&request, target, true)?, target)?;
        }
        Ok(wanted)
    }

    /// One request and its answer.
    async fn carry(&self, head: Parts, wanted: Wanted, body: AnyBody) -> Result<Answer, Page> {
        let Wanted { target, path } = wanted;
        if let Some(page) = &self.failure {
            return Err(page.clone());
        }
        if let Decision::Deny { reason, rule } = self.gate.decide(&target.host, target.port) {
            return Err(Page::denied(&self.gate.deny(&target, self.door, reason, rule)));
        }
        if let Some(denial) = self.gate.over_budget(&target, self.door) {
            return Err(Page::denied(&denial));
        }
        let upstream = self.upstream(&target);
        // Of a proxy that was not connected to yet it is not known whether it wants whole addresses.
        let mut sender = upstream.sender(self).await?;
        let whole = upstream.parent.borrow().is_some();
        let Ready { mut request, refused, redaction, signing } =
            self.ready(head, path, body, &target, sender.is_h2(), whole)?;
        if let Some(signing) = signing {
            request = self.sign(request, &signing, &target, &refused).await?;
        }
        let asked = request.headers().contains_key(UPGRADE);
        let method = request.method().clone();
        let times = self.gate.settings().times;
        let mut request = Some(request);
        let response = loop {
            let Some(next) = request.take() else { return Err(Page::no_answer()) };
            let sent = tokio::time::timeout(times.response, sender.send(next)).await;
            match sent {
                Err(_) => return Err(Page::no_answer()),
                Ok(Ok(response)) => break response,
                Ok(Err((error, again))) => {
                    if let Some(limit) = self.gate.spent(&target.host) {
                        return Err(Page::denied(&Denial::over_budget(&target, &limit)));
                    }
                    if let Some(refusal) = refused.borrow_mut().take() {
                        return Err(self.refuse(&target, &refusal));
                    }
                    if let Some(words) = upstream.words.get() {
                        return Err(not_verified(&words, &target));
                    }
                    match again {
                        // The server closed a connection that was kept, and has seen nothing of this.
                        Some(next) => {
                            sender = upstream.connect(self).await?;
                            request = Some(next);
                        }
                        None => return Err(broken(&error, &target)),
                    }
                }
            }
        };
        upstream.put_back(sender);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.change_protocol(response, asked, &target, redaction.as_ref());
        }
        let response = self.response(response, &method, &target, redaction)?;
        Ok(Answer { response, then: None })
    }

    fn upstream(&self, target: &Target) -> Rc<UpstreamConnection> {
        let mut kept = self.upstream.borrow_mut();
        match &*kept {
            Some(known) if known.target == *target => Rc::clone(known),
            _ => Rc::clone(kept.insert(UpstreamConnection::new(
                target.clone(),
                self.encrypted,
                false,
                None,
                LastWords::default(),
            ))),
        }
    }

    /// The request as it goes to the server.
    fn ready(
        &self,
        mut head: Parts,
        mut line: String,
        body: AnyBody,
        target: &Target,
        is_h2: bool,
        whole: bool,
    ) -> Result<Ready, Page> {
        let method = head.method.as_str();
        if self.inspector.has_http_rules(target) {
            let asked = RequestTarget::parse(&line).map_err(|error| {
                self.deny(target, &format!("{method}: the path is refused: {error}"), None)
            })?;
            let allows = |rule: &kennel_policy::http_rule::HttpRule| {
                rule.allows(method, &target.host, target.port, &asked)
            };
            if !self.inspector.http.iter().any(allows) {
                let port = match (self.encrypted, target.port) {
                    (true, 443) | (false, 80) => String::new(),
                    (_, port) => format!(":{port}"),
                };
                let rule = format!("{method} {}{port}{}", target.host, asked.path());
                return Err(self.deny(target, &format!("no rule allows {rule}"), Some(&rule)));
            }
            line = asked.to_string();
            // Some servers go by these and not by what was compared.
            let unwanted: Vec<HeaderName> =
                head.headers.keys().filter(|name| overrides(name.as_str())).cloned().collect();
            for name in unwanted {
                head.headers.remove(name);
            }
        }
        let upgrade = upgrade(&head.headers);
        let wants_trailers = head.headers.get(TE).is_some_and(|value| value == "trailers");
        remove_hop_by_hop(&mut head.headers);
        head.headers.remove(EXPECT);
        // By the stand-in, which is exchanged below.
        let signing = match self.inspector.aws.is_empty() || !self.encrypted {
            true => None,
            false => {
                let plan = self.inspector.aws.plan(target, &head.headers, &line);
                plan.map_err(|refusal| self.not_signed(target, &refusal))?
            }
        };
        let swapped = self.inspector.swaps.head(target, self.encrypted, &mut head.headers, &line);
        let swapped = swapped.map_err(|error| self.not_swapped(target, error))?;
        if let Some(text) = swapped.target {
            line = text;
        }
        let stream = self.inspector.swaps.body(target, self.encrypted, &head.headers);
        let stream = stream.map_err(|error| self.not_swapped(target, error))?;
        let redaction = self.inspector.swaps.redaction(target);
        let redaction = redaction.map_err(|error| self.not_swapped(target, error.into()))?;
        if redaction.is_some() {
            ask_for_searchable(&mut head.headers);
        }
        let refused = Rc::new(RefCell::new(None));
        let length = body.size_hint().exact();
        let ended = body.is_end_stream();
        let body: AnyBody = match stream {
            _ if ended => Box::pin(Empty::new().map_err(|never| match never {})),
            None => body,
            Some(stream) => {
                let keeps = stream.keeps_length();
                if !keeps {
                    head.headers.remove(CONTENT_LENGTH);
                }
                Box::pin(Filtered::new(body, SwapFilter { stream, refused: Rc::clone(&refused) }))
            }
        };
        if length.is_none() {
            head.headers.remove(CONTENT_LENGTH);
        }
        if wants_trailers {
            head.headers.insert(TE, HeaderValue::from_static("trailers"));
            if !is_h2 {
                head.headers.insert(CONNECTION, HeaderValue::from_static("TE"));
            }
        }
        if let (Some(protocol), false) = (upgrade, is_h2) {
            head.headers.insert(UPGRADE, protocol);
            head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        }
        // The canonical host: what was compared is what is asked for.
        let authority = self.authority(target);
        head.headers.remove(HOST);
        let uri = if is_h2 || whole {
            let scheme = if self.encrypted { "https" } else { "http" };
            format!("{scheme}://{authority}{line}")
        } else {
            line
        };
        if !is_h2 {
            let value = HeaderValue::from_str(&authority);
            head.headers.insert(
                HOST,
                value.map_err(|_| Page::request(400, "Bad Request", "the address is not valid."))?,
            );
        }
        head.uri =
            uri.parse::<Uri>().map_err(|_| Page::request(400, "Bad Request", "the address is not valid."))?;
        head.version = if is_h2 { Version::HTTP_2 } else { Version::HTTP_11 };
        head.extensions = Default::default();
        Ok(Ready { request: Request::from_parts(head, body), refused, redaction, signing })
    }

    /// The same request, signed with the real key. A body that is part of the signature is read first.
    async fn sign(
        &self,
        request: Request<AnyBody>,
        signing: &Signing,
        target: &Target,
        refused: &RefCell<Option<SwapRefusal>>,
    ) -> Result<Request<AnyBody>, Page> {
        let (mut head, mut body) = request.into_parts();
        let mut digest = None;
        if !signing.unsigned_body {
            let _place = self.inspector.signing.acquire().await;
            let mut whole = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else {
                    return Err(match refused.borrow_mut().take() {
                        Some(refusal) => self.refuse(target, &refusal),
                        None => Page::request(400, "Bad Request", "the request's body ended early."),
                    });
                };
                let Ok(part) = frame.into_data() else { continue };
                if whole.len() + part.len() > MAX_BODY {
                    return Err(self.not_signed(target, &AwsRefusal::TooLarge));
                }
                whole.extend_from_slice(&part);
            }
            digest = Some(ring::digest::digest(&ring::digest::SHA256, &whole));
            if !whole.is_empty() || head.headers.contains_key(CONTENT_LENGTH) {
                head.headers.insert(CONTENT_LENGTH, whole.len().into());
            }
            body = Box::pin(Full::new(Bytes::from(whole)).map_err(|never| match never {}));
        }
        let line = head.uri.path_and_query().map_or("/", |line| line.as_str()).to_owned();
        let authority = self.authority(target);
        let signed =
            signing.sign(head.method.as_str(), &line, &authority, &mut head.headers, digest.as_ref());
        signed.map_err(|refusal| self.not_signed(target, &refusal))?;
        Ok(Request::from_parts(head, body))
    }

    /// A request to AWS that cannot be signed.
    fn not_signed(&self, target: &Target, refusal: &AwsRefusal) -> Page {
        let help = refusal.help();
        self.gate.deny(target, self.door, DenyReason::Secret(format!("{refusal}; {help}")), None);
        let text = format!("kennel blocked this request: {refusal}.\nhelp: {help}.");
        Page { status: 403, phrase: "Forbidden".into(), code: "secret-not-allowed-here", text }
    }

    fn authority(&self, target: &Target) -> String {
        let full = target.to_string();
        let default = if self.encrypted { ":443" } else { ":80" };
        full.strip_suffix(default).unwrap_or(&full).to_owned()
    }

    fn not_swapped(&self, target: &Target, error: SwapError) -> Page {
        match error {
            SwapError::Refused(refusal) => self.refuse(target, &refusal),
            SwapError::System(error) => Page::bad_answer(&error.to_string()),
        }
    }

    /// A stand-in that is not exchanged.
    fn refuse(&self, target: &Target, refusal: &SwapRefusal) -> Page {
        let reason = DenyReason::Secret(format!("{refusal}; {}", refusal.help()));
        let denial = self.gate.deny(target, self.door, reason, None);
        let text = format!("kennel blocked this request: {refusal}.\nhelp: {}.", refusal.help());
        Page {
            status: 403,
            phrase: format!("Blocked by kennel: {denial}"),
            code: "secret-not-allowed-here",
            text,
        }
    }

    /// A request that no rule allows, and the rule that would.
    fn deny(&self, target: &Target, why: &str, rule: Option<&str>) -> Page {
        let reason = match rule {
            Some(rule) => DenyReason::HttpRule(rule.to_owned()),
            None => DenyReason::Request(why.to_owned()),
        };
        self.gate.deny(target, self.door, reason, None);
        let help = rule.map(|rule| format!("\nhelp: to allow it, add to network.allow: \"{rule}\"."));
        let text = format!("kennel blocked this request: {why}.{}", help.unwrap_or_default());
        Page { status: 403, phrase: "Forbidden".into(), code: "blocked-by-http-rule", text }
    }

    /// The response as it goes to the client.
    fn response(
        &self,
        response: Response<Incoming>,
        method: &Method,
        target: &Target,
        redaction: Option<Redaction>,
    ) -> Result<Response<AnyBody>, Page> {
        let (mut head, body) = response.into_parts();
        let has_body = *method != Method::HEAD && !body.is_end_stream();
        if redaction.is_some()
            && has_body
            && let Some(why) = unsearchable(head.status, &head.headers)
        {
            return Err(self.not_searched(target, why));
        }
        let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !head.headers.get_all(TRANSFER_ENCODING).iter().all(chunked) {
            return Err(Page::bad_answer("it has a transfer encoding that kennel does not read"));
        }
        remove_hop_by_hop(&mut head.headers);
        // HTTP/3 would go around the gate; it is refused anyway, after a wait.
        head.headers.remove(ALT_SVC);
        self.strip(&mut head.headers);
        head.extensions = Default::default();
        head.version = Version::HTTP_11;
        if let Some(redaction) = &redaction {
            redaction.fields(&mut head.headers);
        }
        let body: AnyBody = match redaction.filter(|_| has_body) {
            Some(redaction) => {
                head.headers.remove(CONTENT_LENGTH);
                Box::pin(Filtered::new(body, RedactFilter::new(redaction)))
            }
            None => Box::pin(body.map_err(BoxError::from)),
        };
        Ok(Response::from_parts(head, body))
    }

    /// A response that may hold a secret in a form that is not searched.
    fn not_searched(&self, target: &Target, why: &str) -> Page {
        self.gate.deny(target, self.door, DenyReason::Secret(why.into()), None);
        Page::bad_answer(why)
    }

    fn strip(&self, fields: &mut HeaderMap) {
        let unwanted = &self.inspector.strip_response_headers;
        if unwanted.is_empty() {
            return;
        }
        let names: Vec<HeaderName> =
            fields.keys().filter(|name| unwanted.contains(&folded(name.as_str()))).cloned().collect();
        for name in names {
            fields.remove(name);
        }
    }

    /// WebSocket and its like: the head was read; what follows is carried, with real values searched for on the way back.
    fn change_protocol(
        &self,
        mut response: Response<Incoming>,
        asked: bool,
        target: &Target,
        redaction: Option<&Redaction>,
    ) -> Result<Answer, Page> {
        if !asked {
            return Err(Page::bad_answer("it changes the protocol, which nobody asked for"));
        }
        if redaction.is_some() && response.headers().contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            let why = "its messages are compressed though no compression was asked for, so they cannot be searched for secrets";
            return Err(self.not_searched(target, why));
        }
        let server = hyper::upgrade::on(&mut response);
        let frames = redaction.map(Frames::new);
        let then: http1::Then = Box::new(move |client| {
            Box::pin(async move {
                if let Ok(server) = server.await {
                    let _ = both_ways(client, TokioIo::new(server), frames).await;
                }
            })
        });
        let (mut head, _) = response.into_parts();
        self.strip(&mut head.headers);
        if let Some(redaction) = redaction {
            redaction.fields(&mut head.headers);
        }
        head.extensions = Default::default();
        let body: AnyBody = Box::pin(Empty::new().map_err(|never| match never {}));
        let response = Response::from_parts(head, body);
        Ok(Answer { response, then: Some(then) })
    }
}

/// Carries bytes until both sides have ended.
async fn both_ways(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    mut frames: Option<Frames>,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let up = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match from_client.read(&mut buffer).await? {
                0 => return to_server.shutdown().await,
                count => {
                    to_server.write_all(&buffer[..count]).await?;
                    to_server.flush().await?;
                }
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = from_server.read(&mut buffer).await?;
            let changed = match &mut frames {
                None => None,
                Some(frames) => Some(frames.push(&buffer[..count])?),
            };
            to_client.write_all(changed.as_deref().unwrap_or(&buffer[..count])).await?;
            to_client.flush().await?;
            if count == 0 {
                return to_client.shutdown().await;
            }
        }
    };
    tokio::try_join!(up, down).map(|_| ())
}

/// The protocols that a connection can be changed to, as on plain connections.
fn upgrade(fields: &HeaderMap) -> Option<HeaderValue> {
    let asks = fields.get(CONNECTION)?.to_str().ok()?;
    let mut protocols = fields.get_all(UPGRADE).iter();
    let (Some(protocol), None) = (protocols.next(), protocols.next()) else { return None };
    let wanted = asks.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    (wanted && protocol.as_bytes().eq_ignore_ascii_case(b"websocket")).then(|| protocol.clone())
}

/// Fields that are for the next stop only (RFC 9110 §7.6.1).
fn remove_hop_by_hop(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|word| HeaderName::from_bytes(word.trim().as_bytes()).ok())
        .collect();
    for name in named {
        fields.remove(name);
    }
    for name in [CONNECTION, UPGRADE, TE, TRAILER, TRANSFER_ENCODING, PROXY_AUTHORIZATION, PROXY_AUTHENTICATE]
    {
        fields.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "http2-settings"] {
        fields.remove(name);
    }
}

/// How rustls begins to tell of an alert.
const ALERT: &str = "received fatal alert";

/// Why a request was not answered.
fn broken(error: &hyper::Error, target: &Target) -> Page {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>().and_then(tls_error) {
            return not_verified(error, target);
        }
        // HTTP/2 keeps the words of such an error only. A server that misses its client's certificate says so here, in TLS 1.3.
        if inner.to_string().starts_with(ALERT) {
            return not_verified(&inner, target);
        }
        cause = inner.source();
    }
    Page::bad_answer(&error.to_string())
}
