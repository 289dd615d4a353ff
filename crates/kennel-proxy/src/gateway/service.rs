//! The service behind each provider's listener inside: plain HTTP/1.1, in origin form or absolute form.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderValue, SET_COOKIE, TRANSFER_ENCODING,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version, http::request};
use hyper_util::rt::{TokioIo, TokioTimer};
use kennel_policy::gateway::Api;
use kennel_policy::http_rule::RequestTarget;
use kennel_policy::outcome::ModelCounts;
use kennel_policy::printed::Ascii;
use tokio::sync::SemaphorePermit;
use zeroize::Zeroizing;

use super::answer::{AnswerFilter, Exchange};
use super::connections::Connections;
use super::log::MOST_CONTENTS;
use super::paths::{self, Endpoint, ModelIn};
use super::provider::Provider;
use super::refusal::Refusal;
use super::request::{self as asked, Asked, BodyError};
use super::stream_usage::{self, WithoutUsage};
use super::token::{self, TokenPlace};
use super::usage::UsageReader;
use super::{Gateway, MOST_BODIES, MOST_BODY};
use crate::gate::Gate;
use crate::inspect::body::{AnyBody, BoxError, Filtered};
use crate::inspect::stream::Buffered;
use crate::relay::Wire;

/// Larger heads are refused, as at the gate's other doors.
const MOST_HEAD: usize = 64 << 10;
/// What a client is listened to whose request is refused: one that is cut off while it sends takes that for a broken connection, and
/// tries again.
const MOST_DISCARDED: u64 = 1 << 30;
/// The most of a text of the client's that is repeated to it and logged.
const MOST_SHOWN: usize = 200;

/// Serves a client inside that came to the listener of a provider, or with `one` request to the proxy door.
pub(crate) async fn serve(gate: &Gate, gateway: &Arc<Gateway>, number: usize, client: Wire, one: bool) {
    let times = gate.settings().times;
    let service = service_fn(|request| answer(gate, gateway, number, request));
    let mut server = hyper::server::conn::http1::Builder::new();
    // A client that closes waits for no answer: the provider is to stop then.
    server.timer(TokioTimer::new()).header_read_timeout(times.idle).max_buf_size(MOST_HEAD).half_close(false);
    server.keep_alive(!one);
    let _ = server.serve_connection(TokioIo::new(Buffered::from(client)), service).await;
}

/// The answer to one request for a provider. An error closes the connection.
pub(crate) async fn answer(
    gate: &Gate,
    gateway: &Arc<Gateway>,
    number: usize,
    request: Request<Incoming>,
) -> Result<Response<AnyBody>, BoxError> {
    Service { gate, gateway, provider: &gateway.providers[number], number }.answer(request).await
}

struct Service<'a> {
    gate: &'a Gate,
    gateway: &'a Arc<Gateway>,
    provider: &'a Provider,
    number: usize,
}

/// A request that may go on.
struct Allowed {
    endpoint: Endpoint,
    query: String,
    place: Option<TokenPlace>,
    asked: Asked,
}

impl Service<'_> {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<AnyBody>, BoxError> {
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let shown = cut(&Ascii(head.uri.path()).to_string());
        let mut exchange = Exchange::new(self.gateway, self.number, head.method.as_str(), &shown);
        let allowed = self.look_at(&head);
        // Whoever shows no token gets no memory either.
        let (body, _permit) = match &allowed {
            Ok(_) => self.read(body).await?,
            Err(_) => {
                discard(body, 0).await?;
                (Ok(Bytes::new()), None)
            }
        };
        let decided = match (allowed, body) {
            (Err(refusal), _) | (Ok(_), Err(refusal)) => Err(refusal),
            (Ok(allowed), Ok(body)) => {
                self.decide(&mut exchange, allowed, &head, &body).map(|allowed| (allowed, body))
            }
        };
        let answered = match decided {
            Err(refusal) => Err(refusal),
            Ok((allowed, body)) => self.send(&mut exchange, allowed, head, &body).await,
        };
        match answered {
            Err(refusal) => {
                exchange.refuse(&refusal);
                Ok(self.refuse(&refusal, is_head))
            }
            Ok((response, lent)) => Ok(self.response(exchange, response, lent)),
        }
    }

    /// What the head alone tells.
    fn look_at(&self, head: &request::Parts) -> Result<Allowed, Refusal> {
        let provider = self.provider;
        let line = head.uri.path_and_query().map_or("/", |line| line.as_str());
        let place = token::find(provider.api, &head.headers, head.uri.query(), &provider.token);
        if place.is_none() && provider.wants_token() {
            return Err(Refusal::Token);
        }
        let unknown = || Refusal::Path(cut(&format!("{} {}", head.method, Ascii(head.uri.path()))));
        let target = RequestTarget::parse(line).map_err(|_| unknown())?;
        let has_path = !provider.upstream.path.is_empty();
        let endpoint = paths::endpoint(provider.api, has_path, &head.method, &target).ok_or_else(unknown)?;
        let query = token::strip_query(target.query().unwrap_or_default());
        Ok(Allowed { endpoint, query, place, asked: Asked::default() })
    }

    /// The whole body, within the memory that all requests share.
    async fn read(
        &self,
        mut body: Incoming,
    ) -> Result<(Result<Bytes, Refusal>, Option<SemaphorePermit<'_>>), BoxError> {
        let announced = body.size_hint().exact();
        if body.is_end_stream() || announced == Some(0) {
            return Ok((Ok(Bytes::new()), None));
        }
        if announced.is_some_and(|length| length > MOST_BODY) {
            discard(body, 0).await?;
            return Ok((Err(Refusal::TooLarge(MOST_BODY)), None));
        }
        let kib = announced.unwrap_or(MOST_BODY).min(MOST_BODY).div_ceil(1024);
        debug_assert!(kib <= MOST_BODIES);
        let mut permit = self.gateway.memory.acquire_many(u32::try_from(kib)?).await?;
        let mut whole = BytesMut::with_capacity(usize::try_from(announced.unwrap_or(0))?);
        while let Some(frame) = body.frame().await {
            let Ok(part) = frame?.into_data() else { continue };
            if whole.len() as u64 + part.len() as u64 > MOST_BODY {
                drop(whole);
                discard(body, MOST_BODY).await?;
                return Ok((Err(Refusal::TooLarge(MOST_BODY)), None));
            }
            whole.extend_from_slice(&part);
        }
        // Of a body whose length was not announced, what it did not need.
        let used = whole.len().div_ceil(1024);
        drop(permit.split(permit.num_permits().saturating_sub(used)));
        Ok((Ok(whole.freeze()), Some(permit)))
    }

    /// What the body tells, and the budget. A request that is let through has its place in it.
    fn decide(
        &self,
        exchange: &mut Exchange,
        mut allowed: Allowed,
        head: &request::Parts,
        body: &Bytes,
    ) -> Result<Allowed, Refusal> {
        let provider = self.provider;
        if self.gateway.log.wants_contents() {
            exchange.request = Some(body.slice(..body.len().min(MOST_CONTENTS)));
            exchange.response = Some(Vec::new());
        }
        let reads = allowed.endpoint.model == ModelIn::Body || !body.is_empty();
        if reads && head.method == Method::POST {
            if head.headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity") {
                return Err(Refusal::Encoded);
            }
            allowed.asked = asked::read(body).map_err(Refusal::Body)?;
        }
        let model = match (&allowed.endpoint.model, allowed.asked.model.clone()) {
            (ModelIn::Nothing, _) => None,
            (ModelIn::Body, named) => named,
            (ModelIn::Path(model), Some(named))
                if provider.api == Api::Gemini && named.trim_start_matches("models/") != *model =>
            {
                return Err(Refusal::Body(BodyError::Twice("model")));
            }
            (ModelIn::Path(model), _) => Some(model.clone()),
        };
        exchange.model = model.as_deref().map(|model| cut(&Ascii(model).to_string()));
        exchange.metered = allowed.endpoint.metered;
        if allowed.endpoint.model != ModelIn::Nothing && !provider.models.is_empty() {
            match &model {
                None => return Err(Refusal::NoModel),
                Some(model) if !asked::allows(&provider.models, model) => {
                    return Err(Refusal::Model(exchange.model.clone().unwrap_or_default()));
                }
                Some(_) => {}
            }
        }
        let mut counters = self.gateway.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.endpoint.metered {
            if allowed.asked.background && counters.limits_tokens(self.number) {
                return Err(Refusal::Background);
            }
            let name = model.as_deref().unwrap_or_default();
            if counters.limits_cost(self.number) && counters.price(name).is_none() {
                return Err(Refusal::NoPrice(exchange.model.clone().unwrap_or_default()));
            }
        }
        if let Some(spent) = counters.spent(self.number, &provider.name) {
            return Err(Refusal::Spent(spent));
        }
        exchange.sent = true;
        exchange.bytes_sent = body.len() as u64;
        let counts = ModelCounts { requests: 1, bytes_sent: exchange.bytes_sent, ..ModelCounts::default() };
        counters.add(self.number, exchange.model.as_deref(), &counts);
        Ok(allowed)
    }

    async fn send(
        &self,
        exchange: &mut Exchange,
        allowed: Allowed,
        mut head: request::Parts,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, super::connections::Lent), Refusal> {
        let (provider, upstream) = (self.provider, &self.provider.upstream);
        token::strip(&mut head.headers);
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let nothing = Bytes::new();
        let is_post = head.method == Method::POST;
        let body = if is_post { body } else { &nothing };
        if is_post {
            // As it was read: a text can be a form as well.
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let failed = |_| Refusal::Upstream("the request cannot be written".into());
        let mut query = Zeroizing::new(allowed.query);
        if let (Some(key), Some(place)) = (&provider.key, allowed.place) {
            let pair = token::put(&mut head.headers, place, key.expose());
            if let Some(pair) = pair.map_err(|_| Refusal::Token)? {
                let both =
                    if query.is_empty() { pair } else { Zeroizing::new(format!("{}&{}", *query, *pair)) };
                query = both;
            }
        }
        let authority = upstream.authority();
        let before = Zeroizing::new(format!("{}{}", upstream.path, allowed.endpoint.path));
        let mark = if query.is_empty() { "" } else { "?" };
        let line = Zeroizing::new(format!("{}{mark}{}", *before, *query));
        let whole =
            Zeroizing::new(format!("{}://{authority}{}", if upstream.tls { "https" } else { "http" }, *line));
        let host = HeaderValue::from_str(&authority)
            .map_err(|_| Refusal::Upstream("its host cannot be written".into()))?;
        let build = &|is_h2: bool| {
            let mut request = Request::new(());
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = (if is_h2 { &whole } else { &line }).parse::<Uri>().map_err(failed)?;
            *request.version_mut() = if is_h2 { Version::HTTP_2 } else { Version::HTTP_11 };
            *request.headers_mut() = head.headers.clone();
            if !is_h2 {
                request.headers_mut().insert(HOST, host.clone());
            }
            Ok(request)
        };
        let send = async |body: &Bytes| {
            Connections::own().send(self.gate, self.gateway, self.number, build, body).await
        };
        let unwanted = &self.gateway.no_stream_options[self.number];
        let asking = match unwanted.load(Ordering::Relaxed) {
            false => stream_usage::asking(&allowed.endpoint, &allowed.asked, body).map(Bytes::from),
            true => None,
        };
        let mut answered = send(asking.as_ref().unwrap_or(body)).await?;
        let status = answered.0.status();
        if asking.is_some() && matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
            // Perhaps the server does not know the option: it gets the request as the client wrote it.
            answered = send(body).await?;
            unwanted.fetch_or(answered.0.status().is_success(), Ordering::Relaxed);
        } else {
            exchange.asked_for_usage = asking.is_some() && status.is_success();
        }
        let (response, lent) = answered;
        exchange.status = response.status().as_u16();
        let encoded = response.headers().get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
        if encoded && !response.body().is_end_stream() {
            return Err(Refusal::EncodedResponse);
        }
        Ok((response, lent))
    }

    /// The response as it goes to the client. A redirection is passed on as it is: where it leads gets no key.
    fn response(
        &self,
        mut exchange: Exchange,
        response: Response<Incoming>,
        lent: super::connections::Lent,
    ) -> Response<AnyBody> {
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        head.version = Version::HTTP_11;
        head.extensions = Default::default();
        let redaction = &self.gateway.redactions[self.number];
        redaction.fields(&mut head.headers);
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        exchange.usage = Some(UsageReader::new(kind));
        let events = exchange.asked_for_usage && UsageReader::is_events(kind);
        let without_usage = events.then(WithoutUsage::default);
        let redacted = self.provider.key.is_some().then(|| redaction.body());
        if (redacted.is_some() || exchange.asked_for_usage) && !body.is_end_stream() {
            head.headers.remove(CONTENT_LENGTH);
        }
        let mut filter = AnswerFilter { exchange, without_usage, redacted, lent: Some(lent) };
        if body.is_end_stream() {
            // There is nothing that anybody would ask for.
            let _ = crate::inspect::body::Filter::end(&mut filter);
            drop(filter);
            return Response::from_parts(head, Box::pin(body.map_err(BoxError::from)));
        }
        Response::from_parts(head, Box::pin(Filtered::new(body, filter)))
    }

    fn refuse(&self, refusal: &Refusal, is_head: bool) -> Response<AnyBody> {
        let text = refusal.body(self.provider.api, &self.provider.name);
        let length = text.len();
        let text = if is_head { Bytes::new() } else { text };
        let mut response: Response<AnyBody> =
            Response::new(Box::pin(Full::new(text).map_err(|never| match never {})));
        *response.status_mut() = refusal.status();
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(CONTENT_LENGTH, length.into());
        fields.insert("x-kennel-refused", HeaderValue::from_static(refusal.word()));
        if !refusal.may_retry() {
            // The clients of Anthropic and OpenAI obey it before anything else.
            fields.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

/// Reads what a client still sends, and keeps none of it.
async fn discard(mut body: Incoming, mut seen: u64) -> Result<(), BoxError> {
    while let Some(frame) = body.frame().await {
        seen += frame?.data_ref().map_or(0, |part| part.len() as u64);
        if seen > MOST_DISCARDED {
            return Err("the body is too large".into());
        }
    }
    Ok(())
}

/// A text that the client chose, as it is repeated.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn remove_hop_by_hop(fields: &mut HeaderMap) {
    // Cookies would not be sent again, and HTTP/3 leads around the gateway.
    for name in [CONNECTION, TRANSFER_ENCODING, ALT_SVC, SET_COOKIE] {
        fields.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "trailer", "upgrade"] {
        fields.remove(name);
    }
}
