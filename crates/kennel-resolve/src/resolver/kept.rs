//! What stays as it is although it lies in what can be written: git's hooks and settings, and names that a policy keeps.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{GitLevel, KeptIn, KeptNames, Missing, Precedence};

use super::{PathResolver, System};
use crate::disk::{HolderFolder, Location, Lookup};
use crate::error::{ResolveError, system_error};
use crate::git::{Place, Request};
use crate::precedence::{List, Reason};
use crate::walk::Kept;

/// The folder that the last path was in, and whether it can be written: the next is mostly in the same.
pub type LastHolder = Option<(PathBuf, bool)>;

impl<S: System> PathResolver<'_, S> {
    /// The names that are kept, and the folders, by their paths without links.
    #[must_use]
    pub fn kept_names(&self) -> Option<Kept> {
        let KeptNames { folders, names, reach, origin } = self.files.kept_names.clone()?;
        let folders = match folders {
            KeptIn::Start => BTreeSet::from([self.workdir.clone().unwrap_or_else(|| self.cwd.to_path_buf())]),
            KeptIn::WriteRoots => {
                // What is kept for sandboxes no program on the host goes by.
                let own = self.files.mounts.iter().filter(|mount| mount.missing == Missing::Create);
                let own: Vec<&Path> = own.map(|mount| mount.source.as_path()).collect();
                let is_own = |path: &PathBuf| own.iter().any(|source| path.starts_with(source));
                self.writable_folders().into_iter().filter(|path| !is_own(path)).collect()
            }
        };
        Some(Kept { folders, names, reach, origin })
    }

    /// The repositories that folders which can be written lie in.
    #[must_use]
    pub fn repositories_above(&self, roots: &BTreeSet<PathBuf>) -> BTreeSet<Place> {
        let above = |root: &PathBuf| {
            let above = root.ancestors().skip(1).map(|above| above.join(".git"));
            above.filter(|path| self.disk.look(path).is_ok()).map(Place::Above).next()
        };
        roots.iter().filter_map(above).collect()
    }

    /// What is asked of git about a place; `None` where a rule opens all of it.
    #[must_use]
    pub fn git_request<'p>(&self, place: &'p Place, roots: &BTreeSet<PathBuf>) -> Option<Request<'p>> {
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

    /// A deny of writing that no list holds. Outside `roots` and what else can be written there is nothing to deny.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(
        &mut self,
        path: &Path,
        rule: Reason,
        looked: Lookup,
        roots: &BTreeSet<PathBuf>,
        last: &mut LastHolder,
    ) -> Result<(), ResolveError> {
        let Lookup { location, link, holder } = looked;
        let holder = match &holder {
            HolderFolder::Missing => None,
            HolderFolder::Straight => path.parent(),
            HolderFolder::At(holder) => Some(holder.as_path()),
        };
        if let (true, Some(holder), Some(name)) = (link, holder, path.file_name()) {
            self.hold_link(holder.join(name), List::DenyWrite, rule.clone());
        }
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
            Location::Missing(path) => S::note_absent(self, List::DenyWrite, path, rule, Missing::Skip),
            // The command could open a folder of its user's own, which an earlier run may have shut.
            Location::Forbidden => {
                if let Some(folder) = self.disk.shut_folder(path).map_err(system_error(&rule, path))?
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

    /// Keeps a link in its place, whose folder may be reached through others.
    ///
    /// # Errors
    /// The system's.
    pub fn hold_link_at(&mut self, path: &Path, rule: &str) -> Result<(), ResolveError> {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
            && let Location::Found(folder) = self.locate(rule, folder)?
        {
            self.hold_link(folder.path.join(name), List::DenyWrite, rule.to_owned().into());
        }
        Ok(())
    }
}
