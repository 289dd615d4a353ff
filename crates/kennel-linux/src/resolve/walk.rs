//! Glob expansion: one walk for all globs of a policy, pruned where nothing below can match, and bounded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

/// More entries than this and the pattern is too wide to be meant.
pub const MOST_ENTRIES: usize = 2_000_000;

/// File systems whose server may not answer. A walk does not step into one from outside.
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

/// Calls `found` with the index of each pattern that matches and the path, in one walk over all patterns.
pub fn expand(patterns: &[&PathPattern], mut found: impl FnMut(usize, &Path)) -> Result<(), WalkError> {
    let mut roots: Vec<&Path> = patterns.iter().map(|pattern| pattern.literal_prefix()).collect();
    roots.sort_unstable();
    // A root below another is reached from it.
    roots.dedup_by(|below, above| below.starts_with(*above));
    let avoid = remote_mounts()?;
    let mut walk = Walk { patterns, found: &mut found, avoid: &avoid, left: MOST_ENTRIES };
    for root in roots {
        let every: Vec<usize> = (0..patterns.len()).collect();
        for &index in &every {
            if patterns[index].matches(root) {
                (walk.found)(index, root);
            }
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
    found: &'f mut dyn FnMut(usize, &Path),
    avoid: &'a BTreeSet<PathBuf>,
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
                    (self.found)(index, path);
                }
            }
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if may_be_folder
                && !self.avoid.contains(path)
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

fn open_folder(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Mount points of file systems that may stall, from the mount table, which answers at once.
fn remote_mounts() -> Result<BTreeSet<PathBuf>, WalkError> {
    let table = std::fs::read("/proc/self/mountinfo").map_err(WalkError::Mounts)?;
    let mut found = BTreeSet::new();
    for line in table.split(|byte| *byte == b'\n') {
        let mut columns = line.split(|byte| *byte == b' ');
        let Some(point) = columns.nth(4) else { continue };
        let kind = columns.skip_while(|column| *column != b"-").nth(1).unwrap_or_default();
        if REMOTE.contains(&kind) {
            found.insert(PathBuf::from(OsStr::from_bytes(&unescape(point))));
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
