//! Folders and files that a rule opens for writing and that do not exist yet: they are made before anything is mounted.
//!
//! They stay when the run is over. That is what the rule asks for (`missing = "create"`): a program's state, which the
//! program would have made itself, outside.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kennel_policy::policy::{FilePolicy, Missing, MountPoint, Policy, TmpfsMount};
use kennel_resolve::error::{ResolveError, system_error};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::path_rules::{List, Resolver, shown};
use super::{Kind, Location, links_on_the_way, locate, open_strictly};

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
    let missing = wanted(policy).into_iter().filter_map(|(path, reason, _)| match locate(&path) {
        Ok(Location::Missing(path)) => Some((path, reason)),
        _ => None,
    });
    missing.collect()
}

/// What rules want to be there, these rules, and what it is.
fn wanted(policy: &Policy) -> Vec<(PathBuf, String, Kind)> {
    let rules = policy.files.allow_write.iter().filter(|rule| rule.missing.creates());
    let rules = rules.map(|rule| {
        let kind = if rule.missing == Missing::CreateFile { Kind::File } else { Kind::Folder };
        (rule.pattern.as_path().to_path_buf(), List::AllowWrite.describe(rule), kind)
    });
    let mounts = policy.files.mounts.iter();
    let sources = mounts.clone().filter(|mount| mount.missing == Missing::Create);
    // And where it shows: a home would have to be built anew for a folder that is not there.
    let sources = sources.flat_map(|mount| {
        [&mount.source, &mount.target].map(|path| (path.clone(), describe_mount(mount), Kind::Folder))
    });
    let inner = mounts.filter_map(|mount| {
        let place = place_in_created(policy, &mount.target)?;
        let Ok(Location::Found(found)) = locate(&mount.source) else { return None };
        let kind = if found.kind == Kind::Folder { Kind::Folder } else { Kind::File };
        Some((place, describe_mount(mount), kind))
    });
    let tmpfs = policy.files.tmpfs.iter().filter(|tmpfs| tmpfs.create).map(|tmpfs| {
        let place = place_in_created(policy, &tmpfs.target).unwrap_or_else(|| tmpfs.target.clone());
        (place, describe_tmpfs(tmpfs), Kind::Folder)
    });
    rules.chain(sources).chain(inner).chain(tmpfs).collect()
}

/// Where a place inside is on the host, in a folder that is mounted around it and created if it is missing.
fn place_in_created(policy: &Policy, target: &Path) -> Option<PathBuf> {
    created_around(&policy.files, target).map(|(mount, rest)| mount.source.join(rest))
}

/// The mount around a place inside whose source is created if it is missing, and the place in it.
fn created_around<'a>(files: &'a FilePolicy, target: &'a Path) -> Option<(&'a MountPoint, &'a Path)> {
    let around = files.mounts.iter().filter(|mount| mount.missing == Missing::Create);
    let around = around.filter_map(|mount| Some((mount, target.strip_prefix(&mount.target).ok()?)));
    let inner = around.filter(|(_, rest)| !rest.as_os_str().is_empty());
    inner.min_by_key(|(_, rest)| rest.components().count())
}

/// Removes places that were made for what is not there any more to be mounted: an empty file of settings is not the same as none.
fn remove_places(policy: &Policy) {
    for mount in policy.files.mounts.iter().filter(|mount| mount.missing == Missing::Skip) {
        if let Some(place) = place_in_created(policy, &mount.target)
            && matches!(locate(&mount.source), Ok(Location::Missing(_)))
            && let Ok(Location::Found(found)) = locate(&place)
            && found.path == place
            && let (Some(folder), Some(name)) = (place.parent(), place.file_name())
            && let Ok(folder) = open_strictly(
                CWD,
                folder,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
            )
        {
            remove_empty_file(&folder, name);
        }
    }
}

/// Removes a file in a folder if there is nothing in it.
fn remove_empty_file(folder: &OwnedFd, name: &OsStr) {
    let empty = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size == 0
    });
    if empty {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

/// Takes away what was made for a sandbox that did not start, as far as it is still empty.
pub fn unmake(made: &[(PathBuf, Kind)]) {
    for (path, kind) in made.iter().rev() {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let Ok(folder) = open_strictly(CWD, folder, flags, strict) else { continue };
        match kind {
            Kind::Folder => drop(rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)),
            _ => remove_empty_file(&folder, name),
        }
    }
}

/// A mount, in words.
pub(super) fn describe_mount(mount: &MountPoint) -> String {
    format!("mount {} at {} ({})", shown(&mount.source), shown(&mount.target), mount.origin)
}

/// A file system in memory, in words.
pub(super) fn describe_tmpfs(tmpfs: &TmpfsMount) -> String {
    format!("tmpfs {} ({})", shown(&tmpfs.target), tmpfs.origin)
}

impl Resolver<'_> {
    /// Makes all folders that rules want and that are missing, before any rule is applied: one that denies a folder around
    /// them has to find it.
    pub(super) fn create_missing(&mut self, policy: &Policy) -> Result<(), ResolveError> {
        if self.missing_folders == MissingFolders::Create {
            remove_places(policy);
        }
        for (path, reason, kind) in wanted(policy) {
            let path = path.as_path();
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
            let mut made = self.made.borrow_mut();
            make(&place, kind, &mut made).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => ResolveError::Missing { rule: reason, path: place },
                _ => ResolveError::NotCreated { rule: reason, path: place, source },
            })?;
        }
        Ok(())
    }

    /// Where a mount shows that is, or is in, a folder which is created if it is missing. Its path may lead through the links of a
    /// home.
    pub(super) fn place_of_own(&mut self, target: &Path, reason: &str) -> Result<PathBuf, ResolveError> {
        let is_own = |mount: &&MountPoint| mount.missing == Missing::Create && mount.target == target;
        let own = self.files.mounts.iter().find(is_own).map(|mount| (mount, Path::new("")));
        let Some((mount, rest)) = own.or_else(|| created_around(self.files, target)) else {
            return Ok(target.to_path_buf());
        };
        match locate(&mount.target).map_err(system_error(reason, target))? {
            Location::Found(found) if found.path != mount.target => {
                self.refuse_planted(reason, &mount.target, &found.path)?;
                self.links.extend(links_on_the_way(&mount.target));
                Ok(if rest.as_os_str().is_empty() { found.path } else { found.path.join(rest) })
            }
            _ => Ok(target.to_path_buf()),
        }
    }

    /// Where a file system in memory is mounted for which a folder is made if there is none. Its path may lead through the
    /// links of a home.
    pub(super) fn created_target(
        &mut self,
        tmpfs: &TmpfsMount,
        reason: &str,
    ) -> Result<PathBuf, ResolveError> {
        let path = tmpfs.target.as_path();
        if created_around(self.files, path).is_some() {
            return self.place_of_own(path, reason);
        }
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

/// Makes a folder, and those above it that are missing, with git's own mode. `path` is in a folder of the caller's that no
/// sandbox writes.
pub(super) fn make_as_git(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Makes a folder or an empty file, and the folders above it that are missing, for this user alone. `path` has no links.
/// Nothing is made in the root itself: the home of a user who has none is not there either. All that it makes is added to `all`.
fn make(path: &Path, kind: Kind, all: &mut Vec<(PathBuf, Kind)>) -> io::Result<()> {
    let there = path.ancestors().skip(1).find(|above| above.is_dir());
    let Some(there) = there.filter(|there| *there != Path::new("/")) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut folder = open_strictly(CWD, there, flags, strict)?;
    let mut names = path.strip_prefix(there).unwrap_or(Path::new("")).iter().peekable();
    let mut at = there.to_path_buf();
    while let Some(name) = names.next() {
        at.push(name);
        let kind = if names.peek().is_some() { Kind::Folder } else { kind };
        let made = match kind {
            Kind::File => {
                let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(&folder, name, new, Mode::RUSR | Mode::WUSR).map(drop)
            }
            _ => rustix::fs::mkdirat(&folder, name, Mode::RWXU),
        };
        match made {
            Ok(()) => all.push((at.clone(), kind)),
            // Another run that starts now may have been quicker.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        if names.peek().is_some() {
            let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            folder = open_strictly(folder.as_fd(), Path::new(name), flags, below)?;
        }
    }
    Ok(())
}
