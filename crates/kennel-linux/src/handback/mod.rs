//! What a sandbox hands back to the host: the last look at the git repositories in what it could write.
//!
//! Git on the host runs what a repository says. What was there at the start is kept by mounts and by the guard
//! ([`crate::resolve`]). What an honest agent makes during a run (a clone, a submodule, a worktree) cannot be forbidden,
//! and neither can be told from what a hostile one makes while it is being made. So when nothing inside is left alive,
//! and before anybody is told that the run is over, the controller looks through what could be written, and takes away
//! what would make git run something: the settings of a configuration that are not known to be harmless ([`config`]),
//! hooks, pointers and links that lead elsewhere (`repository`, `hooks`, `work_tree`), and whatever git itself does not
//! make in a repository's own folder ([`shape`]). Nothing is deleted. What is taken away stands
//! beside, under a name that nobody can guess (`aside`), and the caller is told of it.
//!
//! The controller trusts no path here. It holds the folders since before the command started, and goes down from these
//! by descriptors, without following a link (`walk`).

mod aside;
mod before;
mod budget;
mod clock;
pub mod config;
mod hooks;
mod keys;
mod linked;
mod lock;
mod names;
mod place;
mod repository;
pub mod shape;
mod signs;
#[cfg(test)]
mod tests;
mod walk;
mod work_tree;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kennel_init::plan::Identity;
use kennel_policy::policy::GitLevel;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::resolve::guard_rules::Anchor;
use crate::resolve::known::Handback;
use before::Before;
use budget::Budget;
pub use budget::Hurry;
use clock::Clock;
pub use kennel_policy::outcome::{HandedBack, SetAside, What};

/// As many folders are held; of more than these the path and the identity are remembered.
const MAX_HELD: usize = 128;

/// A folder that could be written, held since before the command started.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    identity: Identity,
    fd: Option<OwnedFd>,
}

impl Held {
    fn new(anchor: &Anchor, hold: bool) -> Result<Held, Errno> {
        let fd = open_root(&anchor.path, anchor.identity)?;
        Ok(Held { path: anchor.path.clone(), identity: anchor.identity, fd: Some(fd).filter(|_| hold) })
    }

    /// The folder itself. One that could not be held is the one that it was, or none.
    fn open(&self) -> Result<OwnedFd, Errno> {
        match &self.fd {
            Some(fd) => rustix::io::fcntl_dupfd_cloexec(fd, 3),
            None => open_root(&self.path, self.identity),
        }
    }
}

fn open_root(path: &Path, expected: Identity) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    if identity(fd.as_fd())? == expected { Ok(fd) } else { Err(Errno::STALE) }
}

/// A last look that is still to come. It holds the folders.
#[derive(Debug)]
pub struct LastLook {
    handback: Arc<Handback>,
    roots: Vec<Held>,
    /// What stood in the repositories that were there.
    before: HashMap<PathBuf, Before>,
    clock: Clock,
    hurry: Vec<Hurry>,
}

impl LastLook {
    /// Takes hold of the folders.
    ///
    /// # Errors
    /// When one is not what it was when the policy was resolved.
    pub fn new(handback: &Arc<Handback>) -> Result<LastLook, (PathBuf, io::Error)> {
        let hold = |(index, root): (usize, &Anchor)| {
            Held::new(root, index < MAX_HELD).map_err(|error| (root.path.clone(), error.into()))
        };
        let roots = handback.roots.iter().enumerate().map(hold).collect::<Result<_, _>>()?;
        let clock = Clock::start();
        Ok(LastLook {
            handback: Arc::clone(handback),
            roots,
            before: before::all(handback),
            clock,
            hurry: Vec::new(),
        })
    }

    /// Hurries when one of these is told to it.
    pub fn heed(&mut self, hurry: impl IntoIterator<Item = Hurry>) {
        self.hurry.extend(hurry);
    }

    /// Looks, now that nothing inside is left. The run has to be over at the `deadline`, and is `late` when it should have
    /// been. `names_were_made` is false only if the sandbox is known to have made no
    /// name at all: then there is no new repository, and what was there before was kept but for the configurations that
    /// a level leaves open.
    #[must_use]
    pub fn look(self, names_were_made: bool, deadline: Option<Instant>, late: bool) -> HandedBack {
        let mut handed_back = HandedBack::default();
        let since = self.clock.before_the_start();
        let budget = Budget::new(self.hurry, deadline, late);
        let judge = repository::Judge {
            handback: &self.handback,
            roots: &self.roots,
            before: &self.before,
            since,
            budget: &budget,
        };
        let names = self.handback.names.as_ref().map(|names| names::Names::new(names, &self.roots));
        if names_were_made {
            walk::look_through(&judge, names.as_ref()).into_iter().for_each(|found| handed_back.add(found));
        } else {
            let mut told = Vec::new();
            judge.in_place(&mut told);
            told.into_iter().for_each(|found| handed_back.add(found));
            if self.handback.level == GitLevel::HooksReadOnly {
                judge.configurations(&mut |found| handed_back.add(found));
            }
        }
        if let Some(names) = names {
            names.finish(&mut handed_back);
        }
        handed_back.list.sort_by(|one, other| one.path.cmp(&other.path));
        handed_back
    }
}

fn identity(fd: BorrowedFd) -> Result<Identity, Errno> {
    let quiet = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(identity_of(&rustix::fs::statx(fd, c"", quiet, StatxFlags::INO)?))
}

fn identity_of(stat: &rustix::fs::Statx) -> Identity {
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    Identity { device, inode: stat.stx_ino }
}

/// Opens a folder in another one to be listed; a link is none.
fn open_folder(folder: BorrowedFd, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}
