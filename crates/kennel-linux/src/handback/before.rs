//! What stood in a repository's own folder before the run: its owner's, whatever it is, as long as it is the same.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use kennel_init::plan::Identity;
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::{identity, open_folder};
use crate::resolve::known::{Handback, Known};

/// As many names of a folder are remembered; a repository has some thirty.
const MAX_NAMES: usize = 1024;
/// As many folders are looked into at the start.
const MAX_FOLDERS: usize = 8192;
/// As much of where a link leads.
const MAX_LINK: usize = 4096;

/// What stood at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Was {
    /// A folder, with the number that its entry gives it.
    Folder(u64),
    /// A file.
    File,
    /// A link, and where it led.
    Link(Vec<u8>),
    /// A FIFO, a socket or a device.
    Other,
}

/// The names of one folder.
#[derive(Clone, Debug)]
pub struct Before {
    identity: Identity,
    names: HashMap<Box<CStr>, Was>,
}

impl Before {
    /// What stood at a name.
    pub fn was(&self, name: &CStr) -> Option<&Was> {
        self.names.get(name)
    }

    /// Whether a folder is the one that was looked into.
    pub fn is_of(&self, folder: BorrowedFd) -> bool {
        identity(folder).is_ok_and(|identity| identity == self.identity)
    }

    fn new(path: &Path) -> Result<Before, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let itself = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let folder = open_folder(itself.as_fd(), c".")?;
        let mut names = HashMap::new();
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
        while let (Some(entry), true) = (entries.next(), names.len() < MAX_NAMES) {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            names.insert(name.into(), stands(folder.as_fd(), name, entry.file_type(), entry.ino()));
        }
        Ok(Before { identity: identity(folder.as_fd())?, names })
    }
}

/// What stands at a name in a folder.
pub fn stands(folder: BorrowedFd, name: &CStr, kind: FileType, number: u64) -> Was {
    let kind = if kind == FileType::Unknown { super::signs::kind(folder, name) } else { Some(kind) };
    match kind {
        Some(FileType::Directory) => Was::Folder(number),
        Some(FileType::RegularFile) => Was::File,
        Some(FileType::Symlink) => {
            let target = rustix::fs::readlinkat(folder, name, Vec::with_capacity(64));
            let target = target.map(std::ffi::CString::into_bytes).unwrap_or_default();
            Was::Link(target.into_iter().take(MAX_LINK).collect())
        }
        _ => Was::Other,
    }
}

/// Looks into the repositories that are known. One that cannot be looked into is judged like a new one.
pub fn all(handback: &Handback) -> HashMap<PathBuf, Before> {
    let folders = handback.known.iter().filter(|(_, known)| matches!(known, Known::Folder(_)));
    let looked =
        folders.take(MAX_FOLDERS).filter_map(|(path, _)| Some((path.clone(), Before::new(path).ok()?)));
    looked.collect()
}
