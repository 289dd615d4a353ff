//! The model gateway: which providers the command talks to without holding their keys, and how much it may use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::origin::Origin;
use crate::secrets::SecretSource;

pub mod known;

/// The model gateway of a sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayPolicy {
    /// The providers that it leads to.
    pub providers: Vec<ProviderRule>,
    /// What all of them together may use.
    pub budget: Budget,
    /// What a million tokens cost, by model; a name may end in `*`.
    pub prices: BTreeMap<String, Price>,
    /// Where requests are logged, one line of JSON each.
    pub log: Option<PathBuf>,
    /// Whether the log holds what was said.
    pub log_contents: bool,
}

/// A provider of models.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderRule {
    /// What it is called: `anthropic`, `openai`, or a name of the user's own.
    pub name: String,
    /// Which protocol it speaks.
    pub api: Api,
    /// Where its real key comes from; `None` for one that wants none.
    pub key: Option<SecretSource>,
    /// Where requests go, without the path that clients add: `https://api.anthropic.com`.
    pub upstream: String,
    /// The models that can be used, each perhaps with a `*`; all where the list is empty.
    pub models: Vec<String>,
    /// Members of a body that pass beside those of its protocol.
    pub members: Vec<String>,
    /// What it may use.
    pub budget: Budget,
    /// The variables that lead clients there, beside those of its protocol.
    pub variables: Vec<String>,
    /// Where the rule came from.
    pub origin: Origin,
}

/// The protocols that the gateway knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's chat and responses, which many speak.
    OpenAi,
    /// Google's Gemini.
    Gemini,
    /// Ollama.
    Ollama,
}

/// How much may be used; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Requests that were let through.
    pub requests: Option<u64>,
    /// Tokens that went in.
    pub input_tokens: Option<u64>,
    /// Tokens that came out.
    pub output_tokens: Option<u64>,
    /// Both together.
    pub tokens: Option<u64>,
    /// Bytes of requests and responses.
    pub bytes: Option<u64>,
    /// What it cost, in the unit of the price table.
    pub cost: Option<f64>,
}

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Those that go in.
    pub input: f64,
    /// Those that come out.
    pub output: f64,
    /// Those that are read from the provider's cache; `input` where it is not said.
    pub cache_read: Option<f64>,
    /// Those that are written to the provider's cache; `input` where it is not said.
    pub cache_write: Option<f64>,
}

impl Price {
    /// What two models cost at most, of which one is used.
    #[must_use]
    pub fn dearest(&self, other: &Price) -> Price {
        let either = |of: fn(&Price) -> Option<f64>| {
            Some(of(self).unwrap_or(self.input).max(of(other).unwrap_or(other.input)))
        };
        Price {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: either(|price| price.cache_read),
            cache_write: either(|price| price.cache_write),
        }
    }
}
