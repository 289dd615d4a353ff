//! What a client is told that gets no answer of the provider's: in the provider's own shape, so that an unmodified client raises its own
//! error; and in a way that has it stop at once where another try would not help.

use bytes::Bytes;
use hyper::StatusCode;
use kennel_policy::gateway::Api;

use super::api;
use super::budget::Spent;
use super::request::BodyError;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Without the session's token.
    Token,
    /// Nothing that is known.
    Path(String),
    /// The policy does not have it.
    Model(String),
    /// There is a list of models, and the request names none.
    NoModel,
    /// Nobody has said what it costs, and there is a budget of it.
    NoPrice(String),
    /// A member of the body that changes what tokens cost, or costs something beside them, and there is a budget of cost.
    Priced(String),
    /// A budget is used up.
    Spent(Spent),
    /// A body that is not sent on.
    Body(BodyError),
    /// A body that is compressed.
    Encoded,
    /// A body that is too large to be looked at.
    TooLarge(u64),
    /// It is answered later, and then nobody would count it.
    Background,
    /// Its stream would not tell its tokens, and there is a budget that counts them.
    Uncounted,
    /// The provider could not be reached; why.
    Upstream(String),
    /// The provider is not who it should be; why.
    Unverified(String),
    /// The provider's answer is compressed though nobody asked for it.
    EncodedResponse,
}

impl Refusal {
    /// The word for it in the log.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Token => "token",
            Refusal::Path(_) => "path",
            Refusal::Model(_) | Refusal::NoModel => "model",
            Refusal::NoPrice(_) | Refusal::Priced(_) => "price",
            Refusal::Spent(_) => "budget",
            Refusal::Body(_) | Refusal::Encoded | Refusal::TooLarge(_) => "body",
            Refusal::Background => "background",
            Refusal::Uncounted => "uncounted",
            Refusal::Upstream(_) | Refusal::Unverified(_) | Refusal::EncodedResponse => "upstream",
        }
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Token => StatusCode::UNAUTHORIZED,
            Refusal::Path(_) => StatusCode::NOT_FOUND,
            Refusal::Model(_) | Refusal::NoPrice(_) | Refusal::Priced(_) => StatusCode::FORBIDDEN,
            Refusal::Spent(_) => StatusCode::TOO_MANY_REQUESTS,
            Refusal::NoModel | Refusal::Body(_) | Refusal::Background | Refusal::Uncounted => {
                StatusCode::BAD_REQUEST
            }
            Refusal::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Upstream(_) | Refusal::Unverified(_) | Refusal::EncodedResponse => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    /// Whether another try could help.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Refusal::Upstream(_))
    }

    /// What happened, and what to do, for the provider of this name.
    #[must_use]
    pub fn message(&self, provider: &str) -> String {
        let said = match self {
            Refusal::Token => "the session's token is missing or wrong; use the key that kennel set in the environment".into(),
            Refusal::Path(path) => format!("{path} is not part of what the model gateway passes on"),
            Refusal::Model(model) => {
                format!("model {model} is not allowed here; to allow it, add it to gateway.{provider}.models")
            }
            Refusal::NoModel => "the request names no model, and the policy allows only some".into(),
            Refusal::NoPrice(model) => format!(
                "model {model} has no price, and there is a budget of cost; add it to gateway.prices"
            ),
            Refusal::Priced(member) => format!(
                "`{member}` in the body changes what tokens cost, or costs something beside them, and there is a budget of cost; leave it out, or add it to gateway.{provider}.members"
            ),
            Refusal::Spent(spent) => spent.to_string(),
            Refusal::Body(error) => error.to_string(),
            Refusal::Encoded => "the body has a Content-Encoding, so the model gateway cannot read it".into(),
            Refusal::TooLarge(most) => format!("the body has more than {} MiB", most >> 20),
            Refusal::Background => {
                "the request is to be answered in the background, where its tokens could not be counted, and there is a budget of them".into()
            }
            Refusal::Uncounted => {
                "`stream_options` keeps the stream from telling its tokens, and there is a budget of them; leave it out, or set `include_usage`".into()
            }
            Refusal::Upstream(why) | Refusal::Unverified(why) => why.clone(),
            Refusal::EncodedResponse => {
                "the provider's answer is compressed though that was not asked for, so it cannot be searched for keys".into()
            }
        };
        format!("kennel: {said}")
    }

    /// The answer's body.
    #[must_use]
    pub fn body(&self, api: Api, provider: &str) -> Bytes {
        Bytes::from(api::of(api).refusal(self, &self.message(provider)).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spent_budget_is_told_in_the_providers_shape() {
        let spent = Refusal::Spent(Spent { provider: None, what: "tokens", limit: "10".into() });
        let text = |api| String::from_utf8(spent.body(api, "p").to_vec()).unwrap();
        let message = "kennel: the budget of 10 tokens is used up";
        let read = |api| serde_json::from_str::<serde_json::Value>(&text(api)).unwrap();
        assert_eq!(read(Api::Anthropic)["error"], json!({"type": "rate_limit_error", "message": message}));
        assert_eq!(read(Api::OpenAi)["error"]["code"], "insufficient_quota");
        assert_eq!(
            read(Api::Gemini)["error"],
            json!({"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"})
        );
        assert_eq!(read(Api::Ollama), json!({"error": message}));
        assert!(!spent.may_retry() && spent.status() == 429);
    }

    #[test]
    fn every_refusal_has_a_shape_for_everybody() {
        let all = [
            Refusal::Token,
            Refusal::Path("GET /v1/files".into()),
            Refusal::Model("m\"\n".into()),
            Refusal::NoModel,
            Refusal::NoPrice("m".into()),
            Refusal::Priced("m".into()),
            Refusal::Body(BodyError::NotJson),
            Refusal::Encoded,
            Refusal::TooLarge(32 << 20),
            Refusal::Background,
            Refusal::Upstream("x".into()),
            Refusal::Unverified("x".into()),
            Refusal::EncodedResponse,
        ];
        for refusal in all {
            for api in [Api::Anthropic, Api::OpenAi, Api::Gemini, Api::Ollama] {
                let value: serde_json::Value = serde_json::from_slice(&refusal.body(api, "p")).unwrap();
                assert!(value.get("error").is_some(), "{refusal:?}");
            }
            assert!(refusal.status().is_client_error() || refusal.status() == 502);
        }
    }
}
