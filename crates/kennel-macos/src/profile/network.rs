//! Which addresses a profile opens.
//!
//! Seatbelt knows two hosts, `localhost` and `*`, and there is no loopback of a sandbox's own: a command without a network
//! cannot even reach itself, and one with the gate reaches the gate's ports on the host's loopback and nothing else.

use std::path::Path;

use kennel_policy::policy::{NetworkMode, NetworkPolicy, ReadModel};

use super::ProfileError;
use super::resolve::{Access, Resolved, SocketPath, Sockets};
use super::text::{Decision, Filters, Writer, path_text, quoted};

/// What the network of a sandbox is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Where connections may lead.
    pub outbound: Outbound,
    /// Where servers may listen.
    pub listen: Listen,
    /// Whether the system's certificate daemon can be asked, which fetches addresses itself.
    pub trust_daemon: bool,
}

/// Where connections may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outbound {
    /// Nowhere.
    #[default]
    None,
    /// To these ports of the host's loopback: the gate's, and those that the policy relays.
    Loopback(Vec<u16>),
    /// Everywhere, with name look-ups.
    Host,
}

/// Where servers may listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    #[default]
    None,
    /// At these ports of the host's loopback.
    Loopback(Vec<u16>),
    /// At every port of the host's loopback.
    AnyLoopback,
    /// Everywhere.
    Host,
}

impl Network {
    /// What a policy asks for, given the ports at which the gate listens on the host's loopback.
    ///
    /// # Errors
    /// When the policy asks for what Seatbelt has nothing for.
    pub fn of(policy: &NetworkPolicy, gate: &[u16]) -> Result<Network, ProfileError> {
        if let Some(relay) = policy.relays.iter().find(|relay| !relay.greeting.expose().is_empty()) {
            return Err(ProfileError::Network {
                rule: format!("relay of port {}", relay.port),
                what: "what the command sends to a port of the host's loopback arrives as it is",
                help: "drop the relay",
            });
        }
        let own = policy.relays.iter().map(|relay| relay.port);
        let proxies = policy.http_proxy_port.into_iter().chain(policy.socks_proxy_port);
        let outbound = match policy.mode {
            NetworkMode::Host => Outbound::Host,
            NetworkMode::AllowList | NetworkMode::Public => {
                Outbound::Loopback(gate.iter().copied().chain(proxies).chain(own).collect())
            }
            NetworkMode::None => match own.collect::<Vec<u16>>() {
                ports if ports.is_empty() => Outbound::None,
                ports => Outbound::Loopback(ports),
            },
        };
        let listen = match policy.mode {
            NetworkMode::Host => Listen::Host,
            _ if policy.local_binding => Listen::AnyLoopback,
            _ if policy.publish.is_empty() => Listen::None,
            _ => Listen::Loopback(policy.publish.iter().map(|port| port.inside).collect()),
        };
        let trust_daemon = policy.trust_daemon || outbound == Outbound::Host;
        Ok(Network { outbound, listen, trust_daemon })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.section("network");
        let ip = |end: &str, host: &str, port: &str| vec![format!("({end} ip \"{host}:{port}\")")];
        let mut allow = |operation, reason: &str, text| {
            writer.rule(Decision::Allow, operation, Filters { reason: reason.to_owned(), text });
        };
        match &self.outbound {
            Outbound::None => {}
            Outbound::Loopback(ports) => {
                for port in ports {
                    allow("network-outbound", "the gate", ip("remote", "localhost", &port.to_string()));
                }
            }
            // With a filter: without one it would allow all unix sockets too.
            Outbound::Host => allow("network-outbound", "the host's network", ip("remote", "*", "*")),
        }
        // Never a local end on outbound: a socket without an address counts as localhost, and everything would pass.
        match &self.listen {
            Listen::None => {}
            Listen::Loopback(ports) => {
                for port in ports {
                    allow("network-bind", "published ports", ip("local", "localhost", &port.to_string()));
                }
                for port in ports {
                    allow("network-inbound", "published ports", ip("local", "localhost", &port.to_string()));
                }
            }
            Listen::AnyLoopback => {
                allow("network-bind", "local binding", ip("local", "localhost", "*"));
                allow("network-inbound", "local binding", ip("local", "localhost", "*"));
                allow(
                    "network-outbound",
                    "servers of its own, and the host's",
                    ip("remote", "localhost", "*"),
                );
            }
            Listen::Host => {
                allow("network-bind", "the host's network", ip("local", "*", "*"));
                allow("network-inbound", "the host's network", ip("local", "*", "*"));
            }
        }
    }
}

/// Unix sockets, by path. Rules on files say nothing about them.
pub(super) fn write_sockets(writer: &mut Writer, resolved: &Resolved) -> Result<(), ProfileError> {
    const BOTH: &str = "network-outbound network-bind";
    let filter = |path: &Path, rule: &str| {
        let text = vec![format!("(subpath {})", quoted(path_text(path, rule)?))];
        Ok::<_, ProfileError>(Filters { reason: rule.to_owned(), text })
    };
    if resolved.sockets == Sockets::None {
        return Ok(());
    }
    writer.section("unix sockets");
    let domain = vec!["(socket-domain AF_UNIX)".to_owned()];
    let reason = "to make one".to_owned();
    writer.rule(Decision::Allow, "system-socket", Filters { reason, text: domain });
    match &resolved.sockets {
        Sockets::None => {}
        Sockets::Listed(listed) => {
            for SocketPath { path, rule } in listed {
                let text = vec![format!("(literal {})", quoted(path_text(path, rule)?))];
                writer.rule(Decision::Allow, "network-outbound", Filters { reason: rule.clone(), text });
            }
        }
        Sockets::All => {
            if resolved.reads == ReadModel::Open {
                let all = Filters {
                    reason: "all unix sockets".to_owned(),
                    text: vec!["(subpath \"/\")".to_owned()],
                };
                writer.rule(Decision::Allow, "network-outbound", all);
            }
            for point in &resolved.points {
                let filters = || filter(&point.path, &point.reason);
                match point.access {
                    Access::None => writer.rule(Decision::Deny, BOTH, filters()?),
                    Access::Read => {
                        writer.rule(Decision::Allow, "network-outbound", filters()?);
                        writer.rule(Decision::Deny, "network-bind", filters()?);
                    }
                    Access::Write => writer.rule(Decision::Allow, BOTH, filters()?),
                }
            }
        }
    }
    // Nothing of the host's listens in a folder that was made for this command.
    if let Some(tmp) = &resolved.tmp {
        writer.rule(Decision::Allow, BOTH, filter(tmp, "sockets of its own")?);
    }
    Ok(())
}
