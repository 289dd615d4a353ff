//! What is asked of a disk about repositories.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// What stands at a path, where links lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<I> {
    /// Which file it is.
    pub identity: I,
    /// Whether it is neither a folder nor a link.
    pub is_file: bool,
    /// How many names it has.
    pub links: u64,
}

/// What a look at a path told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<I> {
    /// What stands there, if there is something.
    pub standing: Option<Standing<I>>,
    /// Whether the last component is a link, which led there.
    pub link: bool,
}

/// What an entry of a folder is, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A link.
    Link,
    /// Anything else.
    Other,
}

/// A disk, as far as repositories are looked at. An implementation may remember what it saw of a folder.
pub trait GitDisk {
    /// Which file something is.
    type Identity: Copy;
    /// What a look at a path tells, for whoever protects the path.
    type Lookup;

    /// Looks at a path.
    ///
    /// # Errors
    /// The system's.
    fn look(&mut self, path: &Path) -> io::Result<Self::Lookup>;
    /// What a look told, as far as it matters here.
    fn seen(lookup: &Self::Lookup) -> Seen<Self::Identity>;
    /// Learns the names in a folder; false where there is none at a path without links.
    fn list(&mut self, folder: &Path) -> bool;
    /// Whether there may be something at a path.
    fn may_hold(&self, path: &Path) -> bool;
    /// The first bytes of the file at a path.
    fn read(&self, path: &Path, most: usize) -> Option<Vec<u8>>;
    /// What stands at a path, links not followed.
    ///
    /// # Errors
    /// The system's.
    fn kind(&self, path: &Path) -> io::Result<EntryKind>;
    /// Whether a path leads to a folder.
    fn is_folder(&self, path: &Path) -> bool;
    /// Whether a path leads to a file.
    fn is_file(&self, path: &Path) -> bool;
    /// Where a path leads, without links; `None` where it leads to nothing.
    fn canonical(&self, path: &Path) -> Option<PathBuf>;
    /// Whether there is something at a path.
    ///
    /// # Errors
    /// The system's, where it cannot be told.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// The names of the folders in a folder, at most as many.
    ///
    /// # Errors
    /// The system's.
    fn folders_in(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>>;
    /// The names in a folder; none where it cannot be listed.
    fn names_in(&self, folder: &Path) -> Vec<OsString>;
    /// The caller's home.
    fn home(&self) -> Option<PathBuf>;
}
