//! The service behind each provider's listener inside: plain HTTP/1.1, in origin form or absolute form.

mod answer;
mod connections;

use std::sync::{Arc, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderValue, SET_COOKIE, TRANSFER_ENCODING,
};
use hyper::{Method, Request, Response, StatusCode, Uri, Version, http::request};
use kennel_policy::http_rule::RequestTarget;
use kennel_policy::outcome::ModelCounts;
use tokio::sync::SemaphorePermit;
use zeroize::Zeroizing;

use answer::{AnswerFilter, Exchange};
use connections::{Connections, Failed};

use super::body::{AnyBody, BoxError, Filter, Filtered};
use super::http1::{self, Answer, ClientStream};
use crate::forward::target;
use crate::gate::Gate;
use crate::gateway::array_stream::ElementLines;
use crate::gateway::paths::{self, Endpoint, ModelIn};
use crate::gateway::refusal::Refusal;
use crate::gateway::request::{self as asked, Asked, BodyError, cut};
use crate::gateway::stream_usage::{self, WithoutUsage};
use crate::gateway::token::{self, TokenPlace};
use crate::gateway::usage::{Bounds, UsageReader};
use crate::gateway::{Gateway, MAX_BODIES, MAX_BODY, Provider};
use crate::http::head;
use crate::relay::Wire;
use crate::secrets::unsearchable;

/// What a client is listened to whose request is refused: one that is cut off while it sends takes that for a broken connection, and
/// tries again.
const MAX_DISCARDED: u64 = 1 << 30;

/// Serves a client inside that came to the listener of a provider.
pub(crate) async fn serve(gate: &Gate, gateway: &Arc<Gateway>, number: usize, client: Wire) {
    let service = async |request, body| answer(gate, gateway, number, request, body).await;
    http1::serve(ClientStream::from(client), gate.settings().times, service, |_| ()).await;
}

/// The answer to one request for a provider. An error closes the connection.
pub(crate) async fn answer(
    gate: &Gate,
    gateway: &Arc<Gateway>,
    number: usize,
    request: head::Request,
    body: AnyBody,
) -> Result<Answer, BoxError> {
    let head = match target::path(&request).and_then(|path| http1::parts(&request, &path)) {
        Ok(head) => head,
        Err(page) => return Ok(page.into()),
    };
    let service = Service { gate, gateway, provider: &gateway.providers[number], number };
    Ok(Answer { response: service.answer(head, body).await?, then: None })
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
    /// There is a budget of what only the provider can tell.
    counts: bool,
}

impl Service<'_> {
    async fn answer(self, head: request::Parts, body: AnyBody) -> Result<Response<AnyBody>, BoxError> {
        let is_head = head.method == Method::HEAD;
        let shown = cut(head.uri.path());
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
        let unknown = || Refusal::Path(cut(&format!("{} {}", head.method, head.uri.path())));
        let target = RequestTarget::parse(line).map_err(|_| unknown())?;
        let has_path = !provider.upstream.path.is_empty();
        let endpoint = paths::endpoint(provider.api, has_path, &head.method, &target).ok_or_else(unknown)?;
        let query = token::strip_query(provider.api, target.query().unwrap_or_default());
        Ok(Allowed { endpoint, query, place, asked: Asked::default(), counts: false })
    }

    /// The whole body, within the memory that all requests share.
    async fn read(
        &self,
        mut body: AnyBody,
    ) -> Result<(Result<Bytes, Refusal>, Option<SemaphorePermit<'_>>), BoxError> {
        let announced = body.size_hint().exact();
        if body.is_end_stream() || announced == Some(0) {
            return Ok((Ok(Bytes::new()), None));
        }
        if announced.is_some_and(|length| length > MAX_BODY) {
            discard(body, 0).await?;
            return Ok((Err(Refusal::TooLarge(MAX_BODY)), None));
        }
        let kib = announced.unwrap_or(MAX_BODY).min(MAX_BODY).div_ceil(1024);
        debug_assert!(kib <= MAX_BODIES);
        let mut permit = self.gateway.memory.acquire_many(u32::try_from(kib)?).await?;
        let mut whole = BytesMut::with_capacity(usize::try_from(announced.unwrap_or(0))?);
        while let Some(frame) = body.frame().await {
            let Ok(part) = frame?.into_data() else { continue };
            if whole.len() as u64 + part.len() as u64 > MAX_BODY {
                drop(whole);
                discard(body, MAX_BODY).await?;
                return Ok((Err(Refusal::TooLarge(MAX_BODY)), None));
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
        // A copy: a part of the body would keep all of it in memory until the response has ended.
        exchange.request = self.gateway.log.kept();
        exchange.response = self.gateway.log.kept();
        if let Some(kept) = &mut exchange.request {
            kept.push(body);
        }
        let reads = allowed.endpoint.model == ModelIn::Body || !body.is_empty();
        if reads && head.method == Method::POST {
            if head.headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity") {
                return Err(Refusal::Encoded);
            }
            let known = provider.known(&allowed.endpoint.path);
            allowed.asked = asked::read(body, &known).map_err(Refusal::Body)?;
        }
        let model = match (&allowed.endpoint.model, allowed.asked.model.clone()) {
            (ModelIn::Nothing, _) => None,
            (ModelIn::Body, named) => named,
            (ModelIn::Path(model), Some(named)) if named.trim_start_matches("models/") != *model => {
                return Err(Refusal::Body(BodyError::Twice("model")));
            }
            (ModelIn::Path(model), _) => Some(model.clone()),
            (ModelIn::Deployment(model), named) => {
                // Which of the two counts, only the server knows.
                allowed.asked.other_models.extend(named.filter(|named| named != model));
                Some(model.clone())
            }
        };
        exchange.model = model.as_deref().map(cut);
        exchange.metered = allowed.endpoint.metered;
        if allowed.endpoint.model != ModelIn::Nothing && !provider.models.is_empty() {
            match &model {
                None => return Err(Refusal::NoModel),
                Some(model) if !asked::allows(&provider.models, model) => {
                    return Err(Refusal::Model(exchange.model.clone().unwrap_or_default()));
                }
                Some(_) => {}
            }
            let other = allowed.asked.other_models.iter();
            // Gemini's names may say that they are one.
            let mut other = other.map(|model| model.strip_prefix("models/").unwrap_or(model));
            if let Some(model) = other.find(|model| !asked::allows(&provider.models, model)) {
                return Err(Refusal::Model(cut(model)));
            }
        }
        let mut counters = self.gateway.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.endpoint.metered {
            if allowed.asked.background && counters.limits_tokens(self.number) {
                return Err(Refusal::Background);
            }
            let counts = counters.limits_tokens(self.number) || counters.limits_cost(self.number);
            if counts && stream_usage::hides_usage(&allowed.endpoint, &allowed.asked) {
                return Err(Refusal::Uncounted);
            }
            allowed.counts = counts;
            if counters.limits_cost(self.number) {
                if let Some(member) = allowed.asked.priced.take() {
                    return Err(Refusal::Priced(cut(&member)));
                }
                // The provider may use any of them.
                let named =
                    [model.unwrap_or_default()].into_iter().chain(allowed.asked.other_models.drain(..));
                for model in named {
                    let price = counters.price(&model).ok_or_else(|| Refusal::NoPrice(cut(&model)))?;
                    exchange.price = Some(exchange.price.map_or(*price, |other| other.dearest(price)));
                }
            }
        }
        if let Some(spent) = counters.spent(self.number, &provider.name) {
            return Err(Refusal::Spent(spent));
        }
        exchange.sent = true;
        exchange.bytes_sent = body.len() as u64;
        exchange.bounds = Bounds {
            sent: exchange.bytes_sent,
            output: if allowed.counts && allowed.endpoint.writes { allowed.asked.output_bound() } else { 0 },
            writes: allowed.endpoint.writes,
        };
        let counts = ModelCounts { requests: 1, bytes_sent: exchange.bytes_sent, ..ModelCounts::default() };
        counters.add(self.number, exchange.model.as_deref(), &counts);
        Ok(allowed)
    }

    /// A request that is sent a second time takes a second place in the budget.
    fn count_again(&self, exchange: &Exchange) -> Result<(), Refusal> {
        let mut counters = self.gateway.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spent) = counters.spent(self.number, &self.provider.name) {
            return Err(Refusal::Spent(spent));
        }
        let counts = ModelCounts { requests: 1, bytes_sent: exchange.bytes_sent, ..ModelCounts::default() };
        counters.add(self.number, exchange.model.as_deref(), &counts);
        Ok(())
    }

    async fn send(
        &self,
        exchange: &mut Exchange,
        allowed: Allowed,
        mut head: request::Parts,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, connections::Lent), Refusal> {
        let (provider, upstream) = (self.provider, &self.provider.upstream);
        token::strip(provider.api, &mut head.headers);
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
        let asking = stream_usage::asking(&allowed.endpoint, &allowed.asked, body).map(Bytes::from);
        exchange.streams_array = allowed.endpoint.path.ends_with(":streamGenerateContent");
        exchange.left = true;
        let first = send(asking.as_ref().unwrap_or(body)).await;
        let mut answered = first.map_err(|failed| failed.told(exchange))?;
        let status = answered.0.status();
        exchange.answered = Some(status);
        let may_not_know = matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
        if asking.is_some() && may_not_know && !allowed.counts {
            // Perhaps the server does not know the option: it gets the request as the client wrote it. Where a budget hangs on what
            // it would tell, it does not: no answer of a server's turns counting off.
            self.count_again(exchange)?;
            exchange.answered = None;
            answered = send(body).await.map_err(|failed| failed.told(exchange))?;
        } else {
            exchange.asked_for_usage = asking.is_some() && status.is_success();
        }
        let (response, lent) = answered;
        exchange.status = response.status().as_u16();
        exchange.answered = Some(response.status());
        let encoded = response.headers().get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
        let (status, fields) = (response.status(), response.headers());
        let hides = provider.key.is_some() && unsearchable(status, fields).is_some();
        if (encoded || hides) && !response.body().is_end_stream() {
            return Err(Refusal::EncodedResponse);
        }
        Ok((response, lent))
    }

    /// The response as it goes to the client. A redirection is passed on as it is: where it leads gets no key.
    fn response(
        &self,
        mut exchange: Exchange,
        response: Response<Incoming>,
        lent: connections::Lent,
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
        let has_lines = redacted.is_some() && exchange.streams_array && is_json(kind);
        let lines = has_lines.then(ElementLines::default);
        if (redacted.is_some() || exchange.asked_for_usage) && !body.is_end_stream() {
            head.headers.remove(CONTENT_LENGTH);
        }
        let mut filter = AnswerFilter { exchange, without_usage, lines, redacted, lent: Some(lent) };
        if body.is_end_stream() {
            // There is nothing that anybody would ask for.
            let _ = filter.end();
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

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

impl Failed {
    fn told(self, exchange: &mut Exchange) -> Refusal {
        exchange.left = self.left;
        self.refusal
    }
}

/// Reads what a client still sends, and keeps none of it.
async fn discard(mut body: AnyBody, mut seen: u64) -> Result<(), BoxError> {
    while let Some(frame) = body.frame().await {
        seen += frame?.data_ref().map_or(0, |part| part.len() as u64);
        if seen > MAX_DISCARDED {
            return Err("the body is too large".into());
        }
    }
    Ok(())
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
