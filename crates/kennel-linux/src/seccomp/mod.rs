//! Which system calls a command can make: the four profiles.
//!
//! `default` names every call that normal software makes; a call it does not name does not exist (ENOSYS), so that
//! programs take their fallback and a call of a future kernel is not open by accident. What is known and denied
//! fails with EPERM. `strict` takes more away, `permissive` only what would undo the sandbox.

mod additions;
pub mod bpf;
mod calls;
pub mod power;
mod shared;

pub use additions::Additions;
use bpf::{FilterAction, Rule, Table, Test};
use kennel_policy::policy::{SeccompProfile, UnixSockets};

const EPERM: FilterAction = FilterAction::Errno(libc::EPERM as u32);
const ENOSYS: FilterAction = FilterAction::Errno(libc::ENOSYS as u32);
const EPROTONOSUPPORT: FilterAction = FilterAction::Errno(libc::EPROTONOSUPPORT as u32);
const EAFNOSUPPORT: FilterAction = FilterAction::Errno(libc::EAFNOSUPPORT as u32);

/// What of a policy a filter depends on.
#[derive(Clone, Debug)]
pub struct FilterSpec {
    /// The profile.
    pub profile: SeccompProfile,
    /// Whether the command can create namespaces of its own, and mount in them.
    pub nested_namespaces: bool,
    /// Whether unix sockets can be made.
    pub unix_sockets: UnixSockets,
    /// Which sockets of the internet families can be made.
    pub inet_sockets: Inet,
    /// Whether some of the host's files can be written.
    pub writes_host: bool,
    /// Whether nobody may change a file's mode, owner, times or extended attributes. Landlock has no right for these; where it
    /// is the only lock, and nothing can be written, the calls are refused as on a file system that is read-only.
    pub keeps_attributes: bool,
    /// Whether the filter can ask the guard.
    pub asks: bool,
    /// Whether there is a root inside that has capabilities.
    pub several_users: bool,
    /// Whether the guard is to hear of every socket in the sandbox's network, which is lent.
    pub watches_network: bool,
}

/// Sockets of the internet families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inet {
    /// None.
    None,
    /// TCP, where something else says to whom it may connect. Not MPTCP: Landlock does not see where that connects.
    Tcp,
    /// All of them, wherever the sandbox has a network of its own.
    All,
}

/// The filter for a policy, with what the guard has to hear of; `None` when neither asks for one.
#[must_use]
pub fn filter(wish: &FilterSpec, guarded: &Additions) -> Option<Vec<u8>> {
    let mut table = match table(wish) {
        Some(table) => table,
        None if guarded.is_empty() => return None,
        None => Table::new(FilterAction::Allow),
    };
    guarded.apply(&mut table);
    Some(bpf::bytes(&table.compile()))
}

fn table(wish: &FilterSpec) -> Option<Table> {
    let mut table = match wish.profile {
        SeccompProfile::None => return None,
        SeccompProfile::Permissive => Table::new(FilterAction::Allow),
        SeccompProfile::Default | SeccompProfile::Strict => {
            let mut table = Table::new(ENOSYS);
            table.set(calls::NORMAL, Rule::Always(FilterAction::Allow));
            table
        }
    };
    deny(&mut table, calls::UNDOES_THE_SANDBOX);
    if !wish.nested_namespaces {
        deny(&mut table, calls::MOUNTS);
    }
    table.set(&[libc::SYS_ioctl], requests());
    if wish.profile != SeccompProfile::Permissive {
        deny(&mut table, calls::KERNEL_SURFACE);
        namespaces(&mut table, NEW_NAMESPACE | CLONE_NEWTIME);
        table.set(&[libc::SYS_personality], personalities());
        shared::restrict(&mut table);
    }
    if wish.several_users {
        // Also where the profile would let them be made.
        deny(&mut table, &[libc::SYS_setns]);
        namespaces(&mut table, NEW_NAMESPACE | CLONE_NEWTIME);
    }
    if wish.nested_namespaces {
        let sandboxes: Vec<_> = calls::MOUNTS.iter().copied().chain([libc::SYS_setns]).collect();
        table.set(&sandboxes, Rule::Always(FilterAction::Allow));
        // Who owns a cgroup namespace can mount the cgroup file system, and there lift limits or stop the caller's other
        // processes: the directories belong to the same user.
        namespaces(&mut table, libc::CLONE_NEWCGROUP.cast_unsigned());
    }
    if wish.profile == SeccompProfile::Strict {
        deny(&mut table, calls::NOT_FOR_COMPUTATION);
    }
    table.set(&[libc::SYS_socket], sockets(wish));
    if wish.inet_sockets == Inet::Tcp && wish.profile != SeccompProfile::Strict {
        // Landlock sees a bind, but not the one that listening without a bind does; and a connect, but not the one that
        // sending with TCP Fast Open does.
        deny(&mut table, &[libc::SYS_listen]);
        for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            let connects = Test::AnyBit { argument: flags, bits: libc::MSG_FASTOPEN.cast_unsigned() };
            table.set(&[call], Rule::When(vec![(connects, EPERM)], FilterAction::Allow));
        }
    }
    if wish.unix_sockets != UnixSockets::All {
        table.set(&[libc::SYS_socketpair], pairs(wish.asks));
    }
    power::restrict(&mut table, wish);
    if wish.keeps_attributes {
        table.set(calls::CHANGES_ATTRIBUTES, Rule::Always(FilterAction::Errno(libc::EROFS as u32)));
    }
    Some(table)
}

fn deny(table: &mut Table, list: &[libc::c_long]) {
    table.set(list, Rule::Always(EPERM));
}

/// Of requests to devices and files: TIOCSTI types into the terminal as if the user had; TIOCLINUX can paste there. Both
/// are the way from a sandbox that shares its caller's terminal to the caller's shell.
fn requests() -> Rule {
    const TIOCSTI: u32 = 0x5412;
    const TIOCLINUX: u32 = 0x541c;
    let types = Test::OneOf { argument: 1, mask: u32::MAX, values: vec![TIOCSTI, TIOCLINUX] };
    Rule::When(vec![(types, EPERM), power::inode_flags()], FilterAction::Allow)
}

const NEW_NAMESPACE: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();
const CLONE_NEWTIME: u32 = 0x80;

/// Denies these namespaces. New ones bring capabilities over most of the kernel's attack surface. clone3 passes its flags in
/// memory, which a filter cannot read: it does not exist, and every C library then uses clone.
fn namespaces(table: &mut Table, denied: u32) {
    let unless = |bits| Rule::When(vec![(Test::AnyBit { argument: 0, bits }, EPERM)], FilterAction::Allow);
    // To clone, the low byte is the exit signal, and 0x80 no namespace.
    table.set(&[libc::SYS_clone], unless(denied & NEW_NAMESPACE));
    table.set(&[libc::SYS_unshare], unless(denied));
    table.set(&[libc::SYS_clone3], Rule::Always(ENOSYS));
}

/// Ordinary Linux, its 32-bit look, no address randomisation (debuggers), and the query.
fn personalities() -> Rule {
    let values = vec![0, 0x0008, 0x0004_0000, 0x0002_0000, 0x0002_0008, u32::MAX];
    Rule::When(vec![(Test::OneOf { argument: 0, mask: u32::MAX, values }, FilterAction::Allow)], EPERM)
}

/// Families that normal software uses. The others (packet, vsock, AF_ALG, Bluetooth, …) are kernel surface, or ways
/// past a network namespace. Of netlink only protocol 0, the route queries with which every C library lists
/// interfaces.
fn sockets(wish: &FilterSpec) -> Rule {
    let family =
        |family: i32| Test::OneOf { argument: 0, mask: u32::MAX, values: vec![family.cast_unsigned()] };
    // Where they are listed the guard has the last word.
    let unix = if wish.unix_sockets == UnixSockets::None { EPERM } else { FilterAction::Allow };
    let mut tests = vec![(family(libc::AF_UNIX), unix)];
    let allowed = if wish.watches_network && wish.asks { FilterAction::Notify } else { FilterAction::Allow };
    if wish.inet_sockets != Inet::None && wish.profile != SeccompProfile::Strict {
        if wish.inet_sockets == Inet::Tcp {
            // The low bits of the type; above are SOCK_NONBLOCK and SOCK_CLOEXEC. Raw sockets of the internet families
            // need a capability that nobody inside has, and netlink's have to be left for the query below.
            const TYPE: u32 = 0xf;
            const LEFT: [i32; 2] = [libc::SOCK_STREAM, libc::SOCK_RAW];
            let others = (0..=TYPE).filter(|kind| !LEFT.contains(&kind.cast_signed())).collect();
            tests.push((Test::OneOf { argument: 1, mask: TYPE, values: others }, EPERM));
            // Of protocols the default and TCP (6): not SCTP (132) and not MPTCP (262).
            let beyond = !libc::IPPROTO_TCP.cast_unsigned();
            tests.push((Test::AnyBit { argument: 2, bits: beyond }, EPERM));
        }
        tests.push((family(libc::AF_INET), allowed));
        tests.push((family(libc::AF_INET6), allowed));
        if wish.nested_namespaces {
            // Sandboxes inside arrange their own networks, also with netfilter. Other families have protocols of this number too;
            // what is left of families without another bit than netlink's is netlink, and 0, which is none.
            let netfilter = vec![libc::NETLINK_NETFILTER.cast_unsigned()];
            let not_netlink = !libc::AF_NETLINK.cast_unsigned();
            tests.push((Test::AnyBit { argument: 0, bits: not_netlink }, EAFNOSUPPORT));
            tests.push((Test::OneOf { argument: 2, mask: u32::MAX, values: netfilter }, allowed));
        }
        // A kernel without auditing says so, and PAM goes on. Told that it may not, it gives up if the user is root.
        let audit = vec![libc::NETLINK_AUDIT.cast_unsigned()];
        tests.push((Test::OneOf { argument: 2, mask: u32::MAX, values: audit }, EPROTONOSUPPORT));
        tests.push((Test::AnyBit { argument: 2, bits: u32::MAX }, EPERM));
        tests.push((family(libc::AF_NETLINK), allowed));
    }
    Rule::When(tests, EAFNOSUPPORT)
}

/// Pairs that stay pairs. One of datagram sockets (which is what AF_UNIX makes of SOCK_RAW too) can be connected anew,
/// or send to any path: it would be a socket like the ones that are refused. Whoever asks for one gets another kind of pair
/// from the guard, where there is one.
pub(crate) fn pairs(asks: bool) -> Rule {
    const TYPE: u32 = 0xf;
    let of = |kinds: [i32; 2]| {
        let values = kinds.map(i32::cast_unsigned).to_vec();
        Test::OneOf { argument: 1, mask: TYPE, values }
    };
    let datagrams = if asks { FilterAction::Notify } else { EPERM };
    let tests = vec![
        (of([libc::SOCK_STREAM, libc::SOCK_SEQPACKET]), FilterAction::Allow),
        (of([libc::SOCK_DGRAM, libc::SOCK_RAW]), datagrams),
    ];
    Rule::When(tests, EPERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(profile: SeccompProfile) -> FilterSpec {
        FilterSpec {
            profile,
            nested_namespaces: false,
            unix_sockets: UnixSockets::None,
            inet_sockets: Inet::All,
            writes_host: true,
            keeps_attributes: false,
            asks: true,
            several_users: false,
            watches_network: false,
        }
    }

    #[test]
    fn no_call_is_both_normal_and_denied_by_the_default_profile() {
        for call in calls::UNDOES_THE_SANDBOX.iter().chain(calls::KERNEL_SURFACE) {
            assert!(!calls::NORMAL.contains(call), "call {call} stands in two lists");
        }
    }

    #[test]
    fn every_call_of_the_lists_gets_into_the_table() {
        let lists =
            [calls::NORMAL, calls::UNDOES_THE_SANDBOX, calls::KERNEL_SURFACE, calls::NOT_FOR_COMPUTATION];
        for call in lists.into_iter().flatten() {
            let mut table = Table::new(ENOSYS);
            table.set(&[*call], Rule::Always(FilterAction::Kill));
            assert_eq!(*table.rule(*call), Rule::Always(FilterAction::Kill), "call {call}");
        }
    }

    #[test]
    fn the_filters_fit_the_kernel_and_a_search_is_short() {
        for profile in [SeccompProfile::Strict, SeccompProfile::Default, SeccompProfile::Permissive] {
            let program = table(&wish(profile)).map(|table| table.compile()).unwrap_or_default();
            assert!((10..1000).contains(&program.len()), "{profile:?}: {} instructions", program.len());
        }
        assert!(filter(&wish(SeccompProfile::None), &Additions::default()).is_none());
    }

    /// The smaller the program, the sooner the kernel has translated it. That it says the same is shown for every profile.
    #[test]
    fn the_programs_say_what_their_tables_do_and_are_small() {
        let mut asked = 0;
        for profile in [SeccompProfile::Strict, SeccompProfile::Default, SeccompProfile::Permissive] {
            for (unix_sockets, inet_sockets) in [
                (UnixSockets::None, Inet::All),
                (UnixSockets::Listed, Inet::Tcp),
                (UnixSockets::All, Inet::None),
            ] {
                for switches in 0..64u32 {
                    let on = |bit: u32| switches & 1 << bit != 0;
                    let wish = FilterSpec {
                        profile,
                        unix_sockets,
                        inet_sockets,
                        nested_namespaces: on(0),
                        writes_host: on(1),
                        keeps_attributes: on(2),
                        asks: on(3),
                        several_users: on(4),
                        watches_network: on(5),
                    };
                    asked += bpf::tests::assert_same(&table(&wish).expect("a profile has a table"));
                }
            }
        }
        assert!(asked > 100_000, "{asked}");
        let default = table(&wish(SeccompProfile::Default)).expect("a table").compile().len();
        assert!(default < 200, "{default} instructions");
        println!("{default} instructions");
    }
}
