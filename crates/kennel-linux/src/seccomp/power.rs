//! Files with power over the host: set-uid bits, leases, locks, flags of inodes.
//!
//! `nosuid` holds inside; a file that a sandbox of root's marks set-uid in a folder of the host's is set-uid root for
//! everybody outside. Nor is a device made, not even the one that stands for nothing. And a lease, a lock or a flag on a file that can only be read holds up programs of the host's.

use libc::c_long;

use super::bpf::{FilterAction, Rule, Table, Test};
use super::{ENOSYS, EPERM, FilterSpec};

/// The set-user-ID and set-group-ID bits of a mode.
pub const SPECIAL: u32 = 0o6000;

/// Newer than the libc crate's tables.
pub const FCHMODAT2: c_long = 452;

/// Calls that change a mode, and which argument it is.
pub const CHMOD: &[(c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];

/// Commands of fcntl that take a lock.
pub const LOCKS: &[i32] = &[libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];

/// Lays these rules over those of a profile; they narrow them.
pub(super) fn restrict(table: &mut Table, wish: &FilterSpec) {
    if wish.writes_host {
        special_modes(table, wish);
        devices(table);
    }
    let one_of = |values: Vec<u32>| Test::OneOf { argument: 1, mask: u32::MAX, values };
    // A lease makes an open of the file by anyone wait.
    let mut commands = vec![(one_of(vec![libc::F_SETLEASE.cast_unsigned()]), EPERM)];
    if wish.asks {
        // Whether the file can be written is for the guard to find out.
        commands.push((
            one_of(LOCKS.iter().map(|command| command.cast_unsigned()).collect()),
            FilterAction::Notify,
        ));
        allowed(table, libc::SYS_flock, Rule::Always(FilterAction::Notify));
    }
    allowed(table, libc::SYS_fcntl, Rule::When(commands, FilterAction::Allow));
}

/// The bits are refused where a file is made with them, which nobody does; where they are set later, as tar and
/// install do, the guard sets the mode without them.
fn special_modes(table: &mut Table, wish: &FilterSpec) {
    let special = |argument| Test::AnyBit { argument, bits: SPECIAL };
    for (call, argument) in CHMOD {
        let verdict = if wish.asks { FilterAction::Notify } else { EPERM };
        allowed(table, *call, Rule::When(vec![(special(*argument), verdict)], FilterAction::Allow));
    }
    for (call, argument) in [
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
    ] {
        allowed(table, call, Rule::When(vec![(special(argument), EPERM)], FilterAction::Allow));
    }
    // O_TMPFILE without O_DIRECTORY, which is part of it and of other flags.
    const TMPFILE: u32 = 0o20_000_000;
    const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC).cast_unsigned();
    let creates = libc::O_CREAT.cast_unsigned() | TMPFILE;
    for (call, flags) in [
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ] {
        let without = |bits| (Test::NoBit { argument: flags, bits }, FilterAction::Allow);
        // Most only read; they have a test of their own, so that others can be told from them.
        let tests = vec![without(creates | WRITES), without(creates), (special(flags + 1), EPERM)];
        allowed(table, call, Rule::When(tests, FilterAction::Allow));
    }
    // Its mode is in memory, which the caller could change after any look at it. Programs take it for an older kernel.
    allowed(table, libc::SYS_openat2, Rule::Always(ENOSYS));
}

/// Of devices an ordinary user may make the one with number 0:0, since Linux 4.18 by mknod and by a rename that leaves it behind. To
/// an overlay it says that a file is deleted; no other program expects one.
fn devices(table: &mut Table) {
    const MKNOD: &[(c_long, u8)] = &[
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ];
    for (call, mode) in MKNOD {
        let kinds = vec![libc::S_IFCHR, libc::S_IFBLK];
        let device = (Test::OneOf { argument: *mode, mask: libc::S_IFMT, values: kinds }, EPERM);
        narrowed(table, *call, device);
    }
    // As on a file system that cannot do it.
    let leaves_one = Test::AnyBit { argument: 4, bits: libc::RENAME_WHITEOUT };
    narrowed(table, libc::SYS_renameat2, (leaves_one, FilterAction::Errno(libc::EINVAL as u32)));
}

/// Adds a test to what a profile allows.
fn narrowed(table: &mut Table, call: c_long, test: (Test, FilterAction)) {
    let rule = match table.rule(call).clone() {
        Rule::Always(FilterAction::Allow) => Rule::When(vec![test], FilterAction::Allow),
        Rule::When(mut tests, FilterAction::Allow) => {
            tests.push(test);
            Rule::When(tests, FilterAction::Allow)
        }
        denied => denied,
    };
    table.set(&[call], rule);
}

/// Gives a call a rule, unless a profile denies it anyway.
fn allowed(table: &mut Table, call: c_long, rule: Rule) {
    if *table.rule(call) == Rule::Always(FilterAction::Allow) {
        table.set(&[call], rule);
    }
}

/// Requests that set flags on an inode: some of them keep a file from being changed or removed, or change how a folder's
/// names are compared. They fail as on a file system that has no such flags.
pub(super) fn inode_flags() -> (Test, FilterAction) {
    const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
    const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
    const FS_IOC_SETVERSION: u32 = 0x4008_7602;
    const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
    const FS_IOC_SET_ENCRYPTION_POLICY: u32 = 0x800c_6613;
    let values = vec![
        FS_IOC_SETFLAGS,
        FS_IOC_FSSETXATTR,
        FS_IOC_SETVERSION,
        FS_IOC_ENABLE_VERITY,
        FS_IOC_SET_ENCRYPTION_POLICY,
    ];
    (Test::OneOf { argument: 1, mask: u32::MAX, values }, FilterAction::Errno(libc::EOPNOTSUPP as u32))
}
