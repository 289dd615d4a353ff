//! A Mac's disk, made up: its links, its firmlinks, and a volume that takes `A` for `a`.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use kennel_resolve::disk::{Disk, DiskEntry, Kind};
use kennel_resolve::fake::FakeDisk;

use crate::profile::disk::{MacDisk, shorter};

/// The disk.
pub struct Mac(FakeDisk);

/// Names that are the same on a volume that folds names.
fn folded(path: &Path) -> String {
    let nfd = icu_normalizer::DecomposingNormalizerBorrowed::new_nfd();
    nfd.normalize(&path.to_str().unwrap().to_lowercase()).into_owned()
}

impl Mac {
    pub fn new() -> Mac {
        Mac::on(FakeDisk::default().folding(folded))
    }

    /// The same with a volume on which names differ by case.
    pub fn case_sensitive() -> Mac {
        Mac::on(FakeDisk::default())
    }

    fn on(disk: FakeDisk) -> Mac {
        let mac = Mac(disk.shown_again("/System/Volumes/Data").writable(&["/Users/me", "/private/tmp"]));
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
}

impl Deref for Mac {
    type Target = FakeDisk;

    fn deref(&self) -> &FakeDisk {
        &self.0
    }
}

impl Disk for Mac {
    fn look(&self, path: &Path) -> io::Result<DiskEntry> {
        self.0.look(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.read_link(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        self.0.list(folder)
    }

    fn may_write(&self, folder: &Path) -> bool {
        self.0.may_write(folder)
    }

    fn spelling(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(shorter(self, self.0.spelling(path)?))
    }
}

impl MacDisk for Mac {
    fn read(&self, file: &Path, most: usize) -> io::Result<Vec<u8>> {
        self.text(file, most)
    }

    fn create(&self, path: &Path, kind: Kind) -> io::Result<()> {
        match kind {
            Kind::Folder => self.folder(path.to_str().unwrap()),
            _ => self.file(path.to_str().unwrap(), ""),
        }
        Ok(())
    }

    fn is_socket(&self, path: &Path) -> bool {
        self.0.is_socket(path)
    }

    fn folds_names(&self, _path: &Path) -> bool {
        self.folds()
    }
}
