//! Git repositories on this disk: what [`kennel_resolve::git`] asks of it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kennel_init::plan::Identity;
use kennel_resolve::disk::Lookup;
use kennel_resolve::git::{EntryKind, GitDisk, Seen, Standing};
pub use kennel_resolve::git::{
    Personal, Place, Request, SharedRepository, config, names, pointer, shared, wishes,
};

use super::folder::OpenFolders;
use super::locate::identity;
use super::{Kind, Location};

/// What repositories on this disk ask for.
pub type RepoProtection = kennel_resolve::git::RepoProtection<OpenFolders>;
/// A path that has to stay as it is, and what stands there.
pub type Keep = kennel_resolve::git::Keep<Lookup>;

impl GitDisk for OpenFolders {
    type Identity = Identity;
    type Lookup = Lookup;

    fn look(&mut self, path: &Path) -> io::Result<Lookup> {
        OpenFolders::look(self, path)
    }

    fn seen(Lookup { location, link, .. }: &Lookup) -> Seen<Identity> {
        let standing = match location {
            Location::Found(found) => Some(Standing {
                identity: identity(found),
                is_file: found.kind == Kind::File,
                links: found.links,
            }),
            _ => None,
        };
        Seen { standing, link: *link }
    }

    fn list(&mut self, folder: &Path) -> bool {
        OpenFolders::list(self, folder)
    }

    fn may_hold(&self, path: &Path) -> bool {
        OpenFolders::may_hold(self, path)
    }

    fn read(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        OpenFolders::read(self, path, most)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        let own = path.symlink_metadata()?;
        Ok(match own.file_type() {
            kind if kind.is_symlink() => EntryKind::Link,
            kind if kind.is_dir() => EntryKind::Folder,
            _ => EntryKind::Other,
        })
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn folders_in(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(folder)?.flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        Ok(folders.take(most).map(|entry| entry.file_name()).collect())
    }

    fn names_in(&self, folder: &Path) -> Vec<OsString> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
    }

    fn home(&self) -> Option<PathBuf> {
        absolute("HOME")
    }
}

/// What the caller's own configuration has git run.
pub fn personal() -> Personal {
    let home = absolute("HOME");
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let files = [
        Some(PathBuf::from("/etc/gitconfig")),
        folder.map(|folder| folder.join("git/config")),
        home.as_ref().map(|home| home.join(".gitconfig")),
    ];
    kennel_resolve::git::personal(&OpenFolders::default(), files.into_iter().flatten())
}

/// What a variable says, if that is an absolute path.
pub(super) fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
