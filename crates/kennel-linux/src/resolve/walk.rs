//! One walk for all globs of a policy and for the git repositories in what it lets be written: pruned where nothing
//! below can matter, and bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::pattern::PathPattern;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawDir};

/// More entries than this and the pattern is too wide to be meant.
pub const MOST_ENTRIES: usize = 2_000_000;

/// How long a file system of another machine, or of a user's program, has to answer before a walk keeps out of it.
const ANSWER: Duration = Duration::from_secs(1);

/// File systems whose server may not answer. A walk steps into one only after it was seen to answer.
const REMOTE: &[&[u8]] = &[
    b"nfs",
    b"nfs4",
    b"cifs",
    b"smb3",
    b"smbfs",
    b"autofs",
    b"ceph",
    b"afs",
    b"lustre",
    b"glusterfs",
    b"fuse.sshfs",
    b"fuse.rclone",
    b"fuse.s3fs",
    b"ncpfs",
    b"coda",
    b"fuse",
];

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
    /// But not by these patterns in a `node_modules`.
    pub without_packages: &'a BTreeSet<usize>,
    /// Below these folders, and not in the many packages of a `node_modules`, git repositories are told.
    pub repositories: &'a BTreeSet<PathBuf>,
    /// Patterns below whose matches repositories are told too.
    pub repositories_in: &'a BTreeSet<usize>,
}

impl<'a> Search<'a> {
    /// A search for what patterns match, and nothing else.
    pub fn of(patterns: &'a [&'a PathPattern]) -> Search<'a> {
        const NO_FOLDERS: &BTreeSet<PathBuf> = &BTreeSet::new();
        const NONE: &BTreeSet<usize> = &BTreeSet::new();
        Search { patterns, without_packages: NONE, repositories: NO_FOLDERS, repositories_in: NONE }
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
    /// Something called `.git`.
    DotGit(&'a Path),
    /// A folder that git takes for a repository although it is not called `.git`.
    Bare(&'a Path),
}

/// Calls `found` with everything that is searched for, in one walk.
pub fn walk(search: &Search, mut found: impl FnMut(Seen)) -> Result<(), WalkError> {
    let prefixes = search.patterns.iter().map(|pattern| pattern.literal_prefix());
    let mut roots: Vec<&Path> = prefixes.chain(search.repositories.iter().map(PathBuf::as_path)).collect();
    roots.sort_unstable();
    // A root below another is reached from it.
    roots.dedup_by(|below, above| below.starts_with(*above));
    let remote = remote_mounts()?;
    let mut walk = Walk { search, found: &mut found, remote: &remote, left: MOST_ENTRIES };
    for root in roots {
        let every: Vec<usize> = (0..search.patterns.len()).collect();
        let mut seek = Seek::Nothing;
        for &index in &every {
            if search.patterns[index].matches(root) {
                (walk.found)(Seen::Match(index, root));
                seek = seek.below_match(search, index);
            }
        }
        let mount = root.ancestors().find(|above| remote.contains_key(*above));
        if mount.is_some_and(|_| !walk.answers(root)) {
            walk.passed_over(root, &every, seek);
            continue;
        }
        let Ok(folder) = open_folder(CWD, root.as_os_str()) else { continue };
        if !walk.folder(&folder, &mut root.to_path_buf(), &every, seek) {
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
}

impl Walk<'_, '_> {
    /// Looks through one folder and what lies below it; false when there is too much.
    fn folder(&mut self, folder: &OwnedFd, path: &mut PathBuf, alive: &[usize], seek: Seek) -> bool {
        let Search { patterns, repositories, .. } = self.search;
        let seek = if repositories.contains(path.as_path()) { Seek::Everywhere } else { seek };
        let alive: Vec<usize> =
            alive.iter().copied().filter(|&index| patterns[index].could_match_below(path)).collect();
        if alive.is_empty() && seek == Seek::Nothing && !self.leads_to_a_root(path) {
            return true;
        }
        // A folder that cannot be listed hides nothing from the sandbox, which is the same user.
        let mut buffer = Vec::with_capacity(8192);
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
            if !candidate && !may_be_folder && !sought {
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
            let mut fewer = Vec::new();
            let mut alive = &alive;
            if name == b"node_modules" && !self.search.without_packages.is_empty() {
                fewer.extend(alive.iter().filter(|index| !self.search.without_packages.contains(index)));
                alive = &fewer;
            }
            let matters = !alive.is_empty() || below != Seek::Nothing || self.leads_to_a_root(path);
            if may_be_folder && matters && self.remote.contains_key(path.as_path()) && !self.answers(path) {
                self.passed_over(path, alive, below);
            } else if may_be_folder
                && matters
                && let Ok(inner) = open_folder(folder, OsStr::from_bytes(name))
                && !self.folder(&inner, path, alive, below)
            {
                return false;
            }
            path.pop();
        }
        if seek == Seek::Everywhere && signs.of_a_repository() {
            (self.found)(Seen::Bare(path));
        }
        true
    }

    /// Tells of a package that is a repository, without looking through it.
    fn package(&mut self, folder: &OwnedFd, name: &[u8], path: &Path) {
        let dot_git = Path::new(OsStr::from_bytes(name)).join(".git");
        if rustix::fs::statat(folder, &dot_git, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            (self.found)(Seen::DotGit(&path.join(".git")));
        }
    }

    fn leads_to_a_root(&self, path: &Path) -> bool {
        let next =
            self.search.repositories.range::<Path, _>((Bound::Included(path), Bound::Unbounded)).next();
        next.is_some_and(|root| root.starts_with(path))
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
    /// Whether the file system at `path` lists it in time. Asked on a thread, which may wait for ever: it ends with
    /// this process. What would only be mounted by a look is not looked at.
    fn answers(&self, path: &Path) -> bool {
        if self.remote.get(path).is_some_and(|trigger| *trigger) {
            return false;
        }
        let (tell, told) = std::sync::mpsc::channel();
        let folder = path.to_path_buf();
        let ask = move || {
            let listed = open_folder(CWD, folder.as_os_str()).and_then(|folder| {
                let mut entries = Dir::read_from(&folder)?;
                entries.read().transpose()
            });
            // Nobody waits any more when it came too late.
            let _ = tell.send(listed.is_ok());
        };
        let asked = std::thread::Builder::new().stack_size(64 << 10).spawn(ask);
        let Ok(thread) = asked else { return false };
        let answered = told.recv_timeout(ANSWER).is_ok();
        if answered {
            // It is through; the caller may be about to clone and should have no other thread then.
            drop(thread.join());
        }
        answered
    }

    /// What cannot be looked through may hold anything.
    fn passed_over(&mut self, path: &Path, alive: &[usize], seek: Seek) {
        for &index in alive {
            if self.search.patterns[index].could_match_below(path) {
                (self.found)(Seen::PerhapsBelow(index, path));
            }
        }
        if seek != Seek::Nothing {
            (self.found)(Seen::PerhapsGitBelow(path));
        }
    }
}

fn open_folder(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Mount points of file systems that may stall, from the mount table, which answers at once; true where the uppermost
/// one is autofs, which mounts something when it is looked at.
fn remote_mounts() -> Result<BTreeMap<PathBuf, bool>, WalkError> {
    let table = std::fs::read("/proc/self/mountinfo").map_err(WalkError::Mounts)?;
    let mut found = BTreeMap::new();
    for line in table.split(|byte| *byte == b'\n') {
        let mut columns = line.split(|byte| *byte == b' ');
        let Some(point) = columns.nth(4) else { continue };
        let kind = columns.skip_while(|column| *column != b"-").nth(1).unwrap_or_default();
        if REMOTE.contains(&kind) {
            found.insert(PathBuf::from(OsStr::from_bytes(&unescape(point))), kind == b"autofs");
        }
    }
    Ok(found)
}

/// Turns `\040` and its like back into bytes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_mount_points_are_read_back() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
    }
}
