//! For command lines: run a command on this process's own terminal and standard streams.
//!
//! This is the quickest way into a sandbox, and it asks something of the caller: to be small and single-threaded,
//! because PID 1 is a clone of it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use kennel_policy::policy::Policy;

pub use crate::control::ControlLines;
use crate::network::Filtered;
pub use crate::network::NetworkDecision;

pub use kennel_linux::cgroup::Usage;
pub use kennel_linux::describe::{describe_step, show};
pub use kennel_linux::host::{Finding, State};
pub use kennel_linux::outcome::{Ended, Outcome};
pub use kennel_linux::plan::Tier;
use kennel_linux::sandbox::Network;
pub use kennel_linux::sandbox::{Error, Memory, Watch};
pub use kennel_linux::supervise::StartError;
pub use kennel_linux::supervise::ticker::{Audience, Ticker};

/// What came of a run, with what the network gate decided.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub outcome: Outcome,
    /// Every decision of the network gate.
    pub network: Vec<NetworkDecision>,
    /// What was blocked, for a person; empty when nothing was.
    pub blocked: String,
}

/// Runs `command` and waits for it. `environment` is the caller's; `control` brings new rules for the network.
///
/// # Safety
/// This process must have a single thread, and `memory` must describe its own: PID 1 wipes what is named there.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub unsafe fn run<'e, E>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: E,
    memory: Memory,
    watch: Watch<'_>,
    control: Option<ControlLines>,
) -> Result<Ran, Error>
where
    E: Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
{
    let mut filtered = filtered(policy, environment.clone())?;
    if let (Some(filtered), Some(lines)) = (&mut filtered, control) {
        filtered.obey(lines);
    }
    let plan = filtered.as_ref().map(|filtered| filtered.plan().clone());
    let mut open = |doors| {
        if let Some(filtered) = &mut filtered {
            filtered.open(doors);
        }
    };
    let network = plan.as_ref().map(|plan| Network { plan, open: &mut open });
    // SAFETY: the caller's promises. The gate's thread starts only after PID 1 was cloned.
    let outcome = unsafe {
        kennel_linux::sandbox::run_attached(policy, command, cwd, environment, memory, network, watch)
    }?;
    let (network, blocked) = match &filtered {
        Some(filtered) => (filtered.decisions(), filtered.summary()),
        None => Default::default(),
    };
    Ok(Ran { outcome, network, blocked })
}

fn filtered<'e>(
    policy: &Policy,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
) -> Result<Option<Filtered>, Error> {
    Filtered::new(policy, environment, None)
        .map_err(|source| Error::System { doing: "making a token for the network gate", source })
}

/// The steps that [`run`] would perform, each with the reason for it.
///
/// # Errors
/// When the policy does not fit this host.
pub fn plan<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
) -> Result<Vec<(String, String)>, Error> {
    let (caller, _) = kennel_linux::supervise::terminal::caller();
    let filtered = filtered(policy, environment.clone())?;
    let network = filtered.as_ref().map(Filtered::plan);
    let prepared = kennel_linux::sandbox::Prepared::new(policy, command, cwd, environment, caller, network)?;
    let plan = prepared.plan(Tier::Full)?;
    Ok(plan.steps.into_iter().map(|planned| (describe_step(&planned.step), planned.reason)).collect())
}

/// What this host offers, and what to do about what it does not.
#[must_use]
pub fn doctor() -> Vec<Finding> {
    kennel_linux::host::findings(|| {
        let sandbox = crate::Sandbox::builder().build().map_err(|error| error.to_string())?;
        match sandbox.run("true", &[]) {
            Ok(result) if result.success() => Ok(()),
            Ok(result) => Err(format!("`true` ended with {}", result.exit_code)),
            Err(error) => Err(error.to_string()),
        }
    })
}
