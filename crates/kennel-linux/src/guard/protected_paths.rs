//! The protected paths as they stand now: which folder holds each name at this moment, and which names to look at.
//!
//! Nothing is remembered but the anchors. A folder on the way to a protected name may be made, moved and made anew
//! while the sandbox runs, so each question walks from the anchor again, without following symlinks.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use kennel_init::plan::Identity;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::as_root;
use super::walk::{self, Spot};
use crate::resolve::guard_rules::{Anchor, Finding, Protected};

/// A protected path.
#[derive(Debug)]
pub struct Guarded {
    /// What is protected.
    pub protected: Protected,
    /// Its components below the anchor.
    pub rest: Vec<OsString>,
    anchor: Arc<OwnedFd>,
}

/// All protected paths.
#[derive(Debug)]
pub struct ProtectedPaths {
    guarded: Vec<Guarded>,
    /// For each component in lower case: which path it is part of, and where.
    names: HashMap<Vec<u8>, Vec<Component>>,
}

/// A component of a protected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// Which path.
    pub path: usize,
    /// Which component; 0 is the one in the anchor itself.
    pub level: usize,
}

/// How a name comes into being.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
    /// As a fresh, empty folder or a fresh file: on the way to a protected name that is harmless.
    Fresh,
    /// As a link to something made before.
    Link,
    /// By moving something there.
    Moved(&'a OwnedFd),
}

/// The longest name of an entry.
const NAME_MAX: usize = 255;

impl ProtectedPaths {
    /// Takes hold of the anchors.
    ///
    /// # Errors
    /// When one cannot be opened, or is not the folder that was resolved any more.
    pub fn new(protected: &[Protected]) -> Result<ProtectedPaths, (std::path::PathBuf, io::Error)> {
        let mut anchors: HashMap<(u64, u64), Arc<OwnedFd>> = HashMap::new();
        let mut ground = ProtectedPaths { guarded: Vec::new(), names: HashMap::new() };
        for protected in protected {
            let (path, identity) = (&protected.anchor.path, protected.anchor.identity);
            let key = (identity.device, identity.inode);
            let failed = |error: Errno| (path.clone(), error.into());
            let anchor = match anchors.get(&key) {
                Some(anchor) => anchor.clone(),
                None => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let anchor = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
                    if walk::identity(anchor.as_fd()).map_err(failed)? != identity {
                        return Err(failed(Errno::STALE));
                    }
                    anchors.entry(key).or_insert(Arc::new(anchor)).clone()
                }
            };
            ground.add(protected, anchor);
        }
        Ok(ground)
    }

    /// Adds paths that are seen inside, in a sandbox with this root.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn add_in_root(&mut self, findings: &[Finding], root: OwnedFd) -> Result<(), Errno> {
        let identity = walk::identity(root.as_fd())?;
        let (root, anchor) = (Arc::new(root), Arc::new(Anchor { path: "/".into(), identity }));
        for Finding { path, rule } in findings {
            let rest = path.strip_prefix("/").unwrap_or(path).to_path_buf();
            let protected = Protected { anchor: Arc::clone(&anchor), rest, rule: rule.clone() };
            self.add(&protected, Arc::clone(&root));
        }
        Ok(())
    }

    fn add(&mut self, protected: &Protected, anchor: Arc<OwnedFd>) {
        let path = self.guarded.len();
        let names = protected.rest.components().map(|component| component.as_os_str().to_owned());
        let rest: Vec<OsString> = names.collect();
        for (level, name) in rest.iter().enumerate() {
            let component = Component { path, level };
            self.names.entry(name.as_bytes().to_ascii_lowercase()).or_default().push(component);
        }
        self.guarded.push(Guarded { protected: protected.clone(), rest, anchor });
    }

    /// The folders that the paths start from.
    pub fn anchors(&self) -> impl Iterator<Item = (&Arc<Anchor>, &Arc<OwnedFd>)> {
        self.guarded.iter().map(|guarded| (&guarded.protected.anchor, &guarded.anchor))
    }

    /// The paths.
    #[must_use]
    pub fn paths(&self) -> &[Guarded] {
        &self.guarded
    }

    /// The components that `name` might be; `None` for a spelling that may stand for any other.
    fn candidates(&self, name: &[u8]) -> Option<&[Component]> {
        if name.len() > NAME_MAX {
            return Some(&[]);
        }
        let mut lower = [0; NAME_MAX];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match self.names.get(lower as &[u8]) {
            Some(candidates) => Some(candidates),
            None if odd(name) => None,
            None => Some(&[]),
        }
    }

    /// All components: what an odd spelling may stand for, in a folder that takes one for another.
    fn every_component(&self) -> Vec<Component> {
        let levels = |(path, guarded): (usize, &Guarded)| {
            (0..guarded.rest.len()).map(move |level| Component { path, level })
        };
        self.guarded.iter().enumerate().flat_map(levels).collect()
    }

    /// Whether making `name` somewhere might matter: asked before anything is resolved.
    #[must_use]
    pub fn concerns(&self, name: &[u8], fresh: bool) -> bool {
        match self.candidates(name) {
            Some(candidates) => candidates.iter().any(|component| !fresh || self.is_last(*component)),
            None => !self.guarded.is_empty(),
        }
    }

    /// The path that making `spot` would break.
    ///
    /// # Errors
    /// When the disk cannot be looked at.
    pub fn made(&self, spot: &Spot, how: How) -> Result<Option<&Guarded>, Errno> {
        let mut folder = None;
        let any;
        let candidates = match self.candidates(&spot.name) {
            Some(candidates) => candidates,
            None if folds(spot.folder.as_fd())? => {
                any = self.every_component();
                &any
            }
            None => &[],
        };
        for &component in candidates {
            let last = self.is_last(component);
            if (!last && matches!(how, How::Fresh)) || !self.is_at(component, spot, &mut folder)? {
                continue;
            }
            let rest = &self.guarded[component.path].rest[component.level + 1..];
            let breaks = match how {
                _ if last => true,
                How::Fresh => false,
                How::Link => true,
                How::Moved(source) => leads_on(source, rest)?,
            };
            if breaks {
                return Ok(Some(&self.guarded[component.path]));
            }
        }
        Ok(None)
    }

    /// How many components the longest of the paths has below its anchor.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.guarded.iter().map(|guarded| guarded.rest.len()).max().unwrap_or(0)
    }

    /// Whether nothing can come into being at the path that starts with `spot` and goes on with `below`.
    ///
    /// # Errors
    /// When the disk cannot be looked at.
    pub fn keeps(&self, spot: &Spot, below: &[&[u8]]) -> Result<bool, Errno> {
        let mut folder = None;
        for &component in self.candidates(&spot.name).unwrap_or_default() {
            let rest = &self.guarded[component.path].rest[component.level + 1..];
            if rest.iter().map(|name| name.as_bytes()).eq(below.iter().copied())
                && self.is_at(component, spot, &mut folder)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_last(&self, component: Component) -> bool {
        component.level + 1 == self.guarded[component.path].rest.len()
    }

    /// Whether `spot` is where `component` stands or would stand.
    fn is_at(&self, component: Component, spot: &Spot, folder: &mut Option<Identity>) -> Result<bool, Errno> {
        let guarded = &self.guarded[component.path];
        let identity = match *folder {
            Some(identity) => identity,
            None => *folder.insert(walk::identity(spot.folder.as_fd())?),
        };
        if !guarded.is_folder(component.level, identity)? {
            return Ok(false);
        }
        let exact = guarded.rest[component.level].as_bytes() == spot.name;
        Ok(exact || folds(spot.folder.as_fd())?)
    }
}

impl Guarded {
    /// The last component.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.rest.last().map_or(b"", |name| name.as_bytes())
    }

    /// The folder that holds the component `level`; `None` while there is none.
    ///
    /// # Errors
    /// When the disk cannot be looked at.
    pub fn folder(&self, level: usize) -> Result<Option<OwnedFd>, Errno> {
        let mut at = rustix::io::fcntl_dupfd_cloexec(&*self.anchor, 0)?;
        for name in &self.rest[..level] {
            match open_folder(at.as_fd(), name.as_bytes())? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The same in one call, where the kernel has it and nobody forbids it.
    fn folder_at_once(&self, level: usize, way: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        if level < 2 {
            return self.folder(level);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match as_root::openat2(&*self.anchor, &walk::c_string(way)?, flags, strict) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(_) => self.folder(level),
        }
    }

    fn is_folder(&self, level: usize, identity: Identity) -> Result<bool, Errno> {
        if level == 0 {
            return Ok(identity == self.protected.anchor.identity);
        }
        match self.folder(level)? {
            Some(folder) => Ok(walk::identity(folder.as_fd())? == identity),
            None => Ok(false),
        }
    }
}

/// What was found out about folders: hundreds of protected paths share most of the folders on their ways.
#[derive(Debug)]
pub(super) struct Folders<T>(HashMap<(u64, u64, Vec<u8>), Option<T>>);

impl<T> Default for Folders<T> {
    fn default() -> Self {
        Folders(HashMap::new())
    }
}

impl<T: Copy> Folders<T> {
    /// What `look` says of the folder of a path's component, asked once for each folder; `None` where there is none.
    pub(super) fn at(
        &mut self,
        guarded: &Guarded,
        level: usize,
        look: impl FnOnce(BorrowedFd) -> Result<T, Errno>,
    ) -> Result<Option<T>, Errno> {
        let Identity { device, inode } = guarded.protected.anchor.identity;
        let way = guarded.rest[..level].join(std::ffi::OsStr::new("/")).into_encoded_bytes();
        let key = (device, inode, way);
        if let Some(known) = self.0.get(&key) {
            return Ok(*known);
        }
        let folder = guarded.folder_at_once(level, &key.2)?;
        let found = folder.map(|folder| look(folder.as_fd())).transpose()?;
        self.0.insert(key, found);
        Ok(found)
    }
}

/// The folder `name`, if it is one; symlinks are not.
pub(super) fn open_folder(folder: BorrowedFd, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match as_root::openat(folder, &walk::c_string(name)?, flags, Mode::empty()) {
        Ok(next) => Ok(Some(next)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether `source`, moved to the place before `rest`, would bring the protected name along: it holds it already, or
/// leads elsewhere by a symlink.
fn leads_on(source: &OwnedFd, rest: &[std::ffi::OsString]) -> Result<bool, Errno> {
    let mut at = rustix::io::fcntl_dupfd_cloexec(source, 0)?;
    for name in rest {
        match walk::kind(at.as_fd())? {
            FileType::Directory => {}
            FileType::Symlink => return Ok(true),
            _ => return Ok(false),
        }
        match walk::open(&at, name.as_bytes()) {
            Ok(next) => at = next,
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Spellings that some file system takes for another: Unicode folding drops and replaces characters, and `~` makes
/// the short names of FAT.
pub(crate) fn odd(name: &[u8]) -> bool {
    !name.is_ascii() || name.contains(&b'~')
}

/// Whether `.GIT` is `.git` in this folder: by the file system's nature, or because the folder is marked so (ext4, f2fs
/// and tmpfs can).
pub(crate) fn folds(folder: BorrowedFd) -> Result<bool, Errno> {
    const FOLDING: &[u64] = &[
        0x4d44,      // FAT
        0x2011_bab0, // exFAT
        0x7366_746e, // NTFS
        0x5346_544e, // NTFS, the old driver
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB
        0x517b,      // SMB, the old driver
        0x4244,      // HFS
        0x482b,      // HFS+
        0x0102_1997, // 9p: the host's side may be Windows
        0x6573_5546, // FUSE and virtiofs: the host's side may be Windows or macOS
    ];
    if FOLDING.contains(&(rustix::fs::fstatfs(folder)?.f_type as u64 & 0xffff_ffff)) {
        return Ok(true);
    }
    const FS_CASEFOLD_FL: u32 = 0x4000_0000;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // A folder that cannot be opened, or a file system without such flags, has no mark that could be read.
    let marked = as_root::openat(folder, c".", flags, Mode::empty()).and_then(rustix::fs::ioctl_getflags);
    Ok(marked.is_ok_and(|flags| flags.bits() & FS_CASEFOLD_FL != 0))
}
