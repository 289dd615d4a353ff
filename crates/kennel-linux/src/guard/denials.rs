//! Which calls fail because of the sandbox, and which rule makes them fail.
//!
//! A filter sees no results, and a call that goes on is out of sight. So the guard looks, while the caller waits, at what the
//! kernel goes by a moment later: the mount that the path leads to in the caller's own view, and what stands there. What it
//! notes changes nothing for the caller, who can only make it note other paths by changing its memory meanwhile. The cause is
//! read from the points of the plan, at the path that the look arrived at. Whether the host would have let the call through
//! is found out when nothing inside is left ([`super::on_host`]): the answer must not depend on it, nor the time that it takes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kennel_policy::outcome::Tried;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;

use super::caller::{Caller, PATH_MAX};
use super::calls::{Flags, PathArgument};
use super::listener::{Listener, Notification};
use super::path_calls::{PathCall, Want, opens_to_write, path_calls};
use super::walk::{self, Spot, Start};
use crate::resolve::{Point, State, Zone};

/// As many different ones are kept; a sandbox can make as many as it likes.
const MAX: usize = 256;
/// So many components that are not there are taken off a path to find the folder that is.
const MAX_MISSING: usize = 16;

/// Something that failed because of the sandbox, if the host would let it through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// What was tried.
    pub tried: Tried,
    /// The path inside, without links.
    pub path: PathBuf,
    /// The point that decides there; `None` where the host shows, as it does without any rule.
    pub point: Option<usize>,
    /// The name that the program gave itself.
    pub program: Option<String>,
    /// How often.
    pub times: u64,
}

/// All that was noted, the latest last.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Each with how often.
    pub list: Vec<Suspect>,
    /// How many more tries there were.
    pub more: u64,
}

impl Suspects {
    fn add(&mut self, new: Suspect) {
        let same = |old: &Suspect| old.tried == new.tried && old.path == new.path;
        if let Some(at) = self.list.iter().position(same) {
            // The latest is the likeliest cause.
            let mut old = self.list.remove(at);
            old.times += 1;
            self.list.push(old);
        } else if self.list.len() < MAX {
            self.list.push(new);
        } else {
            self.more += 1;
        }
    }
}

/// What holds where, by the points of the plan.
#[derive(Debug)]
pub struct Layout {
    points: Arc<[Point]>,
    by_path: HashMap<PathBuf, usize>,
}

impl Layout {
    /// That of these points.
    #[must_use]
    pub fn new(points: Arc<[Point]>) -> Layout {
        let by_path = points.iter().enumerate().map(|(index, point)| (point.path.clone(), index)).collect();
        Layout { points, by_path }
    }

    /// The point that decides at a path.
    #[must_use]
    pub fn nearest(&self, path: &Path) -> Option<usize> {
        path.ancestors().find_map(|above| self.by_path.get(above).copied())
    }

    /// A point.
    #[must_use]
    pub fn point(&self, index: usize) -> Option<&Point> {
        self.points.get(index)
    }

    /// Whether something around a path, further out than the point that decides there, can be written.
    #[must_use]
    pub fn is_kept_in_writable(&self, path: &Path) -> bool {
        let mut above = path.ancestors().filter_map(|above| self.by_path.get(above));
        above.next();
        above.next().and_then(|index| self.point(*index)).is_some_and(|point| is_writable(&point.state))
    }

    fn state(&self, point: Option<usize>) -> Option<&State> {
        point.and_then(|index| self.point(index)).map(|point| &point.state)
    }
}

/// Whether what stands there takes what is written.
fn is_writable(state: &State) -> bool {
    match state {
        State::Host { write, .. } => *write,
        State::Layer(_) | State::Cache { .. } | State::Device(_) => true,
        State::Fresh(zone) => matches!(zone, Zone::Tmp | Zone::Run | Zone::Home | Zone::Memory { .. }),
        State::Hidden { .. } | State::Frozen { .. } | State::Masked { .. } => false,
    }
}

/// Looks at calls; keeps the buffer for it.
pub struct CallWatch {
    sight: Sight,
    suspects: Arc<Mutex<Suspects>>,
    text: Box<[u8; PATH_MAX]>,
}

/// What a look goes by.
struct Sight {
    layout: Arc<Layout>,
    every_call: bool,
    /// Whether the sandbox has mounts of its own; otherwise Landlock alone keeps the rules.
    own_mounts: bool,
}

impl CallWatch {
    /// What looks at the calls that are to be explained. Without mounts of its own, Landlock alone keeps a sandbox's rules.
    #[must_use]
    pub fn new(
        every_call: bool,
        layout: Arc<Layout>,
        own_mounts: bool,
        suspects: Arc<Mutex<Suspects>>,
    ) -> CallWatch {
        let sight = Sight { layout, every_call, own_mounts };
        CallWatch { sight, suspects, text: Box::new([0; PATH_MAX]) }
    }

    /// Looks at a call that will go on, and notes what it will fail at.
    pub fn look(&mut self, listener: &Listener, notification: &Notification) {
        for call in path_calls(notification).into_iter().flatten() {
            if let Some((tried, path, point)) = self.suspect(Caller::new(notification.pid), call) {
                // A thread that is gone may have given its number to another, whose paths were looked at instead.
                if !listener.still_waits(notification.id) {
                    return;
                }
                let program = program(notification.pid);
                let new = Suspect { tried, path, point, program, times: 1 };
                self.suspects.lock().unwrap_or_else(PoisonError::into_inner).add(new);
            }
        }
    }

    fn suspect(&mut self, caller: Caller, call: PathCall) -> Option<(Tried, PathBuf, Option<usize>)> {
        // utimensat and others take no path at all for a descriptor.
        if call.path.address == 0 || (!self.sight.every_call && !call.want.changes()) {
            return None;
        }
        let want = match call.want {
            Want::Open(Flags::InMemory { address, .. }) => {
                let mut flags = [0; 8];
                caller.memory(address, &mut flags).ok()?;
                Want::Open(Flags::Here(i32::from_ne_bytes([flags[0], flags[1], flags[2], flags[3]])))
            }
            want => want,
        };
        let text = caller.path(call.path.address, &mut self.text).ok().filter(|text| !text.is_empty())?;
        self.sight.at(caller, PathCall { want, ..call }, text)
    }
}

impl Sight {
    fn at(&self, caller: Caller, call: PathCall, text: &[u8]) -> Option<(Tried, PathBuf, Option<usize>)> {
        if !self.every_call && self.surely_writable(caller, call.path, text) {
            return None;
        }
        let start = Start { folder: call.path.folder, scoped: false };
        let spot = match walk::spot(caller, start, text, call.follow) {
            Ok(spot) => spot,
            Err(Errno::NOENT | Errno::ACCESS) => return self.beyond(caller, call, text),
            Err(_) => return None,
        };
        let path = place_of(&spot.folder)?.join(OsStr::from_bytes(&spot.name));
        let point = self.layout.nearest(&path);
        let tried = match walk::open(&spot.folder, &spot.name) {
            Ok(target) => self.existing(call.want, &spot, &target, point),
            Err(Errno::NOENT) => self.missing(call.want, &spot, point),
            // A folder in which nothing is to be found: that of what is hidden.
            Err(Errno::ACCESS) => self.is_hidden(point).then(|| called(call.want)),
            Err(_) => None,
        }?;
        Some((tried, path, point))
    }

    /// Whether a path leads, by its text alone, to where writing is allowed. Almost all do that are written at all. One that
    /// goes through a link elsewhere is missed; whoever wants every call explained has each path followed.
    fn surely_writable(&self, caller: Caller, path: PathArgument, text: &[u8]) -> bool {
        let text = Path::new(OsStr::from_bytes(text));
        if text.components().any(|component| component == Component::ParentDir) {
            return false;
        }
        let whole = match text.has_root() {
            true => text.to_path_buf(),
            false => match caller.place(path.folder) {
                Ok(folder) => PathBuf::from(std::ffi::OsString::from_vec(folder)).join(text),
                Err(_) => return false,
            },
        };
        self.layout.state(self.layout.nearest(&whole)).is_some_and(is_writable)
    }

    fn is_hidden(&self, point: Option<usize>) -> bool {
        matches!(self.layout.state(point), Some(State::Hidden { .. }))
            // Where Landlock alone keeps the rules, nothing of what is not listed can be opened.
            || (!self.own_mounts && matches!(self.layout.state(point), Some(State::Fresh(_))))
    }

    /// Whether nothing can be written on the mount that this is on.
    fn is_kept(&self, on: &OwnedFd, point: Option<usize>) -> bool {
        let read_only =
            rustix::fs::fstatvfs(on).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
        let by_landlock = || !self.layout.state(point).is_some_and(is_writable);
        read_only || (!self.own_mounts && by_landlock())
    }

    /// What fails at something that is there.
    fn existing(&self, want: Want, spot: &Spot, target: &OwnedFd, point: Option<usize>) -> Option<Tried> {
        let kind = walk::kind(target.as_fd()).ok()?;
        let is_folder = kind == FileType::Directory;
        // Devices, pipes and sockets can be written wherever they are.
        let keeps = is_folder || kind == FileType::RegularFile;
        let hidden = self.is_hidden(point);
        let kept = || hidden || self.is_kept(target, point);
        match want {
            Want::Open(Flags::Here(flags)) if flags & libc::O_PATH != 0 => None,
            Want::Open(Flags::Here(flags))
                if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL =>
            {
                None
            }
            Want::Open(Flags::Here(flags))
                if flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) != 0 =>
            {
                (keeps && !is_folder && kept()).then_some(Tried::Write)
            }
            Want::Open(_) => hidden.then_some(Tried::Read),
            // EEXIST, whatever is around it.
            Want::Make => None,
            Want::Truncate => (keeps && kept()).then_some(Tried::Write),
            Want::Change => kept().then_some(Tried::Change),
            Want::Remove => {
                (self.is_kept(&spot.folder, point) || is_mounted(target)).then_some(Tried::Remove)
            }
            Want::Replace | Want::Take => {
                (self.is_kept(&spot.folder, point) || is_mounted(target)).then_some(Tried::Move)
            }
            Want::Run => (hidden && !is_folder).then_some(Tried::Run),
            Want::Enter => (hidden && is_folder).then_some(Tried::Read),
            Want::LookUp(wanted) if wanted & libc::W_OK != 0 => (keeps && kept()).then_some(Tried::Write),
            Want::LookUp(wanted) if wanted & libc::X_OK != 0 && !is_folder => hidden.then_some(Tried::Run),
            Want::LookUp(wanted) => (hidden && wanted != 0).then_some(Tried::Read),
        }
    }

    /// What fails at a name that is not there, in a folder that is.
    fn missing(&self, want: Want, spot: &Spot, point: Option<usize>) -> Option<Tried> {
        let makes = match want {
            Want::Open(Flags::Here(flags)) => flags & libc::O_CREAT != 0,
            Want::Make | Want::Replace => true,
            _ => false,
        };
        match makes {
            true => {
                let tried = if want == Want::Replace { Tried::Move } else { Tried::Create };
                self.is_kept(&spot.folder, point).then_some(tried)
            }
            false => self.is_absent_here(point).then(|| called(want)),
        }
    }

    /// Whether what is not there may be on the host: below what is made anew or hidden.
    fn is_absent_here(&self, point: Option<usize>) -> bool {
        match self.layout.state(point) {
            // What the kernel tells of itself is no matter of files.
            Some(State::Fresh(Zone::Proc | Zone::Sys)) => false,
            Some(State::Fresh(_) | State::Hidden { .. }) => true,
            _ => false,
        }
    }

    /// A path of which not even the folder is there, or can be entered.
    fn beyond(&self, caller: Caller, call: PathCall, text: &[u8]) -> Option<(Tried, PathBuf, Option<usize>)> {
        let start = Start { folder: call.path.folder, scoped: false };
        let (mut way, mut below) = (text, Vec::new());
        let folder = loop {
            let (above, name) = walk::split(way)?;
            below.push(OsStr::from_bytes(name));
            if below.len() > MAX_MISSING {
                return None;
            }
            if above.is_empty() {
                break caller.folder(call.path.folder).ok()?;
            }
            match walk::target(caller, start, above, true) {
                Ok(folder) => break folder,
                Err(Errno::NOENT | Errno::ACCESS) => way = above,
                Err(_) => return None,
            }
        };
        let mut path = place_of(&folder)?;
        path.extend(below.into_iter().rev());
        let point = self.layout.nearest(&path);
        self.is_absent_here(point).then(|| (called(call.want), path, point))
    }
}

/// What a call tries whose path leads nowhere.
fn called(want: Want) -> Tried {
    match want {
        Want::Open(Flags::Here(flags)) if flags & libc::O_CREAT != 0 => Tried::Create,
        Want::Open(Flags::Here(flags)) if opens_to_write(flags) => Tried::Write,
        Want::Open(_) | Want::Enter => Tried::Read,
        Want::Make => Tried::Create,
        Want::Truncate => Tried::Write,
        Want::Replace | Want::Take => Tried::Move,
        Want::Remove => Tried::Remove,
        Want::Change => Tried::Change,
        Want::Run => Tried::Run,
        Want::LookUp(_) => Tried::LookUp,
    }
}

/// Whether a mount of the sandbox's stands here, which cannot be moved nor removed.
fn is_mounted(target: &OwnedFd) -> bool {
    const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(target, c"", flags, StatxFlags::TYPE)
        .is_ok_and(|stat| stat.stx_attributes.bits() & STATX_ATTR_MOUNT_ROOT != 0)
}

/// Where something is inside, as the kernel has it.
fn place_of(folder: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let place = PathBuf::from(OsStr::from_bytes(rustix::fs::readlink(link, Vec::new()).ok()?.as_bytes()));
    place.has_root().then_some(place)
}

/// The name that a thread gave itself.
fn program(thread: u32) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(format!("/proc/{thread}/comm"), flags, Mode::empty()).ok()?;
    let mut name = [0; 64];
    let read = rustix::io::read(&file, &mut name).ok()?;
    let name = String::from_utf8_lossy(name[..read].trim_ascii_end()).into_owned();
    (!name.is_empty()).then_some(name)
}

/// Whether a call comes here only to be looked at: then it goes on, whatever the guard makes of such calls otherwise.
#[must_use]
pub fn is_only_looked_at(notification: &Notification, keeps_repositories: bool) -> bool {
    use crate::seccomp::power::{CHMOD, FCHMODAT2, SPECIAL};
    let number = libc::c_long::from(notification.data.nr);
    let arguments = notification.data.args;
    if number == libc::SYS_unlinkat {
        return arguments[2] as i32 & libc::AT_REMOVEDIR != 0 || !keeps_repositories;
    }
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_unlink {
        return !keeps_repositories;
    }
    if number == FCHMODAT2 || CHMOD.iter().any(|(call, _)| *call == number) {
        let mode = CHMOD.iter().find(|(call, _)| *call == number).map(|(_, at)| arguments[usize::from(*at)]);
        return !keeps_repositories && mode.is_some_and(|mode| mode as u32 & SPECIAL == 0);
    }
    path_calls(notification)[0].is_some() && super::calls::Call::of(notification).is_none()
}
