//! Raw system calls, for code that may not touch libc: no errno, no locks, no allocation.
//!
//! Everything here is a thin, typed line over one kernel call. The callers are PID 1 and the few instructions
//! between a clone and an exec, where libc's state belongs to somebody else (a vfork child shares its parent's).

#![allow(missing_docs, reason = "the names and arguments are the kernel's own; see its manual pages")]

use core::ffi::CStr;

/// A kernel error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const EINTR: Errno = Errno(4);
    pub const ENOEXEC: Errno = Errno(8);
    pub const ECHILD: Errno = Errno(10);
    pub const EAGAIN: Errno = Errno(11);
    pub const EACCES: Errno = Errno(13);
    pub const EEXIST: Errno = Errno(17);
    pub const ENOTDIR: Errno = Errno(20);
    pub const EROFS: Errno = Errno(30);
    pub const ELIBACC: Errno = Errno(79);
    pub const EINVAL: Errno = Errno(22);
    pub const ELOOP: Errno = Errno(40);
    pub const ENOSYS: Errno = Errno(38);
    pub const EPROTO: Errno = Errno(71);
    /// What was opened is not what the planner saw: somebody changed the path during set-up.
    pub const ESTALE: Errno = Errno(116);
    pub const ECANCELED: Errno = Errno(125);
}

#[cfg(target_arch = "x86_64")]
pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const BRK: usize = 12;
    pub const UNSHARE: usize = 272;
    pub const SETNS: usize = 308;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const IOCTL: usize = 16;
    pub const GETPID: usize = 39;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const SOCKET: usize = 41;
    pub const SOCKETPAIR: usize = 53;
    pub const SENDTO: usize = 44;
    pub const RECVFROM: usize = 45;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const BIND: usize = 49;
    pub const LISTEN: usize = 50;
    pub const SETSOCKOPT: usize = 54;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const FCHDIR: usize = 81;
    pub const CHDIR: usize = 80;
    pub const UMASK: usize = 95;
    pub const SETPGID: usize = 109;
    pub const SETSID: usize = 112;
    pub const CAPSET: usize = 126;
    pub const PRCTL: usize = 157;
    pub const PIVOT_ROOT: usize = 155;
    pub const MOUNT: usize = 165;
    pub const UMOUNT2: usize = 166;
    pub const SETHOSTNAME: usize = 170;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const WAITID: usize = 247;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const FACCESSAT: usize = 269;
    pub const MKNODAT: usize = 259;
    pub const FCHMOD: usize = 91;
    pub const FSETXATTR: usize = 190;
    pub const SYMLINKAT: usize = 266;
    pub const READLINKAT: usize = 267;
    pub const PPOLL: usize = 271;
    pub const SIGNALFD4: usize = 289;
    pub const DUP3: usize = 292;
    pub const PIPE2: usize = 293;
    pub const PRLIMIT64: usize = 302;
    pub const SECCOMP: usize = 317;
    pub const EXECVEAT: usize = 322;
    pub const STATX: usize = 332;
    pub const KEYCTL: usize = 250;
    pub const FCHOWNAT: usize = 260;
    pub const SETGROUPS: usize = 116;
    pub const SETRESUID: usize = 117;
    pub const SETRESGID: usize = 119;
    pub const FSTATFS: usize = 138;
}

#[cfg(target_arch = "aarch64")]
pub mod nr {
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const CLOSE: usize = 57;
    pub const LSEEK: usize = 62;
    pub const MMAP: usize = 222;
    pub const BRK: usize = 214;
    pub const UNSHARE: usize = 97;
    pub const SETNS: usize = 268;
    pub const MUNMAP: usize = 215;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const IOCTL: usize = 29;
    pub const GETPID: usize = 172;
    pub const GETEUID: usize = 175;
    pub const GETEGID: usize = 177;
    pub const SOCKET: usize = 198;
    pub const SOCKETPAIR: usize = 199;
    pub const SENDTO: usize = 206;
    pub const RECVFROM: usize = 207;
    pub const SENDMSG: usize = 211;
    pub const RECVMSG: usize = 212;
    pub const BIND: usize = 200;
    pub const LISTEN: usize = 201;
    pub const SETSOCKOPT: usize = 208;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const KILL: usize = 129;
    pub const FCNTL: usize = 25;
    pub const FCHDIR: usize = 50;
    pub const CHDIR: usize = 49;
    pub const UMASK: usize = 166;
    pub const SETPGID: usize = 154;
    pub const SETSID: usize = 157;
    pub const CAPSET: usize = 91;
    pub const PRCTL: usize = 167;
    pub const PIVOT_ROOT: usize = 41;
    pub const MOUNT: usize = 40;
    pub const UMOUNT2: usize = 39;
    pub const SETHOSTNAME: usize = 161;
    pub const GETDENTS64: usize = 61;
    pub const CLOCK_GETTIME: usize = 113;
    pub const EXIT_GROUP: usize = 94;
    pub const WAITID: usize = 95;
    pub const OPENAT: usize = 56;
    pub const MKDIRAT: usize = 34;
    pub const FACCESSAT: usize = 48;
    pub const MKNODAT: usize = 33;
    pub const FCHMOD: usize = 52;
    pub const FSETXATTR: usize = 7;
    pub const SYMLINKAT: usize = 36;
    pub const READLINKAT: usize = 78;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD4: usize = 74;
    pub const DUP3: usize = 24;
    pub const PIPE2: usize = 59;
    pub const PRLIMIT64: usize = 261;
    pub const SECCOMP: usize = 277;
    pub const EXECVEAT: usize = 281;
    pub const STATX: usize = 291;
    pub const KEYCTL: usize = 219;
    pub const FCHOWNAT: usize = 54;
    pub const SETGROUPS: usize = 159;
    pub const SETRESUID: usize = 147;
    pub const SETRESGID: usize = 149;
    pub const FSTATFS: usize = 44;
}

/// Calls newer than 2019 have one number on every architecture.
pub mod nr_common {
    pub const OPEN_TREE: usize = 428;
    pub const MOVE_MOUNT: usize = 429;
    pub const FSOPEN: usize = 430;
    pub const FSCONFIG: usize = 431;
    pub const FSMOUNT: usize = 432;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLONE3: usize = 435;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const MOUNT_SETATTR: usize = 442;
    pub const LANDLOCK_CREATE_RULESET: usize = 444;
    pub const LANDLOCK_ADD_RULE: usize = 445;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the kernel expects of call `n`: pointers valid for what it reads and writes.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn syscall(n: usize, a: [usize; 6]) -> Result<usize> {
    let ret: isize;
    // SAFETY: the caller vouches for the arguments; the instruction clobbers only rcx, r11 and memory.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") n as isize => ret, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    returned(ret)
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the kernel expects of call `n`: pointers valid for what it reads and writes.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn syscall(n: usize, a: [usize; 6]) -> Result<usize> {
    let ret: isize;
    // SAFETY: the caller vouches for the arguments; the instruction clobbers only x0 and memory.
    unsafe {
        core::arch::asm!("svc 0", in("x8") n, inlateout("x0") a[0] as isize => ret, in("x1") a[1],
            in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    returned(ret)
}

/// What a raw return value means.
#[inline]
pub fn returned(ret: isize) -> Result<usize> {
    if (-4095..0).contains(&ret) { Err(Errno(-ret as i32)) } else { Ok(ret as usize) }
}

/// A path argument: always NUL-terminated, because it comes as a `CStr`.
fn at(path: &CStr) -> usize {
    path.as_ptr() as usize
}

macro_rules! call {
    ($n:expr $(, $a:expr)*) => {{
        let list: &[usize] = &[$($a as usize),*];
        let mut a = [0usize; 6];
        a[..list.len()].copy_from_slice(list);
        // SAFETY: every pointer passed below comes from a reference or slice that outlives the call.
        unsafe { syscall($n, a) }
    }};
}

pub const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: usize = 0x1000;

/// An open descriptor that closes itself.
pub struct Fd(pub i32);

impl Drop for Fd {
    fn drop(&mut self) {
        let _ = call!(nr::CLOSE, self.0);
    }
}

impl Fd {
    pub fn raw(&self) -> i32 {
        self.0
    }

    /// Gives up the closing.
    pub fn into_raw(self) -> i32 {
        core::mem::ManuallyDrop::new(self).0
    }
}

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
    match call!(nr_common::OPENAT2, dir, at(path), &raw const how, size_of::<OpenHow>()) {
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
        call!(nr::OPENAT, dir, at(name), flags | open::CLOEXEC, mode).map(|fd| Fd(fd as i32))
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
    call!(nr::FACCESSAT, AT_FDCWD, at(path), F_OK).is_ok()
}

pub fn openat(dir: i32, path: &CStr, flags: u64) -> Result<Fd> {
    call!(nr::OPENAT, dir, at(path), flags | open::CLOEXEC, 0).map(|fd| Fd(fd as i32))
}

pub fn mkdirat(dir: i32, path: &CStr, mode: u32) -> Result<()> {
    call!(nr::MKDIRAT, dir, at(path), mode).map(drop)
}

/// Makes an empty regular file.
pub fn mknod_file(dir: i32, path: &CStr, mode: u32) -> Result<()> {
    const S_IFREG: u32 = 0o100000;
    call!(nr::MKNODAT, dir, at(path), S_IFREG | mode, 0).map(drop)
}

pub fn symlinkat(target: &CStr, dir: i32, path: &CStr) -> Result<()> {
    call!(nr::SYMLINKAT, at(target), dir, at(path)).map(drop)
}

/// Leaves an owner or a group as it is.
pub const UNCHANGED: u32 = u32::MAX;

/// Changes owner and group, of a symlink itself. An empty path means what `dir` refers to.
pub fn chown(dir: i32, path: &CStr, uid: u32, gid: u32) -> Result<()> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    call!(nr::FCHOWNAT, dir, at(path), uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH).map(drop)
}

/// Gives up all other groups.
pub fn clear_groups() -> Result<()> {
    call!(nr::SETGROUPS, 0, 0).map(drop)
}

/// Becomes this user in every respect.
pub fn set_user(uid: u32) -> Result<()> {
    call!(nr::SETRESUID, uid, uid, uid).map(drop)
}

/// Has this group in every respect.
pub fn set_group(gid: u32) -> Result<()> {
    call!(nr::SETRESGID, gid, gid, gid).map(drop)
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
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    const BASIC: usize = 0x7ff;
    let mut statx = [0u64; 32];
    call!(nr::STATX, dir, at(path), AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, BASIC, statx.as_mut_ptr())?;
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
    call!(nr::FSTATFS, fd, statfs.as_mut_ptr())?;
    // SAFETY: a local value, which the kernel has written.
    Ok(unsafe { core::ptr::read_volatile(&raw const statfs[0]) })
}

pub fn fchmod(fd: i32, mode: u32) -> Result<()> {
    call!(nr::FCHMOD, fd, mode).map(drop)
}

/// Gives an open file an extended attribute with an empty value.
pub fn set_attribute(fd: i32, name: &CStr) -> Result<()> {
    call!(nr::FSETXATTR, fd, at(name), at(c""), 0, 0).map(drop)
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    call!(nr::WRITE, fd, bytes.as_ptr(), bytes.len())
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
    call!(nr::READLINKAT, dir, at(path), buffer.as_mut_ptr(), buffer.len())
}

/// Reads entries of a folder, as the kernel lays them out.
pub fn getdents(folder: &Fd, buffer: &mut [u8]) -> Result<usize> {
    call!(nr::GETDENTS64, folder.0, buffer.as_mut_ptr(), buffer.len())
}

/// Sets where a file is read on.
pub fn seek(fd: &Fd, offset: u64) -> Result<()> {
    const SEEK_SET: usize = 0;
    call!(nr::LSEEK, fd.0, offset, SEEK_SET).map(drop)
}

/// A pipe: the end to read from, and the end to write to.
pub fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [-1i32; 2];
    call!(nr::PIPE2, ends.as_mut_ptr(), open::CLOEXEC)?;
    // SAFETY: a local value, which the kernel has written.
    let ends = unsafe { core::ptr::read_volatile(&raw const ends) };
    Ok((Fd(ends[0]), Fd(ends[1])))
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(nr::READ, fd, buffer.as_mut_ptr(), buffer.len())
}

/// Which file this is: the same pair that `stat` shows as device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// The identity of what `fd` refers to. Does not ask a network server, which might not answer.
pub fn identity(fd: i32) -> Result<Identity> {
    const AT_STATX_DONT_SYNC: usize = 0x4000;
    const STATX_INO: usize = 0x100;
    let mut statx = [0u64; 32];
    call!(nr::STATX, fd, at(c""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, statx.as_mut_ptr())?;
    // struct statx: stx_ino at byte 32, stx_dev_major and stx_dev_minor at bytes 136 and 140.
    let (major, minor) = (statx[17] & 0xffff_ffff, statx[17] >> 32);
    Ok(Identity { device: major << 32 | minor, inode: statx[4] })
}

/// What stands at a place.
pub struct Standing {
    pub folder: bool,
    /// Whether it is the top of a mount. Before Linux 5.8 nothing says so.
    pub mount_root: bool,
}

pub fn standing(fd: i32) -> Result<Standing> {
    const AT_STATX_DONT_SYNC: usize = 0x4000;
    const STATX_TYPE: usize = 1;
    const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;
    let mut statx = [0u64; 32];
    call!(nr::STATX, fd, at(c""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, statx.as_mut_ptr())?;
    // struct statx: stx_attributes at byte 8, stx_mode at byte 28.
    let mode = (statx[3] >> 32) & 0o170_000;
    Ok(Standing { folder: mode == 0o040_000, mount_root: statx[1] & STATX_ATTR_MOUNT_ROOT != 0 })
}

pub mod mount {
    pub const ATTR_RDONLY: u64 = 0x01;
    pub const ATTR_NOSUID: u64 = 0x02;
    pub const ATTR_NODEV: u64 = 0x04;
    pub const ATTR_NOEXEC: u64 = 0x08;
    pub const MS_RDONLY: usize = 1;
    pub const MS_NOSUID: usize = 2;
    pub const MS_NODEV: usize = 4;
    pub const MS_NOEXEC: usize = 8;
    pub const MS_REMOUNT: usize = 32;
    pub const MS_NOATIME: usize = 1024;
    pub const MS_NODIRATIME: usize = 2048;
    pub const MS_BIND: usize = 4096;
    pub const MS_REC: usize = 16384;
    pub const MS_PRIVATE: usize = 1 << 18;
    pub const MS_SHARED: usize = 1 << 20;
    pub const MS_RELATIME: usize = 1 << 21;
    pub const MNT_DETACH: usize = 2;
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

const AT_RECURSIVE: usize = 0x8000;

/// A detached copy of the mount below `path`, with its submounts when `recursive`. A last component that is a
/// symlink is not followed.
pub fn clone_tree(dir: i32, path: &CStr, recursive: bool) -> Result<Fd> {
    const OPEN_TREE_CLONE: usize = 1;
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let mut flags = OPEN_TREE_CLONE | open::CLOEXEC as usize | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    if recursive {
        flags |= AT_RECURSIVE;
    }
    call!(nr_common::OPEN_TREE, dir, at(path), flags).map(|fd| Fd(fd as i32))
}

/// Sets and clears attributes on the mount that `fd` is the root of, and on all below it when `recursive`.
pub fn mount_setattr(fd: i32, set: u64, clear: u64, recursive: bool) -> Result<()> {
    let attr = MountAttr { set, clear, propagation: 0, userns_fd: 0 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    call!(nr_common::MOUNT_SETATTR, fd, at(c""), flags, &raw const attr, size_of::<MountAttr>()).map(drop)
}

/// Attaches the mount `tree` on top of what `target` in the folder `target_dir` refers to, without following a
/// symlink there.
pub fn attach(tree: i32, target_dir: i32, target: &CStr) -> Result<()> {
    const F_EMPTY_PATH: usize = 0x04;
    const T_EMPTY_PATH: usize = 0x40;
    call!(nr_common::MOVE_MOUNT, tree, at(c""), target_dir, at(target), F_EMPTY_PATH | T_EMPTY_PATH).map(drop)
}

/// A new file system instance being configured.
pub fn fsopen(kind: &CStr) -> Result<Fd> {
    call!(nr_common::FSOPEN, at(kind), 1).map(|fd| Fd(fd as i32))
}

pub fn fsconfig_string(fs: &Fd, key: &CStr, value: &CStr) -> Result<()> {
    call!(nr_common::FSCONFIG, fs.0, 1, at(key), at(value), 0).map(drop)
}

pub fn fsconfig_flag(fs: &Fd, key: &CStr) -> Result<()> {
    call!(nr_common::FSCONFIG, fs.0, 0, at(key), 0, 0).map(drop)
}

/// Creates the instance and returns it as a detached mount.
pub fn fsmount(fs: &Fd, attributes: u64) -> Result<Fd> {
    call!(nr_common::FSCONFIG, fs.0, 6, 0, 0, 0)?;
    call!(nr_common::FSMOUNT, fs.0, 1, attributes).map(|fd| Fd(fd as i32))
}

/// The old call, for what the new ones cannot say or an old kernel does not have.
pub fn mount(target: &CStr, flags: usize) -> Result<()> {
    call!(nr::MOUNT, 0, at(target), 0, flags, 0).map(drop)
}

pub fn pivot_root_here() -> Result<()> {
    call!(nr::PIVOT_ROOT, at(c"."), at(c".")).map(drop)
}

pub fn unmount_detached(path: &CStr) -> Result<()> {
    call!(nr::UMOUNT2, at(path), mount::MNT_DETACH).map(drop)
}

pub fn chdir(path: &CStr) -> Result<()> {
    call!(nr::CHDIR, at(path)).map(drop)
}

pub fn fchdir(fd: i32) -> Result<()> {
    call!(nr::FCHDIR, fd).map(drop)
}

pub fn sethostname(name: &[u8]) -> Result<()> {
    call!(nr::SETHOSTNAME, name.as_ptr(), name.len()).map(drop)
}

/// Sets the mask of permissions that new files do not get; returns the one before.
pub fn umask(mask: u32) -> u32 {
    call!(nr::UMASK, mask).map_or(0o022, |before| before as u32)
}

/// Leaves the session keyring for a new one.
pub fn join_new_session_keyring() -> Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
    call!(nr::KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, 0).map(drop)
}

pub fn prctl(option: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    call!(nr::PRCTL, option, a, b, c, d)
}

/// Sets this process's effective, permitted and inheritable capability sets.
pub fn capset(effective: u64, permitted: u64, inheritable: u64) -> Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let data: [u32; 6] = [
        effective as u32,
        permitted as u32,
        inheritable as u32,
        (effective >> 32) as u32,
        (permitted >> 32) as u32,
        (inheritable >> 32) as u32,
    ];
    call!(nr::CAPSET, header.as_ptr(), data.as_ptr()).map(drop)
}

/// Lowers a resource limit of this process. One that is lower already stays: only the host's root may raise it.
pub fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let mut limit = [0u64; 2];
    call!(nr::PRLIMIT64, 0, resource, 0, limit.as_mut_ptr())?;
    let hard = hard.min(limit[1]);
    limit = [soft.min(hard), hard];
    call!(nr::PRLIMIT64, 0, resource, limit.as_ptr(), 0).map(drop)
}

pub fn landlock_create(attributes: &[u64]) -> Result<Fd> {
    call!(nr_common::LANDLOCK_CREATE_RULESET, attributes.as_ptr(), size_of_val(attributes), 0)
        .map(|fd| Fd(fd as i32))
}

#[repr(C, packed)]
struct PathBeneath {
    access: u64,
    parent: i32,
}

pub fn landlock_allow_path(rules: &Fd, parent: i32, access: u64) -> Result<()> {
    let rule = PathBeneath { access, parent };
    call!(nr_common::LANDLOCK_ADD_RULE, rules.0, 1, &raw const rule, 0).map(drop)
}

pub fn landlock_allow_port(rules: &Fd, port: u16, access: u64) -> Result<()> {
    let rule = [access, u64::from(port)];
    call!(nr_common::LANDLOCK_ADD_RULE, rules.0, 2, rule.as_ptr(), 0).map(drop)
}

pub fn landlock_restrict(rules: i32) -> Result<()> {
    call!(nr_common::LANDLOCK_RESTRICT_SELF, rules, 0).map(drop)
}

/// Installs a filter of classic BPF instructions (8 bytes each). With `listener`, returns its notification fd.
pub fn seccomp_filter(program: &[u8], flags: usize) -> Result<usize> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const u8,
    }
    let len = u16::try_from(program.len() / 8).map_err(|_| Errno::EINVAL)?;
    let program = Program { len, filter: program.as_ptr() };
    call!(nr::SECCOMP, 1, flags, &raw const program)
}

/// Closes every descriptor from `first` to `last`, both included.
pub fn close_range(first: u32, last: u32) -> Result<()> {
    call!(nr_common::CLOSE_RANGE, first, last, 0).map(drop)
}

pub fn close(fd: i32) {
    let _ = call!(nr::CLOSE, fd);
}

pub fn dup3(from: i32, to: i32, cloexec: bool) -> Result<()> {
    call!(nr::DUP3, from, to, if cloexec { open::CLOEXEC } else { 0 }).map(drop)
}

/// A copy of `fd` numbered `lowest` or above, closed at exec.
pub fn dup_above(fd: i32, lowest: i32) -> Result<i32> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    call!(nr::FCNTL, fd, F_DUPFD_CLOEXEC, lowest).map(|n| n as i32)
}

/// Sets whether `fd` closes at exec.
pub fn set_cloexec(fd: i32, on: bool) -> Result<()> {
    call!(nr::FCNTL, fd, 2, usize::from(on)).map(drop)
}

pub fn socket(domain: u32, kind: u32, protocol: u32) -> Result<Fd> {
    const SOCK_CLOEXEC: u32 = 0o2000000;
    call!(nr::SOCKET, domain, kind | SOCK_CLOEXEC, protocol).map(|fd| Fd(fd as i32))
}

/// Two unix sockets that keep the bounds of messages, connected to each other for good.
pub fn packet_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: usize = 1;
    const SOCK_SEQPACKET: usize = 5;
    const SOCK_CLOEXEC: usize = 0o2000000;
    let mut pair = [-1; 2];
    call!(nr::SOCKETPAIR, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.as_mut_ptr())?;
    Ok(pair.map(Fd))
}

pub fn bind(socket: &Fd, address: &[u8]) -> Result<()> {
    call!(nr::BIND, socket.0, address.as_ptr(), address.len()).map(drop)
}

pub fn listen(socket: &Fd, backlog: u32) -> Result<()> {
    call!(nr::LISTEN, socket.0, backlog).map(drop)
}

pub fn setsockopt_u32(socket: &Fd, level: u32, name: u32, value: u32) -> Result<()> {
    call!(nr::SETSOCKOPT, socket.0, level, name, &raw const value, 4).map(drop)
}

pub fn send(socket: i32, bytes: &[u8]) -> Result<usize> {
    const MSG_NOSIGNAL: usize = 0x4000;
    call!(nr::SENDTO, socket, bytes.as_ptr(), bytes.len(), MSG_NOSIGNAL, 0, 0)
}

pub fn recv(socket: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(nr::RECVFROM, socket, buffer.as_mut_ptr(), buffer.len(), 0, 0, 0)
}

/// A control message with one descriptor (SCM_RIGHTS). Its length counts the header (16) and one int (4).
#[repr(C)]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

const SCM_RIGHTS: Control = Control { len: 20, level: 1, kind: 1, fd: -1, padding: 0 };

/// `struct msghdr`.
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_len: u32,
    iov: *const [usize; 2],
    iov_len: usize,
    control: *const Control,
    control_len: usize,
    flags: i32,
}

/// Sends `bytes` and one descriptor.
pub fn send_with_fd(socket: i32, bytes: &[u8], fd: i32) -> Result<()> {
    let control = Control { fd, ..SCM_RIGHTS };
    let iov = [bytes.as_ptr() as usize, bytes.len()];
    let header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw const iov,
        iov_len: 1,
        control: &raw const control,
        control_len: size_of::<Control>(),
        flags: 0,
    };
    call!(nr::SENDMSG, socket, &raw const header, 0x4000).map(drop)
}

/// The most descriptors that come with one message.
pub const MOST_FDS: usize = 8;

/// Receives a message, and the descriptors that came with it.
pub fn recv_with_fds(socket: i32, buffer: &mut [u8]) -> Result<(usize, [Option<Fd>; MOST_FDS])> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    #[repr(C)]
    struct Controls {
        len: usize,
        level: i32,
        kind: i32,
        fds: [i32; MOST_FDS],
    }
    let mut control = Controls { len: 0, level: 0, kind: 0, fds: [-1; MOST_FDS] };
    let iov = [buffer.as_mut_ptr() as usize, buffer.len()];
    let mut header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw const iov,
        iov_len: 1,
        control: (&raw mut control).cast(),
        control_len: size_of::<Controls>(),
        flags: 0,
    };
    let received = call!(nr::RECVMSG, socket, &raw mut header, MSG_CMSG_CLOEXEC)?;
    // The kernel writes the control message, and the descriptors from the first place on; what it wrote is read back as
    // memory that may have changed.
    // SAFETY: a local value.
    let fds = unsafe { core::ptr::read_volatile(&raw const control.fds) };
    Ok((received, fds.map(|fd| (fd >= 0).then(|| Fd(fd)))))
}

pub fn ioctl(fd: i32, request: usize, argument: usize) -> Result<usize> {
    call!(nr::IOCTL, fd, request, argument)
}

pub fn kill(pid: i32, signal: i32) -> Result<()> {
    call!(nr::KILL, pid, signal).map(drop)
}

pub fn getpid() -> i32 {
    call!(nr::GETPID).map_or(0, |pid| pid as i32)
}

/// A descriptor that refers to a process.
pub fn pidfd_open(pid: i32) -> Result<Fd> {
    call!(nr_common::PIDFD_OPEN, pid, 0).map(|fd| Fd(fd as i32))
}

pub fn setpgid(pid: i32, group: i32) -> Result<()> {
    call!(nr::SETPGID, pid, group).map(drop)
}

pub fn setsid() -> Result<()> {
    call!(nr::SETSID).map(drop)
}

/// Replaces the set of blocked signals.
pub fn set_signal_mask(mask: u64) -> Result<()> {
    call!(nr::RT_SIGPROCMASK, 2, &raw const mask, 0, 8).map(drop)
}

/// The highest number of a signal.
pub const LAST_SIGNAL: i32 = 64;
/// Forgets the signals that are blocked and have come.
pub fn drop_signals() {
    let (all, no_time) = (u64::MAX, [0u64; 2]);
    while call!(nr::RT_SIGTIMEDWAIT, &raw const all, 0, no_time.as_ptr(), 8).is_ok() {}
}

/// Puts a signal's action back to the default.
pub fn default_action(signal: i32) {
    // struct kernel_sigaction, all zero: SIG_DFL, no flags, empty mask (it is 32 bytes on both architectures).
    let action = [0u64; 4];
    let _ = call!(nr::RT_SIGACTION, signal, action.as_ptr(), 0, 8);
}

/// A descriptor that reads as the signals in `mask`.
pub fn signalfd(mask: u64) -> Result<Fd> {
    const SFD_CLOEXEC: usize = 0o2000000;
    const SFD_NONBLOCK: usize = 0o4000;
    call!(nr::SIGNALFD4, -1isize, &raw const mask, 8, SFD_CLOEXEC | SFD_NONBLOCK).map(|fd| Fd(fd as i32))
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollFd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

pub const POLLIN: i16 = 1;

/// Waits, without a time limit, until one of `fds` is ready.
pub fn poll(fds: &mut [PollFd]) -> Result<usize> {
    call!(nr::PPOLL, fds.as_mut_ptr(), fds.len(), 0, 0, 0)
}

/// The same for at most so many nanoseconds; 0 when the time has passed.
pub fn poll_for(fds: &mut [PollFd], nanoseconds: u64) -> Result<usize> {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    call!(nr::PPOLL, fds.as_mut_ptr(), fds.len(), time.as_ptr(), 0, 0)
}

/// The time in nanoseconds, by the clock that nobody sets.
pub fn now() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    let _ = call!(nr::CLOCK_GETTIME, CLOCK_MONOTONIC, time.as_mut_ptr());
    // SAFETY: a local value, which the kernel has written.
    let time = unsafe { core::ptr::read_volatile(&raw const time) };
    time[0] * 1_000_000_000 + time[1]
}

/// The time of day, in seconds.
pub fn time_of_day() -> i64 {
    const CLOCK_REALTIME: usize = 0;
    let mut time = [0i64; 2];
    let _ = call!(nr::CLOCK_GETTIME, CLOCK_REALTIME, time.as_mut_ptr());
    // SAFETY: a local value, which the kernel has written.
    unsafe { core::ptr::read_volatile(&raw const time[0]) }
}

/// What processes have used.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// CPU time in programs, in microseconds.
    pub user: i64,
    /// CPU time in the kernel, in microseconds.
    pub system: i64,
    /// The most memory of any one of them, in KiB.
    pub peak: i64,
}

/// A child that changed state.
pub struct ChildState {
    pub pid: i32,
    /// CLD_EXITED 1, CLD_KILLED 2, CLD_DUMPED 3, CLD_STOPPED 5, CLD_CONTINUED 6.
    pub code: i32,
    pub status: i32,
    /// Its own and that of the descendants it waited for.
    pub usage: Usage,
}

const WEXITED: usize = 4;
/// Children without a signal at their end too.
const WALL: usize = 0x4000_0000;

/// Takes one child's change of state, if there is one. `None` when there is none now; `ECHILD` when no child is
/// left.
pub fn wait_any() -> Result<Option<ChildState>> {
    const WNOHANG: usize = 1;
    const WSTOPPED: usize = 2;
    wait_all(WNOHANG | WSTOPPED | WEXITED | WALL)
}

/// Waits until some child has ended.
pub fn wait_next() -> Result<Option<ChildState>> {
    wait_all(WEXITED | WALL)
}

fn wait_all(which: usize) -> Result<Option<ChildState>> {
    const P_ALL: usize = 0;
    let mut info = [0i32; 32];
    // struct rusage: two times, each in seconds and microseconds, then the peak in KiB.
    let mut usage = [0i64; 18];
    call!(nr::WAITID, P_ALL, 0, info.as_mut_ptr(), which, usage.as_mut_ptr())?;
    // siginfo_t: si_code at int 2, si_pid at int 4, si_status at int 6.
    if info[4] == 0 {
        return Ok(None);
    }
    let [user, system] = [0, 2].map(|at| usage[at] * 1_000_000 + usage[at + 1]);
    let usage = Usage { user, system, peak: usage[4] };
    Ok(Some(ChildState { pid: info[4], code: info[2], status: info[6], usage }))
}

/// Waits for the end of a child.
pub fn wait_for(pid: i32) -> Result<()> {
    const P_PID: usize = 1;
    loop {
        match call!(nr::WAITID, P_PID, pid, 0, WEXITED | WALL, 0) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Fresh zeroed memory, never given back.
pub fn map_memory(bytes: usize) -> Result<*mut u8> {
    // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS.
    call!(nr::MMAP, 0, bytes, 3, 0x22, -1isize, 0).map(|address| address as *mut u8)
}

/// Moves the end of the heap.
pub fn brk(end: usize) {
    let _ = call!(nr::BRK, end);
}

/// Where the program break is.
pub fn program_break() -> usize {
    call!(nr::BRK, 0).unwrap_or(0)
}

/// Gives memory back.
///
/// # Safety
/// Nothing may use it any more.
pub unsafe fn unmap((start, end): (usize, usize)) {
    if end > start {
        let _ = call!(nr::MUNMAP, start, end - start);
    }
}

/// Leaves for a fresh network namespace.
pub fn unshare_network() -> Result<()> {
    call!(nr::UNSHARE, super::clone::flag::NEWNET).map(drop)
}

/// Leaves for a copy of the mounts.
pub fn unshare_mounts() -> Result<()> {
    call!(nr::UNSHARE, super::clone::flag::NEWNS).map(drop)
}

/// Leaves for a fresh user namespace.
pub fn unshare_user() -> Result<()> {
    call!(nr::UNSHARE, super::clone::flag::NEWUSER).map(drop)
}

/// The effective user and group of this process.
pub fn own_ids() -> [u32; 2] {
    // Neither call can fail.
    [call!(nr::GETEUID).unwrap_or(0) as u32, call!(nr::GETEGID).unwrap_or(0) as u32]
}

/// Leaves for a cgroup namespace that begins at the cgroups that this process is in.
pub fn unshare_cgroups() -> Result<()> {
    call!(nr::UNSHARE, super::clone::flag::NEWCGROUP).map(drop)
}

/// Goes over to the namespace open as `fd`, of the type that a flag of clone names.
pub fn enter_namespace(fd: i32, kind: u64) -> Result<()> {
    call!(nr::SETNS, fd, kind).map(drop)
}

/// Goes over to a network namespace.
pub fn enter_network(network: &Fd) -> Result<()> {
    enter_namespace(network.raw(), super::clone::flag::NEWNET)
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call!(nr::EXIT_GROUP, code);
    }
}

/// Replaces this program. Returns only when it could not.
///
/// # Safety
/// `argv` and `envp` must be null-terminated arrays of C strings.
pub unsafe fn execve(path: &CStr, argv: *const *const u8, envp: *const *const u8) -> Errno {
    call!(nr::EXECVE, at(path), argv, envp).err().unwrap_or(Errno::EINVAL)
}

/// Replaces this program by the one open as `fd`. Returns only when it could not.
///
/// # Safety
/// `argv` and `envp` must be null-terminated arrays of C strings.
pub unsafe fn execveat(fd: i32, argv: *const *const u8, envp: *const *const u8) -> Errno {
    call!(nr::EXECVEAT, fd, at(c""), argv, envp, AT_EMPTY_PATH).err().unwrap_or(Errno::EINVAL)
}
