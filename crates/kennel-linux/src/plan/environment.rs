//! Which variables the command sees.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use kennel_policy::policy::{EnvironmentBase, Policy, TmpMode};
use kennel_policy::secret_variables;

use crate::network::DefaultVariable;

use super::proxy_variables::{Fate, ProxyLogins};

/// What passes even when the environment is cleared: who and where the user is, and how to speak to the terminal.
const BASIC: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "NO_COLOR"];

/// The command's variables. `inherited` is the caller's, of which only what passes is looked at twice: what does not
/// is never copied, so that no secret of the caller's lies about in the memory that PID 1 is cloned with.
pub fn environment<'a>(
    policy: &Policy,
    inherited: impl Iterator<Item = (&'a OsStr, &'a OsStr)> + Clone,
    network: &[(OsString, OsString)],
    defaults: &[DefaultVariable],
) -> Vec<(OsString, OsString)> {
    let wanted = &policy.environment;
    let passes = |name: &OsStr| {
        if wanted.unset.iter().any(|unset| unset == name) {
            return false;
        }
        wanted.base == EnvironmentBase::Inherit
            || wanted.pass.iter().any(|pass| pass == name)
            || BASIC.iter().any(|basic| OsStr::new(basic) == name)
            || name.as_bytes().starts_with(b"LC_")
    };
    let is_withheld = |name: &OsStr, value: &OsStr| secret_variables::is_withheld(wanted, name, value);
    let logins = ProxyLogins::find(policy, inherited.clone());
    let fate = |name: &OsStr, value: &OsStr| match wanted.pass.iter().any(|pass| pass == name) {
        true => Fate::Passes,
        false => logins.fate(name, value),
    };
    let mut variables: Vec<(OsString, OsString)> = inherited
        .filter(|(name, _)| passes(name) && !name.is_empty())
        .filter(|(name, value)| !is_withheld(name, value))
        .filter_map(|(name, value)| match fate(name, value) {
            Fate::Passes => Some((name.to_owned(), value.to_owned())),
            Fate::Emptied => Some((name.to_owned(), OsString::new())),
            Fate::Withheld => None,
        })
        .collect();
    let mut set = |name: &OsStr, value: &OsStr| {
        variables.retain(|(other, _)| other != name);
        variables.push((name.to_owned(), value.to_owned()));
    };
    if policy.files.tmp == TmpMode::Private {
        // The caller's may name a folder that is not writable, or not there, inside.
        set(OsStr::new("TMPDIR"), OsStr::new("/tmp"));
    }
    for (name, value) in super::users::variables(policy) {
        set(OsStr::new(name), OsStr::new(&value));
    }
    for (name, value) in network.iter().chain(&wanted.set) {
        set(name, value);
    }
    for default in defaults {
        let names = || default.unless.iter().chain([&default.name]);
        let is_set = variables.iter().any(|(own, _)| names().any(|name| own == name));
        let is_unwanted = wanted.unset.iter().any(|unset| unset == default.name);
        if !is_set && !is_unwanted {
            variables.push((default.name.into(), default.value.clone()));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_policy::policy::EnvironmentPolicy;

    fn with(environment: EnvironmentPolicy) -> Vec<String> {
        with_defaults(environment, &[])
    }

    fn with_defaults(environment: EnvironmentPolicy, defaults: &[DefaultVariable]) -> Vec<String> {
        let policy = Policy { environment, ..Policy::default() };
        let inherited = [("PATH", "/bin"), ("TOKEN", "secret"), ("KEEP", "1"), ("LC_ALL", "C")];
        let inherited = inherited.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        super::environment(&policy, inherited, &[], defaults)
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
