//! A disk that tests make up, and that may change between two looks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskEntry, FileIdentity, Kind};

/// What stands somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Folder,
    File(String),
    Link(PathBuf),
    Socket,
}

#[derive(Clone, Debug)]
struct FakeNode {
    content: Content,
    device: u64,
    inode: u64,
    links: u64,
    own: bool,
    /// Whether the caller may look into it.
    shut: bool,
}

/// What happens when a path has been looked at so often.
type Change = (PathBuf, usize, Box<dyn FnOnce(&FakeDisk)>);

/// The disk. Its methods make folders on the way.
pub struct FakeDisk {
    nodes: RefCell<BTreeMap<PathBuf, FakeNode>>,
    numbers: RefCell<u64>,
    changes: RefCell<Vec<Change>>,
    folded: Option<fn(&Path) -> String>,
    second_root: Option<PathBuf>,
    writable: Option<Vec<PathBuf>>,
}

impl Default for FakeDisk {
    fn default() -> Self {
        let disk = FakeDisk {
            nodes: RefCell::default(),
            numbers: RefCell::default(),
            changes: RefCell::default(),
            folded: None,
            second_root: None,
            writable: None,
        };
        disk.add("/", Content::Folder);
        disk
    }
}

impl FakeDisk {
    /// A disk on which names are the same that `folded` makes the same.
    #[must_use]
    pub fn folding(self, folded: fn(&Path) -> String) -> Self {
        FakeDisk { folded: Some(folded), ..self }
    }

    /// A disk that shows below `folder` a second time.
    #[must_use]
    pub fn shown_again(self, folder: &str) -> Self {
        FakeDisk { second_root: Some(folder.into()), ..self }
    }

    /// A disk on which the caller may write in these folders alone, and below.
    #[must_use]
    pub fn writable(self, folders: &[&str]) -> Self {
        FakeDisk { writable: Some(folders.iter().map(PathBuf::from).collect()), ..self }
    }

    /// Whether names are folded.
    #[must_use]
    pub fn folds(&self) -> bool {
        self.folded.is_some()
    }

    fn add(&self, path: &str, content: Content) {
        let inode = self.numbers.replace_with(|last| *last + 1) + 1;
        let device = Path::new(path).parent().map_or(1, |above| self.nodes.borrow()[above].device);
        let node = FakeNode { content, device, inode, links: 1, own: true, shut: false };
        self.nodes.borrow_mut().insert(path.into(), node);
    }

    /// Makes a folder.
    pub fn folder(&self, path: &str) {
        let above: Vec<&Path> = Path::new(path).ancestors().collect();
        for folder in above.into_iter().rev() {
            if !self.nodes.borrow().contains_key(folder) {
                self.add(folder.to_str().expect("text"), Content::Folder);
            }
        }
    }

    fn parent(&self, path: &str) {
        self.folder(Path::new(path).parent().and_then(Path::to_str).expect("a path in a folder"));
    }

    /// Makes a file.
    pub fn file(&self, path: &str, text: &str) {
        self.parent(path);
        self.add(path, Content::File(text.to_owned()));
    }

    /// Makes a link.
    pub fn link(&self, path: &str, to: &str) {
        self.parent(path);
        self.add(path, Content::Link(to.into()));
    }

    /// Makes a unix socket.
    pub fn socket(&self, path: &str) {
        self.parent(path);
        self.add(path, Content::Socket);
    }

    /// Makes a second name of a file.
    pub fn hard_link(&self, path: &str, to: &str) {
        self.parent(to);
        let mut node = self.nodes.borrow()[Path::new(path)].clone();
        node.links += 1;
        let mut nodes = self.nodes.borrow_mut();
        nodes.values_mut().filter(|own| own.inode == node.inode).for_each(|own| own.links = node.links);
        nodes.insert(to.into(), node);
    }

    /// Removes what stands at a path, with all below it.
    pub fn remove(&self, path: &str) {
        self.nodes.borrow_mut().retain(|own, _| !own.starts_with(path));
    }

    /// Mounts another file system, which is empty.
    pub fn mount(&self, path: &str, device: u64) {
        self.remove(path);
        self.folder(path);
        self.change(path, |node| node.device = device);
    }

    /// Takes from the caller the right to look into a folder.
    pub fn shut(&self, path: &str) {
        self.change(path, |node| node.shut = true);
    }

    /// Gives something to somebody else.
    pub fn give_away(&self, path: &str) {
        self.change(path, |node| node.own = false);
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut FakeNode)) {
        change(self.nodes.borrow_mut().get_mut(Path::new(path)).expect("something is there"));
    }

    /// Has something happen right after `path` was looked at for the time that `look` counts, from 1.
    pub fn after_look(&self, path: &str, look: usize, change: impl FnOnce(&FakeDisk) + 'static) {
        self.changes.borrow_mut().push((path.into(), look, Box::new(change)));
    }

    /// The first bytes of a file.
    ///
    /// # Errors
    /// As a system would.
    pub fn text(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        match self.node(path)?.content {
            Content::File(text) => Ok(text.bytes().take(most).collect()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Whether there is a unix socket at a path.
    #[must_use]
    pub fn is_socket(&self, path: &Path) -> bool {
        self.node(path).is_ok_and(|node| node.content == Content::Socket)
    }

    /// The path under which a file is kept, by the disk's rules.
    fn kept(&self, path: &Path) -> Option<PathBuf> {
        let path = match self.second_root.as_ref().and_then(|again| path.strip_prefix(again).ok()) {
            Some(rest) => Path::new("/").join(rest),
            None => path.to_path_buf(),
        };
        let nodes = self.nodes.borrow();
        match self.folded {
            _ if nodes.contains_key(&path) => Some(path),
            Some(folded) => nodes.keys().find(|own| folded(own) == folded(&path)).cloned(),
            None => None,
        }
    }

    fn node(&self, path: &Path) -> io::Result<FakeNode> {
        let above = path.ancestors().skip(1).find_map(|above| self.kept(above));
        if let Some(above) = above
            && above.ancestors().any(|above| self.nodes.borrow()[above].shut)
        {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let kept = self.kept(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.nodes.borrow()[&kept].clone())
    }
}

impl Disk for FakeDisk {
    fn look(&self, path: &Path) -> io::Result<DiskEntry> {
        let node = self.node(path);
        let mut due = Vec::new();
        for (at, left, change) in self.changes.take() {
            match left {
                1 if at == path => due.push(change),
                _ => {
                    let left = if at == path { left - 1 } else { left };
                    self.changes.borrow_mut().push((at, left, change));
                }
            }
        }
        due.into_iter().for_each(|change| change(self));
        let FakeNode { content, device, inode, links, own, .. } = node?;
        let kind = match content {
            Content::Folder => Kind::Folder,
            Content::Link(_) => Kind::Link,
            Content::File(_) | Content::Socket => Kind::File,
        };
        Ok(DiskEntry { kind, identity: FileIdentity { device, inode }, links, own })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.node(path)?.content {
            Content::Link(to) => Ok(to),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let node = self.node(folder)?;
        match node.content {
            Content::Folder if node.shut => return Err(io::ErrorKind::PermissionDenied.into()),
            Content::Folder => {}
            _ => return Err(io::ErrorKind::NotADirectory.into()),
        }
        let kept = self.kept(folder).ok_or(io::ErrorKind::NotFound)?;
        let nodes = self.nodes.borrow();
        let inside = nodes.keys().filter(|path| path.parent() == Some(kept.as_path()));
        Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn may_write(&self, folder: &Path) -> bool {
        match &self.writable {
            Some(writable) => writable.iter().any(|own| folder.starts_with(own)),
            None => self.node(folder).is_ok_and(|node| node.own),
        }
    }

    fn spelling(&self, path: &Path) -> io::Result<PathBuf> {
        // As the kernel spells it, by the path that was taken.
        let kept = self.kept(path).ok_or(io::ErrorKind::NotFound)?;
        match self.second_root.as_ref().filter(|again| path.starts_with(again)) {
            Some(again) => Ok(again.join(kept.strip_prefix("/").unwrap_or(&kept))),
            None => Ok(kept),
        }
    }
}
