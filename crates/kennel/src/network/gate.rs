//! The gate on this side, and what it needs inside.
//!
//! This is where the two crates that know nothing of each other meet: kennel-linux makes sockets inside the sandbox's
//! network namespace and hands them out, kennel-proxy serves them.

mod inside;

pub(crate) use inside::gateway_port;

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kennel_linux::holder::{Holder, holder};
use kennel_linux::network::{NetworkPlan, SocketRole, TaggedSockets};
use kennel_linux::sandbox::Network;
use kennel_policy::outcome::{GatewayUse, NetworkUse, Program};
use kennel_policy::policy::{Policy, Relay};
use kennel_proxy::gateway::Gateway;
use kennel_proxy::{Gate, GateSockets, Inspector, OpenGate, Transport, Who};

use super::rules::{self, GateHandle, NetworkError, Recipe};
use super::{Published, publish};
use crate::control::{AskAboutHosts, ControlLines, NetworkControl};
use crate::network::{GatewayMeter, TrafficMeter};

/// The most providers of a model gateway.
const MAX_PROVIDERS: u16 = 1024;

/// The doors of a sandbox's network, before there is a gate behind them: a sandbox is begun with them.
#[derive(Debug)]
pub(crate) struct Doors {
    /// `None` for a plan.
    recipe: Option<Recipe>,
    plan: NetworkPlan,
    relays: Vec<Relay>,
    listed: bool,
    outside: TaggedSockets,
    shared: TaggedSockets,
    published: Vec<Published>,
}

/// The gate of one sandbox.
#[derive(Debug)]
pub(crate) struct SandboxNetwork {
    gate: Gate,
    /// Ports of this side that are found inside.
    relays: Vec<Relay>,
    /// Whether there are rules about hosts, and not only published ports.
    listed: bool,
    published: Vec<Published>,
    /// The way to models.
    gateway: Option<Arc<Gateway>>,
    open: Option<OpenGate>,
    failure: Option<String>,
}

impl Doors {
    /// Those of a plan: no port is bound for it, so those of this side are not known.
    pub(crate) fn planned<'e>(
        policy: &Policy,
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    ) -> Result<Option<Doors>, NetworkError> {
        let wanted = &policy.network;
        if !policy.needs_gate() {
            return Ok(None);
        }
        rules::parents_for(wanted, environment)?;
        let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        Ok(Some(Doors {
            recipe: None,
            plan: inside::network_plan(wanted, providers(policy), ipv6, "", None),
            relays: Vec::new(),
            listed: false,
            outside: TaggedSockets::new(),
            shared: TaggedSockets::new(),
            published: Vec::new(),
        }))
    }

    /// Those that a policy asks for, if it does. `environment` is the caller's: its own proxy, if it has one, is used to get
    /// out. `ask` is asked about hosts that no rule speaks of.
    pub(crate) fn new<'e>(
        policy: &Policy,
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ask: Option<&AskAboutHosts>,
    ) -> Result<Option<Doors>, NetworkError> {
        let wanted = &policy.network;
        let listed = wanted.mode.is_gated();
        if !policy.needs_gate() {
            return Ok(None);
        }
        let (mut published, mut outside) = (Vec::new(), TaggedSockets::new());
        for port in &wanted.publish {
            let (at, listeners) = publish::bind(port)?;
            published.push(at);
            outside.extend(listeners.into_iter().map(|fd| (SocketRole::Published { inside: at.inside }, fd)));
        }
        // Only where it may be needed: it is a port of the host's that other users can knock at.
        let shared =
            (listed && policy.best_effort).then(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).transpose();
        let shared = shared.map_err(NetworkError::Token)?;
        let on_host = shared.as_ref().and_then(|listener| Some(listener.local_addr().ok()?.port()));
        let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let token = rules::token().map_err(NetworkError::Token)?;
        let plan = inside::network_plan(wanted, providers(policy), ipv6, &token, on_host);
        let recipe = Recipe::of(policy, environment, ask, token, own_name(policy), ipv6)?;
        Ok(Some(Doors {
            recipe: Some(recipe),
            plan,
            relays: wanted.relays.clone(),
            listed,
            outside,
            shared: shared.into_iter().map(|fd| (SocketRole::Proxy, OwnedFd::from(fd))).collect(),
            published,
        }))
    }

    /// Which ports are found where.
    pub(crate) fn published(&self) -> &[Published] {
        &self.published
    }

    /// What a sandbox is begun with: what is made inside, and the listeners of this side, to be watched with those from
    /// inside: the proxy's, for a sandbox without a network of its own, and those of published ports.
    pub(crate) fn take_network(&mut self) -> Network {
        Network {
            plan: std::mem::take(&mut self.plan),
            outside: std::mem::take(&mut self.outside),
            shared: std::mem::take(&mut self.shared),
        }
    }

    /// The gate behind them, with what it reads of requests, and the way to models. A plan has none.
    pub(crate) fn into_gate(
        self,
        inspector: Option<Arc<Inspector>>,
        gateway: Option<Arc<Gateway>>,
    ) -> Option<SandboxNetwork> {
        let Doors { recipe, relays, listed, published, .. } = self;
        let mut recipe = recipe?;
        recipe.read_requests(inspector, gateway.clone());
        let gate = recipe.gate();
        Some(SandboxNetwork { gate, relays, listed, published, gateway, open: None, failure: None })
    }
}

impl SandboxNetwork {
    /// What was used of the way to models so far.
    pub(crate) fn gateway_use(&self) -> GatewayUse {
        self.gateway.as_ref().map(|gateway| gateway.used()).unwrap_or_default()
    }

    /// The same, to be asked at any time.
    pub(crate) fn gateway_meter(&self) -> GatewayMeter {
        match self.gateway.clone() {
            Some(gateway) => Box::new(move || gateway.used()),
            None => Box::new(GatewayUse::default),
        }
    }

    /// What tells how many bytes left and came in; `None` without a budget.
    pub(crate) fn traffic_meter(&self) -> Option<TrafficMeter> {
        self.gate.traffic_use()?;
        let gate = self.gate.clone();
        Some(Box::new(move || gate.traffic_use().unwrap_or_default()))
    }

    /// Starts to read new rules from these lines. They hold for the first client, and whoever sends them hears of mistakes at
    /// once, though the gate itself opens only when somebody wants to get out. Starts a thread, so PID 1 has to be there.
    pub(crate) fn follow(&self, lines: ControlLines) {
        if let Some(control) = self.control() {
            lines.follow(control);
        }
    }

    /// Handle to change the rules; `None` without rules.
    pub(crate) fn control(&self) -> Option<NetworkControl> {
        self.listed.then(|| NetworkControl::new(GateHandle(self.gate.clone())))
    }

    /// Which ports are found where.
    pub(crate) fn published(&self) -> &[Published] {
        &self.published
    }

    /// Starts to serve the sandbox whose PID 1 is `init` out here.
    /// `alone` says that this process has no other gate, and needs few descriptors itself.
    pub(crate) fn open(&mut self, sockets: TaggedSockets, init: i32, alone: bool) {
        let who = Who::new(move |transport, address| {
            let protocol = match transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
            };
            let Holder { name, pid } = holder(init, protocol, address)?;
            Some(Program { name, pid })
        });
        let greetings = self.relays.iter().map(|relay| (relay.port, relay.greeting.expose().to_vec()));
        let sockets = GateSockets { sockets, greetings: greetings.collect(), who: Some(who), alone };
        let opened = match alone {
            true => self.gate.open(sockets),
            // The caller may be in a runtime of its own, in which the gate's could not be given up if something fails.
            false => std::thread::scope(|scope| {
                let opening = scope.spawn(|| self.gate.open(sockets));
                opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
        };
        match opened {
            Ok(open) => self.open = Some(open),
            // The doors are shut: nothing gets out, and the end of the run says why.
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Ends all that is under way, and counts it: the last word about what was used comes after this.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Every decision, in the order in which they were first made, and what was blocked, for a person.
    pub(crate) fn used(&self, advice: &str) -> NetworkUse {
        rules::used(&self.gate, self.failure.as_deref(), advice)
    }
}

/// How many providers the way to models leads to. More than a policy has, and than there are ports for.
fn providers(policy: &Policy) -> u16 {
    u16::try_from(policy.gateway.providers.len()).unwrap_or(u16::MAX).min(MAX_PROVIDERS)
}

/// What the inside takes itself for.
fn own_name(policy: &Policy) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    policy.process.hostname.clone().unwrap_or_else(host)
}
