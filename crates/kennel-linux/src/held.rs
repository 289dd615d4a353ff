//! A file that is written after the command has run: its folder is held open from before the start, and it lands by
//! rename.
//!
//! Once the command runs, no path can be trusted. A command that may write the file's folder can put a symlink, a FIFO or
//! a folder in the file's place, or another folder in the place of the one above; a controller that opened the path
//! then would write where the command wants it to, or wait for ever. So the folder is opened before, the text goes into
//! a new file of a random name in it, and that file is renamed over the old one: a rename follows no link and opens
//! nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::resolve::links_on_the_way;

/// A place for a file in a folder that is held open.
#[derive(Debug)]
pub struct HeldFile {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Why a file cannot be written later.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The path has no file name.
    #[error("{}: not the name of a file", .0.display())]
    NoName(PathBuf),
    /// Its folder cannot be opened.
    #[error("{}: {source}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something other than a regular file has the name.
    #[error("{}: is {kind}, not a regular file\nhelp: name a regular file, or one that does not exist yet", .path.display())]
    NotRegular {
        /// Which path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A link on the way could have been made by an earlier run.
    #[error(
        "{}: leads through the symlink {}, which the command could have created\n\
         help: name the target folder itself, or a file outside the folders that the command may write", .path.display(), .link.display()
    )]
    Link {
        /// The file's path.
        path: PathBuf,
        /// The link.
        link: PathBuf,
    },
}

impl HeldFile {
    /// Holds the place of `path`. `writable` says what the command may write: symlinks there are its own for all that
    /// anybody knows, and are refused.
    ///
    /// # Errors
    /// When the folder does not exist, or the name is that of something else than a regular file.
    pub fn new(path: &Path, writable: impl Fn(&Path) -> bool) -> Result<HeldFile, HoldError> {
        let path = std::path::absolute(path).map_err(|_| HoldError::NoName(path.to_path_buf()))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(HoldError::NoName(path));
        };
        if let Some((link, _)) = links_on_the_way(parent).into_iter().find(|(link, _)| writable(link)) {
            return Err(HoldError::Link { path, link });
        }
        let folder_error = |error: Errno| HoldError::Folder { folder: parent.into(), source: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, parent, flags, Mode::empty()).map_err(folder_error)?;
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(error) => return Err(folder_error(error)),
            Ok(stat) => {
                if let Some(kind) = irregular(FileType::from_raw_mode(stat.st_mode)) {
                    return Err(HoldError::NotRegular { path, kind });
                }
            }
        }
        Ok(HeldFile { folder, name: name.to_owned(), path })
    }

    /// The path that was given, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file, in place of whatever has its name by now.
    ///
    /// # Errors
    /// When the disk refuses, or a folder has the name. Nothing is left beside then.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let (fresh, file) = self.fresh()?;
        let written = write_all(&file, bytes).and_then(|()| {
            rustix::fs::renameat(&self.folder, &fresh, &self.folder, &self.name)?;
            Ok(())
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &fresh, AtFlags::empty());
        }
        written
    }

    /// A new file of a name that nobody can have guessed.
    fn fresh(&self) -> io::Result<(OsString, OwnedFd)> {
        loop {
            let name = beside(&self.name, "kennel")?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&self.folder, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok((name, file)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A name beside `name`, of 64 random bits: so many names cannot be taken in advance.
///
/// # Errors
/// When the kernel has no randomness to give.
pub fn beside(name: &OsStr, mark: &str) -> io::Result<OsString> {
    /// Room for the mark and the number in the longest name that file systems take.
    const LONGEST: usize = 200;
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let short = &name.as_bytes()[..name.len().min(LONGEST)];
    let mut beside = OsStr::from_bytes(short).to_owned();
    beside.push(format!(".{mark}-{:016x}", u64::from_ne_bytes(random)));
    Ok(beside)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn irregular(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a symlink"),
        FileType::Fifo => Some("a FIFO"),
        FileType::Directory => Some("a folder"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("kennel-held-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn nothing(_: &Path) -> bool {
        false
    }

    #[test]
    fn what_took_the_name_meanwhile_is_replaced_and_not_followed() {
        let top = scratch("replaced");
        std::fs::write(top.join("victim"), "precious").unwrap();
        let planted: [&dyn Fn(&Path); 3] = [
            &|path| symlink(top.join("victim"), path).unwrap(),
            &|path| symlink("nowhere", path).unwrap(),
            &|path| rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        ];
        for (index, plant) in planted.iter().enumerate() {
            let path = top.join(format!("report-{index}"));
            let held = HeldFile::new(&path, nothing).unwrap();
            plant(&path);
            held.write(b"text").unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        }
        assert_eq!(std::fs::read_to_string(top.join("victim")).unwrap(), "precious");
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_folder_in_its_place_is_an_error_and_nothing_is_left() {
        let top = scratch("folder");
        let held = HeldFile::new(&top.join("report"), nothing).unwrap();
        std::fs::create_dir(top.join("report")).unwrap();
        assert!(held.write(b"text").is_err());
        assert_eq!(std::fs::read_dir(&top).unwrap().count(), 1);
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_swapped_parent_does_not_lead_elsewhere() {
        let top = scratch("parent");
        std::fs::create_dir_all(top.join("out")).unwrap();
        std::fs::create_dir_all(top.join("home")).unwrap();
        let held = HeldFile::new(&top.join("out/report"), nothing).unwrap();
        std::fs::rename(top.join("out"), top.join("moved")).unwrap();
        symlink("home", top.join("out")).unwrap();
        held.write(b"text").unwrap();
        assert!(!top.join("home/report").exists());
        assert_eq!(std::fs::read_to_string(top.join("moved/report")).unwrap(), "text");
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_second_name_of_the_old_file_keeps_the_old_text() {
        let top = scratch("linked");
        std::fs::write(top.join("precious"), "old").unwrap();
        std::fs::hard_link(top.join("precious"), top.join("report")).unwrap();
        HeldFile::new(&top.join("report"), nothing).unwrap().write(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(top.join("precious")).unwrap(), "old");
        assert_eq!(std::fs::metadata(top.join("report")).unwrap().nlink(), 1);
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let top = scratch("refused");
        symlink("nowhere", top.join("link")).unwrap();
        rustix::fs::mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(top.join("folder")).unwrap();
        for (name, kind) in [("link", "a symlink"), ("fifo", "a FIFO"), ("folder", "a folder")] {
            let error = HeldFile::new(&top.join(name), nothing).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
        assert!(matches!(HeldFile::new(Path::new("/dev/null"), nothing), Err(HoldError::NotRegular { .. })));
        assert!(matches!(HeldFile::new(&top.join("no/report"), nothing), Err(HoldError::Folder { .. })));
        assert!(matches!(HeldFile::new(Path::new("/"), nothing), Err(HoldError::NoName(_))));
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_link_in_what_the_command_writes_is_refused_and_others_are_followed() {
        let top = scratch("way");
        std::fs::create_dir_all(top.join("work")).unwrap();
        std::fs::create_dir_all(top.join("real")).unwrap();
        symlink(top.join("real"), top.join("work/out")).unwrap();
        symlink(top.join("real"), top.join("out")).unwrap();
        let work = top.join("work");
        let writable = |path: &Path| path.starts_with(&work);
        let error = HeldFile::new(&work.join("out/report"), writable).unwrap_err();
        assert!(matches!(error, HoldError::Link { .. }), "{error}");
        HeldFile::new(&top.join("out/report"), writable).unwrap().write(b"x").unwrap();
        assert!(top.join("real/report").exists());
        std::fs::remove_dir_all(&top).unwrap();
    }
}
