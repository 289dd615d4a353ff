//! The numbers of the system calls that init makes: on x86_64, then on arm64. The new ones have one number everywhere.
//!
//! A table of init's own, because it has no C library; kennel-linux compares it with libc's when it is compiled.

#![allow(non_upper_case_globals, reason = "the names that everybody knows them by")]

/// Hands the table to another macro.
#[macro_export]
macro_rules! each_system_call {
    ($take:ident) => {
        $take! {
            SYS_read 0 63,
            SYS_write 1 64,
            SYS_close 3 57,
            SYS_lseek 8 62,
            SYS_mmap 9 222,
            SYS_munmap 11 215,
            SYS_brk 12 214,
            SYS_rt_sigaction 13 134,
            SYS_rt_sigprocmask 14 135,
            SYS_ioctl 16 29,
            SYS_madvise 28 233,
            SYS_getpid 39 172,
            SYS_socket 41 198,
            SYS_sendto 44 206,
            SYS_recvfrom 45 207,
            SYS_sendmsg 46 211,
            SYS_recvmsg 47 212,
            SYS_bind 49 200,
            SYS_listen 50 201,
            SYS_socketpair 53 199,
            SYS_setsockopt 54 208,
            SYS_clone 56 220,
            SYS_execve 59 221,
            SYS_kill 62 129,
            SYS_fcntl 72 25,
            SYS_chdir 80 49,
            SYS_fchdir 81 50,
            SYS_fchmod 91 52,
            SYS_umask 95 166,
            SYS_geteuid 107 175,
            SYS_getegid 108 177,
            SYS_setpgid 109 154,
            SYS_setsid 112 157,
            SYS_setgroups 116 159,
            SYS_setresuid 117 147,
            SYS_setresgid 119 149,
            SYS_capset 126 91,
            SYS_rt_sigtimedwait 128 137,
            SYS_fstatfs 138 44,
            SYS_pivot_root 155 41,
            SYS_prctl 157 167,
            SYS_mount 165 40,
            SYS_umount2 166 39,
            SYS_sethostname 170 161,
            SYS_fsetxattr 190 7,
            SYS_getdents64 217 61,
            SYS_clock_gettime 228 113,
            SYS_exit_group 231 94,
            SYS_waitid 247 95,
            SYS_keyctl 250 219,
            SYS_openat 257 56,
            SYS_mkdirat 258 34,
            SYS_mknodat 259 33,
            SYS_fchownat 260 54,
            SYS_symlinkat 266 36,
            SYS_readlinkat 267 78,
            SYS_faccessat 269 48,
            SYS_ppoll 271 73,
            SYS_unshare 272 97,
            SYS_signalfd4 289 74,
            SYS_dup3 292 24,
            SYS_pipe2 293 59,
            SYS_prlimit64 302 261,
            SYS_setns 308 268,
            SYS_seccomp 317 277,
            SYS_execveat 322 281,
            SYS_statx 332 291,
            SYS_open_tree 428 428,
            SYS_move_mount 429 429,
            SYS_fsopen 430 430,
            SYS_fsconfig 431 431,
            SYS_fsmount 432 432,
            SYS_pidfd_open 434 434,
            SYS_clone3 435 435,
            SYS_close_range 436 436,
            SYS_openat2 437 437,
            SYS_mount_setattr 442 442,
            SYS_landlock_create_ruleset 444 444,
            SYS_landlock_add_rule 445 445,
            SYS_landlock_restrict_self 446 446,
        }
    };
}

macro_rules! numbers {
    ($($name:ident $x86_64:literal $aarch64:literal,)*) => {
        $(pub const $name: usize = if cfg!(target_arch = "x86_64") { $x86_64 } else { $aarch64 };)*
    };
}

each_system_call!(numbers);
