//! The guard's second lock on absent names: their folders are watched.
//!
//! A caller can change its memory between the guard's look at a path and the kernel's own, so a protected name may
//! appear all the same. Then the sandbox is ended, and the name is taken away.
//!
//! The watches are placed when the sandbox makes its first name: before, none can have appeared by its doing. What stands at
//! a name that is to be hidden by then is the host's: it is covered instead ([`super::covered`]), and stays.
//!
//! What appeared may hold something that somebody needs: a folder of the user's that was renamed, or a file that the user
//! makes at this very moment outside, and is still to write. So it is moved aside, to a name beside it that nobody can have
//! taken in advance; and only what is empty there, and open nowhere, is removed.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kennel_policy::outcome::Mended;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

use super::as_root;
use super::folders::{FolderWatch, Place, Subscriber};
use super::permission::with_permission;
use super::protected_paths::{Folders, Guarded, ProtectedPaths, open_folder};
use super::walk;
use crate::held::beside;
use crate::sys::files::lease;

/// The watch over absent names.
#[derive(Debug)]
pub struct AbsentWatch {
    begun: bool,
    /// What the host had put at protected paths before the sandbox made its first name.
    hosts: BTreeMap<usize, Standing>,
}

/// Something that stands at a path: its device and number, and when it was born, since numbers are used again.
type Standing = (u32, u32, u64, (i64, u32));

impl AbsentWatch {
    /// Gets ready to watch.
    #[must_use]
    pub fn of_a_run_that_starts() -> AbsentWatch {
        AbsentWatch { begun: false, hosts: BTreeMap::new() }
    }

    /// Whether the watches have been placed.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Places the watches, as far as the folders exist. What stands at a protected path by now has yet to be mended.
    ///
    /// # Errors
    /// When the user's limit on inotify is reached, or the disk cannot be looked at.
    pub fn begin(&mut self, ground: &ProtectedPaths, folders: &mut FolderWatch) -> Result<(), Errno> {
        self.begun = true;
        let mut known = Folders::default();
        for (path, guarded) in ground.paths().iter().enumerate() {
            let mut places = Vec::with_capacity(guarded.rest.len());
            for (level, name) in guarded.rest.iter().enumerate() {
                let Some(watch) =
                    known.at(guarded, level, |folder| with_permission(folder, || folders.watch(folder)))?
                else {
                    break;
                };
                places.push(Place { watch, name: name.as_bytes().to_vec() });
            }
            folders.place(Subscriber::Absent(path), places);
        }
        Ok(())
    }

    /// Takes note of what stands at a path when the watches are placed: the sandbox has made no name by then, so it is the
    /// host's, and is left alone for as long as it stands. Says whether there is something.
    pub fn leave(&mut self, ground: &ProtectedPaths, path: usize) -> bool {
        let guarded = &ground.paths()[path];
        let holder = guarded.folder(guarded.rest.len() - 1).ok().flatten();
        let standing = holder.and_then(|holder| standing(holder.as_fd(), guarded.name()));
        standing.is_some_and(|standing| self.hosts.insert(path, standing).is_none())
    }

    /// Looks at a path, and mends it if it is broken; `end`, which ends the sandbox, is called before. `None` when all is
    /// well.
    pub fn mend(
        &mut self,
        ground: &ProtectedPaths,
        path: usize,
        folders: &mut FolderWatch,
        end: &mut impl FnMut(),
    ) -> Option<Mended> {
        let guarded = &ground.paths()[path];
        let holder = match place(guarded, path, folders) {
            Ok(holder) => holder,
            Err(error) => {
                end();
                return Some(Mended::Not(error.raw_os_error()));
            }
        };
        // Without a folder to hold it there is no such name.
        let holder = holder?;
        if let Some(known) = self.hosts.get(&path) {
            if standing(holder.as_fd(), guarded.name()) == Some(*known) {
                return None;
            }
            self.hosts.remove(&path);
        }
        self.clear(holder.as_fd(), guarded.name(), end)
            .unwrap_or_else(|error| Some(Mended::Not(error.raw_os_error())))
    }

    /// Clears a name.
    fn clear(
        &self,
        folder: BorrowedFd,
        name: &[u8],
        end: &mut impl FnMut(),
    ) -> Result<Option<Mended>, Errno> {
        let name = walk::c_string(name)?;
        let (mut mended, mut appeared) = (None, false);
        // Whoever races may do it again before the sandbox is dead.
        for _ in 0..100 {
            // The look needs permission too: a folder that was shut would seem to hold the name for ever.
            let look = || as_root::exists(folder, &name);
            if let Err(Errno::NOENT) = with_permission(folder, look) {
                return Ok(mended.or(appeared.then_some(Mended::Gone)));
            }
            appeared = true;
            end();
            match with_permission(folder, || self.clear_once(folder, &name)) {
                Ok(done) => mended = Some(done),
                // Somebody was quicker.
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::BUSY)
    }

    fn clear_once(&self, folder: BorrowedFd, name: &CStr) -> Result<Mended, Errno> {
        let stat = as_root::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
        if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory {
            // Succeeds only on an empty one.
            match as_root::unlinkat(folder, name, AtFlags::REMOVEDIR) {
                Ok(()) => return Ok(Mended::Removed),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        let aside = move_aside(folder, name)?;
        if is_nothing(folder, &aside) && as_root::unlinkat(folder, &aside, AtFlags::empty()).is_ok() {
            return Ok(Mended::Removed);
        }
        Ok(Mended::MovedAside(OsString::from_vec(aside.into_bytes())))
    }
}

/// Whether what was moved aside is an empty file that nobody has open, and so nobody is about to write to: by the name that
/// it had it can no longer be opened.
fn is_nothing(folder: BorrowedFd, aside: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_empty_file = |file: BorrowedFd| {
        rustix::fs::fstat(file).is_ok_and(|stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            kind == FileType::RegularFile && stat.st_size == 0 && stat.st_nlink == 1
        })
    };
    // Not what would do something when it is opened.
    let Ok(found) = walk::open(&folder, aside.to_bytes()) else { return false };
    if !is_empty_file(found.as_fd()) {
        return false;
    }
    let Ok(file) = rustix::fs::openat(folder, aside, flags, Mode::empty()) else { return false };
    lease(&file).is_ok() && is_empty_file(file.as_fd())
}

/// What stands at a name; `None` also where a file system does not tell all of it.
fn standing(folder: BorrowedFd, name: &[u8]) -> Option<Standing> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let name = walk::c_string(name).ok()?;
    let look = || as_root::statx(folder, &name, AtFlags::SYMLINK_NOFOLLOW, wanted);
    let stat = with_permission(folder, look).ok()?;
    let born = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
    let told = stat.stx_mask & wanted.bits() == wanted.bits();
    told.then_some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino, born))
}

/// Places the watches of one path anew. Each is placed before the next component is looked up, so that nothing
/// comes about in between unseen. Returns the folder that holds the name.
fn place(guarded: &Guarded, path: usize, folders: &mut FolderWatch) -> Result<Option<OwnedFd>, Errno> {
    let last = guarded.rest.len() - 1;
    let mut at = guarded.folder(0)?;
    let mut places = Vec::with_capacity(guarded.rest.len());
    for (level, name) in guarded.rest.iter().enumerate() {
        let Some(folder) = &at else { break };
        let watch = with_permission(folder.as_fd(), || folders.watch(folder.as_fd()))?;
        places.push(Place { watch, name: name.as_bytes().to_vec() });
        if level < last {
            let next = || open_folder(folder.as_fd(), name.as_bytes());
            at = with_permission(folder.as_fd(), next)?;
        }
    }
    folders.place(Subscriber::Absent(path), places);
    Ok(at)
}

/// Whether a file was made since then. A file system that does not tell counts as one that says no.
pub(super) fn is_born_since(stat: &rustix::fs::Statx, started: Duration) -> bool {
    // The kernel stamps files with the time of its last tick.
    const TICK: Duration = Duration::from_millis(20);
    let told = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = Duration::new(u64::try_from(stat.stx_btime.tv_sec).unwrap_or(0), stat.stx_btime.tv_nsec);
    told && born + TICK >= started
}

/// The time by which the kernel stamps files.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Renames to a free name beside.
fn move_aside(folder: BorrowedFd, name: &CStr) -> Result<CString, Errno> {
    loop {
        let aside = beside(OsStr::from_bytes(name.to_bytes()), "refused-by-kennel");
        let aside = aside.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let aside = CString::new(aside.into_vec()).map_err(|_| Errno::INVAL)?;
        match as_root::rename_in(folder, name, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => {}
            // A file system that cannot promise it; nobody has the name all the same.
            Err(Errno::INVAL) => {
                as_root::rename_in(folder, name, &aside, RenameFlags::empty())?;
                return Ok(aside);
            }
            Err(error) => return Err(error),
        }
    }
}
