//! Names of secrets that need no hosts of their own in a policy, because everybody sends them to the same ones.

/// Variables of well-known services, and where their values belong.
pub const KNOWN: &[(&str, &[&str])] = &[
    ("ANTHROPIC_API_KEY", &["api.anthropic.com"]),
    ("ANTHROPIC_AUTH_TOKEN", &["api.anthropic.com"]),
    ("CLAUDE_CODE_OAUTH_TOKEN", &["api.anthropic.com"]),
    ("OPENAI_API_KEY", &["api.openai.com"]),
    ("GEMINI_API_KEY", &["generativelanguage.googleapis.com"]),
    ("GOOGLE_API_KEY", &["generativelanguage.googleapis.com"]),
    ("OPENROUTER_API_KEY", &["openrouter.ai"]),
    ("MISTRAL_API_KEY", &["api.mistral.ai"]),
    ("GROQ_API_KEY", &["api.groq.com"]),
    ("DEEPSEEK_API_KEY", &["api.deepseek.com"]),
    ("XAI_API_KEY", &["api.x.ai"]),
    ("OLLAMA_API_KEY", &["ollama.com"]),
    // git asks github.com, everything else the API.
    ("GITHUB_TOKEN", &["github.com", "api.github.com"]),
    ("GH_TOKEN", &["github.com", "api.github.com"]),
    ("GITLAB_TOKEN", &["gitlab.com"]),
    ("NPM_TOKEN", &["registry.npmjs.org"]),
    ("NODE_AUTH_TOKEN", &["registry.npmjs.org"]),
    ("TWINE_PASSWORD", &["upload.pypi.org"]),
    ("UV_PUBLISH_TOKEN", &["upload.pypi.org"]),
    ("CARGO_REGISTRY_TOKEN", &["crates.io"]),
    ("HF_TOKEN", &["huggingface.co"]),
    ("CLOUDFLARE_API_TOKEN", &["api.cloudflare.com"]),
    ("DIGITALOCEAN_ACCESS_TOKEN", &["api.digitalocean.com"]),
    ("LINEAR_API_KEY", &["api.linear.app"]),
    ("SENTRY_AUTH_TOKEN", &["sentry.io"]),
    ("STRIPE_API_KEY", &["api.stripe.com"]),
];

/// The hosts that a secret of this name is sent to; none where kennel does not know.
#[must_use]
pub fn hosts(name: &str) -> &'static [&'static str] {
    KNOWN.iter().find(|(own, _)| *own == name).map_or(&[], |(_, hosts)| hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{HostRule, ListKind};

    #[test]
    fn known_hosts_are_hosts_and_names_stand_once() {
        for (number, (name, hosts)) in KNOWN.iter().enumerate() {
            assert!(!hosts.is_empty(), "{name}");
            assert!(KNOWN[..number].iter().all(|(other, _)| other != name), "{name}");
            for host in *hosts {
                assert!(HostRule::parse(host, ListKind::Allow).is_ok(), "{host}");
            }
        }
        assert_eq!(hosts("GITHUB_TOKEN"), ["github.com", "api.github.com"]);
        assert!(hosts("ACME_TOKEN").is_empty());
    }
}
