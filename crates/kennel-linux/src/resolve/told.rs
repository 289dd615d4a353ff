//! What files held before the run of which the caller is told how they changed: instructions of agents above all.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};

use super::folder::read_open;
use super::known::{Contents, Remembered};

/// As much of a file is remembered, and of all of them together.
pub const MAX_EACH: usize = 64 << 10;
const MAX_TOGETHER: usize = 2 << 20;
/// As many are remembered. Of more it is known that they were there.
const MAX: usize = 512;

/// Reads them.
pub(super) fn remembered(paths: &[&PathBuf]) -> Vec<Remembered> {
    let mut room = MAX_TOGETHER;
    let remember = |(index, path): (usize, &&PathBuf)| {
        let room_for_it = if index < MAX { room.min(MAX_EACH) } else { 0 };
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let contents = contents(CWD, &name, room_for_it).unwrap_or(Contents::Other(0, (0, 0)));
        if let Contents::Text(text) = &contents {
            room -= text.len().min(room);
        }
        Remembered { path: path.to_path_buf(), contents }
    };
    paths.iter().enumerate().map(remember).collect()
}

/// What stands at a name in a folder, if that is not more than this; a link is not followed. `None` where nothing is.
pub fn contents(folder: BorrowedFd, name: &CStr, most: usize) -> Option<Contents> {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::INO | StatxFlags::CTIME;
    let stat = rustix::fs::statx(folder, name, quiet, wanted).ok()?;
    let other = Contents::Other(stat.stx_ino, (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec));
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
            Some(Contents::Link(target.into_bytes()))
        }
        FileType::RegularFile if stat.stx_size <= most as u64 => {
            let flags =
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return Some(other) };
            let text = read_open(&file, most).filter(|text| text.len() <= most);
            Some(text.map_or(other, Contents::Text))
        }
        _ => Some(other),
    }
}
