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

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::permission::with_permission;
use super::walk;
use crate::resolve::guard_rules::Anchor;

/// More symlinks than this in one path is a loop, to the kernel too.
const MOST_LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// What it leads to, by its path without symlinks; `None` for nothing, or what the caller may not look at.
    pub end: Option<PathBuf>,
    /// The symlinks on the way, each by its own path.
    pub links: Vec<PathBuf>,
}

/// Follows paths. Folders that several of them pass are opened once.
#[derive(Default)]
pub struct Trails<'a> {
    folders: HashMap<PathBuf, Rc<OwnedFd>>,
    /// The folders that can be written inside: what is shut in them is opened for the look.
    writable: &'a [Arc<Anchor>],
}

impl<'a> Trails<'a> {
    /// Follows paths of which some lie in these folders, which can be written inside.
    pub fn new(writable: &'a [Arc<Anchor>]) -> Trails<'a> {
        Trails { folders: HashMap::new(), writable }
    }

    /// Does something in a folder, even if it has been shut from inside.
    fn in_folder<T>(
        &self,
        path: &Path,
        folder: BorrowedFd,
        mut act: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match self.writable.iter().any(|anchor| path.starts_with(&anchor.path)) {
            true => with_permission(folder, act),
            false => act(),
        }
    }

    /// Follows `path`, which is absolute. `pass` is told each folder and the name in it. With `follow`, a link at the end
    /// is followed too.
    ///
    /// # Errors
    /// What `pass` says, and what keeps this process from looking.
    pub fn follow(
        &mut self,
        path: &Path,
        follow: bool,
        mut pass: impl FnMut(BorrowedFd, &OsStr) -> Result<(), Errno>,
    ) -> Result<Trail, Errno> {
        let mut left: VecDeque<OsString> = names(path).collect();
        let mut at = PathBuf::from("/");
        let mut trail = Trail::default();
        while let Some(name) = left.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let Some(folder) = self.folder(&at)? else { return Ok(trail) };
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
            let kind = walk::kind(file.as_fd())?;
            if kind == FileType::Symlink && (follow || !left.is_empty()) {
                trail.links.push(at.join(&name));
                if trail.links.len() > MOST_LINKS {
                    return Ok(trail);
                }
                let target = rustix::fs::readlinkat(&file, c"", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in names(target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(part);
                }
                continue;
            }
            at.push(&name);
            if left.is_empty() {
                trail.end = Some(at);
                return Ok(trail);
            }
            if kind != FileType::Directory {
                return Ok(trail);
            }
            self.folders.entry(at.clone()).or_insert_with(|| Rc::new(file));
        }
        trail.end = self.folder(&at)?.map(|_| at);
        Ok(trail)
    }

    /// The folder at a path that was walked through before, or that `..` led back to.
    fn folder(&mut self, path: &Path) -> Result<Option<Rc<OwnedFd>>, Errno> {
        if let Some(folder) = self.folders.get(path) {
            return Ok(Some(folder.clone()));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(folder) => {
                let folder = Rc::new(folder);
                self.folders.insert(path.to_path_buf(), folder.clone());
                Ok(Some(folder))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }
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
        let mut trails = Trails::default();
        let mut go = |path: &str, follow| {
            let mut passed = Vec::new();
            let end = trails
                .follow(&top.join(path), follow, |_, name| {
                    passed.push(name.to_str().unwrap().to_owned());
                    Ok(())
                })
                .unwrap();
            let below = top.components().count() - 1;
            let end = end.end.map(|path| path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned());
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
