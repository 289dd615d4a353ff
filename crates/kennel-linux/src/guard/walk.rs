//! Where a caller's path leads, in the caller's own view: its root, its mounts, its working directory.
//!
//! The kernel resolves a path for whoever asks. Asked by the guard, an absolute symlink would lead through the guard's
//! root, `..` would stop at it, and `/proc/self` would be the guard. So the guard lets the kernel walk only where
//! none of these is on the way, and otherwise goes step by step.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kennel_init::plan::Identity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;

use super::as_root;
use super::caller::Caller;

/// A name in a folder: where a call would make something.
#[derive(Debug)]
pub struct Spot {
    /// The folder.
    pub folder: OwnedFd,
    /// The name.
    pub name: Vec<u8>,
}

/// More symlinks than this in one path is a loop, to the kernel too.
const MAX_LINKS: u32 = 40;

/// More steps than this are taken for no path, through all its links: some two milliseconds. Forty links, each of a thousand
/// times `d/..`, would keep the guard for a fifth of a second, and all other calls of the sandbox with it.
const MAX_STEPS: u32 = 512;

/// What is said of a path that takes more. The kernel would follow it, so the call must not go on.
pub const TOO_FAR: Errno = Errno::OVERFLOW;

/// Splits a path into the way to its last component and that component. `None` when the last one names no entry of a
/// folder: then nothing can be made there.
#[must_use]
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    let path = &path[..end];
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (way, name) = path.split_at(start);
    (name != b"." && name != b"..").then_some((way, name))
}

/// A path as a call names it.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The descriptor that a relative path starts from.
    pub folder: i32,
    /// RESOLVE_IN_ROOT: the descriptor is also the root.
    pub scoped: bool,
}

/// Finds the spot that `path` names. With `follow`, a symlink that stands there is followed, as `open` with O_CREAT
/// does: it makes what a dangling link points to.
///
/// # Errors
/// What the caller would be told as well (`NOENT`, `NOTDIR`, `LOOP`, `EXIST` where nothing can be made), or what keeps
/// the guard from looking.
pub fn spot(caller: Caller, start: Start, path: &[u8], follow: bool) -> Result<Spot, Errno> {
    let (way, name) = split(path).ok_or(Errno::EXIST)?;
    let mut view = View::new(caller, start);
    let from = if path.starts_with(b"/") { view.root()? } else { caller.folder(start.folder)? };
    let mut folder = view.walk(from, way)?;
    let mut name = name.to_vec();
    if !follow {
        return Ok(Spot { folder, name });
    }
    loop {
        let target = match as_root::readlinkat(&folder, &c_string(&name)?) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(Spot { folder, name }),
            Err(error) => return Err(error),
        };
        // A link of /proc leads to what is already there.
        if is_proc(folder.as_fd())? {
            return Err(Errno::EXIST);
        }
        view.count_link()?;
        view.steps += 1;
        let (way, last) = split(&target).ok_or(Errno::EXIST)?;
        let from = if target.starts_with(b"/") { view.root()? } else { folder };
        folder = view.walk(from, way)?;
        name = last.to_vec();
    }
}

/// Takes hold of what `path` leads to, without opening it. With `follow`, a symlink at its end is followed.
///
/// # Errors
/// As [`spot`].
pub fn target(caller: Caller, start: Start, path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let Some((way, name)) = split(path) else {
        // The path of a folder itself: `.`, `..`, `/`.
        let mut view = View::new(caller, start);
        let from = if path.starts_with(b"/") { view.root()? } else { caller.folder(start.folder)? };
        return view.walk(from, path);
    };
    match spot(caller, start, path, follow) {
        Ok(spot) => open(&spot.folder, &spot.name),
        // What a link of /proc leads to, it leads everyone to.
        Err(Errno::EXIST) if follow => {
            let mut view = View::new(caller, start);
            let from = if path.starts_with(b"/") { view.root()? } else { caller.folder(start.folder)? };
            let folder = view.walk(from, way)?;
            if !is_proc(folder.as_fd())? {
                return Err(Errno::ACCESS);
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            as_root::openat(&folder, &c_string(name)?, flags, Mode::empty())
        }
        Err(error) => Err(error),
    }
}

/// Whether a symlink may stand at `path`, which starts at `from`. No for sure only where the kernel gets there without a
/// symlink on the way; then it leads the guard where it leads the caller.
///
/// # Errors
/// What keeps the guard from looking.
pub fn may_be_link(from: &OwnedFd, path: &[u8]) -> Result<bool, Errno> {
    if path.split(|byte| *byte == b'/').any(|component| component == b"..") {
        return Ok(true);
    }
    let relative = &path[path.iter().position(|byte| *byte != b'/').unwrap_or(0)..];
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match as_root::openat2(from, &c_string(relative)?, flags, ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(kind(file.as_fd())? == FileType::Symlink),
        Err(Errno::NOENT) => Ok(false),
        Err(_) => Ok(true),
    }
}

/// How a caller sees the tree.
struct View {
    caller: Caller,
    start: Start,
    root: Option<OwnedFd>,
    links: u32,
    steps: u32,
}

impl View {
    fn new(caller: Caller, start: Start) -> View {
        View { caller, start, root: None, links: 0, steps: 0 }
    }

    fn root(&mut self) -> Result<OwnedFd, Errno> {
        let root = match self.root.take() {
            Some(root) => root,
            None if self.start.scoped => self.caller.folder(self.start.folder)?,
            None => self.caller.root()?,
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(&root, 0)?;
        self.root = Some(root);
        Ok(copy)
    }

    fn count_link(&mut self) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS { Err(Errno::LOOP) } else { Ok(()) }
    }

    /// The folder that `way` leads to.
    fn walk(&mut self, from: OwnedFd, way: &[u8]) -> Result<OwnedFd, Errno> {
        if !way.iter().any(|byte| *byte != b'/') {
            return Ok(from);
        }
        if !way.split(|byte| *byte == b'/').any(|component| component == b"..") {
            // Relative to `from`, whatever it starts with.
            let relative = &way[way.iter().position(|byte| *byte != b'/').unwrap_or(0)..];
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match as_root::openat2(&from, &c_string(relative)?, flags, ResolveFlags::NO_SYMLINKS) {
                // Links on the way; or a kernel or a container without openat2.
                Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {}
                other => return other,
            }
        }
        self.walk_by_steps(from, way)
    }

    fn walk_by_steps(&mut self, from: OwnedFd, way: &[u8]) -> Result<OwnedFd, Errno> {
        let mut left: VecDeque<Vec<u8>> = self.few(way)?.into();
        let mut at = from;
        while let Some(component) = left.pop_front() {
            self.steps += 1;
            if component == b".." {
                let root = self.root()?;
                if place(at.as_fd())? != place(root.as_fd())? {
                    at = open(&at, b"..")?;
                }
                continue;
            }
            let next = match self.proc_itself(&at, &component)? {
                Some(itself) => itself,
                None => open(&at, &component)?,
            };
            match kind(next.as_fd())? {
                FileType::Directory => at = next,
                FileType::Symlink => {
                    self.count_link()?;
                    if is_proc(at.as_fd())? && !is_proc_root(at.as_fd())? {
                        // A magic link: only the kernel knows what it leads to, and it leads everyone there.
                        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                        at = as_root::openat(&at, &c_string(&component)?, flags, Mode::empty())?;
                        continue;
                    }
                    let target = rustix::fs::readlinkat(&next, c"", Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        at = self.root()?;
                    }
                    for part in self.few(&target)?.into_iter().rev() {
                        left.push_front(part);
                    }
                    if left.len() > self.steps_left() {
                        return Err(TOO_FAR);
                    }
                }
                _ => return Err(Errno::NOTDIR),
            }
        }
        Ok(at)
    }

    /// The components of a path, if these are not too many steps.
    fn few(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let most = self.steps_left();
        let components: Vec<Vec<u8>> = components(path).take(most + 1).collect();
        if components.len() > most { Err(TOO_FAR) } else { Ok(components) }
    }

    fn steps_left(&self) -> usize {
        MAX_STEPS.saturating_sub(self.steps) as usize
    }

    /// `/proc/self` leads whoever asks to itself: asked by the guard, nowhere.
    fn proc_itself(&self, at: &OwnedFd, component: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        if !matches!(component, b"self" | b"thread-self") || !is_proc_root(at.as_fd())? {
            return Ok(None);
        }
        self.caller.itself(component == b"thread-self").map(Some)
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

pub(super) fn c_string(name: &[u8]) -> Result<CString, Errno> {
    CString::new(name).map_err(|_| Errno::INVAL)
}

/// Takes hold of what stands at one name, which is not followed.
pub(super) fn open(folder: &impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    as_root::openat(folder, &c_string(name)?, flags, Mode::empty())
}

pub(super) fn kind(fd: BorrowedFd) -> Result<FileType, Errno> {
    rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Which file this is.
pub(super) fn identity(fd: BorrowedFd) -> Result<Identity, Errno> {
    let stat = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok(identity_of(&stat))
}

pub(super) fn identity_of(stat: &rustix::fs::Statx) -> Identity {
    Identity {
        device: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
        inode: stat.stx_ino,
    }
}

/// Whether a mount that shows nothing of the host's stands at `spot`, as the caller sees it: one that nobody can write to, or
/// a file system in memory. Any other that can be written only holds something in its place, and was moved here. Before
/// Linux 5.8 nothing tells; what exists then counts as covered.
pub(super) fn is_covered(spot: &Spot) -> Result<bool, Errno> {
    const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;
    let found = match open(&spot.folder, &spot.name) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error),
    };
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(&found, c"", flags, StatxFlags::TYPE)?;
    if stat.stx_attributes_mask.bits() & STATX_ATTR_MOUNT_ROOT == 0 {
        return Ok(true);
    }
    if stat.stx_attributes.bits() & STATX_ATTR_MOUNT_ROOT == 0 {
        return Ok(false);
    }
    if rustix::fs::fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(true);
    }
    // What is held in its place is of the same file system as the folder around it, which may be in memory too.
    let around = rustix::fs::statx(&spot.folder, c"", flags, StatxFlags::TYPE)?;
    Ok(is_in_memory(found.as_fd())? && identity_of(&stat).device != identity_of(&around).device)
}

fn is_in_memory(fd: BorrowedFd) -> Result<bool, Errno> {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    Ok(rustix::fs::fstatfs(fd)?.f_type as u64 == TMPFS_MAGIC)
}

/// Which file this is, and on which mount: `..` stops only where both are the root's.
fn place(fd: BorrowedFd) -> Result<(Identity, u64), Errno> {
    // Linux 5.8 tells the mount; before, all count as one.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, c"", flags, StatxFlags::INO | StatxFlags::MNT_ID)?;
    Ok((identity_of(&stat), stat.stx_mnt_id))
}

fn is_proc(fd: BorrowedFd) -> Result<bool, Errno> {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    Ok(rustix::fs::fstatfs(fd)?.f_type as u64 == PROC_SUPER_MAGIC)
}

fn is_proc_root(fd: BorrowedFd) -> Result<bool, Errno> {
    const PROC_ROOT_INO: u64 = 1;
    Ok(is_proc(fd)? && identity(fd)?.inode == PROC_ROOT_INO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_component_is_found_as_the_kernel_finds_it() {
        for (path, way, name) in [
            (".git", "", ".git"),
            ("a/.git", "a/", ".git"),
            ("/.git", "/", ".git"),
            ("a//.git///", "a//", ".git"),
            ("...", "", "..."),
        ] {
            assert_eq!(split(path.as_bytes()), Some((way.as_bytes(), name.as_bytes())), "{path}");
        }
        for path in ["", "/", "a/..", "a/./", "."] {
            assert_eq!(split(path.as_bytes()), None, "{path}");
        }
    }
}
