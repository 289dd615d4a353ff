//! Mounts.

use core::ffi::CStr;

use super::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, Fd, Result, at, open};

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
    let mut flags = OPEN_TREE_CLONE | open::CLOEXEC as usize | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    if recursive {
        flags |= AT_RECURSIVE;
    }
    call!(SYS_open_tree, dir, at(path), flags).map(|fd| Fd(fd as i32))
}

/// Sets and clears attributes on the mount that `fd` is the root of, and on all below it when `recursive`.
pub fn mount_setattr(fd: i32, set: u64, clear: u64, recursive: bool) -> Result<()> {
    let attr = MountAttr { set, clear, propagation: 0, userns_fd: 0 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    call!(SYS_mount_setattr, fd, at(c""), flags, &raw const attr, size_of::<MountAttr>()).map(drop)
}

/// Attaches the mount `tree` on top of what `target` in the folder `target_dir` refers to, without following a
/// symlink there.
pub fn attach(tree: i32, target_dir: i32, target: &CStr) -> Result<()> {
    const F_EMPTY_PATH: usize = 0x04;
    const T_EMPTY_PATH: usize = 0x40;
    call!(SYS_move_mount, tree, at(c""), target_dir, at(target), F_EMPTY_PATH | T_EMPTY_PATH).map(drop)
}

/// A new file system instance being configured.
pub fn fsopen(kind: &CStr) -> Result<Fd> {
    call!(SYS_fsopen, at(kind), 1).map(|fd| Fd(fd as i32))
}

pub fn fsconfig_string(fs: &Fd, key: &CStr, value: &CStr) -> Result<()> {
    call!(SYS_fsconfig, fs.0, 1, at(key), at(value), 0).map(drop)
}

pub fn fsconfig_flag(fs: &Fd, key: &CStr) -> Result<()> {
    call!(SYS_fsconfig, fs.0, 0, at(key), 0, 0).map(drop)
}

/// Creates the instance and returns it as a detached mount.
pub fn fsmount(fs: &Fd, attributes: u64) -> Result<Fd> {
    call!(SYS_fsconfig, fs.0, 6, 0, 0, 0)?;
    call!(SYS_fsmount, fs.0, 1, attributes).map(|fd| Fd(fd as i32))
}

/// The old call, for what the new ones cannot say or an old kernel does not have.
pub fn mount(target: &CStr, flags: usize) -> Result<()> {
    call!(SYS_mount, 0, at(target), 0, flags, 0).map(drop)
}

/// Mounts what is at one path, without what is mounted below it, at another. It has the flags that the first has.
pub fn bind_by_path(source: &CStr, target: &CStr) -> Result<()> {
    call!(SYS_mount, at(source), at(target), 0, MS_BIND, 0).map(drop)
}

pub fn pivot_root_here() -> Result<()> {
    call!(SYS_pivot_root, at(c"."), at(c".")).map(drop)
}

pub fn unmount_detached(path: &CStr) -> Result<()> {
    call!(SYS_umount2, at(path), MNT_DETACH).map(drop)
}
