//! A scratch area as it stands: every name with all that somebody could change about it.
//!
//! It is taken while nothing of a sandbox runs, by plain calls, and does not ask kennel about anything.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::word;

/// Longer files are compared by their beginning and their size.
const LONGEST: u64 = 64 << 10;

/// How the path of the scratch area is written in the texts of links, in histories and in snapshots.
pub const TOP: &str = "{top}";

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symlink.
    Link,
    /// A FIFO.
    Fifo,
    /// A unix socket.
    Socket,
    /// A device.
    Device,
}

/// One name, and all that can be changed about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Device and inode.
    pub identity: (u64, u64),
    /// Permissions, with the set-uid and set-gid bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// When the content changed.
    pub modified: (i64, i64),
    /// Its size.
    pub size: u64,
    /// Extended attributes, sorted.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// What a file holds, or where a link leads.
    pub content: Vec<u8>,
}

/// All names below a folder, by their paths relative to it; the folder itself is `.`.
pub type Snapshot = BTreeMap<String, Entry>;

/// Takes one.
#[must_use]
pub fn take(top: &Path) -> Snapshot {
    let mut snapshot = Snapshot::new();
    if let Some(entry) = look(top) {
        snapshot.insert(".".into(), entry);
        walk(top, ".", &mut snapshot);
    }
    for link in snapshot.values_mut().filter(|entry| entry.kind == Kind::Link) {
        if let Some(rest) = link.content.strip_prefix(top.as_os_str().as_bytes()) {
            link.content = [TOP.as_bytes(), rest].concat();
        }
    }
    snapshot
}

fn walk(folder: &Path, path: &str, snapshot: &mut Snapshot) {
    // A sandbox of an ordinary user's may have shut a folder of its own; what is in it counts all the same.
    let _opened = Opened::folder(folder);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (place, path) = (entry.path(), word::join(path, &word::escape(&entry.file_name())));
        let Some(found) = look(&place) else { continue };
        let is_folder = found.kind == Kind::Folder;
        snapshot.insert(path.clone(), found);
        if is_folder {
            walk(&place, &path, snapshot);
        }
    }
}

/// One name.
#[must_use]
pub fn look(place: &Path) -> Option<Entry> {
    let stat = fs::symlink_metadata(place).ok()?;
    let file_type = stat.file_type();
    let kind = match () {
        () if file_type.is_dir() => Kind::Folder,
        () if file_type.is_file() => Kind::File,
        () if file_type.is_symlink() => Kind::Link,
        () if file_type.is_fifo() => Kind::Fifo,
        () if file_type.is_socket() => Kind::Socket,
        () => Kind::Device,
    };
    let content = match kind {
        Kind::File if stat.size() > 0 => read(place, stat.mode()),
        Kind::Link => {
            fs::read_link(place).map(|text| text.as_os_str().as_bytes().to_vec()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    Some(Entry {
        kind,
        identity: (stat.dev(), stat.ino()),
        mode: stat.mode() & 0o7777,
        owner: (stat.uid(), stat.gid()),
        modified: (stat.mtime(), stat.mtime_nsec()),
        size: if kind == Kind::Folder { 0 } else { stat.size() },
        xattrs: if kind == Kind::Link { Vec::new() } else { xattrs(place) },
        content,
    })
}

fn read(place: &Path, mode: u32) -> Vec<u8> {
    let mut content = Vec::new();
    let _opened = (mode & 0o400 == 0).then(|| Opened::file(place));
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOATIME);
    let file = options.open(place).or_else(|_| fs::File::open(place));
    if let Ok(file) = file {
        let _ = file.take(LONGEST).read_to_end(&mut content);
    }
    content
}

fn xattrs(place: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(place) = CString::new(place.as_os_str().as_bytes()) else { return Vec::new() };
    let mut names = [0u8; 2048];
    // SAFETY: the kernel writes at most the length of the buffer.
    let length = unsafe { libc::llistxattr(place.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    let Some(names) = usize::try_from(length).ok().and_then(|length| names.get(..length)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = [0u8; 1024];
        let Ok(c_name) = CString::new(name) else { continue };
        // SAFETY: as above.
        let length = unsafe {
            libc::lgetxattr(place.as_ptr(), c_name.as_ptr(), value.as_mut_ptr().cast(), value.len())
        };
        let value = value.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
        found.push((word::escape(OsStr::from_bytes(name)), value.to_vec()));
    }
    found.sort();
    found
}

/// Permissions that were widened to look, and are put back.
struct Opened<'p>(Option<(&'p Path, u32)>);

impl<'p> Opened<'p> {
    fn folder(place: &'p Path) -> Opened<'p> {
        let mode = fs::symlink_metadata(place).map_or(0o700, |stat| stat.mode() & 0o7777);
        if mode & 0o500 == 0o500 { Opened(None) } else { Opened::with(place, mode, 0o700) }
    }

    fn file(place: &'p Path) -> Opened<'p> {
        let mode = fs::symlink_metadata(place).map_or(0o600, |stat| stat.mode() & 0o7777);
        Opened::with(place, mode, 0o400)
    }

    fn with(place: &'p Path, mode: u32, bits: u32) -> Opened<'p> {
        let done = fs::set_permissions(place, fs::Permissions::from_mode(mode | bits));
        Opened(done.is_ok().then_some((place, mode)))
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some((place, mode)) = self.0 {
            let _ = fs::set_permissions(place, fs::Permissions::from_mode(mode));
        }
    }
}

/// Removes all that is below a folder, whatever modes a sandbox gave to it.
pub fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let place = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if fs::remove_dir(&place).is_ok() {
                continue;
            }
            let _ = fs::set_permissions(&place, fs::Permissions::from_mode(0o700));
            clear(&place);
            let _ = fs::remove_dir(&place);
        } else {
            let _ = fs::remove_file(&place);
        }
    }
}

impl Entry {
    /// What differs between two looks at one name, in words; `None` if nothing does.
    #[must_use]
    pub fn difference(&self, now: &Entry) -> Option<String> {
        let differs = |what: &str, then: &dyn std::fmt::Debug, now: &dyn std::fmt::Debug| {
            Some(format!("its {what} was {then:?} and is {now:?}"))
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        if self.kind != now.kind {
            return differs("kind", &self.kind, &now.kind);
        }
        if self.content != now.content || self.size != now.size {
            return differs("content", &text(&self.content), &text(&now.content));
        }
        if self.mode != now.mode {
            return Some(format!("its mode was {:04o} and is {:04o}", self.mode, now.mode));
        }
        if self.owner != now.owner {
            return differs("owner", &self.owner, &now.owner);
        }
        if self.xattrs != now.xattrs {
            return differs("attributes", &self.xattrs, &now.xattrs);
        }
        if self.identity != now.identity {
            return differs("inode", &self.identity.1, &now.identity.1);
        }
        if self.modified != now.modified {
            return differs("time", &self.modified, &now.modified);
        }
        None
    }
}
