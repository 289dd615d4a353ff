//! Folders, files and links that init makes in the file systems it mounted itself.
//!
//! Every path is walked from the root with symlinks refused, so that none of them can lead a step to another part of
//! the host's tree, which may still be writable at this time.

use core::ffi::CStr;

use super::Setup;
use super::sys::{self, Errno, Fd, Result, open, resolve};
use super::wire::Reader;

/// The longest path the kernel takes, with its NUL.
const PATH_MAX: usize = 4096;

/// Opens `path` below `root` as a place to work on, without following any symlink.
pub(super) fn place(root: i32, path: &CStr) -> Result<Fd> {
    sys::openat2(root, path, open::PATH | open::NOFOLLOW, 0, resolve::IN_ROOT | resolve::NO_SYMLINKS)
}

/// A folder that is open, and its path.
pub struct Folder {
    fd: Option<Fd>,
    path: [u8; 64],
    length: usize,
}

impl Folder {
    pub(super) const fn none() -> Folder {
        Folder { fd: None, path: [0; 64], length: 0 }
    }

    fn is(&self, path: &[u8]) -> Option<i32> {
        self.fd.as_ref().filter(|_| &self.path[..self.length] == path).map(Fd::raw)
    }

    /// Something was mounted at `path`: what is open at or below it lies under the mount now.
    pub(super) fn covered(&mut self, path: &[u8]) {
        if self.path[..self.length].starts_with(path) {
            self.fd = None;
        }
    }
}

/// The path of the folder and the name in it. The name is the end of `path`, so it has its NUL.
fn split(path: &CStr) -> Result<(&[u8], &CStr)> {
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|byte| *byte == b'/').ok_or(Errno::EPROTO)?;
    let name = CStr::from_bytes_with_nul(&bytes[slash + 1..]).map_err(|_| Errno::EPROTO)?;
    Ok((&bytes[..slash.max(1)], name))
}

/// Copies a path that has no NUL of its own into `buffer`.
fn terminated<'b>(path: &[u8], buffer: &'b mut [u8; PATH_MAX]) -> Result<&'b CStr> {
    let room = buffer.get_mut(..=path.len()).ok_or(Errno::EINVAL)?;
    room[..path.len()].copy_from_slice(path);
    room[path.len()] = 0;
    CStr::from_bytes_with_nul(room).map_err(|_| Errno::EPROTO)
}

impl Setup<'_> {
    /// The open folder that holds `path`, and the name in it. `make` makes folders that are missing.
    pub(super) fn folder_of<'p>(&mut self, path: &'p CStr, make: bool) -> Result<(i32, &'p CStr)> {
        let (folder, name) = split(path)?;
        // Nothing is ever mounted on it, so it need not be opened again.
        if folder == b"/" {
            return Ok((self.root.raw(), name));
        }
        if let Some(fd) = self.folder.is(folder) {
            return Ok((fd, name));
        }
        let mut buffer = [0; PATH_MAX];
        let fd = match place(self.root.raw(), terminated(folder, &mut buffer)?) {
            Err(Errno::ENOENT) if make => self.make_folders(folder)?,
            other => other?,
        };
        let raw = fd.raw();
        let length = folder.len().min(self.folder.path.len());
        self.folder.path[..length].copy_from_slice(&folder[..length]);
        // One whose path does not fit is kept open for this step, under a path that no other has.
        self.folder.length = if length == folder.len() { length } else { 0 };
        self.folder.fd = Some(fd);
        Ok((raw, name))
    }

    fn make_folders(&self, path: &[u8]) -> Result<Fd> {
        let mut buffer = [0; PATH_MAX];
        let mut folder = place(self.root.raw(), c"/")?;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let name = terminated(part, &mut buffer)?;
            self.make_or_keep_dir(folder.raw(), name, 0o755)?;
            let flags = open::PATH | open::DIRECTORY | open::NOFOLLOW;
            folder = sys::openat2(folder.raw(), name, flags, 0, resolve::NO_SYMLINKS)?;
        }
        Ok(folder)
    }

    pub(super) fn make_dir(&mut self, fields: &mut Reader) -> Result<()> {
        let (folder, name) = self.folder_of(fields.string()?, true)?;
        self.make_or_keep_dir(folder, name, fields.u32()?)
    }

    pub(super) fn make_file(&mut self, fields: &mut Reader) -> Result<()> {
        let (folder, name) = self.folder_of(fields.string()?, true)?;
        match sys::mknod_file(folder, name, 0o444) {
            Err(Errno::EEXIST) => Ok(()),
            other => other.and_then(|()| self.give_to_root(folder, name)),
        }
    }

    pub(super) fn write_file(&mut self, fields: &mut Reader) -> Result<()> {
        let (folder, name) = self.folder_of(fields.string()?, true)?;
        let (contents, mode) = (fields.bytes()?, fields.u32()?);
        let flags = open::WRONLY | open::CREAT | open::EXCL | open::NOFOLLOW;
        let file = sys::openat2(folder, name, flags, u64::from(mode), resolve::NO_SYMLINKS)?;
        sys::write_all(file.raw(), contents)?;
        self.give_to_root(folder, name)
    }

    pub(super) fn symlink(&mut self, fields: &mut Reader) -> Result<()> {
        let (folder, name) = self.folder_of(fields.string()?, true)?;
        match sys::symlinkat(fields.string()?, folder, name) {
            Err(Errno::EEXIST) => Ok(()),
            other => other.and_then(|()| self.give_to_root(folder, name)),
        }
    }

    /// Makes a folder; one that exists is left as it is.
    pub(super) fn make_or_keep_dir(&self, folder: i32, name: &CStr, mode: u32) -> Result<()> {
        match sys::mkdirat(folder, name, mode) {
            Err(Errno::EEXIST) => Ok(()),
            other => other.and_then(|()| self.give_to_root(folder, name)),
        }
    }

    /// What has just been made is user 0's, where that is somebody else.
    pub(super) fn give_to_root(&self, folder: i32, name: &CStr) -> Result<()> {
        if self.root_owns { sys::chown(folder, name, 0, 0) } else { Ok(()) }
    }

    pub(super) fn change_dir(&mut self, fields: &mut Reader) -> Result<()> {
        // In a late part the path may lead through links that somebody made inside: none of them may lead to the store, by
        // way of /proc/self/fd. The steps that use it come before.
        if self.before > 0 {
            self.store = None;
            self.folder = Folder::none();
        }
        sys::chdir(fields.string()?)
    }
}
