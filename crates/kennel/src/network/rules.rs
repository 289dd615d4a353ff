//! The gate itself, whatever sockets it serves: its rules, its settings, its token, and what it tells in the end.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use kennel_policy::domain::HostRule;
use kennel_policy::outcome::{NetworkDecision, NetworkUse};
use kennel_policy::policy::{NetworkMode, NetworkPolicy, Policy};
use kennel_proxy::{
    Answer, Ask, Credentials, External, Gate, ParentProxies, Question, Rules, Settings, Unlisted,
};
#[cfg(unix)]
use kennel_proxy::{Inspector, gateway::Gateway};

use super::{parents, publish};
use crate::SandboxError;
use crate::control::{AskAboutHosts, HostAnswer, HostQuestion};
use crate::error::Cause;

/// Why there is no network as the policy asks for it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error("creating a token for the network gate: {0}")]
    Token(#[source] std::io::Error),
    #[error(transparent)]
    Publish(#[from] publish::PublishError),
    #[error(transparent)]
    Parent(#[from] parents::ParentError),
    #[error(
        "network mode `public` cannot be used behind a proxy (HTTP_PROXY, HTTPS_PROXY): the proxy looks names up, so that kennel \
         cannot tell which addresses they lead to\n\
         help: --parent-proxy none, if this host reaches the internet without it; or --net allow-list"
    )]
    PublicByProxy,
}

impl From<NetworkError> for SandboxError {
    fn from(error: NetworkError) -> SandboxError {
        SandboxError::Setup(Cause::of(error))
    }
}

/// Handle to change the rules of a gate.
#[derive(Clone, Debug)]
pub(crate) struct GateHandle(pub(super) Gate);

impl GateHandle {
    /// Puts other lists in place of those that hold.
    pub(crate) fn replace(&self, allow: Vec<HostRule>, deny: Vec<HostRule>) {
        self.0.update_lists(allow, deny);
    }
}

/// Whom the gate asks.
fn asking(ask: &AskAboutHosts) -> Ask {
    let ask = ask.clone();
    Arc::new(move |question: &Question| {
        let question = HostQuestion { host: question.host.to_string(), port: question.port };
        match ask.ask(&question) {
            HostAnswer::Allow => Answer::Allow,
            HostAnswer::AllowOnce => Answer::AllowOnce,
            HostAnswer::Deny => Answer::Deny,
            HostAnswer::NoAnswer => Answer::NoAnswer,
            HostAnswer::NotAsked => Answer::NotAsked,
        }
    })
}

/// The proxies that the gate goes out by, where the policy can have any.
pub(super) fn parents_for<'e>(
    wanted: &NetworkPolicy,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
) -> Result<ParentProxies, NetworkError> {
    let parents = parents::parents(wanted, environment)?;
    let any = parents.http.is_some() || parents.https.is_some();
    if any && wanted.mode == NetworkMode::Public {
        return Err(NetworkError::PublicByProxy);
    }
    Ok(parents)
}

/// All that a gate is made of.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    rules: Rules,
    settings: Settings,
}

impl Recipe {
    /// The rules of a policy. `environment` is the caller's: its own proxy, if it has one, is used to get out. `ask` is asked
    /// about hosts that no rule covers, and clients have to know `token`.
    pub(crate) fn of<'e>(
        policy: &Policy,
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ask: Option<&AskAboutHosts>,
        token: String,
        own_name: String,
        ipv6: bool,
    ) -> Result<Recipe, NetworkError> {
        let wanted = &policy.network;
        let parents = parents_for(wanted, environment)?;
        let mut settings = Settings {
            credentials: Some(Credentials { user: "kennel".into(), password: token }),
            parents,
            external: External { http: wanted.http_proxy_port, socks: wanted.socks_proxy_port },
            ask: ask.map(asking),
            own_name: Some(own_name),
            ipv6,
            budget: wanted.budget.clone(),
            ..Settings::default()
        };
        // A year is as good as for ever, and adds to any clock.
        settings.times.ask = wanted.ask_timeout.unwrap_or(Duration::from_secs(365 * 24 * 3600));
        let mut rules = Rules::new(wanted.allow.clone(), wanted.deny.clone());
        rules.allow_sni_mismatch = wanted.allow_sni_mismatch;
        rules.allow_ech = wanted.allow_ech;
        if wanted.mode == NetworkMode::Public {
            rules.unlisted = Unlisted::Public;
        } else if ask.is_some() {
            rules.unlisted = Unlisted::Ask;
        }
        Ok(Recipe { rules, settings })
    }

    /// With what the gate reads of requests, and the way to models.
    #[cfg(unix)]
    pub(crate) fn read_requests(&mut self, inspector: Option<Arc<Inspector>>, gateway: Option<Arc<Gateway>>) {
        (self.settings.inspect, self.settings.gateway) = (inspector, gateway);
    }

    /// The gate.
    pub(crate) fn gate(self) -> Gate {
        Gate::new(self.rules, self.settings)
    }
}

/// Every decision, in the order in which they were first made, and what was blocked, for a person.
pub(crate) fn used(gate: &Gate, failure: Option<&str>, advice: &str) -> NetworkUse {
    let decision = |record: kennel_proxy::Record| {
        let mut decision = NetworkDecision::new(record.host, record.port, record.door.to_string());
        if let kennel_proxy::Verdict::Denied(reason) = record.verdict {
            (decision.allowed, decision.reason) = (false, reason.to_string());
        }
        (decision.rule, decision.count, decision.program) = (record.rule, record.count, record.program);
        decision
    };
    NetworkUse {
        decisions: gate.records().into_iter().map(decision).collect(),
        more: gate.dropped_records(),
        traffic: gate.traffic_use(),
        blocked: match failure {
            Some(failure) => format!("{failure}\n"),
            None => gate.summary_advising(advice),
        },
    }
}

/// What only programs inside this sandbox know.
pub(crate) fn token() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    kennel_proxy::random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
