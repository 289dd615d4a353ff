//! What the proxy says when it does not do what a client wants.

use std::io;

use kennel_policy::printed::Ascii;

use crate::gate::{Denial, Refusal};
use crate::http::head::{Field, HeadError, Response};
use crate::meter::BudgetSpent;
use crate::resolver::ResolveError;
use crate::rules::DenyReason;

/// A whole answer of the proxy itself.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) status: u16,
    /// The words behind the status. Most clients show them for a `CONNECT` that failed, and nothing else.
    pub(crate) phrase: String,
    /// A word for programs.
    pub(crate) code: &'static str,
    /// A sentence for people.
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn denied(denial: &Denial) -> Self {
        let allowed = "the sandbox's network policy does not allow it";
        let why = format!("kennel blocked this connection: {denial}; {allowed}.");
        // Agents look for the first words, which are srt's, to tell a refusal from a failure.
        let (code, text) = match denial.reason {
            DenyReason::Address(..) | DenyReason::DeniedAddress(_) => (
                "blocked-by-sandbox-runtime",
                format!("Connection to {} blocked\n{why}", Ascii(&denial.target)),
            ),
            _ => ("blocked-by-allowlist", format!("Connection blocked by network allowlist\n{why}")),
        };
        Page { status: 403, phrase: format!("Blocked by kennel: {denial}"), code, text }
    }

    pub(crate) fn refused(refusal: &Refusal, target: &str) -> Self {
        match refusal {
            Refusal::Denied(denial) => Page::denied(denial),
            Refusal::Unresolved(error) => {
                let (status, phrase) = match error {
                    ResolveError::TimedOut => (504, "Gateway Timeout"),
                    _ => (502, "Bad Gateway"),
                };
                let text = format!("kennel could not look up {}: {error}.", Ascii(target));
                Page { status, phrase: phrase.into(), code: "dns-failure", text }
            }
        }
    }

    pub(crate) fn unreachable(error: &io::Error, target: &str) -> Self {
        if let Some(limit) = BudgetSpent::of(error) {
            return Page::denied(&Denial::over_budget(target, limit));
        }
        let (status, phrase, code) = match error.kind() {
            io::ErrorKind::TimedOut => (504, "Gateway Timeout", "connect-timeout"),
            _ => (502, "Bad Gateway", "connect-failure"),
        };
        let text = format!("kennel could not connect to {}: {error}.", Ascii(target));
        Page { status, phrase: phrase.into(), code, text }
    }

    pub(crate) fn bad_answer(why: &str) -> Self {
        let text = format!("the server's response cannot be forwarded: {why}.");
        Page { status: 502, phrase: "Bad Gateway".into(), code: "bad-response", text }
    }

    pub(crate) fn no_answer() -> Self {
        let text = "the server did not answer in time.".into();
        Page { status: 504, phrase: "Gateway Timeout".into(), code: "response-timeout", text }
    }

    pub(crate) fn malformed(error: HeadError) -> Self {
        let (status, phrase) = match error {
            HeadError::TooLarge => (431, "Request Header Fields Too Large"),
            HeadError::Version => (505, "HTTP Version Not Supported"),
            HeadError::Malformed(_) => (400, "Bad Request"),
        };
        Page::request(status, phrase, &format!("the request is refused: {error}."))
    }

    pub(crate) fn slow() -> Self {
        Page::request(408, "Request Timeout", "the request arrived too slowly.")
    }

    pub(crate) fn request(status: u16, phrase: &str, text: &str) -> Self {
        Page { status, phrase: phrase.into(), code: "bad-request", text: text.into() }
    }

    pub(crate) fn unauthorized() -> Self {
        Page {
            status: 407,
            phrase: "Proxy Authentication Required".into(),
            code: "authentication-required",
            text: "this proxy requires the sandbox's token, which is in HTTP_PROXY.".into(),
        }
    }

    /// Its fields and its body.
    pub(crate) fn parts(&self) -> (Vec<Field>, String) {
        let body = format!("{}\n", self.text);
        let mut fields = vec![
            Field::new("Content-Type", "text/plain; charset=utf-8"),
            Field::new("Content-Length", body.len().to_string()),
            Field::new("X-Proxy-Error", self.code),
        ];
        if self.status == 407 {
            fields.push(Field::new("Proxy-Authenticate", "Basic realm=\"kennel\""));
        }
        (fields, body)
    }

    pub(crate) fn shown_phrase(&self) -> Vec<u8> {
        Ascii(&self.phrase).to_string().into_bytes()
    }

    /// The bytes to send. A page to a `HEAD` request has no body.
    pub(crate) fn to_bytes(&self, method: &str, keep: bool) -> Vec<u8> {
        let (mut fields, body) = self.parts();
        if !keep {
            fields.push(Field::new("Connection", "close"));
        }
        let mut bytes =
            Response { minor: 1, status: self.status, reason: self.shown_phrase(), fields }.to_bytes();
        if method != "HEAD" {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}
