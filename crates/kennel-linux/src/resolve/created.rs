//! Folders that a rule opens for writing and that do not exist yet: they are made before anything is mounted.
//!
//! They stay when the run is over. That is what the rule asks for (`missing = "create"`): a program's state, which the
//! program would have made itself, outside.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{Missing, PathRule, Policy};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::{ResolveError, system_error};
use super::path_rules::{List, Resolver, describe};
use super::{Location, locate, open_strictly};

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
    let rules = policy.files.allow_write.iter().filter(|rule| rule.missing == Missing::Create);
    let missing = rules.filter_map(|rule| match locate(rule.pattern.as_path()) {
        Ok(Location::Missing(path)) => Some((path, describe(List::AllowWrite, rule))),
        _ => None,
    });
    missing.collect()
}

impl Resolver<'_> {
    /// Makes what is missing at `place`, where a rule leads, and says what is there then. `None` if nothing is made.
    pub(super) fn create(
        &mut self,
        rule: &PathRule,
        reason: &str,
        place: &Path,
    ) -> Result<Option<Location>, ResolveError> {
        let path = rule.pattern.as_path();
        // A link that an earlier run made may lead anywhere.
        if place != path {
            self.refuse_planted(reason, path, place)?;
        }
        if self.missing_folders == MissingFolders::Plan {
            self.pending.push(place.to_path_buf());
            return Ok(None);
        }
        match make(place) {
            Ok(()) => locate(path).map(Some).map_err(system_error(reason, path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ResolveError::Missing { rule: reason.to_owned(), path: place.to_path_buf() })
            }
            Err(source) => {
                Err(ResolveError::NotCreated { rule: reason.to_owned(), path: place.to_path_buf(), source })
            }
        }
    }
}

/// Makes a folder and those above it that are missing, for this user alone. `path` has no links. Nothing is made in the
/// root itself: the home of a user who has none is not there either.
fn make(path: &Path) -> io::Result<()> {
    let there = path.ancestors().skip(1).find(|above| above.is_dir());
    let Some(there) = there.filter(|there| *there != Path::new("/")) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut folder = open_strictly(CWD, there, flags, strict)?;
    for name in path.strip_prefix(there).unwrap_or(Path::new("")) {
        match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
            // Another run that starts now may have been quicker.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = open_strictly(
            folder.as_fd(),
            Path::new(name),
            flags,
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )?;
    }
    Ok(())
}
