//! Anthropic's messages.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{Limits, Members, ModelApi, Passes};
use crate::gateway::paths::{Endpoint, ModelIn};
use crate::gateway::refusal::Refusal;

/// Of messages, their counting and the older completions: Anthropic's reference of its API, and what Claude Code sends.
const MEMBERS: Members = Members {
    plain: &[
        "betas",
        "cache_control",
        "container",
        "fallback_credit_token",
        "inference_geo",
        "max_tokens",
        "max_tokens_to_sample",
        "mcp_servers",
        "messages",
        "metadata",
        "prompt",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "top_k",
        "top_p",
        "user_profile_id",
    ],
    settings: &["context_management", "output_config", "output_format", "thinking", "tool_choice", "tools"],
    models: &["fallbacks", "model"],
    priced: &[
        ("service_tier", &["standard_only"]),
        ("speed", &["standard"]),
        ("inference_geo", &["global"]),
        ("fallback_credit_token", &[]),
    ],
    inner: &[
        "alloweddomains",
        "allowedcallers",
        "blockeddomains",
        "cachecontrol",
        "city",
        "country",
        "display",
        "effort",
        "excludetools",
        "instructions",
        "mcpservername",
        "name",
        "region",
        "timezone",
        "ttl",
        "type",
    ],
    said: &["input_examples"],
    free_tools: &[
        "custom",
        "bash_*",
        "text_editor_*",
        "computer_*",
        "memory_*",
        "tool_search_tool_*",
        "mcp_toolset",
    ],
    tool_members: &[
        "allowedcallers",
        "cachecontrol",
        "configs",
        "defaultconfig",
        "deferloading",
        "description",
        "displayheightpx",
        "displaynumber",
        "displaywidthpx",
        "eagerinputstreaming",
        "enablezoom",
        "inputexamples",
        "inputschema",
        "maxcharacters",
        "mcpservername",
        "name",
        "strict",
        "type",
    ],
};

const PASSES: Passes = Passes {
    fields: &["anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access", "x-app"],
    beginnings: &["x-stainless-", "x-claude-code-"],
    parameters: &["beta", "limit", "after_id", "before_id"],
};

pub(super) struct Anthropic;

impl ModelApi for Anthropic {
    fn endpoint(&self, method: &str, parts: &[&str], _: bool) -> Option<Endpoint> {
        let (model, metered) = match (method, parts) {
            ("POST", ["v1", "messages" | "complete"]) => (ModelIn::Body, true),
            ("POST", ["v1", "messages", "count_tokens"]) => (ModelIn::Body, false),
            ("GET", ["v1", "models"] | ["v1", "models", _]) => (ModelIn::Nothing, false),
            _ => return None,
        };
        Some(Endpoint::new(parts, model, metered))
    }

    fn members(&self) -> &'static [&'static Members] {
        &[&MEMBERS]
    }

    fn limits(&self, path: &str) -> Limits {
        let output: &[&str] =
            if path.ends_with("/complete") { &["max_tokens_to_sample"] } else { &["max_tokens"] };
        Limits { output, answers: &[] }
    }

    fn passes(&self) -> &'static Passes {
        &PASSES
    }

    fn refusal(&self, refusal: &Refusal, message: &str) -> Value {
        let kind = match refusal.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::BAD_GATEWAY => "api_error",
            _ => "invalid_request_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": null})
    }
}
