//! The numbers that init has of its own, compared with libc's when this crate is compiled for a target.
//!
//! Init makes its calls without a C library and so has the numbers of system calls, and the flags that differ between
//! processors, in a table for each. A wrong one would call something else.

use kennel_init::child::sys::{nr, nr_common, open};

macro_rules! same_numbers {
    ($table:ident: $($ours:ident $theirs:ident),* $(,)?) => {
        $(const _: () = assert!($table::$ours as i64 == libc::$theirs as i64);)*
    };
}

same_numbers! { nr:
    READ SYS_read,
    WRITE SYS_write,
    CLOSE SYS_close,
    LSEEK SYS_lseek,
    MMAP SYS_mmap,
    BRK SYS_brk,
    UNSHARE SYS_unshare,
    SETNS SYS_setns,
    MUNMAP SYS_munmap,
    RT_SIGACTION SYS_rt_sigaction,
    RT_SIGPROCMASK SYS_rt_sigprocmask,
    RT_SIGTIMEDWAIT SYS_rt_sigtimedwait,
    IOCTL SYS_ioctl,
    GETPID SYS_getpid,
    GETEUID SYS_geteuid,
    GETEGID SYS_getegid,
    SOCKET SYS_socket,
    SOCKETPAIR SYS_socketpair,
    SENDTO SYS_sendto,
    RECVFROM SYS_recvfrom,
    SENDMSG SYS_sendmsg,
    RECVMSG SYS_recvmsg,
    BIND SYS_bind,
    LISTEN SYS_listen,
    SETSOCKOPT SYS_setsockopt,
    CLONE SYS_clone,
    EXECVE SYS_execve,
    KILL SYS_kill,
    FCNTL SYS_fcntl,
    FCHDIR SYS_fchdir,
    CHDIR SYS_chdir,
    UMASK SYS_umask,
    SETPGID SYS_setpgid,
    SETSID SYS_setsid,
    CAPSET SYS_capset,
    PRCTL SYS_prctl,
    PIVOT_ROOT SYS_pivot_root,
    MOUNT SYS_mount,
    UMOUNT2 SYS_umount2,
    SETHOSTNAME SYS_sethostname,
    GETDENTS64 SYS_getdents64,
    CLOCK_GETTIME SYS_clock_gettime,
    EXIT_GROUP SYS_exit_group,
    WAITID SYS_waitid,
    OPENAT SYS_openat,
    MKDIRAT SYS_mkdirat,
    FACCESSAT SYS_faccessat,
    MKNODAT SYS_mknodat,
    FCHMOD SYS_fchmod,
    FSETXATTR SYS_fsetxattr,
    SYMLINKAT SYS_symlinkat,
    READLINKAT SYS_readlinkat,
    PPOLL SYS_ppoll,
    SIGNALFD4 SYS_signalfd4,
    DUP3 SYS_dup3,
    PIPE2 SYS_pipe2,
    PRLIMIT64 SYS_prlimit64,
    SECCOMP SYS_seccomp,
    EXECVEAT SYS_execveat,
    STATX SYS_statx,
    KEYCTL SYS_keyctl,
    FCHOWNAT SYS_fchownat,
    SETGROUPS SYS_setgroups,
    SETRESUID SYS_setresuid,
    SETRESGID SYS_setresgid,
    FSTATFS SYS_fstatfs,
}

same_numbers! { nr_common:
    OPEN_TREE SYS_open_tree,
    MOVE_MOUNT SYS_move_mount,
    FSOPEN SYS_fsopen,
    FSCONFIG SYS_fsconfig,
    FSMOUNT SYS_fsmount,
    PIDFD_OPEN SYS_pidfd_open,
    CLONE3 SYS_clone3,
    CLOSE_RANGE SYS_close_range,
    OPENAT2 SYS_openat2,
    MOUNT_SETATTR SYS_mount_setattr,
    LANDLOCK_CREATE_RULESET SYS_landlock_create_ruleset,
    LANDLOCK_ADD_RULE SYS_landlock_add_rule,
    LANDLOCK_RESTRICT_SELF SYS_landlock_restrict_self,
}

const _: () = assert!(open::CREAT == libc::O_CREAT as u64 && open::EXCL == libc::O_EXCL as u64);
const _: () = assert!(open::NOCTTY == libc::O_NOCTTY as u64 && open::NONBLOCK == libc::O_NONBLOCK as u64);
const _: () =
    assert!(open::DIRECTORY == libc::O_DIRECTORY as u64 && open::NOFOLLOW == libc::O_NOFOLLOW as u64);
const _: () = assert!(open::CLOEXEC == libc::O_CLOEXEC as u64 && open::PATH == libc::O_PATH as u64);
