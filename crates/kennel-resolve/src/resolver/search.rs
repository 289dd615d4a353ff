//! What is found by looking around: what globs match, the git repositories in what can be written, and names that are kept.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, MountAccess, Precedence, SearchScope};

use super::globs::{BehindLink, Glob, Links};
use super::{Linked, PathResolver, System};
use crate::disk::{Found, FoundAgain, Kind, Location};
use crate::error::{ResolveError, system_error};
use crate::git::Place;
use crate::precedence::{List, Reason};
use crate::walk::{Kept, Search, Seen, What};

/// What a walk found that is to stay as it is.
#[derive(Default)]
pub struct Looked {
    /// Places of repositories.
    pub repositories: Vec<Place>,
    /// Paths of the names that [`FilePolicy::kept_names`](kennel_policy::policy::FilePolicy::kept_names) speaks of.
    pub kept: Vec<PathBuf>,
    /// Paths of the names of which the caller is told how they changed.
    pub told: Vec<PathBuf>,
    /// How many entries of folders were seen.
    pub entries: usize,
}

/// What globs of the allow lists match.
type Allowed = HashSet<(List, PathBuf)>;

impl<'a, S: System> PathResolver<'a, S> {
    /// Expands the globs and finds the repositories in what can be written and the names that are kept, in one walk.
    ///
    /// # Errors
    /// When there is too much to look through, or a rule cannot be kept.
    pub fn search(&mut self, globs: &[Glob<'a>], kept: Option<&Kept>) -> Result<Looked, ResolveError> {
        let git = self.files.git != GitLevel::Off;
        let repositories = if git { self.writable_folders() } else { BTreeSet::new() };
        if globs.is_empty() && repositories.is_empty() && kept.is_none() {
            return Ok(Looked::default());
        }
        let mut held = HashSet::new();
        for Glob { list, rule, .. } in globs.iter().filter(|glob| glob.list.denies()) {
            if held.insert(rule.pattern.literal_prefix()) {
                self.hold_way(rule.pattern.literal_prefix(), *list, &list.describe(rule));
            }
        }
        let patterns: Vec<_> = globs.iter().map(|glob| &*glob.pattern).collect();
        let chosen = |choose: fn(&Glob) -> bool| -> BTreeSet<usize> {
            globs.iter().enumerate().filter(|(_, glob)| choose(glob)).map(|(index, _)| index).collect()
        };
        let writable = |glob: &Glob| glob.list == List::AllowWrite && glob.rule.look != SearchScope::Nowhere;
        let search = Search {
            kept,
            repositories: &repositories,
            repositories_in: &if git { chosen(writable) } else { BTreeSet::new() },
            denies: &chosen(|glob| glob.list.denies()),
            ..Search::of(&patterns)
        };
        let walked = S::walk(self, &search)?;
        let (mut matches, mut looked) = (Vec::new(), Looked::default());
        looked.entries = walked.entries;
        for Seen { path, what } in walked.seen {
            match what {
                What::Match(index) => matches.push((index, path)),
                // Who is to be kept out of what lies below is kept out of all of it.
                What::PerhapsBelow(index) if globs[index].list.denies() => matches.push((index, path)),
                What::PerhapsBelow(_) => {}
                What::PerhapsGitBelow => looked.repositories.push(Place::Unknown(path)),
                What::DotGit => looked.repositories.push(Place::DotGit(path)),
                What::Bare => looked.repositories.push(Place::Bare(path)),
                What::Kept | What::PerhapsKeptBelow => looked.kept.push(path),
                What::Told => looked.told.push(path),
            }
        }
        let mut links = Links::default();
        let behind_links = links.follow(self, globs, walked.links)?;
        let mut denied = BTreeSet::new();
        let allows = |(index, path): &(usize, PathBuf)| {
            let list = globs[*index].list;
            (!list.denies()).then(|| (list, path.clone()))
        };
        let allowed: Allowed = matches.iter().filter_map(allows).collect();
        for (index, path) in matches {
            let prefix = globs[index].pattern.literal_prefix();
            // A file system that does not answer may lie elsewhere, behind a link.
            let prefix = if path.starts_with(prefix) { prefix } else { &path };
            denied.extend(self.matched(&globs[index], prefix, &path, &allowed)?);
        }
        for BehindLink { glob, path, below, by_link } in behind_links {
            let Glob { list, rule, .. } = &globs[glob];
            let told = list.describe(rule).into();
            self.linked.push(Linked { path: by_link, list: *list, rule: told });
            denied.extend(self.matched(&globs[glob], &below, &path, &allowed)?);
        }
        self.hold_links_to(globs, &links, &denied);
        Ok(looked)
    }

    /// Says what a glob says of something that it matches below `prefix`. Returns what is denied.
    fn matched(
        &mut self,
        glob: &Glob<'a>,
        prefix: &Path,
        path: &Path,
        allowed: &Allowed,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let (list, rule) = (glob.list, glob.rule);
        let denied = list.denies().then(|| path.to_path_buf());
        // Below what another match of the same list already covers there is nothing to add, unless the opposite list names
        // this very path: then it is a tie, which has to be known to be decided.
        let opposed =
            || self.said.is_opposed(list, path) || allowed.contains(&(list.opposite(), path.to_path_buf()));
        // Where a tie shows what both lists name, a folder that covers this may be shown again.
        let reopened = || {
            self.files.precedence == Precedence::DenyWrite
                && list == List::DenyRead
                && path.ancestors().skip(1).any(|above| {
                    self.said.is_opposed(list, above)
                        || allowed.contains(&(list.opposite(), above.to_path_buf()))
                })
        };
        // Nor is all said about a link: what it leads to is denied as well. A glob that is about whole folders means these.
        let leads_on = || list.denies() && !rule.pattern.as_path().ends_with("**") && self.disk.is_link(path);
        let meant = |found: &Found| !glob.pattern.is_of_folders() || found.kind == Kind::Folder;
        if path.parent().is_some_and(|above| self.said.covered(list, above))
            && !opposed()
            && !leads_on()
            && !reopened()
            && !rule.without_exceptions
        {
            return Ok(denied);
        }
        let reason = list.describe(rule);
        match self.disk.below(prefix, path).map_err(system_error(&reason, path))? {
            FoundAgain::Found(found) if !meant(&found) => return Ok(None),
            // A glob that reaches into what kennel provides is about the sandbox's own.
            FoundAgain::Found(found) => match S::admit_match(self, list, &found) {
                Some(applied) if applied == list => self.say_denied(list, rule, reason, found),
                other => {
                    let place = found.path.clone();
                    if let Some(applied) = other {
                        self.say(applied, found, reason);
                    }
                    self.note_hidden(rule, &place);
                }
            },
            // An earlier run may have made it: what an allow list matches is never a link.
            FoundAgain::Link(_) if !list.denies() => {}
            FoundAgain::Link(link) => {
                let found = self.locate(&reason, path)?;
                if matches!(&found, Location::Found(found) if !meant(found)) {
                    return Ok(None);
                }
                let told: Reason = reason.clone().into();
                self.linked.push(Linked { path: link.clone(), list, rule: told.clone() });
                self.hold_link(link, list, told);
                if let Location::Found(found) = found
                    && S::admit_match(self, list, &found) == Some(list)
                {
                    self.say_denied(list, rule, reason, found);
                }
            }
            FoundAgain::Forbidden if list.denies() => self.deny_shut_folder(list, rule, reason, path)?,
            FoundAgain::Gone | FoundAgain::Forbidden => {}
        }
        Ok(denied)
    }

    /// The folders that rules and mounts open for writing, as far as repositories are looked for there.
    #[must_use]
    pub fn writable_folders(&self) -> BTreeSet<PathBuf> {
        let rules = self.said.values().filter(|said| said.allow_write.is_some());
        let found = rules.filter_map(|said| self.looked_through(said.found.as_ref()?));
        let mounts = self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        let sources = mounts.filter_map(|mount| match self.disk.locate(&mount.source) {
            Ok(Location::Found(found)) if found.kind == Kind::Folder => Some(found.path),
            _ => None,
        });
        found.chain(sources).collect()
    }

    /// The part of a writable folder in which repositories are looked for.
    fn looked_through(&self, found: &Found) -> Option<PathBuf> {
        let (path, workdir) = (&found.path, self.workdir.as_ref());
        match self.named.get(path) {
            _ if found.kind != Kind::Folder => None,
            None | Some(SearchScope::Everywhere) => Some(path.clone()),
            Some(SearchScope::InWorkdir) if workdir.is_some_and(|workdir| path.starts_with(workdir)) => {
                Some(path.clone())
            }
            Some(SearchScope::InWorkdir) => workdir.filter(|workdir| workdir.starts_with(path)).cloned(),
            Some(SearchScope::Nowhere) => None,
        }
    }
}
