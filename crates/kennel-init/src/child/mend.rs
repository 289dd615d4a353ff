//! Covering names again, from inside a sandbox that already runs.
//!
//! A mount is on a file, and a rule is about a name. When the host replaces a file by rename, as editors and git do, the
//! kernel takes the mount off in every namespace, and the new file shows inside. PID 1 has given up its capabilities by
//! then, so the controller starts this program a second time, as a helper: it enters the sandbox's user and mount
//! namespaces and covers what it is told to, until its link ends. It is not in the sandbox's PID namespace, so that
//! nothing inside can see, signal or trace it; and it waits there already, because every moment until a name is covered
//! again is one in which it can be read.

use core::ffi::CStr;

use super::sys::memory::Memory;
use super::sys::{self, Errno, Fd, Identity, Result, mount, open, resolve};
use super::wire::Reader;
use super::{MAX_BASES, mounts, orders, tag};
use crate::report::Report;

/// What the controller passes, as the numbers of descriptors: the user namespace, the mount namespace, and the store of
/// what hides things.
const USER_NAMESPACE: i32 = 0;
const MOUNT_NAMESPACE: i32 = 1;
const STORE: i32 = 2;

/// How often a name is tried that the host replaces faster than it can be covered.
const MAX_TRIES: usize = 1000;

/// Covers the names that arrive over `link`, until it ends.
pub fn run(link: i32) -> ! {
    let _ = sys::set_signal_mask(u64::MAX);
    match serve(link) {
        Ok(never) => match never {},
        Err((index, Errno(errno))) => {
            let _ = sys::send(link, &Report::Failed { step: index, errno }.encode());
            sys::exit(1)
        }
    }
}

/// What the helper takes hold of: folders of the host's, where they show inside, and what hides things.
struct Held {
    root: Fd,
    /// `None` where a folder did not show inside.
    bases: [Option<HeldBase>; MAX_BASES],
    /// The file and the folder of the store that hide things: whatever the host moves, they hide.
    hiding: [Identity; 2],
}

/// A folder that names are looked up from.
struct HeldBase {
    identity: Identity,
    /// As it was found at first: whoever works in it does so by that mount.
    folder: Fd,
    /// The same by the last mount that was laid over it, by which paths lead through it since.
    over: Option<Fd>,
}

fn serve(link: i32) -> core::result::Result<core::convert::Infallible, (u32, Errno)> {
    let whole = |errno| (u32::MAX, errno);
    // The user namespace first: only with its capabilities can the mount namespace be entered.
    sys::enter_namespace(USER_NAMESPACE, super::clone::flag::NEWUSER).map_err(whole)?;
    sys::enter_namespace(MOUNT_NAMESPACE, super::clone::flag::NEWNS).map_err(whole)?;
    const SIGKILL: i32 = 9;
    // After the change of credentials, which forgets it. The end of the link tells the same, unless somebody holds a
    // copy of its other end.
    let _ = sys::set_death_signal(SIGKILL);
    let mut held = Held::new().map_err(whole)?;
    let mut first = true;
    loop {
        let memory = Memory::of_helper();
        let part = match orders::Part::receive(link, &memory) {
            // No controller, no sandbox.
            Err(Errno::ECANCELED) => sys::exit(0),
            other => other.map_err(whole)?,
        };
        let mut names = part.reader();
        let count = super::begin(&mut names).map_err(whole)?;
        for index in 0..count as u32 {
            let report = |done: Option<Done>| match done {
                Some(Done { mount, again }) => {
                    sys::send(link, &Report::Covered { index, mount, again }.encode()).map(drop)
                }
                None => Ok(()),
            };
            if first {
                let done = held.hold(index, &mut names).map_err(|errno| (index, errno))?;
                report(done).map_err(whole)?;
                continue;
            }
            let start = names;
            for over in [false, true] {
                names = start;
                let done = cover_in_the_end(&mut held, &mut names, over).map_err(|errno| (index, errno))?;
                report(done).map_err(whole)?;
            }
        }
        first = false;
        sys::send(link, &Report::Mended.encode()).map_err(whole)?;
    }
}

impl Held {
    fn new() -> Result<Held> {
        let root = sys::openat2(sys::AT_FDCWD, c"/", open::PATH | open::DIRECTORY, 0, 0)?;
        let of_store = |name| {
            let found = sys::openat2(STORE, name, open::PATH | open::NOFOLLOW, 0, resolve::NO_SYMLINKS)?;
            sys::identity(found.raw())
        };
        Ok(Held { root, bases: [const { None }; MAX_BASES], hiding: [of_store(c"f")?, of_store(c"d")?] })
    }

    /// Takes hold of a folder, if it shows inside.
    fn hold(&mut self, index: u32, names: &mut Reader) -> Result<Option<Done>> {
        let (path, expected) = (names.string()?, names.identity()?);
        let base = self.bases.get_mut(index as usize).ok_or(Errno::EPROTO)?;
        let Some(found) = look_up(&self.root, path)? else { return Ok(None) };
        let standing = sys::standing(found.raw())?;
        if standing.identity != expected {
            return Ok(None);
        }
        *base = Some(HeldBase { identity: expected, folder: found, over: None });
        Ok(Some(Done { mount: standing.mount, again: false }))
    }

    /// The folder with this number, or the same by what was mounted over it; `None` where nothing was.
    fn base(&self, number: u32, over: bool) -> Result<Option<&Fd>> {
        let Some(index) = number.checked_sub(1) else { return Ok((!over).then_some(&self.root)) };
        let base = self.bases.get(index as usize).and_then(Option::as_ref).ok_or(Errno::EPROTO)?;
        Ok(if over { base.over.as_ref() } else { Some(&base.folder) })
    }

    /// Notes that a mount lies over a folder now.
    fn laid_over(&mut self, folder: Identity, tree: &Fd) -> Result<()> {
        for base in self.bases.iter_mut().flatten().filter(|base| base.identity == folder) {
            base.over = Some(sys::openat2(tree.raw(), c".", open::PATH | open::DIRECTORY, 0, 0)?);
        }
        Ok(())
    }
}

/// What stands at a path below a folder; `None` for nothing.
fn look_up(folder: &Fd, path: &CStr) -> Result<Option<Fd>> {
    let strict = resolve::IN_ROOT | resolve::NO_SYMLINKS;
    match sys::openat2(folder.raw(), path, open::PATH | open::NOFOLLOW, 0, strict) {
        // A folder on the way that is a link by now leads elsewhere; the controller has followed it.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES) => Ok(None),
        other => other.map(Some),
    }
}

/// What was done about a name.
struct Done {
    /// The mount that covers it now.
    mount: u64,
    /// Whether it did not before.
    again: bool,
}

/// Covers one name. Between the look and the mount the host may have replaced it once more, and nothing can be mounted on
/// what has no name.
fn cover_in_the_end(held: &mut Held, names: &mut Reader, over: bool) -> Result<Option<Done>> {
    let start = *names;
    let mut covered = cover(held, names, over);
    for _ in 0..MAX_TRIES {
        if !matches!(covered, Err(Errno::ENOENT)) {
            break;
        }
        *names = start;
        covered = cover(held, names, over);
    }
    covered
}

/// Covers one name. `None` where nothing stands there.
///
/// A mount at the name is not yet its cover: a mount moves along with the file that it is on, and the host may have moved a
/// file there that a laxer rule covers. So it has to be one that is known, or one that hides whatever it is on.
fn cover(held: &mut Held, names: &mut Reader, over: bool) -> Result<Option<Done>> {
    let (how, base, target) = (names.u8()?, names.u32()?, names.string()?);
    let (first, file) = (names.u8()?, names.identity()?);
    let known = *names;
    for _ in 0..names.count()? {
        names.u64()?;
    }
    let Some(base) = held.base(base, over)? else { return Ok(None) };
    let Some(found) = look_up(base, target)? else { return Ok(None) };
    let standing = sys::standing(found.raw())?;
    if standing.mount_root {
        let was_placed = match first {
            tag::FIRST_LOOK_ON => standing.identity == file,
            tag::FIRST_LOOK_OWN => {
                const TMPFS_MAGIC: u64 = 0x0102_1994;
                standing.identity.device != file.device && sys::file_system(found.raw())? == TMPFS_MAGIC
            }
            _ => false,
        };
        if was_placed || held.hiding.contains(&standing.identity) || is_among(known, standing.mount)? {
            return Ok(Some(Done { mount: standing.mount, again: false }));
        }
    }
    let tree = match how {
        tag::COVER_HIDE => {
            let tree = sys::clone_tree(STORE, if standing.folder { c"d" } else { c"f" }, false)?;
            sys::mount_setattr(tree.raw(), mounts::READ_ONLY | mount::ATTR_NOEXEC, 0, false)?;
            tree
        }
        tag::COVER_KEEP => {
            let tree = sys::clone_tree(found.raw(), c"", true)?;
            sys::mount_setattr(tree.raw(), mounts::READ_ONLY, 0, true)?;
            tree
        }
        tag::COVER_HOLD => sys::clone_tree(found.raw(), c"", true)?,
        _ => return Err(Errno::EPROTO),
    };
    sys::attach(tree.raw(), found.raw(), c"")?;
    // What hides a folder shows nothing of it, and names in it cannot be seen by way of that.
    if standing.folder && how != tag::COVER_HIDE {
        held.laid_over(standing.identity, &tree)?;
    }
    Ok(Some(Done { mount: sys::standing(tree.raw())?.mount, again: true }))
}

fn is_among(mut known: Reader, mount: u64) -> Result<bool> {
    for _ in 0..known.count()? {
        if known.u64()? == mount {
            return Ok(true);
        }
    }
    Ok(false)
}
