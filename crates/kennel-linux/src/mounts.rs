//! The mounts that this process sees, as `/proc/self/mountinfo` tells them.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::read::read_to_end;

/// The table as it stands now. It answers at once, whatever the file systems in it do.
///
/// # Errors
/// When there is no /proc.
pub fn table() -> io::Result<Vec<u8>> {
    read_to_end("/proc/self/mountinfo")
}

/// Notices that the table has changed.
#[derive(Debug)]
pub struct MountWatch(std::fs::File);

impl MountWatch {
    /// From now on.
    ///
    /// # Errors
    /// When there is no /proc.
    pub fn new() -> io::Result<MountWatch> {
        std::fs::File::open("/proc/self/mountinfo").map(MountWatch)
    }

    /// Whether it has. What cannot be told counts as changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let mut file = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
    }
}

/// Ready with `POLLPRI` when the table has changed.
impl AsFd for MountWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    root: &'a [u8],
    point: &'a [u8],
    /// The type of the file system.
    pub kind: &'a [u8],
    /// What belongs to the file system rather than to this mount of it.
    pub options: &'a [u8],
}

impl Mount<'_> {
    /// Which folder of the file system shows.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        unescape(self.root)
    }

    /// Where it shows.
    #[must_use]
    pub fn point(&self) -> PathBuf {
        unescape(self.point)
    }
}

/// The mounts in a table, earlier ones first; lines of another form are passed over.
pub fn mounts(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(parse)
}

/// "<id> <parent> <major>:<minor> <root> <point> <options> <optional fields…> - <type> <source> <super options>"
fn parse(line: &[u8]) -> Option<Mount<'_>> {
    let dash = line.windows(3).position(|window| window == b" - ")?;
    let mut head = line[..dash].split(|byte| *byte == b' ');
    let mut tail = line[dash + 3..].split(|byte| *byte == b' ');
    let (major, minor) = std::str::from_utf8(head.nth(2)?).ok()?.split_once(':')?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: head.next()?,
        point: head.next()?,
        kind: tail.next()?,
        options: tail.nth(1)?,
    })
}

/// Undoes the kernel's `\ooo` for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if byte == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_and_its_paths_are_unescaped() {
        let table = b"9 8 0:42 /a /mnt/with\\040space\\134x rw,nosuid shared:7 master:1 - tmpfs some\\040name rw,size=1\n";
        let mount = mounts(table).next().unwrap();
        assert_eq!((mount.device, mount.kind, mount.options), ((0, 42), &b"tmpfs"[..], &b"rw,size=1"[..]));
        assert_eq!((mount.root(), mount.point()), ("/a".into(), "/mnt/with space\\x".into()));
    }

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        assert_eq!(unescape(br"/a\04"), PathBuf::from(r"/a\04"));
    }

    #[test]
    fn a_name_that_is_no_text_is_a_name_all_the_same() {
        let mount = mounts(b"9 8 0:9 / /mnt/\xff rw - ext4 x rw").next().map(|mount| mount.point());
        assert_eq!(mount.unwrap().as_os_str().as_encoded_bytes(), b"/mnt/\xff");
    }

    #[test]
    fn this_process_has_a_root() {
        let table = table().unwrap();
        assert!(mounts(&table).any(|mount| mount.point() == std::path::Path::new("/")));
    }
}
