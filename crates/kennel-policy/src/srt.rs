//! The settings of Anthropic's sandbox runtime, `srt`, as one more way to say a [`Policy`](crate::policy::Policy).
//!
//! Its keys are those of srt 0.0.83. One that is not known is passed over, as there; one that is known and would protect
//! something that kennel does not protect in that way is refused, because settings that are only half kept are worse
//! than none. What only steers srt's helper programs is accepted and noted.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::HostRule;
use crate::pattern::PathPattern;
use crate::policy::{Origin, ProxyAddress, ProxyByKind};
use crate::secrets::{AuthorityFiles, AwsPolicy, SecretParts};

mod credentials;
mod glob;
mod hosts;
mod meaning;
mod read;
mod schema;

pub use meaning::SrtContext;
pub use read::parse;

/// How deep below the working directory dangerous names are looked for unless the settings say otherwise.
const SEARCH_DEPTH: u32 = 3;

/// What a settings file of srt says.
#[derive(Clone, Debug, PartialEq)]
pub struct SrtSettings {
    /// `network.allowedDomains`
    pub allowed: Vec<HostRule>,
    /// `network.deniedDomains` and `network.deniedResolvedAddresses`
    pub denied: Vec<HostRule>,
    /// `network.allowUnixSockets`
    pub unix_sockets: Vec<Entry>,
    /// `network.allowAllUnixSockets`
    pub all_unix_sockets: bool,
    /// `network.httpProxyPort`
    pub http_proxy_port: Option<u16>,
    /// `network.socksProxyPort`
    pub socks_proxy_port: Option<u16>,
    /// `network.parentProxy`
    pub parent_proxy: Option<ProxyAddress>,
    /// The same where its `http` and `https` differ
    pub parent_proxy_by_kind: Option<ProxyByKind>,
    /// Its `noProxy`
    pub no_proxy: Option<String>,
    /// `network.tlsTerminate`
    pub tls: Option<SrtTls>,
    /// `network.stripResponseHeaders`
    pub strip_response_headers: Vec<String>,
    /// `network.refuseOpaqueTunnels`
    pub refuse_opaque: bool,
    /// `network.requireHostMatch`
    pub require_host_match: bool,
    /// What `credentials` masks
    pub masks: Vec<Mask>,
    /// `credentials.allowPlaintextInject`
    pub plaintext_inject: bool,
    /// `credentials.awsPairs` and `credentials.sigv4`
    pub aws: AwsPolicy,
    /// `filesystem.disabled`
    pub files_open: bool,
    /// `filesystem.denyRead`
    pub deny_read: Vec<Entry>,
    /// What `credentials.files` denies, whatever else allows it.
    pub credentials: Vec<Entry>,
    /// `filesystem.allowRead`
    pub allow_read: Vec<Entry>,
    /// `filesystem.allowWrite`
    pub allow_write: Vec<Entry>,
    /// `filesystem.denyWrite`
    pub deny_write: Vec<Entry>,
    /// `filesystem.allowGitConfig`
    pub allow_git_config: bool,
    /// Variables that `credentials.envVars` denies
    pub unset: Vec<OsString>,
    /// `mandatoryDenySearchDepth`
    pub search_depth: u32,
    /// `enableWeakerNestedSandbox`
    pub weaker: bool,
    /// `allowNestedUserNamespaces`
    pub nested_namespaces: bool,
    /// `git.safeDirectories`
    pub safe_directories: Vec<String>,
    /// `network.allowLocalBinding`, for macOS
    pub local_binding: bool,
    /// `network.allowMachLookup`, for macOS
    pub mach_services: Vec<String>,
    /// `enableWeakerNetworkIsolation`, for macOS
    pub trust_daemon: bool,
    /// What was accepted and has no effect here, and why.
    pub notes: Vec<String>,
    /// What was accepted and will disappoint.
    pub warnings: Vec<String>,
}

/// `network.tlsTerminate`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrtTls {
    /// `caCertPath` and `caKeyPath`
    pub authority: Option<AuthorityFiles>,
    /// `excludeDomains`
    pub exclude: Vec<HostRule>,
    /// `extraCaCertPaths`, existing or not
    pub extra_ca: Vec<PathBuf>,
    /// `maxTunnels`
    pub max_tunnels: Option<u32>,
    /// `handshakeTimeoutMs`
    pub handshake_timeout: Option<Duration>,
}

/// A credential with mode `mask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Where the real value is, and the stand-in is shown.
    pub source: MaskSource,
    /// `injectHosts`; all allowed hosts when `None`.
    pub hosts: Option<Vec<HostRule>>,
    /// Which parts are secret; `None` if all of it is.
    pub parts: Option<SecretParts>,
    /// Where it was set.
    pub origin: Origin,
}

/// What is masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskSource {
    /// A variable.
    Variable(OsString),
    /// A file.
    File(PathBuf),
}

impl Default for SrtSettings {
    /// What holds without a settings file: nothing can be written, no host reached, everything read.
    fn default() -> Self {
        SrtSettings {
            allowed: Vec::new(),
            denied: Vec::new(),
            unix_sockets: Vec::new(),
            all_unix_sockets: false,
            http_proxy_port: None,
            socks_proxy_port: None,
            parent_proxy: None,
            parent_proxy_by_kind: None,
            no_proxy: None,
            tls: None,
            strip_response_headers: Vec::new(),
            refuse_opaque: false,
            require_host_match: false,
            masks: Vec::new(),
            plaintext_inject: false,
            aws: AwsPolicy::default(),
            files_open: false,
            deny_read: Vec::new(),
            credentials: Vec::new(),
            allow_read: Vec::new(),
            allow_write: Vec::new(),
            deny_write: Vec::new(),
            allow_git_config: false,
            unset: Vec::new(),
            search_depth: SEARCH_DEPTH,
            weaker: false,
            nested_namespaces: false,
            safe_directories: Vec::new(),
            local_binding: false,
            mach_services: Vec::new(),
            trust_daemon: false,
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// One entry of a path list: the path of that name, and if it reads as a glob also what that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The path as it stands, without symlinks resolved.
    pub path: PathBuf,
    /// The same as a glob: one of these has to match.
    pub globs: Vec<PathPattern>,
    /// Whether the text has special characters.
    pub is_glob: bool,
    /// Where it was set.
    pub origin: Origin,
}

#[cfg(test)]
mod tests;
