//! What a policy's secrets mean for files and for the network: which of the host's files hold real values, and whether the gate
//! has to read what passes through it.

use std::path::Path;

use crate::domain::HostPattern;
use crate::pattern::PathPattern;
use crate::policy::{Missing, Origin, PathRule, Policy, SearchScope};
use crate::secrets::{SecretMode, SecretSource, TlsPolicy};

/// Where systems keep the certificates that they trust, for programs that read no variable.
pub const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The same for Java.
pub const SYSTEM_JAVA_STORES: &[&str] = &["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];

impl Policy {
    /// The files of the host's that hold what the command must not hold: where real values come from, and the files that show
    /// something else inside. No rule shows them.
    #[must_use]
    pub fn secret_files(&self) -> Vec<PathRule> {
        let mut rules: Vec<PathRule> = Vec::new();
        let mut hide = |path: &Path, why: String| {
            if rules.iter().all(|rule| rule.pattern.as_path() != path) {
                rules.push(hidden(path, why));
            }
        };
        for secret in self.secrets.iter().filter(|secret| secret.mode == SecretMode::Swap) {
            let why = || format!("secrets.{}", secret.name);
            secret.files.iter().for_each(|file| hide(&file.path, why()));
            if let SecretSource::File(path) = &secret.source {
                hide(path, why());
            }
        }
        for provider in &self.gateway.providers {
            if let Some(SecretSource::File(path)) = &provider.key {
                hide(path, format!("gateway.{}", provider.name));
            }
        }
        if let Some(authority) = &self.network.tls.authority {
            hide(&authority.key, "the key of the certificate authority".to_owned());
        }
        rules
    }

    /// The files that show something else inside than on the host, each once.
    #[must_use]
    pub fn masked_files(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> =
            self.secrets.iter().flat_map(|secret| &secret.files).map(|file| file.path.as_path()).collect();
        if self.network.tls.system_bundles && self.terminates_tls() {
            paths.extend(SYSTEM_BUNDLES.iter().chain(SYSTEM_JAVA_STORES).map(Path::new));
        }
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Whether the gate reads requests on their way to the hosts that the command asks for: to put secrets in, to compare them
    /// with rules, or because it is told to.
    #[must_use]
    pub fn inspects(&self) -> bool {
        let TlsPolicy { terminate, strip_response_headers, refuse_opaque, require_host_match, .. } =
            &self.network.tls;
        self.secrets.iter().any(|secret| secret.mode == SecretMode::Swap)
            || !self.network.http.is_empty()
            || !terminate.is_empty()
            || !strip_response_headers.is_empty()
            || *refuse_opaque
            || *require_host_match
    }

    /// The same, or because it is the way to models.
    #[must_use]
    pub fn reads_requests(&self) -> bool {
        self.inspects() || !self.gateway.providers.is_empty()
    }

    /// Whether TLS connections of the command end at the gate, so that the command has to trust a certificate of its own.
    #[must_use]
    pub fn terminates_tls(&self) -> bool {
        let never =
            self.network.tls.exclude.iter().any(|rule| rule.host == HostPattern::Any && rule.port.is_none());
        if never {
            return false;
        }
        self.secrets.iter().any(|secret| secret.mode == SecretMode::Swap && !secret.hosts.is_empty())
            || !self.network.http.is_empty()
            || !self.network.tls.terminate.is_empty()
    }

    /// Whether something outside the sandbox has to serve its network.
    #[must_use]
    pub fn needs_gate(&self) -> bool {
        self.network.needs_gate() || !self.gateway.providers.is_empty()
    }
}

fn hidden(path: &Path, why: String) -> PathRule {
    PathRule {
        pattern: PathPattern::literal(path),
        missing: Missing::Shared,
        follow_link: true,
        lenient: true,
        without_exceptions: true,
        of_profile: false,
        look: SearchScope::Nowhere,
        origin: Origin(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{AbsentSecret, MaskedFile, SecretRule, SwapIn};

    fn secret(source: SecretSource, mode: SecretMode, files: &[&str]) -> SecretRule {
        SecretRule {
            name: "token".into(),
            source,
            mode,
            hosts: Vec::new(),
            variable: None,
            files: files.iter().map(|path| MaskedFile { path: path.into(), rest: false }).collect(),
            swap_in: SwapIn::default(),
            parts: None,
            absent: AbsentSecret::Error,
            origin: Origin("--secret".into()),
        }
    }

    #[test]
    fn sources_and_masked_files_are_hidden_unless_the_command_gets_the_value() {
        let mut policy = Policy::default();
        let file = |path: &str| SecretSource::File(path.into());
        policy.secrets.push(secret(file("/keys/a"), SecretMode::Swap, &["/home/me/.npmrc", "/keys/a"]));
        policy.secrets.push(secret(file("/keys/b"), SecretMode::Inject, &["/home/me/.b"]));
        let hidden = policy.secret_files();
        let paths: Vec<&Path> = hidden.iter().map(|rule| rule.pattern.as_path()).collect();
        assert_eq!(paths, [Path::new("/home/me/.npmrc"), Path::new("/keys/a")]);
        assert!(hidden.iter().all(|rule| rule.without_exceptions));
        assert_eq!(policy.masked_files().len(), 3);
        assert!(policy.reads_requests() && !policy.terminates_tls() && !policy.needs_gate());
        assert!(!Policy::default().reads_requests());
    }
}
