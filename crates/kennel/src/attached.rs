//! For command lines: run a command on this process's own terminal and standard streams.
//!
//! This is the quickest way into a sandbox, and it asks something of the caller: to be small and single-threaded,
//! because PID 1 is a clone of it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use kennel_policy::policy::Policy;

pub use crate::control::{AskAboutHosts, ControlLines, HostAnswer, HostQuestion};
use crate::network::Filtered;
pub use crate::network::{NetworkDecision, Published};

pub use kennel_linux::cgroup::Usage;
pub use kennel_linux::describe::{describe_step, show};
use kennel_linux::guard::Rules;
pub use kennel_linux::guard::{Mended, Violation, Violations};
pub use kennel_linux::handback::{HandedBack, SetAside};
pub use kennel_linux::held::{HeldFile, HoldError};
pub use kennel_linux::host::{Finding, State};
pub use kennel_linux::outcome::{Ended, Outcome};
use kennel_linux::plan::Plan;
pub use kennel_linux::plan::Tier;
use kennel_linux::sandbox::Network;
pub use kennel_linux::sandbox::{Error, Memory, Show, Watch};
pub use kennel_linux::supervise::StartError;
pub use kennel_linux::supervise::terminal::{Asker, Questions, Reply, questions};
pub use kennel_linux::supervise::ticker::{Audience, Ticker};
pub use kennel_proxy::BY_FLAG;

/// What came of a run, with what the network gate decided.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub outcome: Outcome,
    /// Every decision of the network gate, up to 512 that let something through and 512 that did not.
    pub network: Vec<NetworkDecision>,
    /// How many decisions there were beyond those.
    pub network_not_listed: u64,
    /// What was blocked, for a person; empty when nothing was.
    pub blocked: String,
}

/// Runs `command` and waits for it. `environment` is the caller's; `company` has a say in the network. With `memory` PID 1
/// is a clone of this process, without it a program of its own.
///
/// # Safety
/// With `memory` this process must have a single thread, and it must describe its own: PID 1 wipes what is named there.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub unsafe fn run<'e, E>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: E,
    memory: Option<Memory>,
    watch: Watch<'_>,
    company: Company,
) -> Result<Ran, Error>
where
    E: Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
{
    let Company { control, ask, tell, advice } = company;
    if let Some(why) = control.as_ref().and_then(|lines| lines.reachable(policy)) {
        return Err(Error::Network(why));
    }
    let mut filtered = filtered(policy, environment.clone(), ask.as_ref())?;
    let (mut unconfined, mut outside) = (Vec::new(), Vec::new());
    if let Some(filtered) = &mut filtered {
        if let Some(lines) = control {
            filtered.obey(lines);
        }
        (unconfined, outside) = filtered.take_outside();
        let chosen =
            filtered.published().iter().zip(&policy.network.publish).filter(|(_, asked)| asked.host == 0);
        chosen.for_each(|(published, _)| tell(published));
    }
    let plan = filtered.as_ref().map(|filtered| filtered.plan().clone());
    let mut open = |doors, init| {
        // PID 1 was cloned before, so what is inside keeps the limit that the caller has.
        use_all_descriptors();
        if let Some(filtered) = &mut filtered {
            filtered.open(doors, init, true);
        }
    };
    let network = plan.as_ref().map(|plan| Network { plan, outside, unconfined, open: &mut open });
    // SAFETY: the caller's promises. The gate's thread starts only after PID 1 was cloned.
    let outcome = unsafe {
        kennel_linux::sandbox::run_attached(policy, command, cwd, environment, memory, network, watch)
    }?;
    let (network, network_not_listed, blocked) = match &filtered {
        Some(filtered) => (filtered.decisions(), filtered.undetailed(), filtered.summary(advice)),
        None => Default::default(),
    };
    Ok(Ran { outcome, network, network_not_listed, blocked })
}

/// Who has a say in the network while a command runs.
pub struct Company {
    /// Brings new rules.
    pub control: Option<ControlLines>,
    /// Is asked about hosts that no rule speaks of.
    pub ask: Option<AskAboutHosts>,
    /// Is told, before the command starts, which free port was chosen for a published one.
    pub tell: fn(&Published),
    /// How the caller allows a host that was blocked, as [`BY_FLAG`]; the host follows.
    pub advice: &'static str,
}

fn filtered<'e>(
    policy: &Policy,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    ask: Option<&AskAboutHosts>,
) -> Result<Option<Filtered>, Error> {
    Filtered::new(policy, environment, ask).map_err(|error| Error::Network(error.to_string()))
}

/// Each connection through the gate takes two descriptors, and shells give their programs 1,024.
fn use_all_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The steps that [`run`] would perform, each with the reason for it. Nothing is made for it: no port is bound and no
/// process started.
///
/// # Errors
/// When the policy does not fit this host.
pub fn plan<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
) -> Result<Vec<(String, String)>, Error> {
    let caller = kennel_linux::sandbox::standard_streams(policy)?.caller;
    let network =
        Filtered::planned(policy, environment.clone()).map_err(|error| Error::Network(error.to_string()))?;
    let prepared = {
        let request = kennel_linux::sandbox::Request::new(policy, network.as_ref(), false)?;
        kennel_linux::sandbox::Prepared::new(request, command, cwd, environment, caller)?
    };
    Ok(steps(&prepared.plan(Tier::Full)?, prepared.guarded()))
}

/// The steps of a plan and what is guarded, each with the reason for it.
#[must_use]
pub fn steps(plan: &Plan, rules: &Rules) -> Vec<(String, String)> {
    let steps = plan.opening.iter().chain(&plan.steps);
    let steps = steps.map(|planned| (describe_step(&planned.step), planned.reason.clone()));
    let shown = |path: &Path| show(path.as_os_str().as_encoded_bytes());
    let absent = rules.protected.iter().map(|protected| {
        (format!("guard: nobody makes {}", shown(&protected.path())), protected.rule.to_string())
    });
    let rewritten = rules.rewritten.iter().map(|kept| {
        (format!("guard: nobody moves anything over {}", shown(&kept.path())), kept.rule.to_string())
    });
    let sockets = rules.sockets.iter().flat_map(|sockets| &sockets.allowed).map(|socket| {
        (format!("guard: connect to {} for whoever asks", shown(&socket.path)), socket.rule.clone())
    });
    steps.chain(absent).chain(rewritten).chain(sockets).collect()
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
