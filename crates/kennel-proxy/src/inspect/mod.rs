//! What the gate reads of requests: HTTP, and TLS for hosts that the policy names. Who serves such requests is in
//! [`crate::services`].

mod authority;
mod own_authority;
mod roots;
mod verifier;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kennel_policy::domain::{Host, HostRule};
use kennel_policy::http_rule::HttpRule;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use authority::{Authority, AuthorityError};
pub use roots::{BUNDLES, Roots, RootsError};
pub(crate) use verifier::{H1, H2, Verifier};

use crate::route::Target;
use crate::secrets::{AwsKeys, Swap, Swaps};

/// What of requests the gate reads, and what it does with them.
#[derive(Debug)]
pub struct Inspect {
    /// Secrets that stay outside.
    pub swaps: Vec<Swap>,
    /// Requests that can be made to the hosts that these name.
    pub http: Vec<HttpRule>,
    /// Hosts whose TLS ends at the gate, beside those that secrets are bound to and those of HTTP rules.
    pub terminate: Vec<HostRule>,
    /// Hosts whose TLS never does.
    pub exclude: Vec<HostRule>,
    /// Who signs for them.
    pub authority: Option<Arc<Authority>>,
    /// Whom the gate trusts.
    pub roots: Arc<Roots>,
    /// Header fields that responses lose, whatever their case and whether written with `-`, `_` or `.`.
    pub strip_response_headers: Vec<String>,
    /// Whether an allowed host that speaks neither TLS nor HTTP is refused, and TLS that the gate does not read.
    pub refuse_opaque: bool,
    /// Keys of AWS that stay outside. Their parts are among the swaps, too.
    pub aws: AwsKeys,
    /// How many TLS connections end at the gate at once; `None` for as many as there are.
    pub max_connections: Option<u32>,
    /// How long the client's TLS handshake may take; `None` for as long as any first words.
    pub handshake_timeout: Option<Duration>,
}

impl Inspect {
    /// Nothing to do yet.
    #[must_use]
    pub fn new(roots: Arc<Roots>) -> Inspect {
        Inspect {
            swaps: Vec::new(),
            http: Vec::new(),
            terminate: Vec::new(),
            exclude: Vec::new(),
            authority: None,
            roots,
            strip_response_headers: Vec::new(),
            refuse_opaque: false,
            aws: AwsKeys::default(),
            max_connections: None,
            handshake_timeout: None,
        }
    }
}

/// The same, ready to work.
#[derive(Debug)]
pub struct Inspector {
    pub(crate) swaps: Swaps,
    pub(crate) http: Vec<HttpRule>,
    terminate: Vec<HostRule>,
    exclude: Vec<HostRule>,
    bound: Vec<HostRule>,
    /// Those that take no other credentials.
    exclusive: Vec<HostRule>,
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) verifier: Verifier,
    pub(crate) strip_response_headers: Vec<String>,
    pub(crate) refuse_opaque: bool,
    pub(crate) aws: AwsKeys,
    /// Bodies are kept in memory while they are signed.
    pub(crate) signing: Semaphore,
    places: Option<Arc<Semaphore>>,
    pub(crate) handshake_timeout: Option<Duration>,
}

/// As many bodies are signed at once.
const SIGNED_AT_ONCE: usize = 2;

impl Inspector {
    /// Prepares all that is looked for.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn new(inspect: Inspect) -> io::Result<Inspector> {
        Ok(Inspector {
            bound: inspect.swaps.iter().flat_map(|swap| swap.hosts.iter().cloned()).collect(),
            exclusive: inspect
                .swaps
                .iter()
                .filter(|swap| !swap.swap_in.others)
                .flat_map(|swap| swap.hosts.iter().cloned())
                .collect(),
            swaps: Swaps::new(inspect.swaps),
            http: inspect.http,
            terminate: inspect.terminate,
            exclude: inspect.exclude,
            authority: inspect.authority,
            verifier: Verifier::new(inspect.roots),
            strip_response_headers: inspect.strip_response_headers.iter().map(|name| folded(name)).collect(),
            refuse_opaque: inspect.refuse_opaque,
            aws: inspect.aws,
            signing: Semaphore::new(SIGNED_AT_ONCE),
            places: inspect.max_connections.map(|most| Arc::new(Semaphore::new(most as usize))),
            handshake_timeout: inspect.handshake_timeout,
        })
    }

    /// Whether TLS to this host ends at the gate.
    pub(crate) fn terminates(&self, target: &Target) -> bool {
        let any = |rules: &[HostRule]| rules.iter().any(|rule| rule.matches(&target.host, target.port));
        // On whichever port: what a host was sent at one it may tell at another.
        let is_bound = |rule: &HostRule| rule.host.matches(&target.host);
        let bound = matches!(target.host, Host::Name(_)) && self.bound.iter().any(is_bound);
        self.authority.is_some()
            && !any(&self.exclude)
            && (any(&self.terminate) || bound || self.has_http_rules(target))
    }

    /// Whether a secret is sent there: then nothing but requests goes there, of which nobody could tell whose account they use.
    pub(crate) fn is_for_secrets(&self, target: &Target) -> bool {
        let is_bound = |rule: &HostRule| {
            rule.host.matches(&target.host)
                && rule.port.map_or(matches!(target.port, 443 | 80), |port| port == target.port)
        };
        matches!(target.host, Host::Name(_)) && self.exclusive.iter().any(is_bound)
    }

    /// A place among the TLS connections that end here, while it is held; `Err` if all are taken.
    pub(crate) fn place(&self) -> Result<Option<OwnedSemaphorePermit>, AllTaken> {
        let places = self.places.clone();
        places.map(|places| places.try_acquire_owned().map_err(|_| AllTaken)).transpose()
    }

    /// Whether rules about requests name this host: then nothing but requests goes there.
    pub(crate) fn has_http_rules(&self, target: &Target) -> bool {
        self.http.iter().any(|rule| rule.covers(&target.host, target.port))
    }
}

/// As many TLS connections end at the gate as the policy allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllTaken;

/// A field's name as it is compared.
pub(crate) fn folded(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '_' | '.') { '-' } else { c.to_ascii_lowercase() }).collect()
}
