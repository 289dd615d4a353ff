//! What a disk is asked about paths.
//!
//! All that it tells may be the work of an earlier run, and may change between two questions: an answer is a path free of
//! links and which file was found there, so that whoever acts on it can look again and compare.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// More links than this in one path lead in a circle, to the kernel too.
pub const MAX_LINKS: usize = 40;

/// What kind of thing a path names, as far as a rule cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A link itself.
    Link,
    /// Anything else.
    File,
}

/// Which file something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The file system's number.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
}

/// What stands at a path, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Folder, link or something else.
    pub kind: Kind,
    /// Which file it is.
    pub identity: FileIdentity,
    /// How many names it has.
    pub links: u64,
    /// Whether the caller owns it.
    pub own: bool,
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path without links, as the disk spells it.
    pub path: PathBuf,
    /// What it is. Never a link, unless the link itself was asked for.
    pub kind: Kind,
    /// Which file it is.
    pub identity: FileIdentity,
    /// How many names it has.
    pub links: u64,
}

/// The answer to "what is there".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Something.
    Found(Found),
    /// Nothing; this is where it would be.
    Missing(PathBuf),
    /// The caller may not look.
    Forbidden,
}

impl Location {
    /// Where it is, or would be.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            Location::Found(found) => Some(&found.path),
            Location::Missing(path) => Some(path),
            Location::Forbidden => None,
        }
    }
}

/// What a walk found, looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundAgain {
    /// Not a link.
    Found(Found),
    /// A link, and its own path.
    Link(PathBuf),
    /// It has gone since.
    Gone,
    /// The caller may not look.
    Forbidden,
}

/// The way along a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The links that it passes through, by their own paths without links.
    pub links: Vec<PathBuf>,
    /// Where it leads, without any; `None` where that cannot be told.
    pub end: Option<PathBuf>,
}

/// What was found at a path, with the folder that holds its last component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What is there.
    pub location: Location,
    /// Whether the last component is a link, which led there.
    pub link: bool,
    /// The folder that holds the last component.
    pub holder: HolderFolder,
}

/// The folder that holds the last component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderFolder {
    /// There is none.
    Missing,
    /// The one that the path says: no link leads there.
    Straight,
    /// Another one, and its path without links.
    At(PathBuf),
}

/// Links in a circle lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its symlinks lead in a circle")]
pub struct LinksInCircles;

impl From<LinksInCircles> for io::Error {
    fn from(error: LinksInCircles) -> io::Error {
        io::Error::other(error)
    }
}

/// Whether an error says that links lead in a circle.
#[must_use]
pub fn leads_in_circles(error: &io::Error) -> bool {
    const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };
    error.raw_os_error() == Some(ELOOP) || error.get_ref().is_some_and(|inner| inner.is::<LinksInCircles>())
}

/// Whether an error says that there is nothing.
#[must_use]
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// A disk. Paths are absolute. Errors are the system's; a name that is not there is `NotFound` or `NotADirectory`.
///
/// The first few questions are about one name each, and the others are answered by them, name by name. A system that can
/// answer these in one call does.
pub trait Disk {
    /// What stands at `path`, which is not followed if it is a link.
    ///
    /// # Errors
    /// The system's.
    fn look(&self, path: &Path) -> io::Result<DiskEntry>;
    /// What a link says.
    ///
    /// # Errors
    /// The system's.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The names in a folder, without `.` and `..`.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// Whether the caller may make names in a folder, or give itself the right to.
    fn may_write(&self, folder: &Path) -> bool;

    /// Whether a link is one by which a system has one of its own folders in another. Whoever can replace it needs no link.
    fn is_system_link(&self, _link: &Path) -> bool {
        false
    }

    /// An existing path without links as the disk itself spells it. On a volume that takes `A` for `a`, rules have to name the
    /// one that the kernel compares with.
    ///
    /// # Errors
    /// The system's.
    fn spelling(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// Where `path` leads. `..` is physical: it leads up from where a link led.
    ///
    /// # Errors
    /// The system's, and [`LinksInCircles`].
    fn locate(&self, path: &Path) -> io::Result<Location> {
        follow(self, path).map(|(_, end)| end.into())
    }

    /// The links that `path` passes through, and where it leads.
    ///
    /// # Errors
    /// The system's, and [`LinksInCircles`].
    fn way(&self, path: &Path) -> io::Result<Way> {
        let (links, end) = follow(self, path)?;
        Ok(Way { links, end: Location::from(end).place().map(Path::to_path_buf) })
    }

    /// The links that `path` passes through, as far as it can be followed.
    fn links_on_the_way(&self, path: &Path) -> Vec<PathBuf> {
        self.way(path).map(|way| way.links).unwrap_or_default()
    }

    /// The folder of the caller's own on the way to `path` that the caller may not pass; `None` if it is somebody else's. A command
    /// is the same user, and can give itself the permission that the caller has not.
    ///
    /// # Errors
    /// The system's.
    fn shut_folder(&self, path: &Path) -> io::Result<Option<Found>> {
        match follow(self, path)?.1 {
            End::Shut { folder, own: true } => self.plain(&folder),
            _ => Ok(None),
        }
    }

    /// Whether the last component of `path` is itself a link.
    fn is_link(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        match self.locate(path.parent().unwrap_or(path)) {
            Ok(Location::Found(folder)) => {
                self.look(&folder.path.join(name)).is_ok_and(|entry| entry.kind == Kind::Link)
            }
            _ => false,
        }
    }

    /// What stands at a path that is known to be free of links; `None` where it has gone since, or is a link.
    ///
    /// # Errors
    /// The system's.
    fn plain(&self, path: &Path) -> io::Result<Option<Found>> {
        match self.look(path) {
            Ok(entry) if entry.kind == Kind::Link => Ok(None),
            Ok(entry) => {
                let path = self.spelling(path)?;
                Ok(Some(Found { path, kind: entry.kind, identity: entry.identity, links: entry.links }))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks at a path and at the folder that holds it.
    ///
    /// # Errors
    /// The system's.
    fn lookup(&self, path: &Path) -> io::Result<Lookup> {
        let parent = path.parent().unwrap_or(path);
        let folder = match self.locate(parent)? {
            Location::Found(folder) => Some(folder.path),
            _ => None,
        };
        let (links, end) = follow(self, path)?;
        let own = folder.as_ref().and_then(|folder| Some(folder.join(path.file_name()?)));
        let link = own.is_some_and(|own| links.contains(&own));
        let holder = match folder {
            None => HolderFolder::Missing,
            Some(folder) if folder == parent => HolderFolder::Straight,
            Some(folder) => HolderFolder::At(folder),
        };
        Ok(Lookup { location: end.into(), link, holder })
    }

    /// Looks at a path that a walk below `prefix`, which had no links, found; it followed no links: neither does this. A folder
    /// that was swapped for a link since then leads nowhere.
    ///
    /// # Errors
    /// The system's.
    fn below(&self, _prefix: &Path, path: &Path) -> io::Result<FoundAgain> {
        let (links, end) = match follow(self, path.parent().unwrap_or(path)) {
            Err(error) if leads_in_circles(&error) => return Ok(FoundAgain::Gone),
            followed => followed?,
        };
        match end {
            _ if !links.is_empty() => Ok(FoundAgain::Gone),
            End::Missing(_) => Ok(FoundAgain::Gone),
            End::Shut { .. } => Ok(FoundAgain::Forbidden),
            End::Found(_) => match self.look(path) {
                Ok(entry) if entry.kind == Kind::Link => Ok(FoundAgain::Link(path.to_path_buf())),
                Ok(_) => Ok(self.plain(path)?.map_or(FoundAgain::Gone, FoundAgain::Found)),
                Err(error) if is_missing(&error) => Ok(FoundAgain::Gone),
                Err(error) if is_forbidden(&error) => Ok(FoundAgain::Forbidden),
                Err(error) => Err(error),
            },
        }
    }
}

/// Where a path ends.
enum End {
    Found(Found),
    Missing(PathBuf),
    /// In a folder that the caller may not pass.
    Shut {
        folder: PathBuf,
        own: bool,
    },
}

impl From<End> for Location {
    fn from(end: End) -> Location {
        match end {
            End::Found(found) => Location::Found(found),
            End::Missing(path) => Location::Missing(path),
            End::Shut { .. } => Location::Forbidden,
        }
    }
}

/// Goes along a path, name by name. Returns the links on the way and where it leads.
fn follow<D: Disk + ?Sized>(disk: &D, path: &Path) -> io::Result<(Vec<PathBuf>, End)> {
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
            let mut path = disk.spelling(&here)?.join(&name);
            for name in rest {
                match name.to_str() {
                    Some("..") => _ = path.pop(),
                    _ => path.push(name),
                }
            }
            Ok::<_, io::Error>(End::Missing(path))
        };
        if last.kind != Kind::Folder {
            return Ok((links, missing(&rest)?));
        }
        match disk.look(&next) {
            Ok(entry) if entry.kind == Kind::Link => {
                if links.len() == MAX_LINKS {
                    return Err(LinksInCircles.into());
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
            Err(error) if is_missing(&error) => return Ok((links, missing(&rest)?)),
            Err(error) if is_forbidden(&error) => {
                return Ok((links, End::Shut { folder: here, own: last.own }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((links, disk.plain(&here)?.map_or(End::Missing(here), End::Found)))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let named = |part: Component| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}
