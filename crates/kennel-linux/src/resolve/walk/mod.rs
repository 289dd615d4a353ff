//! One walk for all globs of a policy, for the names it keeps, and for the git repositories in what it lets be written:
//! pruned where nothing below can matter, and bounded.

mod leaf;
mod remote;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::KeptNames;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir};

use leaf::{Counted, Leaf};
use remote::{answers, remote_mounts};

/// More entries than this and the pattern is too wide to be meant.
pub const MOST_ENTRIES: usize = 2_000_000;

/// Why a walk was given up.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// Too much to look at.
    #[error("more than {MOST_ENTRIES} files below {}", .0.display())]
    TooWide(PathBuf),
    /// The mount table could not be read.
    #[error("reading the mount table: {0}")]
    Mounts(#[source] io::Error),
}

/// What to look for in one walk.
#[derive(Debug)]
pub struct Search<'a> {
    /// Paths that match these are told.
    pub patterns: &'a [&'a PathPattern],
    /// Names that are told wherever they stand below a folder, as far down as the policy says.
    pub kept: Option<&'a KeptNames>,
    /// Below these folders, and not in the many packages of a `node_modules`, git repositories are told.
    pub repositories: &'a BTreeSet<PathBuf>,
    /// Patterns below whose matches repositories are told too.
    pub repositories_in: &'a BTreeSet<usize>,
}

impl<'a> Search<'a> {
    /// The folder from which names are kept, if it lies below `root`.
    fn kept_folder_in(&self, root: &Path) -> Option<&'a Path> {
        self.kept
            .map(|kept| kept.folder.as_path())
            .filter(|folder| folder.starts_with(root) && *folder != root)
    }

    /// The level of a folder from which names are kept, if it is the first of these.
    fn level_of(&self, path: &Path) -> Option<u32> {
        self.kept.filter(|kept| kept.folder == path).map(|_| 0)
    }

    /// The level of the folder `name` in one of this level, as long as names are looked for in it.
    fn next_level(&self, level: u32, name: &[u8]) -> Option<u32> {
        let kept = self.kept?;
        // The second half of a name of two is one further down than the rest.
        let half = |kept: &&str| kept.split_once('/').is_some_and(|(first, _)| first.as_bytes() == name);
        let deep_enough = level + 1 < kept.depth || (level < kept.depth && kept.names.iter().any(half));
        (deep_enough && name != b"node_modules").then_some(level + 1)
    }

    /// A search for what patterns match, and nothing else.
    pub fn of(patterns: &'a [&'a PathPattern]) -> Search<'a> {
        const NO_FOLDERS: &BTreeSet<PathBuf> = &BTreeSet::new();
        const NONE: &BTreeSet<usize> = &BTreeSet::new();
        Search { patterns, kept: None, repositories: NO_FOLDERS, repositories_in: NONE }
    }
}

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A path that matches the pattern with this index.
    Match(usize, &'a Path),
    /// A path below which the pattern with this index may match: the file system that starts there does not answer.
    PerhapsBelow(usize, &'a Path),
    /// The same for repositories.
    PerhapsGitBelow(&'a Path),
    /// The same for kept names.
    PerhapsKeptBelow(&'a Path),
    /// A name that is kept.
    Kept(&'a Path),
    /// Something called `.git`.
    DotGit(&'a Path),
    /// A folder that git takes for a repository although it is not called `.git`.
    Bare(&'a Path),
}

/// Calls `found` with everything that is searched for, in one walk.
pub fn walk(search: &Search, mut found: impl FnMut(Seen)) -> Result<(), WalkError> {
    let prefixes = search.patterns.iter().map(|pattern| pattern.literal_prefix());
    let kept = search.kept.iter().map(|kept| kept.folder.as_path());
    let mut roots: Vec<&Path> =
        prefixes.chain(search.repositories.iter().map(PathBuf::as_path)).chain(kept).collect();
    roots.sort_unstable();
    // A root below another is reached from it.
    roots.dedup_by(|below, above| below.starts_with(*above));
    let remote = remote_mounts().map_err(WalkError::Mounts)?;
    let mut walk = Walk {
        search,
        found: &mut found,
        remote: &remote,
        left: MOST_ENTRIES,
        counted: None,
        inner_roots: BTreeSet::new(),
    };
    for root in roots {
        let every: Vec<usize> = (0..search.patterns.len()).collect();
        let is_root = search.repositories.contains(root);
        let mut seek = if is_root { Seek::Everywhere } else { Seek::Nothing };
        let below = search.repositories.range::<Path, _>((Bound::Excluded(root), Bound::Unbounded));
        let below = below.map(PathBuf::as_path).take_while(|inner| inner.starts_with(root));
        walk.inner_roots = below.chain(search.kept_folder_in(root)).collect();
        for &index in &every {
            if search.patterns[index].matches(root) {
                (walk.found)(Seen::Match(index, root));
                seek = seek.below_match(search, index);
            }
        }
        let mount = root.ancestors().find(|above| remote.contains_key(*above));
        if mount.is_some_and(|_| !answers(&remote, root)) {
            walk.passed_over(root, &every, seek, search.level_of(root));
            continue;
        }
        let Ok(folder) = open_folder(CWD, root.as_os_str()) else { continue };
        walk.counted = Some(Counted::at(&folder));
        if !walk.folder(&folder, &mut root.to_path_buf(), &every, seek, None) {
            return Err(WalkError::TooWide(root.to_path_buf()));
        }
    }
    Ok(())
}

/// Whether repositories are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seek {
    Nothing,
    Everywhere,
    /// In a `node_modules`, which holds packages, or a folder of packages: only whether one of them is a repository.
    Packages,
}

impl Seek {
    fn below_match(self, search: &Search, index: usize) -> Seek {
        if search.repositories_in.contains(&index) { Seek::Everywhere } else { self }
    }
}

struct Walk<'a, 'f> {
    search: &'a Search<'a>,
    found: &'f mut dyn FnMut(Seen),
    /// Mount points of file systems that may not answer, and whether there is only something that would mount one.
    remote: &'a BTreeMap<PathBuf, bool>,
    left: usize,
    /// Folders in which something is looked for and that are reached from a folder above. Mostly there are none, and
    /// most folders need not be compared with any.
    inner_roots: BTreeSet<&'a Path>,
    /// The file system that the walk began on.
    counted: Option<Counted>,
}

impl Walk<'_, '_> {
    /// Looks through one folder and what lies below it; false when there is too much. `level` counts the folders from
    /// the one whose names are kept, if this is one of them.
    fn folder(
        &mut self,
        folder: &OwnedFd,
        path: &mut PathBuf,
        alive: &[usize],
        seek: Seek,
        level: Option<u32>,
    ) -> bool {
        let Search { patterns, repositories, kept, .. } = self.search;
        let here = self.inner_roots.contains(path.as_path()) && repositories.contains(path.as_path());
        let seek = if here { Seek::Everywhere } else { seek };
        let level = level.or_else(|| self.search.level_of(path));
        let alive: Vec<usize> =
            alive.iter().copied().filter(|&index| patterns[index].could_match_below(path)).collect();
        if alive.is_empty() && seek == Seek::Nothing && level.is_none() && !self.leads_to_a_root(path) {
            return true;
        }
        // A folder that cannot be listed hides nothing from the sandbox, which is the same user.
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
        let mut signs = Signs::default();
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            signs.note(name);
            let candidate = alive.iter().any(|&index| patterns[index].could_end_with(name));
            let sought = name == b".git" && seek != Seek::Nothing;
            let kept_here = level.and(*kept).is_some_and(|kept| may_be_kept(kept, name));
            if !candidate && !may_be_folder && !sought && !kept_here {
                continue;
            }
            path.push(OsStr::from_bytes(name));
            let mut below = match (seek, name) {
                (Seek::Nothing | Seek::Packages, _) => Seek::Nothing,
                (Seek::Everywhere, b"node_modules") => Seek::Packages,
                (Seek::Everywhere, _) => Seek::Everywhere,
            };
            if seek == Seek::Packages && may_be_folder {
                if name.starts_with(b"@") {
                    below = Seek::Packages;
                } else {
                    self.package(folder, name, path);
                }
            }
            if name == b".git" && seek == Seek::Everywhere {
                (self.found)(Seen::DotGit(path));
                below = Seek::Nothing;
            }
            for &index in alive.iter().filter(|_| candidate) {
                if patterns[index].matches(path) {
                    (self.found)(Seen::Match(index, path));
                    below = below.below_match(self.search, index);
                }
            }
            if kept_here && kept.is_some_and(|kept| is_kept(kept, path)) {
                (self.found)(Seen::Kept(path));
            }
            let level_below = level.and_then(|level| self.search.next_level(level, name));
            if may_be_folder && !self.inner(folder, path, &alive, below, level_below) {
                return false;
            }
            path.pop();
        }
        if seek == Seek::Everywhere && signs.of_a_repository() {
            (self.found)(Seen::Bare(path));
        }
        true
    }

    /// Looks through the folder at the end of `path`, if there is a reason to; false when there is too much.
    fn inner(
        &mut self,
        folder: &OwnedFd,
        path: &mut PathBuf,
        alive: &[usize],
        seek: Seek,
        level: Option<u32>,
    ) -> bool {
        let leads = self.leads_to_a_root(path);
        if alive.is_empty() && seek == Seek::Nothing && level.is_none() && !leads {
            return true;
        }
        if !self.remote.is_empty() && self.remote.contains_key(path.as_path()) && !answers(self.remote, path)
        {
            self.passed_over(path, alive, seek, level);
            return true;
        }
        let name = path.file_name().unwrap_or_default();
        let listed = level.is_some()
            || leads
            || alive.iter().any(|&index| self.search.patterns[index].could_match_below(path));
        if let (false, Some(counted)) = (listed, self.counted) {
            match counted.look(folder, name.as_bytes()) {
                Leaf::Unknown => {}
                Leaf::Plain => return true,
                Leaf::DotGit => {
                    if seek == Seek::Everywhere {
                        (self.found)(Seen::DotGit(&path.join(".git")));
                    }
                    return true;
                }
            }
        }
        match open_folder(folder, name) {
            Ok(inner) => self.folder(&inner, path, alive, seek, level),
            Err(_) => true,
        }
    }

    /// Tells of a package that is a repository, without looking through it.
    fn package(&mut self, folder: &OwnedFd, name: &[u8], path: &Path) {
        let dot_git = Path::new(OsStr::from_bytes(name)).join(".git");
        if rustix::fs::statat(folder, &dot_git, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            (self.found)(Seen::DotGit(&path.join(".git")));
        }
    }

    fn leads_to_a_root(&self, path: &Path) -> bool {
        let mut next = self.inner_roots.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        next.next().is_some_and(|root| root.starts_with(path))
    }
}

/// What git looks for when it asks whether a folder is a repository's own: `HEAD`, `objects` and `refs`, or instead of
/// these two a `commondir` that says where they are.
#[derive(Default)]
struct Signs {
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl Signs {
    fn note(&mut self, name: &[u8]) {
        match name {
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            _ => {}
        }
    }

    fn of_a_repository(&self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }
}

impl Walk<'_, '_> {
    /// What cannot be looked through may hold anything.
    fn passed_over(&mut self, path: &Path, alive: &[usize], seek: Seek, level: Option<u32>) {
        for &index in alive {
            if self.search.patterns[index].could_match_below(path) {
                (self.found)(Seen::PerhapsBelow(index, path));
            }
        }
        if seek != Seek::Nothing {
            (self.found)(Seen::PerhapsGitBelow(path));
        }
        if level.is_some() {
            (self.found)(Seen::PerhapsKeptBelow(path));
        }
    }
}

/// A folder's entries are asked for in pieces of this size; most fit into one.
const BUFFER: usize = 32 << 10;

fn open_folder(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Whether an entry of this name could be one that is kept.
fn may_be_kept(kept: &KeptNames, name: &[u8]) -> bool {
    kept.names.iter().any(|kept| kept.as_bytes().ends_with(name))
}

/// Whether what stands at `path`, below the folder, is kept. In the folder itself it is kept in any case.
fn is_kept(kept: &KeptNames, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(&kept.folder) else { return false };
    let levels = inside.components().count();
    let name = |name: &&&str| {
        let above = levels - Path::new(name).components().count().min(levels);
        inside.ends_with(name) && (1..kept.depth as usize).contains(&above)
    };
    kept.names.iter().any(|kept| name(&kept))
}
