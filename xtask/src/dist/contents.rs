//! The files of a package before they are packed: the same for archives, for Debian's packages and for RPMs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Folder,
    File { mode: u32, bytes: Vec<u8> },
    Link(String),
}

/// Paths, without a slash in front, and what is there. A folder comes before what it holds.
#[derive(Clone, Debug, Default)]
pub struct Contents(BTreeMap<String, Entry>);

impl Contents {
    /// Adds something, and the folders above it.
    pub fn add(&mut self, path: &str, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            self.0.entry(path[..at].to_owned()).or_insert(Entry::Folder);
        }
        self.0.insert(path.to_owned(), entry);
    }

    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add(path, Entry::File { mode: 0o644, bytes: bytes.into() });
    }

    pub fn program(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add(path, Entry::File { mode: 0o755, bytes: bytes.into() });
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, Entry::Link(target.to_owned()));
    }

    /// In the order of their paths.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Files only.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries().filter_map(|(path, entry)| match entry {
            Entry::File { bytes, .. } => Some((path, bytes.as_slice())),
            Entry::Folder | Entry::Link(_) => None,
        })
    }

    /// The same below another folder.
    pub fn below(&self, folder: &str) -> Contents {
        let mut moved = Contents::default();
        for (path, entry) in self.entries() {
            moved.add(&format!("{folder}/{path}"), entry.clone());
        }
        moved
    }

    /// Writes all of it to the disk.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        fs::create_dir_all(folder)?;
        for (path, entry) in self.entries() {
            let place = folder.join(path);
            match entry {
                Entry::Folder => fs::create_dir(&place),
                Entry::Link(target) => symlink(target, &place),
                Entry::File { mode, bytes } => fs::write(&place, bytes)
                    .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(*mode))),
            }
            .map_err(|error| format!("writing {}: {error}", place.display()))?;
        }
        Ok(())
    }

    /// As a tar archive that belongs to root. Everything in it has the same time, so that the same contents are the same
    /// bytes.
    pub fn tar(&self, prefix: &str, time: u64) -> Vec<u8> {
        let mut archive = Vec::new();
        if !prefix.is_empty() {
            header(&mut archive, prefix, 0o755, 0, time, b'5', "");
        }
        for (path, entry) in self.entries() {
            let path = format!("{prefix}{path}");
            match entry {
                Entry::Folder => header(&mut archive, &format!("{path}/"), 0o755, 0, time, b'5', ""),
                Entry::Link(target) => header(&mut archive, &path, 0o777, 0, time, b'2', target),
                Entry::File { mode, bytes } => {
                    header(&mut archive, &path, *mode, bytes.len(), time, b'0', "");
                    archive.extend(bytes);
                    archive.resize(archive.len().next_multiple_of(512), 0);
                }
            }
        }
        archive.resize((archive.len() + 1024).next_multiple_of(10240), 0);
        archive
    }
}

/// A header of POSIX's `ustar` form.
fn header(archive: &mut Vec<u8>, path: &str, mode: u32, size: usize, time: u64, kind: u8, target: &str) {
    let mut block = [0_u8; 512];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    // A path of more than 100 bytes is split at a slash.
    let split = if path.len() <= 100 {
        None
    } else {
        path.match_indices('/').map(|(at, _)| at).find(|at| path.len() - at - 1 <= 100)
    };
    let (folder, name) = split.map_or(("", path), |at| (&path[..at], &path[at + 1..]));
    assert!(name.len() <= 100 && folder.len() <= 155 && target.len() <= 100, "{path}: too long for tar");
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{time:011o}"));
    put(148, "        ");
    put(156, &char::from(kind).to_string());
    put(157, target);
    put(257, "ustar");
    put(263, "00");
    put(265, "root");
    put(297, "root");
    put(345, folder);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend(block);
}

/// Compresses, without a name or a time in it.
///
/// # Errors
/// When there is no gzip.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "-n", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = gzip.spawn().map_err(|error| format!("gzip: {error}"))?;
    let mut input = child.stdin.take().ok_or("gzip has no input")?;
    let bytes = bytes.to_vec();
    // Its output has to be read meanwhile.
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "writing to gzip")??;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("gzip: {}", output.status).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_what_is_packed_here() {
        let mut contents = Contents::default();
        contents.program("usr/bin/x", "#!/bin/sh\n");
        contents.link("usr/bin/y", "x");
        let long = format!("usr/share/{}/{}", "a".repeat(90), "b".repeat(90));
        contents.file(&long, vec![b'z'; 1000]);
        let place = std::env::temp_dir().join(format!("kennel-tar-{}", std::process::id()));
        fs::write(&place, contents.tar("./", 1_000_000_000)).unwrap();
        let listing = Command::new("tar").args(["-tvf"]).arg(&place).env("TZ", "UTC").output().unwrap();
        fs::remove_file(&place).unwrap();
        let text = String::from_utf8(listing.stdout).unwrap();
        assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 8, "{text}");
        assert!(
            lines[0].starts_with("drwxr-xr-x root/root") && lines[0].ends_with("2001-09-09 01:46 ./"),
            "{text}"
        );
        assert!(lines.iter().any(|line| line.ends_with("./usr/bin/y -> x")), "{text}");
        assert!(lines.iter().any(|line| line.ends_with(&format!("./{long}"))), "{text}");
        assert!(
            lines.iter().any(|line| line.starts_with("-rwxr-xr-x") && line.ends_with("./usr/bin/x")),
            "{text}"
        );
    }
}
