//! A response on its way to the client: searched for the key, read for tokens, counted, and settled when it ends, in whatever way.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use kennel_policy::gateway::Price;
use kennel_policy::outcome::ModelCounts;

use super::connections::Lent;
use crate::gateway::Gateway;
use crate::gateway::array_stream::ElementLines;
use crate::gateway::budget::Tokens;
use crate::gateway::log::{Entry, Kept};
use crate::gateway::refusal::Refusal;
use crate::gateway::stream_usage::WithoutUsage;
use crate::gateway::usage::{Bounds, UsageReader};
use crate::secrets::EchoStream;
use crate::services::body::{BoxError, Filter, split};

/// A request, from its beginning to the end of its response. What it used is counted and logged once, when it is dropped: by the end
/// of the response, or because the client or the provider went away.
pub(crate) struct Exchange {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) provider: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) model: Option<String>,
    /// Whether it uses tokens.
    pub(crate) metered: bool,
    pub(crate) started: Instant,
    pub(crate) status: u16,
    pub(crate) refused: Option<&'static str>,
    /// It was counted as a request that is sent.
    pub(crate) sent: bool,
    /// The provider may have seen it.
    pub(crate) left: bool,
    /// What the provider answered, whatever the client got.
    pub(crate) answered: Option<StatusCode>,
    /// What it uses at most.
    pub(crate) bounds: Bounds,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) usage: Option<UsageReader>,
    pub(crate) whole: bool,
    /// The gateway has asked for an event that tells usage.
    pub(crate) asked_for_usage: bool,
    /// The answer is a stream that may be one JSON array.
    pub(crate) streams_array: bool,
    /// What its tokens cost at most, where that is limited.
    pub(crate) price: Option<Price>,
    pub(crate) request: Option<Kept>,
    pub(crate) response: Option<Kept>,
}

impl Exchange {
    pub(crate) fn new(gateway: &Arc<Gateway>, provider: usize, method: &str, path: &str) -> Exchange {
        Exchange {
            gateway: Arc::clone(gateway),
            provider,
            method: method.to_owned(),
            path: path.to_owned(),
            model: None,
            metered: false,
            started: Instant::now(),
            status: 0,
            refused: None,
            sent: false,
            left: false,
            answered: None,
            bounds: Bounds::default(),
            bytes_sent: 0,
            bytes_received: 0,
            first_byte: None,
            usage: None,
            whole: false,
            asked_for_usage: false,
            streams_array: false,
            price: None,
            request: None,
            response: None,
        }
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.status = refusal.status().as_u16();
        self.refused = Some(refusal.word());
        self.whole = true;
        // Whoever is refused again and again fills no disk.
        (self.request, self.response) = (None, None);
    }

    fn take(&mut self, part: &[u8]) {
        self.first_byte.get_or_insert_with(Instant::now);
        self.bytes_received += part.len() as u64;
        if let Some(usage) = &mut self.usage {
            usage.push(part);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if let Some(kept) = &mut self.response {
            kept.push(part);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let whole = self.whole && self.usage.is_some();
        let reported = self.usage.take().map(UsageReader::finish).unwrap_or_default();
        // Who sees no answer, or one that is not passed on, was perhaps charged for what was asked.
        let charged = self.answered.is_none_or(|status| status.is_success());
        let (tokens, estimated) = if !(self.metered && self.left) {
            (Tokens::default(), false)
        } else if charged || reported.told() {
            reported.counted(whole, self.bounds)
        } else if self.bounds.output > 0 {
            // An error is not charged. That it is one, only the provider says: what came with it has its bound.
            (Tokens { output: reported.bytes, ..Tokens::default() }, true)
        } else {
            (Tokens::default(), false)
        };
        let model = self.model.as_deref();
        let mut counters = self.gateway.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = counters.counts(model, self.price.as_ref(), tokens, estimated);
        counts.refused = u64::from(self.refused.is_some() && !self.sent);
        counts.bytes_received = self.bytes_received;
        // What was refused was perhaps asked for by a name that somebody made up, to crowd out the others.
        let listed = model.filter(|model| self.sent || counters.knows(self.provider, model));
        counters.add(self.provider, listed, &counts);
        if self.sent && !self.left {
            counters.give_back(self.provider, model, self.bytes_sent);
        }
        drop(counters);
        counts.bytes_sent = self.bytes_sent;
        self.gateway.log.write(&Entry {
            provider: &self.gateway.providers[self.provider].name,
            method: &self.method,
            path: &self.path,
            model,
            status: self.status,
            refused: self.refused,
            counts: ModelCounts { requests: u64::from(self.sent), ..counts },
            took: self.started.elapsed(),
            first_byte: self.first_byte.map(|time| time.duration_since(self.started)),
            whole: self.whole,
            request: self.request.as_ref().map(Kept::bytes),
            response: self.response.as_ref().map(Kept::bytes),
        });
    }
}

/// What happens to a response's parts.
pub(crate) struct AnswerFilter {
    pub(crate) exchange: Exchange,
    /// Keeps an event back that only the gateway asked for.
    pub(crate) without_usage: Option<WithoutUsage>,
    /// Makes lines of a stream that is searched and has none.
    pub(crate) lines: Option<ElementLines>,
    pub(crate) redacted: Option<EchoStream>,
    pub(crate) lent: Option<Lent>,
}

impl Filter for AnswerFilter {
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError> {
        self.exchange.take(part);
        let mut rewritten = self.without_usage.as_mut().map(|events| Bytes::from(events.push(part)));
        if let Some(lines) = &mut self.lines {
            rewritten = Some(lines.push(rewritten.as_ref().unwrap_or(part)).into());
        }
        let left = rewritten.as_ref().unwrap_or(part);
        let redacted = match &mut self.redacted {
            Some(stream) => stream.push(left).map_err(split)?,
            None => None,
        };
        let changed = redacted.map(Bytes::from).or(rewritten);
        self.exchange.keep(changed.as_ref().unwrap_or(part));
        Ok(changed)
    }

    fn end(&mut self) -> Result<Bytes, BoxError> {
        self.exchange.whole = true;
        if let Some(lent) = self.lent.take() {
            lent.give_back();
        }
        let mut rest = self.without_usage.as_mut().map(WithoutUsage::finish).unwrap_or_default();
        if let Some(stream) = &mut self.redacted {
            rest = stream.push(&rest).map_err(split)?.unwrap_or(rest);
            rest.extend(stream.finish().map_err(split)?);
        }
        self.exchange.keep(&rest);
        Ok(rest.into())
    }

    fn holds(&self) -> bool {
        self.redacted.as_ref().is_some_and(EchoStream::holds)
    }

    fn paused(&mut self) -> Result<Bytes, BoxError> {
        let Some(stream) = &mut self.redacted else { return Ok(Bytes::new()) };
        let rest = Bytes::from(stream.paused().map_err(split)?);
        self.exchange.keep(&rest);
        Ok(rest)
    }

    /// No provider has any, and no client reads them.
    fn trailers(&mut self, fields: &mut HeaderMap) {
        fields.clear();
    }

    fn keeps_length(&self) -> bool {
        self.redacted.is_none() && self.without_usage.is_none()
    }
}
