//! Links in the place of folders of which an index has files.
//!
//! Most of git's commands see that such a folder is a link by now, and pass over what it leads to. `git rm`, `git mv` and
//! `git sparse-checkout` do not (2.47): they remove and write files behind it. So a link that came about in a run, stands
//! where a repository's index has a folder, and leads out of what the sandbox could write, or into a repository's own
//! folder, is set aside. Other links that lead out are nobody's business: builds make them (`result`, `bazel-out`).
//!
//! The links are noted while folders are gone through, and asked about when that is done: each index is read once.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::aside::{move_entry, set_aside};
use super::place::{Beneath, beneath};
use super::repository::{Judge, Read, read, read_into};
use super::shape::{index, notes_changes};
use super::work_tree::Target;
use super::{SetAside, What, open_folder};
use crate::resolve::git::pointer;
use crate::resolve::walk::remote_mounts;

/// As many links are noted, and as many bytes of their paths; further ones that lead out are set aside as they come.
const MAX_LINKS: usize = 16 << 10;
const MAX_BYTES: usize = 4 << 20;
/// Longer paths are in no index.
const MAX_PATH: usize = 4096;

/// The links that lead out.
#[derive(Debug, Default)]
pub struct Links(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    paths: Vec<PathBuf>,
    bytes: usize,
}

impl Links {
    /// Notes those of the links in a folder that came about in the run and lead out.
    pub fn note(
        &self,
        judge: &Judge,
        folder: BorrowedFd,
        at: &Path,
        names: &[std::ffi::CString],
        told: &mut Vec<SetAside>,
    ) {
        if names.is_empty() || at.as_os_str().len() > MAX_PATH {
            return;
        }
        let since = judge.since.filter(|_| notes_changes(folder));
        // No index has anything below a `.git`; such a link is judged with the repositories.
        for name in names.iter().filter(|name| !name.to_bytes().eq_ignore_ascii_case(b".git")) {
            let path = at.join(OsStr::from_bytes(name.to_bytes()));
            if path.as_os_str().len() > MAX_PATH || is_old(folder, name, since) || !leads_out(judge, &path) {
                continue;
            }
            let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.paths.len() < MAX_LINKS && noted.bytes < MAX_BYTES {
                noted.bytes += path.as_os_str().len();
                noted.paths.push(path);
            } else {
                told.push(set_aside(folder, at, name, What::LinkedFolder));
            }
        }
    }

    /// Sets those aside that stand in the place of a folder of an index.
    pub fn judge(self, judge: &Judge, told: &mut Vec<SetAside>) {
        let noted = self.0.into_inner().unwrap_or_else(PoisonError::into_inner).paths;
        // By the work trees that they are in: of these there may be several in each other.
        let mut tops: BTreeMap<PathBuf, Option<GitFolder>> = BTreeMap::new();
        let mut within: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        let mut bad = vec![false; noted.len()];
        for (number, path) in noted.iter().enumerate() {
            for top in path.ancestors().skip(1) {
                // Nobody has the time to find out.
                if judge.budget.is_over() {
                    bad[number] = true;
                    break;
                }
                let found = tops.entry(top.to_path_buf()).or_insert_with(|| GitFolder::of(judge, top));
                if found.is_some() {
                    within.entry(top.to_path_buf()).or_default().push(number);
                }
            }
        }
        for (top, numbers) in within {
            let Some(Some(git)) = tops.get(&top) else { continue };
            let inner =
                |number: usize| noted[number].strip_prefix(&top).unwrap_or(&noted[number]).as_os_str();
            let mut keys: Vec<(Vec<u8>, usize)> = numbers
                .into_iter()
                .map(|number| ([inner(number).as_bytes(), b"/"].concat(), number))
                .collect();
            keys.sort();
            let all = judge.budget.is_over();
            let found = if all { None } else { git.has(judge, &keys, told) };
            for (at, (_, number)) in keys.iter().enumerate() {
                bad[*number] |= found.as_ref().is_none_or(|found| found[at]);
            }
        }
        for (path, _) in noted.iter().zip(bad).filter(|(_, bad)| *bad) {
            // It may have been set aside with a folder above.
            if let Beneath::Link(entry) = beneath(judge.roots, path)
                && entry.path == *path
            {
                told.extend(move_entry(&entry, What::LinkedFolder));
            }
        }
    }
}

/// Whether a link stood there before the run.
fn is_old(folder: BorrowedFd, name: &CStr, since: Option<Duration>) -> bool {
    let Some(since) = since else { return false };
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let Ok(stat) = rustix::fs::statx(folder, name, quiet, StatxFlags::CTIME) else { return false };
    Duration::new(u64::try_from(stat.stx_ctime.tv_sec).unwrap_or(0), stat.stx_ctime.tv_nsec) < since
}

/// Whether a link leads to anything but a file, or a folder that the sandbox could write and that is no repository's own.
/// What leads to nothing within what could be written leads nowhere; an absolute path counts as leading out.
fn leads_out(judge: &Judge, path: &Path) -> bool {
    let Some(root) = judge.roots.iter().find(|root| path.starts_with(&root.path)) else { return true };
    let inner = path.strip_prefix(&root.path).unwrap_or(path);
    // A mount may be of a file system that does not answer.
    let strict = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = root.open().and_then(|root| rustix::fs::openat2(&root, inner, flags, Mode::empty(), strict));
    match found {
        Ok(found) => {
            let place = rustix::fs::readlink(format!("/proc/self/fd/{}", found.as_raw_fd()), Vec::new());
            let place = place.map(|place| PathBuf::from(std::ffi::OsString::from_vec(place.into_bytes())));
            place.map_or(true, |place| {
                place.iter().any(|name| name.eq_ignore_ascii_case(".git"))
                    || judge.is_in_repository(&place.join("x"))
            })
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => false,
        Err(_) => true,
    }
}

/// Where the index of a work tree is.
enum GitFolder {
    /// In a folder that could be written.
    Within(PathBuf),
    /// In one that could not.
    Outside(PathBuf),
    /// It cannot be told.
    Unknown,
}

impl GitFolder {
    /// `None` if a folder is no work tree's top.
    fn of(judge: &Judge, top: &Path) -> Option<GitFolder> {
        let place = top.join(".git");
        match beneath(judge.roots, &place) {
            Beneath::Missing => None,
            Beneath::Found(entry) if entry.kind == FileType::Directory => Some(GitFolder::Within(place)),
            Beneath::Found(entry) if entry.kind == FileType::RegularFile => {
                let text = read(entry.folder.as_fd(), c".git", pointer::MAX_BYTES);
                match judge.pointer(top, &text) {
                    Target::Repository(target) => Some(GitFolder::Within(target)),
                    Target::Nowhere => None,
                    Target::Elsewhere => {
                        let Read::Text(text) = text else { return Some(GitFolder::Unknown) };
                        pointer::gitdir(&text).map(|target| GitFolder::Outside(top.join(target)))
                    }
                }
            }
            Beneath::Found(_) => None,
            Beneath::Link(_) | Beneath::Failed => Some(GitFolder::Unknown),
            // Above what could be written: nothing there was made by the sandbox.
            Beneath::Outside => {
                let remote = remote_mounts().ok()?;
                if top.ancestors().any(|above| remote.contains_key(above)) {
                    return None;
                }
                let stat = rustix::fs::statat(CWD, &place, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Some(GitFolder::Outside(place)),
                    FileType::RegularFile => {
                        let text = crate::resolve::folder::read(CWD, &place, pointer::MAX_BYTES)?;
                        pointer::gitdir(&text).map(|target| GitFolder::Outside(top.join(target)))
                    }
                    _ => None,
                }
            }
        }
    }

    /// Which of these folders, each with a slash at its end and in their order, an index has files of; `None` if there was
    /// one and it cannot be told.
    fn has(&self, judge: &Judge, keys: &[(Vec<u8>, usize)], told: &[SetAside]) -> Option<Vec<bool>> {
        let none = || Some(vec![false; keys.len()]);
        let folder = match self {
            GitFolder::Unknown => return None,
            GitFolder::Within(path) => match beneath(judge.roots, path) {
                Beneath::Found(entry) => {
                    let place = path.join("index");
                    let moved = told.iter().any(|found| found.path == place && found.moved_to.is_some());
                    let before = judge.before.get(path).is_some_and(|before| before.was(c"index").is_some());
                    if (moved || before) && super::signs::kind(entry.itself.as_fd(), c"index").is_none() {
                        return None;
                    }
                    open_folder(entry.itself.as_fd(), c".").ok()?
                }
                _ => return none(),
            },
            GitFolder::Outside(path) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
                    Ok(folder) => folder,
                    Err(_) => return none(),
                }
            }
        };
        let keys: Vec<&[u8]> = keys.iter().map(|(key, _)| key.as_slice()).collect();
        let mut text = judge.budget.large();
        let mut found = vec![false; keys.len()];
        let mut name = c"index".to_owned();
        // A split index goes by a shared one.
        for _ in 0..2 {
            match read_into(folder.as_fd(), &name, index::MAX_BYTES, &mut text) {
                Read::Missing => break,
                Read::Text(()) => {}
                Read::Odd => return None,
            }
            let read = [20, 32].into_iter().find_map(|hash| index::folders(&text, hash, &keys).ok())?;
            found.iter_mut().zip(read.0).for_each(|(found, more)| *found |= more);
            let Some(shared) = read.1 else { break };
            name = std::ffi::CString::new([b"sharedindex.", shared.as_slice()].concat()).ok()?;
        }
        Some(found)
    }
}
