//! One service for every request that is read: of terminated TLS, of plain connections, and of the proxy door.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap,
    HeaderName, HeaderValue, IF_RANGE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RANGE,
    SEC_WEBSOCKET_EXTENSIONS, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use kennel_policy::http_rule::RequestTarget;
use kennel_policy::printed::Ascii;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::body::{AnyBody, BoxError, Filtered, RedactFilter, SwapFilter};
use super::upstream::{self, Local, Sender};
use super::{Inspector, folded};
use crate::connect;
use crate::gate::{Exit, Gate, Route, Target};
use crate::http::refusal::Page;
use crate::parent::{ParentProxy, split_authority};
use crate::record::Door;
use crate::rules::{Decision, DenyReason};
use crate::secrets::{AwsRefusal, MOST_BODY, RedactedStream, Signing, SwapError, SwapRefusal};

/// As large a head is read as of a plain request.
const MOST_HEAD: usize = 64 << 10;

/// Fields that stand for another method or path than the request's own.
const OVERRIDES: [&str; 6] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-original-uri",
];

/// A client's connection.
pub(super) struct Client {
    pub(super) gate: Gate,
    pub(super) inspector: Arc<Inspector>,
    pub(super) door: Door,
    pub(super) way: RefCell<Option<Rc<Way>>>,
    /// The server that it believes to talk to; `None` for one that names a server in each request.
    pub(super) fixed: Option<Target>,
    pub(super) encrypted: bool,
    /// What every request is answered with, where there is no way to the server.
    pub(super) failure: Option<Page>,
}

/// A connection to a server, made anew when it has closed.
pub(super) struct Way {
    target: Target,
    encrypted: bool,
    both: bool,
    sender: RefCell<Option<Sender>>,
    /// A proxy that wants whole addresses.
    parent: RefCell<Option<ParentProxy>>,
}

impl Way {
    pub(super) fn new(target: Target, encrypted: bool, both: bool, sender: Option<Sender>) -> Rc<Way> {
        Rc::new(Way { target, encrypted, both, sender: RefCell::new(sender), parent: RefCell::default() })
    }

    /// A connection that takes a request. Of HTTP/1.1 it is taken out, and put back behind the answer's head.
    async fn sender(&self, client: &Client) -> Result<Sender, Page> {
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

    async fn connect(&self, client: &Client) -> Result<Sender, Page> {
        let (gate, name) = (&client.gate, self.target.to_string());
        let times = gate.settings().times;
        let exit = if self.encrypted { Exit::Tunnel } else { Exit::Request };
        let route = gate.admit(&self.target, client.door, exit).await;
        let route = route.map_err(|refusal| Page::refused(&refusal, &name))?;
        // What a proxy with a password sends back would have to be searched for it: a tunnel shows it nothing.
        let whole = match &route {
            Route::Parent(parent, _) if !self.encrypted && parent.credentials.is_none() => {
                Some(parent.clone())
            }
            _ => None,
        };
        let wire = match &whole {
            Some(_) => connect::request(&route, &self.target, times).await,
            None => connect::tunnel(&route, &self.target, times).await,
        };
        let wire = wire.map_err(|error| Page::unreachable(&error, &name))?;
        *self.parent.borrow_mut() = whole;
        let tls = self.encrypted.then_some((&client.inspector.verifier, &self.target.host));
        let sender = upstream::open(wire, tls, self.both, times).await;
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
pub(super) fn failed(error: &io::Error, target: &Target) -> Page {
    match tls_error(error) {
        Some(error) => not_verified(error, target),
        None => Page::unreachable(error, &target.to_string()),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn not_verified(error: &dyn std::error::Error, target: &Target) -> Page {
    let host = &target.host;
    let text = format!(
        "kennel could not connect to {}: {error}.\nhelp: a server with a certificate of your own authority needs \
         network.extra_ca; one that wants a certificate of its clients needs network.no_terminate = [\"{host}\"], \
         which carries its connections unread.",
        Ascii(&target.to_string())
    );
    Page { status: 502, phrase: "Bad Gateway".into(), code: "tls-failure", text }
}

/// Serves a client over a stream that carries HTTP/1.1, or HTTP/2.
pub(super) async fn serve(
    client: Rc<Client>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_h2: bool,
) {
    let times = client.gate.settings().times;
    let service = service_fn(move |request| {
        let client = Rc::clone(&client);
        async move { Ok::<_, Infallible>(client.answer(request).await) }
    });
    let stream = TokioIo::new(stream);
    if is_h2 {
        let mut server = hyper::server::conn::http2::Builder::new(Local);
        server
            .timer(TokioTimer::new())
            .auto_date_header(false)
            .max_concurrent_streams(256)
            .max_header_list_size(64 << 10)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let _ = server.serve_connection(stream, service).await;
    } else {
        let mut server = hyper::server::conn::http1::Builder::new();
        server
            .timer(TokioTimer::new())
            .auto_date_header(false)
            .header_read_timeout(times.idle)
            .max_buf_size(MOST_HEAD)
            .preserve_header_case(true);
        let _ = server.serve_connection(stream, service).with_upgrades().await;
    }
}

/// A request that is ready to go.
struct Ready {
    request: Request<AnyBody>,
    refused: Rc<RefCell<Option<SwapRefusal>>>,
    redacts: bool,
    signing: Option<Signing>,
}

impl Client {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<AnyBody> {
        let is_head = request.method() == Method::HEAD;
        let upgrade = hyper::upgrade::on(&mut request);
        match self.carry(request, upgrade).await {
            Ok(response) => response,
            Err(page) => self.page(&page, is_head),
        }
    }

    fn page(&self, page: &Page, is_head: bool) -> Response<AnyBody> {
        let text = format!("{}\n", page.text);
        let length = text.len();
        let body: AnyBody = match is_head {
            true => Box::pin(Empty::new().map_err(|never| match never {})),
            false => Box::pin(Full::new(Bytes::from(text)).map_err(|never| match never {})),
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let fields = response.headers_mut();
        fields.insert("content-type", HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert(CONTENT_LENGTH, length.into());
        fields.insert("x-proxy-error", HeaderValue::from_static(page.code));
        if page.status == 407 {
            fields.insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kennel\""));
        }
        response
    }

    /// One request and its answer.
    async fn carry(
        &self,
        request: Request<Incoming>,
        upgrade: hyper::upgrade::OnUpgrade,
    ) -> Result<Response<AnyBody>, Page> {
        let target = self.target(&request)?;
        if self.fixed.is_none()
            && let Some(gateway) = &self.gate.settings().gateway
            && let Some(number) = gateway.provider_at(&target)
        {
            let answered = crate::gateway::answer(&self.gate, gateway, number, request).await;
            return answered.map_err(|error| Page::bad_answer(&error.to_string()));
        }
        if let Some(page) = &self.failure {
            return Err(page.clone());
        }
        if let Decision::Deny { reason, rule } = self.gate.decide(&target.host, target.port) {
            return Err(Page::denied(&self.gate.deny(&target, self.door, reason, rule)));
        }
        let way = self.way(&target);
        // Of a proxy that was not connected to yet it is not known whether it wants whole addresses.
        let mut sender = way.sender(self).await?;
        let whole = way.parent.borrow().is_some();
        let Ready { mut request, refused, redacts, signing } =
            self.ready(request, &target, sender.is_h2(), whole)?;
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
                    if let Some(refusal) = refused.borrow_mut().take() {
                        return Err(self.refuse(&target, &refusal));
                    }
                    match again {
                        // The server closed a connection that was kept, and has seen nothing of this.
                        Some(next) => {
                            sender = way.connect(self).await?;
                            request = Some(next);
                        }
                        None => return Err(broken(&error, &target)),
                    }
                }
            }
        };
        way.put_back(sender);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.change_protocol(response, upgrade, asked, redacts);
        }
        self.response(response, &method, &target, redacts)
    }

    /// The server that a request is for.
    fn target(&self, request: &Request<Incoming>) -> Result<Target, Page> {
        let bad = |text: &str| Page::request(400, "Bad Request", text);
        let uri = request.uri();
        if request.method() == Method::CONNECT {
            return Err(Page::request(
                405,
                "Method Not Allowed",
                "CONNECT is not possible on this connection.",
            ));
        }
        let default = if self.encrypted { 443 } else { 80 };
        let hosts: Vec<&HeaderValue> = request.headers().get_all(HOST).iter().collect();
        if hosts.len() > 1 {
            return Err(bad("two Host fields."));
        }
        let default = self.fixed.as_ref().map_or(default, |target| target.port);
        let named =
            |text: &str| split_authority(text, Some(default)).map(|(host, port)| Target { host, port });
        let field = match hosts.first() {
            Some(field) => {
                let text = field.to_str().map_err(|_| bad("the Host field has no valid host."))?;
                Some(named(text).ok_or_else(|| bad("the Host field has no valid host."))?)
            }
            None => None,
        };
        let line = match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => {
                return Err(bad("the address has a user name, which a request must not have."));
            }
            Some(authority) => {
                Some(named(authority.as_str()).ok_or_else(|| bad("the address has no valid host."))?)
            }
            None => None,
        };
        let Some(fixed) = &self.fixed else {
            return self.proxied(request, line, field);
        };
        for told in [&line, &field].into_iter().flatten() {
            if told != fixed {
                let denial =
                    self.gate.deny(fixed, self.door, DenyReason::NameMismatch(told.to_string()), None);
                let mut page = Page::denied(&denial);
                // A client that uses one connection for several hosts (HTTP/2) makes another one.
                (page.status, page.phrase) = (421, "Misdirected Request".into());
                return Err(page);
            }
        }
        Ok(fixed.clone())
    }

    /// The server that a request to the proxy door is for.
    fn proxied(
        &self,
        request: &Request<Incoming>,
        line: Option<Target>,
        field: Option<Target>,
    ) -> Result<Target, Page> {
        let bad = |text: &str| Page::request(400, "Bad Request", text);
        if let Some(credentials) = &self.gate.settings().credentials {
            let mut shown = request.headers().get_all(PROXY_AUTHORIZATION).iter();
            let welcome = matches!(
                (shown.next(), shown.next()),
                (Some(value), None) if credentials.accept_basic(value.as_bytes())
            );
            if !welcome {
                return Err(Page::unauthorized());
            }
        }
        match request.uri().scheme_str() {
            Some("http" | "ws") => {}
            Some("https" | "wss") => {
                return Err(bad(
                    "use CONNECT to reach an https address, so that only its server reads the request.",
                ));
            }
            Some(_) => {
                return Err(Page::request(501, "Not Implemented", "only http addresses are forwarded."));
            }
            None => {
                return Err(bad(
                    "this is a proxy: a request must name its server, as in `GET http://example.com/`.",
                ));
            }
        }
        let target = line.ok_or_else(|| bad("the address has no valid host."))?;
        if field.is_some_and(|field| field != target) {
            return Err(bad("the Host field names a different server than the request."));
        }
        Ok(Target { host: self.gate.by_name(target.host), port: target.port })
    }

    fn way(&self, target: &Target) -> Rc<Way> {
        let mut way = self.way.borrow_mut();
        match &*way {
            Some(known) if known.target == *target => Rc::clone(known),
            _ => Rc::clone(way.insert(Way::new(target.clone(), self.encrypted, false, None))),
        }
    }

    /// The request as it goes to the server.
    fn ready(
        &self,
        request: Request<Incoming>,
        target: &Target,
        is_h2: bool,
        whole: bool,
    ) -> Result<Ready, Page> {
        let (mut head, body) = request.into_parts();
        let mut line = match head.uri.path_and_query() {
            Some(path) if !path.as_str().is_empty() => path.as_str().to_owned(),
            _ => "/".to_owned(),
        };
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
            for name in OVERRIDES {
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
        let redacts = self.inspector.swaps.redacts(target);
        if redacts {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            // A part of a text can hold a part of a value.
            head.headers.remove(RANGE);
            head.headers.remove(IF_RANGE);
            // Frames are searched as they are.
            head.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        }
        let refused = Rc::new(RefCell::new(None));
        let length = body.size_hint().exact();
        let ended = body.is_end_stream();
        let body: AnyBody = match stream {
            _ if ended => Box::pin(Empty::new().map_err(|never| match never {})),
            None => Box::pin(body.map_err(BoxError::from)),
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
        Ok(Ready { request: Request::from_parts(head, body), refused, redacts, signing })
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
                if whole.len() + part.len() > MOST_BODY {
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
        redacts: bool,
    ) -> Result<Response<AnyBody>, Page> {
        let (mut head, body) = response.into_parts();
        // Of several such fields each counts: clients undo all of them.
        let encoded = head.headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
        let has_body = *method != Method::HEAD && !body.is_end_stream();
        if redacts && encoded && has_body {
            let why =
                "it is compressed though no compression was asked for, so it cannot be searched for secrets";
            self.gate.deny(target, self.door, DenyReason::Secret(why.into()), None);
            return Err(Page::bad_answer(why));
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
        let redaction = &self.inspector.redaction;
        if redacts {
            redaction.fields(&mut head.headers);
        }
        let body: AnyBody = match redacts && has_body {
            true => {
                head.headers.remove(CONTENT_LENGTH);
                Box::pin(Filtered::new(body, RedactFilter::new(redaction)))
            }
            false => Box::pin(body.map_err(BoxError::from)),
        };
        Ok(Response::from_parts(head, body))
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
        client: hyper::upgrade::OnUpgrade,
        asked: bool,
        redacts: bool,
    ) -> Result<Response<AnyBody>, Page> {
        if !asked {
            return Err(Page::bad_answer("it changes the protocol, which nobody asked for"));
        }
        let server = hyper::upgrade::on(&mut response);
        let frames = redacts.then(|| self.inspector.redaction.frames());
        tokio::task::spawn_local(async move {
            if let (Ok(server), Ok(client)) = (server.await, client.await) {
                let _ = both_ways(TokioIo::new(client), TokioIo::new(server), frames).await;
            }
        });
        let (mut head, _) = response.into_parts();
        self.strip(&mut head.headers);
        if redacts {
            self.inspector.redaction.fields(&mut head.headers);
        }
        head.extensions = Default::default();
        Ok(Response::from_parts(head, Box::pin(Empty::new().map_err(|never| match never {}))))
    }
}

/// Carries bytes until both sides have ended.
async fn both_ways(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    mut frames: Option<RedactedStream>,
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
            let changed = match (&mut frames, count) {
                (None, _) => None,
                (Some(frames), 0) => Some(frames.finish()),
                (Some(frames), count) => frames.push(&buffer[..count]),
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
            return not_verified(inner, target);
        }
        cause = inner.source();
    }
    Page::bad_answer(&error.to_string())
}
