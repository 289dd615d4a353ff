//! Other names of denied files. Seatbelt judges paths, so a hard link that exists already leads around a rule.

use std::path::PathBuf;

use kennel_policy::policy::OtherNames;
use kennel_policy::precedence::{List, Reason};

use super::locate::{Found, found};
use super::{PathRules, Resolver};
use crate::profile::disk::Kind;
use crate::profile::error::{ResolveError, shown, system_error};

/// As many entries are looked at.
const MOST_ENTRIES: usize = 2_000_000;

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
        let denied = |said: &PathRules| {
            let (list, rule) = match (&said.deny_read, &said.deny_write) {
                (Some(rule), _) => (List::DenyRead, rule),
                (None, Some(rule)) => (List::DenyWrite, rule),
                (None, None) => return None,
            };
            let file = said.found.as_ref().filter(|found| found.kind != Kind::Folder && found.links > 1)?;
            Some(Denied { file: file.clone(), list, rule: rule.clone() })
        };
        let denied: Vec<Denied> = self.said.values().filter_map(denied).collect();
        if denied.is_empty() {
            return Ok(());
        }
        let roots: Vec<PathBuf> = self
            .said
            .iter()
            .filter(|(_, said)| said.allow_write.is_some())
            .map(|(path, _)| path.into())
            .collect();
        for file in self.files_below(roots)? {
            let same =
                |denied: &&Denied| denied.file.identity == file.identity && denied.file.path != file.path;
            if file.kind == Kind::Folder {
                self.say(List::DenyRead, file, "other names of denied files may be in it");
            } else if let Some(Denied { list, rule, file: own }) = denied.iter().find(same) {
                let reason = format!("{rule}, of which it is another name: {}", shown(&own.path));
                self.say(*list, file, reason);
            }
        }
        Ok(())
    }

    /// All files below some folders; and those folders that nobody can look through now, but the command may.
    fn files_below(&self, mut folders: Vec<PathBuf>) -> Result<Vec<Found>, ResolveError> {
        const SEARCH: &str = "other names of denied files";
        folders.dedup_by(|below, above| below.starts_with(&*above));
        let (mut files, mut entries) = (Vec::new(), 0);
        while let Some(folder) = folders.pop() {
            let Ok(names) = self.disk.list(&folder) else {
                let own = found(self.disk, &folder).map_err(system_error(SEARCH, &folder))?;
                files.extend(own.filter(|own| own.kind == Kind::Folder || own.links > 1));
                continue;
            };
            entries += names.len();
            if entries > MOST_ENTRIES {
                return Err(ResolveError::TooWide { path: folder, what: "more than 2000000 entries" });
            }
            for name in names {
                let path = folder.join(name);
                match self.disk.look(&path) {
                    Ok(entry) if entry.kind == Kind::Folder => folders.push(path),
                    Ok(entry) if entry.kind != Kind::Link && entry.links > 1 => {
                        files.extend(found(self.disk, &path).map_err(system_error(SEARCH, &path))?);
                    }
                    _ => {}
                }
            }
        }
        Ok(files)
    }

    /// A denied file is protected under the names that are denied; another name would lead around the rule.
    pub(super) fn check_hard_links(&self) -> Result<(), ResolveError> {
        if self.files.other_names == OtherNames::Deny {
            return Ok(());
        }
        let writes = self.said.values().any(|said| said.allow_write.is_some());
        let rule = |said: &PathRules| said.deny_read.clone().or(said.deny_write.clone().filter(|_| writes));
        for said in self.said.values() {
            let (Some(rule), Some(found)) = (rule(said), &said.found) else { continue };
            if found.kind == Kind::Folder || found.links < 2 {
                continue;
            }
            let same = |other: &&PathRules| {
                // What is hidden is hidden only where reading is denied; what cannot be read cannot be written either.
                (other.deny_read.is_some() || (said.deny_read.is_none() && other.deny_write.is_some()))
                    && other.found.as_ref().is_some_and(|other| other.identity == found.identity)
            };
            if (self.said.values().filter(same).count() as u64) < found.links {
                let (path, links) = (found.path.clone(), found.links);
                return Err(ResolveError::HardLinks { rule: rule.into_owned(), path, links });
            }
        }
        Ok(())
    }
}
