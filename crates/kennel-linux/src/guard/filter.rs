//! Which calls the filter sends to the guard.
//!
//! Only calls that make or replace a name, and where unix sockets are listed those that connect and listen. Calls that
//! cannot be told apart by their registers are all sent; `open` without `O_CREAT` is not.

use libc::c_long;

use super::path_calls::{self, WRITING};
use crate::resolve::guard_rules::{Asks, Rules};
use crate::seccomp::Additions;
use crate::seccomp::bpf::{FilterAction, Rule, Test};

const EPERM: FilterAction = FilterAction::Errno(libc::EPERM as u32);

/// The additions for `rules`; none when there is nothing to guard.
#[must_use]
pub fn filter_rules(rules: &Rules) -> Additions {
    let mut additions = Additions::default();
    let mut add = |call: c_long, rule: Rule| additions.add(call, rule);
    if rules.names() {
        for &call in CREATE {
            add(call, Rule::Always(FilterAction::Notify));
        }
        // Who writes what exists makes no name, but may be told why that failed.
        let bits = if rules.explained.is_some() { WRITING } else { libc::O_CREAT };
        let creating = |argument| {
            let test = Test::AnyBit { argument, bits: bits.cast_unsigned() };
            Rule::When(vec![(test, FilterAction::Notify)], FilterAction::Allow)
        };
        #[cfg(target_arch = "x86_64")]
        add(libc::SYS_open, creating(1));
        add(libc::SYS_openat, creating(2));
        add(libc::SYS_ioctl, subvolumes());
    }
    if !rules.repositories.is_empty() {
        #[cfg(target_arch = "x86_64")]
        add(libc::SYS_unlink, Rule::Always(FilterAction::Notify));
        let folders = Test::AnyBit { argument: 2, bits: libc::AT_REMOVEDIR.cast_unsigned() };
        let rule = Rule::When(vec![(folders, FilterAction::Allow)], FilterAction::Notify);
        add(libc::SYS_unlinkat, rule);
        for (call, _) in crate::seccomp::power::CHMOD.iter().filter(|(call, _)| *call != libc::SYS_fchmod) {
            add(*call, Rule::Always(FilterAction::Notify));
        }
    }
    if rules.sockets.is_some() {
        add(libc::SYS_connect, Rule::Always(FilterAction::Notify));
        add(libc::SYS_listen, Rule::Always(FilterAction::Notify));
        add(libc::SYS_socket, unix_sockets());
        add(libc::SYS_socketpair, crate::seccomp::pairs(true));
    }
    if rules.explains_every_call() {
        for &call in path_calls::ALL {
            add(call, Rule::Always(FilterAction::Notify));
        }
    }
    if rules.asks() != Asks::No {
        // io_uring opens, renames, links and connects where no filter sees it. Profiles deny it; without one the guard
        // has to.
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
            add(call, Rule::Always(EPERM));
        }
    }
    additions
}

/// `openat2` passes its flags in memory; the others always make a name.
const CREATE: &[c_long] = &[
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_bind,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
];

/// The guard looks at the type, which is in a register: a datagram socket could send to any path without a connect.
fn unix_sockets() -> Rule {
    let unix = Test::OneOf { argument: 0, mask: u32::MAX, values: vec![libc::AF_UNIX.cast_unsigned()] };
    Rule::When(vec![(unix, FilterAction::Notify)], FilterAction::Allow)
}

/// Two file systems let an ordinary user make a folder, or a copy of a whole tree, by ioctl: subvolumes and snapshots
/// of btrfs and bcachefs.
fn subvolumes() -> Rule {
    const BTRFS_SNAP_CREATE: u32 = 0x5000_9401;
    const BTRFS_SUBVOL_CREATE: u32 = 0x5000_940e;
    const BTRFS_SNAP_CREATE_V2: u32 = 0x5000_9417;
    const BTRFS_SUBVOL_CREATE_V2: u32 = 0x5000_9418;
    const BCACHEFS_SUBVOLUME_CREATE: u32 = 0x4020_bc10;
    let values = vec![
        BTRFS_SNAP_CREATE,
        BTRFS_SUBVOL_CREATE,
        BTRFS_SNAP_CREATE_V2,
        BTRFS_SUBVOL_CREATE_V2,
        BCACHEFS_SUBVOLUME_CREATE,
    ];
    Rule::When(vec![(Test::OneOf { argument: 1, mask: u32::MAX, values }, EPERM)], FilterAction::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::guard_rules::{Anchor, Finding};
    use crate::seccomp::bpf::Table;

    fn protecting() -> Rules {
        let anchor = Anchor { path: "/w".into(), identity: Default::default() };
        let finding = Finding { path: "/w/.git".into(), rule: "deny_write /w/.git".into() };
        Rules::new(&[finding], &[anchor.into()])
    }

    fn verdict(additions: &Additions, mut table: Table, call: c_long) -> Rule {
        additions.apply(&mut table);
        table.rule(call).clone()
    }

    fn open() -> Table {
        Table::new(FilterAction::Allow)
    }

    #[test]
    fn with_nothing_to_guard_a_table_stays_as_it_is() {
        let mut table = open();
        filter_rules(&Rules::default()).apply(&mut table);
        assert_eq!(table, open());
    }

    #[test]
    fn what_a_profile_denies_stays_denied() {
        let denied = Rule::Always(FilterAction::Errno(38));
        let table = Table::new(FilterAction::Errno(38));
        assert_eq!(verdict(&filter_rules(&protecting()), table.clone(), libc::SYS_mkdirat), denied);
        let mut table = open();
        table.set(&[libc::SYS_bind], Rule::Always(EPERM));
        assert_eq!(verdict(&filter_rules(&protecting()), table, libc::SYS_bind), Rule::Always(EPERM));
    }

    #[test]
    fn the_tests_of_a_profile_come_first_and_keep_their_verdicts() {
        let sti = Test::OneOf { argument: 1, mask: u32::MAX, values: vec![0x5412] };
        let mut table = open();
        let ioctl = Rule::When(vec![(sti.clone(), EPERM)], FilterAction::Allow);
        table.set(&[libc::SYS_ioctl], ioctl);
        let Rule::When(tests, otherwise) = verdict(&filter_rules(&protecting()), table, libc::SYS_ioctl)
        else {
            panic!("ioctl keeps its tests");
        };
        assert_eq!((tests.len(), &tests[0], otherwise), (2, &(sti, EPERM), FilterAction::Allow));
    }
}
