//! What is found by looking around: what globs match, and the git repositories in what can be written.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, Look, MountAccess, PathRule, Precedence, ReadModel};

use super::error::{ResolveError, system_error};
use super::locate::{Below, Holder, locate, locate_below};
use super::said::{List, Loose, Resolver, describe, shown};
use super::walk::{self, Search, Seen};
use super::{Found, Kind, Location, git};
use crate::guard::Finding;

/// What a walk found that is to stay as it is.
#[derive(Default)]
pub(super) struct Looked {
    pub repositories: Vec<git::Place>,
    /// Paths of the names that [`FilePolicy::kept_names`](kennel_policy::policy::FilePolicy) speaks of.
    pub kept: Vec<PathBuf>,
}

impl Resolver<'_> {
    /// Expands the globs and finds the repositories in what can be written, in one walk.
    pub(super) fn search(&mut self) -> Result<Looked, ResolveError> {
        let lists = [
            (List::DenyRead, &self.files.deny_read),
            (List::AllowRead, &self.files.allow_read),
            (List::AllowWrite, &self.files.allow_write),
            (List::DenyWrite, &self.files.deny_write),
        ];
        let globs: Vec<(List, &PathRule)> = lists
            .iter()
            .flat_map(|(list, rules)| rules.iter().map(|rule| (*list, rule)))
            .filter(|(_, rule)| rule.pattern.is_glob())
            .collect();
        let git = self.files.git != GitLevel::Off;
        let repositories = if git { self.writable_folders() } else { BTreeSet::new() };
        let kept = self.files.kept_names.as_ref();
        if globs.is_empty() && repositories.is_empty() && kept.is_none() {
            return Ok(Looked::default());
        }
        let mut held = HashSet::new();
        for (list, rule) in globs.iter().filter(|(list, _)| list.denies()) {
            if held.insert(rule.pattern.literal_prefix()) {
                self.hold_way(rule.pattern.literal_prefix(), &describe(*list, rule));
            }
        }
        let patterns: Vec<_> = globs.iter().map(|(_, rule)| &rule.pattern).collect();
        let writable = |(index, (list, rule)): (usize, &(List, &PathRule))| {
            (git && *list == List::AllowWrite && rule.look != Look::Nowhere).then_some(index)
        };
        let repositories_in = globs.iter().enumerate().filter_map(writable).collect();
        let search = Search {
            patterns: &patterns,
            kept,
            repositories: &repositories,
            repositories_in: &repositories_in,
        };
        let (mut matches, mut looked) = (Vec::new(), Looked::default());
        walk::walk(&search, |seen| match seen {
            Seen::Match(index, path) => matches.push((index, path.to_path_buf())),
            // Who is to be kept out of what lies below is kept out of all of it.
            Seen::PerhapsBelow(index, path) if globs[index].0.denies() => {
                matches.push((index, path.to_path_buf()));
            }
            Seen::PerhapsBelow(..) => {}
            Seen::PerhapsGitBelow(path) => {
                looked.repositories.push(git::Place::Unknown(path.to_path_buf()));
            }
            Seen::DotGit(path) => looked.repositories.push(git::Place::DotGit(path.to_path_buf())),
            Seen::Bare(path) => looked.repositories.push(git::Place::Bare(path.to_path_buf())),
            Seen::Kept(path) | Seen::PerhapsKeptBelow(path) => looked.kept.push(path.to_path_buf()),
        })?;
        for (index, path) in matches {
            let (list, rule) = globs[index];
            // Below what another match of the same list already covers there is nothing to add.
            if path.parent().is_some_and(|above| self.covered(list, above)) {
                continue;
            }
            let reason = describe(list, rule);
            match locate_below(rule.pattern.literal_prefix(), &path).map_err(system_error(&reason, &path))? {
                Below::Found(found) => self.say(list, found, &reason),
                // An earlier run may have made it: what an allow list matches is never a link.
                Below::Link(_) if !list.denies() => {}
                Below::Link(link) => {
                    self.loose.push(Loose { path: link, rule: reason.clone(), link: true });
                    if let Location::Found(found) = locate(&path).map_err(system_error(&reason, &path))? {
                        self.say(list, found, &reason);
                    }
                }
                Below::Gone => {}
            }
        }
        Ok(looked)
    }

    /// The folders that rules and mounts open for writing, as far as repositories are looked for there.
    fn writable_folders(&self) -> BTreeSet<PathBuf> {
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
            None | Some(Look::Everywhere) => Some(path.clone()),
            Some(Look::InWorkdir) if workdir.is_some_and(|workdir| path.starts_with(workdir)) => {
                Some(path.clone())
            }
            Some(Look::InWorkdir) => workdir.filter(|workdir| workdir.starts_with(path)).cloned(),
            Some(Look::Nowhere) => None,
        }
    }

    /// Keeps names as they are, those of the first folder whether they are there or not.
    pub(super) fn keep_names(&mut self, found: &[PathBuf]) -> Result<(), ResolveError> {
        let Some(kept) = &self.files.kept_names else { return Ok(()) };
        let roots = self.writable_folders();
        let mut holder = None;
        let own: Vec<PathBuf> = kept.names.iter().map(|name| kept.folder.join(name)).collect();
        for path in own.iter().chain(found) {
            let rule = format!("deny_write {} ({})", shown(path), kept.origin);
            self.keep(path, rule, &roots, &mut holder)?;
        }
        Ok(())
    }

    /// Keeps what git on the host would run as it is.
    pub(super) fn keep_repositories(&mut self, places: &[git::Place]) -> Result<(), ResolveError> {
        let level = self.files.git;
        if level == GitLevel::Off {
            return Ok(());
        }
        let roots = self.writable_folders();
        let personal = if places.is_empty() { Vec::new() } else { git::personal() };
        let mut holder = None;
        let mut keep = Vec::new();
        for place in places {
            let folder = match place {
                git::Place::DotGit(path) => path.parent().unwrap_or(path),
                git::Place::Bare(path) | git::Place::Unknown(path) => path,
            };
            // Who opens a repository's data by its name means all of it.
            let data = match place {
                git::Place::DotGit(path) => Some(path),
                git::Place::Bare(path) => Some(path).filter(|path| path.ends_with(".git")),
                git::Place::Unknown(_) => None,
            };
            let by_name = data.is_some_and(|data| self.named.contains_key(data));
            if by_name && level == GitLevel::MetadataReadOnly && self.files.precedence == Precedence::Specific
            {
                continue;
            }
            let wishes = git::wishes(level, place, roots.contains(folder), &personal);
            for path in wishes.show {
                if let Ok(Location::Found(found)) = locate(&path)
                    && self.files.reads == ReadModel::Listed
                {
                    self.say(List::AllowRead, found, "a worktree's repository");
                }
            }
            for path in wishes.open {
                // Rules that people wrote come first.
                let denied = self.said.upwards(&path).any(|said| said.deny_write.is_some());
                if let (false, Ok(Location::Found(found))) = (denied, locate(&path)) {
                    self.say(List::AllowWrite, found, "git: commits in a worktree write there");
                }
            }
            for link in wishes.hold {
                self.hold(&link, "git: a link to a repository")?;
            }
            keep.extend(wishes.keep);
            let rewritten = wishes.rewritten.into_iter();
            self.rewritten.extend(rewritten.map(|(path, why)| Finding { path, rule: format!("git: {why}") }));
        }
        if level == GitLevel::MetadataReadOnly {
            keep.extend(
                roots.iter().map(|root| (root.join(".git"), "no repository is made here".to_owned())),
            );
        }
        // By their text, which is quicker to hash than components.
        let mut kept: HashSet<&OsStr> = HashSet::with_capacity(keep.len());
        for (path, why) in &keep {
            if kept.insert(path.as_os_str()) {
                self.keep(path, format!("git: {why}"), &roots, &mut holder)?;
            }
        }
        Ok(())
    }

    /// A deny of writing that no list holds. Outside `roots` and what else can be written there is nothing to deny.
    /// `holder` is the folder of the last path, for one in the same.
    fn keep(
        &mut self,
        path: &Path,
        rule: String,
        roots: &BTreeSet<PathBuf>,
        holder: &mut Option<(PathBuf, Holder, bool)>,
    ) -> Result<(), ResolveError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        if holder.as_ref().is_none_or(|(last, ..)| last != folder) {
            let opened = Holder::open(folder).map_err(system_error(&rule, path))?;
            *holder = opened.map(|holder| {
                let writable = self.is_writable(&holder.path, roots);
                (folder.to_path_buf(), holder, writable)
            });
        }
        let looked = match holder {
            Some((_, holder, _)) => holder.look(name).map_err(system_error(&rule, path))?,
            None => Below::Gone,
        };
        let location = match looked {
            Below::Found(found) => Location::Found(found),
            Below::Gone if holder.is_some() => Location::Missing(path.to_path_buf()),
            Below::Gone => locate(path).map_err(system_error(&rule, path))?,
            Below::Link(_) => {
                self.hold(path, &rule)?;
                locate(path).map_err(system_error(&rule, path))?
            }
        };
        let in_holder = |place: &Path| {
            let (_, holder, writable) = holder.as_ref()?;
            (place.parent() == Some(&holder.path)).then_some(*writable)
        };
        match location {
            Location::Found(found) => {
                let opened =
                    self.files.precedence == Precedence::Specific && self.named.contains_key(&found.path);
                let writable = match in_holder(&found.path).filter(|_| self.said.get(&found.path).is_none()) {
                    Some(writable) => writable,
                    None => self.is_writable(&found.path, roots),
                };
                if !opened && writable {
                    self.say(List::DenyWrite, found, &rule);
                }
            }
            // Nothing is made in what cannot be written.
            Location::Missing(path) if in_holder(&path) == Some(false) => {}
            Location::Missing(path) => self.loose.push(Loose { path, rule, link: false }),
            Location::Forbidden => {}
        }
        Ok(())
    }

    fn is_writable(&self, path: &Path, roots: &BTreeSet<PathBuf>) -> bool {
        self.writes(path) || path.ancestors().any(|above| roots.contains(above))
    }

    /// Keeps a link in its place.
    fn hold(&mut self, path: &Path, rule: &str) -> Result<(), ResolveError> {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
            && let Location::Found(folder) = locate(folder).map_err(system_error(rule, path))?
        {
            self.loose.push(Loose { path: folder.path.join(name), rule: rule.to_owned(), link: true });
        }
        Ok(())
    }
}
