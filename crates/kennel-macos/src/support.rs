//! What a policy asks for, beside files and hosts, that macOS has nothing for.
//!
//! What is named here is an error; with best effort the command runs without it, and the outcome lists it. What the profile cannot say about
//! files and hosts is told by [`crate::profile`].

use kennel_policy::policy::{NestedNamespaces, Policy, SeccompProfile, UserMode};

/// What is missing, each with the setting that asks for it.
#[must_use]
pub fn missing(policy: &Policy) -> Vec<&'static str> {
    let process = &policy.process;
    let rows = [
        (
            !process.users.is_empty(),
            "process.users: macOS has no user namespaces, so there is one user inside",
        ),
        (
            process.user == UserMode::Root,
            "process.user: macOS has no user namespaces, so the command is the caller's user",
        ),
        (process.hostname.is_some(), "process.hostname: macOS has no host name of a sandbox's own"),
        (
            process.seccomp == SeccompProfile::Strict,
            "process.seccomp = \"strict\": macOS has no filter of system calls that a program may install",
        ),
        (
            process.nested == NestedNamespaces::Allowed,
            "process.nested: macOS applies no second profile inside a sandbox",
        ),
        (
            !policy.masked_files().is_empty() || policy.network.tls.system_bundles,
            "secrets.NAME.files and network.system_bundles: macOS has no mounts of a sandbox's own, so no file shows something else inside; a secret's files are hidden",
        ),
        (policy.network.ask, "network.ask: asking on the terminal is not supported on macOS"),
    ];
    rows.into_iter().filter(|(asked, _)| *asked).map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_lacks_nothing() {
        assert!(missing(&Policy::default()).is_empty());
    }

    #[test]
    fn each_that_is_missing_is_named_by_its_setting() {
        let mut policy = Policy::default();
        policy.process.user = UserMode::Root;
        policy.process.hostname = Some("inside".into());
        policy.process.seccomp = SeccompProfile::Strict;
        policy.process.nested = NestedNamespaces::Allowed;
        policy.network.ask = true;
        policy.network.tls.system_bundles = true;
        let keys: Vec<_> =
            missing(&policy).iter().map(|what| what.split([':', ' ']).next().unwrap_or("")).collect();
        assert_eq!(
            keys,
            [
                "process.user",
                "process.hostname",
                "process.seccomp",
                "process.nested",
                "secrets.NAME.files",
                "network.ask"
            ]
        );
        policy.process.nested = NestedNamespaces::AllowedIfPossible;
        policy.process.seccomp = SeccompProfile::Permissive;
        assert_eq!(missing(&policy).len(), 4);
    }
}
