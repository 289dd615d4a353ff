//! An initramfs, written by hand.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fs, io};

/// Folders of which a system has one, below `/usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// What nothing in a test machine reads.
const LEFT_OUT: [&str; 7] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/i18n",
    "usr/share/zoneinfo",
    "usr/share/info",
    "usr/lib/udev",
];

fn merged(path: &str) -> String {
    let (first, rest) = path.split_once('/').map_or((path, ""), |(first, rest)| (first, rest));
    match (MERGED.contains(&first), rest) {
        (true, "") => format!("usr/{first}"),
        (true, rest) => format!("usr/{first}/{rest}"),
        (false, _) => path.to_owned(),
    }
}

/// A cpio archive in the `newc` form, which is what the kernel takes for an initramfs.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub fn folder(&mut self, path: &str, owner: u32) {
        self.entry(path, 0o040_755, owner, &[]);
    }

    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry(path, 0o100_000 | mode, 0, content);
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, 0o120_777, 0, target.as_bytes());
    }

    /// All that is in a folder of the host, owned by root, without documentation and translations. Packages that were
    /// unpacked but not installed may have files in `/bin` and in `/usr/bin`: these become one folder, as on an
    /// installed system, and [`Archive::merged_folders`] has to come first.
    pub fn tree(&mut self, folder: &Path, below: &str) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = merged(&format!("{below}{}", entry.file_name().to_string_lossy()));
            let (kind, metadata) = (entry.file_type()?, entry.metadata()?);
            if kind.is_symlink() {
                if MERGED.contains(&entry.file_name().to_string_lossy().as_ref()) && below.is_empty() {
                    continue;
                }
                let target = fs::read_link(entry.path())?;
                self.entry(&path, 0o120_777, 0, target.as_os_str().as_encoded_bytes());
            } else if kind.is_dir() {
                if LEFT_OUT.contains(&path.as_str()) {
                    continue;
                }
                self.folder(&path, 0);
                self.tree(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.file(&path, metadata.permissions().mode() & 0o7777, &fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// `/usr/bin` and its like, and `/bin` as a link to it.
    pub fn merged_folders(&mut self) {
        self.folder("usr", 0);
        for name in MERGED {
            self.folder(&format!("usr/{name}"), 0);
            self.link(name, &format!("usr/{name}"));
        }
    }

    fn entry(&mut self, path: &str, mode: u32, owner: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a file of the machine is below 4 GiB");
        let name_size = u32::try_from(path.len() + 1).expect("a path is short");
        // Inode, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
        let fields = [self.entries, mode, owner, owner, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_both_folders_are_in_one() {
        assert_eq!(merged("bin/sh"), "usr/bin/sh");
        assert_eq!(merged("bin"), "usr/bin");
        assert_eq!(merged("usr/bin/env"), "usr/bin/env");
        assert_eq!(merged("etc/passwd"), "etc/passwd");
    }

    #[test]
    fn an_archive_has_the_form_that_cpio_has() {
        let mut archive = Archive::default();
        archive.file("a", 0o644, b"hello");
        let bytes = archive.finish();
        assert!(bytes.starts_with(b"070701"));
        assert_eq!(&bytes[6 + 8..6 + 16], b"000081a4");
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[112..117], b"hello");
        assert_eq!(&bytes[120..126], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }
}
