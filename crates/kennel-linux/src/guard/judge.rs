//! Whether a waiting call may go on.
//!
//! The last component of its path decides for almost all calls; only what bears a protected name, or may be a symlink
//! to one, is resolved.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::as_root;
use super::caller::{Caller, PATH_MAX, Unreadable};
use super::calls::{Address, Call, Flags, PathArgument};
use super::listener::{Listener, Notification};
use super::obeyed::Obeyed;
use super::protected_paths::{Guarded, How, ProtectedPaths};
use super::walk::{self, Spot, Start};
use super::{locks, modes, rewrite};
use crate::resolve::guard_rules::Protected;

/// The guard's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// The call goes on.
    Continue,
    /// It is done already.
    Done,
    /// It fails.
    Refuse {
        /// With this.
        errno: i32,
        /// Because of this protected path; `None` when the caller could not be looked into.
        protected: Option<Cow<'a, Protected>>,
    },
}

impl Ruling<'_> {
    pub(super) fn refuse(errno: i32) -> Self {
        Ruling::Refuse { errno, protected: None }
    }
}

impl From<Unreadable> for Ruling<'_> {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Fault => Ruling::refuse(libc::EFAULT),
            Unreadable::Denied => Ruling::refuse(libc::EACCES),
            Unreadable::TooLong => Ruling::refuse(libc::ENAMETOOLONG),
            Unreadable::Gone => Ruling::Continue,
        }
    }
}

impl From<Errno> for Ruling<'_> {
    /// What the caller will be told by the kernel as well, it may hear from there. All else keeps the guard from
    /// judging, and refuses.
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::EXIST | Errno::NAMETOOLONG => {
                Ruling::Continue
            }
            walk::TOO_FAR => Ruling::refuse(libc::ELOOP),
            _ => Ruling::refuse(libc::EACCES),
        }
    }
}

/// The paths that calls are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// Where nothing is to be made.
    pub absent: &'a ProtectedPaths,
    /// What mounts hide or keep. Where the mount is gone for the moment, because the host has replaced what was
    /// below it, nothing is to be made either, nor taken away.
    pub standing: &'a ProtectedPaths,
    /// Files over which something is moved that may be the same.
    pub rewritten: &'a ProtectedPaths,
    /// Names that are not to be made anywhere.
    pub obeyed: Option<&'a Obeyed>,
}

impl<'a> Grounds<'a> {
    fn are_empty(&self) -> bool {
        let paths = [self.absent, self.standing, self.rewritten];
        paths.iter().all(|ground| ground.paths().is_empty()) && self.obeyed.is_none()
    }

    fn concerns(&self, name: &[u8], fresh: bool) -> bool {
        let by_paths = self.absent.concerns(name, fresh) || self.standing.concerns(name, fresh);
        by_paths || self.obeyed.is_some_and(|obeyed| obeyed.concerns(name))
    }

    /// The path that making `spot` would break.
    fn breaks(&self, spot: &Spot, how: How) -> Result<Option<Cow<'a, Protected>>, Errno> {
        let path = match self.absent.made(spot, how)? {
            None => self.uncovered(spot, how)?,
            some => some,
        };
        match (path, self.obeyed) {
            (None, Some(obeyed)) => Ok(obeyed.made(spot, how)?.map(Cow::Owned)),
            (path, _) => Ok(path.map(|path| Cow::Borrowed(&path.protected))),
        }
    }

    /// The path that making `spot` would break, or taking it away, because no mount stands there at the moment. Where one
    /// stands, the kernel refuses by itself what changes it, and nothing else.
    fn uncovered(&self, spot: &Spot, how: How) -> Result<Option<&'a Guarded>, Errno> {
        match self.standing.made(spot, how)? {
            Some(guarded) if !walk::is_covered(spot)? => Ok(Some(guarded)),
            _ => Ok(None),
        }
    }
}

/// Judges calls; keeps the buffers for it.
pub struct Judge<'a> {
    grounds: Grounds<'a>,
    listener: &'a Listener,
    root: Root,
    first: Box<[u8; PATH_MAX]>,
    second: Box<[u8; PATH_MAX]>,
}

impl<'a> Judge<'a> {
    /// A judge by `grounds`.
    #[must_use]
    pub fn new(grounds: Grounds<'a>, listener: &'a Listener, one_root: bool) -> Judge<'a> {
        let buffer = || Box::new([0; PATH_MAX]);
        let root = if one_root { Root::Unknown } else { Root::EachItsOwn };
        Judge { grounds, listener, root, first: buffer(), second: buffer() }
    }

    /// What becomes of a call that makes a name.
    pub fn judge(&mut self, notification: &Notification, call: Call) -> Ruling<'a> {
        // A guard that only hears of names has nothing to say to any.
        if call.makes_a_name() && self.grounds.are_empty() {
            return Ruling::Continue;
        }
        let caller = Caller::new(notification.pid);
        let ruling = match call {
            Call::Open { path, flags } => self.open(caller, notification.id, path, flags),
            Call::Make(path) => self.name(caller, path, How::Fresh),
            Call::Ask(path) => self.ask(caller, path),
            Call::Symlink(path) => self.name(caller, path, How::Link),
            Call::Link { from, to } => self.link(caller, from, to),
            Call::Rename { from, to, flags } => self.rename(caller, notification.id, (from, to), flags),
            Call::Bind(address) => self.bind(caller, address),
            // Mounts keep what must not be removed.
            Call::Unlink(_) => Ok(Ruling::Continue),
            Call::Socket(kind) => Ok(socket(kind)),
            // Never goes on: see `connect`.
            Call::Connect(_) => Ok(Ruling::refuse(libc::EACCES)),
            Call::Listen(_) | Call::NetworkSocket => Ok(Ruling::Continue),
            Call::Chmod { of, mode } => {
                modes::set(caller, self.listener, notification.id, of, mode, &mut self.first)
            }
            Call::Lock(number) => Ok(locks::judge(caller, number)),
            // Never goes on: see `pairs`.
            Call::Pair(_) => Ok(Ruling::refuse(libc::EPERM)),
        };
        let ruling = ruling.unwrap_or_else(|ruling| ruling);
        // A thread that is gone may have given its number to another, whose paths were looked at instead. An answer
        // does not reach anybody then, but a refusal would be recorded.
        match ruling {
            Ruling::Refuse { .. } if !self.listener.still_waits(notification.id) => Ruling::Continue,
            ruling => ruling,
        }
    }

    fn open(
        &mut self,
        caller: Caller,
        id: u64,
        path: PathArgument,
        flags: Flags,
    ) -> Result<Ruling<'a>, Ruling<'a>> {
        let mut scoped = false;
        let flags = match flags {
            Flags::Here(flags) => flags,
            Flags::InMemory { address, size } => {
                // struct open_how: flags, mode, resolve. The kernel takes no shorter one.
                let mut how = [0u8; 24];
                if size < 24 {
                    return Ok(Ruling::Continue);
                }
                caller.memory(address, &mut how)?;
                const RESOLVE_IN_ROOT: u8 = 0x10;
                scoped = how[16] & RESOLVE_IN_ROOT != 0;
                i32::from_ne_bytes([how[0], how[1], how[2], how[3]])
            }
        };
        if flags & libc::O_CREAT == 0 {
            return Ok(Ruling::Continue);
        }
        let text = caller.path(path.address, &mut self.first)?;
        let Some((way, name)) = walk::split(text) else { return Ok(Ruling::Continue) };
        let follow = flags & (libc::O_EXCL | libc::O_NOFOLLOW) == 0;
        let start = Start { folder: path.folder, scoped };
        if !self.grounds.concerns(name, true) {
            if !follow {
                return Ok(Ruling::Continue);
            }
            // A symlink under a harmless name makes what it points to, if that is not there. Almost all paths are none,
            // and seen to be none by fewer calls than a walk takes; one component by a single one.
            let may_be_link = if way.is_empty() {
                matches!(caller.link_in(path.folder, name), Ok(_) | Err(Errno::ACCESS))
            } else if text.starts_with(b"/") && !scoped {
                self.root.with(caller, self.listener, id, |root| walk::may_be_link(root, text))?
            } else {
                walk::may_be_link(&caller.folder(path.folder)?, text)?
            };
            if !may_be_link {
                return Ok(Ruling::Continue);
            }
        }
        let spot = walk::spot(caller, start, text, follow)?;
        self.made(&spot, How::Fresh)
    }

    /// A call that makes exactly the name it gives.
    fn name(&mut self, caller: Caller, path: PathArgument, how: How) -> Result<Ruling<'a>, Ruling<'a>> {
        let text = caller.path(path.address, &mut self.first)?;
        let Some((_, name)) = walk::split(text) else { return Ok(Ruling::Continue) };
        if !self.grounds.concerns(name, matches!(how, How::Fresh)) {
            return Ok(Ruling::Continue);
        }
        let spot = walk::spot(caller, path.start(), text, false)?;
        self.made(&spot, how)
    }

    /// Answers whether nothing can come into being at a path, of whose folders some may not exist either.
    fn ask(&mut self, caller: Caller, path: PathArgument) -> Result<Ruling<'a>, Ruling<'a>> {
        let mut text = caller.path(path.address, &mut self.first)?;
        let mut below = Vec::new();
        // No more of a path can be missing than follows an anchor.
        while below.len() < self.grounds.absent.depth() {
            let Some((way, name)) = walk::split(text) else { break };
            match walk::spot(caller, path.start(), text, false) {
                Ok(spot) if self.grounds.absent.keeps(&spot, &below)? => {
                    return Ok(Ruling::refuse(libc::EROFS));
                }
                Ok(_) => return Ok(Ruling::Continue),
                Err(Errno::NOENT) => below.insert(0, name),
                Err(error) => return Err(error.into()),
            }
            text = way;
        }
        Ok(Ruling::Continue)
    }

    /// A second name for a file.
    fn link(
        &mut self,
        caller: Caller,
        from: PathArgument,
        to: PathArgument,
    ) -> Result<Ruling<'a>, Ruling<'a>> {
        let old = caller.path(from.address, &mut self.second)?;
        if let Some((_, name)) = walk::split(old)
            && self.grounds.standing.concerns(name, true)
        {
            let old = walk::spot(caller, from.start(), old, false)?;
            if let Some(taken) = self.grounds.uncovered(&old, How::Fresh)? {
                return Ok(refuse(Some(Cow::Borrowed(&taken.protected))));
            }
        }
        self.name(caller, to, How::Link)
    }

    fn rename(
        &mut self,
        caller: Caller,
        id: u64,
        (from, to): (PathArgument, PathArgument),
        flags: u32,
    ) -> Result<Ruling<'a>, Ruling<'a>> {
        let old = caller.path(from.address, &mut self.first)?;
        let new = caller.path(to.address, &mut self.second)?;
        let (Some((_, old_name)), Some((_, new_name))) = (walk::split(old), walk::split(new)) else {
            return Ok(Ruling::Continue);
        };
        let rewritten = self.grounds.rewritten;
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let rewrites = rewritten.concerns(new_name, true);
        let makes =
            self.grounds.concerns(new_name, false) || (exchange && self.grounds.concerns(old_name, false));
        let takes = self.grounds.standing.concerns(old_name, true);
        if !makes && !rewrites && !takes {
            return Ok(Ruling::Continue);
        }
        let (old, new) =
            (walk::spot(caller, from.start(), old, false)?, walk::spot(caller, to.start(), new, false)?);
        let source = standing(&old)?;
        let mut broken = self.grounds.breaks(&new, How::Moved(&source))?;
        if broken.is_none() && takes {
            let taken = self.grounds.uncovered(&old, How::Fresh)?;
            broken = taken.map(|taken| Cow::Borrowed(&taken.protected));
        }
        if broken.is_none() && exchange {
            broken = self.grounds.breaks(&old, How::Moved(&standing(&new)?))?;
        }
        if broken.is_some() || !rewrites {
            return Ok(refuse(broken));
        }
        let kept = rewritten.made(&new, How::Fresh)?;
        // What is not the caller's view any more must not be acted upon.
        if kept.is_some()
            && flags == 0
            && as_root::may_change(caller, source.as_fd())
            && rewrite::changes_nothing(&old, &new)?
            && self.listener.still_waits(id)
        {
            rewrite::remove(&old)?;
            return Ok(Ruling::Done);
        }
        Ok(refuse(kept.map(|kept| Cow::Borrowed(&kept.protected))))
    }

    fn bind(&mut self, caller: Caller, address: Address) -> Result<Ruling<'a>, Ruling<'a>> {
        let Some(path) = unix_path(caller, address)? else { return Ok(Ruling::Continue) };
        let Some((_, name)) = walk::split(&path) else { return Ok(Ruling::Continue) };
        if !self.grounds.concerns(name, true) {
            return Ok(Ruling::Continue);
        }
        let start = Start { folder: libc::AT_FDCWD, scoped: false };
        let spot = walk::spot(caller, start, &path, false)?;
        self.made(&spot, How::Fresh)
    }

    fn made(&self, spot: &Spot, how: How) -> Result<Ruling<'a>, Ruling<'a>> {
        if !self.grounds.concerns(&spot.name, matches!(how, How::Fresh)) {
            return Ok(Ruling::Continue);
        }
        Ok(refuse(self.grounds.breaks(spot, how)?))
    }
}

/// The root that absolute paths start from.
enum Root {
    /// The same for all, and known.
    Known(OwnedFd),
    /// The same for all.
    Unknown,
    /// To be asked for each time.
    EachItsOwn,
}

impl Root {
    fn with<T>(
        &mut self,
        caller: Caller,
        listener: &Listener,
        id: u64,
        look: impl FnOnce(&OwnedFd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Root::Known(root) = self {
            return look(root);
        }
        let root = caller.root()?;
        let result = look(&root);
        // Otherwise it may have been another's, to whom the thread's number was given.
        if matches!(self, Root::Unknown) && listener.still_waits(id) {
            *self = Root::Known(root);
        }
        result
    }
}

/// A unix socket whose every message goes where it was connected to.
fn socket(kind: i32) -> Ruling<'static> {
    const TYPE: i32 = 0xf;
    match kind & TYPE {
        libc::SOCK_STREAM | libc::SOCK_SEQPACKET => Ruling::Continue,
        _ => Ruling::refuse(libc::EPERM),
    }
}

/// The same error that a program gets for a protected path that exists: it is on a read-only mount.
fn refuse(path: Option<Cow<'_, Protected>>) -> Ruling<'_> {
    let refusal = |path| Ruling::Refuse { errno: libc::EROFS, protected: Some(path) };
    path.map_or(Ruling::Continue, refusal)
}

/// What stands at a spot.
fn standing(spot: &Spot) -> Result<OwnedFd, Errno> {
    walk::open(&spot.folder, &spot.name)
}

impl PathArgument {
    fn start(self) -> Start {
        Start { folder: self.folder, scoped: false }
    }
}

/// The path of a unix address; `None` for other families, and for addresses that name no file.
pub(super) fn unix_path(caller: Caller, address: Address) -> Result<Option<Vec<u8>>, Unreadable> {
    let mut bytes = [0u8; size_of::<libc::sockaddr_un>()];
    // The kernel takes no unix address that is longer, and of other families only the first two bytes matter.
    let length = bytes.len().min(usize::try_from(address.length).unwrap_or(usize::MAX));
    if length <= 2 {
        return Ok(None);
    }
    caller.memory(address.address, &mut bytes[..length])?;
    if i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) != libc::AF_UNIX || bytes[2] == 0 {
        return Ok(None);
    }
    let path = &bytes[2..length];
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    Ok(Some(path[..end].to_vec()))
}
