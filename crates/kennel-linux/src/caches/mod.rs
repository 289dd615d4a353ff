//! The layers of caches, on the caller's disk: `~/.local/state/kennel/caches/PROJECT/SLOT/LAYER`.
//!
//! A project has a folder by the name of a hash, with the project's path in a file. In it are *slots*, a set of layers each: the
//! kernel leaves undefined what two overlays with one upper folder show, so a run locks its slot until it is over, and a second one
//! at the same time takes the next. A layer is `u` and `w`, the upper and the work folder of an overlay, and `p`, what is kept where
//! there is no overlay: a sandbox writes the latter as it is, so the kernel never reads attributes of an overlay in it.
//!
//! Everything here belongs to the caller and is open to nobody else. Folders are walked name by name and no link is followed; what is
//! somebody else's, or no folder, is not used.

mod list;
mod remove;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kennel_policy::caches::{CacheEntry, CacheKind, FOLDER};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Timestamps};
use rustix::io::Errno;
use rustix::time::Timespec;

pub use list::{KeptLayer, KeptProject, list};
pub use remove::{Cleared, clear};

/// So many runs of a project have layers at the same time.
pub const SLOTS: usize = 8;
/// As often is a project's folder made again that somebody removes.
const MOST_TRIES: usize = 8;
/// The file with a project's path and what else it is told from others by.
const PROJECT: &str = "project";
/// The longest that it is.
const MAX_PROJECT: usize = 64 << 10;
/// The parts of a layer: those of an overlay, and what is used without one.
const UPPER: &str = "u";
const WORK: &str = "w";
/// The part of a layer that is used without an overlay.
pub const PLAIN: &str = "p";

const FOLDERS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where the layers of the caller are; `None` without a home.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let home = crate::home::homes()
        .into_iter()
        .find_map(|home| home.canonicalize().ok().filter(|home| home.is_dir()));
    Some(home?.join(FOLDER))
}

/// The layers that a run holds.
#[derive(Debug)]
pub struct Layers {
    /// Locked for as long as it is open.
    slot: OwnedFd,
    path: PathBuf,
    /// Whether something runs on them. What was made for a run that did not start is taken away.
    is_used: AtomicBool,
    /// What was made for them, innermost first.
    made: Vec<PathBuf>,
}

/// Two that are the same are the same value.
impl PartialEq for Layers {
    fn eq(&self, other: &Layers) -> bool {
        self.path == other.path
    }
}

impl Eq for Layers {}

/// When a run is over is when to look for what nobody used for long: once a day, and a bounded number of names.
impl Drop for Layers {
    fn drop(&mut self) {
        let Some(base) = self.path.ancestors().nth(2) else { return };
        if *self.is_used.get_mut() {
            remove::forget_old(base);
        } else if let Some((project, above)) = self.made.split_first() {
            let _ = rustix::fs::flock(&self.slot, FlockOperation::Unlock);
            let _ = clear(base, project.file_name().unwrap_or_default());
            // As far as they are empty.
            above.iter().all(|folder| std::fs::remove_dir(folder).is_ok());
        }
    }
}

impl Layers {
    /// Takes the layers of a project, below `base`; `None` where as many runs as there are slots hold some.
    ///
    /// # Errors
    /// When a folder cannot be made, or is somebody else's, or a link.
    pub fn take(base: &Path, project: &[u8]) -> io::Result<Option<Layers>> {
        let is_missing = |path: &&Path| std::fs::symlink_metadata(path).is_err();
        let whole = base.join(name_of(project));
        let made = whole.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        let top = own(open_path(base, true)?, base)?;
        let name = name_of(project);
        let mut tries = 0;
        let folder = loop {
            let folder = make_and_open(&top, &name)?;
            // One that is being removed at this moment has no name by then.
            rustix::fs::flock(&folder, FlockOperation::LockExclusive)?;
            match is_at(&folder, &top, &name) {
                true => break folder,
                false if tries == MOST_TRIES => return Err(Errno::STALE.into()),
                false => tries += 1,
            }
        };
        mark(&folder, project)?;
        for slot in 0..SLOTS {
            let slot = slot.to_string();
            let opened = make_and_open(&folder, &slot)?;
            match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => continue,
                Err(error) => return Err(error.into()),
            }
            // Removed after it was opened.
            if !is_at(&opened, &folder, &slot) {
                continue;
            }
            // When it was used last.
            let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            rustix::fs::futimens(&opened, &Timestamps { last_access: now, last_modification: now })?;
            return Ok(Some(Layers {
                slot: opened,
                path: whole.join(slot),
                is_used: AtomicBool::new(false),
                made,
            }));
        }
        Ok(None)
    }

    /// Where they would be, for a plan.
    #[must_use]
    pub fn planned(base: &Path, project: &[u8]) -> PathBuf {
        base.join(name_of(project)).join("0")
    }

    /// Something runs on them.
    pub fn keep(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a layer, made if it is missing, and empty where nothing of it is to stay.
    ///
    /// # Errors
    /// As [`Layers::take`].
    pub fn layer(&self, entry: &CacheEntry) -> io::Result<PathBuf> {
        let name = entry.layer();
        let layer = make_and_open(&self.slot, &name)?;
        for part in [UPPER, WORK, PLAIN] {
            let part = make_and_open(&layer, part)?;
            if entry.kind == CacheKind::Programs {
                let mut left = remove::MOST_AT_START;
                if !remove::empty(part.as_fd(), &mut left)? {
                    return Err(io::Error::other("it holds too much from an earlier run"));
                }
            }
        }
        Ok(self.path.join(name))
    }

    /// Whether the file system can hold the upper folder of an overlay: one that is known to, and takes an overlay's attributes.
    #[must_use]
    pub fn can_be_over(&self) -> bool {
        const KNOWN: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
        let known = rustix::fs::fstatfs(&self.slot).is_ok_and(|stat| KNOWN.contains(&(stat.f_type as u64)));
        let value = rustix::fs::XattrFlags::empty();
        known && rustix::fs::fsetxattr(&self.slot, c"user.overlay.kennel", b"", value).is_ok()
    }
}

/// Writes into a project's folder which one it is, so that no other that has the same hash uses it.
fn mark(folder: &OwnedFd, project: &[u8]) -> io::Result<()> {
    let found = read_mark(folder)?;
    if found == project {
        return Ok(());
    }
    // A run that was killed may have written a part.
    if !project.starts_with(&found) {
        return Err(io::Error::other("it is another project's"));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, PROJECT, flags, Mode::RUSR | Mode::WUSR)?;
    let mut rest = project;
    let mut at = 0;
    while !rest.is_empty() {
        let written = rustix::io::pwrite(&file, rest, at)?;
        at += written as u64;
        rest = &rest[written..];
    }
    Ok(())
}

fn read_mark(folder: &OwnedFd) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, PROJECT, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(std::fs::File::from(file), MAX_PROJECT as u64), &mut text)?;
    Ok(text)
}

/// The name of a project's folder: what a person knows it by, and a hash (FNV-1a) of all that it is told from others by.
fn name_of(project: &[u8]) -> String {
    let hash = project.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = project.split(|byte| *byte == 0).next().unwrap_or_default();
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let known: String = last.iter().filter(plain).take(40).map(|byte| char::from(*byte)).collect();
    format!("{known}-{hash:016x}")
}

/// Opens a folder by its path, which has no links, and makes what is missing of it if that is wanted.
fn open_path(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        at = match rustix::fs::openat(&at, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                match rustix::fs::mkdirat(&at, name, Mode::RWXU) {
                    // Another run that starts now may have been quicker.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                rustix::fs::openat(&at, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(at)
}

/// A folder in one of ours, made if it is missing.
fn make_and_open(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open_own(folder, OsStr::new(name))
}

/// A folder in one of ours.
fn open_own(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    own(rustix::fs::openat(folder, name, FOLDERS, Mode::empty())?, Path::new(name))
}

/// The folder, if it is the caller's own and nobody else's.
fn own(folder: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let stat = rustix::fs::fstat(&folder)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
        let path = kennel_policy::printed::show(path.as_os_str().as_bytes());
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{path} is open to others, or somebody else's"),
        ));
    }
    Ok(folder)
}

/// Whether a folder is what has that name.
fn is_at(folder: &OwnedFd, above: &OwnedFd, name: &str) -> bool {
    let (Ok(one), Ok(other)) =
        (rustix::fs::fstat(folder), rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW))
    else {
        return false;
    };
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// The names in a folder and what they are, no more than `most`.
fn names(folder: BorrowedFd, most: usize) -> io::Result<Vec<(Vec<u8>, FileType)>> {
    let mut found = Vec::new();
    // A descriptor of its own: another one's place in the folder does not matter.
    let opened = rustix::fs::openat(folder, ".", FOLDERS, Mode::empty())?;
    for entry in rustix::fs::Dir::new(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if found.len() == most {
            break;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push((name.to_vec(), kind));
    }
    Ok(found)
}
