//! Where a path really leads, asked once and remembered by identity.
//!
//! The answer is a path free of symlinks and the device and inode found there. Init opens that path again with
//! symlinks refused and compares, so that nothing swapped in between is ever mounted.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use kennel_init::plan::Identity;
use kennel_resolve::disk::{FileIdentity, MAX_LINKS};
pub use kennel_resolve::disk::{Found, FoundAgain, Kind, Location};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

/// Which file was found, for init to compare with.
pub fn identity(found: &Found) -> Identity {
    Identity { device: found.identity.device, inode: found.identity.inode }
}

/// Finds out where `path`, which is absolute, leads. `O_PATH` asks nothing of the file system that holds the last
/// component: no automount is triggered.
pub fn locate(path: &Path) -> io::Result<Location> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => {
                let found = describe(fd.as_fd())?;
                // A pipe behind /dev/stdout, say: no path leads there.
                let has_place = found.path.has_root();
                return Ok(if has_place { Location::Found(found) } else { Location::Missing(path) });
            }
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR) => return Ok(Location::Missing(path)),
            Err(Errno::ACCESS) => return Ok(Location::Forbidden),
            Err(error) => return Err(error.into()),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Location::Missing(path));
        };
        let folder = match locate(parent)? {
            Location::Found(folder) => folder.path,
            Location::Missing(folder) => return Ok(Location::Missing(folder.join(name))),
            Location::Forbidden => return Ok(Location::Forbidden),
        };
        match rustix::fs::readlinkat(CWD, folder.join(name), Vec::new()) {
            // A dangling link: what it names is what is missing.
            Ok(target) => path = folder.join(Path::new(OsStr::from_bytes(target.as_bytes()))),
            Err(_) => return Ok(Location::Missing(folder.join(name))),
        }
    }
    Err(Errno::LOOP.into())
}

/// The folder of the caller's own on the way to `path` that the caller may not pass; `None` if it is somebody else's. The sandbox
/// is the same user, and can give itself the permission that the caller has not.
pub fn shut_folder(path: &Path) -> io::Result<Option<Found>> {
    for above in path.ancestors().skip(1) {
        match locate(above)? {
            Location::Found(folder) => return Ok(is_own(&folder.path).then_some(folder)),
            Location::Missing(_) => return Ok(None),
            Location::Forbidden => {}
        }
    }
    Ok(None)
}

/// Whether this user owns what is at a path, and can change its permissions. What cannot be looked at may be its own.
pub(super) fn is_own(path: &Path) -> bool {
    let quiet = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let owner = rustix::fs::statx(CWD, path, quiet, StatxFlags::UID).map(|stat| stat.stx_uid);
    owner.map_or(true, |owner| owner == rustix::process::geteuid().as_raw())
}

fn describe(fd: rustix::fd::BorrowedFd) -> io::Result<Found> {
    let stat = rustix::fs::statx(
        fd,
        c"",
        AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
        StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK,
    )?;
    let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
    Ok(found(path_of(fd)?, kind, &stat))
}

/// The path of what is open, without symlinks.
pub(super) fn path_of(fd: rustix::fd::BorrowedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::with_capacity(256))?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// Looks at a path that a walk below `prefix`, which had no links, found; it follows no links: neither does this. A folder that
/// was swapped for a link since then makes it fail, instead of leading elsewhere.
pub fn locate_below(prefix: &Path, path: &Path) -> io::Result<FoundAgain> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let top = match open_strictly(CWD, prefix, flags, strict) {
        Ok(top) => top,
        // `dir/**` matches `dir` itself, which need not be there.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(FoundAgain::Gone),
        Err(error) => return Err(error.into()),
    };
    let rest = path.strip_prefix(prefix).unwrap_or(Path::new(""));
    if rest.as_os_str().is_empty() {
        return describe(top.as_fd()).map(FoundAgain::Found);
    }
    let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match open_strictly(top.as_fd(), rest, flags | OFlags::NOFOLLOW, strict) {
        Ok(fd) if kind_of(fd.as_fd())? == FileType::Symlink => {
            Ok(FoundAgain::Link(describe(fd.as_fd())?.path))
        }
        Ok(fd) => describe(fd.as_fd()).map(FoundAgain::Found),
        Err(Errno::NOENT) => Ok(FoundAgain::Gone),
        Err(Errno::ACCESS) => Ok(FoundAgain::Forbidden),
        Err(error) => Err(error.into()),
    }
}

/// openat2, or what it does: an outer sandbox may have taken the call away. `path` has no `..`, and no symlink is
/// followed.
pub(crate) fn open_strictly(
    folder: rustix::fd::BorrowedFd,
    path: &Path,
    flags: OFlags,
    strict: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat2(folder, path, flags, Mode::empty(), strict) {
        Err(Errno::NOSYS) => {}
        other => return other,
    }
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(folder, c".", step, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::RootDir => Path::new("/"),
            component => Path::new(component.as_os_str()),
        };
        let flags = if components.peek().is_none() { flags | OFlags::NOFOLLOW } else { step };
        at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
    }
    Ok(at)
}

/// What a look at a file told.
pub(super) fn found(path: PathBuf, kind: FileType, stat: &rustix::fs::Statx) -> Found {
    Found {
        path,
        kind: if kind == FileType::Directory { Kind::Folder } else { Kind::File },
        identity: FileIdentity {
            device: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
            inode: stat.stx_ino,
        },
        links: stat.stx_nlink.into(),
    }
}

/// The symlink at `path` itself, not what it leads to. The folders above must be free of symlinks.
pub fn locate_link(path: &Path) -> io::Result<Found> {
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    describe(fd.as_fd())
}

/// What stands at a path that is known to be free of links. `None` where it has gone since. Init opens
/// it again without following links, and compares.
pub fn locate_plain(path: &Path) -> io::Result<Option<Found>> {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
    match rustix::fs::statx(CWD, path, quiet, wanted) {
        Ok(stat) => {
            let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
            Ok(Some(found(path.to_path_buf(), kind, &stat)).filter(|_| kind != FileType::Symlink))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the last component of `path` is itself a symlink.
#[must_use]
pub fn is_link(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty());
    fd.is_ok_and(|fd| kind_of(fd.as_fd()).is_ok_and(|kind| kind == FileType::Symlink))
}

/// What stands at `fd`, without asking a server that may not answer.
fn kind_of(fd: rustix::fd::BorrowedFd) -> io::Result<FileType> {
    let quiet = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, c"", quiet, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(u32::from(stat.stx_mode)))
}

/// The way along a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The symlinks that it passes through, each with what it says.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Where it leads, without any.
    pub end: PathBuf,
}

/// Goes along a path, name by name, and tells where it leads. `look` is shown each place on the way, and says what the link
/// there says, if it is one to follow, or that this is far enough.
pub(super) fn along<B>(
    path: &Path,
    mut look: impl FnMut(&Path) -> ControlFlow<B, Option<PathBuf>>,
) -> ControlFlow<B, PathBuf> {
    let mut rest = path.to_path_buf();
    'again: for _ in 0..MAX_LINKS {
        let mut here = PathBuf::from("/");
        let components: Vec<_> = rest.components().collect();
        for (index, component) in components.iter().enumerate() {
            match component {
                Component::Normal(name) => here.push(name),
                Component::ParentDir => {
                    here.pop();
                }
                _ => continue,
            }
            if let Some(target) = look(&here)? {
                let after: PathBuf = components[index + 1..].iter().collect();
                rest = here.parent().unwrap_or(Path::new("/")).join(target).join(after);
                continue 'again;
            }
        }
        return ControlFlow::Continue(here);
    }
    ControlFlow::Continue(rest)
}

/// Goes along a path and through all links.
#[must_use]
pub fn way(path: &Path) -> Way {
    let mut links = Vec::new();
    let end = along::<Infallible>(path, |here| {
        let target = std::fs::read_link(here).ok();
        links.extend(target.clone().map(|target| (here.to_path_buf(), target)));
        ControlFlow::Continue(target)
    });
    match end {
        ControlFlow::Continue(end) => Way { links, end },
        ControlFlow::Break(never) => match never {},
    }
}

/// The symlinks on the way along a path. Where a sandbox's tree is made anew, these are made too, so that the path a person
/// wrote works inside.
#[must_use]
pub fn links_on_the_way(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    way(path).links
}
