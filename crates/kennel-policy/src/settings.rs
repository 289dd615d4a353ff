//! kennel's own settings: what a settings file, a profile or the flags say, before they are put together.
//!
//! TOML and JSON are two spellings of one schema. [`keys`] is its only definition: the reader, the search for the
//! nearest key, the flags and the JSON Schema all go by that table. A [`Settings`] says only what its source said;
//! [`crate::merge`] puts several together and makes a [`crate::policy::Policy`] of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::HostRule;
use crate::gateway::{Budget, Price};
use crate::gpu::GpuChoice;
use crate::http_rule::HttpRule;
use crate::pattern::PathPattern;
use crate::policy::{
    GitLevel, HomeMode, Missing, MountPoint, NetworkMode, OnReplace, Origin, Precedence, ProxyAddress,
    PublishedPort, ReadModel, RootFsWrite, SeccompProfile, SecretVariables, TmpMode, TmpfsMount, UnixSockets,
    UserMode,
};
use crate::registries::Registry;
use crate::traffic::TrafficLimit;
use crate::users::UserEntry;

pub(crate) mod json;
pub mod keys;
mod place;
mod provider;
mod read;
mod schema;
mod secret;
mod store;
mod switch;
mod text;
pub(crate) mod tree;

pub(crate) use place::below_home;
pub use place::{Base, Sense};
pub(crate) use provider::is_in_the_clear;
pub use provider::{KeySource, ProviderEntry};
pub use read::{Provenance, parse};
pub use schema::schema;
pub use secret::SecretEntry;
pub use store::Store;
pub use switch::{Switch, Switches};
pub use text::{ValueError, name, profile_name, variable};

/// The settings of one source. Settings that it does not have are `None`, or an empty list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The file it came from, as the user would name it.
    pub file: Option<String>,
    /// The profiles that these settings build on, in order.
    pub profiles: Vec<Stated<String>>,
    /// The lists, by their full names, of which weaker sources' entries do not count.
    pub only: Vec<Stated<&'static str>>,
    /// `[files]`
    pub files: FileSettings,
    /// `[network]`
    pub network: NetworkSettings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// `[environment]`
    pub environment: EnvironmentSettings,
    /// `[process]`
    pub process: ProcessSettings,
    /// `[secrets.NAME]`; no two of one name.
    pub secrets: Vec<SecretEntry>,
    /// `[gateway]`
    pub gateway: GatewaySettings,
    /// Settings of all sections that are on or off, and that the policy takes as they are.
    pub switches: Switches,
}

/// A value and where it was set.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// Where it was set.
    pub origin: Origin,
}

/// `[files]`
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `FilePolicy` what they mean")]
pub struct FileSettings {
    pub rootfs: Option<Stated<PathBuf>>,
    pub rootfs_write: Option<Stated<RootFsWrite>>,
    pub reads: Option<Stated<ReadModel>>,
    pub deny_read: Vec<PathEntry>,
    pub allow_read: Vec<PathEntry>,
    pub allow_write: Vec<PathEntry>,
    pub deny_write: Vec<PathEntry>,
    pub precedence: Option<Stated<Precedence>>,
    pub git: Option<Stated<GitLevel>>,
    pub protect_dotfiles: Option<Stated<bool>>,
    pub on_replace: Option<Stated<OnReplace>>,
    pub mounts: Vec<MountPoint>,
    pub tmpfs: Vec<TmpfsMount>,
    pub tmp: Option<Stated<TmpMode>>,
    pub home: Option<Stated<HomeMode>>,
    pub devices: Vec<PathEntry>,
    pub gpus: Vec<Stated<GpuChoice>>,
}

/// One entry of a path list.
#[derive(Clone, Debug, PartialEq)]
pub struct PathEntry {
    /// Absolute: relative paths and `~` have been resolved.
    pub pattern: PathPattern,
    /// What to do when it does not exist; the list's default when `None`.
    pub missing: Option<Missing>,
    /// Where it was set.
    pub origin: Origin,
}

/// `[network]`
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `NetworkPolicy` what they mean")]
pub struct NetworkSettings {
    pub mode: Option<Stated<NetworkMode>>,
    pub allow: Vec<HostRule>,
    pub allow_registries: Vec<Stated<&'static Registry>>,
    /// The entries of `allow` that are rules about requests.
    pub http: Vec<HttpRule>,
    pub deny: Vec<HostRule>,
    pub terminate: Vec<HostRule>,
    pub no_terminate: Vec<HostRule>,
    pub extra_ca: Vec<Stated<PathBuf>>,
    pub ask: Option<Stated<bool>>,
    pub ask_timeout: Option<Stated<Option<Duration>>>,
    pub publish: Vec<PublishedPort>,
    pub parent_proxy: Option<Stated<ProxyAddress>>,
    pub no_proxy: Option<Stated<String>>,
    pub http_proxy_port: Option<Stated<u16>>,
    pub socks_proxy_port: Option<Stated<u16>>,
    pub unix_sockets: Option<Stated<UnixSockets>>,
    pub allow_unix_sockets: Vec<PathEntry>,
    pub budget: Vec<TrafficLimit>,
}

/// `[limits]`; a stated `None` removes a limit that an earlier source set.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `Limits` what they mean")]
pub struct LimitSettings {
    pub memory: Option<Stated<Option<u64>>>,
    pub swap: Option<Stated<Option<u64>>>,
    pub cpus: Option<Stated<Option<f64>>>,
    pub timeout: Option<Stated<Option<Duration>>>,
    pub cpu_time: Option<Stated<Option<Duration>>>,
    pub pids: Option<Stated<Option<u32>>>,
    pub open_files: Option<Stated<Option<u32>>>,
    pub file_size: Option<Stated<Option<u64>>>,
    pub output: Option<Stated<Option<u64>>>,
    pub tmp_size: Option<Stated<Option<u64>>>,
}

/// `[environment]`
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `EnvironmentPolicy` what they mean")]
pub struct EnvironmentSettings {
    pub clear: Option<Stated<bool>>,
    pub pass: Vec<Stated<OsString>>,
    pub unset: Vec<Stated<OsString>>,
    pub set: Vec<Stated<(OsString, OsString)>>,
    pub secrets: Option<Stated<SecretVariables>>,
    pub secret_names: Vec<Stated<OsString>>,
}

/// `[process]`
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `ProcessPolicy` what they mean")]
pub struct ProcessSettings {
    pub workdir: Option<Stated<PathBuf>>,
    pub user: Option<Stated<UserMode>>,
    pub users: Vec<UserEntry>,
    pub run_as: Option<Stated<String>>,
    pub hostname: Option<Stated<String>>,
    pub seccomp: Option<Stated<SeccompProfile>>,
    pub nested: Option<Stated<bool>>,
    /// Descriptors are the caller's, so no file can name them; only a flag can.
    pub keep_fds: Vec<u32>,
}

/// `[gateway]`
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the table of keys documents them, and `GatewayPolicy` what they mean")]
pub struct GatewaySettings {
    /// `[gateway.NAME]`; no two of one name.
    pub providers: Vec<ProviderEntry>,
    pub budget: Option<Stated<Budget>>,
    pub prices: Vec<Stated<(String, Price)>>,
    pub log: Option<Stated<PathBuf>>,
    pub log_contents: Option<Stated<bool>>,
}

/// The two spellings of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// By the file's extension, and where that says nothing, by the first character: only JSON starts with `{`.
    #[must_use]
    pub fn of(file: &Path, text: &[u8]) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ if text.trim_ascii_start().first() == Some(&b'{') => Format::Json,
            _ => Format::Toml,
        }
    }
}

/// Why a settings file was not accepted: the file, the line where there is one, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct SettingsError {
    /// The file as the user would name it.
    pub file: String,
    /// The line, counted from one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// What can be wrong with a settings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// More than a mebibyte.
    #[error("the file is larger than 1 MiB, the limit for settings")]
    TooLarge,
    /// Lists and tables within each other, more than 64 deep.
    #[error("the values are nested more than 64 deep")]
    TooDeep,
    /// Not UTF-8.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// Not TOML, or not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A key of a JSON object that was there already.
    #[error("the key `{0}` is given twice")]
    DuplicateKey(String),
    /// A key that means nothing here.
    #[error("unknown key `{key}`{}{}", place(inside), hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    UnknownKey {
        /// The key.
        key: String,
        /// The section or entry it was found in; empty at the top.
        inside: String,
        /// The key that was probably meant.
        hint: Option<String>,
    },
    /// An entry without something it needs.
    #[error("`{inside}` has an entry without `{key}`")]
    MissingKey {
        /// The key it needs.
        key: &'static str,
        /// The list it is in.
        inside: String,
    },
    /// A boolean where a list belongs, and so on.
    #[error("`{key}` is {found}, but must be {expected}")]
    Type {
        /// The key.
        key: String,
        /// What belongs there.
        expected: String,
        /// What was there.
        found: &'static str,
    },
    /// Something that another program's settings can say, and that kennel would not keep.
    #[error("`{key}` is not supported: {why}")]
    NotServed {
        /// The key.
        key: String,
        /// Why not.
        why: String,
    },
    /// A value that contradicts another one.
    #[error("`{key}`: {why}")]
    Inconsistent {
        /// The key.
        key: String,
        /// What it contradicts.
        why: String,
    },
    /// The right type, but not a value that makes sense.
    #[error("`{key}`: {error}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with it.
        error: ValueError,
    },
}

fn place(inside: &str) -> String {
    if inside.is_empty() { String::new() } else { format!(" in `{inside}`") }
}

#[cfg(test)]
mod tests;
