//! Git repositories on a disk: what [`kennel_resolve::git`] asks of it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kennel_resolve::disk::{FileIdentity, Found, Kind, Location, Lookup, is_missing};
use kennel_resolve::git::{EntryKind, GitDisk, Seen, Standing};

use crate::profile::disk::MacDisk;

/// A disk, and whose it is.
pub(super) struct Repositories<'a> {
    pub disk: &'a dyn MacDisk,
    pub home: Option<PathBuf>,
}

impl Repositories<'_> {
    fn found(&self, path: &Path) -> Option<Found> {
        match self.disk.locate(path) {
            Ok(Location::Found(found)) => Some(found),
            _ => None,
        }
    }
}

impl GitDisk for Repositories<'_> {
    type Identity = FileIdentity;
    type Lookup = Lookup;

    fn look(&mut self, path: &Path) -> io::Result<Lookup> {
        self.disk.lookup(path)
    }

    fn seen(Lookup { location, link, .. }: &Lookup) -> Seen<FileIdentity> {
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
            Kind::File => EntryKind::Other,
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
        match self.disk.locate(path)? {
            Location::Found(_) => Ok(true),
            Location::Missing(_) => Ok(false),
            Location::Forbidden => Err(io::ErrorKind::PermissionDenied.into()),
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
