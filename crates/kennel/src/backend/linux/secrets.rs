//! What a sandbox gets in the place of its secrets, and its gate with it.

use std::sync::Arc;

use kennel_linux::additions::{Additions, OwnFile, own_folder};
use kennel_linux::sandbox::{self, FindAdditions, each_variable};
use kennel_policy::policy::Policy;

use crate::Result;
use crate::job::Environment;
use crate::network::{SandboxNetwork, gateway_port};
use crate::secrets::{self, SandboxSecrets, SecretError, memory};

const REASON: &str = "the gate's certificates are trusted inside";

/// Finds out what a policy's secrets come to, once PID 1 is born, and tells the gate; `None` where there are none. `own_process`
/// says that this process is kennel's own.
pub(super) fn additions<'a>(
    policy: &Arc<Policy>,
    environment: &Environment,
    gate: Option<&'a mut SandboxNetwork>,
    own_process: bool,
) -> Result<Option<FindAdditions<'a>>> {
    if !secrets::are_wanted(policy) {
        return Ok(None);
    }
    secrets::check(policy)?;
    let (policy, environment) = (Arc::clone(policy), environment.clone());
    Ok(Some(Box::new(move || {
        if own_process {
            // PID 1 is a process of its own by now, which has its files in /proc.
            memory::keep_private();
        }
        find(&policy, &environment, gate, own_process)
            .map_err(|error| sandbox::Error::Secrets(error.to_string()))
    })))
}

fn find(
    policy: &Policy,
    environment: &Environment,
    gate: Option<&mut SandboxNetwork>,
    own_process: bool,
) -> std::result::Result<Additions, SecretError> {
    let address = |number: usize| {
        let port = gateway_port(u16::try_from(number).unwrap_or(u16::MAX));
        format!("http://127.0.0.1:{port}")
    };
    let found = secrets::read(policy, &each_variable(environment), own_folder(policy), address)?;
    let SandboxSecrets { variables, unset, files, masked, without_secrets, warnings, inspector, gateway } =
        found;
    if own_process {
        warnings.iter().for_each(|warning| eprintln!("kennel: warning: {warning}"));
    }
    if let Some(gate) = gate {
        gate.tell(inspector, gateway);
    }
    let own = |(name, contents)| OwnFile { name, contents, reason: REASON };
    let files = files.into_iter().map(own).collect();
    let reads_requests = policy.reads_requests();
    Ok(Additions { variables, unset, files, masked, without_secrets, reads_requests })
}

/// What shows of it in a plan, for which nothing is read.
pub(super) fn planned(policy: &Policy) -> Result<Additions> {
    secrets::check(policy)?;
    let own = |name| OwnFile { name, contents: Vec::new(), reason: REASON };
    let files = secrets::planned(policy).into_iter().map(own).collect();
    Ok(Additions { files, reads_requests: policy.reads_requests(), ..Additions::default() })
}
