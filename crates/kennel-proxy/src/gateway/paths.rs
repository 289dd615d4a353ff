//! What can be asked of a provider: the paths that clients use to talk to models, and no others.
//!
//! A key opens more than its owner means to share: files of the whole organisation, results of others' batches, its
//! administration. None of that is known here.

use hyper::Method;
use kennel_policy::gateway::Api;
use kennel_policy::http_rule::RequestTarget;

use super::api;

/// Something that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The path as the provider knows it, behind that of the upstream.
    pub path: String,
    /// Where the model is named.
    pub model: ModelIn,
    /// Whether it uses tokens.
    pub metered: bool,
    /// Whether a model writes the answer, and does not only compute vectors.
    pub writes: bool,
}

/// Where a request names its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelIn {
    /// Nowhere.
    Nothing,
    /// In its body, a JSON object.
    Body,
    /// In its path. A body that names one as well has to name the same.
    Path(String),
    /// In its path, by the name of a deployment. What a body names is not used.
    Deployment(String),
}

impl Endpoint {
    /// One whose path goes to the provider as it is.
    pub(super) fn new(parts: &[&str], model: ModelIn, metered: bool) -> Endpoint {
        Endpoint::of(joined(parts), model, metered)
    }

    pub(super) fn of(path: String, model: ModelIn, metered: bool) -> Endpoint {
        let last = path.rsplit(['/', ':']).next().unwrap_or_default();
        let writes = !matches!(last, "embeddings" | "embed" | "embedContent" | "batchEmbedContents");
        Endpoint { path, model, metered, writes }
    }
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
    api::of(api).endpoint(method.as_str(), &parts, upstream_has_path)
}

pub(super) fn joined(parts: &[&str]) -> String {
    let path: String = parts.iter().flat_map(|part| ["/", part]).collect();
    if path.is_empty() { "/".into() } else { path }
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
    #[kennel_claim::claim("gateway/known-requests-only")]
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
