//! Mounts by their paths, one by one, from the mount table.
//!
//! This is the old-kernel way of making mounts read-only, and the way to make a tree writable that holds mounts which
//! the host has locked read-only.
//!
//! Before Linux 5.12 there is no mount_setattr: each mount is remounted by its path, once the new root stands, and
//! the flags it has must be said again or the remount would drop nosuid, nodev and noexec (and, in a user
//! namespace, where they are locked, fail).

use core::ffi::CStr;

use super::steps::Tag;
use super::sys::{self, AT_FDCWD, Errno, Result, mount, open};
use super::tag;
use super::wire::Reader;

/// Room for the mount table; one that is larger is refused.
const TABLE: usize = 4 << 20;

/// Gives every mount the flags that the last step at or above it asked for.
pub(super) fn read_only(steps: Reader, count: usize) -> Result<()> {
    each_mount(|path, name, options| {
        let Some(flags) = wanted(steps, count, path)? else { return Ok(()) };
        match sys::mount(name, mount::MS_REMOUNT | mount::MS_BIND | flags | flags_of(options)) {
            // A mount of the host's that lies under one of the sandbox's: no path leads to it any more. Or one behind a
            // folder that the caller may not pass, as /sys/kernel/debug/tracing is for most: nor may the command, which
            // has less than what init has here.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(()),
            other => other,
        }
    })
}

/// Makes the mounts of writable trees writable one by one, but for those that the host has locked.
pub(super) fn writable(steps: Reader, count: usize) -> Result<()> {
    each_mount(|path, name, options| {
        let flags = flags_of(options);
        let wanted = wanted(steps, count, path)?;
        if flags & mount::MS_RDONLY == 0 || wanted.is_none_or(|flags| flags & mount::MS_RDONLY != 0) {
            return Ok(());
        }
        match sys::openat2(AT_FDCWD, name, open::PATH | open::NOFOLLOW, 0, 0) {
            Ok(root) => match sys::mount_setattr(root.raw(), 0, mount::ATTR_RDONLY, false) {
                Err(Errno::EPERM) => Ok(()),
                other => other,
            },
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

/// Calls `act` with the path of every mount of this namespace, as bytes and as a string, and its options.
fn each_mount(mut act: impl FnMut(&[u8], &CStr, &[u8]) -> Result<()>) -> Result<()> {
    let table = read_table(sys::memory::map(TABLE)?)?;
    for line in table.split_mut(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut columns = line.splitn_mut(7, |byte| *byte == b' ').skip(4);
        let (Some(path), Some(options)) = (columns.next(), columns.next()) else { return Err(Errno::EPROTO) };
        // The blank after the column becomes the NUL of the path, which only gets shorter by unescaping.
        let length = unescape(path);
        let mut name = [0u8; 4096];
        name.get_mut(..length).ok_or(Errno::EINVAL)?.copy_from_slice(&path[..length]);
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::EINVAL)?;
        act(&path[..length], name, options)?;
    }
    Ok(())
}

fn read_table(buffer: &mut [u8]) -> Result<&mut [u8]> {
    let file = sys::openat2(AT_FDCWD, c"/proc/self/mountinfo", open::RDONLY, 0, 0)?;
    let mut filled = 0;
    loop {
        match sys::read(file.raw(), &mut buffer[filled..])? {
            0 if filled == buffer.len() => return Err(Errno::EINVAL),
            0 => return Ok(&mut buffer[..filled]),
            n => filled += n,
        }
    }
}

/// Turns `\040` and its like back into bytes, in place; returns the new length.
fn unescape(path: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while from < path.len() {
        let octal = path[from] == b'\\' && path.len() - from >= 4;
        path[to] = if octal {
            path[from + 1..from + 4]
                .iter()
                .fold(0u8, |value, digit| value << 3 | (digit.wrapping_sub(b'0') & 7))
        } else {
            path[from]
        };
        from += if octal { 4 } else { 1 };
        to += 1;
    }
    to
}

/// The flags that the plan asks for on a mount at `path`; `None` to leave it alone. Later steps cover earlier ones.
fn wanted(mut steps: Reader, count: usize, path: &[u8]) -> Result<Option<usize>> {
    const READ: usize = mount::MS_RDONLY | mount::MS_NOSUID | mount::MS_NODEV;
    let mut found = None;
    for _ in 0..count {
        let (step, mut fields) = steps.step()?;
        let target = match step {
            Tag::HostRoot | Tag::TmpfsRoot | Tag::LayeredRoot | Tag::BoundRoot => b"/".as_slice(),
            Tag::Tmpfs
            | Tag::Store
            | Tag::Private
            | Tag::Proc
            | Tag::Devpts
            | Tag::Bind
            | Tag::LayeredFolder
            | Tag::MaskDir
            | Tag::MaskFile
            | Tag::Freeze
            | Tag::ReadOnly => fields.string()?.to_bytes(),
            _ => continue,
        };
        // A mount of init's own is made read-only without what lies below it.
        if !at_or_below(path, target) || (step == Tag::ReadOnly && path != target) {
            continue;
        }
        found = match step {
            Tag::TmpfsRoot
            | Tag::LayeredRoot
            | Tag::Tmpfs
            | Tag::Store
            | Tag::Private
            | Tag::Proc
            | Tag::Devpts => None,
            Tag::LayeredFolder => Some(mount::MS_NOSUID | mount::MS_NODEV),
            Tag::Bind | Tag::HostRoot => Some(match fields.u8()? {
                tag::ACCESS_WRITE => mount::MS_NOSUID | mount::MS_NODEV,
                tag::ACCESS_DEVICE => mount::MS_RDONLY | mount::MS_NOSUID | mount::MS_NOEXEC,
                _ => READ,
            }),
            _ => Some(READ),
        };
    }
    Ok(found)
}

fn at_or_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || top == b"/")
}

fn flags_of(options: &[u8]) -> usize {
    options.split(|byte| *byte == b',').fold(0, |flags, option| {
        flags
            | match option {
                b"ro" => mount::MS_RDONLY,
                b"nosuid" => mount::MS_NOSUID,
                b"nodev" => mount::MS_NODEV,
                b"noexec" => mount::MS_NOEXEC,
                b"noatime" => mount::MS_NOATIME,
                b"nodiratime" => mount::MS_NODIRATIME,
                b"relatime" => mount::MS_RELATIME,
                _ => 0,
            }
    })
}
