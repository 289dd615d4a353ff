//! What can be asked of a provider: the paths that clients use to talk to models, and no others.
//!
//! A key opens more than its owner means to share: files of the whole organisation, results of others' batches, its
//! administration. None of that is known here.

use hyper::Method;
use kennel_policy::gateway::Api;
use kennel_policy::http_rule::RequestTarget;

/// Something that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The path as the provider knows it, behind that of the upstream.
    pub path: String,
    /// Where the model is named.
    pub model: ModelIn,
    /// Whether it uses tokens.
    pub metered: bool,
}

/// Where a request names its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelIn {
    /// Nowhere.
    Nothing,
    /// In its body, a JSON object.
    Body,
    /// In its path. A body may say the same.
    Path(String),
}

/// Finds what a request asks for. `upstream_has_path` says whether the upstream has a path of its own, which then stands in the
/// place of OpenAI's `/v1`.
#[must_use]
pub fn endpoint(
    api: Api,
    upstream_has_path: bool,
    method: &Method,
    target: &RequestTarget,
) -> Option<Endpoint> {
    let path = target.path();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (get, post) = (method == Method::GET, method == Method::POST);
    let found = match api {
        Api::Anthropic => anthropic(get, post, &parts),
        Api::OpenAi => return openai(upstream_has_path, get, post, &parts),
        Api::Gemini => gemini(get, post, &parts),
        Api::Ollama => {
            let head = method == Method::HEAD;
            ollama(get || head && parts.is_empty(), post, &parts)
        }
    };
    found.map(|(model, metered)| Endpoint { path: joined(&parts), model, metered })
}

type Found = Option<(ModelIn, bool)>;

fn joined(parts: &[&str]) -> String {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() {
        path.push('/');
    }
    path
}

fn anthropic(get: bool, post: bool, parts: &[&str]) -> Found {
    match parts {
        ["v1", "messages" | "complete"] if post => Some((ModelIn::Body, true)),
        ["v1", "messages", "count_tokens"] if post => Some((ModelIn::Body, false)),
        ["v1", "models"] | ["v1", "models", _] if get => Some((ModelIn::Nothing, false)),
        _ => None,
    }
}

fn openai(upstream_has_path: bool, get: bool, post: bool, parts: &[&str]) -> Option<Endpoint> {
    // Azure's classic addresses name the model, as the deployment that it is.
    if let ["openai", "deployments", deployment, rest @ ..] = parts {
        let (_, metered) = openai_path(get, post, rest).filter(|_| post)?;
        return Some(Endpoint {
            path: joined(parts),
            model: ModelIn::Path((*deployment).to_owned()),
            metered,
        });
    }
    let (before, rest) = match parts {
        ["openai", "v1", rest @ ..] => ("/openai/v1", rest),
        // With `OPENAI_BASE_URL` to the end of `/v1`, or without.
        ["v1", rest @ ..] | rest if upstream_has_path => ("", rest),
        ["v1", rest @ ..] | rest => ("/v1", rest),
    };
    let (model, metered) = openai_path(get, post, rest)?;
    Some(Endpoint { path: format!("{before}{}", joined(rest)), model, metered })
}

fn openai_path(get: bool, post: bool, rest: &[&str]) -> Found {
    match rest {
        ["chat", "completions"]
        | ["responses" | "completions" | "embeddings"]
        | ["responses", "compact"]
        | ["images", "generations"]
        | ["audio", "speech"]
            if post =>
        {
            Some((ModelIn::Body, true))
        }
        ["moderations"] | ["responses", "input_tokens"] if post => Some((ModelIn::Body, false)),
        // Other makers' models have a slash in their name.
        ["models"] | ["models", _] | ["models", _, _] if get => Some((ModelIn::Nothing, false)),
        _ => None,
    }
}

fn gemini(get: bool, post: bool, parts: &[&str]) -> Found {
    let ["v1" | "v1beta" | "v1alpha", "models", rest @ ..] = parts else { return None };
    match rest {
        [] if get => Some((ModelIn::Nothing, false)),
        [name] if get && !name.contains(':') => Some((ModelIn::Nothing, false)),
        [call] if post => {
            let (model, verb) = call.split_once(':')?;
            let metered = match verb {
                "generateContent" | "streamGenerateContent" | "embedContent" | "batchEmbedContents" => true,
                "countTokens" => false,
                _ => return None,
            };
            Some((ModelIn::Path(model.to_owned()), metered))
        }
        _ => None,
    }
}

fn ollama(get: bool, post: bool, parts: &[&str]) -> Found {
    match parts {
        // How its clients look whether it is there.
        [] | ["api", "tags" | "version" | "ps"] if get => Some((ModelIn::Nothing, false)),
        ["api", "chat" | "generate" | "embed" | "embeddings"] if post => Some((ModelIn::Body, true)),
        ["api", "show"] if post => Some((ModelIn::Body, false)),
        // It speaks OpenAI's protocol too.
        ["v1", rest @ ..] => openai_path(get, post, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(api: Api, request: &str) -> Option<Endpoint> {
        let (method, target) = request.split_once(' ').unwrap();
        endpoint(api, false, &method.parse().unwrap(), &RequestTarget::parse(target).ok()?)
    }

    #[test]
    fn what_clients_use_is_known() {
        for (api, request) in [
            (Api::Anthropic, "POST /v1/messages?beta=true"),
            (Api::Anthropic, "POST //v1/messages"),
            (Api::Anthropic, "POST /v1/messages/count_tokens"),
            (Api::Anthropic, "GET /v1/models?limit=20"),
            (Api::OpenAi, "POST /v1/chat/completions"),
            (Api::OpenAi, "POST /chat/completions"),
            (Api::OpenAi, "POST /v1/responses"),
            (Api::OpenAi, "GET /v1/models/gpt-6"),
            (Api::OpenAi, "POST /openai/deployments/mine/chat/completions?api-version=2024-10-21"),
            (Api::Gemini, "POST /v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"),
            (Api::Gemini, "GET /v1beta/models"),
            (Api::Ollama, "POST /api/chat"),
            (Api::Ollama, "HEAD /"),
            (Api::Ollama, "POST /v1/chat/completions"),
        ] {
            assert!(find(api, request).is_some(), "{request}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for (api, request) in [
            (Api::Anthropic, "GET /v1/messages"),
            (Api::Anthropic, "DELETE /v1/models/x"),
            (Api::Anthropic, "GET /v1/files"),
            (Api::Anthropic, "POST /v1/messages/batches"),
            (Api::Anthropic, "GET /v1/organizations/users"),
            (Api::Anthropic, "POST /v1/messages/../organizations"),
            (Api::Anthropic, "POST /v1/messages/%2e%2e/x"),
            (Api::Anthropic, "POST /v1%2fmessages"),
            (Api::OpenAi, "GET /v1/files"),
            (Api::OpenAi, "GET /v1/responses/resp_1"),
            (Api::OpenAi, "POST /v1/organization/admin_api_keys"),
            (Api::OpenAi, "GET /openai/deployments/mine/chat/completions"),
            (Api::OpenAi, "POST /v1/v1/chat/completions"),
            (Api::Gemini, "POST /v1beta/models/x:predict"),
            (Api::Gemini, "POST /v1beta/models/x"),
            (Api::Gemini, "GET /v1beta/files"),
            (Api::Gemini, "POST /upload/v1beta/files"),
            (Api::Ollama, "DELETE /api/delete"),
            (Api::Ollama, "POST /api/pull"),
            (Api::Ollama, "POST /api/push"),
            (Api::Ollama, "HEAD /api/blobs/sha256:00"),
        ] {
            assert_eq!(find(api, request), None, "{request}");
        }
    }

    #[test]
    fn an_upstream_with_a_path_has_it_in_the_place_of_openais() {
        let ask = |has_path, path| {
            let target = RequestTarget::parse(path).unwrap();
            endpoint(Api::OpenAi, has_path, &Method::POST, &target).map(|found| found.path)
        };
        assert_eq!(ask(false, "/v1/responses").as_deref(), Some("/v1/responses"));
        assert_eq!(ask(false, "/responses").as_deref(), Some("/v1/responses"));
        assert_eq!(ask(true, "/v1/responses").as_deref(), Some("/responses"));
        assert_eq!(ask(true, "/responses").as_deref(), Some("/responses"));
    }

    #[test]
    fn gemini_names_its_model_in_the_path() {
        let found = find(Api::Gemini, "POST /v1beta/models/gemini-3-pro:generateContent").unwrap();
        assert_eq!((found.model, found.metered), (ModelIn::Path("gemini-3-pro".into()), true));
    }
}
