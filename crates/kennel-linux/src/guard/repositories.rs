//! The files that git in a worktree writes in the folder of the repository it belongs to.
//!
//! That folder is read-only inside: what git on the host obeys there could otherwise be made under a new name. But a few
//! files are written in it by git's way, a lock that is made, filled and moved over the file
//! ([`kennel_resolve::git::shared`]). The guard makes these calls itself, in the host's folder, which it holds: nothing is
//! let go on, so there is no race to win, and whatever a path leads to by then, only these names are made, as plain
//! files. The host's git takes the same locks.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;

use kennel_init::plan::Identity;
use kennel_policy::outcome::{Violation, Violations};
use kennel_resolve::git::CONFIGURATION;
use kennel_resolve::git::shared::{Change, FILES, SharedFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::caller::{Caller, PATH_MAX};
use super::calls::{Call, Flags, ModeOf, PathArgument};
use super::listener::{Answer, Listener, Notification};
use super::walk::{self, Spot, Start};
use super::{as_root, rewrite};
use crate::resolve::guard_rules::Anchor;
use crate::seccomp::power::SPECIAL;

/// The repositories, and which files inside were made by calls of the sandbox.
#[derive(Debug)]
pub struct SharedRepositories {
    repositories: Vec<Repository>,
    first: Box<[u8; PATH_MAX]>,
    second: Box<[u8; PATH_MAX]>,
}

#[derive(Debug)]
struct Repository {
    folder: OwnedFd,
    path: PathBuf,
    identity: Identity,
    /// Locks and new files that stand there, made for the sandbox. What the host has made is not the sandbox's to move.
    made: HashMap<&'static str, Identity>,
}

impl SharedRepositories {
    /// Takes hold of the folders.
    ///
    /// # Errors
    /// When one is not the folder that was resolved any more.
    pub fn new(anchors: &[Anchor]) -> Result<SharedRepositories, (PathBuf, io::Error)> {
        let hold = |Anchor { path, identity }: &Anchor| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())?;
            let found = walk::identity(folder.as_fd())?;
            let repository =
                Repository { folder, path: path.clone(), identity: *identity, made: HashMap::new() };
            if found == *identity { Ok(repository) } else { Err(Errno::STALE) }
        };
        let held = anchors
            .iter()
            .map(|anchor| hold(anchor).map_err(|error: Errno| (anchor.path.clone(), error.into())));
        let buffer = || Box::new([0; PATH_MAX]);
        Ok(SharedRepositories {
            repositories: held.collect::<Result<_, _>>()?,
            first: buffer(),
            second: buffer(),
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Makes the call if it is one of git's on these files. `None` for all others: the judge decides, and the folder is
    /// read-only.
    pub fn perform(
        &mut self,
        listener: &Listener,
        record: &Mutex<Violations>,
        notification: &Notification,
        call: Call,
    ) -> Option<Answer> {
        if self.repositories.is_empty() {
            return None;
        }
        let caller = Caller::new(notification.pid);
        let done = match call {
            Call::Open { path, flags: Flags::Here(flags) } => {
                self.open(listener, notification.id, caller, path, flags)
            }
            Call::Unlink(path) => self.unlink(listener, notification.id, caller, path),
            Call::Rename { from, to, flags: 0 } => {
                self.rename(listener, record, notification.id, caller, (from, to))
            }
            Call::Chmod { of: ModeOf::Path { path, .. }, mode } => {
                self.chmod(listener, notification.id, caller, path, mode)
            }
            _ => Ok(None),
        };
        // What keeps the guard from looking keeps the caller from it, too.
        done.unwrap_or_else(|error| Some(Answer::Refuse(error.raw_os_error())))
    }

    /// Removes the locks that the sandbox has left: the host's git would wait for them.
    pub fn remove_locks(&mut self) {
        for repository in &mut self.repositories {
            for (name, identity) in std::mem::take(&mut repository.made) {
                if repository
                    .standing(name)
                    .is_ok_and(|standing| standing == Some((identity, FileType::RegularFile)))
                {
                    let _ = repository.remove(name);
                }
            }
        }
    }

    fn open(
        &mut self,
        listener: &Listener,
        id: u64,
        caller: Caller,
        path: PathArgument,
        flags: i32,
    ) -> Result<Option<Answer>, Errno> {
        const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
        let Some(spot) = spot(caller, path, &mut self.first, |name| new_file(name).is_some())? else {
            return Ok(None);
        };
        let Some((repository, file)) = self.at(&spot).zip(new_file(&spot.name)) else { return Ok(None) };
        if flags & NEW != NEW || !may_write(caller, repository) {
            return Ok(None);
        }
        let name = if spot.name == file.lock.as_bytes() { file.lock } else { file.new };
        // Both are of one writer, who has the lock.
        if name != file.lock && !repository.has_made(file.lock)? {
            return Ok(Some(Answer::Refuse(libc::EROFS)));
        }
        // Otherwise another thread, to whom the number was given, was looked into.
        if !listener.still_waits(id) {
            return Ok(Some(Answer::Continue));
        }
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let made = rustix::fs::openat(&repository.folder, name, new, mode)?;
        repository.made.insert(name, walk::identity(made.as_fd())?);
        match listener.hand_over(id, &made, flags & libc::O_CLOEXEC != 0) {
            Ok(number) => Ok(Some(Answer::Returns(number))),
            Err(error) => {
                repository.made.remove(name);
                repository.remove(name)?;
                Err(error)
            }
        }
    }

    fn unlink(
        &mut self,
        listener: &Listener,
        id: u64,
        caller: Caller,
        path: PathArgument,
    ) -> Result<Option<Answer>, Errno> {
        let ours = |name: &[u8]| {
            new_file(name).is_some()
                || old_file(name).is_some_and(|file| file.change == Change::ReplacedOrRemoved)
        };
        let Some(spot) = spot(caller, path, &mut self.first, ours)? else { return Ok(None) };
        let Some(repository) = self.at(&spot).filter(|repository| may_write(caller, repository)) else {
            return Ok(None);
        };
        let name = match (new_file(&spot.name), old_file(&spot.name)) {
            (Some(file), _) => {
                let name = if spot.name == file.lock.as_bytes() { file.lock } else { file.new };
                if !repository.has_made(name)? {
                    return Ok(None);
                }
                name
            }
            (None, Some(file)) if repository.has_made(file.lock)? => file.name,
            _ => return Ok(None),
        };
        if !listener.still_waits(id) {
            return Ok(Some(Answer::Continue));
        }
        repository.made.remove(name);
        repository.remove(name)?;
        Ok(Some(Answer::Done))
    }

    fn rename(
        &mut self,
        listener: &Listener,
        record: &Mutex<Violations>,
        id: u64,
        caller: Caller,
        (from, to): (PathArgument, PathArgument),
    ) -> Result<Option<Answer>, Errno> {
        let Some(old) = spot(caller, from, &mut self.first, |name| new_file(name).is_some())? else {
            return Ok(None);
        };
        let Some(new) = spot(caller, to, &mut self.second, |name| old_file(name).is_some())? else {
            return Ok(None);
        };
        let Some(file) = old_file(&new.name).filter(|file| file.new.as_bytes() == old.name) else {
            return Ok(None);
        };
        let target = walk::identity(new.folder.as_fd())?;
        let Some(repository) = self.at(&old).filter(|repository| repository.identity == target) else {
            return Ok(None);
        };
        if !may_write(caller, repository)
            || !repository.has_made(file.lock)?
            || !repository.has_made(file.new)?
        {
            return Ok(None);
        }
        // A link that leads elsewhere is the host's own affair.
        if repository.standing(file.name)?.is_some_and(|(_, kind)| kind != FileType::RegularFile) {
            return Ok(None);
        }
        if !listener.still_waits(id) {
            return Ok(Some(Answer::Continue));
        }
        if file.change == Change::None {
            if rewrite::changes_nothing(&old, &new)? {
                repository.made.remove(file.new);
                repository.remove(file.new)?;
                return Ok(Some(Answer::Done));
            }
            let (path, rule) = (repository.path.join(file.name), CONFIGURATION.to_owned());
            super::add(record, Violation::Refused { call: "rename", path: Some(path), rule, times: 1 });
            return Ok(Some(Answer::Refuse(libc::EROFS)));
        }
        rustix::fs::renameat(&repository.folder, file.new, &repository.folder, file.name)?;
        repository.made.remove(file.new);
        Ok(Some(Answer::Done))
    }

    /// The mode of a lock. All others' is changed by the kernel, but for what is never to be set.
    fn chmod(
        &mut self,
        listener: &Listener,
        id: u64,
        caller: Caller,
        path: PathArgument,
        mode: u32,
    ) -> Result<Option<Answer>, Errno> {
        let others = Ok((mode & SPECIAL == 0).then_some(Answer::Continue));
        let Some(spot) = spot(caller, path, &mut self.first, |name| new_file(name).is_some())? else {
            return others;
        };
        let Some((repository, file)) = self.at(&spot).zip(new_file(&spot.name)) else { return others };
        let name = if spot.name == file.lock.as_bytes() { file.lock } else { file.new };
        if !may_write(caller, repository) || !repository.has_made(name)? || !listener.still_waits(id) {
            return others;
        }
        let mode = Mode::from_raw_mode(mode & 0o666);
        rustix::fs::chmodat(&repository.folder, name, mode, AtFlags::empty())?;
        Ok(Some(Answer::Done))
    }

    fn at(&mut self, spot: &Spot) -> Option<&mut Repository> {
        let identity = walk::identity(spot.folder.as_fd()).ok()?;
        self.repositories.iter_mut().find(|repository| repository.identity == identity)
    }
}

impl Repository {
    /// Which file stands at a name, and of what kind.
    fn standing(&self, name: &str) -> Result<Option<(Identity, FileType)>, Errno> {
        match walk::open(&self.folder, name.as_bytes()) {
            Ok(file) => Ok(Some((walk::identity(file.as_fd())?, walk::kind(file.as_fd())?))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether what stands at a name was made for the sandbox, and is still the same.
    fn has_made(&self, name: &'static str) -> Result<bool, Errno> {
        let Some(made) = self.made.get(name) else { return Ok(false) };
        Ok(self.standing(name)? == Some((*made, FileType::RegularFile)))
    }

    fn remove(&self, name: &str) -> Result<(), Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())
    }
}

/// The file of which this is the lock, or the new one.
fn new_file(name: &[u8]) -> Option<&'static SharedFile> {
    FILES.iter().find(|file| name == file.lock.as_bytes() || name == file.new.as_bytes())
}

fn old_file(name: &[u8]) -> Option<&'static SharedFile> {
    FILES.iter().find(|file| name == file.name.as_bytes())
}

/// Where a path leads if its last component is of interest.
fn spot(
    caller: Caller,
    path: PathArgument,
    buffer: &mut [u8; PATH_MAX],
    of_interest: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<Spot>, Errno> {
    // What cannot be read here, the judge and the kernel answer.
    let Ok(text) = caller.path(path.address, buffer) else { return Ok(None) };
    if !walk::split(text).is_some_and(|(_, name)| of_interest(name)) {
        return Ok(None);
    }
    Ok(walk::spot(caller, Start { folder: path.folder, scoped: false }, text, false).ok())
}

/// With several users inside, only the one whom the repository belongs to.
fn may_write(caller: Caller, repository: &Repository) -> bool {
    as_root::may_change(caller, repository.folder.as_fd())
}
