//! What stays as it is although it lies in what can be written: git's hooks and settings, and names that a policy keeps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, Missing, Precedence, Reach, ReadModel, SearchScope};
use kennel_resolve::error::{ResolveError, system_error};

use super::created::{self, MissingFolders};
use super::folder::OpenFolders;
use super::git::shared::Change;
use super::git::{self, Keep, Personal, Place, RepoProtection, Request, SharedRepository};
use super::guard_rules::{Anchor, Finding, ObeyedAnywhere};
use super::known::{Handback, Known, ObeyedNames};
use super::locate::{identity, locate_plain};
use super::path_rules::{List, PathAccess, Resolver, shown};
use super::told::remembered;
use super::{Found, Kind, Location, crew, locate};

/// As many repositories are read in one go, by one thread.
const TOGETHER: usize = 16;

impl Resolver<'_> {
    /// Keeps names as they are, those of the first folders whether they are there or not. Returns what is looked for at
    /// the end of the run, where new ones may come into being.
    pub(super) fn keep_names(
        &mut self,
        found: &[PathBuf],
        told: &[PathBuf],
    ) -> Result<Option<ObeyedNames>, ResolveError> {
        let Some(kept) = self.kept_names() else { return Ok(None) };
        let roots = self.writable_folders();
        let in_folder =
            |folder: &PathBuf| kept.names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        let own: Vec<PathBuf> = kept.folders.iter().flat_map(in_folder).collect();
        let (mut folders, mut last) = (OpenFolders::default(), None);
        for path in own.iter().chain(found) {
            let rule = format!("deny_write {} ({})", shown(path), kept.origin);
            let looked = folders.look(path).map_err(system_error(&rule, path))?;
            self.keep(path, rule.into(), looked, &roots, &mut last)?;
        }
        if kept.reach != Reach::Everywhere {
            return Ok(None);
        }
        let there = found.iter().chain(own.iter().filter(|path| path.symlink_metadata().is_ok()));
        // What is hidden the sandbox did not write, and what it holds is not for a report.
        let is_hidden = |path: &&PathBuf| matches!(self.verdict(path), PathAccess::Hidden(_));
        let (hidden, told): (Vec<&PathBuf>, Vec<&PathBuf>) = told.iter().partition(is_hidden);
        let there = there.chain(hidden);
        Ok(Some(ObeyedNames {
            opened: kept.folders,
            own: self.sandboxes_own(),
            known: there.cloned().collect(),
            told: remembered(&told),
            rule: format!("a name that programs obey ({})", kept.origin).into(),
        }))
    }

    /// Keeps what git on the host would run as it is. Returns what has to be looked through when the run is over.
    pub(super) fn keep_repositories(&mut self, places: &[Place]) -> Result<Option<Handback>, ResolveError> {
        let level = self.files.git;
        let roots = if level == GitLevel::Off { BTreeSet::new() } else { self.writable_folders() };
        if roots.is_empty() {
            return Ok(None);
        }
        let mut known = HashMap::new();
        // Under the other precedence a name opens nothing.
        let named =
            if self.files.precedence == Precedence::Specific { self.named.clone() } else { BTreeMap::new() };
        let above = self.repositories_above(&roots);
        let mut requests = Vec::with_capacity(places.len() + above.len());
        for place in places.iter().chain(&above) {
            match self.git_request(place, &roots) {
                Some(request) => requests.push(request),
                None => drop(known.insert(place.path().to_path_buf(), Known::Opened)),
            }
        }
        let personal = git::personal();
        let mut keep = Vec::new();
        for wishes in survey(level, &requests, &personal) {
            for (path, found) in wishes.known {
                remember(&mut known, path, found, &named);
            }
            keep.extend(wishes.keep);
            let rewritten = wishes.rewritten.into_iter();
            self.rewritten.extend(rewritten.map(|(path, rule)| Finding { path, rule }));
            self.not_understood.extend(wishes.not_understood);
            for shared in &wishes.shared {
                self.share(shared)?;
            }
            for link in wishes.hold {
                self.hold_link_at(&link, "git: a link to a repository")?;
            }
        }
        if level == GitLevel::MetadataReadOnly {
            let mut folders = OpenFolders::default();
            keep.extend(roots.iter().map(|root| {
                let path = root.join(".git");
                Keep {
                    looked: folders.look(&path),
                    path,
                    why: "git: no repository may be created here".into(),
                }
            }));
        }
        // By their text, which is quicker to hash than components.
        let paths: HashSet<&OsStr> = HashSet::with_capacity(keep.len());
        let first = keep.iter().scan(paths, |paths, keep| Some(paths.insert(keep.path.as_os_str())));
        let first: Vec<bool> = first.collect();
        let mut last = None;
        for (Keep { path, why, looked }, _) in keep.into_iter().zip(first).filter(|(_, first)| *first) {
            let looked = looked.map_err(system_error(&why, &path))?;
            self.keep(&path, why, looked, &roots, &mut last)?;
        }
        // With the folders that were opened for commits in worktrees.
        let roots = self.last_looked_through()?;
        Ok(Some(Handback { level, roots, known, personal, names: None }))
    }

    /// What has to be looked through when the run is over, with the names that programs obey.
    pub(super) fn with_names(
        &self,
        handback: Option<Handback>,
        names: Option<ObeyedNames>,
    ) -> Result<Option<Handback>, ResolveError> {
        let Some(names) = names.filter(|names| !names.opened.is_empty()) else { return Ok(handback) };
        let handback = match handback {
            Some(handback) => handback,
            None => Handback {
                level: GitLevel::Off,
                roots: self.last_looked_through()?,
                known: HashMap::new(),
                personal: Personal::default(),
                names: None,
            },
        };
        Ok(Some(Handback { names: Some(names), ..handback }))
    }

    /// Folders that are kept for sandboxes, which no program on the host goes by, and where they show.
    fn sandboxes_own(&self) -> Vec<(PathBuf, PathBuf)> {
        let own = self.files.mounts.iter().filter(|mount| mount.missing == Missing::Create);
        let place = |target: &PathBuf| match locate(target) {
            Ok(Location::Found(found)) => found.path,
            _ => target.clone(),
        };
        own.map(|mount| (mount.source.clone(), place(&mount.target))).collect()
    }

    /// The names that programs obey, for the guard.
    pub(super) fn guarded_names(&self, names: &ObeyedNames) -> Result<ObeyedAnywhere, ResolveError> {
        let mut opened = Vec::with_capacity(names.opened.len());
        for path in &names.opened {
            opened.extend(
                locate_plain(path).map_err(system_error(&names.rule, path))?.map(|found| identity(&found)),
            );
        }
        let host_devices = super::guarded::devices(self.mount_table()?);
        let own = names.own.iter().map(|(_, target)| target.clone()).collect();
        Ok(ObeyedAnywhere { opened, own, host_devices, rule: names.rule.clone() })
    }

    fn last_looked_through(&self) -> Result<Vec<Anchor>, ResolveError> {
        let mut roots: Vec<PathBuf> = self.writable_folders().into_iter().collect();
        roots.dedup_by(|below, above| below.starts_with(above));
        let root = |path: PathBuf| locate_plain(&path).map_err(system_error("git", &path));
        let roots: Vec<Found> =
            roots.into_iter().filter_map(|path| root(path).transpose()).collect::<Result<_, _>>()?;
        let roots = roots.into_iter().map(anchor);
        Ok(roots.collect())
    }

    /// Has commits in a worktree work, as far as no rule that somebody wrote says otherwise.
    fn share(&mut self, shared: &SharedRepository) -> Result<(), ResolveError> {
        const RULE: &str = "git: commits in a worktree write there";
        let path = &shared.folder;
        let Location::Found(common) = locate(path).map_err(system_error("git", path))? else { return Ok(()) };
        if self.files.reads == ReadModel::Listed
            // What somebody denied stays denied, whatever a worktree points to.
            && !matches!(self.verdict(path), PathAccess::Hidden(_))
        {
            self.say(List::AllowRead, common.clone(), "a worktree's repository");
        }
        let denied = |this: &Self, path: &Path| this.said.upwards(path).any(|said| said.deny_write.is_some());
        if self.writes(path) || denied(self, path) {
            return Ok(());
        }
        for folder in &shared.open {
            if folder.ends_with(git::shared::LOGS) && self.missing_folders == MissingFolders::Create {
                // Git itself would make it with the first commit.
                let _ = created::make_as_git(folder);
            }
            if let Location::Found(found) = locate(folder).map_err(system_error("git", folder))?
                // A link is none of git's.
                && found.path == *folder
                && found.kind == Kind::Folder
                && !denied(self, folder)
            {
                self.without_links.insert(found.path.clone());
                self.say(List::AllowWrite, found, RULE);
            }
        }
        let changed = git::shared::FILES.iter().filter(|file| file.change != Change::None);
        if !changed.into_iter().any(|file| denied(self, &path.join(file.name))) {
            self.shared_repositories.push(anchor(common));
        }
        Ok(())
    }
}

fn anchor(found: Found) -> Anchor {
    Anchor { identity: identity(&found), path: found.path }
}

/// Reads repositories, on several threads where there are many; the answers are in the order of the questions.
fn survey(level: GitLevel, requests: &[Request], personal: &Personal) -> Vec<RepoProtection> {
    let parts: Vec<(usize, &[Request])> = requests.chunks(TOGETHER).enumerate().collect();
    let mut surveyed = crew::work(parts, |(index, part), _, surveyed| {
        surveyed.push((index, git::wishes(level, part, personal, OpenFolders::default())));
    });
    surveyed.sort_unstable_by_key(|(index, _)| *index);
    surveyed.into_iter().map(|(_, wishes)| wishes).collect()
}

/// Remembers what was found at a place. A folder may be told twice, by itself and with the work tree that leads to it:
/// then the work tree counts. What a rule opens by its name is not compared at the end.
fn remember(
    known: &mut HashMap<PathBuf, Known>,
    path: PathBuf,
    mut found: Known,
    named: &BTreeMap<PathBuf, SearchScope>,
) {
    if let Known::Folder(parts) = &mut found {
        let opened = named.keys().filter_map(|named| named.strip_prefix(&path).ok());
        parts.opened = opened.map(Path::to_path_buf).collect();
        if let Some(Known::Folder(old)) = known.get(&path)
            && old.top != path
        {
            return;
        }
    }
    known.insert(path, found);
}
