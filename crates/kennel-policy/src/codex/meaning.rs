//! What Codex's permissions mean, as a [`Policy`].

use std::path::{Path, PathBuf};

use super::{Access, Entry, Files, Permissions, Place};
use crate::device::is_device;
use crate::pattern::PathPattern;
use crate::policy::{
    FilePolicy, GitLevel, Missing, NetworkMode, NetworkPolicy, Origin, PathRule, Policy, ProcessPolicy,
    ReadModel, SearchScope, TmpMode, UnixSockets,
};

/// What the word `minimal` stands for.
const MINIMAL: &[&str] =
    &["/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw"];

/// What Codex on the host takes orders from, under each writable root. `.git` is the git level's.
const PROTECTED: &[&str] = &[".codex", ".agents"];

/// What a policy depends on besides the permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The policy's working directory.
    pub policy_folder: PathBuf,
    /// Where the command starts.
    pub workdir: Option<PathBuf>,
    /// `$TMPDIR`, if it is an absolute path.
    pub tmpdir: Option<PathBuf>,
}

impl Permissions {
    /// The policy.
    #[must_use]
    pub fn policy(&self, around: &Surroundings) -> Policy {
        Policy {
            files: match &self.files {
                Files::Unrestricted => open_files(),
                Files::Restricted(entries) => restricted(entries, around),
            },
            network: match self.network {
                true => NetworkPolicy {
                    mode: NetworkMode::Host,
                    unix_sockets: UnixSockets::All,
                    ..NetworkPolicy::default()
                },
                // Programs talk to themselves by unix sockets; the host's are another matter.
                false => NetworkPolicy {
                    mode: NetworkMode::None,
                    unix_sockets: UnixSockets::Listed,
                    ..NetworkPolicy::default()
                },
            },
            process: ProcessPolicy { workdir: around.workdir.clone(), ..ProcessPolicy::default() },
            ..Policy::default()
        }
    }
}

/// Leaves the caller's own proxy as the only way out. `proxies` is what the caller's variables say.
///
/// # Errors
/// When none of them is on the host's loopback: then nothing would lead out, and nothing would say so.
pub fn through_proxies<'a>(
    policy: &mut Policy,
    proxies: impl Iterator<Item = &'a str>,
) -> Result<(), NoProxy> {
    let network = &mut policy.network;
    for proxy in proxies {
        let Some((scheme, port)) = loopback(proxy) else { continue };
        match scheme {
            "http" | "https" => network.http_proxy_port = network.http_proxy_port.or(Some(port)),
            scheme if scheme.starts_with("socks") => {
                network.socks_proxy_port = network.socks_proxy_port.or(Some(port));
            }
            _ => {}
        }
    }
    if network.http_proxy_port.is_none() && network.socks_proxy_port.is_none() {
        return Err(NoProxy);
    }
    network.mode = NetworkMode::AllowList;
    network.unix_sockets = UnixSockets::Listed;
    Ok(())
}

/// A proxy was asked for and none is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sandbox must reach the network through a proxy, but no *_PROXY variable names one on the host's loopback\n\
     help: set HTTP_PROXY to http://127.0.0.1:PORT"
)]
pub struct NoProxy;

/// The scheme and the port of an address on the loopback.
fn loopback(address: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = host.rsplit_once(':')?;
    let own = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    own.then_some((scheme, port.parse().ok()?))
}

fn open_files() -> FilePolicy {
    let everything = rule(PathPattern::literal("/"), Missing::Skip, SearchScope::Nowhere, "no restriction");
    FilePolicy { allow_write: vec![everything], tmp: TmpMode::Host, host_run: true, ..FilePolicy::default() }
}

fn restricted(entries: &[Entry], around: &Surroundings) -> FilePolicy {
    let mut files = FilePolicy {
        reads: ReadModel::Listed,
        system: false,
        tmp: TmpMode::Host,
        host_run: true,
        git: GitLevel::MetadataReadOnly,
        ..FilePolicy::default()
    };
    let named: Vec<(PathBuf, Access)> = entries
        .iter()
        .flat_map(|entry| entry.place.paths(around).into_iter().map(|path| (path, entry.access)))
        .collect();
    for entry in entries {
        let look = match entry.place {
            Place::TmpDir | Place::SlashTmp | Place::Root => SearchScope::Nowhere,
            _ => SearchScope::Everywhere,
        };
        if let Place::Glob(pattern) = &entry.place {
            files.deny_read.push(rule(pattern.clone(), Missing::Skip, SearchScope::Everywhere, "deny"));
        }
        for path in entry.place.paths(around) {
            let at = |missing, why| rule(PathPattern::literal(&path), missing, look, why);
            match entry.access {
                Access::Deny if entry.skip_missing => files.deny_read.push(at(Missing::Ignore, "deny")),
                Access::Deny => files.deny_read.push(at(Missing::Skip, "deny")),
                // At a tie the write wins, so that the read takes nothing away.
                Access::Read if named.contains(&(path.clone(), Access::Write)) => {}
                Access::Read if path == Path::new("/") => files.reads = ReadModel::Open,
                Access::Read => {
                    files.allow_read.push(at(Missing::Skip, "read"));
                    files.deny_write.push(at(Missing::Ignore, "read"));
                }
                Access::Write if is_device(&path) => files.devices.push(at(Missing::Skip, "write")),
                Access::Write => {
                    if path == Path::new("/") {
                        files.reads = ReadModel::Open;
                    } else {
                        files.allow_read.push(at(Missing::Skip, "write"));
                    }
                    files.allow_write.push(at(Missing::Skip, "write"));
                    if look == SearchScope::Everywhere {
                        files.deny_write.extend(protected(&path, &named));
                    }
                }
            }
        }
    }
    files
}

/// What stays as it is in a writable root, unless an entry speaks of it.
fn protected(root: &Path, named: &[(PathBuf, Access)]) -> Vec<PathRule> {
    let paths = PROTECTED.iter().map(|name| root.join(name));
    paths
        .filter(|path| named.iter().all(|(own, access)| own != path || *access != Access::Write))
        .map(|path| {
            rule(
                PathPattern::literal(path),
                Missing::Skip,
                SearchScope::Nowhere,
                "protected in every sandbox",
            )
        })
        .collect()
}

impl Place {
    /// The paths it stands for; none for a glob.
    fn paths(&self, around: &Surroundings) -> Vec<PathBuf> {
        match self {
            Place::Path(path) => vec![PathPattern::literal(path).as_path().to_owned()],
            Place::Glob(_) => Vec::new(),
            Place::Root => vec!["/".into()],
            Place::Minimal => MINIMAL.iter().map(PathBuf::from).collect(),
            Place::ProjectRoots(None) => vec![around.policy_folder.clone()],
            Place::ProjectRoots(Some(below)) => vec![around.policy_folder.join(below)],
            Place::TmpDir => around.tmpdir.iter().cloned().collect(),
            Place::SlashTmp => vec!["/tmp".into()],
        }
    }
}

fn rule(pattern: PathPattern, missing: Missing, look: SearchScope, why: &str) -> PathRule {
    PathRule { pattern, missing, follow_link: true, lenient: true, look, origin: Origin(why.to_owned()) }
}
