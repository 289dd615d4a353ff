//! What makes git take a folder for a repository: the names that are in it.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use kennel_init::plan::Identity;
use rustix::fs::{AtFlags, FileType, StatxFlags};

use super::identity_of;

/// What there is in a folder that makes git take it for a repository, or look for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    pub(super) dot_git: Option<FileType>,
    pub(super) head: bool,
    pub(super) objects: bool,
    pub(super) refs: bool,
    pub(super) commondir: bool,
    pub(super) config: bool,
    pub(super) own_config: bool,
    pub(super) hooks: bool,
    pub(super) info: bool,
    /// Whether the folder has to be asked for these names: it holds one that may stand for another, or not all of its
    /// names were read.
    ask: bool,
}

const NAMES: [&CStr; 9] =
    [c".git", c"HEAD", c"objects", c"refs", c"commondir", c"config", c"config.worktree", c"hooks", c"info"];

impl Signs {
    /// Notes a name.
    pub fn note(&mut self, name: &[u8], kind: FileType) {
        match name {
            b".git" => self.dot_git = Some(kind),
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            b"config" => self.config = true,
            b"config.worktree" => self.own_config = true,
            b"hooks" => self.hooks = true,
            b"info" => self.info = true,
            // `.GIT` is `.git` to some file systems, and so are odder spellings.
            name => {
                let folded = || NAMES.iter().any(|own| own.to_bytes().eq_ignore_ascii_case(name));
                self.ask |= !name.is_ascii() || name.contains(&b'~') || folded();
            }
        }
    }

    /// Those of a folder that is asked for them.
    pub(super) fn of(folder: BorrowedFd) -> Signs {
        Signs { ask: true, ..Signs::default() }.sure(folder)
    }

    /// Those of a repository that was there before.
    pub(super) fn of_known(leads_on: bool) -> Signs {
        Signs { commondir: leads_on, ..Signs::default() }
    }

    /// Has the folder be asked.
    pub fn ask(&mut self) {
        self.ask = true;
    }

    pub(super) fn of_a_repository(self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }

    /// The same, with the folder asked where it has to be.
    pub(super) fn sure(self, folder: BorrowedFd) -> Signs {
        if !self.ask {
            return self;
        }
        let [_, head, objects, refs, commondir, config, own_config, hooks, info] =
            NAMES.map(|name| kind(folder, name).is_some());
        let dot_git = kind(folder, c".git");
        Signs { dot_git, head, objects, refs, commondir, config, own_config, hooks, info, ask: false }
    }
}

/// What a name in a folder is; `None` where there is nothing, or it cannot be told.
pub(super) fn kind(folder: BorrowedFd, name: &CStr) -> Option<FileType> {
    kind_and_identity(folder, name).map(|(kind, _)| kind)
}

pub(super) fn kind_and_identity(folder: BorrowedFd, name: &CStr) -> Option<(FileType, Identity)> {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(folder, name, quiet, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    Some((FileType::from_raw_mode(stat.stx_mode.into()), identity_of(&stat)))
}
