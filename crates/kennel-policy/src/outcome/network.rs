//! What was decided about the network, as the caller is told.

/// All that the network gate decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NetworkUse {
    /// Every decision, up to 512 that let something through and 512 that did not.
    pub decisions: Vec<NetworkDecision>,
    /// How many there were beyond those.
    pub more: u64,
    /// What was blocked, for a person; empty when nothing was.
    pub blocked: String,
    /// How many bytes left and came in, where there was a budget for them.
    pub traffic: Option<TrafficUse>,
}

/// How many bytes left a sandbox and came into it: those that the gate wrote to and read from connections that lead away, with
/// all that TLS adds to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TrafficUse {
    /// Bytes that left.
    pub egress: u64,
    /// Bytes that came in.
    pub ingress: u64,
    /// By host, up to 512 of them.
    pub hosts: Vec<HostTraffic>,
    /// Hosts beyond those, together.
    pub other_hosts: HostTraffic,
    /// By limit; those for each second have no use.
    pub limits: Vec<LimitUse>,
}

/// How many bytes went to a host and came from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HostTraffic {
    /// The host, as it was connected to; empty for several together.
    pub host: String,
    /// Bytes that went there.
    pub egress: u64,
    /// Bytes that came from there.
    pub ingress: u64,
}

/// How much of a limit was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LimitUse {
    /// The limit, as it is set: `egress github.com=5M`.
    pub limit: String,
    /// Bytes.
    pub used: u64,
}

/// What was decided about a host, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NetworkDecision {
    /// The host, as it was asked for.
    pub host: String,
    /// The port; `None` for a look-up.
    pub port: Option<u16>,
    /// By which door it came: `http`, `connect`, `socks`, `direct`, `dns`, `gateway`.
    pub door: String,
    /// Whether it was let through.
    pub allowed: bool,
    /// Why not; empty when it was.
    pub reason: String,
    /// The rule that decided, in its own grammar.
    pub rule: Option<String>,
    /// How often.
    pub count: u64,
    /// The program that was the first to be refused, where that is known. Those that were let through are not looked for.
    pub program: Option<Program>,
}

/// A program inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Program {
    /// What it is called, by itself: not a path, and not to be relied on.
    pub name: String,
    /// Its number in the sandbox.
    pub pid: i32,
}

impl NetworkDecision {
    /// Something that was let through to `host`, once.
    #[must_use]
    pub fn new(host: String, port: Option<u16>, door: String) -> NetworkDecision {
        NetworkDecision {
            host,
            port,
            door,
            allowed: true,
            reason: String::new(),
            rule: None,
            count: 1,
            program: None,
        }
    }
}
