//! What the kernel counts for the whole machine, or for a user in all namespaces, and no limit holds: a call that takes of it is
//! refused. (Asynchronous I/O of the kernel's, `io_setup` and its kind, is not in the list of normal calls at all: one call
//! reserves what the machine has for everybody. It fails as on a kernel without it, and databases then use threads.)

use super::EPERM;
use super::bpf::{FilterAction, Rule, Table, Test};

/// Lays these rules over those of a profile that denies more than what would undo the sandbox.
pub(super) fn restrict(table: &mut Table) {
    for (call, rule) in [(libc::SYS_setsockopt, socket_options()), (libc::SYS_shmctl, locked_memory())] {
        if *table.rule(call) == Rule::Always(FilterAction::Allow) {
            table.set(&[call], rule);
        }
    }
}

/// Programs of classic BPF on sockets are compiled into memory of which the machine has little (`net.core.bpf_jit_limit`): when it
/// is used up nobody's filter can be installed any more, and no sandbox starts. They are for those who listen to a whole
/// network. Of IPv6 flow labels the machine has 4,096.
///
/// A rule tests one argument after the other, so the levels at which these numbers mean something else are let through first.
fn socket_options() -> Rule {
    const LEVEL: u8 = 1;
    const NAME: u8 = 2;
    const SO_ATTACH_REUSEPORT_CBPF: i32 = 51;
    const SO_ATTACH_REUSEPORT_EBPF: i32 = 52;
    const IPV6_FLOWLABEL_MGR: i32 = 32;
    let one_of = |argument, values: &[i32]| Test::OneOf {
        argument,
        mask: u32::MAX,
        values: values.iter().map(|value| value.cast_unsigned()).collect(),
    };
    let programs =
        [libc::SO_ATTACH_FILTER, libc::SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF];
    let others = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_SCTP];
    Rule::When(
        vec![
            (one_of(LEVEL, &others), FilterAction::Allow),
            // To SOL_SOCKET this is SO_SNDBUFFORCE, which nobody inside may set.
            (one_of(NAME, &[IPV6_FLOWLABEL_MGR]), EPERM),
            // SOL_SOCKET is 1, and 0 has been let through.
            (Test::AnyBit { argument: LEVEL, bits: !libc::SOL_SOCKET.cast_unsigned() }, FilterAction::Allow),
            (one_of(NAME, &programs), EPERM),
        ],
        FilterAction::Allow,
    )
}

/// Locking shared memory of System V counts for the user in all namespaces, unlike `mlock`, which counts for the process.
fn locked_memory() -> Rule {
    const SHM_LOCK: u32 = 11;
    let locks = Test::OneOf { argument: 1, mask: u32::MAX, values: vec![SHM_LOCK] };
    Rule::When(vec![(locks, EPERM)], FilterAction::Allow)
}
