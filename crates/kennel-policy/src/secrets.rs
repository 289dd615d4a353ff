//! Secrets that a policy names, and what the command gets in their place.
//!
//! A rule says where a real value comes from. Under [`SecretMode::Swap`] the command never holds it: it gets a stand-in of the
//! same shape, and the network gate puts the real value in, only in requests to the hosts that the secret is bound to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::HostRule;
use crate::extract::ExtractPattern;
use crate::origin::Origin;

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
    /// Which parts of the source are secret; `None` if all of it is.
    pub parts: Option<SecretParts>,
    /// What happens if the source is not there.
    pub absent: AbsentSecret,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Which parts of a variable or a file are secret. Each has a stand-in of its own, wherever the same text is in it, and the rest
/// is shown as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretParts {
    /// What finds them. Without a pattern, each JWT in a file is a part, and a variable must be one as a whole.
    pub pattern: Option<ExtractPattern>,
    /// Whether each part is a JWT, and its stand-in has that form. Matches that are none are not secret.
    pub jwt: bool,
    /// The claims of the JWT that are secret, each with a stand-in of its own; the whole token if the list is empty.
    pub claims: Vec<String>,
    /// What happens if no part is found.
    pub no_match: NoMatch,
}

/// What happens if a rule finds no secret in its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoMatch {
    /// Nothing starts.
    #[default]
    Error,
    /// The variable is not set inside and the file is hidden; a warning says so.
    Withhold,
}

/// What happens if a secret's source is not there: a variable that is not set, a file that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentSecret {
    /// Nothing starts.
    #[default]
    Error,
    /// The rule has no effect. A file that exists and cannot be masked (a folder, a binary) is hidden.
    Skip,
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
    /// With `body`: whether a body in a `Content-Encoding` is sent as it is. Otherwise the request is refused.
    pub pass_encoded: bool,
    /// Also in requests that are not encrypted.
    pub plaintext: bool,
    /// Whether its hosts take other credentials as well. A command could send what it read to somebody else's account there.
    pub others: bool,
}

/// A file that shows a stand-in inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedFile {
    /// Its path, inside and outside.
    pub path: PathBuf,
    /// Whether the rest of the host's file shows, too. Otherwise only the secret's place does.
    pub rest: bool,
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
    /// How many connections can be read at once; the gate's own limit when `None`.
    pub max_connections: Option<u32>,
    /// How long a TLS handshake with the command may take; the gate's own limit when `None`.
    pub handshake_timeout: Option<Duration>,
    /// Requests that are signed for AWS.
    pub aws: AwsPolicy,
}

/// Requests to AWS. Their signature is made with the secret key, so that one made with a stand-in has to be made again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsPolicy {
    /// The secrets that make a key. A pair of which one is absent has no effect.
    pub pairs: Vec<AwsPair>,
    /// Uploads whose chunks are signed one by one.
    pub streaming: CannotSign,
    /// Addresses that hold a signature.
    pub presigned: CannotSign,
    /// Signatures by ECDSA.
    pub sigv4a: CannotSign,
}

/// The parts of one key of AWS, by the names of their secrets. The hosts of the first are those that requests are signed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsPair {
    /// The access key's id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
    /// The session's token.
    pub session_token: Option<String>,
}

/// What becomes of a request that was signed with a stand-in, in a way that the gate cannot repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CannotSign {
    /// It is refused.
    #[default]
    Refuse,
    /// It goes out with a signature that AWS will refuse.
    Pass,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}
