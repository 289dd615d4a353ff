//! What a policy cannot ask for together, whoever made it.
//!
//! [`merge`](super::merge) ends with this, so that a policy which could not start is not made. A front end that makes its policy by
//! itself comes by here at the start.

use crate::parent_proxy::{ParentAddress, ParentProxyError};
use crate::policy::{NetworkMode, NetworkPolicy, Origin, Policy, ProxyAddress, SeccompProfile, UnixSockets};
use crate::secrets::{SecretMode, SecretRule};
use crate::traffic::TrafficLimit;

/// What a policy cannot ask for together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A secret for a gate that is not there.
    #[error(
        "the secret {0}: nothing can put it into requests, because this sandbox uses the host's network\n\
         help: use an allow list of hosts (`network.allow`), or `mode = \"inject\"`"
    )]
    HostNetwork(String),
    /// A gateway at an address that is not there.
    #[error(
        "the gateway to {0} requires a network of the sandbox's own\nhelp: leave out `network.mode = \"host\"`"
    )]
    GatewayOnHost(String),
    /// Requests that go past the gate.
    #[error(
        "{0}: nothing can be put into requests, or compared with rules, that a proxy of the host's carries\n\
         help: leave out network.http_proxy_port and network.socks_proxy_port"
    )]
    ExternalProxy(String),
    /// Traffic that the gate cannot count.
    #[error("network.budget `{limit}` ({origin}) cannot be kept with {what}: {why}\nhelp: {help}")]
    Uncounted {
        /// The first limit.
        limit: String,
        /// Where it was set.
        origin: Origin,
        /// What.
        what: String,
        /// Why not.
        why: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// What the gate cannot judge where every public address can be reached.
    #[error("{what} cannot be used with network mode `public`: {why}\nhelp: {help}")]
    Public {
        /// What.
        what: String,
        /// Why not.
        why: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// No address of a proxy.
    #[error(
        "network.parent_proxy: {0}\nhelp: write an address such as http://proxy.example.com:3128, or none"
    )]
    ParentProxy(#[from] ParentProxyError),
}

/// Finds the first contradiction.
///
/// # Errors
/// When there is one.
pub fn check(policy: &Policy) -> Result<(), Contradiction> {
    let network = &policy.network;
    if network.http_proxy_port.is_some() || network.socks_proxy_port.is_some() {
        // Under srt's settings a stand-in is only worth nothing then, as it is there.
        let swapped = |rule: &&SecretRule| rule.mode == SecretMode::Swap && !rule.swap_in.others;
        let rule = network.http.first().map(|rule| format!("the rule `{rule}`"));
        let secret = policy.secrets.iter().find(swapped).map(|secret| format!("the secret {}", secret.name));
        if let Some(what) = rule.or(secret) {
            return Err(Contradiction::ExternalProxy(what));
        }
    }
    if network.mode == NetworkMode::Public {
        check_public(network)?;
    }
    check_budget(policy)?;
    if policy.needs_gate() {
        check_parents(network)?;
    }
    if network.mode != NetworkMode::Host {
        return Ok(());
    }
    if let Some(secret) = policy.secrets.iter().find(|secret| secret.mode == SecretMode::Swap) {
        return Err(Contradiction::HostNetwork(secret.name.clone()));
    }
    match policy.gateway.providers.first() {
        Some(provider) => Err(Contradiction::GatewayOnHost(provider.name.clone())),
        None => Ok(()),
    }
}

/// Under [`NetworkMode::Public`] the gate goes by addresses, so it has to know them, and a program can come by the address of
/// whatever it likes.
fn check_public(network: &NetworkPolicy) -> Result<(), Contradiction> {
    let by_proxy = "the proxy looks names up, so that kennel cannot tell which addresses they lead to";
    let proxy = network.parent_proxy.as_ref().is_some_and(|own| own.expose() != "none");
    let proxies = [
        (proxy || network.parent_proxy_by_kind.is_some(), "network.parent_proxy"),
        (network.http_proxy_port.is_some(), "network.http_proxy_port"),
        (network.socks_proxy_port.is_some(), "network.socks_proxy_port"),
    ];
    if let Some((_, key)) = proxies.into_iter().find(|(said, _)| *said) {
        let help = "leave it out, or use mode `allow-list`";
        return Err(Contradiction::Public { what: key.to_owned(), why: by_proxy, help });
    }
    if let Some(rule) = network.http.first() {
        return Err(Contradiction::Public {
            what: format!("the rule `{rule}`"),
            why: "a program reaches the same server by its address, without any rule about requests",
            help: "use mode `allow-list`, or leave the rule out",
        });
    }
    if network.ask {
        return Err(Contradiction::Public {
            what: "network.ask".to_owned(),
            why: "every host is either public or refused, so nothing is left to ask about",
            help: "use mode `allow-list`, or leave it out",
        });
    }
    Ok(())
}

/// Every byte that leaves has to come by the gate, and the gate has to know where it goes.
fn check_budget(policy: &Policy) -> Result<(), Contradiction> {
    let NetworkPolicy { budget, mode, unix_sockets, allow_unix_sockets, trust_daemon, .. } = &policy.network;
    let Some(first) = budget.first() else { return Ok(()) };
    let uncounted = |limit: &TrafficLimit, what: String, why, help| {
        let (limit, origin) = (format!("{} = {limit}", limit.measure.key()), limit.origin.clone());
        Err(Contradiction::Uncounted { limit, origin, what, why, help })
    };
    if *mode == NetworkMode::Host {
        let why = "on the host's network nothing comes by kennel, so nothing is counted";
        let help = "use mode `allow-list` or `public`";
        return uncounted(first, "network mode `host`".to_owned(), why, help);
    }
    let by_daemon = "what listens there can send on what it is told, and kennel does not count it";
    if *unix_sockets == UnixSockets::All {
        let help = "leave it out, so that the command reaches no sockets of the host";
        return uncounted(first, "network.unix_sockets `all`".to_owned(), by_daemon, help);
    }
    if let (UnixSockets::Listed, Some(rule)) = (unix_sockets, allow_unix_sockets.first()) {
        let what = format!("network.allow_unix_sockets `{}` ({})", rule.pattern, rule.origin);
        let help = "leave it out, so that the command reaches no sockets of the host";
        return uncounted(first, what, by_daemon, help);
    }
    if policy.process.seccomp == SeccompProfile::None {
        let why = "without a filter a program makes sockets that no network of a sandbox's own contains";
        let help = "use another profile";
        return uncounted(first, "process.seccomp `none`".to_owned(), why, help);
    }
    if policy.best_effort {
        let why = "where this host cannot close every other way out, the command would run all the same";
        return uncounted(first, "best_effort".to_owned(), why, "leave it out");
    }
    if *trust_daemon {
        let why = "the system's certificate daemon fetches addresses itself";
        return uncounted(first, "the certificate daemon".to_owned(), why, "leave it out");
    }
    if !policy.process.mach_services.is_empty() {
        let why = "a service of the system can send on what it is told";
        return uncounted(first, "Mach services".to_owned(), why, "leave them out");
    }
    let Some(of_host) = budget.iter().find(|limit| limit.host.is_some()) else { return Ok(()) };
    let network = &policy.network;
    if network.http_proxy_port.is_some() || network.socks_proxy_port.is_some() {
        let why = "kennel counts what goes to the proxy, and not to which hosts the proxy sends it";
        let help = "limit the total, or leave the proxy's port out";
        return uncounted(of_host, "a proxy in the gate's place".to_owned(), why, help);
    }
    if *mode == NetworkMode::Public {
        let why = "a program reaches the same server by its address or by another name";
        let help = "limit the total, or use mode `allow-list`";
        return uncounted(of_host, "network mode `public`".to_owned(), why, help);
    }
    Ok(())
}

fn check_parents(network: &NetworkPolicy) -> Result<(), ParentProxyError> {
    let own = network.parent_proxy.as_ref().filter(|own| own.expose() != "none");
    let kinds = network.parent_proxy_by_kind.as_ref();
    let all =
        own.into_iter().chain(kinds.into_iter().flat_map(|kinds| kinds.http.iter().chain(&kinds.https)));
    all.map(ProxyAddress::expose).try_for_each(|text| ParentAddress::parse(text).map(|_| ()))
}
