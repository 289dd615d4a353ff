//! What a policy asks for, beside files and hosts, that macOS has nothing for.
//!
//! What is named here is an error; with best effort the command runs without it, and the outcome lists it. What the profile cannot say about
//! files and hosts is told by [`crate::profile`], and what becomes of limits by [`crate::limits`]. [`missing`] takes [`Policy`] apart
//! without a rest: a new field does not compile before somebody has decided here who keeps it on macOS.

use kennel_policy::gateway::GatewayPolicy;
use kennel_policy::policy::{
    EnvironmentPolicy, FilePolicy, NestedNamespaces, NetworkPolicy, Policy, ProcessPolicy, SeccompProfile,
    UserMode,
};
use kennel_policy::secrets::{SecretRule, TlsPolicy};

/// What is missing, each with the setting that asks for it.
#[must_use]
pub fn missing(policy: &Policy) -> Vec<&'static str> {
    let Policy {
        files,
        network,
        // `crate::limits` takes them apart.
        limits: _,
        environment,
        process,
        secrets,
        gateway,
        best_effort: _,
    } = policy;
    // The command gets a block of its own, on every system.
    let EnvironmentPolicy { base: _, pass: _, unset: _, set: _, secrets: _, secret_names: _ } = environment;
    // The gate's, which is the same on every system.
    let GatewayPolicy { providers: _, budget: _, prices: _, log: _, log_contents: _ } = gateway;
    let mut missing = Vec::new();
    missing.extend(of_files(files));
    missing.extend(of_process(process));
    missing.extend(of_files_that_show_something_else(secrets, &network.tls, policy));
    missing.extend(of_network(network));
    if !network.budget.is_empty() && !process.keep_fds.is_empty() {
        missing.push("network.budget with keep_fds: a descriptor that is kept may be a socket, and nothing counts what goes there");
    }
    missing
}

/// Rules on files, which [`crate::profile::resolve`] follows or refuses; and what there is nothing for.
fn of_files(files: &FilePolicy) -> impl Iterator<Item = &'static str> {
    let FilePolicy {
        // Refused: there are no mounts of a sandbox's own.
        rootfs: _,
        mounts: _,
        tmpfs: _,
        // Seatbelt judges paths.
        reads: _,
        deny_read: _,
        allow_read: _,
        allow_write: _,
        deny_write: _,
        kept_names: _,
        refuse_home: _,
        precedence: _,
        git: _,
        other_names: _,
        tmp: _,
        home: _,
        host_run: _,
        system: _,
        devices: _,
        gpus,
        // A rule is about the name, whichever file has it.
        on_replace: _,
        // Neither macOS nor a sandbox on it has one.
        host_shm: _,
        // There are no layers: caches are as the other rules say, which opens nothing.
        caches: _,
    } = files;
    asked([(
        !gpus.is_empty(),
        "files.gpus: the profile opens no drivers of graphics cards, of which macOS has no list that could be relied on",
    )])
}

fn of_process(process: &ProcessPolicy) -> impl Iterator<Item = &'static str> {
    let ProcessPolicy {
        // The profile's.
        workdir: _,
        start_instead: _,
        mach_services: _,
        user,
        users,
        // It names one of `users`.
        run_as: _,
        hostname,
        seccomp,
        nested,
        // The same descriptors are open, under the same numbers.
        keep_fds: _,
    } = process;
    asked([
        (!users.is_empty(), "process.users: macOS has no user namespaces, so there is one user inside"),
        (
            *user == UserMode::Root,
            "process.user: macOS has no user namespaces, so the command is the caller's user",
        ),
        (hostname.is_some(), "process.hostname: macOS has no host name of a sandbox's own"),
        (
            *seccomp == SeccompProfile::Strict,
            "process.seccomp = \"strict\": macOS has no filter of system calls that a program may install",
        ),
        (
            *nested == NestedNamespaces::Allowed,
            "process.nested: macOS applies no second profile inside a sandbox",
        ),
    ])
}

fn of_files_that_show_something_else(
    secrets: &[SecretRule],
    tls: &TlsPolicy,
    policy: &Policy,
) -> Option<&'static str> {
    for secret in secrets {
        let SecretRule {
            // `Policy::masked_files` has them.
            files: _,
            // Read by kennel, and put in by the gate.
            name: _,
            source: _,
            mode: _,
            hosts: _,
            variable: _,
            swap_in: _,
            parts: _,
            absent: _,
            origin: _,
        } = secret;
    }
    let TlsPolicy {
        system_bundles,
        // The gate's.
        terminate: _,
        exclude: _,
        extra_ca: _,
        authority: _,
        strip_response_headers: _,
        refuse_opaque: _,
        require_host_match: _,
        max_connections: _,
        handshake_timeout: _,
        aws: _,
    } = tls;
    (*system_bundles || !policy.masked_files().is_empty()).then_some(
        "secrets.NAME.files and network.system_bundles: macOS has no mounts of a sandbox's own, so no file shows something else inside; a secret's files are hidden",
    )
}

fn of_network(network: &NetworkPolicy) -> impl Iterator<Item = &'static str> {
    let NetworkPolicy {
        // The profile's.
        mode: _,
        publish,
        relays,
        http_proxy_port: _,
        socks_proxy_port: _,
        unix_sockets: _,
        allow_unix_sockets: _,
        local_binding,
        trust_daemon: _,
        // The gate's.
        allow: _,
        deny: _,
        http: _,
        ask_timeout: _,
        allow_sni_mismatch: _,
        allow_ech: _,
        parent_proxy: _,
        parent_proxy_by_kind: _,
        no_proxy: _,
        // With the files above.
        tls: _,
        ask,
        // What Seatbelt denies fails as what a rule forbids does; nothing gets out either way.
        no_network: _,
        budget,
    } = network;
    let past_the_gate = !publish.is_empty() || !relays.is_empty() || *local_binding;
    asked([
        (*ask, "network.ask: asking on the terminal is not supported on macOS"),
        (
            !budget.is_empty() && past_the_gate,
            "network.budget: on macOS published ports and those of the host's loopback do not come by the gate, so nothing counts them",
        ),
    ])
}

/// The words for what is asked for.
fn asked<const N: usize>(rows: [(bool, &'static str); N]) -> impl Iterator<Item = &'static str> {
    rows.into_iter().filter(|(asked, _)| *asked).map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_lacks_nothing() {
        assert!(missing(&Policy::default()).is_empty());
    }

    #[test]
    #[kennel_claim::claim("macos/all-or-an-error")]
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
