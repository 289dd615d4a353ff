//! Which addresses a profile opens.
//!
//! Seatbelt knows two hosts, `localhost` and `*`, and there is no loopback of a sandbox's own: a command without a network
//! cannot even reach itself, and one with the gate reaches the gate's ports on the host's loopback and nothing else.

use kennel_policy::policy::{NetworkMode, NetworkPolicy};

use super::ProfileError;

/// What the network of a sandbox is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Where connections may lead.
    pub outbound: Outbound,
    /// Where servers may listen.
    pub listen: Listen,
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
        let outbound = match policy.mode {
            NetworkMode::None => Outbound::None,
            NetworkMode::AllowList => Outbound::Loopback(gate.to_vec()),
            NetworkMode::Host => Outbound::Host,
        };
        Ok(Network { outbound, listen: Listen::None })
    }
}
