//! Providers that need no more than their name in a policy, and the variables that clients of each protocol go by.

use super::Api;

/// A provider that everybody reaches in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownProvider {
    /// What it is called.
    pub name: &'static str,
    /// Which protocol it speaks.
    pub api: Api,
    /// The variable that users keep its key in; `None` for one that wants none.
    pub key: Option<&'static str>,
    /// Where it is. With [`Api::OpenAi`] a path stands in the place of `/v1`.
    pub upstream: &'static str,
}

const fn provider(
    name: &'static str,
    api: Api,
    key: Option<&'static str>,
    upstream: &'static str,
) -> KnownProvider {
    KnownProvider { name, api, key, upstream }
}

/// The providers that kennel knows.
pub const KNOWN: &[KnownProvider] = &[
    provider("anthropic", Api::Anthropic, Some("ANTHROPIC_API_KEY"), "https://api.anthropic.com"),
    provider("openai", Api::OpenAi, Some("OPENAI_API_KEY"), "https://api.openai.com"),
    provider("gemini", Api::Gemini, Some("GEMINI_API_KEY"), "https://generativelanguage.googleapis.com"),
    provider("ollama", Api::Ollama, None, "http://127.0.0.1:11434"),
    provider("openrouter", Api::OpenAi, Some("OPENROUTER_API_KEY"), "https://openrouter.ai/api/v1"),
    provider("groq", Api::OpenAi, Some("GROQ_API_KEY"), "https://api.groq.com/openai/v1"),
    provider("mistral", Api::OpenAi, Some("MISTRAL_API_KEY"), "https://api.mistral.ai"),
    provider("deepseek", Api::OpenAi, Some("DEEPSEEK_API_KEY"), "https://api.deepseek.com"),
    provider("xai", Api::OpenAi, Some("XAI_API_KEY"), "https://api.x.ai"),
];

/// The provider of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static KnownProvider> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Api {
    /// Its name in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::OpenAi => "openai",
            Api::Gemini => "gemini",
            Api::Ollama => "ollama",
        }
    }

    /// The protocol of this name.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Api> {
        [Api::Anthropic, Api::OpenAi, Api::Gemini, Api::Ollama].into_iter().find(|api| api.word() == word)
    }

    /// The variables that clients read a provider's address from.
    #[must_use]
    pub fn base_variables(self) -> &'static [&'static str] {
        match self {
            Api::Anthropic => &["ANTHROPIC_BASE_URL"],
            // The second is aider's and that of older libraries.
            Api::OpenAi => &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
            Api::Gemini => &["GOOGLE_GEMINI_BASE_URL"],
            Api::Ollama => &["OLLAMA_HOST"],
        }
    }

    /// The variables that clients read a provider's key from, of which one is set: the policy's own source if it is among them,
    /// or else the first.
    #[must_use]
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Api::Anthropic => &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
            Api::OpenAi => &["OPENAI_API_KEY"],
            Api::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Api::Ollama => &["OLLAMA_API_KEY"],
        }
    }
}
