//! One cgroup directory, held open.
//!
//! All files are opened relative to the directory's descriptor: a look-up of one name instead of a whole
//! path, and no way for a directory that was removed and made anew by somebody else to be mistaken for this
//! one.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::read;

#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// Files that were opened ahead of being read.
    held: OnceLock<Vec<(&'static str, OwnedFd)>>,
}

impl Dir {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(rustix::fs::open(path, directory(), Mode::empty())?, path.to_owned()))
    }

    /// Opens the cgroup `name` below this one.
    pub fn child(&self, name: &str) -> io::Result<Self> {
        Ok(Self::new(rustix::fs::openat(&self.fd, name, directory(), Mode::empty())?, self.path.join(name)))
    }

    fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path, held: OnceLock::new() }
    }

    /// Makes the cgroup `name` below this one and opens it.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755))?;
        match self.child(name) {
            Ok(dir) => Ok(dir),
            Err(error) => {
                let _ = self.remove_child(name);
                Err(error)
            }
        }
    }

    /// Removes the cgroup `name` below this one, which the kernel allows only if it holds no process and no
    /// cgroup.
    pub fn remove_child(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn open_to_read(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.fd, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    pub fn open_to_write(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.fd, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Opens files that are going to be read; those that do not exist are left out.
    pub fn open_ahead(&self, names: &[&'static str]) {
        let open = |name: &&'static str| self.open_to_read(name).ok().map(|file| (*name, file));
        let _ = self.held.set(names.iter().filter_map(open).collect());
    }

    pub fn read(&self, name: &str) -> io::Result<String> {
        if let Some((_, file)) = self.held.get().and_then(|held| held.iter().find(|(own, _)| *own == name)) {
            return read_from_start(file.as_fd());
        }
        read_from_start(self.open_to_read(name)?.as_fd())
    }

    /// Writes `value` in one call, as the kernel's files require.
    pub fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let file = self.open_to_write(name)?;
        let written = rustix::io::write(file, value.as_bytes())?;
        if written == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    pub fn write_number(&self, name: &str, value: u64) -> io::Result<()> {
        let mut text = String::with_capacity(20);
        let _ = write!(text, "{value}");
        self.write(name, &text)
    }

    pub fn has(&self, name: &str) -> bool {
        rustix::fs::accessat(&self.fd, name, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Whether the caller may write to the file `name`, or to the directory itself if `name` is `.`. Unlike
    /// the permission bits this knows of capabilities and of read-only mounts.
    pub fn allows_writing(&self, name: &str) -> bool {
        rustix::fs::accessat(&self.fd, name, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// The processes in this very cgroup, as the caller's PID namespace numbers them. One that is outside of
    /// the namespace shows as 0 and is left out.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        Ok(self
            .read("cgroup.procs")?
            .lines()
            .filter_map(|line| line.parse().ok())
            .filter(|pid| *pid > 0)
            .collect())
    }

    /// The names of the cgroups directly below.
    pub fn children(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            if entry.file_type() == rustix::fs::FileType::Directory
                && let Ok(name) = entry.file_name().to_str()
                && !name.starts_with('.')
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Removes the cgroup `name` with all cgroups below it. Only what holds no process goes; `depth` bounds
    /// the descent, because a sandbox with a cgroup of its own to write to could have made a deep tree.
    pub fn remove_tree(&self, name: &str, depth: u32) -> io::Result<()> {
        match self.remove_child(name) {
            Err(error) if depth > 0 && is_busy(&error) => {}
            other => return other,
        }
        let inner = self.child(name)?;
        for child in inner.children()? {
            inner.remove_tree(&child, depth - 1)?;
        }
        self.remove_child(name)
    }
}

/// Reads a file that is held open anew.
pub(super) fn read_from_start(file: BorrowedFd<'_>) -> io::Result<String> {
    String::from_utf8(read::read_from_start(file)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Whether a removal failed because the cgroup still holds processes or cgroups.
pub(super) fn is_busy(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::BUSY | Errno::NOTEMPTY))
}

/// Whether an error means that the caller may not write here.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}
