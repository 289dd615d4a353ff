//! Calls that use a path, as far as a program can fail at one: what each wants there.

use libc::c_long;

use super::calls::{Flags, PathArgument};
use super::listener::Notification;
use super::outer;
use crate::seccomp::power::FCHMODAT2;

/// A path of a call, and what it wants there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCall {
    /// The path.
    pub path: PathArgument,
    /// Whether a link at its end is followed.
    pub follow: bool,
    /// What the call wants.
    pub want: Want,
}

/// What a call wants at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To open it.
    Open(Flags),
    /// To make something where there is nothing.
    Make,
    /// To move something there.
    Replace,
    /// To move it elsewhere.
    Take,
    /// To remove it.
    Remove,
    /// To write it without opening it.
    Truncate,
    /// To change its mode, owner, times or attributes.
    Change,
    /// To execute it.
    Run,
    /// To go there.
    Enter,
    /// To find out what it is, or whether it may be used so: bits of access(2).
    LookUp(i32),
}

/// Newer than the libc crate's tables.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;

/// The calls with their paths, and how the first of these is read; all that [`path_calls`] knows.
pub const ALL: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_chdir,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

/// The paths of a call, and what it wants there; none for another call.
#[must_use]
pub fn path_calls(notification: &Notification) -> [Option<PathCall>; 2] {
    let a = notification.data.args;
    let at = |folder: usize, address: usize| PathArgument { folder: a[folder] as i32, address: a[address] };
    let here = |address: usize| PathArgument { folder: libc::AT_FDCWD, address: a[address] };
    let one = |path, follow, want| [Some(PathCall { path, follow, want }), None];
    let moved = |from, to| {
        let call = |path, want| Some(PathCall { path, follow: false, want });
        [call(from, Want::Take), call(to, Want::Replace)]
    };
    let open = |path, flags: i32| {
        let follow = flags & libc::O_NOFOLLOW == 0
            && flags & (libc::O_CREAT | libc::O_EXCL) != libc::O_CREAT | libc::O_EXCL;
        one(path, follow, Want::Open(Flags::Here(flags)))
    };
    // Flags that say that a link at the end is meant itself.
    let follows = |flags: usize| a[flags] as i32 & libc::AT_SYMLINK_NOFOLLOW == 0;
    match c_long::from(notification.data.nr) {
        libc::SYS_openat => open(at(0, 1), a[2] as i32),
        libc::SYS_openat2 => one(at(0, 1), true, Want::Open(Flags::InMemory { address: a[2], size: a[3] })),
        libc::SYS_mkdirat | libc::SYS_mknodat => one(at(0, 1), false, Want::Make),
        libc::SYS_symlinkat => one(at(1, 2), false, Want::Make),
        libc::SYS_linkat => one(at(2, 3), false, Want::Make),
        libc::SYS_unlinkat => one(at(0, 1), false, Want::Remove),
        // A question of a sandbox inside this one.
        libc::SYS_renameat2 if a[4] as u32 == outer::ASK => [None, None],
        libc::SYS_renameat | libc::SYS_renameat2 => moved(at(0, 1), at(2, 3)),
        libc::SYS_truncate => one(here(0), true, Want::Truncate),
        libc::SYS_fchmodat => one(at(0, 1), true, Want::Change),
        FCHMODAT2 => one(at(0, 1), follows(3), Want::Change),
        libc::SYS_fchownat => one(at(0, 1), follows(4), Want::Change),
        libc::SYS_utimensat => one(at(0, 1), follows(3), Want::Change),
        libc::SYS_setxattr | libc::SYS_removexattr => one(here(0), true, Want::Change),
        libc::SYS_lsetxattr | libc::SYS_lremovexattr => one(here(0), false, Want::Change),
        SETXATTRAT | REMOVEXATTRAT => one(at(0, 1), follows(2), Want::Change),
        libc::SYS_execve => one(here(0), true, Want::Run),
        libc::SYS_execveat => one(at(0, 1), follows(4), Want::Run),
        libc::SYS_chdir => one(here(0), true, Want::Enter),
        libc::SYS_newfstatat => one(at(0, 1), follows(3), Want::LookUp(0)),
        libc::SYS_statx => one(at(0, 1), follows(2), Want::LookUp(0)),
        libc::SYS_faccessat => one(at(0, 1), true, Want::LookUp(a[2] as i32)),
        libc::SYS_faccessat2 => one(at(0, 1), follows(3), Want::LookUp(a[2] as i32)),
        libc::SYS_readlinkat => one(at(0, 1), false, Want::LookUp(0)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => open(here(0), a[1] as i32),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => open(here(0), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir | libc::SYS_mknod => one(here(0), false, Want::Make),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink | libc::SYS_link => one(here(1), false, Want::Make),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir => one(here(0), false, Want::Remove),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => moved(here(0), here(1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown | libc::SYS_utime | libc::SYS_utimes => {
            one(here(0), true, Want::Change)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat => one(at(0, 1), true, Want::Change),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => one(here(0), false, Want::Change),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_stat => one(here(0), true, Want::LookUp(0)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lstat | libc::SYS_readlink => one(here(0), false, Want::LookUp(0)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_access => one(here(0), true, Want::LookUp(a[1] as i32)),
        _ => [None, None],
    }
}

impl Want {
    /// Whether the call is made to change something: what is told of without further ado, where the guard hears of it anyway.
    #[must_use]
    pub fn changes(self) -> bool {
        match self {
            Want::Open(Flags::Here(flags)) => opens_to_write(flags),
            Want::Open(Flags::InMemory { .. }) => true,
            Want::Make | Want::Replace | Want::Take | Want::Remove | Want::Truncate | Want::Change => true,
            Want::Run | Want::Enter | Want::LookUp(_) => false,
        }
    }
}

/// Whether an open with these flags changes something.
#[must_use]
pub fn opens_to_write(flags: i32) -> bool {
    flags & libc::O_PATH == 0 && flags & WRITING != 0
}

/// Any of these in the flags of an open makes it one that changes something.
pub const WRITING: i32 = libc::O_CREAT | libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC;

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that names a call which the match does not know would send it to be looked at in vain.
    #[test]
    fn every_call_of_the_list_has_a_path() {
        for call in ALL {
            // SAFETY: a notification is plain numbers.
            let mut notification: Notification = unsafe { std::mem::zeroed() };
            notification.data.nr = *call as i32;
            assert!(path_calls(&notification)[0].is_some(), "call {call}");
        }
    }

    #[test]
    fn only_opens_that_write_change_something() {
        for (flags, changes) in [
            (libc::O_RDONLY, false),
            (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, false),
            (libc::O_PATH | libc::O_RDWR, false),
            (libc::O_WRONLY, true),
            (libc::O_RDWR, true),
            (libc::O_CREAT | libc::O_RDONLY, true),
        ] {
            assert_eq!(Want::Open(Flags::Here(flags)).changes(), changes, "{flags:o}");
        }
    }
}
