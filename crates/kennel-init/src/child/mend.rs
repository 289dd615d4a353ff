//! Covering names again, from inside a sandbox that already runs.
//!
//! A mount is on a file, and a rule is about a name. When the host replaces a file by rename, as editors and git do, the
//! kernel takes the mount off in every namespace, and the new file shows inside. PID 1 has given up its capabilities by
//! then, so the controller starts this program a second time, as a helper: it enters the sandbox's user and mount
//! namespaces and covers what it is told to, until its link ends. It is not in the sandbox's PID namespace, so that
//! nothing inside can see, signal or trace it; and it waits there already, because every moment until a name is covered
//! again is one in which it can be read.

use super::memory::Memory;
use super::sys::{self, Errno, Fd, Result, mount, open, resolve};
use super::wire::Reader;
use super::{mounts, orders, tag};
use crate::report::Report;

/// What the controller passes, as the numbers of descriptors: the user namespace, the mount namespace, and the store of
/// what hides things.
const USER_NAMESPACE: i32 = 0;
const MOUNT_NAMESPACE: i32 = 1;
const STORE: i32 = 2;

/// How often a name is tried that the host replaces faster than it can be covered.
const MOST_TRIES: usize = 1000;

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

fn serve(link: i32) -> core::result::Result<core::convert::Infallible, (u32, Errno)> {
    let whole = |errno| (u32::MAX, errno);
    // The user namespace first: only with its capabilities can the mount namespace be entered.
    sys::enter_namespace(USER_NAMESPACE, super::clone::flag::NEWUSER).map_err(whole)?;
    sys::enter_namespace(MOUNT_NAMESPACE, super::clone::flag::NEWNS).map_err(whole)?;
    const PR_SET_PDEATHSIG: usize = 1;
    const SIGKILL: usize = 9;
    // After the change of credentials, which forgets it. The end of the link tells the same, unless somebody holds a
    // copy of its other end.
    let _ = sys::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    let root = sys::openat2(sys::AT_FDCWD, c"/", open::PATH | open::DIRECTORY, 0, 0).map_err(whole)?;
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
            if cover_in_the_end(&root, &mut names).map_err(|errno| (index, errno))? {
                sys::send(link, &Report::Covered { index }.encode()).map_err(whole)?;
            }
        }
        sys::send(link, &Report::Mended.encode()).map_err(whole)?;
        // SAFETY: nothing of the part is used any more.
        unsafe { memory.give_back() };
    }
}

/// Covers one name. Between the look and the mount the host may have replaced it once more, and nothing can be mounted on
/// what has no name.
fn cover_in_the_end(root: &Fd, names: &mut Reader) -> Result<bool> {
    let start = *names;
    let mut covered = cover(root, names);
    for _ in 0..MOST_TRIES {
        if !matches!(covered, Err(Errno::ENOENT)) {
            break;
        }
        *names = start;
        covered = cover(root, names);
    }
    covered
}

/// Covers one name. False where nothing stands there, or it is covered already.
fn cover(root: &Fd, names: &mut Reader) -> Result<bool> {
    let (how, target) = (names.u8()?, names.string()?);
    let strict = resolve::IN_ROOT | resolve::NO_SYMLINKS;
    let found = match sys::openat2(root.raw(), target, open::PATH | open::NOFOLLOW, 0, strict) {
        // A folder on the way that is a link by now leads elsewhere; the controller has followed it.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES) => return Ok(false),
        other => other?,
    };
    let standing = sys::standing(found.raw())?;
    if standing.mount_root {
        // Nothing inside can mount, so this is what covered it before.
        return Ok(false);
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
    Ok(true)
}
