//! The model gateway with what nobody said about it.

use std::ffi::OsString;

use crate::gateway::{Budget, GatewayPolicy, ProviderRule, known};
use crate::nearest::nearest;
use crate::policy::{NetworkMode, Origin};
use crate::secrets::{SecretRule, SecretSource};
use crate::settings::{KeySource, ProviderEntry, Settings, Stated, is_in_the_clear};

/// Why there can be no such gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// A provider of which too little is known.
    #[error(
        "gateway.{name} ({origin}): kennel knows no provider of this name{}; set its `{field}`, or use one of {}",
        hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default(),
        known::KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// Its name.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// What is missing.
        field: &'static str,
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// Somebody could read the key on its way.
    #[error(
        "gateway.{name} ({origin}): `{upstream}` is not encrypted, and the key would be sent to it; use `https://`"
    )]
    InTheClear {
        /// The provider.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// Its address.
        upstream: String,
    },
    /// No address that exists only inside.
    #[error(
        "gateway.{name} ({origin}) cannot be used with network mode `host` ({mode_origin}): the gateway's address exists \
         only in a network of the sandbox's own"
    )]
    OnHost {
        /// The provider.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// Where the mode was set.
        mode_origin: Origin,
    },
    /// A cost that nobody can count.
    #[error("a budget for `cost` ({0}) requires `gateway.prices`")]
    NoPrices(Origin),
    /// Contents of nothing.
    #[error("gateway.log_contents ({0}) requires `gateway.log`")]
    NoLog(Origin),
    /// Two values for one variable.
    #[error(
        "gateway.{name} ({origin}) sets the variable `{variable}`, which secrets.{secret} sets too; leave one out"
    )]
    SameVariable {
        /// The provider.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// The variable.
        variable: String,
        /// The secret.
        secret: String,
    },
}

/// Makes the gateway of what was said, and takes the real keys out of the command's variables.
pub(super) fn settle(settings: &mut Settings, secrets: &[SecretRule]) -> Result<GatewayPolicy, GatewayError> {
    let mut providers = Vec::with_capacity(settings.gateway.providers.len());
    for entry in std::mem::take(&mut settings.gateway.providers) {
        let provider = rule(entry)?;
        check(&provider, settings, secrets)?;
        if let Some(SecretSource::Env(name)) = &provider.key {
            super::secrets::unset(settings, name.clone(), &provider.origin);
        }
        providers.push(provider);
    }
    let gateway = &settings.gateway;
    let limited = gateway.budget.as_ref().filter(|budget| budget.value.cost.is_some());
    let limited = limited.map(|budget| &budget.origin);
    let limited = limited.or(providers.iter().find(|one| one.budget.cost.is_some()).map(|one| &one.origin));
    if let (Some(origin), true) = (limited, gateway.prices.is_empty()) {
        return Err(GatewayError::NoPrices(origin.clone()));
    }
    if let (Some(Stated { value: true, origin }), None) = (&gateway.log_contents, &gateway.log) {
        return Err(GatewayError::NoLog(origin.clone()));
    }
    Ok(GatewayPolicy {
        providers,
        budget: Budget::default(),
        prices: gateway.prices.iter().map(|stated| stated.value.clone()).collect(),
        log: gateway.log.as_ref().map(|stated| stated.value.clone()),
        log_contents: false,
    })
}

fn rule(entry: ProviderEntry) -> Result<ProviderRule, GatewayError> {
    let ProviderEntry { name, api, key, upstream, models, members, budget, variables, origin } = entry;
    let known = known::find(&name);
    let missing = |field| GatewayError::Unknown {
        name: name.clone(),
        origin: origin.clone(),
        field,
        hint: nearest(&name, known::KNOWN.iter().map(|known| known.name))
            .and_then(known::find)
            .map(|known| known.name),
    };
    let api = api.or(known.map(|known| known.api)).ok_or_else(|| missing("api"))?;
    let upstream =
        upstream.or(known.map(|known| known.upstream.to_owned())).ok_or_else(|| missing("upstream"))?;
    let key = match (key, known) {
        (Some(KeySource::From(source)), _) => Some(source),
        (Some(KeySource::None), _) => None,
        (None, Some(known)) => known.key.map(|name| SecretSource::Env(OsString::from(name))),
        (None, None) => return Err(missing("key")),
    };
    if key.is_some() && is_in_the_clear(&upstream) {
        return Err(GatewayError::InTheClear { name, origin, upstream });
    }
    Ok(ProviderRule { name, api, key, upstream, models, members, budget, variables, origin })
}

fn check(provider: &ProviderRule, settings: &Settings, secrets: &[SecretRule]) -> Result<(), GatewayError> {
    let (name, origin) = (provider.name.clone(), provider.origin.clone());
    if let Some(Stated { value: NetworkMode::Host, origin: mode_origin }) = &settings.network.mode {
        return Err(GatewayError::OnHost { name, origin, mode_origin: mode_origin.clone() });
    }
    let api = provider.api;
    let own = provider.variables.iter().map(String::as_str);
    let variables = own.chain(api.base_variables().iter().chain(api.key_variables()).copied());
    for variable in variables {
        let same = |secret: &&SecretRule| secret.variable.as_ref().is_some_and(|own| own == variable);
        if let Some(secret) = secrets.iter().find(same) {
            let (variable, secret) = (variable.to_owned(), secret.name.clone());
            return Err(GatewayError::SameVariable { name, origin, variable, secret });
        }
    }
    Ok(())
}
