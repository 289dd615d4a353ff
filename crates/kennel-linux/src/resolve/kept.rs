//! What stays as it is although it lies in what can be written: git's hooks and settings, and names that a policy keeps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, KeptIn, KeptNames, Precedence, ReadModel, SearchScope};

use super::error::{ResolveError, system_error};
use super::folder::{Holder, Lookup, OpenFolders};
use super::git::{self, Keep, Personal, Place, RepoProtection, Request};
use super::guard_rules::{Anchor, Finding};
use super::known::{Handback, Known};
use super::locate::locate_plain;
use super::path_rules::{List, PathAccess, Resolver, UnmountableRule, shown};
use super::walk::Kept;
use super::{Found, Location, Reason, crew, locate};

/// As many repositories are read in one go, by one thread.
const TOGETHER: usize = 16;

/// The folder that the last path was in, and whether it can be written: the next is mostly in the same.
type LastHolder = Option<(PathBuf, bool)>;

impl Resolver<'_> {
    /// The names that are kept, and the folders, by their paths without links.
    pub(super) fn kept_names(&self) -> Option<Kept> {
        let KeptNames { folders, names, depth, origin } = self.files.kept_names.clone()?;
        let folders = match folders {
            KeptIn::Start => BTreeSet::from([self.workdir.clone().unwrap_or_else(|| self.cwd.to_path_buf())]),
            KeptIn::WriteRoots => self.writable_folders(),
        };
        Some(Kept { folders, names, depth, origin })
    }

    /// Keeps names as they are, those of the first folders whether they are there or not.
    pub(super) fn keep_names(&mut self, found: &[PathBuf]) -> Result<(), ResolveError> {
        let Some(kept) = self.kept_names() else { return Ok(()) };
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
        Ok(())
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
        let above: BTreeSet<Place> = roots.iter().filter_map(|root| repository_above(root)).collect();
        let mut requests = Vec::with_capacity(places.len() + above.len());
        for place in places.iter().chain(&above) {
            match self.request(place, &roots) {
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
            self.open_worktrees(&wishes.show, &wishes.open);
            for link in wishes.hold {
                self.hold(&link, "git: a link to a repository")?;
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
        let mut roots: Vec<PathBuf> = self.writable_folders().into_iter().collect();
        roots.dedup_by(|below, above| below.starts_with(above));
        let root = |path: PathBuf| locate_plain(&path).map_err(system_error("git", &path));
        let roots: Vec<Found> =
            roots.into_iter().filter_map(|path| root(path).transpose()).collect::<Result<_, _>>()?;
        let roots = roots.into_iter().map(|found| Anchor { path: found.path, identity: found.identity });
        Ok(Some(Handback { level, roots: roots.collect(), known, personal }))
    }

    /// What is asked of git about a place; `None` where a rule opens all of it.
    fn request<'a>(&self, place: &'a Place, roots: &BTreeSet<PathBuf>) -> Option<Request<'a>> {
        let folder = match place {
            Place::DotGit(path) | Place::Above(path) => path.parent().unwrap_or(path),
            Place::Bare(path) | Place::Unknown(path) => path,
        };
        // Who opens a repository's data by its name means all of it.
        let data = match place {
            Place::DotGit(path) => Some(path),
            Place::Bare(path) => Some(path).filter(|path| path.ends_with(".git")),
            Place::Unknown(_) | Place::Above(_) => None,
        };
        let by_name = data.is_some_and(|data| self.named.contains_key(data));
        let metadata = self.files.git == GitLevel::MetadataReadOnly;
        if by_name && metadata && self.files.precedence == Precedence::Specific {
            return None;
        }
        let as_one = data.is_some_and(|data| self.said.below(data).next().is_none());
        Some(Request { place, is_root: roots.contains(folder), as_one })
    }

    /// Has commits in a worktree work.
    fn open_worktrees(&mut self, show: &[PathBuf], open: &[PathBuf]) {
        for path in show.iter().filter(|_| self.files.reads == ReadModel::Listed) {
            if let Ok(Location::Found(found)) = locate(path)
                // What somebody denied stays denied, whatever a worktree points to.
                && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
            {
                self.say(List::AllowRead, found, "a worktree's repository");
            }
        }
        for path in open {
            // Rules that people wrote come first.
            let denied = self.said.upwards(path).any(|said| said.deny_write.is_some());
            if let (false, Ok(Location::Found(found))) = (denied, locate(path)) {
                self.say(List::AllowWrite, found, "git: commits in a worktree write there");
            }
        }
    }

    /// A deny of writing that no list holds. Outside `roots` and what else can be written there is nothing to deny.
    fn keep(
        &mut self,
        path: &Path,
        rule: Reason,
        looked: Lookup,
        roots: &BTreeSet<PathBuf>,
        last: &mut LastHolder,
    ) -> Result<(), ResolveError> {
        let Lookup { location, link, holder } = looked;
        if link {
            self.hold(path, &rule)?;
        }
        let holder = match &holder {
            Holder::Missing => None,
            Holder::Straight => path.parent(),
            Holder::At(holder) => Some(holder.as_path()),
        };
        if let Some(holder) = holder
            && last.as_ref().is_none_or(|(last, _)| last.as_os_str() != holder.as_os_str())
        {
            *last = Some((holder.to_path_buf(), self.is_writable(holder, roots)));
        }
        let in_holder = |place: &Path| {
            let (holder, writable) = last.as_ref()?;
            (place.parent()?.as_os_str() == holder.as_os_str()).then_some(*writable)
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
                    self.say(List::DenyWrite, found, rule);
                }
            }
            // Nothing is made in what cannot be written.
            Location::Missing(path) if in_holder(&path) == Some(false) => {}
            Location::Missing(path) => {
                self.loose.push(UnmountableRule { path, list: List::DenyWrite, rule, link: false });
            }
            // The sandbox could open a folder of its user's own, which an earlier run may have shut.
            Location::Forbidden => {
                if let Some(folder) = locate::shut_folder(path).map_err(system_error(&rule, path))?
                    && self.is_writable(&folder.path, roots)
                {
                    self.say(List::DenyWrite, folder, rule);
                }
            }
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
            let (path, list) = (folder.path.join(name), List::DenyWrite);
            self.loose.push(UnmountableRule { path, list, rule: rule.to_owned().into(), link: true });
        }
        Ok(())
    }
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

/// The repository that a folder which can be written lies in.
fn repository_above(root: &Path) -> Option<Place> {
    let above = root.ancestors().skip(1).map(|above| above.join(".git"));
    above.filter(|path| path.symlink_metadata().is_ok()).map(Place::Above).next()
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
