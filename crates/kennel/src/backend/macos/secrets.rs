//! What a command gets in the place of its secrets. macOS has no file system of a sandbox's own: the certificate that the command
//! trusts is in a folder on the disk, and files that hold real values are hidden.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use kennel_macos::host;
use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{Missing, Origin, PathRule, Policy, SearchScope};

use super::each;
use super::private_folder::PrivateFolder;
use crate::Result;
use crate::job::Environment;
use crate::network::HostGate;
use crate::secrets::{self, SandboxSecrets};

/// The secrets of one command.
pub(super) struct CommandSecrets {
    /// The policy, with rules about their files.
    pub(super) policy: Arc<Policy>,
    /// The caller's variables that it may get.
    pub(super) environment: Environment,
    /// Where files of kennel's own are.
    pub(super) folder: Option<PrivateFolder>,
    found: SandboxSecrets,
}

impl CommandSecrets {
    /// Reads them and tells the gate. `own_process` says that this process is kennel's own.
    pub(super) fn read(
        policy: Arc<Policy>,
        mut environment: Environment,
        gate: &mut HostGate,
        own_process: bool,
    ) -> Result<CommandSecrets> {
        if !secrets::are_wanted(&policy) {
            let found = SandboxSecrets::default();
            return Ok(CommandSecrets { policy, environment, folder: None, found });
        }
        check(&policy)?;
        if own_process {
            secrets::memory::keep_private();
        }
        let folder = PrivateFolder::new(host::user_temp().as_deref(), "certificates")?;
        let found = gate.add_secrets(&policy, &each(&environment), folder.path())?;
        for (name, contents) in &found.files {
            std::fs::write(folder.path().join(name), contents)?;
        }
        environment.retain(|(name, _)| !found.unset.iter().any(|unset| **unset == **name));
        let policy = hiding_secrets(policy, Some(folder.path()));
        Ok(CommandSecrets { policy, environment, folder: Some(folder), found })
    }

    /// What the user is told.
    pub(super) fn warnings(&self) -> &[String] {
        &self.found.warnings
    }

    /// Takes real values out of what the command gets.
    pub(super) fn cleaned(
        &self,
        command: Vec<OsString>,
        variables: &mut [(OsString, OsString)],
    ) -> Vec<OsString> {
        let Some(without) = &self.found.without_secrets else { return command };
        for (_, value) in variables {
            if let Some(cleaned) = without(value) {
                *value = cleaned;
            }
        }
        command.into_iter().map(|word| without(&word).unwrap_or(word)).collect()
    }
}

/// Says what cannot be, before anything is read.
pub(super) fn check(policy: &Policy) -> Result<()> {
    Ok(secrets::check(policy)?)
}

/// The policy with rules that hide the files of its secrets, and show `folder`.
pub(super) fn hiding_secrets(mut policy: Arc<Policy>, folder: Option<&Path>) -> Arc<Policy> {
    let rules = policy.secret_files();
    if rules.is_empty() && folder.is_none() {
        return policy;
    }
    let files = &mut Arc::make_mut(&mut policy).files;
    files.deny_read.extend(rules);
    files.allow_read.extend(folder.map(|folder| PathRule {
        pattern: PathPattern::literal(folder),
        missing: Missing::Error,
        follow_link: true,
        lenient: false,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::Nowhere,
        origin: Origin("the gate's certificates are trusted inside".to_owned()),
    }));
    policy
}
