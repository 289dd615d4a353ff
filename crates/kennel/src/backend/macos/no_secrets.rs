//! Without a gate: a policy with secrets is an error.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use kennel_policy::policy::Policy;

use super::private_folder::PrivateFolder;
use crate::job::Environment;
use crate::network::HostGate;
use crate::{Result, SandboxError};

const LACKING: &str = "secrets, rules about requests and a gateway to models require a network gate, but kennel was built without one (feature `network`)";

/// The secrets of one command, which has none.
pub(super) struct CommandSecrets {
    pub(super) policy: Arc<Policy>,
    pub(super) environment: Environment,
    pub(super) folder: Option<PrivateFolder>,
}

impl CommandSecrets {
    pub(super) fn read(
        policy: Arc<Policy>,
        environment: Environment,
        _: &mut HostGate,
        _: bool,
    ) -> Result<CommandSecrets> {
        check(&policy)?;
        Ok(CommandSecrets { policy, environment, folder: None })
    }

    pub(super) fn warnings(&self) -> &[String] {
        &[]
    }

    pub(super) fn cleaned(&self, command: Vec<OsString>, _: &mut [(OsString, OsString)]) -> Vec<OsString> {
        command
    }
}

pub(super) fn check(policy: &Policy) -> Result<()> {
    match policy.secrets.is_empty() && !policy.reads_requests() {
        true => Ok(()),
        false => Err(SandboxError::ConfigValidation(LACKING.into())),
    }
}

pub(super) fn hiding_secrets(policy: Arc<Policy>, _: Option<&Path>) -> Arc<Policy> {
    policy
}
