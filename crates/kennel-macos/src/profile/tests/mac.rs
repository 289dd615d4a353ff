//! A Mac's disk, made up: its links, its firmlinks, and a volume that takes `A` for `a`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::profile::disk::{Disk, Entry, Kind};

enum Node {
    Folder,
    File(String),
    Link(PathBuf),
    Socket,
}

/// The disk.
pub struct Mac {
    nodes: RefCell<BTreeMap<PathBuf, (Node, u64, u64)>>,
    folds: bool,
}

/// Names that are the same on a volume that folds names.
fn folded(path: &Path) -> String {
    let nfd = icu_normalizer::DecomposingNormalizerBorrowed::new_nfd();
    nfd.normalize(&path.to_str().unwrap().to_lowercase()).into_owned()
}

impl Mac {
    pub fn new() -> Mac {
        let mac = Mac { nodes: RefCell::default(), folds: true };
        mac.folder("/");
        for folder in [
            "/private/tmp",
            "/private/etc",
            "/private/var/run",
            "/private/var/folders/ab/xyz/T",
            "/usr/bin",
            "/bin",
            "/System/Volumes",
            "/Users/me/project",
            "/Users/me/.ssh",
            "/dev",
            "/Library",
            "/Applications",
            "/opt/homebrew/bin",
        ] {
            mac.folder(folder);
        }
        mac.link("/tmp", "private/tmp");
        mac.link("/var", "private/var");
        mac.link("/etc", "private/etc");
        mac.link("/private/etc/resolv.conf", "../var/run/resolv.conf");
        mac.file("/private/var/run/resolv.conf", "nameserver 1.1.1.1\n");
        mac.file("/Users/me/.ssh/id_ed25519", "secret");
        mac.file("/usr/bin/true", "");
        mac
    }

    /// The same with a volume on which names differ by case.
    pub fn case_sensitive() -> Mac {
        Mac { folds: false, ..Mac::new() }
    }

    fn add(&self, path: &str, node: Node) {
        let mut nodes = self.nodes.borrow_mut();
        let number = nodes.len() as u64 + 1;
        nodes.insert(PathBuf::from(path), (node, number, 1));
    }

    pub fn folder(&self, path: &str) {
        for above in Path::new(path).ancestors() {
            if !self.nodes.borrow().contains_key(above) {
                self.add(above.to_str().unwrap(), Node::Folder);
            }
        }
    }

    fn parent(&self, path: &str) {
        self.folder(Path::new(path).parent().unwrap().to_str().unwrap());
    }

    pub fn file(&self, path: &str, text: &str) {
        self.parent(path);
        self.add(path, Node::File(text.to_owned()));
    }

    pub fn link(&self, path: &str, to: &str) {
        self.parent(path);
        self.add(path, Node::Link(to.into()));
    }

    pub fn socket(&self, path: &str) {
        self.parent(path);
        self.add(path, Node::Socket);
    }

    /// A second name of a file.
    pub fn hard_link(&self, path: &str, to: &str) {
        let number = self.nodes.borrow()[Path::new(path)].1;
        self.file(to, "");
        let mut nodes = self.nodes.borrow_mut();
        for name in [path, to] {
            let node = nodes.get_mut(Path::new(name)).unwrap();
            (node.1, node.2) = (number, 2);
        }
    }

    /// The path under which a file is kept, by the volume's rules. What is below /System/Volumes/Data is what is below /.
    fn kept(&self, path: &Path) -> Option<PathBuf> {
        let path = match path.strip_prefix("/System/Volumes/Data") {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => path.to_path_buf(),
        };
        let nodes = self.nodes.borrow();
        if nodes.contains_key(&path) || !self.folds {
            return nodes.contains_key(&path).then_some(path);
        }
        nodes.keys().find(|own| folded(own) == folded(&path)).cloned()
    }
}

impl Disk for Mac {
    fn look(&self, path: &Path) -> io::Result<Entry> {
        let kept = self.kept(path).ok_or(io::ErrorKind::NotFound)?;
        let nodes = self.nodes.borrow();
        let (node, number, links) = &nodes[&kept];
        let kind = match node {
            Node::Folder => Kind::Folder,
            Node::File(_) => Kind::File,
            Node::Link(_) => Kind::Link,
            Node::Socket => Kind::Socket,
        };
        Ok(Entry { kind, identity: (1, *number), links: *links, own: true })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let kept = self.kept(path).ok_or(io::ErrorKind::NotFound)?;
        match &self.nodes.borrow()[&kept].0 {
            Node::Link(to) => Ok(to.clone()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let kept = self.kept(folder).ok_or(io::ErrorKind::NotFound)?;
        let nodes = self.nodes.borrow();
        if !matches!(nodes[&kept].0, Node::Folder) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let inside = nodes.keys().filter(|path| path.parent() == Some(kept.as_path()));
        Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn read(&self, file: &Path, most: usize) -> io::Result<Vec<u8>> {
        let kept = self.kept(file).ok_or(io::ErrorKind::NotFound)?;
        match &self.nodes.borrow()[&kept].0 {
            Node::File(text) => Ok(text.bytes().take(most).collect()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn create(&self, path: &Path, kind: Kind) -> io::Result<()> {
        match kind {
            Kind::Folder => self.folder(path.to_str().unwrap()),
            _ => self.file(path.to_str().unwrap(), ""),
        }
        Ok(())
    }

    fn may_write(&self, folder: &Path) -> bool {
        folder.starts_with("/Users/me") || folder.starts_with("/private/tmp")
    }

    fn spelling(&self, path: &Path) -> io::Result<PathBuf> {
        // As the kernel spells it, by the path that was taken.
        let kept = self.kept(path).ok_or(io::ErrorKind::NotFound)?;
        let data = Path::new("/System/Volumes/Data");
        Ok(if path.starts_with(data) { data.join(kept.strip_prefix("/").unwrap()) } else { kept })
    }

    fn folds_names(&self, _path: &Path) -> bool {
        self.folds
    }
}
