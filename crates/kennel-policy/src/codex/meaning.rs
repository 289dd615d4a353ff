//! What Codex's permissions mean, as a [`Policy`].

use std::path::{Path, PathBuf};

use super::{CodexAccess, CodexFiles, CodexPlace, Entry, Permissions};
use crate::device::is_device;
use crate::pattern::PathPattern;
use crate::policy::{
    FilePolicy, GitLevel, Missing, NetworkMode, NetworkPolicy, NoNetwork, Origin, OtherNames, PathRule,
    Policy, ProcessPolicy, ReadModel, SearchScope, TmpMode, UnixSockets,
};

/// What the word `minimal` stands for.
const MINIMAL: &[&str] =
    &["/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw"];

/// What Codex on the host and other tools take orders from, under each writable root. Where repositories are looked for, `.git`
/// is the git level's.
const PROTECTED: &[&str] = &[".codex", ".agents", ".aws"];

/// A sandbox has one of its own, unless an entry is about the host's.
const SHARED_MEMORY: &str = "/dev/shm";

/// What a policy depends on besides the permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodexContext {
    /// The policy's working directory.
    pub policy_folder: PathBuf,
    /// `$TMPDIR`, if it is an absolute path.
    pub tmpdir: Option<PathBuf>,
    /// `$HOME`, if it is an absolute path: the command starts there if its own folder is hidden.
    pub home: Option<PathBuf>,
}

impl Permissions {
    /// The policy.
    #[must_use]
    pub fn policy(&self, around: &CodexContext) -> Policy {
        Policy {
            files: match &self.files {
                CodexFiles::Unrestricted => open_files(),
                CodexFiles::Restricted(entries) => restricted(entries, around),
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
                    // Codex offers to run a command anew without a sandbox if it says that something was denied.
                    no_network: NoNetwork::Denied,
                    ..NetworkPolicy::default()
                },
            },
            process: ProcessPolicy {
                start_instead: around.home.iter().cloned().collect(),
                ..ProcessPolicy::default()
            },
            ..Policy::default()
        }
    }
}

fn open_files() -> FilePolicy {
    let all = |path| rule(PathPattern::literal(path), Missing::Skip, SearchScope::Nowhere, "no restriction");
    FilePolicy {
        allow_write: vec![all("/"), all(SHARED_MEMORY)],
        tmp: TmpMode::Host,
        host_run: true,
        host_shm: true,
        ..FilePolicy::default()
    }
}

fn restricted(entries: &[Entry], around: &CodexContext) -> FilePolicy {
    let mut files = FilePolicy {
        reads: ReadModel::Listed,
        system: false,
        tmp: TmpMode::Host,
        host_run: true,
        git: GitLevel::MetadataReadOnly,
        other_names: OtherNames::Deny,
        ..FilePolicy::default()
    };
    let named: Vec<(PathBuf, CodexAccess)> = entries
        .iter()
        .flat_map(|entry| entry.place.paths(around).into_iter().map(|path| (path, entry.access)))
        .collect();
    let all_is_read = named.iter().any(|(path, _)| path == Path::new("/"));
    files.host_shm = named.iter().any(|(path, access)| match access {
        CodexAccess::Write => overlap(path, Path::new(SHARED_MEMORY)),
        // Where everything can be read, a list of what can be read says nothing more.
        CodexAccess::Read => !all_is_read && path.starts_with(SHARED_MEMORY),
        CodexAccess::Deny => false,
    });
    for entry in entries {
        let look = match entry.place {
            CodexPlace::TmpDir | CodexPlace::SlashTmp | CodexPlace::Root => SearchScope::Nowhere,
            _ => SearchScope::Everywhere,
        };
        if let CodexPlace::Glob(pattern) = &entry.place {
            files.deny_read.push(rule(pattern.clone(), Missing::Skip, SearchScope::Everywhere, "deny"));
        }
        for path in entry.place.paths(around) {
            let at = |missing, why| rule(PathPattern::literal(&path), missing, look, why);
            match entry.access {
                CodexAccess::Deny if entry.skip_missing => files.deny_read.push(at(Missing::Ignore, "deny")),
                CodexAccess::Deny => files.deny_read.push(at(Missing::Skip, "deny")),
                // At a tie the write wins, so that the read takes nothing away.
                CodexAccess::Read if named.contains(&(path.clone(), CodexAccess::Write)) => {}
                CodexAccess::Read if path == Path::new("/") => files.reads = ReadModel::Open,
                CodexAccess::Read if path.starts_with(SHARED_MEMORY) && !files.host_shm => {}
                CodexAccess::Read => {
                    files.allow_read.push(at(Missing::Skip, "read"));
                    files.deny_write.push(at(Missing::Ignore, "read"));
                }
                CodexAccess::Write if is_device(&path) => files.devices.push(at(Missing::Skip, "write")),
                CodexAccess::Write => {
                    if path == Path::new("/") {
                        files.reads = ReadModel::Open;
                    } else {
                        files.allow_read.push(at(Missing::Skip, "write"));
                    }
                    files.allow_write.push(at(Missing::Skip, "write"));
                    // The sandbox's own /dev is in between.
                    if path != Path::new(SHARED_MEMORY) && Path::new(SHARED_MEMORY).starts_with(&path) {
                        let memory = PathPattern::literal(SHARED_MEMORY);
                        files.allow_write.push(rule(memory, Missing::Skip, SearchScope::Nowhere, "write"));
                    }
                    let names = match (&entry.place, look) {
                        (CodexPlace::TmpDir | CodexPlace::SlashTmp, _) => {
                            Some((&[".git"][..], Missing::Shared))
                        }
                        (_, SearchScope::Everywhere) => Some((&[][..], Missing::Skip)),
                        _ => None,
                    };
                    if let Some((more, missing)) = names {
                        files.deny_write.extend(protected(&path, more, missing, &named));
                    }
                }
            }
        }
    }
    files
}

/// Whether one of two paths lies in the other.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// What stays as it is in a writable root, unless an entry speaks of it.
fn protected(
    root: &Path,
    more: &[&str],
    missing: Missing,
    named: &[(PathBuf, CodexAccess)],
) -> Vec<PathRule> {
    let paths = PROTECTED.iter().chain(more).map(|name| root.join(name));
    let why = "protected in every sandbox";
    paths
        .filter(|path| named.iter().all(|(own, access)| own != path || *access != CodexAccess::Write))
        .map(|path| rule(PathPattern::literal(path), missing, SearchScope::Nowhere, why))
        .collect()
}

impl CodexPlace {
    /// The paths it stands for; none for a glob.
    fn paths(&self, around: &CodexContext) -> Vec<PathBuf> {
        match self {
            CodexPlace::Path(path) => vec![PathPattern::literal(path).as_path().to_owned()],
            CodexPlace::Glob(_) => Vec::new(),
            CodexPlace::Root => vec!["/".into()],
            CodexPlace::Minimal => MINIMAL.iter().map(PathBuf::from).collect(),
            CodexPlace::ProjectRoots(None) => vec![around.policy_folder.clone()],
            CodexPlace::ProjectRoots(Some(below)) => vec![around.policy_folder.join(below)],
            CodexPlace::TmpDir => around.tmpdir.iter().cloned().collect(),
            CodexPlace::SlashTmp => vec!["/tmp".into()],
        }
    }
}

fn rule(pattern: PathPattern, missing: Missing, look: SearchScope, why: &str) -> PathRule {
    let origin = Origin(why.to_owned());
    PathRule {
        pattern,
        missing,
        follow_link: true,
        lenient: true,
        without_exceptions: false,
        of_profile: false,
        look,
        origin,
    }
}
