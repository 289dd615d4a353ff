//! A folder that is held open while several names in it are asked for.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_resolve::disk::{HolderFolder, Lookup};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::locate::{self, FoundAgain, Location, locate};

/// The names of a folder are remembered if they take no more than this.
const MAX_NAMES: usize = 8 << 10;
/// As many are open at a time.
const MAX_OPEN: usize = 4;

/// The folder.
#[derive(Debug)]
struct Folder {
    /// Its path without symlinks.
    path: PathBuf,
    fd: OwnedFd,
    /// The names in it, each with a NUL behind it; `None` where they are not known.
    names: Option<Vec<u8>>,
}

impl Folder {
    /// `None` where there is no such folder, or the caller may not look.
    fn open(path: &Path) -> io::Result<Option<Folder>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Some(fd) = open_straight(path, flags) {
            return Ok(Some(Folder { path: path.to_path_buf(), fd, names: None }));
        }
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Folder { path: locate::path_of(fd.as_fd())?, fd, names: None })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same at a path without symlinks, with the names in it; `None` where the path has one.
    fn listed(path: &Path) -> Option<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open_straight(path, flags | OFlags::RDONLY | OFlags::NONBLOCK);
        let names = fd.as_ref().and_then(names);
        // One that cannot be listed can still be asked.
        let fd = fd.or_else(|| open_straight(path, flags | OFlags::PATH))?;
        Some(Folder { path: path.to_path_buf(), fd, names })
    }

    /// Whether a name may be in it.
    fn may_hold(&self, name: &OsStr) -> bool {
        let holds = |names: &Vec<u8>| names.split(|byte| *byte == 0).any(|own| own == name.as_bytes());
        self.names.as_ref().is_none_or(holds)
    }

    /// What stands at a name in it, which is not followed if it is a link.
    fn look(&self, name: &OsStr) -> io::Result<FoundAgain> {
        if !self.may_hold(name) {
            return Ok(FoundAgain::Gone);
        }
        let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
        let stat = match rustix::fs::statx(&self.fd, name, quiet, wanted) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(FoundAgain::Gone),
            Err(Errno::ACCESS) => return Ok(FoundAgain::Forbidden),
            Err(error) => return Err(error.into()),
        };
        let path = self.path.join(name);
        Ok(match FileType::from_raw_mode(u32::from(stat.stx_mode)) {
            FileType::Symlink => FoundAgain::Link(path),
            kind => FoundAgain::Found(locate::found(path, kind, &stat)),
        })
    }
}

/// Opens a path that goes straight to its end; `None` where a symlink or a `..` is on the way, and on every error.
fn open_straight(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let mut names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let straight = names.next() == Some(b"") && names.all(|name| !matches!(name, b"" | b"." | b".."));
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if straight { rustix::fs::openat2(CWD, path, flags, Mode::empty(), strict).ok() } else { None }
}

fn names(folder: &OwnedFd) -> Option<Vec<u8>> {
    let mut buffer = Vec::with_capacity(MAX_NAMES);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        names.extend_from_slice(entry.ok()?.file_name().to_bytes_with_nul());
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

/// A file's first bytes; `None` where there is none that could be meant. A FIFO is not waited for.
pub fn read(folder: impl AsFd, path: &Path, most: usize) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    read_open(&rustix::fs::openat(folder, path, flags, Mode::empty()).ok()?, most)
}

/// The same of a file that is open.
pub fn read_open(file: &OwnedFd, most: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    read_open_into(file, most, &mut text)?;
    Some(text)
}

/// The same into a buffer, in the place of what is in it.
pub fn read_open_into(file: &OwnedFd, most: usize, text: &mut Vec<u8>) -> Option<()> {
    text.clear();
    let stat = rustix::fs::fstat(file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    // With room for one byte more than the file has, the end is seen without another call.
    let size = usize::try_from(stat.st_size).unwrap_or(most).min(most);
    text.reserve_exact(size + 1);
    while text.len() <= most {
        text.reserve(1);
        let room = text.capacity() - text.len();
        let count = rustix::io::read(file, rustix::buffer::spare_capacity(text)).ok()?;
        if count < room {
            break;
        }
    }
    Some(())
}

/// The folders in which names were asked for lately; the next is mostly in one of them.
#[derive(Debug, Default)]
pub struct OpenFolders(Vec<Folder>);

impl OpenFolders {
    /// One more, in place of the one that was opened first.
    fn add(&mut self, folder: Folder) {
        if self.0.len() == MAX_OPEN {
            self.0.remove(0);
        }
        self.0.push(folder);
    }

    /// Opens a folder and learns the names in it, for many questions about names that mostly are not there. False where
    /// there is none at a path without symlinks.
    pub fn list(&mut self, path: &Path) -> bool {
        let known = self.of(path).is_some_and(|folder| folder.names.is_some());
        let listed = if known { None } else { Folder::listed(path) };
        let is_folder = known || listed.is_some();
        listed.into_iter().for_each(|folder| self.add(folder));
        is_folder
    }

    /// Whether there may be something at a path.
    pub fn may_hold(&self, path: &Path) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return true };
        self.of(parent).is_none_or(|folder| folder.may_hold(name))
    }

    /// The first bytes of the file at a path; see [`read`].
    pub fn read(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        match self.of(parent) {
            Some(folder) if !folder.may_hold(name) => None,
            Some(folder) => read(&folder.fd, Path::new(name), most),
            None => read(CWD, path, most),
        }
    }

    /// Looks at a path.
    pub fn look(&mut self, path: &Path) -> io::Result<Lookup> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Lookup { location: locate(path)?, link: false, holder: HolderFolder::Missing });
        };
        let opened = if self.of(parent).is_none() { Folder::open(parent)? } else { None };
        let Some(folder) = opened.as_ref().or_else(|| self.of(parent)) else {
            return Ok(Lookup { location: locate(path)?, link: false, holder: HolderFolder::Missing });
        };
        let (location, link) = match folder.look(name)? {
            FoundAgain::Found(found) => (Location::Found(found), false),
            FoundAgain::Gone => (Location::Missing(folder.path.join(name)), false),
            FoundAgain::Forbidden => (Location::Forbidden, false),
            FoundAgain::Link(_) => (locate(path)?, true),
        };
        let straight = folder.path.as_os_str() == parent.as_os_str();
        let holder = if straight { HolderFolder::Straight } else { HolderFolder::At(folder.path.clone()) };
        opened.into_iter().for_each(|folder| self.add(folder));
        Ok(Lookup { location, link, holder })
    }

    fn of(&self, path: &Path) -> Option<&Folder> {
        // By their text, which is quicker to compare than components.
        self.0.iter().rev().find(|folder| folder.path.as_os_str() == path.as_os_str())
    }
}
