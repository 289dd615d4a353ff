//! What is found by looking around: what globs match, and the git repositories in what can be written.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, MountAccess, Precedence, SearchScope};

use super::error::{ResolveError, system_error};
use super::globs::{BehindLink, Glob, Links};
use super::locate::{Below, locate, locate_below};
use super::path_rules::{Linked, List, Resolver, UnmountableRule, describe};
use super::special::Meaning;
use super::walk::{self, Search, Seen, What};
use super::{Found, Kind, Location, Reason, git, is_link};

/// What a walk found that is to stay as it is.
#[derive(Default)]
pub(super) struct RepoSearch {
    pub repositories: Vec<git::Place>,
    /// Paths of the names that [`FilePolicy::kept_names`](kennel_policy::policy::FilePolicy) speaks of.
    pub kept: Vec<PathBuf>,
    /// How many entries of folders were seen.
    pub entries: usize,
}

/// What globs of the allow lists match.
type Allowed = HashSet<(List, PathBuf)>;

impl<'a> Resolver<'a> {
    /// Expands the globs and finds the repositories in what can be written, in one walk.
    pub(super) fn search(&mut self) -> Result<RepoSearch, ResolveError> {
        let globs = self.globs()?;
        let git = self.files.git != GitLevel::Off;
        let repositories = if git { self.writable_folders() } else { BTreeSet::new() };
        let kept = self.kept_names();
        let kept = kept.as_ref();
        if globs.is_empty() && repositories.is_empty() && kept.is_none() {
            return Ok(RepoSearch::default());
        }
        let mut held = HashSet::new();
        for Glob { list, rule, .. } in globs.iter().filter(|glob| glob.list.denies()) {
            if held.insert(rule.pattern.literal_prefix()) {
                self.hold_way(rule.pattern.literal_prefix(), *list, &describe(*list, rule));
            }
        }
        let patterns: Vec<_> = globs.iter().map(|glob| &*glob.pattern).collect();
        let chosen = |choose: fn(&Glob) -> bool| -> BTreeSet<usize> {
            globs.iter().enumerate().filter(|(_, glob)| choose(glob)).map(|(index, _)| index).collect()
        };
        let writable = |glob: &Glob| glob.list == List::AllowWrite && glob.rule.look != SearchScope::Nowhere;
        let closed = self.kernel.hidden();
        let search = Search {
            kept,
            repositories: &repositories,
            repositories_in: &if git { chosen(writable) } else { BTreeSet::new() },
            denies: &chosen(|glob| glob.list.denies()),
            closed: &closed,
            ..Search::of(&patterns)
        };
        let walked = walk::walk(&search)?;
        let (mut matches, mut looked) = (Vec::new(), RepoSearch::default());
        looked.entries = walked.entries;
        for Seen { path, what } in walked.seen {
            match what {
                What::Match(index) => matches.push((index, path)),
                // Who is to be kept out of what lies below is kept out of all of it.
                What::PerhapsBelow(index) if globs[index].list.denies() => matches.push((index, path)),
                What::PerhapsBelow(_) => {}
                What::PerhapsGitBelow => looked.repositories.push(git::Place::Unknown(path)),
                What::DotGit => looked.repositories.push(git::Place::DotGit(path)),
                What::Bare => looked.repositories.push(git::Place::Bare(path)),
                What::Kept | What::PerhapsKeptBelow => looked.kept.push(path),
            }
        }
        let mut links = Links::default();
        let behind_links = links.follow(&globs, walked.links, &closed)?;
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
            let told = describe(*list, rule).into();
            self.linked.push(Linked { path: by_link, list: *list, rule: told });
            denied.extend(self.matched(&globs[glob], &below, &path, &allowed)?);
        }
        self.hold_links_to(&globs, &links, &denied);
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
            || self.is_opposed(list, path) || allowed.contains(&(list.opposite(), path.to_path_buf()));
        // Where a tie shows what both lists name, a folder that covers this may be shown again.
        let reopened = || {
            self.files.precedence == Precedence::DenyWrite
                && list == List::DenyRead
                && path.ancestors().skip(1).any(|above| {
                    self.is_opposed(list, above) || allowed.contains(&(list.opposite(), above.to_path_buf()))
                })
        };
        // Nor is all said about a link: what it leads to is denied as well. A glob that is about whole folders means these.
        let leads_on = || list.denies() && !rule.pattern.as_path().ends_with("**") && is_link(path);
        let meant = |found: &Found| !glob.pattern.is_of_folders() || found.kind == Kind::Folder;
        if path.parent().is_some_and(|above| self.covered(list, above))
            && !opposed()
            && !leads_on()
            && !reopened()
            && !rule.without_exceptions
        {
            return Ok(denied);
        }
        let reason = describe(list, rule);
        match locate_below(prefix, path).map_err(system_error(&reason, path))? {
            Below::Found(found) if !meant(&found) => return Ok(None),
            Below::Found(found) => {
                let place = found.path.clone();
                // A glob that reaches into what kennel provides is about the sandbox's own.
                match self.meaning(list, &found.path, Some(found.identity.device)) {
                    Meaning::Ordinary => {
                        if list.denies() {
                            self.denied.push((list, found.path.clone(), rule));
                        }
                        self.say(list, found, reason);
                    }
                    Meaning::Hide => self.say(List::DenyRead, found, reason),
                    Meaning::Own | Meaning::Refused(_) => {}
                }
                self.note_hidden(rule, &place);
            }
            // An earlier run may have made it: what an allow list matches is never a link.
            Below::Link(_) if !list.denies() => {}
            Below::Link(link) => {
                let found = locate(path).map_err(system_error(&reason, path))?;
                if matches!(&found, Location::Found(found) if !meant(found)) {
                    return Ok(None);
                }
                let told: Reason = reason.clone().into();
                self.linked.push(Linked { path: link.clone(), list, rule: told.clone() });
                self.loose.push(UnmountableRule { path: link, list, rule: told, link: true });
                if let Location::Found(found) = found
                    && self.meaning(list, &found.path, Some(found.identity.device)) == Meaning::Ordinary
                {
                    let place = found.path.clone();
                    self.denied.push((list, place.clone(), rule));
                    self.say(list, found, reason);
                    self.note_hidden(rule, &place);
                }
            }
            Below::Forbidden if list.denies() => self.deny_shut_folder(list, rule, reason, path)?,
            Below::Gone | Below::Forbidden => {}
        }
        Ok(denied)
    }

    /// The folders that rules and mounts open for writing, as far as repositories are looked for there.
    pub(super) fn writable_folders(&self) -> BTreeSet<PathBuf> {
        let rules = self.said.values().filter(|said| said.allow_write.is_some());
        let found = rules.filter_map(|said| self.looked_through(said.found.as_ref()?));
        let mounts = self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        let sources = mounts.filter_map(|mount| match locate(&mount.source) {
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
