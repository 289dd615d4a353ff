//! Ollama, which speaks OpenAI's protocol too.

use serde_json::{Value, json};

use super::{Limits, Members, ModelApi, Passes, openai};
use crate::gateway::paths::{Endpoint, ModelIn};
use crate::gateway::refusal::Refusal;

/// Ollama's own, of `/api/chat`, `/api/generate`, `/api/embed` and `/api/show`.
const OWN: Members = Members {
    plain: &[
        "context",
        "format",
        "images",
        "keep_alive",
        "options",
        "raw",
        "system",
        "template",
        "think",
        "truncate",
    ],
    settings: &[],
    models: &["name"],
    priced: &[],
    inner: &[],
    said: &[],
    free_tools: &[],
    tool_members: &[],
};

pub(super) struct Ollama;

impl ModelApi for Ollama {
    fn endpoint(&self, method: &str, parts: &[&str], _: bool) -> Option<Endpoint> {
        let (model, metered) = match (method, parts) {
            // How its clients look whether it is there.
            ("HEAD", []) | ("GET", [] | ["api", "tags" | "version" | "ps"]) => (ModelIn::Nothing, false),
            ("POST", ["api", "chat" | "generate" | "embed" | "embeddings"]) => (ModelIn::Body, true),
            ("POST", ["api", "show"]) => (ModelIn::Body, false),
            (_, ["v1", rest @ ..]) => openai::known(method, rest)?,
            _ => return None,
        };
        Some(Endpoint::new(parts, model, metered))
    }

    fn members(&self) -> &'static [&'static Members] {
        &[&OWN, &openai::MEMBERS]
    }

    fn limits(&self, path: &str) -> Limits {
        match path.starts_with("/api/") {
            true => Limits { output: &["options.num_predict"], answers: &[] },
            false => openai::limits(path),
        }
    }

    fn passes(&self) -> &'static Passes {
        &openai::PASSES
    }

    fn refusal(&self, _: &Refusal, message: &str) -> Value {
        json!({"error": message})
    }
}
