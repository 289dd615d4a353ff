//! Other names of denied files, for policies that were not written for kennel.
//!
//! A rule is about a name, and a file can have several. kennel's own policies are refused if a denied file has a name that is
//! not denied; but whoever has a package manager that links files, or a pattern that matches such a file, could not start
//! anything under the name of another program. There the other names are looked for where they matter most, in what can be
//! written, and denied as well. What lies elsewhere is left: no run could have made it.

use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{MountAccess, OtherNames};

use super::{PathResolver, PathRules, System};
use crate::disk::{Found, FoundAgain, Kind};
use crate::error::{ResolveError, shown, system_error};
use crate::precedence::{List, Reason};
use crate::walk::{Search, Seen, What};

/// A denied file that has other names.
struct Denied {
    file: Found,
    list: List,
    rule: Reason,
}

impl<S: System> PathResolver<'_, S> {
    /// Denies the other names of denied files that lie in folders which can be written.
    ///
    /// # Errors
    /// When there is too much to look through.
    pub fn deny_other_names(&mut self) -> Result<(), ResolveError> {
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
        for (path, found) in self.names_in_writable_folders()? {
            let same = |denied: &&Denied| denied.file.identity == found.identity && denied.file.path != path;
            if let Some(Denied { list, rule, file }) = denied.iter().find(same) {
                let reason = format!("{rule}, of which it is another name: {}", shown(&file.path));
                self.say(*list, found, reason);
            } else if found.kind == Kind::Folder {
                self.say(List::DenyRead, found, "other names of denied files may be in it");
            }
        }
        Ok(())
    }

    /// All files in folders that can be written; and those folders that nobody can look through now, but the sandbox may.
    fn names_in_writable_folders(&self) -> Result<Vec<(PathBuf, Found)>, ResolveError> {
        const SEARCH: &str = "other names of denied files";
        let roots: Vec<&Path> =
            self.said.iter().filter(|(_, said)| said.allow_write.is_some()).map(|(path, _)| path).collect();
        let everything: Vec<PathPattern> =
            roots.iter().filter_map(|root| PathPattern::parse_in(root, "**").ok()).collect();
        let mut names = Vec::new();
        for Seen { path, what } in S::walk(self, &Search::of(&everything.iter().collect::<Vec<_>>()))?.seen {
            let (index, is_whole) = match what {
                What::Match(index) => (index, false),
                What::PerhapsBelow(index) => (index, true),
                _ => continue,
            };
            let found = match self
                .disk
                .below(everything[index].literal_prefix(), &path)
                .map_err(system_error(SEARCH, &path))?
            {
                FoundAgain::Found(found) if is_whole == (found.kind == Kind::Folder) => Some(found),
                FoundAgain::Forbidden => self.disk.shut_folder(&path).map_err(system_error(SEARCH, &path))?,
                FoundAgain::Found(_) | FoundAgain::Link(_) | FoundAgain::Gone => None,
            };
            names.extend(found.map(|found| (found.path.clone(), found)));
        }
        Ok(names)
    }

    /// A denied file is protected under the names that are denied; another name would lead around the rule.
    ///
    /// # Errors
    /// That a file has one.
    pub fn check_hard_links(&self) -> Result<(), ResolveError> {
        if self.files.other_names == OtherNames::Deny {
            return Ok(());
        }
        let writes = self.said.values().any(|said| said.allow_write.is_some())
            || self.files.mounts.iter().any(|mount| mount.access == MountAccess::ReadWrite);
        let rule =
            |said: &PathRules<S>| said.deny_read.clone().or(said.deny_write.clone().filter(|_| writes));
        for said in self.said.values() {
            let (Some(rule), Some(found)) = (rule(said), &said.found) else { continue };
            if found.kind == Kind::Folder || found.links < 2 {
                continue;
            }
            let same = |other: &&PathRules<S>| {
                // What is hidden is hidden only where reading is denied; what cannot be read cannot be written either.
                !other.second_path
                    && (other.deny_read.is_some() || (said.deny_read.is_none() && other.deny_write.is_some()))
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
