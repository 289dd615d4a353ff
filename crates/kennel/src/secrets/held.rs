//! Files that a policy names and that kennel reads with its own rights: opened without following a link that the command could have
//! put there, in this run or an earlier one. A link that leads from the user's own place to another (`~/.netrc` into a folder of
//! settings) is followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use kennel_policy::policy::{MountAccess, Policy};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat};

/// As many links as the kernel follows.
const MAX_LINKS: u32 = 40;

/// The folders that the command can write, as they are on the disk.
#[derive(Debug, Default)]
pub(super) struct WriteRoots(Vec<PathBuf>);

impl WriteRoots {
    pub(super) fn of(policy: &Policy) -> WriteRoots {
        let files = &policy.files;
        let named = files.allow_write.iter().map(|rule| rule.pattern.literal_prefix());
        let mounts = files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        let named = named.chain(mounts.map(|mount| mount.source.as_path()));
        WriteRoots(named.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf())).collect())
    }

    fn hold(&self, folder: &Path) -> bool {
        self.0.iter().any(|root| folder.starts_with(root))
    }

    /// Whether the command can write what this path leads to, if it leads to something, or can have it lead elsewhere.
    pub(super) fn hold_what_is_at(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|found| self.hold(&found))
            || self.find(path).is_err_and(|error| error.kind() == io::ErrorKind::Other)
    }

    /// Opens a regular file for reading, or whatever else is there, without waiting for it.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let (folder, name, _) = self.find(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(openat(&folder, &name, flags, Mode::empty())?.into())
    }

    /// Opens a file to add to it, and makes it if it is missing. It does not lie where the command could write into it too.
    pub(super) fn append(&self, path: &Path) -> io::Result<File> {
        let (folder, name, real) = self.find(path)?;
        if self.hold(&real.join(&name)) {
            return Err(io::Error::other(
                "it lies in a folder that the command can write, where it could be changed; choose another place",
            ));
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// The folder that a path leads to, held, its last name, and where that folder really is. There is no link at the last name.
    fn find(&self, path: &Path) -> io::Result<(OwnedFd, OsString, PathBuf)> {
        #[cfg(target_os = "linux")]
        const FOLDER: OFlags = OFlags::PATH;
        #[cfg(not(target_os = "linux"))]
        const FOLDER: OFlags = OFlags::RDONLY;
        let folder = |above: &OwnedFd, name: &OsStr| {
            let flags = FOLDER | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(above, name, flags, Mode::empty())
        };
        let root = || openat(CWD, "/", FOLDER | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let (mut place, mut real, mut links) = (root()?, PathBuf::from("/"), 0);
        let mut ahead = parts(&std::path::absolute(path)?);
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                place = folder(&place, &name)?;
                real.pop();
                continue;
            }
            let found = match statat(&place, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // There may be a file soon.
                Err(rustix::io::Errno::NOENT) if ahead.is_empty() => return Ok((place, name, real)),
                found => found?,
            };
            if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
                if self.hold(&real) {
                    let link = real.join(&name);
                    return Err(io::Error::other(format!(
                        "{} is a link in a folder that the command can write, and is not followed",
                        link.display()
                    )));
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let target = readlinkat(&place, &name, Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    (place, real) = (root()?, PathBuf::from("/"));
                }
                for part in parts(&target).into_iter().rev() {
                    ahead.push_front(part);
                }
                continue;
            }
            if ahead.is_empty() {
                return Ok((place, name, real));
            }
            place = folder(&place, &name)?;
            real.push(&name);
        }
        Err(rustix::io::Errno::ISDIR.into())
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part| match part {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(roots: &WriteRoots, path: &Path) -> Result<String, String> {
        let mut text = String::new();
        let mut file = roots.open(path).map_err(|error| error.to_string())?;
        file.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn a_link_is_followed_where_the_command_cannot_have_put_it() {
        let folder = std::env::temp_dir().join(format!("kennel-held-{}", std::process::id()));
        let (open, own) = (folder.join("open"), folder.join("own"));
        for path in [open.join("below"), own.join("dotfiles")] {
            std::fs::create_dir_all(path).unwrap();
        }
        let folder = folder.canonicalize().unwrap();
        let (open, own) = (folder.join("open"), folder.join("own"));
        std::fs::write(own.join("dotfiles/netrc"), "netrc").unwrap();
        std::fs::write(open.join("plain"), "plain").unwrap();
        symlink("dotfiles/netrc", own.join(".netrc")).unwrap();
        symlink(own.join("dotfiles"), open.join("folder")).unwrap();
        symlink("../../own/dotfiles/netrc", open.join("below/file")).unwrap();
        symlink(&open, own.join("to-open")).unwrap();
        symlink("loop", own.join("loop")).unwrap();
        let roots = WriteRoots(vec![open.clone()]);
        assert_eq!(read(&roots, &own.join(".netrc")).unwrap(), "netrc");
        assert_eq!(read(&roots, &open.join("plain")).unwrap(), "plain");
        assert_eq!(read(&roots, &own.join("to-open/plain")).unwrap(), "plain");
        assert_eq!(read(&roots, &own.join("dotfiles/../.netrc")).unwrap(), "netrc");
        for path in
            ["open/folder/netrc", "open/below/file", "own/to-open/below/file", "open/below/../folder/netrc"]
        {
            let error = read(&roots, &folder.join(path)).unwrap_err();
            assert!(error.contains("is a link in a folder that the command can write"), "{path}: {error}");
        }
        assert!(read(&roots, &own.join("loop")).is_err());
        assert_eq!(read(&WriteRoots::default(), &open.join("folder/netrc")).unwrap(), "netrc");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_added_to_lies_where_the_command_cannot_write() {
        let folder = std::env::temp_dir().join(format!("kennel-appended-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("open")).unwrap();
        let folder = folder.canonicalize().unwrap();
        symlink("..", folder.join("open/out")).unwrap();
        symlink("open", folder.join("own")).unwrap();
        let roots = WriteRoots(vec![folder.join("open"), folder.join("alone")]);
        for _ in 0..2 {
            roots.append(&folder.join("log")).unwrap().write_all(b"line\n").unwrap();
        }
        assert_eq!(std::fs::read(folder.join("log")).unwrap(), b"line\nline\n");
        for path in ["open/log", "own/log", "alone", "open/../own/log"] {
            let error = roots.append(&folder.join(path)).unwrap_err().to_string();
            assert!(error.contains("a folder that the command can write"), "{path}: {error}");
            assert!(!folder.join(path).exists(), "{path}");
        }
        assert!(roots.append(&folder.join("open/out/log")).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
