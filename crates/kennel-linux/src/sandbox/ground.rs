//! What a prepared sandbox stands on: the files that its mounts are on or of, each as a name that leads to one file.
//!
//! A mount covers a file and not a name. Where the host has put another file in the place of one that is covered, the sandbox
//! would show it; so would it if the host has removed a name and made it again for the same file, because the kernel takes a
//! mount away with the name that it was on. Resolving the policy again does not tell: to it the same rule covers the same
//! name. So each file is looked at twice, before the sandbox is prepared and before it is handed out.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::resolve::{Point, State};

/// What was found at each point of a policy on this disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ground(Vec<Option<Standing>>);

/// A file, as far as it can be told from another one, and from itself with another name.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    device: (u32, u32),
    inode: u64,
    /// When it was made: numbers are used again.
    born: (i64, u32),
    /// When a name of it was last made or taken away, among other things. Not for folders: they have one name, and their time
    /// changes with everything that is put in them.
    changed: Option<(i64, u32)>,
}

impl Ground {
    /// As it is now.
    pub(super) fn of(points: &[Point]) -> Ground {
        let top = points.iter().find(|point| point.path == Path::new("/")).and_then(root_folder);
        let of_the_host = points.iter().filter(|point| !matches!(point.state, State::Fresh(_)));
        let looked = of_the_host.map(|point| match top {
            None => standing(&point.path),
            Some(top) => standing(&in_root(points, point, top)),
        });
        Ground(looked.collect())
    }
}

/// The folder that is the root, where that is not the host's own.
fn root_folder(root: &Point) -> Option<&Path> {
    match &root.state {
        State::Layer(source) | State::Host { source, .. } => Some(source.path.as_path()),
        _ => None,
    }
    .filter(|folder| *folder != Path::new("/"))
}

/// The host's path of what a point is on, in a sandbox with a root of its own.
fn in_root(points: &[Point], point: &Point, top: &Path) -> PathBuf {
    if let State::Host { source, .. } | State::Layer(source) | State::Device(source) = &point.state {
        return source.path.clone();
    }
    let around = point.path.ancestors().skip(1).find_map(|above| {
        let point = points.iter().find(|point| point.path == above)?;
        match &point.state {
            State::Host { source, .. } | State::Layer(source) => Some((above, source.path.as_path())),
            _ => None,
        }
    });
    let (above, folder) = around.unwrap_or((Path::new("/"), top));
    folder.join(point.path.strip_prefix(above).unwrap_or(Path::new("")))
}

fn standing(path: &Path) -> Option<Standing> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::CTIME | StatxFlags::BTIME;
    // A network server that does not answer is not waited for.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, path, flags, wanted).ok()?;
    let is_folder = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::Directory;
    Some(Standing {
        device: (found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        changed: (!is_folder).then_some((found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec)),
    })
}
