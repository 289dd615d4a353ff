//! Without a gate: a policy with secrets is an error.

use kennel_linux::additions::Additions;
use kennel_policy::policy::Policy;

use crate::job::Environment;
use crate::network::{Doors, SandboxNetwork};
use crate::{Result, SandboxError};

const LACKING: &str = "secrets, rules about requests and a gateway to models require a network gate, but kennel was built without one (feature `network`)";

#[derive(Default)]
pub(super) struct Found {
    pub(super) additions: Additions,
    pub(super) reads: Reads,
    pub(super) warnings: Vec<String>,
}

#[derive(Default)]
pub(super) struct Reads;

impl Reads {
    pub(super) fn gate(self, doors: Doors) -> Option<SandboxNetwork> {
        doors.into_gate()
    }
}

pub(super) fn check(policy: &Policy) -> Result<()> {
    match policy.secrets.is_empty() && !policy.reads_requests() {
        true => Ok(()),
        false => Err(SandboxError::ConfigValidation(LACKING.into())),
    }
}

pub(super) fn read(_: &Policy, _: &Environment, _: bool) -> Result<Found> {
    Ok(Found::default())
}

pub(super) fn planned(_: &Policy) -> Found {
    Found::default()
}
