//! Secrets that a policy names, and what the command gets in their place.
//!
//! A rule says where a real value comes from. Under [`SecretMode::Swap`] the command never holds it: it gets a stand-in of the
//! same shape, and the network gate puts the real value in, only in requests to the hosts that the secret is bound to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::domain::HostRule;
use crate::policy::Origin;

pub mod known;

/// A secret that a policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRule {
    /// What it is called, in messages and in the report.
    pub name: String,
    /// Where the real value comes from.
    pub source: SecretSource,
    /// What the command gets.
    pub mode: SecretMode,
    /// The hosts that it is sent to; under [`SecretMode::Swap`] at least one.
    pub hosts: Vec<HostRule>,
    /// The variable that holds it inside; `None` for none.
    pub variable: Option<OsString>,
    /// Files that show it inside, in place of the host's.
    pub files: Vec<MaskedFile>,
    /// Where in a request it is put in, beside the header fields.
    pub swap_in: SwapIn,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Where a real value comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the caller's.
    Env(OsString),
    /// A file, without the line break at its end.
    File(PathBuf),
    /// A descriptor that the caller opened, read to its end.
    Fd(i32),
    /// What a program prints, without the line break at its end. It is started without a shell.
    Command(Vec<OsString>),
    /// The user's keyring: `SERVICE/ACCOUNT`.
    Keyring {
        /// The service.
        service: String,
        /// The account.
        account: String,
    },
    /// The value itself, from a program that uses the library or from another program's settings. It is never shown.
    Value(Vec<u8>),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Env(name) => write!(f, "env:{}", name.display()),
            SecretSource::File(path) => write!(f, "file:{}", path.display()),
            SecretSource::Fd(number) => write!(f, "fd:{number}"),
            // Its arguments may tell more than its name.
            SecretSource::Command(words) => {
                let program = words.first().map(|word| word.display().to_string()).unwrap_or_default();
                write!(f, "command:{program}{}", if words.len() > 1 { " …" } else { "" })
            }
            SecretSource::Keyring { service, account } => write!(f, "keyring:{service}/{account}"),
            SecretSource::Value(_) => f.write_str("value:…"),
        }
    }
}

/// What the command gets of a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretMode {
    /// The real value.
    Inject,
    /// A stand-in of the same shape, which the gate exchanges on the way out.
    #[default]
    Swap,
}

/// Where in a request a real value is put in, beside the header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapIn {
    /// In the path and the query.
    pub query: bool,
    /// In the body.
    pub body: bool,
    /// Also in requests that are not encrypted.
    pub plaintext: bool,
}

/// A file that shows a stand-in inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedFile {
    /// Its path, inside and outside.
    pub path: PathBuf,
}

/// What of the encrypted traffic the gate reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// Hosts whose TLS connections end at the gate, which makes one of its own to the server. Hosts that secrets are bound to
    /// and hosts of HTTP rules are among them without being named.
    pub terminate: Vec<HostRule>,
    /// Hosts that never are.
    pub exclude: Vec<HostRule>,
    /// Files with certificates that servers are verified against, beside the host's own.
    pub extra_ca: Vec<PathBuf>,
    /// A certificate and key of the user's own, which sign in place of the sandbox's; both in PEM.
    pub authority: Option<AuthorityFiles>,
    /// Whether the sandbox's certificate is also put over the system's bundles inside.
    pub system_bundles: bool,
    /// Header fields that responses lose.
    pub strip_response_headers: Vec<String>,
    /// Whether an allowed host that speaks anything but TLS or HTTP is refused.
    pub refuse_opaque: bool,
    /// Whether each request must name the host that the client connected to.
    pub require_host_match: bool,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}
