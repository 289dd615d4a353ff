//! Where a path leads that a repository's file says: only within the folders that are held, and only without links.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Held;
use super::aside::{Unlocked, c_name};

/// What a path leads to.
#[derive(Debug)]
pub enum Beneath {
    /// Something that is no link.
    Found(Entry),
    /// Nothing.
    Missing,
    /// A link is on the way, or at the end.
    Link(Entry),
    /// A place that the sandbox could not write.
    Outside,
    /// The system failed.
    Failed,
}

/// Something in a folder.
#[derive(Debug)]
pub struct Entry {
    /// The folder.
    pub folder: OwnedFd,
    /// Its name there; `None` for a held folder itself.
    pub name: Option<CString>,
    /// Itself, to be asked and not to be read.
    pub itself: OwnedFd,
    /// Its path on the host.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileType,
}

/// The path that a text of a repository's file means, as long as that does not depend on links: it goes up only at its
/// beginning. Git writes no other. `link/../x` is not what its letters say.
#[must_use]
pub fn meant(base: &Path, text: &[u8]) -> Option<PathBuf> {
    let mut path = if text.first() == Some(&b'/') { PathBuf::from("/") } else { base.to_path_buf() };
    let text = text.strip_prefix(b"/").unwrap_or(text);
    let mut goes_up = text.len() < 4096 && path.as_os_str() == base.as_os_str();
    // Deeper than this leads nothing that git makes, and to look at each folder on the way takes its time.
    let slashes = text.iter().filter(|byte| **byte == b'/').count();
    let sound = slashes < 256 && !text.is_empty() && text.len() < 4096 && !text.contains(&0);
    for name in sound.then_some(text)?.split(|byte| *byte == b'/') {
        match name {
            b".." if goes_up => {
                if !path.pop() {
                    return None;
                }
            }
            b"" | b"." | b".." => return None,
            name => {
                goes_up = false;
                path.push(OsStr::from_bytes(name));
            }
        }
    }
    Some(path)
}

/// Looks at a path of the host's by way of the held folder that it is in.
#[must_use]
pub fn beneath(roots: &[Held], path: &Path) -> Beneath {
    let Some(root) = roots.iter().find(|root| path.starts_with(&root.path)) else { return Beneath::Outside };
    let rest = path.strip_prefix(&root.path).unwrap_or(path);
    look(root, rest).unwrap_or(Beneath::Failed)
}

fn look(root: &Held, rest: &Path) -> Result<Beneath, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = Entry {
        folder: root.open()?,
        name: None,
        itself: root.open()?,
        path: root.path.clone(),
        kind: FileType::Directory,
    };
    for name in rest.components() {
        if at.kind != FileType::Directory {
            return Ok(Beneath::Missing);
        }
        let c_name = c_name(name.as_os_str())?;
        let itself = match rustix::fs::openat(&at.itself, &c_name, flags, Mode::empty()) {
            Ok(itself) => itself,
            Err(Errno::NOENT) => return Ok(Beneath::Missing),
            // A folder that was opened to be looked at, and shut again.
            Err(Errno::ACCESS) => {
                let _unlocked = Unlocked::new(at.itself.as_fd())?.ok_or(Errno::ACCESS)?;
                rustix::fs::openat(&at.itself, &c_name, flags, Mode::empty())?
            }
            Err(error) => return Err(error),
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&itself)?.st_mode);
        let path = at.path.join(name);
        at = Entry { folder: at.itself, name: Some(c_name), itself, path, kind };
        if kind == FileType::Symlink {
            return Ok(Beneath::Link(at));
        }
    }
    Ok(Beneath::Found(at))
}

/// Whether a path outside is there, or may be: file systems that may not answer are not asked.
#[must_use]
pub fn may_exist(path: &Path) -> bool {
    let Ok(remote) = crate::resolve::walk::remote_mounts() else { return true };
    if path.ancestors().any(|above| remote.contains_key(above)) {
        return true;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    !matches!(
        rustix::fs::open(path, flags, Mode::empty()),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG)
    )
}

/// Whether what is in `one` is in `other` too, byte for byte. Both are no links; what is in them and is one, or is too
/// much to compare, makes them differ.
#[must_use]
pub fn is_part_of(one: &Entry, other: &Entry) -> bool {
    const MAX_FILES: usize = 256;
    let mut left = MAX_FILES;
    compare(one.itself.as_fd(), other.itself.as_fd(), &mut left, 8).unwrap_or(false)
}

fn compare(
    one: rustix::fd::BorrowedFd,
    other: rustix::fd::BorrowedFd,
    left: &mut usize,
    depth: usize,
) -> Result<bool, Errno> {
    const MAX_BYTES: usize = 1 << 20;
    let kind = |fd| Ok::<_, Errno>(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode));
    if *left == 0 || depth == 0 || kind(one)? != kind(other)? {
        return Ok(false);
    }
    *left -= 1;
    match kind(one)? {
        FileType::RegularFile => {
            let [one, other] = [one, other].map(|fd| read_itself(fd, MAX_BYTES));
            Ok(one.is_some_and(|one| one.len() < MAX_BYTES && other == Some(one)))
        }
        FileType::Directory => {
            let folder = super::open_folder(one, c".")?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut buffer = Vec::with_capacity(8 << 10);
            let mut entries = rustix::fs::RawDir::new(&folder, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    continue;
                }
                let open = |fd| rustix::fs::openat(fd, entry.file_name(), flags, Mode::empty());
                if !compare(open(one)?.as_fd(), open(other)?.as_fd(), left, depth - 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn read_itself(fd: rustix::fd::BorrowedFd, most: usize) -> Option<Vec<u8>> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    crate::resolve::folder::read(rustix::fs::CWD, Path::new(&path), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_up_only_at_its_beginning() {
        let meant = |text: &str| meant(Path::new("/w/a/b"), text.as_bytes());
        assert_eq!(meant("../.git/modules/x"), Some("/w/a/.git/modules/x".into()));
        assert_eq!(meant("../../x"), Some("/w/x".into()));
        assert_eq!(meant("/w/x"), Some("/w/x".into()));
        assert_eq!(meant("x"), Some("/w/a/b/x".into()));
        for odd in ["", ".", "x/../y", "./x", "x/", "x//y", "/w/../x", "/..", "../../../../x", "a\0b", "/"] {
            assert_eq!(meant(odd), None, "{odd:?}");
        }
    }
}
