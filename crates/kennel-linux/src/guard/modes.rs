//! Set-uid and set-gid bits: a mode is set on the caller's behalf, without them.
//!
//! The filter sends a call that would set one of these bits here. It is not let go on, because it may be on a file of the
//! host's; and it is not refused, because tar, cp and install give up over that. The file is looked up as the caller would
//! look it up, and changed by way of the caller's own mount of it, so that what is read-only there stays as it is; the
//! kernel asks this thread, which has no capabilities, for the same rights that it would ask of the caller. A
//! folder may have the bits: there they say who owns what is made in it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::as_root;
use super::caller::{Caller, PATH_MAX};
use super::calls::{ModeOf, PathArgument};
use super::judge::Ruling;
use super::listener::Listener;
use super::walk::{self, Start};
use crate::seccomp::power::SPECIAL;

/// Sets `mode`, but for the bits, on what the call names.
pub(super) fn set(
    caller: Caller,
    listener: &Listener,
    id: u64,
    of: ModeOf,
    mode: u32,
    buffer: &mut [u8; PATH_MAX],
) -> Result<Ruling<'static>, Ruling<'static>> {
    let file = match of {
        ModeOf::Descriptor(number) => descriptor(caller, number).map_err(refused)?,
        ModeOf::Path { path, follow, may_be_empty } => {
            let text = caller.path(path.address, buffer)?;
            if text.is_empty() && may_be_empty {
                descriptor(caller, path.folder).map_err(refused)?
            } else {
                target(caller, path, text, follow).map_err(refused)?
            }
        }
    };
    let kind = walk::kind(file.as_fd()).map_err(refused)?;
    if kind == FileType::Symlink {
        return Err(Ruling::refuse(libc::EOPNOTSUPP));
    }
    if !as_root::may_change(caller, file.as_fd()) {
        return Err(Ruling::refuse(libc::EPERM));
    }
    let mode = if kind == FileType::Directory { mode } else { mode & !SPECIAL };
    // Otherwise another thread, to whom the number was given, was looked into.
    if !listener.still_waits(id) {
        return Ok(Ruling::Continue);
    }
    as_root::chmod(&file, Mode::from_raw_mode(mode & 0o7777)).map_err(refused)?;
    Ok(Ruling::Done)
}

/// What the caller's descriptor refers to, without a file being opened: closing it can never wait.
fn descriptor(caller: Caller, number: i32) -> Result<OwnedFd, Errno> {
    if number == libc::AT_FDCWD {
        return caller.folder(number);
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match as_root::open_proc(&format!("/proc/{}/fd/{number}", caller.tid()), flags) {
        Err(Errno::NOENT) => Err(Errno::BADF),
        other => other,
    }
}

fn target(caller: Caller, path: PathArgument, text: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    walk::target(caller, Start { folder: path.folder, scoped: false }, text, follow)
}

/// The caller hears what the kernel would have said.
fn refused(error: Errno) -> Ruling<'static> {
    let error = if error == walk::TOO_FAR { Errno::LOOP } else { error };
    Ruling::refuse(error.raw_os_error())
}
