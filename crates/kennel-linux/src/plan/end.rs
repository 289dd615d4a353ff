//! What a plan ends in: a command, or the wait for those that come later.

use kennel_init::plan::{Planned, Step};

use super::late::{covered_folders, steps_ahead};
use super::{Basis, PlanError, RLIMIT_CPU, set_up};
use crate::landlock;

/// What a set-up ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A command.
    Command,
    /// The wait for one.
    Ready,
    /// The wait for one, with mounts that can still become more.
    Halfway,
    /// The wait for any number of them.
    Session,
}

/// The ordered steps of a set-up with this end. `opened` says that an opening comes before.
///
/// # Errors
/// As [`set_up`].
pub fn set_up_to(end: End, opened: bool, basis: &Basis) -> Result<Vec<Planned>, PlanError> {
    let steps = set_up(opened, basis)?;
    Ok(match end {
        End::Command => steps,
        End::Ready => with(steps, Step::Later, LATER),
        End::Halfway => halfway(steps, opened),
        End::Session => session(steps, basis),
    })
}

/// The set-up of a job in a sandbox that has entered its network already.
///
/// # Errors
/// As [`set_up`].
pub fn set_up_in_network(opened: bool, basis: &Basis) -> Result<Vec<Planned>, PlanError> {
    let mut steps = set_up(opened, basis)?;
    steps.retain(|planned| planned.step != Step::EnterNetwork);
    Ok(steps)
}

const LATER: &str = "prepared before its command is known";

fn with(mut steps: Vec<Planned>, step: Step, reason: &str) -> Vec<Planned> {
    steps.push(Planned { step, reason: reason.to_owned() });
    steps
}

/// The set-up as far as it can be performed before the job is known.
fn halfway(mut steps: Vec<Planned>, opened: bool) -> Vec<Planned> {
    steps.truncate(steps_ahead(&steps));
    let held = covered_folders(&steps);
    let root = steps.iter().position(|one| matches!(one.step, Step::HostRoot { .. }));
    // Before anything is mounted over it.
    let at = root.map_or(steps.len(), |root| root + 1);
    steps.splice(at..at, held);
    if opened {
        steps = with(steps, Step::EnterNetwork, "a network of the sandbox's own");
    }
    with(steps, Step::Later, LATER)
}

/// The set-up of a sandbox in which commands come one by one.
fn session(mut steps: Vec<Planned>, basis: &Basis) -> Vec<Planned> {
    // PID 1 would use it up for all commands; each has its own.
    steps.retain(|planned| !matches!(planned.step, Step::Limit { resource: RLIMIT_CPU, .. }));
    // Leaders are in the caller's session, and root owns what is theirs: nobody writes what belongs to processes.
    if basis.resolved.owns_kernel {
        for planned in &mut steps {
            if let Step::ProcEntries { write, .. } = &mut planned.step {
                *write = false;
            }
        }
    }
    // Who may make namespaces may mount in them, which Landlock forbids.
    let layer = if basis.resolved.nested { 0 } else { landlock::harmless_layer(basis.abi) };
    with(steps, Step::Session { layer }, "a session: commands come one by one")
}
