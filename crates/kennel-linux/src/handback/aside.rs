//! Taking something out of git's way without deleting it: it is renamed, in its own folder, to a name that nobody can
//! guess or use up.
//!
//! What has to be moved may be in a folder whose owner lost the right to write it, or on a disk that the sandbox has
//! filled. Nothing of the sandbox is alive by now, so nobody answers what is done here.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::place::Entry;
use super::signs::kind;
use super::{SetAside, What};

/// Sets a name in a folder aside, and tells of it.
pub fn set_aside(folder: BorrowedFd, at: &Path, name: &CStr, what: What) -> SetAside {
    let path = at.join(OsStr::from_bytes(name.to_bytes()));
    match move_aside(folder, name) {
        Ok(moved) => SetAside { path, what, moved_to: Some(at.join(moved)), error: None },
        Err(error) => SetAside { path, what, moved_to: None, error: Some(error.raw_os_error()) },
    }
}

/// Sets a part of a repository's own folder aside, with `rest` in its place.
pub fn part_aside(folder: BorrowedFd, at: &Path, name: &CStr, rest: Option<&[u8]>, what: What) -> SetAside {
    let replaced = rest.and_then(|rest| replace(folder, name, rest).ok());
    if let Some(moved) = replaced {
        let path = at.join(OsStr::from_bytes(name.to_bytes()));
        return SetAside { path, what, moved_to: Some(at.join(moved)), error: None };
    }
    // On a full disk there is no room for another file; without its configuration a repository is harmless too.
    let done = set_aside(folder, at, name, what.clone());
    if done.error.is_none() {
        return done;
    }
    // And where there is no room for a longer name, `HEAD` changes places with a folder, which takes none: git takes this
    // for no repository then. (With a file it might, if the sandbox has written one that reads as the other.)
    let swapped = [c"objects", c"refs", c"hooks"].into_iter().find(|name| {
        kind(folder, name) == Some(FileType::Directory) && exchange(folder, name, c"HEAD").is_ok()
    });
    match swapped {
        Some(place) => SetAside {
            path: at.join("HEAD"),
            what: What::Head(Box::new(what)),
            moved_to: Some(at.join(OsStr::from_bytes(place.to_bytes()))),
            error: None,
        },
        None => done,
    }
}

/// Sets aside what was found on a way.
pub fn move_entry(entry: &Entry, what: What) -> Option<SetAside> {
    let (name, at) = (entry.name.as_ref()?, entry.path.parent()?);
    Some(set_aside(entry.folder.as_fd(), at, name, what))
}

/// Renames `name` beside, and tells its new name.
pub fn move_aside(folder: BorrowedFd, name: &CStr) -> Result<OsString, Errno> {
    with_rights(folder, || {
        // Of 64 bits by chance none is there already.
        for _ in 0..4 {
            let aside = aside(name)?;
            match rename(folder, name, &aside) {
                Err(Errno::EXIST) => {}
                other => return other.map(|()| OsString::from_vec(aside.into_bytes())),
            }
        }
        Err(Errno::EXIST)
    })
}

/// Puts `text` in the place of the file `name`, which is then beside; tells its new name. The two change places in one
/// step, where the file system can do that.
fn replace(folder: BorrowedFd, name: &CStr, text: &[u8]) -> Result<OsString, Errno> {
    with_rights(folder, || {
        let new = aside(name)?;
        let mode = Mode::from_raw_mode(0o644);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, &new, flags, mode)?;
        let changed = write_all(&file, text).and_then(|()| exchange(folder, &new, name));
        let changed = match changed {
            // Before Linux 3.15, and on file systems of other machines.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let old = aside(name)?;
                return rename(folder, name, &old)
                    .and_then(|()| rename(folder, &new, name))
                    .map(|()| OsString::from_vec(old.into_bytes()));
            }
            other => other,
        };
        if changed.is_err() {
            // It is our own, made a moment ago.
            let _ = rustix::fs::unlinkat(folder, &new, AtFlags::empty());
        }
        changed.map(|()| OsString::from_vec(new.into_bytes()))
    })
}

/// Has two names change places. It needs no room on the disk.
fn exchange(folder: BorrowedFd, one: &CStr, other: &CStr) -> Result<(), Errno> {
    rustix::fs::renameat_with(folder, one, folder, other, RenameFlags::EXCHANGE)
}

fn rename(folder: BorrowedFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot; the name is one that nobody could have made.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rustix::fs::renameat(folder, from, folder, to),
        other => other,
    }
}

/// `NAME.set-aside-by-kennel-…`
fn aside(name: &CStr) -> Result<CString, Errno> {
    let mut number = [0u8; 8];
    rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
    let mut aside = name.to_bytes().to_vec();
    // Within the longest name that file systems take.
    aside.truncate(200);
    aside.extend_from_slice(format!(".set-aside-by-kennel-{:016x}", u64::from_ne_bytes(number)).as_bytes());
    CString::new(aside).map_err(|_| Errno::INVAL)
}

/// Does something in a folder; where its owner has lost the right to, the owner has it meanwhile.
fn with_rights<T>(folder: BorrowedFd, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let Some(unlocked) = Unlocked::new(folder)? else { return Err(Errno::ACCESS) };
    let done = act();
    drop(unlocked);
    done
}

/// A folder whose owner has all rights to it for a while.
#[derive(Debug)]
pub struct Unlocked {
    folder: OwnedFd,
    mode: Mode,
}

impl Unlocked {
    /// `None` if the folder is another's, or its owner has all rights.
    pub fn new(folder: BorrowedFd) -> Result<Option<Unlocked>, Errno> {
        let stat = rustix::fs::fstat(folder)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        let own = stat.st_uid == rustix::process::geteuid().as_raw();
        if !own || mode.contains(Mode::RWXU) {
            return Ok(None);
        }
        let folder = rustix::io::fcntl_dupfd_cloexec(folder, 3)?;
        let unlocked = Unlocked { folder, mode };
        unlocked.change(mode | Mode::RWXU)?;
        Ok(Some(unlocked))
    }

    /// Leaves it so.
    pub fn stay(mut self) {
        self.mode |= Mode::RWXU;
    }

    fn change(&self, mode: Mode) -> Result<(), Errno> {
        use std::os::fd::AsRawFd;
        // By way of /proc, because the descriptor may be one that cannot be changed by (O_PATH).
        rustix::fs::chmod(format!("/proc/self/fd/{}", self.folder.as_raw_fd()), mode)
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        let _ = self.change(self.mode);
    }
}

fn write_all(file: &OwnedFd, mut text: &[u8]) -> Result<(), Errno> {
    while !text.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::write(file.as_fd(), text))?;
        text = &text[count..];
    }
    Ok(())
}

/// A name for system calls.
pub fn c_name(name: &OsStr) -> Result<CString, Errno> {
    CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)
}
