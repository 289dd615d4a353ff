//! A file that is written after a command has run, where kennel-linux is not there to do it: its folder is held open from before
//! the start where the system lets it, and it lands by rename, which follows no link.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A place for a file.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    name: OsString,
    #[cfg(unix)]
    folder: std::os::fd::OwnedFd,
}

/// Why a file cannot be written later.
pub type HoldError = io::Error;

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {what}", path.display()))
}

impl HeldFile {
    /// Holds the place of `path`. `writable` says what the command may write: symlinks there are its own for all that anybody
    /// knows, and are refused.
    ///
    /// # Errors
    /// When the folder does not exist, or the name is that of something else than a regular file.
    pub fn new(path: &Path, writable: impl Fn(&Path) -> bool) -> io::Result<HeldFile> {
        let path = std::path::absolute(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(wrong(&path, "not the name of a file"));
        };
        let is_link = |at: &Path| at.symlink_metadata().is_ok_and(|found| found.is_symlink());
        // As they are written, and where they lead: a link to a folder that can be written may have another one in it.
        let real = parent.canonicalize().unwrap_or_else(|_| parent.to_path_buf());
        let place = |at: &Path| match (at.parent().map(Path::canonicalize), at.file_name()) {
            (Some(Ok(folder)), Some(name)) => folder.join(name),
            _ => at.to_path_buf(),
        };
        if let Some(link) =
            parent.ancestors().chain(real.ancestors()).find(|at| is_link(at) && writable(&place(at)))
        {
            let what = format!(
                "leads through the symlink {}, which the command could have created\nhelp: name the target folder itself, or a file outside the folders that the command may write",
                link.display()
            );
            return Err(wrong(&path, &what));
        }
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(wrong(
                &path,
                "is not a regular file\nhelp: name a regular file, or one that does not exist yet",
            ));
        }
        #[cfg(unix)]
        let folder = {
            use rustix::fs::{Mode, OFlags};
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(&real, flags, Mode::empty())
                .map_err(|error| wrong(&real, &io::Error::from(error).to_string()))?
        };
        Ok(HeldFile {
            name: name.to_owned(),
            #[cfg(unix)]
            folder,
            path,
        })
    }

    /// The path that was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file, in place of whatever has its name by now.
    ///
    /// # Errors
    /// When the disk refuses. Nothing is left beside then.
    #[cfg(unix)]
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        use rustix::fs::{AtFlags, Mode, OFlags};
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fresh = fresh_name(&self.name);
        let file = rustix::fs::openat(&self.folder, &fresh, flags, Mode::from_raw_mode(0o666))?;
        let written = io::Write::write_all(&mut std::fs::File::from(file), bytes)
            .and_then(|()| Ok(rustix::fs::renameat(&self.folder, &fresh, &self.folder, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &fresh, AtFlags::empty());
        }
        written
    }

    /// Writes the file, in place of whatever has its name by now.
    ///
    /// # Errors
    /// When the disk refuses. Nothing is left beside then.
    #[cfg(not(unix))]
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.path.with_file_name(fresh_name(&self.name));
        let new = || std::fs::File::options().write(true).create_new(true).open(&fresh);
        let written = new()
            .and_then(|mut file| io::Write::write_all(&mut file, bytes))
            .and_then(|()| std::fs::rename(&fresh, &self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&fresh);
        }
        written
    }
}

/// A name beside `name` that nobody can have guessed: the standard library's maps are seeded by the system.
fn fresh_name(name: &std::ffi::OsStr) -> OsString {
    use std::hash::{BuildHasher, Hasher};
    let number = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let mut fresh = name.to_owned();
    fresh.push(format!(".kennel-{number:016x}"));
    fresh
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("kennel-held-plain-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }

    #[test]
    fn what_took_the_name_is_replaced_and_what_took_the_folder_gets_nothing() {
        let top = scratch("replaced");
        std::fs::create_dir(top.join("folder")).expect("a folder");
        std::fs::write(top.join("victim"), "precious").expect("a file");
        let path = top.join("folder/report");
        let held = HeldFile::new(&path, |_| false).expect("a place");
        symlink(top.join("victim"), &path).expect("a link");
        held.write(b"text").expect("it is written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "text");
        assert_eq!(std::fs::read_to_string(top.join("victim")).expect("a file"), "precious");
        // The folder is another one by now.
        std::fs::rename(top.join("folder"), top.join("moved")).expect("moved");
        std::fs::create_dir(top.join("folder")).expect("a folder");
        held.write(b"again").expect("it is written");
        assert_eq!(std::fs::read_to_string(top.join("moved/report")).expect("a file"), "again");
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(top.join("moved")).expect("a folder").count(), 1);
        std::fs::remove_dir_all(&top).expect("removed");
    }

    #[test]
    fn a_link_of_the_commands_a_fifo_and_a_folder_are_refused() {
        let top = scratch("refused");
        std::fs::create_dir(top.join("real")).expect("a folder");
        symlink("real", top.join("link")).expect("a link");
        let real = top.canonicalize().expect("it is there");
        let new = |path: &str, writable: bool| {
            HeldFile::new(&top.join(path), |at| writable && at.starts_with(&real))
        };
        assert!(new("link/report", false).is_ok());
        let error = new("link/report", true).expect_err("it may be the command's").to_string();
        assert!(error.contains("help: name the target folder itself"), "{error}");
        symlink("nowhere", top.join("planted")).expect("a link");
        assert!(new("planted", false).is_err() && new("real", false).is_err());
        assert!(new("missing/report", false).is_err());
        std::fs::remove_dir_all(&top).expect("removed");
    }
}
