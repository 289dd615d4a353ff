//! For command lines: run a command on this process's own terminal and standard streams.
//!
//! This is the quickest way into a sandbox, and it asks something of the caller: to be small and single-threaded,
//! because PID 1 is a clone of it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use kennel_policy::policy::Policy;

pub use kennel_linux::describe::{describe_step, show};
pub use kennel_linux::host::{Finding, State};
pub use kennel_linux::outcome::{Ended, Outcome};
pub use kennel_linux::plan::Tier;
pub use kennel_linux::sandbox::{Error, Memory};
pub use kennel_linux::supervise::StartError;

/// Runs `command` and waits for it. `environment` is the caller's.
///
/// # Safety
/// This process must have a single thread, and `memory` must describe its own: PID 1 wipes what is named there.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub unsafe fn run<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    memory: Memory,
) -> Result<Outcome, Error> {
    // SAFETY: the caller's promises.
    unsafe { kennel_linux::sandbox::run_attached(policy, command, cwd, environment, memory) }
}

/// The steps that [`run`] would perform, each with the reason for it.
///
/// # Errors
/// When the policy does not fit this host.
pub fn plan<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
) -> Result<Vec<(String, String)>, Error> {
    let (caller, _) = kennel_linux::supervise::terminal::caller();
    let prepared = kennel_linux::sandbox::Prepared::new(policy, command, cwd, environment, caller)?;
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
