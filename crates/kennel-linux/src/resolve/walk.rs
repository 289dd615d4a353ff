//! Glob expansion: one walk for all globs of a policy, pruned where nothing below can match, and bounded.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::pattern::PathPattern;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

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

/// How sure a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// The path matches.
    Surely,
    /// Something below it may match: the file system that starts there does not answer.
    Perhaps,
}

/// Calls `found` with the index of each pattern that matches and the path, in one walk over all patterns.
pub fn expand(
    patterns: &[&PathPattern],
    mut found: impl FnMut(usize, &Path, Matched),
) -> Result<(), WalkError> {
    let mut roots: Vec<&Path> = patterns.iter().map(|pattern| pattern.literal_prefix()).collect();
    roots.sort_unstable();
    // A root below another is reached from it.
    roots.dedup_by(|below, above| below.starts_with(*above));
    let remote = remote_mounts()?;
    let mut walk = Walk { patterns, found: &mut found, remote: &remote, left: MOST_ENTRIES };
    for root in roots {
        let every: Vec<usize> = (0..patterns.len()).collect();
        for &index in &every {
            if patterns[index].matches(root) {
                (walk.found)(index, root, Matched::Surely);
            }
        }
        let mount = root.ancestors().find(|above| remote.contains_key(*above));
        if mount.is_some_and(|_| !walk.answers(root)) {
            walk.passed_over(root, &every);
            continue;
        }
        let Ok(folder) = open_folder(CWD, root.as_os_str()) else { continue };
        if !walk.folder(&folder, &mut root.to_path_buf(), &every) {
            return Err(WalkError::TooWide(root.to_path_buf()));
        }
    }
    Ok(())
}

struct Walk<'a, 'f> {
    patterns: &'a [&'a PathPattern],
    found: &'f mut dyn FnMut(usize, &Path, Matched),
    /// Mount points of file systems that may not answer, and whether there is only something that would mount one.
    remote: &'a BTreeMap<PathBuf, bool>,
    left: usize,
}

impl Walk<'_, '_> {
    /// Looks through one folder and what lies below it; false when there is too much.
    fn folder(&mut self, folder: &OwnedFd, path: &mut PathBuf, alive: &[usize]) -> bool {
        let alive: Vec<usize> =
            alive.iter().copied().filter(|&index| self.patterns[index].could_match_below(path)).collect();
        if alive.is_empty() {
            return true;
        }
        // A folder that cannot be listed hides nothing from the sandbox, which is the same user.
        let Ok(entries) = Dir::read_from(folder) else { return true };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            path.push(OsStr::from_bytes(name));
            for &index in &alive {
                if self.patterns[index].matches(path) {
                    (self.found)(index, path, Matched::Surely);
                }
            }
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if may_be_folder && self.remote.contains_key(path) && !self.answers(path) {
                self.passed_over(path, &alive);
            } else if may_be_folder
                && let Ok(below) = open_folder(folder, OsStr::from_bytes(name))
                && !self.folder(&below, path, &alive)
            {
                return false;
            }
            path.pop();
        }
        true
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
    fn passed_over(&mut self, path: &Path, alive: &[usize]) {
        for &index in alive {
            if self.patterns[index].could_match_below(path) {
                (self.found)(index, path, Matched::Perhaps);
            }
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
