//! Files, folders and descriptors.

use core::ffi::CStr;

use super::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, Errno, Fd, Result, at};

pub mod open {
    pub const RDONLY: u64 = 0;
    pub const WRONLY: u64 = 1;
    pub const RDWR: u64 = 2;
    pub const CREAT: u64 = 0o100;
    pub const EXCL: u64 = 0o200;
    pub const NOCTTY: u64 = 0o400;
    pub const NONBLOCK: u64 = 0o4000;
    #[cfg(target_arch = "x86_64")]
    pub const DIRECTORY: u64 = 0o200000;
    #[cfg(target_arch = "aarch64")]
    pub const DIRECTORY: u64 = 0o40000;
    #[cfg(target_arch = "x86_64")]
    pub const NOFOLLOW: u64 = 0o400000;
    #[cfg(target_arch = "aarch64")]
    pub const NOFOLLOW: u64 = 0o100000;
    pub const CLOEXEC: u64 = 0o2000000;
    pub const PATH: u64 = 0o10000000;
}

pub mod resolve {
    pub const NO_MAGICLINKS: u64 = 0x02;
    pub const NO_SYMLINKS: u64 = 0x04;
    pub const IN_ROOT: u64 = 0x10;
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

pub fn openat2(dir: i32, path: &CStr, flags: u64, mode: u64, resolve: u64) -> Result<Fd> {
    let how = OpenHow { flags: flags | open::CLOEXEC, mode, resolve };
    match call!(SYS_openat2, dir, at(path), &raw const how, size_of::<OpenHow>()) {
        // An outer sandbox has taken the call away: kennel's own does, where the host's files can be written.
        Err(Errno::ENOSYS) => open_by_steps(dir, path, flags, mode, resolve),
        other => other.map(|fd| Fd(fd as i32)),
    }
}

/// What openat2 does, for paths without `..`: with any restriction no symlink is followed, neither on the way nor at the
/// end.
fn open_by_steps(dir: i32, path: &CStr, flags: u64, mode: u64, resolve: u64) -> Result<Fd> {
    const NAME_MAX: usize = 255;
    let plain = |dir: i32, name: &CStr, flags: u64| {
        call!(SYS_openat, dir, at(name), flags | open::CLOEXEC, mode).map(|fd| Fd(fd as i32))
    };
    if resolve == 0 {
        return plain(dir, path, flags);
    }
    let step = open::PATH | open::DIRECTORY | open::NOFOLLOW;
    let bytes = path.to_bytes();
    let mut folder = match bytes.first() {
        Some(b'/') if resolve & resolve::IN_ROOT == 0 => plain(AT_FDCWD, c"/", step)?,
        _ => plain(dir, c".", step)?,
    };
    let mut names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let mut buffer = [0u8; NAME_MAX + 1];
        buffer
            .get_mut(..name.len())
            .filter(|room| room.len() <= NAME_MAX)
            .ok_or(Errno::EINVAL)?
            .copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&buffer).map_err(|_| Errno::EINVAL)?;
        if names.peek().is_none() {
            return plain(folder.raw(), name, flags | open::NOFOLLOW);
        }
        folder = plain(folder.raw(), name, step)?;
    }
    plain(folder.raw(), c".", flags)
}

/// Whether something stands at `path`, as far as this process may look.
pub fn exists(path: &CStr) -> bool {
    const F_OK: usize = 0;
    call!(SYS_faccessat, AT_FDCWD, at(path), F_OK).is_ok()
}

pub fn openat(dir: i32, path: &CStr, flags: u64) -> Result<Fd> {
    call!(SYS_openat, dir, at(path), flags | open::CLOEXEC, 0).map(|fd| Fd(fd as i32))
}

pub fn mkdirat(dir: i32, path: &CStr, mode: u32) -> Result<()> {
    call!(SYS_mkdirat, dir, at(path), mode).map(drop)
}

/// Makes an empty regular file.
pub fn mknod_file(dir: i32, path: &CStr, mode: u32) -> Result<()> {
    const S_IFREG: u32 = 0o100000;
    call!(SYS_mknodat, dir, at(path), S_IFREG | mode, 0).map(drop)
}

pub fn symlinkat(target: &CStr, dir: i32, path: &CStr) -> Result<()> {
    call!(SYS_symlinkat, at(target), dir, at(path)).map(drop)
}

/// Leaves an owner or a group as it is.
pub const UNCHANGED: u32 = u32::MAX;

/// Changes owner and group, of a symlink itself. An empty path means what `dir` refers to.
pub fn chown(dir: i32, path: &CStr, uid: u32, gid: u32) -> Result<()> {
    call!(SYS_fchownat, dir, at(path), uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH).map(drop)
}

/// Who owns what, and since when.
pub struct Ownership {
    pub uid: u32,
    pub gid: u32,
    pub folder: bool,
    pub device: u64,
    pub inode: u64,
    /// When it was last changed in any way, in seconds.
    pub changed: i64,
}

/// The owner of what stands at `path`, of a symlink itself. An empty path means what `dir` refers to.
pub fn ownership(dir: i32, path: &CStr) -> Result<Ownership> {
    const BASIC: usize = 0x7ff;
    let mut statx = [0u64; 32];
    call!(SYS_statx, dir, at(path), AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, BASIC, statx.as_mut_ptr())?;
    // struct statx: stx_uid at byte 20, stx_gid at 24, stx_mode at 28, stx_ino at 32, stx_ctime at 96, stx_dev at 136.
    Ok(Ownership {
        uid: (statx[2] >> 32) as u32,
        gid: statx[3] as u32,
        folder: (statx[3] >> 32) & 0o170_000 == 0o040_000,
        device: statx[17],
        inode: statx[4],
        changed: statx[12].cast_signed(),
    })
}

/// Which kind of file system `fd` is on: the kernel's magic number.
pub fn file_system(fd: i32) -> Result<u64> {
    let mut statfs = [0u64; 15];
    call!(SYS_fstatfs, fd, statfs.as_mut_ptr())?;
    Ok(statfs[0])
}

pub fn fchmod(fd: i32, mode: u32) -> Result<()> {
    call!(SYS_fchmod, fd, mode).map(drop)
}

/// Gives an open file an extended attribute with an empty value.
pub fn set_attribute(fd: i32, name: &CStr) -> Result<()> {
    call!(SYS_fsetxattr, fd, at(name), at(c""), 0, 0).map(drop)
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    call!(SYS_write, fd, bytes.as_ptr(), bytes.len())
}

pub fn write_all(fd: i32, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(n) => bytes = &bytes[n.min(bytes.len())..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn readlinkat(dir: i32, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    call!(SYS_readlinkat, dir, at(path), buffer.as_mut_ptr(), buffer.len())
}

/// Reads entries of a folder, as the kernel lays them out.
pub fn getdents(folder: &Fd, buffer: &mut [u8]) -> Result<usize> {
    call!(SYS_getdents64, folder.0, buffer.as_mut_ptr(), buffer.len())
}

/// Sets where a file is read on.
pub fn seek(fd: &Fd, offset: u64) -> Result<()> {
    const SEEK_SET: usize = 0;
    call!(SYS_lseek, fd.0, offset, SEEK_SET).map(drop)
}

/// A pipe: the end to read from, and the end to write to.
pub fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [-1i32; 2];
    call!(SYS_pipe2, ends.as_mut_ptr(), open::CLOEXEC)?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(SYS_read, fd, buffer.as_mut_ptr(), buffer.len())
}

/// Which file this is: the same pair that `stat` shows as device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// The identity of what `fd` refers to. Does not ask a network server, which might not answer.
pub fn identity(fd: i32) -> Result<Identity> {
    const AT_STATX_DONT_SYNC: usize = 0x4000;
    const STATX_INO: usize = 0x100;
    let mut statx = [0u64; 32];
    call!(SYS_statx, fd, at(c""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, statx.as_mut_ptr())?;
    // struct statx: stx_ino at byte 32, stx_dev_major and stx_dev_minor at bytes 136 and 140.
    let (major, minor) = (statx[17] & 0xffff_ffff, statx[17] >> 32);
    Ok(Identity { device: major << 32 | minor, inode: statx[4] })
}

/// What stands at a place.
pub struct Standing {
    pub folder: bool,
    /// Whether it is the top of a mount. Before Linux 5.8 nothing says so.
    pub mount_root: bool,
    /// The number of the mount it is on. From Linux 6.8 on no other mount ever gets that number.
    pub mount: u64,
    pub identity: Identity,
}

pub fn standing(fd: i32) -> Result<Standing> {
    const AT_STATX_DONT_SYNC: usize = 0x4000;
    const STATX_TYPE: usize = 1;
    const STATX_INO: usize = 0x100;
    const STATX_MNT_ID: usize = 0x1000;
    const STATX_MNT_ID_UNIQUE: usize = 0x4000;
    const WANTED: usize = STATX_TYPE | STATX_INO | STATX_MNT_ID | STATX_MNT_ID_UNIQUE;
    const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;
    let mut statx = [0u64; 32];
    call!(SYS_statx, fd, at(c""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC, WANTED, statx.as_mut_ptr())?;
    // struct statx: stx_attributes at byte 8, stx_mode at byte 28, stx_ino at byte 32, stx_dev_major and stx_dev_minor at
    // bytes 136 and 140, stx_mnt_id at byte 144.
    let mode = (statx[3] >> 32) & 0o170_000;
    let (major, minor) = (statx[17] & 0xffff_ffff, statx[17] >> 32);
    Ok(Standing {
        folder: mode == 0o040_000,
        mount_root: statx[1] & STATX_ATTR_MOUNT_ROOT != 0,
        mount: statx[18],
        identity: Identity { device: major << 32 | minor, inode: statx[4] },
    })
}

pub fn chdir(path: &CStr) -> Result<()> {
    call!(SYS_chdir, at(path)).map(drop)
}

pub fn fchdir(fd: i32) -> Result<()> {
    call!(SYS_fchdir, fd).map(drop)
}

/// Sets the mask of permissions that new files do not get; returns the one before.
pub fn umask(mask: u32) -> u32 {
    call!(SYS_umask, mask).map_or(0o022, |before| before as u32)
}

/// Closes every descriptor from `first` to `last`, both included.
pub fn close_range(first: u32, last: u32) -> Result<()> {
    call!(SYS_close_range, first, last, 0).map(drop)
}

pub fn close(fd: i32) {
    let _ = call!(SYS_close, fd);
}

pub fn dup3(from: i32, to: i32, cloexec: bool) -> Result<()> {
    call!(SYS_dup3, from, to, if cloexec { open::CLOEXEC } else { 0 }).map(drop)
}

/// A copy of `fd` numbered `lowest` or above, closed at exec.
pub fn dup_above(fd: i32, lowest: i32) -> Result<i32> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    call!(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest).map(|n| n as i32)
}

/// Sets whether `fd` closes at exec.
pub fn set_cloexec(fd: i32, on: bool) -> Result<()> {
    call!(SYS_fcntl, fd, 2, usize::from(on)).map(drop)
}

/// A request about an open file, with a number.
pub fn ioctl(fd: i32, request: usize, argument: usize) -> Result<usize> {
    call!(SYS_ioctl, fd, request, argument)
}

/// A request that reads what is told with it. It has to be all that the request looks at.
pub fn ioctl_with<T: ?Sized>(fd: i32, request: usize, told: &T) -> Result<()> {
    call!(SYS_ioctl, fd, request, (&raw const *told).cast::<u8>()).map(drop)
}

/// A request that answers with a number.
pub fn ioctl_number(fd: i32, request: usize) -> Result<i32> {
    let mut number = 0i32;
    call!(SYS_ioctl, fd, request, &raw mut number)?;
    Ok(number)
}
