//! Other names of denied files, for policies that were not written for kennel.
//!
//! A rule is about a name, and a file can have several. kennel's own policies are refused if a denied file has a name that is
//! not denied; but whoever has a package manager that links files, or a pattern that matches such a file, could not start
//! anything under the name of another program. There the other names are looked for where they matter most, in what can be
//! written, and denied as well. What lies elsewhere is left: no run could have made it.

use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::OtherNames;

use super::error::{ResolveError, system_error};
use super::locate::{Below, Found, locate_below, shut_folder};
use super::path_rules::{List, Resolver, shown};
use super::walk::{self, Search, Seen, What};
use super::{Kind, Reason};

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
        for Seen { path, what } in walk::walk(&Search::of(&everything.iter().collect::<Vec<_>>()))?.seen {
            let (index, is_whole) = match what {
                What::Match(index) => (index, false),
                What::PerhapsBelow(index) => (index, true),
                _ => continue,
            };
            let found = match locate_below(everything[index].literal_prefix(), &path)
                .map_err(system_error(SEARCH, &path))?
            {
                Below::Found(found) if is_whole == (found.kind == Kind::Folder) => Some(found),
                Below::Forbidden => shut_folder(&path).map_err(system_error(SEARCH, &path))?,
                Below::Found(_) | Below::Link(_) | Below::Gone => None,
            };
            names.extend(found.map(|found| (found.path.clone(), found)));
        }
        Ok(names)
    }
}
