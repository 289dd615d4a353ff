//! File systems of other machines and of users' programs, which may not answer: where they are, and whether they do.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Dir};

use super::open_folder;
use crate::mounts;

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
    let table = mounts::table()?;
    let remote = mounts::mounts(&table).filter(|mount| REMOTE.contains(&mount.kind));
    Ok(remote.map(|mount| (mount.point(), mount.kind == b"autofs")).collect())
}
