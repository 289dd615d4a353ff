//! The model gateway of a policy, and the variables that lead clients inside to it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use kennel_policy::gateway::{Api, GatewayPolicy, ProviderRule};
use kennel_policy::secrets::SecretSource;
use kennel_proxy::Roots;
use kennel_proxy::gateway::{Gateway, GatewaySettings, Prices, Provider};

use super::held::WriteRoots;
use super::{ProviderKey, SecretError};

/// The gateway of a policy that has one.
pub(super) fn gateway(
    policy: &GatewayPolicy,
    keys: &[ProviderKey],
    roots: &Arc<Roots>,
    write_roots: &WriteRoots,
) -> Result<Option<Arc<Gateway>>, SecretError> {
    if policy.providers.is_empty() {
        return Ok(None);
    }
    let provider = |(rule, key): (&ProviderRule, &ProviderKey)| {
        Provider::of_rule(rule, key.token.clone(), key.key.clone())
    };
    let providers = policy.providers.iter().zip(keys).map(provider).collect::<Result<_, _>>()?;
    let log = policy.log.as_deref().map(|path| log(write_roots, path)).transpose()?;
    Ok(Some(Arc::new(Gateway::new(GatewaySettings {
        providers,
        roots: Arc::clone(roots),
        budget: policy.budget,
        prices: Prices::from(policy.prices.clone()),
        log,
        log_contents: policy.log_contents,
    })?)))
}

/// Opened before the command runs, which might put something else there; and an earlier one may have put a link.
fn log(write_roots: &WriteRoots, path: &Path) -> Result<Box<dyn Write + Send>, SecretError> {
    let failed = |why: io::Error| SecretError::Log { path: path.to_path_buf(), why };
    let file = write_roots.append(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    Ok(Box::new(file))
}

/// What variables are set for a gateway, and which are taken away.
#[derive(Default)]
pub(super) struct Variables {
    pub(super) set: Vec<(OsString, OsString)>,
    pub(super) unset: Vec<OsString>,
}

/// The variables of a policy's providers; `address` is where clients find each of them. Of two providers that speak one
/// protocol the first has its variables, and the other those that the policy names.
pub(super) fn variables(
    policy: &GatewayPolicy,
    keys: &[ProviderKey],
    address: impl Fn(usize) -> String,
) -> Variables {
    let mut all = Variables::default();
    let mut served: Vec<Api> = Vec::new();
    for (number, (rule, key)) in policy.providers.iter().zip(keys).enumerate() {
        let base = address(number) + rule.api.base_path();
        let source = match &rule.key {
            Some(SecretSource::Env(name)) => Some(name.clone()),
            _ => None,
        };
        let is_first = !served.contains(&rule.api);
        let bases = rule.api.base_variables().iter().filter(|_| is_first);
        for name in bases.copied().chain(rule.variables.iter().map(String::as_str)) {
            all.set.push((name.into(), base.clone().into()));
        }
        let known = rule.api.key_variables();
        let is_known = |name: &OsString| known.iter().any(|own| name == own);
        let mut holders: Vec<OsString> = source.iter().cloned().collect();
        if is_first && key_is_wanted(rule) && !source.as_ref().is_some_and(is_known) {
            holders.extend(known.first().map(OsString::from));
        }
        if is_first {
            // A client that found another one first would send that.
            let others = known.iter().map(OsString::from).filter(|name| !holders.contains(name));
            all.unset.extend(others);
            let more = rule.api.more_variables().iter();
            all.set.extend(more.map(|(name, value)| (name.into(), value.into())));
        }
        all.set.extend(holders.into_iter().map(|name| (name, key.token.clone().into())));
        served.push(rule.api);
    }
    all
}

fn key_is_wanted(rule: &ProviderRule) -> bool {
    rule.key.is_some() || rule.api.needs_key()
}

#[cfg(test)]
mod tests {
    use kennel_policy::gateway::Budget;
    use kennel_policy::policy::Origin;

    use super::*;

    fn rule(name: &str, api: Api, key: Option<&str>) -> ProviderRule {
        ProviderRule {
            name: name.into(),
            api,
            key: key.map(|name| SecretSource::Env(name.into())),
            upstream: "https://a.test".into(),
            models: Vec::new(),
            members: Vec::new(),
            budget: Budget::default(),
            variables: Vec::new(),
            origin: Origin("--gateway".into()),
        }
    }

    #[test]
    fn clients_find_the_address_and_a_token_in_the_variables_that_they_know() {
        let mut providers = vec![
            rule("anthropic", Api::Anthropic, Some("ANTHROPIC_AUTH_TOKEN")),
            rule("openai", Api::OpenAi, Some("MY_KEY")),
            rule("openrouter", Api::OpenAi, Some("OPENROUTER_API_KEY")),
            rule("ollama", Api::Ollama, None),
        ];
        providers[2].variables = vec!["OPENROUTER_BASE_URL".into()];
        let policy = GatewayPolicy { providers, ..GatewayPolicy::default() };
        let keys: Vec<ProviderKey> =
            (0..4).map(|number| ProviderKey { token: format!("token-{number}"), key: None }).collect();
        let Variables { set, unset } =
            variables(&policy, &keys, |number| format!("http://127.0.0.1:{}", 3200 + number));
        let of = |name: &str| {
            let found: Vec<_> = set.iter().filter(|(own, _)| own == name).map(|(_, value)| value).collect();
            assert!(found.len() < 2, "{name}");
            found.first().map(|value| value.to_str().expect("text"))
        };
        assert_eq!(of("ANTHROPIC_BASE_URL"), Some("http://127.0.0.1:3200"));
        assert_eq!((of("ANTHROPIC_AUTH_TOKEN"), of("ANTHROPIC_API_KEY")), (Some("token-0"), None));
        assert_eq!(of("OPENAI_BASE_URL"), Some("http://127.0.0.1:3201/v1"));
        assert_eq!((of("OPENAI_API_KEY"), of("MY_KEY")), (Some("token-1"), Some("token-1")));
        assert_eq!(of("OPENROUTER_BASE_URL"), Some("http://127.0.0.1:3202/v1"));
        assert_eq!(of("OPENROUTER_API_KEY"), Some("token-2"));
        assert_eq!((of("OLLAMA_HOST"), of("OLLAMA_API_KEY")), (Some("http://127.0.0.1:3203"), None));
        assert!(unset.contains(&"ANTHROPIC_API_KEY".into()) && !unset.contains(&"OPENAI_API_KEY".into()));
    }
}
