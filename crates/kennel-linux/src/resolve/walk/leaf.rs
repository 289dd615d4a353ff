//! Folders that hold no other folder: most of a source tree, and nothing of them has to be listed to know whether they
//! are repositories.

use std::ffi::{CStr, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

/// The file system on which a folder's links tell how many folders it holds: two are its own, each `..` is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted(Option<(u32, u32)>);

/// What is known of a folder that has not been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// It has to be looked through.
    Unknown,
    /// It holds no folder and is no repository.
    Plain,
    /// It holds no folder, and something called `.git`.
    DotGit,
    /// It holds no folder, and no name came about in it since a point of time.
    Unchanged,
}

impl Counted {
    /// What holds on the file system of `folder`. Others have one link for every folder (btrfs), or say 2 of each
    /// without having counted (FUSE).
    pub fn at(folder: impl AsFd) -> Counted {
        const EXT: u64 = 0xef53;
        const XFS: u64 = 0x5846_5342;
        const TMPFS: u64 = 0x0102_1994;
        let counts = rustix::fs::fstatfs(&folder)
            .is_ok_and(|stat| [EXT, XFS, TMPFS].contains(&(stat.f_type as u64 & 0xffff_ffff)));
        let stat = rustix::fs::statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE).ok();
        Counted(stat.filter(|_| counts).map(|stat| (stat.stx_dev_major, stat.stx_dev_minor)))
    }

    /// What can be said of the folder `name` without opening it.
    ///
    /// A repository's own folder holds others, but for one with a `commondir`, which has a `HEAD` as well; and what is
    /// called `.git` here can only be a file or a link.
    pub fn look(self, folder: impl AsFd, name: &OsStr) -> Leaf {
        self.look_since(folder, name, None)
    }

    /// The same; a folder in which no name came about since a point of time is unchanged, whatever it holds. The
    /// kernel notes the time of the last change (`ctime`), which nobody can set.
    pub fn look_since(self, folder: impl AsFd, name: &OsStr, since: Option<Duration>) -> Leaf {
        let Some(device) = self.0 else { return Leaf::Unknown };
        let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::CTIME;
        let Ok(stat) = rustix::fs::statx(&folder, name, quiet, wanted) else { return Leaf::Unknown };
        let is_folder = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory;
        if !is_folder || stat.stx_nlink != 2 || (stat.stx_dev_major, stat.stx_dev_minor) != device {
            return Leaf::Unknown;
        }
        let changed =
            Duration::new(u64::try_from(stat.stx_ctime.tv_sec).unwrap_or(0), stat.stx_ctime.tv_nsec);
        if since.is_some_and(|since| changed < since) {
            return Leaf::Unchanged;
        }
        match (look_in(&folder, name, b"/HEAD\0"), look_in(&folder, name, b"/.git\0")) {
            (Err(Errno::NOENT), Err(Errno::NOENT)) => Leaf::Plain,
            (Err(Errno::NOENT), Ok(_)) => Leaf::DotGit,
            _ => Leaf::Unknown,
        }
    }
}

/// Whether the folder `name` holds something called `.git`.
pub fn has_dot_git(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<()> {
    look_in(folder, name, b"/.git\0")
}

/// Asks for something in the folder `name`; of no more bytes than an entry's name, which is at most 255, and ours.
fn look_in(folder: impl AsFd, name: &OsStr, inner: &[u8]) -> rustix::io::Result<()> {
    let mut path = [0; 255 + 16];
    let (name, length) = (name.as_bytes(), name.len() + inner.len());
    path.get_mut(..name.len()).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(name);
    path.get_mut(name.len()..length).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(inner);
    let path = CStr::from_bytes_with_nul(&path[..length]).map_err(|_| Errno::INVAL)?;
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statat(folder, path, quiet).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_without_folders_is_known_by_its_links() {
        let top = std::env::temp_dir().join(format!("kennel-leaf-{}", std::process::id()));
        for folder in ["plain", "outer/inner", "pointer", "worktree"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("plain/file"), "").unwrap();
        fs::write(top.join("pointer/.git"), "gitdir: x").unwrap();
        fs::write(top.join("worktree/HEAD"), "").unwrap();
        std::os::unix::fs::symlink("outer", top.join("link")).unwrap();
        let folder = fs::File::open(&top).unwrap();
        let counted = Counted::at(&folder);
        let looks = ["plain", "outer", "pointer", "worktree", "link", "plain/file", "nothing"]
            .map(|name| counted.look(&folder, OsStr::new(name)));
        fs::remove_dir_all(&top).unwrap();
        if counted.0.is_none() {
            assert_eq!(looks, [Leaf::Unknown; 7]);
            return println!("SKIPPED: links are not counted on this file system");
        }
        let mut expected = [Leaf::Unknown; 7];
        (expected[0], expected[2]) = (Leaf::Plain, Leaf::DotGit);
        assert_eq!(looks, expected);
    }
}
