//! Folders that hold no other folder: most of a source tree, and nothing of them has to be listed to know whether they
//! are repositories.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, StatxFlags};

/// The file system on which a folder's links tell how many folders it holds: two are its own, each `..` is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub fn look(self, folder: impl AsFd, name: &[u8]) -> Leaf {
        let Some(device) = self.0 else { return Leaf::Unknown };
        let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let name = Path::new(OsStr::from_bytes(name));
        let Ok(stat) = rustix::fs::statx(&folder, name, quiet, StatxFlags::TYPE | StatxFlags::NLINK) else {
            return Leaf::Unknown;
        };
        let is_folder = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory;
        if !is_folder || stat.stx_nlink != 2 || (stat.stx_dev_major, stat.stx_dev_minor) != device {
            return Leaf::Unknown;
        }
        let is_there = |inner: &str| rustix::fs::statat(&folder, name.join(inner), quiet);
        match (is_there("HEAD"), is_there(".git")) {
            (Err(rustix::io::Errno::NOENT), Err(rustix::io::Errno::NOENT)) => Leaf::Plain,
            (Err(rustix::io::Errno::NOENT), Ok(_)) => Leaf::DotGit,
            _ => Leaf::Unknown,
        }
    }
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
            .map(|name| counted.look(&folder, name.as_bytes()));
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
