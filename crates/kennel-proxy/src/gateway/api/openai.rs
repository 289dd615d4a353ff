//! OpenAI's chat, responses and what else many providers have taken over from it; Azure's addresses too.

use serde_json::{Value, json};

use super::{Limits, Members, ModelApi, Passes};
use crate::gateway::paths::{Endpoint, ModelIn, joined};
use crate::gateway::refusal::Refusal;

/// Of all its requests: OpenAI's reference, and what OpenRouter, Mistral, DeepSeek, Groq, xAI and vLLM document for the same ones.
pub(super) const MEMBERS: Members = Members {
    plain: &[
        "audio",
        "background",
        "best_of",
        "cache_control",
        "chat_template_kwargs",
        "client_metadata",
        "conversation",
        "deferred",
        "dimensions",
        "echo",
        "enable_thinking",
        "encoding_format",
        "frequency_penalty",
        "function_call",
        "generate",
        "include",
        "include_reasoning",
        "input",
        "input_type",
        "instructions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "max_tool_calls",
        "messages",
        "metadata",
        "min_p",
        "modalities",
        "n",
        "output_compression",
        "output_format",
        "parallel_tool_calls",
        "partial_images",
        "prediction",
        "presence_penalty",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "prompt_mode",
        "quality",
        "random_seed",
        "reasoning_effort",
        "reasoning_format",
        "repetition_penalty",
        "route",
        "safe_prompt",
        "safety_identifier",
        "search_parameters",
        "seed",
        "service_tier",
        "session_id",
        "size",
        "speed",
        "stop",
        "store",
        "stream",
        "stream_format",
        "stream_options",
        "structured_outputs",
        "style",
        "suffix",
        "temperature",
        "top_a",
        "top_k",
        "top_logprobs",
        "top_p",
        "trace",
        "transforms",
        "truncation",
        "usage",
        "user",
        "verbosity",
        "voice",
        "web_search_options",
    ],
    settings: &[
        "context_management",
        "functions",
        "moderation",
        "plugins",
        "prompt",
        "provider",
        "reasoning",
        "response_format",
        "text",
        "thinking",
        "tool_choice",
        "tools",
    ],
    models: &["fallbacks", "model", "models", "preset"],
    priced: &[
        ("service_tier", &["default", "flex"]),
        ("speed", &["standard"]),
        ("audio", &[]),
        ("modalities", &["text"]),
        ("plugins", &[]),
        ("provider", &[]),
        ("search_parameters", &[]),
        ("web_search_options", &[]),
    ],
    inner: &[
        "action",
        "alloweddomains",
        "allowedtools",
        "authorization",
        "background",
        "blockeddomains",
        "city",
        "connectorid",
        "country",
        "datacollection",
        "definition",
        "effort",
        "environment",
        "fileid",
        "fileids",
        "generatesummary",
        "ignore",
        "imageurl",
        "inputfidelity",
        "memorylimit",
        "mode",
        "name",
        "only",
        "order",
        "outputformat",
        "quality",
        "quantizations",
        "ranker",
        "region",
        "requireapproval",
        "searchcontextsize",
        "serverdescription",
        "serverlabel",
        "serverurl",
        "size",
        "sort",
        "summary",
        "syntax",
        "timezone",
        "toolnames",
        "type",
        "vectorstoreids",
        "verbosity",
    ],
    said: &["filters", "headers"],
    free_tools: &[
        "function",
        "custom",
        "local_shell",
        "apply_patch",
        "mcp",
        "namespace",
        "tool_search",
        "computer",
        "computer_use_preview",
    ],
    tool_members: &[
        "allowedtools",
        "authorization",
        "cachecontrol",
        "connectorid",
        "custom",
        "deferloading",
        "description",
        "displayheight",
        "displaywidth",
        "environment",
        "execution",
        "format",
        "function",
        "headers",
        "name",
        "parameters",
        "requireapproval",
        "serverdescription",
        "serverlabel",
        "serverurl",
        "strict",
        "tools",
        "type",
    ],
};

/// What OpenAI's, OpenRouter's and Codex' clients send.
pub(super) const PASSES: Passes = Passes {
    fields: &[
        "openai-beta",
        "openai-organization",
        "openai-project",
        "http-referer",
        "x-title",
        "originator",
        "version",
        "session_id",
        "conversation_id",
        "x-session-affinity",
    ],
    beginnings: &["x-stainless-", "x-codex-"],
    parameters: &["api-version", "stream", "limit", "after", "before", "order"],
};

pub(super) struct OpenAi;

impl ModelApi for OpenAi {
    /// A path of the upstream's own stands in the place of `/v1`.
    fn endpoint(&self, method: &str, parts: &[&str], upstream_has_path: bool) -> Option<Endpoint> {
        // Azure's classic addresses name the model, as the deployment that it is.
        if let ["openai", "deployments", deployment, rest @ ..] = parts {
            let (_, metered) = known(method, rest).filter(|_| method == "POST")?;
            return Some(Endpoint::new(parts, ModelIn::Deployment((*deployment).to_owned()), metered));
        }
        let (before, rest) = match parts {
            ["openai", "v1", rest @ ..] => ("/openai/v1", rest),
            // With `OPENAI_BASE_URL` to the end of `/v1`, or without.
            ["v1", rest @ ..] | rest if upstream_has_path => ("", rest),
            ["v1", rest @ ..] | rest => ("/v1", rest),
        };
        let (model, metered) = known(method, rest)?;
        Some(Endpoint::of(format!("{before}{}", joined(rest)), model, metered))
    }

    fn members(&self) -> &'static [&'static Members] {
        &[&MEMBERS]
    }

    fn limits(&self, path: &str) -> Limits {
        limits(path)
    }

    fn passes(&self) -> &'static Passes {
        &PASSES
    }

    fn refusal(&self, refusal: &Refusal, message: &str) -> Value {
        let (kind, code) = match refusal {
            Refusal::Token => ("invalid_request_error", Some("invalid_api_key")),
            Refusal::Path(_) => ("invalid_request_error", Some("unknown_url")),
            Refusal::Model(_) => ("invalid_request_error", Some("model_not_found")),
            Refusal::Spent(_) => ("insufficient_quota", Some("insufficient_quota")),
            Refusal::Upstream(_) | Refusal::Unverified(_) | Refusal::EncodedResponse => {
                ("server_error", None)
            }
            _ => ("invalid_request_error", None),
        };
        let param = matches!(refusal, Refusal::Model(_) | Refusal::NoModel).then_some("model");
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

/// Where a request says how much may come out. A name that is another request's counts for nothing: a server ignores it.
pub(super) fn limits(path: &str) -> Limits {
    if path.ends_with("/completions") {
        Limits { output: &["max_tokens", "max_completion_tokens"], answers: &["n", "best_of"] }
    } else if path.ends_with("/responses") || path.ends_with("/compact") {
        Limits { output: &["max_output_tokens"], answers: &[] }
    } else {
        Limits { output: &[], answers: &["n"] }
    }
}

/// What is behind `/v1`: where the model is named, and whether it uses tokens.
pub(super) fn known(method: &str, rest: &[&str]) -> Option<(ModelIn, bool)> {
    match (method, rest) {
        (
            "POST",
            ["chat", "completions"]
            | ["responses" | "completions" | "embeddings"]
            | ["responses", "compact"]
            | ["images", "generations"]
            | ["audio", "speech"],
        ) => Some((ModelIn::Body, true)),
        ("POST", ["moderations"] | ["responses", "input_tokens"]) => Some((ModelIn::Body, false)),
        // Other makers' models have a slash in their name.
        ("GET", ["models"] | ["models", _] | ["models", _, _]) => Some((ModelIn::Nothing, false)),
        _ => None,
    }
}
