//! The guard's second lock: the folders that hold protected names are watched.
//!
//! A caller can change its memory between the guard's look at a path and the kernel's own, so a protected name may
//! appear all the same. Then it is taken away at once, and the sandbox ended.
//!
//! The watches are placed when the sandbox makes its first name: before, none can have appeared by its doing. Taking them
//! away costs the kernel a grace period, some milliseconds, which a command that makes nothing is spared.
//!
//! What appeared may hold something that somebody needs: a folder of the user's that was renamed, or one that the user
//! made at this very moment outside. So only what is empty or was born during the run is removed; all else is moved
//! aside, to a name beside it.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, FileType, RenameFlags, StatxFlags, inotify};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::ground::{Component, Folders, Ground, odd, open_folder};
use super::walk;

/// How a broken rule was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// What appeared was removed.
    Removed,
    /// What appeared now stands beside, under this name.
    MovedAside(OsString),
    /// It could not be mended, because of this error.
    Not(i32),
}

/// The watches.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    /// The watch on the folder of each component of each path.
    placed: Vec<Vec<Option<i32>>>,
    /// What each watch is for.
    users: HashMap<i32, Vec<Component>>,
    started: Duration,
    begun: bool,
}

impl Watch {
    /// Gets ready to watch.
    ///
    /// # Errors
    /// When the user's limit on inotify is reached.
    pub fn new(ground: &Ground) -> Result<Watch, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let placed = ground.paths().iter().map(|path| vec![None; path.rest.len()]).collect();
        Ok(Watch { inotify, placed, users: HashMap::new(), started: now(), begun: false })
    }

    /// Whether the watches have been placed.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Places the watches, as far as the folders exist. What stands at a protected path by now has yet to be mended.
    ///
    /// # Errors
    /// When the user's limit on inotify is reached, or the disk cannot be looked at.
    pub fn begin(&mut self, ground: &Ground) -> Result<(), Errno> {
        self.begun = true;
        let mut placed = Folders::default();
        for (path, guarded) in ground.paths().iter().enumerate() {
            for level in 0..guarded.rest.len() {
                let Some(watch) = placed.at(guarded, level, |folder| self.add(folder))? else { break };
                self.use_for(Component { path, level }, Some(watch));
            }
        }
        Ok(())
    }

    /// Places the watches of one path anew. Each is placed before the next component is looked up, so that nothing
    /// comes about in between unseen. Returns the folder that holds the name.
    fn place(&mut self, ground: &Ground, path: usize) -> Result<Option<OwnedFd>, Errno> {
        let guarded = &ground.paths()[path];
        let last = guarded.rest.len() - 1;
        let mut at = guarded.folder(0)?;
        for level in 0..=last {
            let watch = at.as_ref().map(|folder| self.add(folder.as_fd())).transpose()?;
            self.use_for(Component { path, level }, watch);
            if level < last {
                let name = guarded.rest[level].as_bytes();
                at = at.map(|folder| open_folder(folder.as_fd(), name)).transpose()?.flatten();
            }
        }
        Ok(at)
    }

    fn add(&self, folder: BorrowedFd) -> Result<i32, Errno> {
        let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        inotify::add_watch(&self.inotify, format!("/proc/self/fd/{}", folder.as_raw_fd()), events)
    }

    /// Notes what a watch is for. One that nobody uses any more is taken away: a sandbox that moves folders about
    /// leaves no trail of them.
    fn use_for(&mut self, component: Component, watch: Option<i32>) {
        let slot = &mut self.placed[component.path][component.level];
        let old = std::mem::replace(slot, watch);
        if old == watch {
            return;
        }
        if let Some((old, users)) = old.and_then(|old| Some((old, self.users.get_mut(&old)?))) {
            users.retain(|user| *user != component);
            if users.is_empty() {
                self.users.remove(&old);
                let _ = inotify::remove_watch(&self.inotify, old);
            }
        }
        if let Some(watch) = watch {
            self.users.entry(watch).or_default().push(component);
        }
    }

    /// The paths that something happened to.
    pub fn happened(&mut self, ground: &Ground) -> BTreeSet<usize> {
        // A sandbox that makes files as fast as they can be read about must not keep the guard here.
        const MOST_EVENTS: usize = 4096;
        let mut paths = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        for _ in 0..MOST_EVENTS {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                paths.extend(0..ground.paths().len());
                continue;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                // The folder is gone. What stands in its place is found by the watch above it.
                for user in self.users.remove(&event.wd()).unwrap_or_default() {
                    self.placed[user.path][user.level] = None;
                }
                continue;
            }
            let name = event.file_name().map_or(b"".as_slice(), CStr::to_bytes);
            for user in self.users.get(&event.wd()).into_iter().flatten() {
                let wanted = ground.paths()[user.path].rest[user.level].as_bytes();
                if name.eq_ignore_ascii_case(wanted) || odd(name) {
                    paths.insert(user.path);
                }
            }
        }
        paths
    }

    /// Looks at a path, and mends it if it is broken. `None` when all is well.
    pub fn mend(&mut self, ground: &Ground, path: usize) -> Option<Mended> {
        let guarded = &ground.paths()[path];
        let holder = match self.place(ground, path) {
            Ok(holder) => holder,
            Err(error) => return Some(Mended::Not(error.raw_os_error())),
        };
        // Without a folder to hold it there is no such name.
        let holder = holder?;
        self.clear(holder.as_fd(), guarded.name())
            .unwrap_or_else(|error| Some(Mended::Not(error.raw_os_error())))
    }

    /// Clears a name.
    fn clear(&self, folder: BorrowedFd, name: &[u8]) -> Result<Option<Mended>, Errno> {
        let name = walk::c_string(name)?;
        let mut mended = None;
        // Whoever races may do it again before the sandbox is dead.
        for _ in 0..100 {
            match self.clear_once(folder, &name) {
                Ok(None) => return Ok(mended),
                Ok(done) => mended = done,
                // Somebody was quicker.
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::BUSY)
    }

    fn clear_once(&self, folder: BorrowedFd, name: &CStr) -> Result<Option<Mended>, Errno> {
        let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::NLINK | StatxFlags::BTIME;
        let stat = match rustix::fs::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let removed = match FileType::from_raw_mode(stat.stx_mode.into()) {
            // Succeeds only on an empty one.
            FileType::Directory => rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR),
            FileType::RegularFile
                if stat.stx_size > 0 && stat.stx_nlink == 1 && !is_born_since(&stat, self.started) =>
            {
                Err(Errno::NOTEMPTY)
            }
            _ => rustix::fs::unlinkat(folder, name, AtFlags::empty()),
        };
        match removed {
            Ok(()) => Ok(Some(Mended::Removed)),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                move_aside(folder, name).map(|to| Some(Mended::MovedAside(to)))
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Whether a file was made since then. A file system that does not tell counts as one that says no.
pub(super) fn is_born_since(stat: &rustix::fs::Statx, started: Duration) -> bool {
    // The kernel stamps files with the time of its last tick.
    const TICK: Duration = Duration::from_millis(20);
    let told = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = Duration::new(u64::try_from(stat.stx_btime.tv_sec).unwrap_or(0), stat.stx_btime.tv_nsec);
    told && born + TICK >= started
}

/// The time by which the kernel stamps files.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Renames to the first free name beside.
fn move_aside(folder: BorrowedFd, name: &CStr) -> Result<OsString, Errno> {
    for number in 1..1000 {
        let mut aside = name.to_bytes().to_vec();
        // Within the longest name that file systems take.
        aside.truncate(200);
        aside.extend_from_slice(format!(".refused-by-kennel-{number}").as_bytes());
        let aside = CString::new(aside).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat_with(folder, name, folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(OsString::from_vec(aside.into_bytes())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

impl Mended {
    /// The system's error, where it could not be mended.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        match self {
            Mended::Not(errno) => Some(io::Error::from_raw_os_error(*errno)),
            _ => None,
        }
    }
}
