//! Secrets with what nobody said about them: their sources, their hosts and their variables.

use std::ffi::OsString;

use crate::domain::{HostRule, ListKind};
use crate::policy::{NetworkMode, Origin};
use crate::secrets::{AbsentSecret, MaskedFile, SecretMode, SecretRule, SecretSource, SwapIn, known};
use crate::settings::{SecretEntry, Settings, Stated};

/// Why a secret cannot be used so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secrets.{name} ({origin}): {problem}")]
pub struct SecretError {
    /// The secret's name.
    pub name: String,
    /// Where it was set.
    pub origin: Origin,
    /// What is wrong.
    pub problem: SecretProblem,
}

/// What can be wrong with a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// A stand-in that nobody would exchange.
    #[error(
        "kennel does not know where it belongs; list the hosts that it is sent to in its `hosts` ({0}@HOST in one word), or \
         set its `mode` to `inject` to let the command see it"
    )]
    NoHosts(String),
    /// Rules about requests, for a value that the command holds.
    #[error(
        "`{0}` means nothing with mode `inject`: the command holds the value and sends it wherever it can"
    )]
    Injected(&'static str),
    /// No gate to exchange the stand-in.
    #[error(
        "mode `swap` cannot be used with network mode `{mode}` ({mode_origin}): the gate puts the real value in; \
         use network mode `allow-list`"
    )]
    NoGate {
        /// The mode.
        mode: &'static str,
        /// Where it was set.
        mode_origin: Origin,
    },
    /// A host whose traffic the gate is told not to read.
    #[error(
        "it is sent to `{host}`, whose TLS connections `network.no_terminate` ({origin}) leaves as they are, so that no \
         stand-in is exchanged there"
    )]
    NotRead {
        /// The host.
        host: String,
        /// Where it was excluded.
        origin: Origin,
    },
    /// A variable with two values.
    #[error("its variable `{variable}` is also set by {other}")]
    SameVariable {
        /// The variable.
        variable: String,
        /// By what else.
        other: String,
    },
}

/// Makes rules of the secrets, lets the command reach their hosts, and takes their real values out of its variables.
pub(super) fn settle(settings: &mut Settings) -> Result<Vec<SecretRule>, SecretError> {
    let mut rules: Vec<SecretRule> = Vec::with_capacity(settings.secrets.len());
    for entry in std::mem::take(&mut settings.secrets) {
        let (name, origin) = (entry.name.clone(), entry.origin.clone());
        let rule = rule(entry);
        match check(&rule, &rules, settings) {
            Ok(()) => rules.push(rule),
            Err(problem) => return Err(SecretError { name, origin, problem }),
        }
    }
    for rule in &rules {
        allow(settings, rule);
        let source = match &rule.source {
            SecretSource::Env(name) => Some(name),
            _ => None,
        };
        // What stands in its place is set by itself.
        for name in source.into_iter().chain(&rule.variable) {
            unset(settings, name.clone(), &rule.origin);
        }
    }
    Ok(rules)
}

fn rule(entry: SecretEntry) -> SecretRule {
    let SecretEntry { name, from, mode, mut hosts, variable, files, whole_files, swap_in, origin } = entry;
    if hosts.is_empty() && mode == SecretMode::Swap {
        let known = known::hosts(&name).iter().filter_map(|host| HostRule::parse(host, ListKind::Allow).ok());
        hosts.extend(known.map(|host| host.from_origin(origin.clone())));
    }
    let source = from.unwrap_or_else(|| match files.first() {
        Some(file) => SecretSource::File(file.clone()),
        None => SecretSource::Env(OsString::from(&name)),
    });
    let variable = variable.or_else(|| files.is_empty().then(|| OsString::from(&name)));
    let files = files.into_iter().map(|path| MaskedFile { path, rest: whole_files }).collect();
    SecretRule {
        name,
        source,
        mode,
        hosts,
        variable,
        files,
        swap_in,
        parts: None,
        absent: AbsentSecret::Error,
        origin,
    }
}

fn check(rule: &SecretRule, others: &[SecretRule], settings: &Settings) -> Result<(), SecretProblem> {
    if let Some(variable) = &rule.variable {
        let shown = || variable.to_string_lossy().into_owned();
        if let Some(other) = others.iter().find(|other| other.variable.as_ref() == Some(variable)) {
            let other = format!("secrets.{} ({})", other.name, other.origin);
            return Err(SecretProblem::SameVariable { variable: shown(), other });
        }
        if let Some(set) = settings.environment.set.iter().find(|set| set.value.0 == *variable) {
            let other = format!("environment.set ({})", set.origin);
            return Err(SecretProblem::SameVariable { variable: shown(), other });
        }
    }
    match rule.mode {
        SecretMode::Inject => {
            let SwapIn { query, body, plaintext, pass_encoded: _, others: _ } = rule.swap_in;
            let said = [
                (!rule.hosts.is_empty(), "hosts"),
                (query, "query"),
                (body, "body"),
                (plaintext, "plaintext"),
            ];
            match said.into_iter().find(|(said, _)| *said) {
                Some((_, field)) => Err(SecretProblem::Injected(field)),
                None => Ok(()),
            }
        }
        SecretMode::Swap => check_swap(rule, settings),
    }
}

fn check_swap(rule: &SecretRule, settings: &Settings) -> Result<(), SecretProblem> {
    let network = &settings.network;
    if rule.hosts.is_empty() {
        return Err(SecretProblem::NoHosts(rule.name.clone()));
    }
    if let Some(Stated { value, origin }) = &network.mode {
        let mode = match value {
            NetworkMode::AllowList | NetworkMode::Public => None,
            NetworkMode::None => Some("none"),
            NetworkMode::Host => Some("host"),
        };
        if let Some(mode) = mode {
            return Err(SecretProblem::NoGate { mode, mode_origin: origin.clone() });
        }
    }
    for host in &rule.hosts {
        let covers = |excluded: &&HostRule| {
            excluded.host.covers(&host.host) && (excluded.port.is_none() || excluded.port == host.port)
        };
        if let Some(excluded) = network.no_terminate.iter().find(covers) {
            return Err(SecretProblem::NotRead { host: host.to_string(), origin: excluded.origin.clone() });
        }
    }
    Ok(())
}

/// Lets the command reach a secret's hosts, unless a rule covers them: rules about requests stay all that is allowed. Of a host that
/// was named without a port these are the web's: what else it serves (ssh, mail) takes other credentials.
fn allow(settings: &mut Settings, rule: &SecretRule) {
    let network = &mut settings.network;
    for named in &rule.hosts {
        let ports = match named.port {
            Some(port) => vec![port],
            None if rule.swap_in.plaintext => vec![443, 80],
            None => vec![443],
        };
        for port in ports {
            let covers = |allowed: &HostRule| {
                allowed.host.covers(&named.host) && allowed.port.is_none_or(|own| own == port)
            };
            let by_request = network.http.iter().any(|request| request.host.host.covers(&named.host));
            if !by_request && !network.allow.iter().any(covers) {
                network.allow.push(HostRule { port: Some(port), ..named.clone() });
            }
        }
    }
}

pub(super) fn unset(settings: &mut Settings, name: OsString, origin: &Origin) {
    let environment = &mut settings.environment;
    environment.pass.retain(|pass| pass.value != name);
    if environment.unset.iter().all(|unset| unset.value != name) {
        environment.unset.push(Stated { value: name, origin: origin.clone() });
    }
}
