//! Which layers there are, for `kennel caches`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, ResolveFlags};

use super::remove::MAX_PROJECTS;
use super::{FOLDERS, names, open_own, open_path, own, read_mark};

/// As many names are counted for a size; with more it is a lower bound.
const MAX_COUNTED: u64 = 500_000;
/// As many names of a folder are looked at.
const NAMES: usize = 100_000;

/// The layers of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptProject {
    /// Their folder.
    pub name: OsString,
    /// The project's path.
    pub path: PathBuf,
    /// What else it is told from others by: the states of agents that the sandbox wrote, a line each.
    pub states: Vec<PathBuf>,
    /// When it was used last.
    pub used: SystemTime,
    /// Whether a run holds some of them now.
    pub in_use: bool,
    /// The layers that hold something, the largest first.
    pub layers: Vec<KeptLayer>,
    /// Whether not everything was counted.
    pub at_least: bool,
}

/// A layer, of all slots together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLayer {
    /// Its name.
    pub name: String,
    /// How much of the disk it takes.
    pub bytes: u64,
}

/// The layers of all projects below `base`, by their paths.
///
/// # Errors
/// When they cannot be looked at.
pub fn list(base: &Path) -> io::Result<Vec<KeptProject>> {
    let top = match open_path(base, false) {
        Ok(top) => own(top, base)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut left = MAX_COUNTED;
    let mut listed = Vec::new();
    let folders = names(top.as_fd(), MAX_PROJECTS)?;
    for (name, _) in folders.into_iter().filter(|(_, kind)| *kind == FileType::Directory) {
        let folder = open_own(&top, OsStr::from_bytes(&name))?;
        let mark = read_mark(&folder)?;
        let mut lines = mark.split(|byte| *byte == 0);
        let path = PathBuf::from(OsStr::from_bytes(lines.next().unwrap_or_default()));
        let states = lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect();
        let mut project = KeptProject {
            name: OsString::from_vec(name),
            path,
            states,
            used: SystemTime::UNIX_EPOCH,
            in_use: false,
            layers: Vec::new(),
            at_least: false,
        };
        for (slot, _) in names(folder.as_fd(), NAMES)?.iter().filter(|(_, kind)| *kind == FileType::Directory)
        {
            let slot = open_own(&folder, OsStr::from_bytes(slot))?;
            let seconds = u64::try_from(rustix::fs::fstat(&slot)?.st_mtime).unwrap_or_default();
            project.used = project.used.max(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            match rustix::fs::flock(&slot, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => rustix::fs::flock(&slot, FlockOperation::Unlock)?,
                Err(_) => project.in_use = true,
            }
            for (layer, _) in names(slot.as_fd(), NAMES)? {
                let bytes = size(slot.as_fd(), OsStr::from_bytes(&layer), &mut left)?;
                let name = String::from_utf8_lossy(&layer).into_owned();
                match project.layers.iter_mut().find(|known| known.name == name) {
                    Some(known) => known.bytes += bytes,
                    None => project.layers.push(KeptLayer { name, bytes }),
                }
            }
        }
        project.layers.retain(|layer| layer.bytes > 0);
        project.layers.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.name.cmp(&other.name)));
        project.at_least = left == 0;
        listed.push(project);
    }
    listed.sort_by(|one, other| (&one.path, &one.name).cmp(&(&other.path, &other.name)));
    Ok(listed)
}

/// What the files below a name take of the disk: those of folders that can be opened, without the folders themselves.
fn size(folder: BorrowedFd, name: &OsStr, left: &mut u64) -> io::Result<u64> {
    let mut waiting = vec![PathBuf::from(name)];
    let mut bytes = 0;
    while let Some(path) = waiting.pop() {
        // By the whole path, since so many folders cannot be open; one that is longer than a path can be is passed over.
        let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let Ok(opened) = rustix::fs::openat2(folder, &path, FOLDERS, Mode::empty(), below) else { continue };
        for (name, kind) in names(opened.as_fd(), NAMES)? {
            if *left == 0 {
                return Ok(bytes);
            }
            *left -= 1;
            let name = OsStr::from_bytes(&name);
            if kind == FileType::Directory {
                waiting.push(path.join(name));
            } else if let Ok(stat) = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
            }
        }
    }
    Ok(bytes)
}
