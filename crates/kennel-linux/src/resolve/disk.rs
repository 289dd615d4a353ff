//! The disk of this host, as the steps that all systems share ask it: each question is one call or two of the kernel's.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kennel_resolve::disk::{Disk, DiskEntry, Lookup, Way};
use rustix::fs::{Access, AtFlags, CWD, FileType, StatxFlags};

use super::folder::OpenFolders;
use super::locate::{self, Found, FoundAgain, Kind, Location};

/// The disk.
pub(super) struct HostDisk;

impl Disk for HostDisk {
    fn look(&self, path: &Path) -> io::Result<DiskEntry> {
        let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK | StatxFlags::UID;
        let stat = rustix::fs::statx(CWD, path, quiet, wanted)?;
        let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
        let own = stat.stx_uid == rustix::process::geteuid().as_raw();
        let Found { kind: other, identity, links, .. } = locate::found(PathBuf::new(), kind, &stat);
        let kind = if kind == FileType::Symlink { Kind::Link } else { other };
        Ok(DiskEntry { kind, identity, links, own })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// Who owns a folder may have forbidden it since.
    fn may_write(&self, folder: &Path) -> bool {
        let quiet = AtFlags::STATX_DONT_SYNC;
        let user = rustix::process::geteuid().as_raw();
        let owner = rustix::fs::statx(CWD, folder, quiet, StatxFlags::UID).map(|stat| stat.stx_uid);
        owner.map_or(true, |owner| owner == user)
            || rustix::fs::accessat(CWD, folder, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// `/bin` and its like are links into `/usr` on most systems.
    fn is_system_link(&self, link: &Path) -> bool {
        let Ok(name) = link.strip_prefix("/") else { return false };
        let merged =
            ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].iter().any(|own| name == Path::new(own));
        let leads_there =
            |to: PathBuf| to == Path::new("usr").join(name) || to == Path::new("/usr").join(name);
        merged && std::fs::read_link(link).is_ok_and(leads_there)
    }

    fn locate(&self, path: &Path) -> io::Result<Location> {
        locate::locate(path)
    }

    fn way(&self, path: &Path) -> io::Result<Way> {
        let locate::Way { links, end } = locate::way(path);
        Ok(Way { links: links.into_iter().map(|(link, _)| link).collect(), end: Some(end) })
    }

    fn shut_folder(&self, path: &Path) -> io::Result<Option<Found>> {
        locate::shut_folder(path)
    }

    fn is_link(&self, path: &Path) -> bool {
        locate::is_link(path)
    }

    fn plain(&self, path: &Path) -> io::Result<Option<Found>> {
        locate::locate_plain(path)
    }

    fn lookup(&self, path: &Path) -> io::Result<Lookup> {
        OpenFolders::default().look(path)
    }

    fn below(&self, prefix: &Path, path: &Path) -> io::Result<FoundAgain> {
        locate::locate_below(prefix, path)
    }
}
