//! One walk for all globs of a policy, for the names it keeps, and for the git repositories in what it lets be written:
//! pruned where nothing below can matter, and bounded in entries, in work and in time.
//!
//! A walk follows no links. It tells of those to folders in which a deny could match something, and whoever asked goes on
//! behind them with what is left of the patterns.

mod folder;
mod leaf;
mod link;
mod remote;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kennel_policy::pattern::PatternSet;
use kennel_resolve::precedence::key;
pub use kennel_resolve::walk::{
    LinkedFolder, MAX_BEHIND_LINKS, MAX_ENTRIES, Search, Seen, WalkError, Walked, What,
};
use kennel_resolve::walk::{Seek, Signs};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::crew;
use super::locate::is_own;
use super::open_strictly;
use super::rootfs::View;
use folder::{Opened, Walk};
pub(crate) use leaf::{Counted, Leaf};
pub(crate) use remote::{answers, remote_mounts};

/// How often a pattern may be asked about a name. Most are looked up instead, so that only many odd ones come near.
const MAX_WORK: usize = 200_000_000;

/// Everything that is searched for, found in one walk.
pub fn walk(search: &Search) -> Result<Walked, WalkError> {
    walk_alone_for(crew::ALONE, search, None)
}

/// The same in a root of a sandbox's own: links lead where they do there.
pub(super) fn walk_within(search: &Search, view: &View) -> Result<Walked, WalkError> {
    walk_alone_for(crew::ALONE, search, Some(view))
}

fn walk_alone_for(alone: Duration, search: &Search, within: Option<&View>) -> Result<Walked, WalkError> {
    let remote = remote_mounts().map_err(WalkError::Mounts)?;
    let patterns = PatternSet::new(search.patterns);
    let spent = Spent { entries: AtomicUsize::new(0), work: AtomicUsize::new(0), started: Instant::now() };
    let links = Mutex::new(Vec::new());
    let mut found = Vec::new();
    for root in search.roots() {
        let is_root = search.repositories.contains(root);
        let mut seek = if is_root { Seek::Everywhere } else { Seek::Nothing };
        let (alive, matched) = patterns.at(root);
        for index in matched {
            found.push(Seen { path: root.to_path_buf(), what: What::Match(index) });
            seek = seek.below_match(search, index);
        }
        let mut walk = Walk {
            search,
            within,
            patterns: &patterns,
            root,
            at_root: Arc::clone(&alive),
            remote: &remote,
            inner_roots: search.inner_roots(root),
            counted: Counted::default(),
            spent: &spent,
            links: &links,
            given_up: OnceLock::new(),
        };
        let wanted = walk.wanted(root, Some(alive), seek, None);
        if seek == Seek::Nothing && !walk.is_listed(root, &wanted) {
            continue;
        }
        let mount = root.ancestors().find(|above| remote.contains_key(*above));
        if mount.is_some_and(|_| !answers(&remote, root)) {
            walk.passed_over(root, &wanted, &mut found);
            continue;
        }
        let fd = match open_root(root) {
            Ok(fd) => fd,
            // It had no link when it was looked up: somebody swaps folders just now, and would be glad of a walk elsewhere.
            Err(error @ Errno::LOOP) => return Err(WalkError::Open(root.to_path_buf(), error.into())),
            // The sandbox could open one of its user's own.
            Err(Errno::ACCESS) if is_own(root) => {
                walk.passed_over(root, &wanted, &mut found);
                continue;
            }
            // Not there, no folder, or nothing to see for this user, which is the sandbox's.
            Err(_) => continue,
        };
        walk.counted = Counted::at(&fd);
        let mut first = Vec::new();
        walk.list(Opened { fd, path: root.to_path_buf(), wanted }, &mut first, &mut found);
        found.extend(crew::work_alone_for(alone, first, |batch, later, found| {
            walk.look_through(batch, later, found);
        }));
        if let Some(error) = walk.given_up.into_inner() {
            return Err(error);
        }
    }
    found.sort_by_cached_key(|seen| (key(&seen.path), seen.what));
    let mut links = links.into_inner().unwrap_or_else(PoisonError::into_inner);
    links.sort_by_cached_key(|link: &LinkedFolder| key(&link.link));
    Ok(Walked { seen: found, links, entries: spent.entries.into_inner() })
}

/// What a walk has taken so far, by all threads.
pub struct Spent {
    entries: AtomicUsize,
    work: AtomicUsize,
    started: Instant,
}

/// Opens a folder by a path without links.
fn open_root(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    open_strictly(CWD, path, flags, ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

fn open_folder(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
