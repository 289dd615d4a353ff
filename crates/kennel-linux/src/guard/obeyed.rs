//! Names that programs on the host obey, wherever they come into being: an editor's settings in a folder of the project, an
//! agent's, a package manager's ([`kennel_policy::dotfiles`]).
//!
//! Those at the top of what can be written are protected paths like any other. Further down there are too many folders to
//! watch, and an honest `git clone` or `npm install` makes such names in folders of its own. So none is made in a folder
//! that was there before the run; what comes into being in new folders is judged when the run is over
//! ([`crate::handback`]), and so is what wins a race against the look that is taken here.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kennel_policy::dotfiles::{self, Hold};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::as_root;
use super::protected_paths::{How, folds, odd};
use super::walk::{self, Spot};
use super::watch::is_born_since;
use crate::resolve::guard_rules::{Anchor, ObeyedAnywhere, Protected};

const PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The rule about them, in a run.
#[derive(Debug)]
pub struct Obeyed {
    rule: ObeyedAnywhere,
    /// What is born from now on is the run's.
    started: Duration,
}

impl Obeyed {
    /// For a run that starts now.
    #[must_use]
    pub fn new(rule: ObeyedAnywhere) -> Obeyed {
        Obeyed { rule, started: super::watch::now() }
    }

    /// Whether making `name` somewhere might matter: asked before anything is resolved.
    #[must_use]
    pub fn concerns(&self, name: &[u8]) -> bool {
        dotfiles::may_matter(name) || odd(name)
    }

    /// What making `spot` would break.
    ///
    /// # Errors
    /// When the disk cannot be looked at.
    pub fn made(&self, spot: &Spot, how: How) -> Result<Option<Protected>, Errno> {
        if !self.concerns(&spot.name) {
            return Ok(None);
        }
        let folder = path_of(spot.folder.as_fd())?;
        // Of a name of two parts the first comes with it: how old the folder around both is counts.
        let around = folder.file_name().is_some_and(|name| dotfiles::is_first_part(name.as_bytes()));
        let around = around.then(|| as_root::openat(&spot.folder, c"..", PATH, Mode::empty())).transpose()?;
        if self.rule.own.iter().any(|own| folder.starts_with(own)) {
            return Ok(None);
        }
        let is_new = self.is_new_or_own(around.as_ref().unwrap_or(&spot.folder).as_fd())?;
        if is_new && (around.is_none() || self.is_new_or_own(spot.folder.as_fd())?) {
            return Ok(None);
        }
        // What is installed there is run by who uses it, whatever its name; and a repository's own folder has its rules.
        if folder.iter().any(|name| name == "node_modules" || name.as_bytes().eq_ignore_ascii_case(b".git")) {
            return Ok(None);
        }
        let identity = walk::identity(spot.folder.as_fd())?;
        let above = folder.file_name().filter(|_| !self.rule.opened.contains(&identity));
        let above = above.map_or(&b""[..], OsStr::as_bytes);
        if !breaks(above, spot, how)? || walk::is_covered(spot)? {
            return Ok(None);
        }
        let rest = PathBuf::from(OsStr::from_bytes(&spot.name));
        let anchor = Arc::new(Anchor { path: folder, identity });
        Ok(Some(Protected { anchor, rest, rule: self.rule.rule.clone() }))
    }

    /// Whether a folder came into being during the run, or is the sandbox's own. Where a file system does not tell when, all
    /// that is made is judged at the end.
    fn is_new_or_own(&self, folder: BorrowedFd) -> Result<bool, Errno> {
        const OF_SANDBOXES: [u64; 2] = [0x0102_1994, 0x794c_7630];
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(folder, c"", flags, StatxFlags::INO | StatxFlags::BTIME)?;
        if stat.stx_mask & StatxFlags::BTIME.bits() == 0 || is_born_since(&stat, self.started) {
            return Ok(true);
        }
        let kind = rustix::fs::fstatfs(folder)?.f_type as u64 & 0xffff_ffff;
        let device = walk::identity_of(&stat).device;
        Ok(OF_SANDBOXES.contains(&kind) && !self.rule.host_devices.contains(&device))
    }
}

/// Whether what comes to stand at a spot is obeyed there, or brings along what is.
fn breaks(above: &[u8], spot: &Spot, how: How) -> Result<bool, Errno> {
    let name = &spot.name;
    match dotfiles::look(above, name) {
        Some(row) if row.hold == Hold::Keep => return Ok(true),
        _ => {}
    }
    if dotfiles::is_first_part(name) {
        match how {
            How::Fresh => {}
            How::Link => return Ok(true),
            How::Moved(source) => match walk::kind(source.as_fd())? {
                FileType::Symlink => return Ok(true),
                FileType::Directory => {
                    for second in dotfiles::second_parts(name) {
                        match walk::open(source, second.as_bytes()) {
                            Ok(_) => return Ok(true),
                            Err(Errno::NOENT) => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
                _ => {}
            },
        }
    }
    Ok(odd(name) && folds(spot.folder.as_fd())?)
}

/// Where a folder is, as those inside see it: outside it has the same path, but for mounts at other places.
fn path_of(folder: BorrowedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let path = rustix::fs::readlink(Path::new(&link), Vec::new())?;
    Ok(OsString::from(OsStr::from_bytes(path.as_bytes())).into())
}
