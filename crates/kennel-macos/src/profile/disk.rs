//! What the resolver asks of a Mac's disk. The real one is behind [`HostDisk`]; tests bring their own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kennel_resolve::disk::{Disk, DiskEntry, FileIdentity, Kind};

/// A disk of a Mac: what only its resolver asks.
pub trait MacDisk: Disk {
    /// The first bytes of a regular file, at most `most`; `InvalidInput` for anything else.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, file: &Path, most: usize) -> io::Result<Vec<u8>>;
    /// Makes an empty folder or file for the caller alone, with the folders above it.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path, kind: Kind) -> io::Result<()>;
    /// Whether there is a unix socket at a path without links.
    fn is_socket(&self, path: &Path) -> bool;
    /// Whether names that differ in case or in the form of their accents are the same on the volume that holds `path`. What
    /// is not known counts as yes.
    fn folds_names(&self, path: &Path) -> bool;
}

/// Where the writable volume is mounted a second time. `/Users` and its like are the same folders.
const DATA: &str = "/System/Volumes/Data";

/// An existing path without links as the kernel will name it: by the shorter of two mounts.
pub(super) fn shorter(disk: &dyn Disk, path: PathBuf) -> PathBuf {
    let Ok(rest) = path.strip_prefix(DATA) else { return path };
    let short = Path::new("/").join(rest);
    // Only what a firmlink leads to is there under both names.
    let identity = |path: &Path| disk.look(path).map(|entry| entry.identity).ok();
    if rest.as_os_str().is_empty() || identity(&short) != identity(&path) { path } else { short }
}

/// The disk of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

impl Disk for HostDisk {
    fn look(&self, path: &Path) -> io::Result<DiskEntry> {
        use std::os::unix::fs::MetadataExt;
        let found = path.symlink_metadata()?;
        let kind = match found.file_type() {
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::File,
        };
        let identity = FileIdentity { device: found.dev(), inode: found.ino() };
        Ok(DiskEntry { kind, identity, links: found.nlink(), own: found.uid() == own::user() })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn may_write(&self, folder: &Path) -> bool {
        own::may_write(folder)
    }

    fn spelling(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(shorter(self, own::spelling(path)?))
    }
}

impl MacDisk for HostDisk {
    fn read(&self, file: &Path, most: usize) -> io::Result<Vec<u8>> {
        use std::io::Read;
        use std::os::unix::fs::OpenOptionsExt;
        // A FIFO is not waited for, and a terminal does not become the controlling one.
        let flags = own::NONBLOCK | own::NOCTTY;
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, path: &Path, kind: Kind) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let mut folders = std::fs::DirBuilder::new();
        folders.recursive(true).mode(0o700);
        if kind == Kind::Folder {
            return folders.create(path);
        }
        folders.create(path.parent().unwrap_or(path))?;
        let mut new = std::fs::OpenOptions::new();
        new.write(true).create_new(true).mode(0o600).open(path).map(drop)
    }

    fn is_socket(&self, path: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket())
    }

    fn folds_names(&self, path: &Path) -> bool {
        own::folds_names(path)
    }
}

/// What the standard library has no words for.
mod own {
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    #[cfg(target_os = "macos")]
    pub const NONBLOCK: i32 = 0x4;
    #[cfg(target_os = "macos")]
    pub const NOCTTY: i32 = 0x2_0000;
    #[cfg(not(target_os = "macos"))]
    pub const NONBLOCK: i32 = 0o4000;
    #[cfg(not(target_os = "macos"))]
    pub const NOCTTY: i32 = 0o400;

    unsafe extern "C" {
        safe fn geteuid() -> u32;
    }

    pub fn user() -> u32 {
        geteuid()
    }

    /// Whoever owns a folder may have forbidden it since, and can allow it again. Others go by the permissions.
    pub fn may_write(folder: &Path) -> bool {
        let Ok(found) = folder.metadata() else { return true };
        let (user, mode) = (user(), found.mode());
        // Its group may be one of the caller's.
        user == 0 || found.uid() == user || mode & 0o022 != 0
    }

    /// `realpath` gives the spelling of the disk, on macOS since 10.13.
    pub fn spelling(path: &Path) -> io::Result<PathBuf> {
        if cfg!(target_os = "macos") { path.canonicalize() } else { Ok(path.to_path_buf()) }
    }

    /// The same name in another case is the same file, where there is a letter to try it with.
    pub fn folds_names(path: &Path) -> bool {
        if !cfg!(target_os = "macos") {
            return false;
        }
        let same = |one: &Path, other: &Path| {
            let (one, other) = (one.symlink_metadata().ok()?, other.symlink_metadata().ok());
            Some(other.is_some_and(|other| (one.dev(), one.ino()) == (other.dev(), other.ino())))
        };
        let swapped = |path: &Path| {
            let name = path.file_name()?.to_str()?;
            let other: String = name
                .chars()
                .map(|one| {
                    if one.is_ascii_lowercase() { one.to_ascii_uppercase() } else { one.to_ascii_lowercase() }
                })
                .collect();
            (other != name).then(|| path.with_file_name(other))
        };
        let device = |path: &Path| path.symlink_metadata().map(|found| found.dev()).ok();
        let there = path.ancestors().find(|above| device(above).is_some()).unwrap_or(path);
        let volume = device(there);
        // A mount point's own name lies on the volume around it.
        let on_volume =
            there.ancestors().take_while(|above| above.parent().is_some_and(|up| device(up) == volume));
        on_volume.into_iter().find_map(|above| same(above, &swapped(above)?)).unwrap_or(true)
    }
}
