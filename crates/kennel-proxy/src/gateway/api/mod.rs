//! What sets one protocol of models apart from the others: a file for each, and a row in [`of`].
//!
//! What is the same for all of them is not here: the token and where it may stand, the budget, the list of models, and the reader of
//! what a response says about tokens.

mod anthropic;
mod gemini;
mod ollama;
mod openai;

use kennel_policy::gateway::Api;
use serde_json::Value;

use super::paths::Endpoint;
use super::refusal::Refusal;

/// The members that bodies of a protocol have, by what they can name and cost. A body has no others.
pub struct Members {
    /// Name no model, whatever is in them: what is said, limits, numbers.
    pub plain: &'static [&'static str],
    /// Have members of their own, of which one that is not known may name a model.
    pub settings: &'static [&'static str],
    /// Name models in every text.
    pub models: &'static [&'static str],
    /// Change what a token costs, or cost something beside tokens, unless they have one of these values.
    pub priced: &'static [(&'static str, &'static [&'static str])],
    /// Names within settings whose texts name no model, in small letters and without `_`.
    pub inner: &'static [&'static str],
    /// Names within settings below which nothing names a model.
    pub said: &'static [&'static str],
    /// Kinds of tools that cost nothing beside tokens, each perhaps with a `*`.
    pub free_tools: &'static [&'static str],
    /// What such a tool has directly in it, in small letters and without `_`: others know tools by other members.
    pub tool_members: &'static [&'static str],
}

/// Fields and parameters that reach a provider. All others are left out: what lets somebody in, has another server asked, or stands for
/// another method, is not known by its name.
pub(crate) struct Passes {
    pub(crate) fields: &'static [&'static str],
    /// The beginnings of names that clients make of what they know of themselves.
    pub(crate) beginnings: &'static [&'static str],
    pub(crate) parameters: &'static [&'static str],
}

/// Where a request of one kind says how much may come out, as paths of names.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// The most tokens of one answer. Where several are there, the largest counts.
    pub output: &'static [&'static str],
    /// How many answers there are.
    pub answers: &'static [&'static str],
}

/// One protocol.
pub(crate) trait ModelApi {
    /// What a request asks for, by its method and the parts of its path; `None` for what is not passed on.
    /// `upstream_has_path` says whether the upstream has a path of its own.
    fn endpoint(&self, method: &str, parts: &[&str], upstream_has_path: bool) -> Option<Endpoint>;

    /// The members that a request's body can have. One that is not known could lead the key elsewhere, or name what is compared
    /// under another name.
    fn members(&self) -> &'static [&'static Members];

    /// Where a request for this path says how much may come out.
    fn limits(&self, path: &str) -> Limits;

    /// What passes beside the body.
    fn passes(&self) -> &'static Passes;

    /// An error as the provider writes it.
    fn refusal(&self, refusal: &Refusal, message: &str) -> Value;

    /// Whether the echo of such a key is found in what this protocol's servers send.
    fn finds_key(&self, _key: &[u8]) -> bool {
        true
    }

    /// Whether clients may show their token as `?key=`.
    fn takes_token_in_query(&self) -> bool {
        false
    }
}

pub(crate) fn of(api: Api) -> &'static dyn ModelApi {
    match api {
        Api::Anthropic => &anthropic::Anthropic,
        Api::OpenAi => &openai::OpenAi,
        Api::Gemini => &gemini::Gemini,
        Api::Ollama => &ollama::Ollama,
    }
}
