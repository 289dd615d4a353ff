//! A filtered network: the gate on this side, and what it needs inside.
//!
//! This is where the two crates that know nothing of each other meet: kennel-linux makes sockets inside the sandbox's
//! network namespace and hands them out, kennel-proxy serves them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use kennel_linux::network::{Doors, Listener, NetlinkBatch, NetworkPlan};
use kennel_policy::policy::{NetworkMode, Policy};
use kennel_proxy::netlink::{DoorPorts, ROUTE, transparent_network};
use kennel_proxy::{
    Bypass, Credentials, Gate, OpenGate, ParentProxies, ParentProxy, Rules, Settings, Unlisted,
};

use crate::control::{AskAboutHosts, ControlLines, NetworkControl};

/// Ports inside. The namespace is the sandbox's own, so these are free.
const PROXY: u16 = 3128;
const TRANSPARENT: u16 = 3129;
const DNS: u16 = 53;

/// How a socket that comes from inside is known.
const TAG_PROXY: u32 = 1;
const TAG_TRANSPARENT: u32 = 2;
const TAG_DNS_UDP: u32 = 3;
const TAG_DNS_TCP: u32 = 4;

/// What was decided about a host, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDecision {
    /// The host, as it was asked for.
    pub host: String,
    /// The port; `None` for a look-up.
    pub port: Option<u16>,
    /// By which door it came: `http`, `socks`, `transparent`, `dns`.
    pub door: String,
    /// Whether it was let through.
    pub allowed: bool,
    /// Why not; empty when it was.
    pub reason: String,
    /// The rule that decided, in its own grammar.
    pub rule: Option<String>,
    /// How often.
    pub count: u64,
}

/// The gate of one sandbox.
#[derive(Debug)]
pub(crate) struct Filtered {
    gate: Gate,
    plan: NetworkPlan,
    open: Option<OpenGate>,
    control: Option<ControlLines>,
    failure: Option<String>,
}

impl Filtered {
    /// The gate that a policy asks for, if it does. `environment` is the caller's: its own proxy, if it has one,
    /// is used to get out. `ask` is asked about hosts that no rule speaks of.
    pub(crate) fn new<'e>(
        policy: &Policy,
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ask: Option<&AskAboutHosts>,
    ) -> std::io::Result<Option<Filtered>> {
        if policy.network.mode != NetworkMode::Whitelist {
            return Ok(None);
        }
        let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let token = token()?;
        let plan = network_plan(policy, ipv6, &token);
        let settings = Settings {
            credentials: Some(Credentials { user: "kennel".into(), password: token }),
            parents: parents(environment),
            ask: ask.map(AskAboutHosts::for_gate),
            ipv6,
            ..Settings::default()
        };
        let mut rules = Rules::new(policy.network.allow.clone(), policy.network.deny.clone());
        if ask.is_some() {
            rules.unlisted = Unlisted::Ask;
        }
        Ok(Some(Filtered {
            gate: Gate::new(rules, settings),
            plan,
            open: None,
            control: None,
            failure: None,
        }))
    }

    /// Takes new rules from these lines, from the moment the gate opens.
    pub(crate) fn obey(&mut self, lines: ControlLines) {
        self.control = Some(lines);
    }

    /// A hold on the rules.
    pub(crate) fn control(&self) -> NetworkControl {
        NetworkControl::new(self.gate.clone())
    }

    pub(crate) fn plan(&self) -> &NetworkPlan {
        &self.plan
    }

    /// Starts to serve.
    pub(crate) fn open(&mut self, sockets: Doors) {
        let mut doors = kennel_proxy::Doors::default();
        for (tag, socket) in sockets {
            match tag {
                TAG_PROXY => doors.proxy.push(socket),
                TAG_TRANSPARENT => doors.transparent.push(socket),
                TAG_DNS_UDP => doors.dns_udp.push(socket),
                TAG_DNS_TCP => doors.dns_tcp.push(socket),
                _ => {}
            }
        }
        // Before the first client is served: what was said earlier holds for it.
        if let Some(lines) = self.control.take() {
            lines.follow(self.control());
        }
        match self.gate.open(doors) {
            Ok(open) => self.open = Some(open),
            // The doors are shut: nothing gets out, and the end of the run says why.
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Every decision, in the order in which they were first made.
    pub(crate) fn decisions(&self) -> Vec<NetworkDecision> {
        let decision = |record: kennel_proxy::Record| NetworkDecision {
            host: record.host,
            port: record.port,
            door: record.door.to_string(),
            allowed: record.verdict == kennel_proxy::Verdict::Allowed,
            reason: match record.verdict {
                kennel_proxy::Verdict::Allowed => String::new(),
                kennel_proxy::Verdict::Denied(reason) => reason.to_string(),
            },
            rule: record.rule,
            count: record.count,
        };
        self.gate.records().into_iter().map(decision).collect()
    }

    /// What was blocked, for a person; empty when nothing was.
    pub(crate) fn summary(&self) -> String {
        match &self.failure {
            Some(failure) => format!("{failure}\n"),
            None => self.gate.summary(),
        }
    }
}

/// The inside: with netfilter, which leads every connection to the gate; and without, for kernels that have none,
/// with listeners on the ports that the rules name.
fn network_plan(policy: &Policy, ipv6: bool, token: &str) -> NetworkPlan {
    let ports = DoorPorts { transparent: TRANSPARENT, dns: DNS, ipv6 };
    let batches: Vec<NetlinkBatch> = transparent_network(&ports)
        .into_iter()
        .map(|batch| NetlinkBatch {
            protocol: batch.protocol.cast_unsigned(),
            messages: batch.bytes,
            acknowledgements: u32::try_from(batch.expected_acks).unwrap_or(1),
        })
        .collect();
    let variables = variables(token);
    let loopbacks = addresses(ipv6, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let mut listeners = vec![
        tcp(TAG_PROXY, Ipv4Addr::LOCALHOST.into(), PROXY),
        Listener { tag: TAG_DNS_UDP, address: (Ipv4Addr::LOCALHOST, DNS).into(), stream: false },
        tcp(TAG_DNS_TCP, Ipv4Addr::LOCALHOST.into(), DNS),
    ];
    let named: BTreeSet<u16> =
        policy.network.allow.iter().filter_map(|rule| rule.port).chain([22, 80, 443]).collect();
    let everywhere = addresses(ipv6, Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let mut chosen = listeners.clone();
    for port in named.into_iter().filter(|port| ![PROXY, DNS].contains(port)) {
        chosen.extend(everywhere.iter().map(|address| tcp(TAG_TRANSPARENT, *address, port)));
    }
    listeners.extend(loopbacks.iter().map(|address| tcp(TAG_TRANSPARENT, *address, TRANSPARENT)));
    let routes = batches.iter().filter(|batch| batch.protocol == ROUTE.cast_unsigned()).cloned().collect();
    let fallback =
        NetworkPlan { batches: routes, listeners: chosen, variables: variables.clone(), fallback: None };
    NetworkPlan { batches, listeners, variables, fallback: Some(Box::new(fallback)) }
}

fn addresses(ipv6: bool, v4: Ipv4Addr, v6: Ipv6Addr) -> Vec<IpAddr> {
    if ipv6 { vec![v4.into(), v6.into()] } else { vec![v4.into()] }
}

fn tcp(tag: u32, address: IpAddr, port: u16) -> Listener {
    Listener { tag, address: SocketAddr::new(address, port), stream: true }
}

/// For programs that do use proxies. The others need none of these.
fn variables(token: &str) -> Vec<(OsString, OsString)> {
    // Python compares `[::1]` as it stands in the address, curl without the brackets.
    const NO_PROXY: &str =
        "localhost,127.0.0.1,::1,[::1],*.local,.local,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";
    let http = format!("http://kennel:{token}@127.0.0.1:{PROXY}");
    let socks = format!("socks5h://kennel:{token}@127.0.0.1:{PROXY}");
    let both = |name: &str, value: &str| {
        [(name.to_owned(), value.to_owned()), (name.to_lowercase(), value.to_owned())]
    };
    let mut list = Vec::new();
    list.extend(both("HTTP_PROXY", &http));
    list.extend(both("HTTPS_PROXY", &http));
    list.extend(both("ALL_PROXY", &socks));
    list.extend(both("GRPC_PROXY", &socks));
    list.extend(both("FTP_PROXY", &socks));
    list.extend(both("NO_PROXY", NO_PROXY));
    list.push(("RSYNC_PROXY".into(), format!("127.0.0.1:{PROXY}")));
    list.push(("DOCKER_HTTP_PROXY".into(), http.clone()));
    list.push(("DOCKER_HTTPS_PROXY".into(), http));
    // git would otherwise first ask without the token, and some servers' answers confuse it.
    list.push(("GIT_CONFIG_PARAMETERS".into(), "'http.proxyAuthMethod=basic'".into()));
    list.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The caller's own proxy, by the usual variables.
fn parents<'e>(environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>) -> ParentProxies {
    let mut parents = ParentProxies::default();
    for (name, value) in environment {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        if value.is_empty() {
            continue;
        }
        match name.to_ascii_lowercase().as_str() {
            "http_proxy" => parents.http = ParentProxy::parse(value).ok().or(parents.http.take()),
            "https_proxy" => parents.https = ParentProxy::parse(value).ok().or(parents.https.take()),
            "no_proxy" => parents.bypass = Bypass::parse(value),
            _ => {}
        }
    }
    parents
}

/// What only programs inside this sandbox know.
fn token() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
