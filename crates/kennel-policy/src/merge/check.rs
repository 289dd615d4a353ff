//! What a policy cannot ask for together, whoever made it.
//!
//! [`merge`](super::merge) ends with this, so that a policy which could not start is not made. A front end that makes its policy by
//! itself comes by here at the start.

use crate::parent_proxy::{ParentAddress, ParentProxyError};
use crate::policy::{NetworkMode, NetworkPolicy, Policy, ProxyAddress};
use crate::secrets::{SecretMode, SecretRule};

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

fn check_parents(network: &NetworkPolicy) -> Result<(), ParentProxyError> {
    let own = network.parent_proxy.as_ref().filter(|own| own.expose() != "none");
    let kinds = network.parent_proxy_by_kind.as_ref();
    let all =
        own.into_iter().chain(kinds.into_iter().flat_map(|kinds| kinds.http.iter().chain(&kinds.https)));
    all.map(ProxyAddress::expose).try_for_each(|text| ParentAddress::parse(text).map(|_| ()))
}
