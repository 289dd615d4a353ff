//! What a sandbox gets in the place of its secrets, and its gate with it.

use std::sync::Arc;

use kennel_linux::additions::{Additions, OwnFile, own_folder};
use kennel_linux::sandbox::each_variable;
use kennel_policy::policy::Policy;
use kennel_proxy::Inspector;
use kennel_proxy::gateway::Gateway;

use crate::error::Cause;
use crate::job::Environment;
use crate::network::{Doors, SandboxNetwork, gateway_port};
use crate::secrets::{self, SandboxSecrets, memory};
use crate::{Result, SandboxError};

const REASON: &str = "the gate's certificates are trusted inside";

/// What a policy's secrets come to.
#[derive(Default)]
pub(super) struct Found {
    /// What the sandbox gets in their place.
    pub(super) additions: Additions,
    /// What the gate reads of requests.
    pub(super) reads: Reads,
    /// What the user is told.
    pub(super) warnings: Vec<String>,
}

/// What a gate reads of requests, and the way to models.
#[derive(Default)]
pub(super) struct Reads {
    inspector: Option<Arc<Inspector>>,
    gateway: Option<Arc<Gateway>>,
}

impl Reads {
    /// The gate behind these doors.
    pub(super) fn gate(self, doors: Doors) -> Option<SandboxNetwork> {
        doors.into_gate(self.inspector, self.gateway)
    }
}

/// Says what cannot be, before anything is read.
pub(super) fn check(policy: &Policy) -> Result<()> {
    Ok(secrets::check(policy)?)
}

/// Reads what a policy names, if it does; PID 1 has to be there. `own_process` says that this process is kennel's own.
pub(super) fn read(policy: &Policy, environment: &Environment, own_process: bool) -> Result<Found> {
    if !secrets::are_wanted(policy) {
        return Ok(Found::default());
    }
    if own_process {
        // PID 1 is a process of its own by now, which has its files in /proc.
        memory::keep_private();
    }
    let address = |number: usize| {
        let port = gateway_port(u16::try_from(number).unwrap_or(u16::MAX));
        format!("http://127.0.0.1:{port}")
    };
    let found = secrets::read(policy, &each_variable(environment), own_folder(policy), address)
        .map_err(|error| SandboxError::Setup(Cause::of(error)))?;
    let SandboxSecrets { variables, unset, files, masked, without_secrets, warnings, inspector, gateway } =
        found;
    let own = |(name, contents)| OwnFile { name, contents, reason: REASON };
    let files = files.into_iter().map(own).collect();
    let reads_requests = policy.reads_requests();
    Ok(Found {
        additions: Additions { variables, unset, files, masked, without_secrets, reads_requests },
        reads: Reads { inspector, gateway },
        warnings,
    })
}

/// What shows of it in a plan, for which nothing is read.
pub(super) fn planned(policy: &Policy) -> Found {
    let own = |name| OwnFile { name, contents: Vec::new(), reason: REASON };
    let files = secrets::planned(policy).into_iter().map(own).collect();
    let masked = policy.masked_files().into_iter().map(|file| (file.to_path_buf(), Vec::new())).collect();
    let reads_requests = policy.reads_requests();
    let additions = Additions { files, masked, reads_requests, ..Additions::default() };
    Found { additions, ..Found::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kennel_policy::domain::{HostRule, ListKind};
    use kennel_policy::extract::ExtractPattern;
    use kennel_policy::policy::NetworkMode;
    use kennel_policy::secrets::{
        AbsentSecret, NoMatch, SecretMode, SecretParts, SecretRule, SecretSource, SwapIn,
    };

    use super::*;
    use crate::Stdio;
    use crate::job::{Job, Streams};

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn what_cannot_be_masked_is_told_before_the_start_and_is_a_warning_of_the_outcome() {
        let mut policy = Policy::default();
        policy.network.mode = NetworkMode::AllowList;
        policy.secrets.push(SecretRule {
            name: "login".into(),
            source: SecretSource::Env("PATH".into()),
            mode: SecretMode::Swap,
            hosts: vec![HostRule::parse("a.test", ListKind::Allow).expect("a host")],
            variable: Some("LOGIN".into()),
            files: Vec::new(),
            swap_in: SwapIn::default(),
            parts: Some(SecretParts {
                pattern: Some(ExtractPattern::parse(r"token: (\S+)").expect("an expression")),
                no_match: NoMatch::Withhold,
                ..SecretParts::default()
            }),
            absent: AbsentSecret::Error,
            origin: kennel_policy::policy::Origin("test".into()),
        });
        let mut job = Job::new(Arc::new(policy), vec!["true".into()]);
        job.streams = Streams::Given([Stdio::null(), Stdio::null(), Stdio::null()]);
        job.hooks.warn = Some(|warning| TOLD.lock().expect("nobody panicked").push(warning.to_owned()));
        let outcome = job.run().expect("it runs");
        assert_eq!(outcome.exit_code(), 0);
        assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
        assert!(outcome.warnings[0].starts_with("test: login cannot be masked"), "{:?}", outcome.warnings);
        assert_eq!(*TOLD.lock().expect("nobody panicked"), outcome.warnings);
    }
}
