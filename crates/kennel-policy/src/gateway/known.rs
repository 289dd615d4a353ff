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

/// What a protocol is called, and what its clients go by.
struct ApiRow {
    word: &'static str,
    /// Clients read a provider's address from these.
    base_variables: &'static [&'static str],
    /// What stands behind the address in them.
    base_path: &'static str,
    key_variables: &'static [&'static str],
    /// Its providers want a key, wherever they run.
    needs_key: bool,
    /// Clients are told this as well.
    more_variables: &'static [(&'static str, &'static str)],
}

impl Api {
    const ALL: [Api; 4] = [Api::Anthropic, Api::OpenAi, Api::Gemini, Api::Ollama];

    const fn row(self) -> ApiRow {
        match self {
            Api::Anthropic => ApiRow {
                word: "anthropic",
                base_variables: &["ANTHROPIC_BASE_URL"],
                base_path: "",
                key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
                needs_key: true,
                // Claude Code leaves its search for tools out where the address is not Anthropic's.
                more_variables: &[("ENABLE_TOOL_SEARCH", "true")],
            },
            Api::OpenAi => ApiRow {
                word: "openai",
                // The second is aider's and that of older libraries.
                base_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
                base_path: "/v1",
                key_variables: &["OPENAI_API_KEY"],
                needs_key: true,
                more_variables: &[],
            },
            Api::Gemini => ApiRow {
                word: "gemini",
                base_variables: &["GOOGLE_GEMINI_BASE_URL"],
                base_path: "",
                key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                needs_key: true,
                more_variables: &[],
            },
            // On a computer of one's own it wants no key.
            Api::Ollama => ApiRow {
                word: "ollama",
                base_variables: &["OLLAMA_HOST"],
                base_path: "",
                key_variables: &["OLLAMA_API_KEY"],
                needs_key: false,
                more_variables: &[],
            },
        }
    }

    /// Its name in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// The protocol of this name.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Api> {
        Api::ALL.into_iter().find(|api| api.word() == word)
    }

    /// The variables that clients read a provider's address from.
    #[must_use]
    pub fn base_variables(self) -> &'static [&'static str] {
        self.row().base_variables
    }

    /// What stands behind the address in these variables.
    #[must_use]
    pub fn base_path(self) -> &'static str {
        self.row().base_path
    }

    /// The variables that clients read a provider's key from, of which one is set: the policy's own source if it is among them,
    /// or else the first.
    #[must_use]
    pub fn key_variables(self) -> &'static [&'static str] {
        self.row().key_variables
    }

    /// Whether its providers want a key, wherever they run.
    #[must_use]
    pub fn needs_key(self) -> bool {
        self.row().needs_key
    }

    /// More variables that its clients are given.
    #[must_use]
    pub fn more_variables(self) -> &'static [(&'static str, &'static str)] {
        self.row().more_variables
    }
}
