//! Which variables the command sees, on every system.

mod proxy_variables;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::ostext::is_same;
use crate::policy::{EnvironmentBase, Policy};
use crate::secret_variables;
use proxy_variables::{Fate, ProxyLogins};

/// A variable that is set only where nobody else has set it: it gives way to the caller's, the policy's, and to a policy
/// that takes it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: OsString,
    /// Other variables that it would overrule, and therefore gives way to.
    pub unless: &'static [&'static str],
}

/// What passes even when the environment is cleared: who and where the user is, and how to speak to the terminal.
const BASIC: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "NO_COLOR"];

/// What programs of a system do not start without.
const NEEDED: &[&str] = if cfg!(windows) {
    &[
        "ALLUSERSPROFILE",
        "APPDATA",
        "CommonProgramFiles",
        "CommonProgramFiles(x86)",
        "CommonProgramW6432",
        "COMPUTERNAME",
        "ComSpec",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "NUMBER_OF_PROCESSORS",
        "OS",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "ProgramData",
        "ProgramFiles",
        "ProgramFiles(x86)",
        "ProgramW6432",
        "PUBLIC",
        "SystemDrive",
        "SystemRoot",
        "TEMP",
        "TMP",
        "USERDOMAIN",
        "USERNAME",
        "USERPROFILE",
        "windir",
    ]
} else if cfg!(target_os = "macos") {
    // How text is encoded, for programs that ask CoreFoundation.
    &["__CF_USER_TEXT_ENCODING"]
} else {
    &[]
};

/// The variable by which programs find the agent that signs with the caller's SSH keys.
const AGENT_SOCKET: &str = "SSH_AUTH_SOCK";

/// Whether a variable of the caller's names the socket of an SSH agent that the policy lets the command connect to: without it no program
/// would find that socket, and it says nothing more.
#[must_use]
pub fn leads_to_open_socket(policy: &Policy, name: &OsStr, value: &OsStr) -> bool {
    is_same(OsStr::new(AGENT_SOCKET), name)
        && policy.network.allow_unix_sockets.iter().any(|rule| rule.pattern.matches(Path::new(value)))
}

/// The command's variables. `inherited` is the caller's, of which only what passes is looked at twice: what does not
/// is never copied, so that no secret of the caller's lies about in the memory that PID 1 is cloned with. `system` is what the
/// sandbox's own folders make of them, such as `TMPDIR`, and `network` what leads to its gate.
pub fn environment<'a>(
    policy: &Policy,
    inherited: impl Iterator<Item = (&'a OsStr, &'a OsStr)> + Clone,
    system: &[(&str, &OsStr)],
    network: &[(OsString, OsString)],
    defaults: &[DefaultVariable],
) -> Vec<(OsString, OsString)> {
    let wanted = &policy.environment;
    let passes = |name: &OsStr, value: &OsStr| {
        if wanted.unset.iter().any(|unset| is_same(unset, name)) {
            return false;
        }
        wanted.base == EnvironmentBase::Inherit
            || wanted.pass.iter().any(|pass| is_same(pass, name))
            || leads_to_open_socket(policy, name, value)
            || BASIC.iter().chain(NEEDED).any(|basic| is_same(OsStr::new(basic), name))
            || name.as_encoded_bytes().starts_with(b"LC_")
    };
    let is_withheld = |name: &OsStr, value: &OsStr| secret_variables::is_withheld(wanted, name, value);
    let logins = ProxyLogins::find(policy, inherited.clone());
    let fate = |name: &OsStr, value: &OsStr| match wanted.pass.iter().any(|pass| is_same(pass, name)) {
        true => Fate::Passes,
        false => logins.fate(name, value),
    };
    let mut variables: Vec<(OsString, OsString)> = inherited
        .filter(|(name, value)| passes(name, value) && !name.is_empty())
        .filter(|(name, value)| leads_to_open_socket(policy, name, value) || !is_withheld(name, value))
        .filter_map(|(name, value)| match fate(name, value) {
            Fate::Passes => Some((name.to_owned(), value.to_owned())),
            Fate::Emptied => Some((name.to_owned(), OsString::new())),
            Fate::Withheld => None,
        })
        .collect();
    let mut set = |name: &OsStr, value: &OsStr| {
        variables.retain(|(other, _)| !is_same(other, name));
        variables.push((name.to_owned(), value.to_owned()));
    };
    for (name, value) in system {
        set(OsStr::new(name), value);
    }
    if let Some(user) = policy.process.starts_as() {
        for (name, value) in [("HOME", &user.home()), ("USER", &user.name), ("LOGNAME", &user.name)] {
            set(OsStr::new(name), OsStr::new(value));
        }
    }
    for (name, value) in network.iter().chain(&wanted.set) {
        set(name, value);
    }
    for default in defaults {
        let names = || default.unless.iter().chain([&default.name]);
        let is_set = variables.iter().any(|(own, _)| names().any(|name| is_same(own, OsStr::new(name))));
        let is_unwanted = wanted.unset.iter().any(|unset| is_same(unset, OsStr::new(default.name)));
        if !is_set && !is_unwanted {
            variables.push((default.name.into(), default.value.clone()));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::EnvironmentPolicy;

    fn with(environment: EnvironmentPolicy) -> Vec<String> {
        with_defaults(environment, &[])
    }

    fn with_defaults(environment: EnvironmentPolicy, defaults: &[DefaultVariable]) -> Vec<String> {
        let policy = Policy { environment, ..Policy::default() };
        let inherited = [("PATH", "/bin"), ("TOKEN", "secret"), ("KEEP", "1"), ("LC_ALL", "C")];
        let inherited = inherited.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        super::environment(&policy, inherited, &[("TMPDIR", OsStr::new("/tmp"))], &[], defaults)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect()
    }

    #[test]
    fn the_callers_variables_pass_unless_the_policy_says_otherwise() {
        assert_eq!(
            with(EnvironmentPolicy::default()),
            ["PATH=/bin", "TOKEN=secret", "KEEP=1", "LC_ALL=C", "TMPDIR=/tmp"]
        );
        let unset = EnvironmentPolicy { unset: vec!["TOKEN".into()], ..Default::default() };
        assert_eq!(with(unset), ["PATH=/bin", "KEEP=1", "LC_ALL=C", "TMPDIR=/tmp"]);
    }

    #[test]
    fn a_cleared_environment_keeps_the_basics_and_what_is_passed_by_name() {
        let clear = EnvironmentPolicy {
            base: EnvironmentBase::Clear,
            pass: vec!["KEEP".into()],
            set: vec![("PATH".into(), "/opt/bin".into())],
            ..Default::default()
        };
        assert_eq!(with(clear), ["KEEP=1", "LC_ALL=C", "TMPDIR=/tmp", "PATH=/opt/bin"]);
    }

    #[test]
    fn a_default_gives_way_to_the_callers_and_to_the_policy() {
        let default = |name, unless| DefaultVariable { name, value: "ours".into(), unless };
        let sets = |environment, default| {
            with_defaults(environment, &[default]).iter().any(|variable| variable.ends_with("=ours"))
        };
        let usual = EnvironmentPolicy::default;
        assert!(sets(usual(), default("SSH", &[])));
        assert!(!sets(usual(), default("TOKEN", &[])));
        assert!(!sets(usual(), default("SSH", &["TOKEN"])));
        let set = EnvironmentPolicy { set: vec![("SSH".into(), "theirs".into())], ..usual() };
        assert!(!sets(set, default("SSH", &[])));
        let unset = || EnvironmentPolicy { unset: vec!["SSH".into(), "TOKEN".into()], ..usual() };
        assert!(!sets(unset(), default("SSH", &[])));
        // What does not pass is not there to give way to.
        assert!(sets(unset(), default("OTHER", &["TOKEN"])));
    }
}
