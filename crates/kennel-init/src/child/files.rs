//! Folders, files and links that init makes in the file systems it mounted itself.
//!
//! Every path is walked from the new root with symlinks refused, so that none of them can lead a step back to the
//! host's tree, which is still writable at this time.

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

/// Calls `each` with the folder that holds every component of `path` in turn, and the component.
/// What `each` returns is the folder for the next.
fn walk(root: i32, path: &CStr, mut each: impl FnMut(i32, &CStr, bool) -> Result<Option<Fd>>) -> Result<()> {
    let mut buffer = [0u8; PATH_MAX];
    let mut folder: Option<Fd> = None;
    let mut components =
        path.to_bytes().split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = components.next() {
        let room = buffer.get_mut(..=part.len()).ok_or(Errno::EINVAL)?;
        room[..part.len()].copy_from_slice(part);
        room[part.len()] = 0;
        let name = CStr::from_bytes_with_nul(room).map_err(|_| Errno::EPROTO)?;
        let last = components.peek().is_none();
        folder = each(folder.as_ref().map_or(root, Fd::raw), name, last)?;
    }
    Ok(())
}

fn enter(folder: i32, name: &CStr) -> Result<Option<Fd>> {
    sys::openat2(folder, name, open::PATH | open::DIRECTORY | open::NOFOLLOW, 0, resolve::NO_SYMLINKS)
        .map(Some)
}

impl Setup<'_> {
    /// Makes the folders above `path`, then lets `make` make the last component in its folder.
    fn make(&self, path: &CStr, mut make: impl FnMut(i32, &CStr) -> Result<()>) -> Result<()> {
        walk(self.root.raw(), path, |folder, name, last| {
            if last {
                return make(folder, name).map(|()| None);
            }
            make_or_keep_dir(folder, name, 0o755)?;
            enter(folder, name)
        })
    }

    pub(super) fn make_dir(&self, fields: &mut Reader) -> Result<()> {
        let (path, mode) = (fields.string()?, fields.u32()?);
        self.make(path, |folder, name| make_or_keep_dir(folder, name, mode))
    }

    pub(super) fn make_file(&self, fields: &mut Reader) -> Result<()> {
        self.make(fields.string()?, |folder, name| create(folder, name, 0o444, b""))
    }

    pub(super) fn write_file(&self, fields: &mut Reader) -> Result<()> {
        let (path, contents, mode) = (fields.string()?, fields.bytes()?, fields.u32()?);
        self.make(path, |folder, name| create(folder, name, mode, contents))
    }

    pub(super) fn symlink(&self, fields: &mut Reader) -> Result<()> {
        let (path, points_to) = (fields.string()?, fields.string()?);
        self.make(path, |folder, name| match sys::symlinkat(points_to, folder, name) {
            Err(Errno::EEXIST) => Ok(()),
            other => other,
        })
    }

    pub(super) fn change_dir(&self, fields: &mut Reader) -> Result<()> {
        sys::chdir(fields.string()?)
    }
}

fn make_or_keep_dir(folder: i32, name: &CStr, mode: u32) -> Result<()> {
    match sys::mkdirat(folder, name, mode) {
        Ok(()) if mode & 0o7022 != 0 => {
            // The caller's umask took these bits away.
            let made = sys::openat2(folder, name, open::DIRECTORY | open::NOFOLLOW, 0, resolve::NO_SYMLINKS)?;
            sys::fchmod(made.raw(), mode)
        }
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

fn create(folder: i32, name: &CStr, mode: u32, contents: &[u8]) -> Result<()> {
    let flags = open::WRONLY | open::CREAT | open::EXCL | open::NOFOLLOW;
    match sys::openat2(folder, name, flags, u64::from(mode), resolve::NO_SYMLINKS) {
        Ok(file) => sys::write_all(file.raw(), contents),
        Err(Errno::EEXIST) if contents.is_empty() => Ok(()),
        Err(error) => Err(error),
    }
}
