//! Folders and files that a rule opens for writing and that do not exist yet: they are made before anything is mounted.
//!
//! They stay when the run is over. That is what the rule asks for (`missing = "create"`): a program's state, which the
//! program would have made itself, outside.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{Missing, Policy, TmpfsMount};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::{ResolveError, system_error};
use super::path_rules::{List, Resolver, describe, shown};
use super::{Kind, Location, locate, open_strictly};

/// Whether missing folders are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFolders {
    /// They are.
    Create,
    /// The plan is only looked at: nothing is made on the disk.
    Plan,
}

/// The folders that a run of this policy would make, and the rules that ask for them.
#[must_use]
pub fn missing_folders(policy: &Policy) -> Vec<(PathBuf, String)> {
    let missing = wanted(policy).filter_map(|(path, reason, _)| match locate(path) {
        Ok(Location::Missing(path)) => Some((path, reason)),
        _ => None,
    });
    missing.collect()
}

/// What rules want to be there, these rules, and what it is.
fn wanted(policy: &Policy) -> impl Iterator<Item = (&Path, String, Kind)> {
    let rules = policy.files.allow_write.iter().filter(|rule| rule.missing.creates());
    let rules = rules.map(|rule| {
        let kind = if rule.missing == Missing::CreateFile { Kind::File } else { Kind::Folder };
        (rule.pattern.as_path(), describe(List::AllowWrite, rule), kind)
    });
    let tmpfs = policy.files.tmpfs.iter().filter(|tmpfs| tmpfs.create);
    rules.chain(tmpfs.map(|tmpfs| (tmpfs.target.as_path(), describe_tmpfs(tmpfs), Kind::Folder)))
}

/// A file system in memory, in words.
pub(super) fn describe_tmpfs(tmpfs: &TmpfsMount) -> String {
    format!("tmpfs {} ({})", shown(&tmpfs.target), tmpfs.origin)
}

impl Resolver<'_> {
    /// Makes all folders that rules want and that are missing, before any rule is applied: one that denies a folder around
    /// them has to find it.
    pub(super) fn create_missing(&mut self, policy: &Policy) -> Result<(), ResolveError> {
        for (path, reason, kind) in wanted(policy) {
            let Location::Missing(place) = locate(path).map_err(system_error(&reason, path))? else {
                continue;
            };
            // A link that an earlier run made may lead anywhere.
            if place != path {
                self.refuse_planted(&reason, path, &place)?;
            }
            if self.missing_folders == MissingFolders::Plan {
                self.pending.push(place);
                continue;
            }
            make(&place, kind).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => ResolveError::Missing { rule: reason, path: place },
                _ => ResolveError::NotCreated { rule: reason, path: place, source },
            })?;
        }
        Ok(())
    }

    /// Where a file system in memory is mounted for which a folder is made if there is none. Its path may lead through the
    /// links of a home.
    pub(super) fn created_target(
        &mut self,
        tmpfs: &TmpfsMount,
        reason: &str,
    ) -> Result<PathBuf, ResolveError> {
        let path = tmpfs.target.as_path();
        match locate(path).map_err(system_error(reason, path))? {
            Location::Found(found) => {
                if found.path != path {
                    self.refuse_planted(reason, path, &found.path)?;
                }
                Ok(found.path)
            }
            Location::Missing(place) => Ok(place),
            Location::Forbidden => {
                Err(ResolveError::Forbidden { rule: reason.to_owned(), path: path.to_path_buf() })
            }
        }
    }
}

/// Makes a folder or an empty file, and the folders above it that are missing, for this user alone. `path` has no links.
/// Nothing is made in the root itself: the home of a user who has none is not there either.
fn make(path: &Path, kind: Kind) -> io::Result<()> {
    let there = path.ancestors().skip(1).find(|above| above.is_dir());
    let Some(there) = there.filter(|there| *there != Path::new("/")) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut folder = open_strictly(CWD, there, flags, strict)?;
    let mut names = path.strip_prefix(there).unwrap_or(Path::new("")).iter().peekable();
    while let Some(name) = names.next() {
        let made = match kind {
            Kind::File if names.peek().is_none() => {
                let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(&folder, name, new, Mode::RUSR | Mode::WUSR).map(drop)
            }
            _ => rustix::fs::mkdirat(&folder, name, Mode::RWXU),
        };
        match made {
            // Another run that starts now may have been quicker.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        if names.peek().is_some() {
            let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            folder = open_strictly(folder.as_fd(), Path::new(name), flags, below)?;
        }
    }
    Ok(())
}
