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

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kennel_policy::pattern::{PathPattern, PatternSet};
use kennel_policy::policy::Origin;
use kennel_policy::precedence::key;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::crew;
use super::locate::is_own;
use super::open_strictly;
use super::path_rules::shown;
use super::rootfs::View;
use folder::{Opened, Walk};
pub(crate) use leaf::{Counted, Leaf};
pub(crate) use remote::{answers, remote_mounts};

/// More entries than this and the pattern is too wide to be meant.
pub const MOST_ENTRIES: usize = 2_000_000;

/// Behind links there is less that anybody means: one link that a command made, to the root, is a whole disk.
pub const MOST_BEHIND_LINKS: usize = 200_000;

/// How often a pattern may be asked about a name. Most are looked up instead, so that only many odd ones come near.
const MOST_WORK: usize = 200_000_000;

/// How long a walk may take. A file system that is that slow is better not walked at every start.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Why a walk was given up.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// Too much to look at.
    #[error("more than {} files below {}", .1, shown(.0))]
    TooWide(PathBuf, usize),
    /// The same, or too long, behind a link.
    #[error("too many files behind the symlink {}, which leads to {}", shown(.0), shown(.1))]
    BehindLink(PathBuf, PathBuf),
    /// Too many links.
    #[error("too many symlinks to folders, such as {}", shown(.0))]
    TooManyLinks(PathBuf),
    /// Too many patterns for so many files.
    #[error("too many patterns with a `*` inside a name for the files below {}", shown(.0))]
    TooMuchWork(PathBuf),
    /// It took too long.
    #[error("searching {} took longer than {} s", shown(.0), MOST_TIME.as_secs())]
    TooLong(PathBuf),
    /// A folder that is there could not be opened.
    #[error("searching {}: {}", shown(.0), .1)]
    Open(PathBuf, #[source] io::Error),
    /// The mount table could not be read.
    #[error("reading the mount table: {0}")]
    Mounts(#[source] io::Error),
}

/// Names that are kept in folders and below them, as far down as the policy says.
#[derive(Debug)]
pub struct Kept {
    /// The folders, by their paths without links.
    pub folders: BTreeSet<PathBuf>,
    /// The names, or paths of two names.
    pub names: &'static [&'static str],
    /// How many levels of folders are looked through.
    pub depth: u32,
    /// Where the rule came from.
    pub origin: Origin,
}

impl Kept {
    /// The folders below `root`, and it.
    fn folders(&self, root: &Path) -> impl Iterator<Item = &Path> {
        let from = self.folders.range::<Path, _>((Bound::Included(root), Bound::Unbounded));
        from.map(PathBuf::as_path).take_while(move |folder| folder.starts_with(root))
    }
}

/// What to look for in one walk.
#[derive(Debug)]
pub struct Search<'a> {
    /// Paths that match these are told.
    pub patterns: &'a [&'a PathPattern],
    /// Names that are told wherever they stand below a folder, as far down as the policy says.
    pub kept: Option<&'a Kept>,
    /// Below these folders, and not in the many packages of a `node_modules`, git repositories are told.
    pub repositories: &'a BTreeSet<PathBuf>,
    /// Patterns below whose matches repositories are told too.
    pub repositories_in: &'a BTreeSet<usize>,
    /// Patterns that go on behind links to folders: those that deny something.
    pub denies: &'a BTreeSet<usize>,
    /// Folders that are not entered: what is mounted there does not show inside.
    pub closed: &'a BTreeSet<PathBuf>,
    /// Where links lead, if not where they lead this process.
    pub within: Option<&'a View>,
    /// As many entries are looked at.
    pub most_entries: usize,
}

impl<'a> Search<'a> {
    /// A search for what patterns match, and nothing else.
    pub fn of(patterns: &'a [&'a PathPattern]) -> Search<'a> {
        const NO_FOLDERS: &BTreeSet<PathBuf> = &BTreeSet::new();
        const NONE: &BTreeSet<usize> = &BTreeSet::new();
        Search {
            patterns,
            kept: None,
            repositories: NO_FOLDERS,
            repositories_in: NONE,
            denies: NONE,
            closed: NO_FOLDERS,
            within: None,
            most_entries: MOST_ENTRIES,
        }
    }

    /// Where walks have to begin. A folder below another is reached from it.
    fn roots(&self) -> Vec<&'a Path> {
        let prefixes = self.patterns.iter().map(|pattern| pattern.literal_prefix());
        let kept = self.kept.iter().flat_map(|kept| &kept.folders).map(PathBuf::as_path);
        let repositories = self.repositories.iter().map(PathBuf::as_path);
        let mut roots: Vec<&Path> = prefixes.chain(repositories).chain(kept).collect();
        roots.sort_unstable();
        roots.dedup_by(|below, above| below.starts_with(*above));
        roots
    }

    /// The folders below `root` in which something is looked for.
    fn inner_roots(&self, root: &Path) -> BTreeSet<&'a Path> {
        let below = self.repositories.range::<Path, _>((Bound::Excluded(root), Bound::Unbounded));
        let below = below.map(PathBuf::as_path).take_while(|inner| inner.starts_with(root));
        let kept = self.kept.into_iter().flat_map(|kept| kept.folders(root));
        below.chain(kept.filter(|folder| *folder != root)).collect()
    }

    /// The level of a folder from which names are kept, if it is the first of these.
    fn level_of(&self, path: &Path) -> Option<u32> {
        self.kept.filter(|kept| kept.folders.contains(path)).map(|_| 0)
    }

    /// The level of the folder `name` in one of this level, as long as names are looked for in it.
    fn next_level(&self, level: u32, name: &[u8]) -> Option<u32> {
        let kept = self.kept?;
        // The second half of a name of two is one further down than the rest.
        let half = |kept: &&str| kept.split_once('/').is_some_and(|(first, _)| first.as_bytes() == name);
        let deep_enough = level + 1 < kept.depth || (level < kept.depth && kept.names.iter().any(half));
        (deep_enough && name != b"node_modules").then_some(level + 1)
    }
}

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub what: What,
}

/// What a walk finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The pattern with this index matches.
    Match(usize),
    /// The pattern with this index may match something below: the file system that starts here does not answer.
    PerhapsBelow(usize),
    /// The same for repositories.
    PerhapsGitBelow,
    /// The same for kept names.
    PerhapsKeptBelow,
    /// A name that is kept.
    Kept,
    /// Something called `.git`.
    DotGit,
    /// A folder that git takes for a repository although it is not called `.git`.
    Bare,
}

/// A link to a folder in which a deny could match something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFolder {
    /// The link's own path, which has no other link in it.
    pub link: PathBuf,
    /// The folder, by its path without links.
    pub folder: PathBuf,
    /// One of the patterns that go on there.
    pub pattern: usize,
    /// All of them, and with how many of their segments used; none where the walk comes by the folder itself.
    pub places: Vec<(usize, usize)>,
}

/// What a walk came back with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// In the order of paths, parents before children, whoever found it.
    pub seen: Vec<Seen>,
    /// In the same order.
    pub links: Vec<LinkedFolder>,
    /// How many entries were looked at.
    pub entries: usize,
}

/// Everything that is searched for, found in one walk.
pub fn walk(search: &Search) -> Result<Walked, WalkError> {
    walk_alone_for(crew::ALONE, search)
}

fn walk_alone_for(alone: Duration, search: &Search) -> Result<Walked, WalkError> {
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

/// Whether repositories are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seek {
    Nothing,
    Everywhere,
    /// In a `node_modules`, which holds packages, or a folder of packages.
    Packages,
    /// One of these: only whether it is a repository itself.
    Package,
}

impl Seek {
    fn below_match(self, search: &Search, index: usize) -> Seek {
        if search.repositories_in.contains(&index) { Seek::Everywhere } else { self }
    }
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
