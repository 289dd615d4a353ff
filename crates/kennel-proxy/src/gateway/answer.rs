//! A response on its way to the client: searched for the key, read for tokens, counted, and settled when it ends, in whatever way.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::HeaderMap;
use kennel_policy::outcome::ModelCounts;

use super::Gateway;
use super::connections::Lent;
use super::log::{Entry, MOST_CONTENTS};
use super::refusal::Refusal;
use super::stream_usage::WithoutUsage;
use super::usage::UsageReader;
use crate::inspect::body::{BoxError, Filter};
use crate::secrets::RedactedStream;

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
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) usage: Option<UsageReader>,
    pub(crate) whole: bool,
    /// The gateway has asked for an event that tells usage.
    pub(crate) asked_for_usage: bool,
    pub(crate) request: Option<Bytes>,
    pub(crate) response: Option<Vec<u8>>,
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
            bytes_sent: 0,
            bytes_received: 0,
            first_byte: None,
            usage: None,
            whole: false,
            asked_for_usage: false,
            request: None,
            response: None,
        }
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.status = refusal.status().as_u16();
        self.refused = Some(refusal.word());
        self.whole = true;
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
            let room = MOST_CONTENTS.saturating_sub(kept.len());
            kept.extend_from_slice(&part[..room.min(part.len())]);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let reported = self.usage.take().map(UsageReader::finish).unwrap_or_default();
        let succeeded = (200..300).contains(&self.status);
        // A client that did not wait for an answer was perhaps charged for what it asked.
        let charged = self.metered && self.sent && (succeeded || self.status == 0);
        // An error, and what is free, uses no tokens unless the provider says so.
        let (tokens, estimated) = match reported.tokens {
            _ if charged => reported.counted(self.whole, self.bytes_sent),
            Some(tokens) => (tokens, false),
            None => Default::default(),
        };
        let model = self.model.as_deref();
        let mut counters = self.gateway.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = counters.counts(model, tokens, estimated);
        counts.refused = u64::from(self.refused.is_some() && !self.sent);
        counts.bytes_received = self.bytes_received;
        // What was refused was perhaps asked for by a name that somebody made up, to crowd out the others.
        let listed = model.filter(|model| self.sent || counters.knows(self.provider, model));
        counters.add(self.provider, listed, &counts);
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
            request: self.request.as_deref(),
            response: self.response.as_deref(),
        });
    }
}

/// What happens to a response's parts.
pub(crate) struct AnswerFilter {
    pub(crate) exchange: Exchange,
    /// Keeps an event back that only the gateway asked for.
    pub(crate) without_usage: Option<WithoutUsage>,
    pub(crate) redacted: Option<RedactedStream>,
    pub(crate) lent: Option<Lent>,
}

impl Filter for AnswerFilter {
    fn part(&mut self, part: &Bytes) -> Result<Option<Bytes>, BoxError> {
        self.exchange.take(part);
        let shorter = self.without_usage.as_mut().map(|events| Bytes::from(events.push(part)));
        let left = shorter.as_ref().unwrap_or(part);
        let changed =
            self.redacted.as_mut().and_then(|stream| stream.push(left)).map(Bytes::from).or(shorter);
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
            rest = stream.push(&rest).unwrap_or(rest);
            rest.extend(stream.finish());
        }
        self.exchange.keep(&rest);
        Ok(rest.into())
    }

    /// No provider has any, and no client reads them.
    fn trailers(&mut self, fields: &mut HeaderMap) {
        fields.clear();
    }

    fn keeps_length(&self) -> bool {
        self.redacted.is_none() && self.without_usage.is_none()
    }
}
