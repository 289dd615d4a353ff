//! Without a gate: a policy with secrets is an error.

use std::sync::Arc;

use kennel_linux::additions::Additions;
use kennel_linux::sandbox::FindAdditions;
use kennel_policy::policy::Policy;

use crate::job::Environment;
use crate::network::SandboxNetwork;
use crate::{Result, SandboxError};

const LACKING: &str = "secrets, rules about requests and a gateway to models require a network gate, but kennel was built without one (feature `network`)";

pub(super) fn additions<'a>(
    policy: &Arc<Policy>,
    _: &Environment,
    _: Option<&'a mut SandboxNetwork>,
    _: bool,
) -> Result<Option<FindAdditions<'a>>> {
    planned(policy).map(|_| None)
}

pub(super) fn planned(policy: &Policy) -> Result<Additions> {
    match policy.secrets.is_empty() && !policy.reads_requests() {
        true => Ok(Additions::default()),
        false => Err(SandboxError::ConfigValidation(LACKING.into())),
    }
}
