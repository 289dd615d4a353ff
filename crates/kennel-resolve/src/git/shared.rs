//! What of a repository a sandbox may write that can write one of its worktrees and not the repository itself.
//!
//! Git on the host works in the main work tree with the same repository, meanwhile too. So this is a list of what
//! git in a worktree writes, found by watching it: folders in which it makes files, and files beside them. Everything else stays as it
//! is: what git on the host runs or obeys there (`config`, `hooks`, `commondir`, `info`), and what belongs to the main
//! work tree or another (`HEAD`, `index`, `logs/HEAD`, `worktrees/…`).

use std::path::PathBuf;

/// A repository of which a worktree can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRepository {
    /// Its folder.
    pub folder: PathBuf,
    /// Folders in it in which files and folders can be made, and no links. They need not exist.
    pub open: Vec<PathBuf>,
}

/// What worktrees share, beside [`FILES`], where refs are files.
pub const WITH_FILES: &[&str] = &["objects", "refs", LOGS, "rr-cache"];
/// The same where refs are in tables.
pub const WITH_REFTABLE: &[&str] = &["objects", "reftable", "rr-cache"];
/// The logs of all refs that worktrees share. A repository without a work tree of its own has none until a commit is made
/// in a worktree.
pub const LOGS: &str = "logs/refs";

/// A file that git writes in the repository's own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// Its name.
    pub name: &'static str,
    /// Whoever has made this one may change it.
    pub lock: &'static str,
    /// What is moved over it; the lock itself where that is the same file.
    pub new: &'static str,
    /// What may become of it.
    pub change: Change,
}

/// What may become of a file in a repository's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is replaced.
    Replaced,
    /// It is replaced, or removed.
    ReplacedOrRemoved,
    /// It stays. Git writes it anew with what it says already, and finds that it could.
    None,
}

/// All of them. Even a commit takes the lock of `packed-refs`, and removing a branch writes the configuration anew.
pub const FILES: &[SharedFile] = &[
    SharedFile {
        name: "packed-refs",
        lock: "packed-refs.lock",
        new: "packed-refs.new",
        change: Change::Replaced,
    },
    SharedFile {
        name: "shallow",
        lock: "shallow.lock",
        new: "shallow.lock",
        change: Change::ReplacedOrRemoved,
    },
    SharedFile { name: "config", lock: "config.lock", new: "config.lock", change: Change::None },
];
