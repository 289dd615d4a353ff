//! Taking layers away: by hand, and those that were not used for long. What is in them was written by a sandbox, so no name is
//! followed, no depth is taken on trust, and one call removes only so much. What a run holds is left alone.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, Timestamps};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::{FOLDERS, PROJECT, is_at, names, open_own, open_path, own};

/// Layers that no run used for so long are removed.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// And where the file system is nearly full, for so long.
const OLD_WHERE_FULL: Duration = Duration::from_secs(24 * 3600);
/// It is with less free than one part in so many.
const FULL: u64 = 20;
/// They are looked for as often.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// As many names are removed before a run, of what was not to stay.
pub(super) const MOST_AT_START: u64 = 200_000;
/// As many names are removed after a run, of what is old; the next ones remove the rest.
const MOST_AT_END: u64 = 5_000;
/// As many projects are looked at.
pub(super) const MAX_PROJECTS: usize = 4096;
/// As many names of a folder are taken at a time.
const NAMES: usize = 4096;
/// A folder that lies deeper than this is moved up before it is removed: so many are open at a time.
const DEPTH: usize = 32;
/// When old layers were looked for last: the time of this file.
const LOOKED: &str = ".looked";

/// What became of a project's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// They are gone.
    All,
    /// Some are in use, and were left.
    InUse,
    /// There is more than was to be removed at once.
    Part,
}

/// Removes the layers of the project in this folder of `base`.
///
/// # Errors
/// When it is not the caller's, or something cannot be removed.
pub fn clear(base: &Path, name: &OsStr) -> io::Result<Cleared> {
    remove_project(&own(open_path(base, false)?, base)?, name, &mut u64::MAX.clone(), None)
}

/// Removes what was not used for long, if that was not looked for today. What cannot be removed stays.
pub(super) fn forget_old(base: &Path) {
    let Ok(Ok(top)) = open_path(base, false).map(|top| own(top, base)) else { return };
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let looked = rustix::fs::statat(&top, LOOKED, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_mtime);
    if (looked..looked.saturating_add(EVERY.as_secs() as i64)).contains(&now) {
        return;
    }
    let flags = rustix::fs::OFlags::WRONLY
        | rustix::fs::OFlags::CREATE
        | rustix::fs::OFlags::NOFOLLOW
        | rustix::fs::OFlags::NONBLOCK
        | rustix::fs::OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(&top, LOOKED, flags, Mode::RUSR | Mode::WUSR) else { return };
    let is_full = rustix::fs::fstatvfs(&top).is_ok_and(|stat| stat.f_bavail < stat.f_blocks / FULL);
    let old = if is_full { OLD_WHERE_FULL } else { OLD };
    let mut left = MOST_AT_END;
    let folders = names(top.as_fd(), MAX_PROJECTS).unwrap_or_default();
    for (name, _) in folders.iter().filter(|(_, kind)| *kind == FileType::Directory) {
        let before = now.saturating_sub(old.as_secs() as i64);
        let _ = remove_project(&top, OsStr::from_bytes(name), &mut left, Some(before));
    }
    // With more to remove the next run goes on.
    if left > 0 {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let _ = rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now });
    }
}

/// Removes the slots of a project that nobody holds and, if a time is given, nobody used since; then the project, if nothing is left.
fn remove_project(top: &OwnedFd, name: &OsStr, left: &mut u64, before: Option<i64>) -> io::Result<Cleared> {
    let folder = open_own(top, name)?;
    let mut done = Cleared::All;
    for (slot, _) in names(folder.as_fd(), NAMES)?.iter().filter(|(_, kind)| *kind == FileType::Directory) {
        let opened = open_own(&folder, OsStr::from_bytes(slot))?;
        let used = rustix::fs::fstat(&opened)?.st_mtime;
        if before.is_some_and(|before| used >= before)
            || rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            done = Cleared::InUse;
            continue;
        }
        if !empty(opened.as_fd(), left)? {
            return Ok(Cleared::Part);
        }
        // Not if a run has taken it meanwhile: it would be gone below it. It is locked here, and empty.
        rustix::fs::unlinkat(&folder, OsStr::from_bytes(slot), AtFlags::REMOVEDIR)?;
    }
    if done == Cleared::All && rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let is_empty = names(folder.as_fd(), NAMES)?.iter().all(|(_, kind)| *kind != FileType::Directory);
        if is_empty && name.to_str().is_some_and(|name| is_at(&folder, top, name)) {
            match rustix::fs::unlinkat(&folder, PROJECT, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(done)
}

/// Removes all that is in a folder, and at most as many names as `left` says; whether all of it is gone.
pub(super) fn empty(folder: BorrowedFd, left: &mut u64) -> io::Result<bool> {
    let mut moved = 0u64;
    loop {
        let found = names(folder, NAMES)?;
        if found.is_empty() {
            return Ok(true);
        }
        for (name, kind) in found {
            if !remove_name(folder, folder, OsStr::from_bytes(&name), kind, DEPTH, &mut moved, left)? {
                return Ok(false);
            }
        }
    }
}

/// Removes a name and what is below; `false` when there is nothing left to remove by.
fn remove_name(
    top: BorrowedFd,
    folder: BorrowedFd,
    name: &OsStr,
    kind: FileType,
    depth: usize,
    moved: &mut u64,
    left: &mut u64,
) -> io::Result<bool> {
    if *left == 0 {
        return Ok(false);
    }
    *left -= 1;
    if kind != FileType::Directory {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
        return Ok(true);
    }
    if depth == 0 {
        *moved += 1;
        // To be moved to another folder, a folder has to be writable itself.
        rustix::fs::chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
        // A name that nothing has: what cannot be moved for that is moved by another number.
        match rustix::fs::renameat(folder, name, top, format!(".kennel-{moved}")) {
            Ok(()) | Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    let opened = match rustix::fs::openat(folder, name, FOLDERS, Mode::empty()) {
        // The sandbox took the permission away, or the kernel never gave one, as to the folder that an overlay works in.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(folder, name, FOLDERS, Mode::empty())?
        }
        opened => opened?,
    };
    loop {
        let found = names(opened.as_fd(), NAMES)?;
        if found.is_empty() {
            break;
        }
        // What is in a folder without write permission cannot be removed.
        if rustix::fs::fstat(&opened)?.st_mode & 0o700 != 0o700 {
            rustix::fs::fchmod(&opened, Mode::RWXU)?;
        }
        for (name, kind) in found {
            if !remove_name(top, opened.as_fd(), OsStr::from_bytes(&name), kind, depth - 1, moved, left)? {
                return Ok(false);
            }
        }
    }
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?;
    Ok(true)
}
