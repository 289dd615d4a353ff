//! Where a path really leads on a disk.
//!
//! Seatbelt compares the path that the kernel found with the text of a filter: `//x`, `x/.`, a link on the way or another
//! spelling match nothing, and a deny written so protects nothing. So all that is written into a profile comes from here.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use kennel_policy::precedence;

use crate::profile::disk::{Disk, Kind};

/// More symlinks than this in one path is a loop, to the kernel too.
const MOST_LINKS: usize = 40;
/// Where the writable volume is mounted a second time. `/Users` and its like are the same folders.
const DATA: &str = "/System/Volumes/Data";

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path without links, as the disk spells it.
    pub path: PathBuf,
    /// What it is. Never a link.
    pub kind: Kind,
    /// Which file it is.
    pub identity: (u64, u64),
    /// How many names it has.
    pub links: u64,
}

impl precedence::Found for Found {
    fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }
}

/// The answer to "what is there".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Something.
    Found(Found),
    /// Nothing; this is where it would be.
    Missing(PathBuf),
    /// The caller may not look. If the folder that stops it is its own, the command could open that one.
    Forbidden(Option<Found>),
    /// Links lead in a circle.
    Loop,
}

/// The way along a path.
pub struct Way {
    /// The links that it passes through, by their own paths without links.
    pub links: Vec<PathBuf>,
    /// Where it leads.
    pub location: Location,
}

/// Goes along a path, which is absolute. `..` is physical: it leads up from where a link led.
pub fn way(disk: &dyn Disk, path: &Path) -> io::Result<Way> {
    let mut here = PathBuf::from("/");
    let mut links = Vec::new();
    let mut rest: VecDeque<OsString> = names(path);
    let mut last = disk.look(&here)?;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            here.pop();
            last = disk.look(&here)?;
            continue;
        }
        let next = here.join(&name);
        let missing = |rest: &VecDeque<OsString>| {
            let mut path = spelled(disk, &here)?.join(&name);
            for name in rest {
                match name.to_str() {
                    Some("..") => _ = path.pop(),
                    _ => path.push(name),
                }
            }
            Ok::<_, io::Error>(Location::Missing(path))
        };
        if last.kind != Kind::Folder {
            return Ok(Way { links, location: missing(&rest)? });
        }
        match disk.look(&next) {
            Ok(entry) if entry.kind == Kind::Link => {
                if links.len() == MOST_LINKS {
                    return Ok(Way { links, location: Location::Loop });
                }
                let target = disk.read_link(&next)?;
                links.push(next);
                if target.is_absolute() {
                    here = PathBuf::from("/");
                    last = disk.look(&here)?;
                }
                for name in names(&target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
            Ok(entry) => (here, last) = (next, entry),
            Err(error) if is_missing(&error) => return Ok(Way { links, location: missing(&rest)? }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folder = found(disk, &here)?.filter(|_| last.own);
                return Ok(Way { links, location: Location::Forbidden(folder) });
            }
            Err(error) => return Err(error),
        }
    }
    let location = match found(disk, &here)? {
        Some(found) => Location::Found(found),
        None => Location::Missing(here),
    };
    Ok(Way { links, location })
}

/// Where `path` leads.
pub fn locate(disk: &dyn Disk, path: &Path) -> io::Result<Location> {
    Ok(way(disk, path)?.location)
}

/// The links on the way along a path.
pub fn links_on_the_way(disk: &dyn Disk, path: &Path) -> Vec<PathBuf> {
    way(disk, path).map(|way| way.links).unwrap_or_default()
}

/// Whether the last component is itself a link.
pub fn is_link(disk: &dyn Disk, path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let folder = path.parent().unwrap_or(path);
    match locate(disk, folder) {
        Ok(Location::Found(folder)) => {
            disk.look(&folder.path.join(name)).is_ok_and(|entry| entry.kind == Kind::Link)
        }
        _ => false,
    }
}

/// What stands at a path that has no links; `None` where it has gone, or is a link.
pub fn found(disk: &dyn Disk, path: &Path) -> io::Result<Option<Found>> {
    match disk.look(path) {
        Ok(entry) if entry.kind == Kind::Link => Ok(None),
        Ok(entry) => {
            let path = spelled(disk, path)?;
            Ok(Some(Found { path, kind: entry.kind, identity: entry.identity, links: entry.links }))
        }
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error says that there is nothing.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// An existing path without links as the kernel will name it: the disk's spelling, by the shorter of two mounts.
fn spelled(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let path = disk.spelling(path)?;
    let Ok(rest) = path.strip_prefix(DATA) else { return Ok(path) };
    let short = Path::new("/").join(rest);
    // Only what a firmlink leads to is there under both names.
    let identity = |path: &Path| disk.look(path).map(|entry| entry.identity).ok();
    if rest.as_os_str().is_empty() || identity(&short) != identity(&path) { Ok(path) } else { Ok(short) }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let named = |part: Component| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}
