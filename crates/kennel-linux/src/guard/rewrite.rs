//! A kept file that is written anew, with what it says already.
//!
//! Git writes its configuration by way of a file beside it, `config.lock`, which it then moves over the old one. `git
//! submodule update` does so each time, with the same text. The move fails, since what is kept is a mount point inside;
//! but where it would change nothing, it need not happen: the guard removes the lock, and the call succeeds.
//!
//! Whatever the sandbox changes meanwhile, nothing is ever written to what is kept.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::as_root;
use super::walk::{self, Spot};

/// More than any configuration.
const MAX_BYTES: u64 = 1 << 20;

/// Whether `old` is the lock of `new`, in the same folder, and says the same.
pub fn changes_nothing(old: &Spot, new: &Spot) -> Result<bool, Errno> {
    if old.name != [new.name.as_slice(), b".lock"].concat()
        || walk::identity(old.folder.as_fd())? != walk::identity(new.folder.as_fd())?
    {
        return Ok(false);
    }
    match (text(old)?, text(new)?) {
        (Some(old), Some(new)) => Ok(old == new),
        _ => Ok(false),
    }
}

/// Removes the lock: by the caller's own mount, which has to be writable.
pub fn remove(lock: &Spot) -> Result<(), Errno> {
    as_root::unlinkat(&lock.folder, &walk::c_string(&lock.name)?, AtFlags::empty())
}

/// What a file says; `None` for what is not one, or too long.
fn text(spot: &Spot) -> Result<Option<Vec<u8>>, Errno> {
    // A FIFO is not waited for, nor a terminal taken.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(as_root::openat(&spot.folder, &walk::c_string(&spot.name)?, flags, Mode::empty())?);
    if walk::kind(file.as_fd())? != rustix::fs::FileType::RegularFile {
        return Ok(None);
    }
    let mut text = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((text.len() as u64 <= MAX_BYTES).then_some(text))
}
