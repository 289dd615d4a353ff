//! The words of the command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use super::{
    ManagedNetwork, Permissions, managed_network, permission_profile, sandbox_policy, split_policies,
};
use crate::settings::SettingsError;

/// How it is called.
pub const USAGE: &str = "\
Usage: codex-linux-sandbox --sandbox-policy-cwd DIR [--command-cwd DIR] POLICY [--] COMMAND [ARGUMENT]...

POLICY is one of
  --permission-profile JSON
  --file-system-sandbox-policy JSON --network-sandbox-policy JSON
  --sandbox-policy JSON

Accepted without effect: --use-legacy-landlock --use-bwrap-sandbox --apply-seccomp-then-exec --no-proc
  --inherit-pid-namespace
With a proxy of the caller's: --allow-network-for-proxy, --proxy-route-spec JSON, --managed-network JSON
";

/// What was typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Invocation {
    /// Run a command.
    Run {
        /// What it may do.
        permissions: Permissions,
        /// What the policy's working directory means.
        policy_folder: PathBuf,
        /// The caller's name for the folder that the command starts in, which may lead through links.
        command_folder: Option<PathBuf>,
        /// Set where only the caller's proxies can be reached.
        managed: Option<ManagedNetwork>,
        /// The command and its arguments; at least one word.
        command: Vec<OsString>,
    },
    /// Show how it is called.
    Help,
    /// Show the version.
    Version,
}

/// Why the words make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CodexError {
    /// A word that is no flag.
    #[error("unexpected argument '{0}'")]
    Unknown(String),
    /// A flag without its value.
    #[error("a value is required for '{0}'")]
    NoValue(String),
    /// A flag that is needed.
    #[error("the following required arguments were not provided: {0}")]
    Missing(&'static str),
    /// No command.
    #[error("no command specified to execute")]
    NoCommand,
    /// Two policies.
    #[error("{0} cannot be used together with another policy")]
    TwoPolicies(&'static str),
    /// Half of the two that belong together.
    #[error("--file-system-sandbox-policy and --network-sandbox-policy have to be given together")]
    HalfAPolicy,
    /// A policy's working directory that is not absolute.
    #[error("{0} is not an absolute path: {1}")]
    Relative(&'static str, PathBuf),
    /// Not a policy.
    #[error("invalid {0}")]
    Policy(#[from] SettingsError),
}

#[derive(Default)]
struct Typed {
    policy_folder: Option<OsString>,
    command_folder: Option<OsString>,
    legacy: Option<OsString>,
    files: Option<OsString>,
    network: Option<OsString>,
    profile: Option<OsString>,
    through_proxy: bool,
    managed: Option<OsString>,
    command: Vec<OsString>,
}

/// Reads the words, which come without the program's own name.
pub fn command_line(words: impl IntoIterator<Item = OsString>) -> Result<Invocation, CodexError> {
    let mut words = Parser::from_args(words);
    let mut typed = Typed::default();
    while let Some(word) = words.next().map_err(wrong)? {
        match word {
            Arg::Long("sandbox-policy-cwd") => typed.policy_folder = Some(value(&mut words)?),
            Arg::Long("command-cwd") => typed.command_folder = Some(value(&mut words)?),
            Arg::Long("sandbox-policy") => typed.legacy = Some(value(&mut words)?),
            Arg::Long("file-system-sandbox-policy") => typed.files = Some(value(&mut words)?),
            Arg::Long("network-sandbox-policy") => typed.network = Some(value(&mut words)?),
            Arg::Long("permission-profile") => typed.profile = Some(value(&mut words)?),
            Arg::Long("allow-network-for-proxy") => typed.through_proxy = true,
            Arg::Long("managed-network") => typed.managed = Some(value(&mut words)?),
            Arg::Long("proxy-route-spec") => drop(value(&mut words)?),
            Arg::Long(
                "use-legacy-landlock"
                | "use-bwrap-sandbox"
                | "apply-seccomp-then-exec"
                | "no-proc"
                | "inherit-pid-namespace",
            ) => {}
            Arg::Short('h') | Arg::Long("help") => return Ok(Invocation::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Invocation::Version),
            Arg::Value(word) => {
                typed.command.push(word);
                typed.command.extend(words.raw_args().map_err(wrong)?);
            }
            unknown => return Err(wrong(unknown.unexpected())),
        }
    }
    typed.meaning()
}

/// The value of a flag, attached to it or the next word.
fn value(words: &mut Parser) -> Result<OsString, CodexError> {
    words.value().map_err(wrong)
}

fn wrong(error: lexopt::Error) -> CodexError {
    match error {
        lexopt::Error::MissingValue { option } => CodexError::NoValue(option.unwrap_or_default()),
        lexopt::Error::UnexpectedOption(option) => CodexError::Unknown(option),
        lexopt::Error::UnexpectedValue { option, value } => {
            CodexError::Unknown(format!("{option}={}", value.display()))
        }
        error => CodexError::Unknown(error.to_string()),
    }
}

impl Typed {
    fn meaning(self) -> Result<Invocation, CodexError> {
        let permissions = match (&self.profile, &self.legacy, &self.files, &self.network) {
            (Some(profile), None, None, None) => permission_profile(&text("--permission-profile", profile)?)?,
            (None, legacy, Some(files), Some(network)) => {
                // Those releases gave the old form as well, for what it is worth.
                if let Some(legacy) = legacy {
                    sandbox_policy(&text("--sandbox-policy", legacy)?)?;
                }
                let files = text("--file-system-sandbox-policy", files)?;
                split_policies(&files, &text("--network-sandbox-policy", network)?)?
            }
            (None, Some(legacy), None, None) => sandbox_policy(&text("--sandbox-policy", legacy)?)?,
            (None, None, None, None) => return Err(CodexError::Missing("--sandbox-policy <JSON>")),
            (Some(_), ..) => return Err(CodexError::TwoPolicies("--permission-profile")),
            _ => return Err(CodexError::HalfAPolicy),
        };
        let folder = self.policy_folder.ok_or(CodexError::Missing("--sandbox-policy-cwd <PATH>"))?;
        let policy_folder = PathBuf::from(folder);
        if !policy_folder.is_absolute() {
            return Err(CodexError::Relative("--sandbox-policy-cwd", policy_folder));
        }
        if self.command.is_empty() {
            return Err(CodexError::NoCommand);
        }
        let managed = match &self.managed {
            Some(context) => managed_network(&text("--managed-network", context)?)?,
            None => None,
        };
        Ok(Invocation::Run {
            permissions,
            policy_folder,
            command_folder: self.command_folder.map(PathBuf::from),
            managed: managed.or(self.through_proxy.then(ManagedNetwork::default)),
            command: self.command,
        })
    }
}

fn text(flag: &str, value: &OsStr) -> Result<String, CodexError> {
    value.to_str().map(str::to_owned).ok_or_else(|| CodexError::NoValue(flag.to_owned()))
}
