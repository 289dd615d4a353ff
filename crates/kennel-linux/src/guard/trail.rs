//! The way that a path takes through the host's folders now, one component after the other.
//!
//! A rule is about a name, and any folder on the way to it may be replaced, or be a link that leads elsewhere by now. So
//! each folder that is passed is told, with the name that was looked up in it, before that name is looked up: who
//! watches the folder from then on misses nothing.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use kennel_init::plan::Identity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::bases::Bases;
use super::permission::with_permission;
use super::walk;
use crate::resolve::guard_rules::Anchor;

/// More symlinks than this in one path is a loop, to the kernel too.
const MAX_LINKS: usize = 40;

/// More open folders than this are not kept at hand. Names come folder by folder.
const MAX_FOLDERS: usize = 64;

/// A path without symlinks, from a folder that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Below {
    /// Which folder.
    pub base: usize,
    /// What follows it.
    pub path: PathBuf,
}

/// What stands at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where.
    pub at: Below,
    /// The folder that the name is in.
    pub holder: Identity,
    /// What it is.
    pub file: Identity,
}

impl Standing {
    /// The name, wherever the folder is now.
    pub fn name(&self) -> (Identity, &OsStr) {
        (self.holder, self.at.path.file_name().unwrap_or_default())
    }
}

/// Where a path leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// What it leads to; `None` for nothing, or what the caller may not look at.
    pub end: Option<Standing>,
    /// The symlinks on the way.
    pub links: Vec<Standing>,
}

/// A folder on the way.
#[derive(Clone)]
struct Passed {
    folder: Rc<OwnedFd>,
    identity: Identity,
}

/// Follows paths. Folders that several of them pass are opened once.
pub struct Trails<'a> {
    bases: &'a Bases,
    folders: HashMap<Below, Passed>,
    /// The folders that can be written inside: what is shut in them is opened for the look.
    writable: &'a [Arc<Anchor>],
}

impl<'a> Trails<'a> {
    /// Follows paths from folders that are held, of which some can be written inside.
    pub fn new(bases: &'a Bases, writable: &'a [Arc<Anchor>]) -> Trails<'a> {
        Trails { bases, folders: HashMap::new(), writable }
    }

    /// Whether it can be written inside, by the path that it had at first.
    pub fn is_writable(&self, at: &Below) -> bool {
        let path = self.bases.list()[at.base].path.join(&at.path);
        self.writable.iter().any(|anchor| path.starts_with(&anchor.path))
    }

    /// Does something in a folder, even if it has been shut from inside.
    fn in_folder<T>(
        &self,
        at: &Below,
        folder: BorrowedFd,
        mut act: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match act() {
            Err(Errno::ACCESS) if self.is_writable(at) => with_permission(folder, act),
            other => other,
        }
    }

    /// Follows `path` from the held folder `base`. `pass` is told each folder and the name in it. With `follow`, a link at the
    /// end is followed too.
    ///
    /// # Errors
    /// What `pass` says, and what keeps this process from looking.
    pub fn follow(
        &mut self,
        base: usize,
        path: &Path,
        follow: bool,
        mut pass: impl FnMut(BorrowedFd, &OsStr) -> Result<(), Errno>,
    ) -> Result<Trail, Errno> {
        let mut left: VecDeque<OsString> = names(path).collect();
        let mut at = Below { base, path: PathBuf::new() };
        let mut trail = Trail::default();
        while let Some(name) = left.pop_front() {
            if name == ".." {
                self.go_up(&mut at);
                continue;
            }
            let Some(Passed { folder, identity: holder }) = self.folder(&at)? else { return Ok(trail) };
            match self.in_folder(&at, folder.as_fd(), || pass(folder.as_fd(), &name)) {
                // Who may not list a folder, and cannot change that, may not watch it either.
                Ok(()) | Err(Errno::ACCESS | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
            let file = match self.in_folder(&at, folder.as_fd(), || walk::open(&folder, name.as_bytes())) {
                Ok(file) => file,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM | Errno::NAMETOOLONG) => {
                    return Ok(trail);
                }
                Err(error) => return Err(error),
            };
            let (kind, identity) = look_at(file.as_fd())?;
            let here = Below { base: at.base, path: at.path.join(&name) };
            if kind == FileType::Symlink && (follow || !left.is_empty()) {
                trail.links.push(Standing { at: here, holder, file: identity });
                if trail.links.len() > MAX_LINKS {
                    return Ok(trail);
                }
                let target = rustix::fs::readlinkat(&file, c"", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    at = Below { base: 0, path: PathBuf::new() };
                }
                for part in names(target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(part);
                }
                continue;
            }
            if left.is_empty() {
                trail.end = Some(Standing { at: here, holder, file: identity });
                return Ok(trail);
            }
            if kind != FileType::Directory {
                return Ok(trail);
            }
            at = here;
            self.remember(&at, Passed { folder: Rc::new(file), identity });
        }
        trail.end = self.folder(&at)?.map(|Passed { identity, .. }| {
            let holder = Identity::default();
            Standing { at, holder, file: identity }
        });
        Ok(trail)
    }

    /// Out of a folder. Out of one that is held the way goes by the path that it had at first.
    fn go_up(&self, at: &mut Below) {
        if !at.path.pop() && at.base != 0 {
            let folder = &self.bases.list()[at.base].path;
            let above = folder.parent().and_then(|above| above.strip_prefix("/").ok());
            *at = Below { base: 0, path: above.unwrap_or(Path::new("")).to_path_buf() };
        }
    }

    fn remember(&mut self, at: &Below, passed: Passed) {
        if self.folders.len() >= MAX_FOLDERS {
            self.folders.clear();
        }
        self.folders.insert(at.clone(), passed);
    }

    /// The folder at a path that was walked through before, or that `..` led back to.
    fn folder(&mut self, at: &Below) -> Result<Option<Passed>, Errno> {
        if let Some(passed) = self.folders.get(at) {
            return Ok(Some(passed.clone()));
        }
        let base = self.bases.folder(at.base);
        let folder = if at.path.as_os_str().is_empty() {
            rustix::io::fcntl_dupfd_cloexec(base, 3)
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat2(base, &at.path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
                // A kernel or a container without it.
                Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(base, &at.path, flags, Mode::empty()),
                other => other,
            }
        };
        match folder {
            Ok(folder) => {
                let identity = walk::identity(folder.as_fd())?;
                let passed = Passed { folder: Rc::new(folder), identity };
                self.remember(at, passed.clone());
                Ok(Some(passed))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What something is.
fn look_at(file: BorrowedFd) -> Result<(FileType, Identity), Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(file, c"", flags, StatxFlags::TYPE | StatxFlags::INO)?;
    Ok((FileType::from_raw_mode(stat.stx_mode.into()), walk::identity_of(&stat)))
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_folder_on_the_way_is_passed_and_links_are_followed() {
        let top = std::env::temp_dir().join(format!("kennel-trail-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir_all(top.join("real/deep")).unwrap();
        let top = top.canonicalize().unwrap();
        std::fs::write(top.join("real/deep/file"), "").unwrap();
        symlink("real", top.join("link")).unwrap();
        symlink("../link/deep", top.join("real/up")).unwrap();
        symlink("nowhere", top.join("dangling")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let mut bases = Bases::new(&[], &[]).unwrap();
        bases.keep(&[]).unwrap();
        let mut trails = Trails::new(&bases, &[]);
        let mut go = |path: &str, follow| {
            let mut passed = Vec::new();
            let end = trails
                .follow(0, &top.join(path), follow, |_, name| {
                    passed.push(name.to_str().unwrap().to_owned());
                    Ok(())
                })
                .unwrap();
            let below = top.components().count() - 1;
            let end = end.end.map(|end| Path::new("/").join(end.at.path));
            let end = end.map(|path| path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned());
            let end = end.unwrap_or("nothing".to_owned());
            (passed[below..].join(" "), end)
        };
        let is = |passed: &str, end: &str| (passed.to_owned(), end.to_owned());
        assert_eq!(go("real/deep/file", true), is("real deep file", "real/deep/file"));
        assert_eq!(go("link/deep/file", true), is("link real deep file", "real/deep/file"));
        assert_eq!(go("real/up/file", true), is("real up link real deep file", "real/deep/file"));
        assert_eq!(go("dangling", true), is("dangling nowhere", "nothing"));
        assert_eq!(go("dangling", false), is("dangling", "dangling"));
        assert_eq!(go("real/absent/x", true), is("real absent", "nothing"));
        assert_eq!(go("real/deep/file/x", true), is("real deep file", "nothing"));
        assert_eq!(go("loop", true).1, "nothing");
        std::fs::remove_dir_all(&top).unwrap();
    }
}
