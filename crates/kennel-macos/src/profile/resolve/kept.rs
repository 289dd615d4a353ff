//! What stays as it is although it lies in what can be written: git's hooks and settings, and names that a policy keeps.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use kennel_policy::git::{self, Place, Request};
use kennel_policy::policy::{GitLevel, KeptIn, KeptNames, Precedence, ReadModel};
use kennel_policy::precedence::{List, PathAccess, Reason};

use super::locate::Location;
use super::repositories::{Lookup, Repositories};
use super::walk::Kept;
use super::{HeldLink, Resolver};
use crate::profile::error::{ResolveError, shown, system_error};

impl Resolver<'_> {
    /// The names that are kept, and the folders, by their paths without links.
    pub(super) fn kept_names(&self) -> Option<Kept> {
        let KeptNames { folders, names, depth, origin } = self.files.kept_names.clone()?;
        let folders = match folders {
            KeptIn::Start => {
                BTreeSet::from([self.workdir.clone().unwrap_or_else(|| self.around.cwd.clone())])
            }
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
        for path in own.iter().chain(found) {
            let rule = format!("deny_write {} ({})", shown(path), kept.origin);
            let looked = Lookup::of(self.disk, path).map_err(system_error(&rule, path))?;
            self.keep(path, rule.into(), looked, &roots);
        }
        Ok(())
    }

    /// Keeps what git on the host would run as it is.
    pub(super) fn keep_repositories(&mut self, places: &[Place]) -> Result<(), ResolveError> {
        let level = self.files.git;
        let roots = if level == GitLevel::Off { BTreeSet::new() } else { self.writable_folders() };
        if roots.is_empty() {
            return Ok(());
        }
        let above: BTreeSet<Place> = roots.iter().filter_map(|root| self.repository_above(root)).collect();
        let all = places.iter().chain(&above);
        let requests: Vec<Request> = all.filter_map(|place| self.request(place, &roots)).collect();
        let disk = Repositories { disk: self.disk, home: self.around.homes.first().cloned() };
        let personal = git::personal(&disk, self.personal_files());
        let wishes = git::wishes(level, &requests, &personal, disk);
        let mut keep: Vec<(PathBuf, Reason, std::io::Result<Lookup>)> =
            wishes.keep.into_iter().map(|keep| (keep.path, keep.why, keep.looked)).collect();
        self.open_worktrees(&wishes.show, &wishes.open)?;
        for link in wishes.hold {
            self.hold(&link, "git: a link to a repository")?;
        }
        if level == GitLevel::MetadataReadOnly {
            keep.extend(roots.iter().map(|root| {
                let path = root.join(".git");
                let looked = Lookup::of(self.disk, &path);
                (path, "git: no repository may be created here".into(), looked)
            }));
        }
        let mut first = HashSet::new();
        for (path, why, looked) in keep {
            if first.insert(path.clone()) {
                let looked = looked.map_err(system_error(&why, &path))?;
                self.keep(&path, why, looked, &roots);
            }
        }
        Ok(())
    }

    /// The files in which a user and a host say what git runs in every repository.
    fn personal_files(&self) -> Vec<PathBuf> {
        let home = self.around.homes.first();
        let folder = self.around.config.clone().or_else(|| home.map(|home| home.join(".config")));
        let tools = Some(Path::new("/Library/Developer/CommandLineTools")).into_iter();
        let tools = tools.chain(self.around.developer.as_deref());
        let of_tools = tools.map(|tools| tools.join("usr/share/git-core/gitconfig"));
        let host = ["/etc/gitconfig", "/opt/homebrew/etc/gitconfig", "/usr/local/etc/gitconfig"];
        of_tools
            .chain(host.into_iter().map(PathBuf::from))
            .chain(folder.map(|folder| folder.join("git/config")))
            .chain(home.map(|home| home.join(".gitconfig")))
            .collect()
    }

    /// What is asked of git about a place; `None` where a rule opens all of it.
    fn request<'p>(&self, place: &'p Place, roots: &BTreeSet<PathBuf>) -> Option<Request<'p>> {
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

    /// The repository that a folder which can be written lies in.
    fn repository_above(&self, root: &Path) -> Option<Place> {
        let above = root.ancestors().skip(1).map(|above| above.join(".git"));
        above.filter(|path| self.disk.look(path).is_ok()).map(Place::Above).next()
    }

    /// Has commits in a worktree work.
    fn open_worktrees(&mut self, show: &[PathBuf], open: &[PathBuf]) -> Result<(), ResolveError> {
        for path in show.iter().filter(|_| self.files.reads == ReadModel::Listed) {
            // What somebody denied stays denied, whatever a worktree points to.
            if let Location::Found(found) = self.locate("git", path)?
                && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
            {
                self.say(List::AllowRead, found, "a worktree's repository");
            }
        }
        for path in open {
            // Rules that people wrote come first.
            let denied = self.said.upwards(path).any(|said| said.deny_write.is_some());
            if let (false, Location::Found(found)) = (denied, self.locate("git", path)?) {
                self.say(List::AllowWrite, found, "git: commits in a worktree write there");
            }
        }
        Ok(())
    }

    /// A deny of writing that no list holds. Outside `roots` and what else can be written there is nothing to deny.
    fn keep(&mut self, path: &Path, rule: Reason, looked: Lookup, roots: &BTreeSet<PathBuf>) {
        let Lookup { location, link, folder } = looked;
        if let (true, Some(folder), Some(name)) = (link, folder, path.file_name()) {
            self.held.push(HeldLink { path: folder.join(name), rule: rule.clone() });
        }
        match location {
            Location::Found(found) => {
                let opened =
                    self.files.precedence == Precedence::Specific && self.named.contains_key(&found.path);
                if !opened && self.is_writable(&found.path, roots) {
                    self.say(List::DenyWrite, found, rule);
                }
            }
            // Nothing is made in what cannot be written.
            Location::Missing(path) => {
                if self.is_writable(path.parent().unwrap_or(&path), roots) {
                    self.say_absent(List::DenyWrite, &path, rule);
                }
            }
            // The command could open a folder of its user's own, which an earlier run may have shut.
            Location::Forbidden(Some(folder)) if self.is_writable(&folder.path, roots) => {
                self.say(List::DenyWrite, folder, rule);
            }
            Location::Forbidden(_) | Location::Loop => {}
        }
    }

    fn is_writable(&self, path: &Path, roots: &BTreeSet<PathBuf>) -> bool {
        self.writes(path) || path.ancestors().any(|above| roots.contains(above))
    }

    /// Keeps a link in its place.
    fn hold(&mut self, path: &Path, rule: &str) -> Result<(), ResolveError> {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
            && let Location::Found(folder) = self.locate(rule, folder)?
        {
            self.held.push(HeldLink { path: folder.path.join(name), rule: rule.to_owned().into() });
        }
        Ok(())
    }

    /// The part of `named` that lies at or below a path.
    pub(super) fn named_below(&self, place: &Path) -> Option<PathBuf> {
        let named: &BTreeMap<PathBuf, _> = &self.named;
        named.keys().find(|named| named.starts_with(place)).cloned()
    }
}
