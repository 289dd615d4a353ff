//! A folder that only this user can enter, and that goes with the sandbox.
//!
//! macOS has no file system of a sandbox's own, so a private `/tmp` is a fresh folder that `TMPDIR` names. It is on the disk: when
//! kennel is killed it stays, and the system clears the user's folder for temporary files from time to time.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A fresh folder; dropping it removes it with all that is in it.
#[derive(Debug)]
pub(crate) struct PrivateFolder(Option<PathBuf>);

/// A name that nobody can guess and that is used once. It has letters, digits and a dash.
pub(crate) fn tag() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(format!("kennel-{:016x}", u64::from_ne_bytes(bytes)))
}

impl PrivateFolder {
    /// Makes one in `parent`, or in the folder that the standard library takes for temporary files. Its path has no links.
    pub(crate) fn new(parent: Option<&Path>, purpose: &str) -> io::Result<PrivateFolder> {
        let parent = match parent {
            Some(parent) => parent.to_path_buf(),
            None => std::env::temp_dir().canonicalize()?,
        };
        let path = parent.join(format!("{}-{purpose}", tag()?));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| io::Error::new(error.kind(), format!("creating {}: {error}", path.display())))?;
        Ok(PrivateFolder(Some(path)))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new("/"))
    }

    /// Removes it. Nothing inside is alive any more, and no link in it is followed.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), |path| remove(&path))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = remove(&path);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Folders that the command closed to itself.
            open_folders(path);
            std::fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Lets this user into every folder below. The command is dead, so what is a folder now stays one.
fn open_folders(folder: &Path) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_users_own_and_goes_with_all_that_is_in_it() {
        let folder = PrivateFolder::new(None, "test").expect("a folder");
        let path = folder.path().to_path_buf();
        assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
        std::fs::create_dir_all(path.join("a/b")).expect("folders");
        std::os::unix::fs::symlink("/", path.join("a/link")).expect("a link");
        std::fs::set_permissions(path.join("a"), std::fs::Permissions::from_mode(0o000)).expect("closed");
        folder.remove().expect("removed");
        assert!(!path.exists() && Path::new("/").exists());
    }

    #[test]
    fn no_two_are_the_same_and_a_dropped_one_is_gone() {
        let [one, two] = [(); 2].map(|()| PrivateFolder::new(None, "test").expect("a folder"));
        assert_ne!(one.path(), two.path());
        let path = one.path().to_path_buf();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }
}
