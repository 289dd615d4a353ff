//! Reading the kernel's own files.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Longest file that is read: `cgroup.procs` of some 100,000 processes, a table of thousands of mounts.
const MAX: usize = 1 << 20;

/// Reads a file of `/proc`, most often in one call where `std::fs::read` takes five.
pub(crate) fn read_whole(path: &str) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    read_from_start(file.as_fd())
}

/// Reads a file of `/proc` whose lines may be longer than half a page, so that a short read is not yet the end: the
/// options of an overlay, in the table of mounts.
pub(crate) fn read_to_end(path: &str) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; 8192];
    let mut filled = 0;
    loop {
        match rustix::io::read(&file, &mut text[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if filled == text.len() {
            if filled >= MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            text.resize(filled * 4, 0);
        }
    }
    text.truncate(filled);
    Ok(text)
}

/// Reads a file that is held open anew; the kernel produces the text at each read from the start.
pub(crate) fn read_from_start(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 4096];
    let mut filled = 0;
    loop {
        match rustix::io::pread(file, &mut text[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // The kernel fills a page before it returns, line by line: half a page is all there is.
        if filled < 2048 {
            break;
        }
        if filled == text.len() {
            if filled >= MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            text.resize(filled * 4, 0);
        }
    }
    text.truncate(filled);
    Ok(text)
}
