//! Git repositories on a disk: what [`kennel_policy::git`] asks of it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kennel_policy::git::{EntryKind, GitDisk, Seen, Standing};

use super::locate::{Found, Location, is_missing, locate, way};
use crate::profile::disk::{Disk, Kind};

/// A disk, and whose it is.
pub(super) struct Repositories<'a> {
    pub disk: &'a dyn Disk,
    pub home: Option<PathBuf>,
}

/// What was found at a path.
pub(super) struct Lookup {
    pub location: Location,
    /// Whether the last component is a link, which led there.
    pub link: bool,
    /// The folder that holds the last component, without links.
    pub folder: Option<PathBuf>,
}

impl Lookup {
    pub fn of(disk: &dyn Disk, path: &Path) -> io::Result<Lookup> {
        let folder = match locate(disk, path.parent().unwrap_or(path))? {
            Location::Found(folder) => Some(folder.path),
            _ => None,
        };
        let way = way(disk, path)?;
        let own = folder.as_ref().and_then(|folder| Some(folder.join(path.file_name()?)));
        let link = own.is_some_and(|own| way.links.contains(&own));
        Ok(Lookup { location: way.location, link, folder })
    }
}

impl Repositories<'_> {
    fn found(&self, path: &Path) -> Option<Found> {
        match locate(self.disk, path) {
            Ok(Location::Found(found)) => Some(found),
            _ => None,
        }
    }
}

impl GitDisk for Repositories<'_> {
    type Identity = (u64, u64);
    type Lookup = Lookup;

    fn look(&mut self, path: &Path) -> io::Result<Lookup> {
        Lookup::of(self.disk, path)
    }

    fn seen(Lookup { location, link, .. }: &Lookup) -> Seen<(u64, u64)> {
        let standing = match location {
            Location::Found(found) => Some(Standing {
                identity: found.identity,
                is_file: found.kind != Kind::Folder,
                links: if found.kind == Kind::Folder { 1 } else { found.links },
            }),
            _ => None,
        };
        Seen { standing, link: *link }
    }

    fn list(&mut self, folder: &Path) -> bool {
        self.found(folder).is_some_and(|found| found.path == folder && found.kind == Kind::Folder)
    }

    fn may_hold(&self, path: &Path) -> bool {
        !self.disk.look(path).is_err_and(|error| is_missing(&error))
    }

    fn read(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        // One byte more, so that a file that is too long is known for one.
        self.disk.read(&self.found(path)?.path, most + 1).ok()
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        Ok(match self.disk.look(path)?.kind {
            Kind::Folder => EntryKind::Folder,
            Kind::Link => EntryKind::Link,
            Kind::Socket | Kind::File => EntryKind::Other,
        })
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.found(path).is_some_and(|found| found.kind == Kind::Folder)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.found(path).is_some_and(|found| found.kind == Kind::File)
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        self.found(path).map(|found| found.path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match locate(self.disk, path)? {
            Location::Found(_) => Ok(true),
            Location::Missing(_) | Location::Loop => Ok(false),
            Location::Forbidden(_) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn folders_in(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let names = self.disk.list(folder)?.into_iter();
        let is_folder = |name: &OsString| {
            self.disk.look(&folder.join(name)).is_ok_and(|entry| entry.kind == Kind::Folder)
        };
        Ok(names.filter(is_folder).take(most).collect())
    }

    fn names_in(&self, folder: &Path) -> Vec<OsString> {
        self.disk.list(folder).unwrap_or_default()
    }

    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }
}
