//! Folders that covered names are looked up from, wherever the host moves them.
//!
//! A path from the root leads nowhere once the host has moved a folder on the way, while whoever works in that folder inside
//! still does. So the folders that can be written and those that hold covered names are held from the start, here and by
//! the helper inside, and each name is followed from the innermost. Where a folder is no longer found at its path, what stands there
//! now bears the name as well, and is looked at too.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use kennel_init::child::MAX_BASES;
use kennel_init::plan::{Base, Identity};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::walk;
use crate::resolve::guard_rules::{Anchor, CoveredName};

/// Where a tree of the host's shows inside, if not at its own path: its place on the host, and its place inside.
type Mounted = Option<(PathBuf, PathBuf)>;

/// A folder that is held.
#[derive(Debug)]
pub struct HeldFolder {
    /// Where it was on the host when it was taken hold of.
    pub path: PathBuf,
    mounted: Mounted,
    folder: Arc<OwnedFd>,
    /// Which folder it is.
    pub identity: Identity,
    /// Whether it was held when the sandbox was planned, and is not merely the one that was found later.
    planned: bool,
    /// The folder that its own path is followed from.
    pub above: usize,
    /// Whether its path no longer leads to it.
    pub displaced: bool,
    /// The number that the helper knows it by.
    pub number: u32,
}

/// The folders that are held. The first is the host's root.
#[derive(Debug)]
pub struct Bases {
    list: Vec<HeldFolder>,
    /// By their paths.
    at: HashMap<PathBuf, Vec<usize>>,
}

impl Bases {
    /// Takes hold of folders for `names`; `anchors` are held already. At first those that can be written.
    ///
    /// # Errors
    /// When not even the root can be opened.
    pub fn new(names: &[CoveredName], anchors: &[(Arc<Anchor>, Arc<OwnedFd>)]) -> io::Result<Bases> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty())?;
        let mut bases = Bases { list: Vec::new(), at: HashMap::new() };
        let mut taken = HashSet::new();
        bases.add(PathBuf::from("/"), None, Arc::new(root), true)?;
        taken.insert((Path::new("/"), None));
        for (anchor, folder) in anchors {
            // The helper holds no more. Names in further folders are followed from the root.
            if bases.list.len() > MAX_BASES {
                break;
            }
            let above = |name: &&CoveredName| name.mounted.is_none() && is_above(&anchor.path, &name.path);
            if names.iter().any(|name| above(&name)) && taken.insert((anchor.path.as_path(), None)) {
                bases.add(anchor.path.clone(), None, Arc::clone(folder), true)?;
            }
        }
        let sources = names.iter().filter_map(|name| {
            let mounted = name.mounted.as_ref()?;
            is_above(&mounted.0, &name.path).then_some((mounted.0.as_path(), &name.mounted))
        });
        let parents = names.iter().filter_map(|name| Some((name.path.parent()?, &name.mounted)));
        for (path, mounted) in sources.chain(parents) {
            if bases.list.len() > MAX_BASES {
                break;
            }
            let within = mounted.as_ref().is_none_or(|(source, _)| path.starts_with(source));
            let target = mounted.as_ref().map(|(_, target)| target.as_path());
            // What is below goes by its path, and a name with `..` in it is found from the folder before that.
            let goes_up = path.components().any(|part| part == Component::ParentDir);
            if !within || goes_up || !taken.insert((path, target)) {
                continue;
            }
            let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            // Nobody can move what is not there. A path that leads through links is followed from a folder above them.
            if let Ok(folder) = rustix::fs::openat2(CWD, path, flags, Mode::empty(), strict) {
                bases.add(path.to_path_buf(), mounted.clone(), Arc::new(folder), false)?;
            }
        }
        Ok(bases)
    }

    fn add(
        &mut self,
        path: PathBuf,
        mounted: Mounted,
        folder: Arc<OwnedFd>,
        planned: bool,
    ) -> io::Result<()> {
        let identity = walk::identity(folder.as_fd())?;
        let (above, displaced, number) = (0, false, 0);
        self.list.push(HeldFolder { path, mounted, folder, identity, planned, above, displaced, number });
        Ok(())
    }

    /// What the helper takes hold of: all but the root.
    ///
    /// # Errors
    /// When a path has a NUL in it.
    pub fn for_helper(&self) -> io::Result<Vec<Base>> {
        let base = |held: &HeldFolder| {
            let path = match &held.mounted {
                None => held.path.clone(),
                Some((source, target)) => {
                    target.join(held.path.strip_prefix(source).unwrap_or(Path::new("")))
                }
            };
            let path = CString::new(path.into_os_string().into_encoded_bytes())?;
            Ok(Base { path, identity: held.identity })
        };
        self.list[1..].iter().map(base).collect()
    }

    /// Lets go of those that the helper does not hold, by their places in the list it got: they do not show inside.
    ///
    /// # Errors
    /// When it does not find one because the host has moved it meanwhile.
    pub fn keep(&mut self, held: &[usize]) -> io::Result<()> {
        let held: HashSet<usize> = held.iter().map(|at| at + 1).collect();
        let list = std::mem::take(&mut self.list);
        for (number, mut base) in list.into_iter().enumerate() {
            base.number = number as u32;
            if number == 0 || held.contains(&number) {
                self.list.push(base);
            } else if base.planned && is_at(&base.path)? != Some(base.identity) {
                return Err(io::Error::other(format!(
                    "{} was moved while the sandbox started",
                    base.path.display()
                )));
            }
        }
        for (index, base) in self.list.iter().enumerate() {
            self.at.entry(base.path.clone()).or_default().push(index);
        }
        for index in 1..self.list.len() {
            self.list[index].above = self.around(&self.list[index].path, &self.list[index].mounted);
        }
        Ok(())
    }

    /// The innermost that `path` lies in, where it shows.
    pub fn around(&self, path: &Path, mounted: &Mounted) -> usize {
        let same = |index: &&usize| self.list[**index].mounted == *mounted;
        let found = |above: &Path| self.at.get(above)?.iter().find(same).copied();
        path.ancestors().skip(1).find_map(found).unwrap_or(0)
    }

    /// All.
    pub fn list(&self) -> &[HeldFolder] {
        &self.list
    }

    /// Notes whether the path of one still leads to it.
    pub fn set_displaced(&mut self, base: usize, displaced: bool) {
        self.list[base].displaced = displaced;
    }

    /// One of them.
    pub fn folder(&self, base: usize) -> BorrowedFd<'_> {
        self.list[base].folder.as_fd()
    }

    /// What follows the folder in a path that lies in it.
    pub fn rest<'p>(&self, base: usize, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.list[base].path).unwrap_or(path)
    }
}

fn is_above(folder: &Path, path: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

/// The folder that a path without links leads to.
fn is_at(path: &Path) -> io::Result<Option<Identity>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(walk::identity(folder.as_fd())?)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
