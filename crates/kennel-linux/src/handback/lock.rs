//! Locking a folder away that was not looked through: nobody may enter it (mode 0), and it has another name. Git finds no
//! repository there, nothing is deleted, and one command undoes it. The rights stop every user but root, and root has the
//! name and the message.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::aside::{c_name, move_aside};
use super::{SetAside, What, identity};

/// Locks away the folder `itself`, which is at `path`. A folder that can be written by rule keeps its name, unless the
/// caller is root.
pub fn lock_away(itself: BorrowedFd, path: &Path, is_root: bool) -> SetAside {
    let mode = rustix::fs::fstat(itself).map_or(0o700, |stat| stat.st_mode & 0o7777);
    // Before nobody may enter: a folder's `..` is in it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::openat(itself, c"..", flags, Mode::empty());
    let shut = rustix::fs::chmod(format!("/proc/self/fd/{}", itself.as_raw_fd()), Mode::empty());
    let root = rustix::process::geteuid().is_root();
    let moved = if is_root && !root {
        Err(Errno::BUSY)
    } else {
        above.and_then(|above| {
            let name = c_name(path.file_name().ok_or(Errno::BUSY)?)?;
            let same = rustix::fs::openat(&above, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
            if identity(same.as_fd())? != identity(itself)? {
                return Err(Errno::STALE);
            }
            move_aside(above.as_fd(), &name)
        })
    };
    let error = match (&moved, shut) {
        (Ok(_), _) => None,
        (Err(_), Ok(())) if !root => None,
        (Err(error), _) => Some(error.raw_os_error()),
    };
    let moved_to = moved.ok().map(|name| path.with_file_name(OsStr::from_bytes(name.as_bytes())));
    SetAside { path: path.to_path_buf(), what: What::Locked(mode), moved_to, error }
}
