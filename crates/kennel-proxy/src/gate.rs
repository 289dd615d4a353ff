//! The gate: every door brings its connections here, and here they are decided, recorded and given a way out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use kennel_policy::domain::{Host, HostRule};
use kennel_policy::outcome::TrafficUse;
use kennel_policy::printed::Ascii;
use kennel_policy::traffic::TrafficLimit;

use crate::ask::{Ask, AskResult, Asker};
use crate::auth::Credentials;
use crate::client;
#[cfg(unix)]
use crate::gateway::Gateway;
#[cfg(unix)]
use crate::inspect::Inspector;
use crate::meter::{Meter, TrafficCounter};
use crate::parent::{ParentProxies, ParentProxy};
use crate::record::{self, Door, Ledger, Record, Verdict};
use crate::resolver::{ResolveError, Resolver, ResolverSettings};
use crate::route::{Exit, Hop, Route, Target};
use crate::rules::{self, Decision, DenyReason, HOST_ALIAS, Rules};
use crate::sockets;
use crate::synthetic::{Pair, SyntheticNames};
use crate::times::Times;

/// How a gate is set up; what cannot change while it is open.
#[derive(Clone)]
pub struct Settings {
    /// What a client of the proxy door has to show; `None` lets everyone in.
    pub credentials: Option<Credentials>,
    /// Who is asked about hosts that no rule speaks of.
    pub ask: Option<Ask>,
    /// Where names are looked up.
    pub resolver: ResolverSettings,
    /// Proxies between this host and the world.
    pub parents: ParentProxies,
    /// Proxies of somebody else's that serve the clients of the proxy door.
    pub external: External,
    /// The sandbox's own host name, which is its loopback inside: many programs look themselves up.
    pub own_name: Option<String>,
    /// Whether look-ups from inside also get an IPv6 address.
    pub ipv6: bool,
    /// The most connections at a time; more wait in the listeners' queues.
    pub most_connections: usize,
    /// How long anything may take.
    pub times: Times,
    /// How many bytes may leave and come in.
    pub budget: Vec<TrafficLimit>,
    /// What is read of requests; `None` for no more than is needed to know the host.
    #[cfg(unix)]
    pub inspect: Option<Arc<Inspector>>,
    /// The model gateway.
    #[cfg(unix)]
    pub gateway: Option<Arc<Gateway>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            credentials: None,
            ask: None,
            resolver: ResolverSettings::default(),
            parents: ParentProxies::default(),
            external: External::default(),
            own_name: None,
            ipv6: true,
            most_connections: 2048,
            times: Times::default(),
            budget: Vec::new(),
            #[cfg(unix)]
            inspect: None,
            #[cfg(unix)]
            gateway: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("most_connections", &self.most_connections).finish_non_exhaustive()
    }
}

/// Ports of this host's loopback where proxies of somebody else's listen. Who comes to the proxy door and speaks their
/// protocol is handed to them as it is, and they decide by their own rules. Nothing gets past them: what the gate itself lets
/// through, by another door or in the other protocol, leaves by one of them as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct External {
    /// An HTTP proxy.
    pub http: Option<u16>,
    /// A SOCKS proxy.
    pub socks: Option<u16>,
}

/// The network gate of one sandbox. Clones are the same gate.
///
/// ```
/// use kennel_policy::domain::{Host, HostRule, ListKind};
/// use kennel_proxy::{Decision, Gate, Rules, Settings};
///
/// let allow = vec![HostRule::parse("*.example.com:443", ListKind::Allow)?];
/// let gate = Gate::new(Rules::new(allow, vec![]), Settings::default());
/// assert!(matches!(gate.decide(&Host::parse("API.example.com.")?, 443), Decision::Allow { .. }));
/// assert!(matches!(gate.decide(&Host::parse("example.com")?, 443), Decision::Deny { .. }));
///
/// gate.update(Rules::default());
/// assert!(matches!(gate.decide(&Host::parse("api.example.com")?, 443), Decision::Deny { .. }));
/// # Ok::<(), kennel_policy::domain::HostRuleError>(())
/// ```
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    settings: Settings,
    rules: RwLock<Arc<Rules>>,
    ledger: Mutex<Ledger>,
    traffic: Option<Arc<TrafficCounter>>,
    names: Mutex<SyntheticNames>,
    resolver: Resolver,
    asker: Option<Asker>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// Why a connection was not let through.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) target: String,
    pub(crate) reason: DenyReason,
    pub(crate) rule: Option<Arc<HostRule>>,
}

impl Denial {
    /// The refusal of what passes this limit of the budget.
    pub(crate) fn over_budget(target: impl fmt::Display, limit: &str) -> Denial {
        Denial { target: target.to_string(), reason: DenyReason::Budget(limit.to_owned()), rule: None }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Ascii(&self.target), self.reason)?;
        match &self.rule {
            Some(rule) => write!(f, " (rule {rule})"),
            None => Ok(()),
        }
    }
}

/// Why there is no way out.
#[derive(Debug)]
pub(crate) enum Refusal {
    Denied(Denial),
    Unresolved(ResolveError),
}

impl Gate {
    /// A gate with these rules. Nothing runs and no descriptor is opened before [`Gate::open`].
    #[must_use]
    pub fn new(rules: Rules, settings: Settings) -> Self {
        let asker = settings.ask.clone().map(Asker::new);
        Gate(Arc::new(Inner {
            rules: RwLock::new(Arc::new(with_asked_of(rules, &settings))),
            ledger: Mutex::default(),
            traffic: TrafficCounter::new(&settings.budget).map(Arc::new),
            names: Mutex::default(),
            resolver: Resolver::new(settings.resolver.clone()),
            asker,
            settings,
        }))
    }

    /// What the rules say about a host and port. Nothing is recorded and nobody is asked.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        self.rules().decide(host, port)
    }

    /// Puts other rules in place. They hold for the next connection, and for the next request of a connection that
    /// carries several; what has been let through goes on. Answers that were given when asked are forgotten.
    pub fn update(&self, rules: Rules) {
        let rules = with_asked_of(rules, &self.0.settings);
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        if let Some(asker) = &self.0.asker {
            asker.forget();
        }
    }

    /// The same with other lists only.
    pub fn update_lists(&self, allow: Vec<HostRule>, deny: Vec<HostRule>) {
        let Rules { allow, deny, .. } = Rules::new(allow, deny);
        self.update(Rules { allow, deny, ..Rules::clone(&self.rules()) });
    }

    /// Every decision so far, in the order in which they were first made.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        lock(&self.0.ledger).records()
    }

    /// How many decisions there were beyond those that are kept one by one.
    #[must_use]
    pub fn dropped_records(&self) -> u64 {
        lock(&self.0.ledger).dropped_records()
    }

    /// What was blocked so far, for the user's terminal; empty when nothing was.
    #[must_use]
    pub fn summary(&self) -> String {
        self.summary_advising(record::BY_SETTING)
    }

    /// The same for somebody who allows hosts in another way than by the settings.
    #[must_use]
    pub fn summary_advising(&self, advice: &str) -> String {
        let ledger = lock(&self.0.ledger);
        record::summary(&ledger.records(), ledger.dropped_records(), advice)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn note(
        &self,
        host: &str,
        port: Option<u16>,
        door: Door,
        verdict: Verdict,
        rule: Option<&HostRule>,
    ) {
        let rule = rule.map(ToString::to_string);
        let refused = verdict != Verdict::Allowed;
        let record = Record { host: host.to_owned(), port, door, verdict, rule, count: 0, program: None };
        let place = lock(&self.0.ledger).note(record);
        if let (Some(place), true) = (place, refused) {
            let program = client::program();
            lock(&self.0.ledger).attribute(place, program);
        }
    }

    /// Records a refusal and hands it back, for a door to tell its client.
    pub(crate) fn deny(
        &self,
        target: &Target,
        door: Door,
        reason: DenyReason,
        rule: Option<Arc<HostRule>>,
    ) -> Denial {
        let reason = reason.cut();
        let verdict = Verdict::Denied(reason.clone());
        self.note(&target.host.to_string(), Some(target.port), door, verdict, rule.as_deref());
        Denial { target: target.to_string(), reason, rule }
    }

    /// Records a text that was given as a host and is none.
    pub(crate) fn deny_text(&self, host: &str, port: u16, door: Door, why: impl fmt::Display) -> Denial {
        let reason = DenyReason::Malformed(why.to_string()).cut();
        // Not as it came: whoever reads the report may show it on a terminal.
        let host = rules::cut(&Ascii(&rules::cut(host)).to_string());
        self.note(&host, Some(port), door, Verdict::Denied(reason.clone()), None);
        Denial { target: format!("{host}:{port}"), reason, rule: None }
    }

    /// Decides about a connection, asking if need be; then resolves and checks. Every connection that leaves the
    /// host came through here.
    pub(crate) async fn admit(&self, target: &Target, door: Door, exit: Exit) -> Result<Route, Refusal> {
        let rules = self.rules();
        let Target { host, port } = target;
        let deny = |reason, rule| Refusal::Denied(self.deny(target, door, reason, rule));
        let mut public = false;
        let (rule, asked) = match rules.decide(host, *port) {
            Decision::Allow { rule } => (Some(rule), false),
            Decision::Public => {
                public = true;
                (None, false)
            }
            Decision::Deny { reason, rule } => return Err(deny(reason, rule)),
            Decision::Ask => match self.ask(target, door).await {
                Ok(()) => (None, true),
                Err(reason) => return Err(deny(reason, None)),
            },
        };
        let allowed = || self.note(&host.to_string(), Some(*port), door, Verdict::Allowed, rule.as_deref());
        if let Some(limit) = self.spent(host) {
            return Err(deny(DenyReason::Budget(limit), None));
        }
        let meter = self.meter(target, door);
        let (external, parent) = (self.external(exit), self.parent(target, exit));
        if external.is_some() || parent.is_some() {
            if public {
                // A policy with both does not start. A proxy would look the name up by itself.
                return Err(deny(DenyReason::NotListed, None));
            }
            // Only an address that was given as such can be checked; names are the parent's to look up.
            if let (Host::Ip(address), false) = (host, asked)
                && let Err(reason) = rules.check_address(*address, *port, sockets::is_own_address)
            {
                return Err(deny(reason, rule));
            }
            allowed();
            if let Some(hop) = external {
                return Ok(Route { hop, meter });
            }
        }
        if let Some(parent) = parent {
            // Not a name that anybody inside chose.
            let addresses = self.addresses(&parent.host, parent.port, None).await;
            let hop = Hop::Parent(parent, addresses.map_err(Refusal::Unresolved)?);
            return Ok(Route { hop, meter });
        }
        let addresses = match self.addresses(host, *port, meter.as_ref()).await {
            Ok(addresses) => addresses,
            Err(ResolveError::Spent(limit)) => return Err(deny(DenyReason::Budget(limit), None)),
            Err(error) => {
                allowed();
                return Err(Refusal::Unresolved(error));
            }
        };
        if Self::leads_to_this_host_by_name(host) || asked && matches!(host, Host::Ip(_)) {
            allowed();
            return Ok(Route { hop: Hop::Direct(addresses), meter });
        }
        let mut refused = None;
        let mut checked = Vec::with_capacity(addresses.len());
        for address in addresses {
            let checking = match public {
                true => rules.check_public_address(address.ip(), *port, sockets::is_own_address),
                false => rules.check_address(address.ip(), *port, sockets::is_own_address),
            };
            match checking {
                Ok(()) => checked.push(address),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        match refused {
            Some(reason) if checked.is_empty() => Err(deny(reason, rule)),
            _ => {
                allowed();
                Ok(Route { hop: Hop::Direct(checked), meter })
            }
        }
    }

    /// The way to a server that the policy itself names: no rule about hosts is asked, because nothing inside chose it.
    #[cfg(unix)]
    pub(crate) async fn route_to(&self, target: &Target, exit: Exit) -> Result<Route, ResolveError> {
        let Target { host, port } = target;
        self.note(&host.to_string(), Some(*port), Door::Gateway, Verdict::Allowed, None);
        let meter = self.meter(target, Door::Gateway);
        if let Some(hop) = self.external(exit) {
            return Ok(Route { hop, meter });
        }
        let is_here = matches!(host, Host::Ip(address) if address.is_loopback());
        match self.parent(target, exit).filter(|_| !is_here) {
            Some(parent) => {
                let addresses = self.addresses(&parent.host, parent.port, None).await?;
                Ok(Route { hop: Hop::Parent(parent, addresses), meter })
            }
            None => {
                let hop = Hop::Direct(self.addresses(host, *port, meter.as_ref()).await?);
                Ok(Route { hop, meter })
            }
        }
    }

    /// Names that *mean* the host's loopback: who allows one of them wants just that.
    fn leads_to_this_host_by_name(host: &Host) -> bool {
        matches!(host, Host::Name(name) if rules::is_this_host(name))
    }

    async fn ask(&self, target: &Target, door: Door) -> Result<(), DenyReason> {
        let Some(asker) = &self.0.asker else { return Err(DenyReason::NotListed) };
        match asker.ask(target, door, self.0.settings.times.ask).await {
            AskResult::Allowed => Ok(()),
            AskResult::Denied => Err(DenyReason::Refused),
            AskResult::NoAnswer => Err(DenyReason::NoAnswer),
            AskResult::NotAsked => Err(DenyReason::NotListed),
        }
    }

    /// The way out by somebody else's proxy. It was named to be the only one, so no host is an exception.
    fn external(&self, exit: Exit) -> Option<Hop> {
        let External { http, socks } = self.0.settings.external;
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // Who sends a plain request was handed to the HTTP proxy already, where there is one.
        match (http.filter(|_| exit == Exit::Tunnel), socks) {
            (Some(port), _) => {
                let host = Host::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
                Some(Hop::Parent(ParentProxy { host, port, credentials: None }, vec![at(port)]))
            }
            (None, Some(port)) => Some(Hop::Socks(at(port))),
            (None, None) => None,
        }
    }

    fn parent(&self, target: &Target, exit: Exit) -> Option<ParentProxy> {
        let parents = &self.0.settings.parents;
        let parent = match exit {
            Exit::Request => parents.http.as_ref(),
            Exit::Tunnel => parents.https.as_ref(),
        }?;
        let stays = Self::leads_to_this_host_by_name(&target.host)
            || parents.bypass.covers(&target.host, target.port);
        (!stays).then(|| parent.clone())
    }

    /// What counts a connection to `target`; `None` without a budget.
    pub(crate) fn meter(&self, target: &Target, door: Door) -> Option<Meter> {
        let counter = self.0.traffic.as_ref()?;
        let (gate, to) = (self.clone(), target.clone());
        let ending = move |limit: &str| {
            gate.deny(&to, door, DenyReason::Budget(limit.to_owned()), None);
        };
        Some(Meter::new(counter, &target.host, Box::new(ending)))
    }

    /// What counts a connection of somebody on this host's loopback.
    pub(crate) fn loopback_meter(&self, port: u16, door: Door) -> Option<Meter> {
        let host = Host::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
        self.meter(&Target { host, port }, door)
    }

    /// How many bytes left and came in so far; `None` without a budget.
    #[must_use]
    pub fn traffic_use(&self) -> Option<TrafficUse> {
        self.0.traffic.as_ref().map(|counter| counter.used())
    }

    /// The limit that nothing more can be sent to a host for, or come from it.
    pub(crate) fn spent(&self, host: &Host) -> Option<String> {
        self.0.traffic.as_ref()?.spent(host)
    }

    /// The refusal of a connection or a request to a host of which the budget is used up.
    #[cfg(unix)]
    pub(crate) fn over_budget(&self, target: &Target, door: Door) -> Option<Denial> {
        let limit = self.spent(&target.host)?;
        Some(self.deny(target, door, DenyReason::Budget(limit), None))
    }

    async fn addresses(
        &self,
        host: &Host,
        port: u16,
        meter: Option<&Meter>,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let addresses = match host {
            Host::Ip(address) => vec![*address],
            Host::Name(name) if name == HOST_ALIAS => {
                vec![Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()]
            }
            Host::Name(name) => self.0.resolver.resolve(name, meter).await?,
        };
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// The synthetic addresses of a name.
    pub(crate) fn synthetic(&self, name: &str) -> Pair {
        lock(&self.0.names).addresses(name)
    }

    /// The name that a synthetic address stands for, where it is one: a client that looks names up itself and then
    /// gives the proxy an address means the name.
    pub(crate) fn by_name(&self, host: Host) -> Host {
        match host {
            Host::Ip(address) => match self.behind(address) {
                Some(Some(name)) => Host::Name(name),
                _ => host,
            },
            Host::Name(_) => host,
        }
    }

    /// What a synthetic address stands for: `None` when it is no such address.
    pub(crate) fn behind(&self, address: IpAddr) -> Option<Option<String>> {
        lock(&self.0.names).name(address).map(|name| name.map(str::to_owned))
    }
}

/// The rules, with the hosts that rules about requests name: they can be reached, because what is asked of them is compared. Where
/// nobody reads requests, such hosts stay closed.
#[cfg(unix)]
fn with_asked_of(mut rules: Rules, settings: &Settings) -> Rules {
    for rule in settings.inspect.iter().flat_map(|inspector| &inspector.http) {
        if !rules.allow.iter().any(|allowed| **allowed == rule.host) {
            rules.allow.push(Arc::new(rule.host.clone()));
        }
    }
    rules
}

#[cfg(not(unix))]
fn with_asked_of(rules: Rules, _: &Settings) -> Rules {
    rules
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves these tables whole: each change is one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
