//! The model gateway: clients inside talk to an address of the sandbox's own, with a token that is worth nothing elsewhere, and
//! the gate talks to the provider with the real key.
//!
//! Each provider has a listener of its own inside, for plain HTTP. A request is let through when it shows the token, asks for
//! something that the gateway knows and a model that the policy allows, and while there is budget
//! ([`budget`]). What the provider says of tokens is read from its answer as it passes.

pub mod budget;
pub mod json;
mod key;
pub mod provider;
pub mod usage;

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use kennel_policy::gateway::Budget;
use kennel_policy::outcome::GatewayUse;

use budget::Counters;
pub use budget::Prices;
pub use provider::{GatewayError, Provider, SecretValue, Upstream};

/// How a gateway is set up.
#[derive(Default)]
pub struct GatewaySettings {
    /// The providers. A listener of [`crate::GateSockets::gateway`] names one by its number here.
    pub providers: Vec<Provider>,
    /// What all of them together may use.
    pub budget: Budget,
    /// What tokens cost.
    pub prices: Prices,
    /// Where requests are logged, one line of JSON each; each line is one write.
    pub log: Option<Box<dyn Write + Send>>,
    /// Whether the log holds what was said.
    pub log_contents: bool,
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
/// use kennel_proxy::gateway::{Gateway, GatewaySettings, Provider, SecretValue, Upstream};
///
/// let provider = Provider {
///     name: "anthropic".into(),
///     api: Api::Anthropic,
///     token: "sk-ant-only-worth-something-inside".into(),
///     key: Some(SecretValue::from_bytes(b"sk-ant-real".to_vec())),
///     upstream: Upstream::parse("https://api.anthropic.com")?,
///     models: vec!["claude-haiku-*".into()],
///     budget: Default::default(),
/// };
/// let gateway = Gateway::new(GatewaySettings { providers: vec![provider], ..Default::default() })?;
/// assert_eq!(gateway.used().total.requests, 0);
/// # Ok::<(), kennel_proxy::gateway::GatewayError>(())
/// ```
pub struct Gateway {
    providers: Vec<Provider>,
    counters: Mutex<Counters>,
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
    /// When a token is empty, or a key cannot be sent in a header field.
    pub fn new(settings: GatewaySettings) -> Result<Gateway, GatewayError> {
        let GatewaySettings { providers, budget, prices, log: _, log_contents: _ } = settings;
        for provider in &providers {
            provider.check()?;
        }
        let budgets = providers.iter().map(|provider| provider.budget).collect();
        let counters = Mutex::new(Counters::new(budget, budgets, prices));
        Ok(Gateway { providers, counters })
    }

    /// What was used so far.
    #[must_use]
    pub fn used(&self) -> GatewayUse {
        let names: Vec<&str> = self.providers.iter().map(|provider| provider.name.as_str()).collect();
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).used(&names)
    }
}
