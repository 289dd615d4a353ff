//! Folders that their owner has shut. A sandbox is the same user as its controller: what it shuts, it can open again, so the
//! controller has to look all the same.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;

/// Does something in a folder whose owner may have forbidden it: a sandbox that takes its own permissions away would
/// have the guard stand before a shut door. The permissions are then as they were.
pub(super) fn with_permission<T>(
    folder: BorrowedFd,
    mut act: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    // By this name the kernel changes what the descriptor refers to, which was opened without any permission on it.
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let before = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode & 0o7777);
    rustix::fs::chmodat(CWD, &path, before | Mode::RWXU, AtFlags::empty())?;
    let result = act();
    let _ = rustix::fs::chmodat(CWD, &path, before, AtFlags::empty());
    result
}
