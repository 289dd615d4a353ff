//! The sandbox as a value: configured once, used for any number of runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kennel_policy::policy::Policy;

use crate::backend::{Backend, Native};
use crate::{AskAboutHosts, Result, SandboxConfig};

/// A configured sandbox. Each run is a sandbox of its own: nothing that one leaves in memory or in a private `/tmp`
/// is seen by the next. Can be shared between threads.
///
/// ```
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let result = sandbox.run("echo", &["hello"])?;
/// assert_eq!(result.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
pub struct Sandbox {
    id: u64,
    pub(crate) policy: Arc<Policy>,
    pub(crate) extras: Extras,
}

/// What a sandbox of the library has in addition to its policy.
#[derive(Clone, Default)]
pub(crate) struct Extras {
    /// Function to ask about hosts that no rule covers.
    pub(crate) ask: Option<AskAboutHosts>,
    /// Count resource usage even without a limit.
    pub(crate) count_usage: bool,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the policy: its variables may hold secrets.
        f.debug_struct("Sandbox").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Sandbox {
    pub(crate) fn new(policy: Policy, extras: Extras) -> Result<Sandbox> {
        Sandbox::of(Arc::new(policy), extras)
    }

    pub(crate) fn of(policy: Arc<Policy>, extras: Extras) -> Result<Sandbox> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Native::check()?;
        Ok(Sandbox { id: NEXT.fetch_add(1, Ordering::Relaxed), policy, extras })
    }

    /// A sandbox with this policy, wherever it came from.
    ///
    /// # Errors
    /// [`SandboxError::UnsupportedPlatform`](crate::SandboxError::UnsupportedPlatform) where kennel cannot run.
    pub fn from_policy(policy: Policy) -> Result<Sandbox> {
        Sandbox::new(policy, Extras::default())
    }

    /// Unique in this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What is allowed.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its main settings as plain data.
    #[must_use]
    pub fn config(&self) -> SandboxConfig {
        SandboxConfig::of(&self.policy)
    }
}
