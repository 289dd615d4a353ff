//! Other names of denied files, for policies that were not written for kennel.
//!
//! A rule is about a name, and a file can have several. kennel's own policies are refused if a denied file has a name that is
//! not denied; but whoever has a package manager that links files, or a pattern that matches such a file, could not start
//! anything under the name of another program. There the other names are looked for where they matter most, in what can be
//! written, and denied as well. What lies elsewhere is left: no run could have made it.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use kennel_policy::policy::OtherNames;

use super::error::{ResolveError, system_error};
use super::locate::{Found, Location, is_own, locate};
use super::path_rules::{List, Resolver};
use super::walk::WalkError;
use super::{Kind, Reason};

/// What is being done.
const SEARCH: &str = "other names of denied files may be in it";
/// In folders with more names than this nobody can say that there is no other.
const MOST: usize = 500_000;

/// A denied file that has other names.
struct Denied {
    file: Found,
    list: List,
    rule: Reason,
}

impl Resolver<'_> {
    /// Denies the other names of denied files that lie in folders which can be written.
    pub(super) fn deny_other_names(&mut self) -> Result<(), ResolveError> {
        if self.files.other_names != OtherNames::Deny {
            return Ok(());
        }
        let denied: Vec<Denied> = self
            .said
            .values()
            .filter_map(|said| {
                let (list, rule) = match (&said.deny_read, &said.deny_write) {
                    (Some(rule), _) => (List::DenyRead, rule),
                    (None, Some(rule)) => (List::DenyWrite, rule),
                    (None, None) => return None,
                };
                let file =
                    said.found.as_ref().filter(|found| found.kind != Kind::Folder && found.links > 1)?;
                Some(Denied { file: file.clone(), list, rule: rule.clone() })
            })
            .collect();
        if denied.is_empty() {
            return Ok(());
        }
        let numbers: HashSet<u64> = denied.iter().map(|denied| denied.file.identity.inode).collect();
        let (names, mut shut) = self.names_of(&numbers)?;
        for path in names {
            let found = match locate(&path).map_err(system_error(SEARCH, &path))? {
                Location::Found(found) => found,
                Location::Missing(_) => continue,
                Location::Forbidden => {
                    shut.extend(path.parent().map(Path::to_path_buf));
                    continue;
                }
            };
            let same = denied
                .iter()
                .find(|denied| denied.file.identity == found.identity && denied.file.path != found.path);
            if let Some(Denied { list, rule, file }) = same {
                let reason =
                    format!("{rule}, of which it is another name: {}", super::path_rules::shown(&file.path));
                self.say(*list, found, reason);
            }
        }
        // An earlier run may have shut a folder with such a name in it, and this one could open it again.
        for folder in shut.into_iter().filter(|folder| is_own(folder)) {
            if let Location::Found(found) = locate(&folder).map_err(system_error(SEARCH, &folder))? {
                self.say(List::DenyRead, found, SEARCH);
            }
        }
        Ok(())
    }

    /// The paths in writable folders at which files with these numbers lie, and the folders that nobody may list.
    fn names_of(&self, numbers: &HashSet<u64>) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ResolveError> {
        let roots =
            self.said.iter().filter(|(path, said)| said.allow_write.is_some() && path.parent().is_some());
        let mut folders: Vec<PathBuf> = roots.map(|(path, _)| path.to_path_buf()).collect();
        let (mut names, mut shut, mut seen) = (Vec::new(), Vec::new(), 0);
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    shut.push(folder);
                    continue;
                }
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                seen += 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if !kind.is_symlink() && numbers.contains(&entry.ino()) => {
                        names.push(entry.path());
                    }
                    _ => {}
                }
            }
            if seen > MOST {
                return Err(WalkError::TooWide(folder, MOST).into());
            }
        }
        Ok((names, shut))
    }
}
