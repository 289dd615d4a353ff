//! One folder of a walk: what it holds that is searched for, and which of the folders in it have to be looked through.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use kennel_policy::dotfiles::Hold;
use kennel_policy::pattern::{Alive, PatternMatches, PatternSet};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, RawDir, StatxFlags};
use rustix::io::Errno;

use super::leaf::{self, Counted, Leaf};
use super::remote::answers;
use super::{LinkedFolder, MAX_WORK, Search, Seek, Seen, Signs, Spent, WalkError, What, open_folder};
use crate::resolve::locate::is_own;
use crate::resolve::rootfs::View;

/// A folder's entries are asked for in pieces of this size; most fit into one.
const BUFFER: usize = 32 << 10;
/// As many folders are handed on together.
const BATCH: usize = 64;
/// A folder of more entries than this is counted piece by piece.
const MANY: usize = 1 << 14;

/// A walk below one root, by any number of threads.
pub struct Walk<'a> {
    pub search: &'a Search<'a>,
    /// Where links lead, if not where they lead this process.
    pub within: Option<&'a View>,
    pub patterns: &'a PatternSet<'a>,
    pub root: &'a Path,
    /// What of the patterns is alive there.
    pub at_root: Arc<Alive>,
    /// Mount points of file systems that may not answer, and whether there is only something that would mount one.
    pub remote: &'a BTreeMap<PathBuf, bool>,
    /// Folders in which something is looked for and that are reached from a folder above. Mostly there are none, and
    /// most folders need not be compared with any.
    pub inner_roots: BTreeSet<&'a Path>,
    /// The file system that the walk began on.
    pub counted: Counted,
    /// How much was done, by all threads, so far.
    pub spent: &'a Spent,
    /// Links to folders that a deny goes on behind.
    pub links: &'a Mutex<Vec<LinkedFolder>>,
    /// Why nobody looks any further.
    pub given_up: OnceLock<WalkError>,
}

/// What is looked for in a folder.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What of the patterns could match below it, if anything: thousands of folders would count on one value.
    alive: Option<Arc<Alive>>,
    seek: Seek,
    /// How far it is from the folder whose names are kept, if it is one of these.
    level: Option<u32>,
}

/// A folder that is open, and what is looked for in it.
pub struct Opened {
    pub fd: OwnedFd,
    pub path: PathBuf,
    pub wanted: Wanted,
}

/// Some of the folders in a folder, which is open as long as one of them is left.
pub struct Batch {
    above: Arc<Opened>,
    names: std::vec::IntoIter<Inner>,
}

struct Inner {
    name: Box<OsStr>,
    alive: Option<Arc<Alive>>,
    seek: Seek,
    level: Option<u32>,
}

impl Walk<'_> {
    /// What is looked for in the folder at `path`.
    pub fn wanted(&self, path: &Path, alive: Option<Arc<Alive>>, seek: Seek, level: Option<u32>) -> Wanted {
        let here = self.inner_roots.contains(path) && self.search.repositories.contains(path);
        Wanted {
            alive: alive.filter(|alive| !alive.is_empty()),
            seek: if here { Seek::Everywhere } else { seek },
            level: level.or_else(|| self.search.level_of(path)),
        }
    }

    /// Looks through some folders, as far as there is a reason to, up to the first that holds others: these come before
    /// the rest, or else each of the folders would stay open meanwhile.
    pub fn look_through(&self, batch: Batch, later: &mut Vec<Batch>, found: &mut Vec<Seen>) {
        let Batch { above, mut names } = batch;
        let mut path = above.path.clone();
        let mut inside = Vec::new();
        while let (Some(Inner { name, alive, seek, level }), None) = (names.next(), self.given_up.get()) {
            path.push(&*name);
            let wanted = self.wanted(&path, alive, seek, level);
            if let Some(opened) = self.open(&above.fd, &name, &path, wanted, found) {
                self.list(opened, &mut inside, found);
                if !inside.is_empty() {
                    if names.len() > 0 {
                        later.push(Batch { above, names });
                    }
                    return later.append(&mut inside);
                }
            }
            path.pop();
        }
    }

    /// Opens a folder, if it has to be listed.
    fn open(
        &self,
        above: &OwnedFd,
        name: &OsStr,
        path: &Path,
        mut wanted: Wanted,
        found: &mut Vec<Seen>,
    ) -> Option<Opened> {
        let listed = self.is_listed(path, &wanted);
        if (wanted.seek == Seek::Nothing && !listed) || self.search.closed.contains(path) {
            return None;
        }
        if !self.remote.is_empty() && self.remote.contains_key(path) && !answers(self.remote, path) {
            self.passed_over(path, &wanted, found);
            return None;
        }
        let mut dot_git = || found.push(Seen { path: path.join(".git"), what: What::DotGit });
        if wanted.seek == Seek::Package {
            match leaf::has_dot_git(above, name) {
                Ok(()) => dot_git(),
                Err(Errno::ACCESS) => return self.pass_over_shut(above, name, path, &wanted, found),
                Err(_) => {}
            }
            wanted.seek = Seek::Nothing;
            if !listed {
                return None;
            }
        }
        if !listed {
            match self.counted.look(above, name) {
                Leaf::Unknown => {}
                Leaf::Plain | Leaf::Unchanged => return None,
                Leaf::DotGit => {
                    dot_git();
                    return None;
                }
            }
        }
        match open_folder(above, name) {
            Ok(fd) => Some(Opened { fd, path: path.to_path_buf(), wanted }),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                self.give_up(WalkError::Open(path.to_path_buf(), error.into()));
                None
            }
            Err(Errno::ACCESS) => self.pass_over_shut(above, name, path, &wanted, found),
            Err(_) => None,
        }
    }

    /// Passes over a folder that the caller may not look into. The sandbox, which is the same user, may not either, but could open one
    /// of its own: that may hold anything. Where not even its owner can be asked, it is the folder above that is shut.
    fn pass_over_shut(
        &self,
        above: &OwnedFd,
        name: &OsStr,
        path: &Path,
        wanted: &Wanted,
        found: &mut Vec<Seen>,
    ) -> Option<Opened> {
        let quiet = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        let shut = match rustix::fs::statx(above, name, quiet, StatxFlags::UID) {
            Ok(_) => path,
            Err(_) => path.parent().unwrap_or(path),
        };
        if is_own(shut) {
            self.passed_over(shut, wanted, found);
        }
        None
    }

    /// Goes through the entries of one folder.
    pub fn list(&self, opened: Opened, later: &mut Vec<Batch>, found: &mut Vec<Seen>) {
        let Search { kept, .. } = self.search;
        let opened = Arc::new(opened);
        // Of processes the sandbox has others.
        let processes = opened.path == Path::new("/proc");
        let Wanted { alive, seek, level } = &opened.wanted;
        let alive = alive.as_ref();
        let mut path = opened.path.clone();
        let mut names = Vec::new();
        // A folder that cannot be listed hides nothing from the sandbox, which is the same user.
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&opened.fd, buffer.spare_capacity_mut());
        let mut signs = Signs::default();
        let (mut counted, mut work) = (0, 0);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || (processes && is_of_a_process(name)) {
                continue;
            }
            counted += 1;
            if counted == MANY {
                self.count(std::mem::take(&mut counted), std::mem::take(&mut work));
                if self.given_up.get().is_some() {
                    return;
                }
            }
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            signs.note(name);
            let looked = alive.map_or_else(PatternMatches::default, |alive| self.patterns.look(alive, name));
            work += alive.map_or(0, |alive| alive.cost() + looked.cost(alive));
            let link = entry.file_type() == FileType::Symlink;
            let held = level.and(*kept).and_then(|kept| kept.hold(&opened.path, name, link));
            let repository = name == b".git" && matches!(seek, Seek::Everywhere | Seek::Packages);
            let mut below = seek.below(name);
            if !looked.matched.is_empty() || repository || held.is_some() {
                path.push(OsStr::from_bytes(name));
                let mut tell = |what| found.push(Seen { path: path.clone(), what });
                if repository {
                    tell(What::DotGit);
                }
                for &index in &looked.matched {
                    tell(What::Match(index));
                    below = below.below_match(self.search, index);
                }
                match held {
                    Some(Hold::Keep) => tell(What::Kept),
                    Some(Hold::Tell) => tell(What::Told),
                    Some(Hold::NoLink) | None => {}
                }
                path.pop();
            }
            if may_be_folder {
                // What is kept is kept with all below it.
                let level = level.filter(|_| held != Some(Hold::Keep));
                let level = level.and_then(|level| self.search.next_level(level, name));
                let alive = alive.map(|alive| self.patterns.below(alive, &looked));
                names.push(Inner { name: OsStr::from_bytes(name).into(), alive, seek: below, level });
            }
            if let Some(alive) = alive.filter(|_| !self.search.denies.is_empty())
                && matches!(entry.file_type(), FileType::Symlink | FileType::Unknown)
            {
                let alive = self.patterns.below(alive, &looked);
                self.note_link(&opened, entry.file_name(), &alive, &looked.matched, found);
            }
            if names.len() == BATCH {
                let names = std::mem::take(&mut names).into_iter();
                later.push(Batch { above: Arc::clone(&opened), names });
            }
        }
        self.count(counted, work);
        if *seek == Seek::Everywhere && signs.of_a_repository() {
            found.push(Seen { path: opened.path.clone(), what: What::Bare });
        }
        if !names.is_empty() {
            later.push(Batch { above: opened, names: names.into_iter() });
        }
    }

    /// What cannot be looked through may hold anything.
    pub fn passed_over(&self, path: &Path, wanted: &Wanted, found: &mut Vec<Seen>) {
        let mut tell = |what| found.push(Seen { path: path.to_path_buf(), what });
        let patterns = wanted.alive.as_ref().map(|alive| alive.patterns());
        patterns.into_iter().flatten().for_each(|index| tell(What::PerhapsBelow(index)));
        if wanted.seek != Seek::Nothing {
            tell(What::PerhapsGitBelow);
        }
        if wanted.level.is_some() {
            tell(What::PerhapsKeptBelow);
        }
    }

    /// Whether a folder has to be listed for something else than repositories.
    pub fn is_listed(&self, path: &Path, wanted: &Wanted) -> bool {
        wanted.level.is_some() || wanted.alive.is_some() || self.leads_to_a_root(path)
    }

    fn leads_to_a_root(&self, path: &Path) -> bool {
        let mut next = self.inner_roots.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        next.next().is_some_and(|root| root.starts_with(path))
    }

    /// Counts entries, and what it took to ask the patterns about them.
    fn count(&self, entries: usize, work: usize) {
        let (most, root) = (self.search.most_entries, || self.root.to_path_buf());
        if self.spent.entries.fetch_add(entries, Ordering::Relaxed) + entries > most {
            self.give_up(WalkError::TooWide(root(), most));
        }
        if self.spent.work.fetch_add(work, Ordering::Relaxed) + work > MAX_WORK {
            self.give_up(WalkError::TooMuchWork(root()));
        }
        if self.spent.started.elapsed() > self.search.most_time {
            self.give_up(WalkError::TooLong(root(), self.search.most_time));
        }
    }

    fn give_up(&self, why: WalkError) {
        // Only the first reason is told.
        drop(self.given_up.set(why));
    }
}

/// Whether an entry of /proc is one process, or whoever looks.
fn is_of_a_process(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_digit) || name == b"self" || name == b"thread-self"
}
