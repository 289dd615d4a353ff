//! Google's Gemini.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{Limits, Members, ModelApi, Passes};
use crate::gateway::paths::{Endpoint, ModelIn};
use crate::gateway::refusal::Refusal;

/// Google's reference. Each also by its name in protocol buffers, which the server takes.
const MEMBERS: Members = Members {
    plain: &[
        "cachedContent",
        "cached_content",
        "content",
        "contents",
        "labels",
        "outputDimensionality",
        "output_dimensionality",
        "safetySettings",
        "safety_settings",
        "serviceTier",
        "service_tier",
        "store",
        "systemInstruction",
        "system_instruction",
        "taskType",
        "task_type",
        "title",
    ],
    settings: &[
        "generateContentRequest",
        "generate_content_request",
        "generationConfig",
        "generation_config",
        "requests",
        "toolConfig",
        "tool_config",
        "tools",
    ],
    models: &["model"],
    priced: &[
        ("serviceTier", &["standard", "STANDARD"]),
        ("service_tier", &["standard", "STANDARD"]),
        ("responseModalities", &["TEXT", "text", "Text"]),
        ("response_modalities", &["TEXT", "text", "Text"]),
        ("speechConfig", &[]),
        ("speech_config", &[]),
        ("imageConfig", &[]),
        ("image_config", &[]),
    ],
    inner: &[
        "allowedfunctionnames",
        "aspectratio",
        "behavior",
        "endtime",
        "environment",
        "excludedpredefinedfunctions",
        "imagesize",
        "languagecode",
        "mediaresolution",
        "mode",
        "name",
        "propertyordering",
        "responsemimetype",
        "responsemodalities",
        "starttime",
        "stopsequences",
        "tasktype",
        "thinkinglevel",
        "title",
        "voicename",
    ],
    said: &["content", "contents", "systemInstruction", "system_instruction"],
    free_tools: &["functionDeclarations", "function_declarations"],
    tool_members: &[],
};

const PASSES: Passes = Passes {
    fields: &["x-goog-api-client", "x-gemini-api-privileged-user-id"],
    beginnings: &[],
    parameters: &["alt", "$alt", "pageSize", "pageToken"],
};

pub(super) struct Gemini;

impl ModelApi for Gemini {
    fn endpoint(&self, method: &str, parts: &[&str], _: bool) -> Option<Endpoint> {
        let ["v1" | "v1beta" | "v1alpha", "models", rest @ ..] = parts else { return None };
        let (model, metered) = match (method, rest) {
            ("GET", []) => (ModelIn::Nothing, false),
            ("GET", [name]) if !name.contains(':') => (ModelIn::Nothing, false),
            ("POST", [call]) => {
                let (model, verb) = call.split_once(':')?;
                let metered = match verb {
                    "generateContent" | "streamGenerateContent" | "embedContent" | "batchEmbedContents" => {
                        true
                    }
                    "countTokens" => false,
                    _ => return None,
                };
                (ModelIn::Path(model.to_owned()), metered)
            }
            _ => return None,
        };
        Some(Endpoint::new(parts, model, metered))
    }

    fn members(&self) -> &'static [&'static Members] {
        &[&MEMBERS]
    }

    fn limits(&self, _: &str) -> Limits {
        Limits {
            output: &[
                "generationConfig.maxOutputTokens",
                "generationConfig.max_output_tokens",
                "generation_config.maxOutputTokens",
                "generation_config.max_output_tokens",
            ],
            answers: &[
                "generationConfig.candidateCount",
                "generationConfig.candidate_count",
                "generation_config.candidateCount",
                "generation_config.candidate_count",
            ],
        }
    }

    fn passes(&self) -> &'static Passes {
        &PASSES
    }

    fn refusal(&self, refusal: &Refusal, message: &str) -> Value {
        let status = refusal.status();
        let word = match status {
            StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
            StatusCode::FORBIDDEN => "PERMISSION_DENIED",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
            StatusCode::BAD_GATEWAY => "UNAVAILABLE",
            _ => "INVALID_ARGUMENT",
        };
        json!({"error": {"code": status.as_u16(), "message": message, "status": word}})
    }

    /// What is sent is taken to hold no key across the end of an object.
    fn finds_key(&self, key: &[u8]) -> bool {
        !key.contains(&b'}')
    }

    fn takes_token_in_query(&self) -> bool {
        true
    }
}
