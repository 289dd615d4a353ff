//! What stays as it is although it lies in what can be written: git's hooks and settings, and names that a policy keeps.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, ReadModel};
use kennel_resolve::disk::{FileIdentity, Found, Kind, Location, Lookup};
use kennel_resolve::git::shared::Change;
use kennel_resolve::git::{self, Place, Request, SharedRepository};
use kennel_resolve::precedence::{List, PathAccess, Reason};

use super::Resolver;
use super::repositories::Repositories;
use crate::profile::error::{ResolveError, shown, system_error};

impl Resolver<'_> {
    /// Keeps names as they are, those of the first folders whether they are there or not.
    pub(super) fn keep_names(&mut self, found: &[PathBuf]) -> Result<(), ResolveError> {
        let Some(kept) = self.kept_names() else { return Ok(()) };
        let roots = self.writable_folders();
        let in_folder =
            |folder: &PathBuf| kept.names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        let own: Vec<PathBuf> = kept.folders.iter().flat_map(in_folder).collect();
        let mut last = None;
        for path in own.iter().chain(found) {
            let rule = format!("deny_write {} ({})", shown(path), kept.origin);
            let looked = self.disk.lookup(path).map_err(system_error(&rule, path))?;
            self.keep(path, rule.into(), looked, &roots, &mut last)?;
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
        let above = self.repositories_above(&roots);
        let all = places.iter().chain(&above);
        let requests: Vec<Request> = all.filter_map(|place| self.git_request(place, &roots)).collect();
        let disk = Repositories { disk: self.mac, home: self.around.homes.first().cloned() };
        let personal = git::personal(&disk, self.personal_files());
        let wishes = git::wishes(level, &requests, &personal, disk);
        let mut keep: Vec<(PathBuf, Reason, std::io::Result<Lookup>)> =
            wishes.keep.into_iter().map(|keep| (keep.path, keep.why, keep.looked)).collect();
        for shared in &wishes.shared {
            self.share(shared)?;
        }
        for link in wishes.hold {
            self.hold_link_at(&link, "git: a link to a repository")?;
        }
        if level == GitLevel::MetadataReadOnly {
            keep.extend(roots.iter().map(|root| {
                let path = root.join(".git");
                let looked = self.disk.lookup(&path);
                (path, "git: no repository may be created here".into(), looked)
            }));
        }
        let (mut first, mut last) = (HashSet::new(), None);
        for (path, why, looked) in keep {
            if first.insert(path.clone()) {
                let looked = looked.map_err(system_error(&why, &path))?;
                self.keep(&path, why, looked, &roots, &mut last)?;
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

    /// Has commits in a worktree work, as far as no rule that somebody wrote says otherwise.
    fn share(&mut self, shared: &SharedRepository) -> Result<(), ResolveError> {
        let Location::Found(common) = self.locate("git", &shared.folder)? else { return Ok(()) };
        if self.files.reads == ReadModel::Listed
            // What somebody denied stays denied, whatever a worktree points to.
            && !matches!(self.verdict(&common.path), PathAccess::Hidden(_))
        {
            self.say(List::AllowRead, common.clone(), "a worktree's repository");
        }
        let changed = git::shared::FILES.iter().filter(|file| file.change != Change::None);
        let files = changed.flat_map(|file| [file.name, file.lock, file.new]);
        // A name by itself: Seatbelt allows what does not exist yet, and only under this name.
        let file = |name| Found {
            path: common.path.join(name),
            kind: Kind::File,
            identity: FileIdentity::default(),
            links: 1,
        };
        let files: Vec<Found> = files.map(file).collect();
        let mut open = Vec::new();
        for folder in &shared.open {
            match self.locate("git", folder)? {
                // A link is none of git's.
                Location::Found(found) if found.path == *folder => open.push(found),
                _ => {}
            }
        }
        for found in open.into_iter().chain(files) {
            if !self.said.upwards(&found.path).any(|said| said.deny_write.is_some()) {
                self.say(List::AllowWrite, found, "git: commits in a worktree write there");
            }
        }
        Ok(())
    }
}
