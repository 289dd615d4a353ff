//! File systems of other machines and of users' programs, which may not answer: where they are, and whether they do.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Dir};

use super::open_folder;

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

/// Whether the file system at `path` lists it in time. Asked on a thread, which may wait for ever: it ends with
/// this process. What would only be mounted by a look is not looked at.
pub fn answers(remote: &BTreeMap<PathBuf, bool>, path: &Path) -> bool {
    if remote.get(path).is_some_and(|trigger| *trigger) {
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

/// Mount points of file systems that may stall, from the mount table, which answers at once; true where the uppermost
/// one is autofs, which mounts something when it is looked at.
pub fn remote_mounts() -> io::Result<BTreeMap<PathBuf, bool>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
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
