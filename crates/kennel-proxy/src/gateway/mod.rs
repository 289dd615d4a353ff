//! The model gateway: clients inside talk to an address of the sandbox's own, with a token that is worth nothing elsewhere, and
//! the gate talks to the provider with the real key.
//!
//! Each provider has a listener of its own inside, for plain HTTP. A request is let through when it shows the token, asks for
//! something that the gateway knows and a model that the policy allows, and while there is budget
//! ([`budget`]). What the provider says of tokens is read from its answer as it passes.

mod api;
pub(crate) mod array_stream;
pub mod budget;
pub mod json;
pub(crate) mod log;
pub mod paths;
pub mod provider;
pub(crate) mod refusal;
pub mod request;
pub mod stream_usage;
pub mod token;
pub mod usage;

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use kennel_policy::domain::Host;
use kennel_policy::gateway::Budget;
use kennel_policy::outcome::GatewayUse;
use kennel_policy::secrets::SwapIn;
use tokio::sync::Semaphore;

use budget::Counters;
pub use budget::Prices;
use log::Log;
pub use provider::{GatewayError, Provider, Upstream};

use crate::inspect::{Roots, Verifier};
use crate::route::Target;
use crate::secrets::{Redaction, Swap};

/// The largest body that is read. Anthropic takes 32 MB, Google 20 MB.
pub(crate) const MAX_BODY: u64 = 64 << 20;
/// The most memory, in KiB, that bodies take together; requests beyond that wait for each other.
pub(crate) const MAX_BODIES: u64 = 256 << 10;

/// How a gateway is set up.
pub struct GatewaySettings {
    /// The providers. The role of a listener names one by its number here.
    pub providers: Vec<Provider>,
    /// Whom the gate trusts when it talks to them.
    pub roots: Arc<Roots>,
    /// What all of them together may use.
    pub budget: Budget,
    /// What tokens cost.
    pub prices: Prices,
    /// Where requests are logged, one line of JSON each; each line is one write.
    pub log: Option<Box<dyn Write + Send>>,
    /// Whether the log holds what was said.
    pub log_contents: bool,
}

impl GatewaySettings {
    /// These providers, without a limit and without a log.
    #[must_use]
    pub fn new(providers: Vec<Provider>, roots: Arc<Roots>) -> GatewaySettings {
        let (budget, prices) = (Budget::default(), Prices::default());
        GatewaySettings { providers, roots, budget, prices, log: None, log_contents: false }
    }
}

impl fmt::Debug for GatewaySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewaySettings").field("providers", &self.providers).finish_non_exhaustive()
    }
}

/// The model gateway of one sandbox. What it counts can be read while it is used, by any thread.
///
/// ```
/// use kennel_policy::gateway::Api;
/// use kennel_proxy::Roots;
/// use kennel_proxy::gateway::{Gateway, GatewaySettings, Provider, Upstream};
/// use kennel_proxy::secrets::SecretValue;
///
/// let provider = Provider {
///     name: "anthropic".into(),
///     api: Api::Anthropic,
///     token: "sk-ant-only-worth-something-inside".into(),
///     key: Some(SecretValue::from_bytes(b"sk-ant-real".to_vec())?),
///     upstream: Upstream::parse("https://api.anthropic.com")?,
///     models: vec!["claude-haiku-*".into()],
///     members: Vec::new(),
///     budget: Default::default(),
/// };
/// let roots = Roots::load(&[], std::iter::empty())?;
/// let gateway = Gateway::new(GatewaySettings::new(vec![provider], roots.into()))?;
/// assert_eq!(gateway.used().total.requests, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gateway {
    pub(crate) providers: Vec<Provider>,
    pub(crate) verifier: Verifier,
    /// Each provider's key, to be replaced by its token in what it answers.
    pub(crate) redactions: Vec<Redaction>,
    pub(crate) counters: Mutex<Counters>,
    pub(crate) log: Log,
    /// Ports inside, each with the number of its provider.
    ports: Mutex<Vec<(u16, usize)>>,
    /// In KiB.
    pub(crate) memory: Semaphore,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("providers", &self.providers).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway that has counted nothing.
    ///
    /// # Errors
    /// When a token is empty, or a key cannot be sent in a header field, or the system has no memory.
    pub fn new(settings: GatewaySettings) -> Result<Gateway, GatewayError> {
        let GatewaySettings { providers, roots, budget, prices, log, log_contents } = settings;
        for provider in &providers {
            provider.check()?;
        }
        let redactions = providers.iter().map(redaction).collect::<Result<_, _>>()?;
        let budgets = providers.iter().map(|provider| provider.budget).collect();
        Ok(Gateway {
            redactions,
            verifier: Verifier::new(roots),
            counters: Mutex::new(Counters::new(budget, budgets, prices)),
            log: Log::new(log, log_contents),
            ports: Mutex::default(),
            memory: Semaphore::new(MAX_BODIES as usize),
            providers,
        })
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        number < self.providers.len()
    }

    /// A provider is found at this port inside.
    pub(crate) fn listens(&self, port: u16, number: usize) {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).push((port, number));
    }

    /// The provider that a client of the proxy door means: some send requests for the loopback there as well.
    pub(crate) fn provider_at(&self, target: &Target) -> Option<usize> {
        let is_inside = match &target.host {
            Host::Ip(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        };
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().find(|(port, _)| is_inside && *port == target.port).map(|(_, number)| *number)
    }

    /// What was used so far.
    #[must_use]
    pub fn used(&self) -> GatewayUse {
        let names: Vec<&str> = self.providers.iter().map(|provider| provider.name.as_str()).collect();
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).used(&names)
    }
}

fn redaction(provider: &Provider) -> Result<Redaction, GatewayError> {
    let swap = |value| Swap {
        name: provider.name.clone(),
        stand_in: provider.token.clone(),
        value,
        hosts: Vec::new(),
        swap_in: SwapIn::default(),
    };
    let swaps: Vec<Swap> = provider.key.clone().map(swap).into_iter().collect();
    Redaction::new(&swaps).map_err(|error| GatewayError::Memory(error.to_string()))
}
