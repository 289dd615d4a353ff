//! The sandbox's own /proc: what of the kernel's entries is there, and whether processes can write theirs.
//!
//! A process may write what is its own, as on the host and in containers: the name of one of its threads, its score for when
//! memory runs out. What is the kernel's is steered by whoever is user 0 on the host, with capabilities or without, and a sandbox
//! of root's is. So every entry is known by its name or hidden, whatever a module of some kernel may have added.

use std::ffi::CStr;

use kennel_init::plan::{Access, Identity, Step};
use kennel_policy::policy::NetworkMode;

use super::{Basis, Steps, Tier, shares};

/// What an entry is to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// A file that only tells.
    AsItIs,
    /// Its owner can only read it. Permissions keep everybody else from writing it.
    OwnerReads,
    /// Its owner does not see it. Permissions keep everybody else from what is not for them.
    NotToOwner,
    /// It can only be read. Permissions let everybody write some of it.
    Read,
}
use Shown::{AsItIs, NotToOwner, OwnerReads, Read};

/// The kernel's entries, and PID 1. By length and then by letters, which is how the kernel lists them.
const ENTRIES: &[(&CStr, Shown)] = &[
    // The launcher. To root: its place when memory runs out, and the weight of the session that it was started in.
    (c"1", Read),
    (c"fb", AsItIs),
    // What file systems and their servers tell, and are told.
    (c"fs", NotToOwner),
    (c"bus", OwnerReads),
    (c"cpu", OwnerReads),
    (c"dma", AsItIs),
    (c"irq", NotToOwner),
    // Of these some can be written by everybody: ns_last_pid, and triggers of pressure.
    (c"sys", Read),
    (c"tty", OwnerReads),
    (c"acpi", NotToOwner),
    (c"keys", AsItIs),
    (c"kmsg", AsItIs),
    (c"misc", AsItIs),
    (c"mtrr", NotToOwner),
    (c"scsi", NotToOwner),
    (c"stat", AsItIs),
    (c"iomem", AsItIs),
    (c"kcore", NotToOwner),
    (c"locks", AsItIs),
    (c"swaps", AsItIs),
    (c"asound", NotToOwner),
    (c"crypto", AsItIs),
    // CUDA asks its driver here.
    (c"driver", OwnerReads),
    (c"mdstat", AsItIs),
    (c"uptime", AsItIs),
    (c"vmcore", NotToOwner),
    (c"vmstat", AsItIs),
    (c"cgroups", AsItIs),
    (c"cmdline", AsItIs),
    (c"cpuinfo", AsItIs),
    (c"devices", AsItIs),
    (c"ioports", AsItIs),
    (c"loadavg", AsItIs),
    (c"lockdep", NotToOwner),
    (c"meminfo", AsItIs),
    (c"modules", AsItIs),
    (c"profile", NotToOwner),
    // Of s390.
    (c"sysinfo", AsItIs),
    (c"sysvipc", OwnerReads),
    (c"version", AsItIs),
    (c"consoles", AsItIs),
    (c"kallsyms", AsItIs),
    (c"pressure", Read),
    (c"slabinfo", NotToOwner),
    (c"softirqs", AsItIs),
    (c"zoneinfo", AsItIs),
    (c"allocinfo", NotToOwner),
    (c"buddyinfo", AsItIs),
    (c"config.gz", AsItIs),
    (c"diskstats", AsItIs),
    (c"key-users", AsItIs),
    (c"lock_stat", NotToOwner),
    (c"schedstat", AsItIs),
    (c"bootconfig", AsItIs),
    (c"interrupts", AsItIs),
    (c"kpagecount", NotToOwner),
    (c"kpageflags", NotToOwner),
    (c"partitions", AsItIs),
    (c"timer_list", NotToOwner),
    (c"execdomains", AsItIs),
    (c"filesystems", AsItIs),
    (c"kpagecgroup", NotToOwner),
    (c"sched_debug", AsItIs),
    (c"timer_stats", NotToOwner),
    (c"vmallocinfo", NotToOwner),
    (c"pagetypeinfo", NotToOwner),
    (c"dynamic_debug", NotToOwner),
    (c"latency_stats", NotToOwner),
    (c"lockdep_stats", NotToOwner),
    (c"sysrq-trigger", NotToOwner),
    (c"lockdep_chains", NotToOwner),
    // Ubuntu's.
    (c"version_signature", AsItIs),
];

/// Whether a command can write what belongs to it in /proc.
pub(super) fn can_be_written(basis: &Basis) -> bool {
    let Basis { policy, resolved, tier, users, .. } = *basis;
    // Below a process there is also its network. The host's has files that are root's: tables of its firewall, its NFS server.
    let hosts_network = resolved.owns_kernel && policy.network.mode == NetworkMode::Host;
    // And several users have a root with capabilities, which could write more.
    tier == Tier::Full && users.is_none() && !hosts_network
}

/// Makes /proc.
pub(super) fn make(steps: &mut Steps, basis: &Basis, reason: &str) {
    let Basis { resolved, tier, .. } = *basis;
    let target = c"/proc".to_owned();
    if tier == Tier::HostProc {
        let (source, identity, target) = (target.clone(), Identity::default(), target.clone());
        let step = Step::Bind { source, identity, target, access: Access::Read, early: false };
        steps.add(step, "best effort: the host's /proc");
    } else {
        steps.add(Step::Proc { target: target.clone() }, reason);
    }
    shares::namespaces(steps, basis.policy);
    // Who makes namespaces mounts their /proc, too, which the kernel allows only where nothing of this one is hidden. Root does
    // not make any.
    if tier == Tier::HostProc || !resolved.nested {
        let (left, read_only) = entries(resolved.owns_kernel);
        let step = Step::ProcEntries { target, write: can_be_written(basis), left, read_only };
        steps.add(step, "processes write what is theirs; sandboxes may not see or steer the host's kernel");
    }
}

/// The entries that are left as they are, and those that can only be read.
fn entries(owner: bool) -> (Vec<&'static CStr>, Vec<&'static CStr>) {
    let (mut left, mut read_only) = (Vec::with_capacity(ENTRIES.len()), Vec::new());
    for (name, shown) in ENTRIES {
        match shown {
            AsItIs => left.push(*name),
            Read => read_only.push(*name),
            OwnerReads if owner => read_only.push(*name),
            NotToOwner if owner => {}
            OwnerReads | NotToOwner => left.push(*name),
        }
    }
    (left, read_only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_kernels_order() {
        let key = |(name, _): &(&'static CStr, Shown)| (name.count_bytes(), *name);
        assert!(ENTRIES.is_sorted_by_key(key));
    }

    #[test]
    fn what_the_owner_alone_could_use_is_hidden_from_it_alone() {
        let (left, read_only) = entries(true);
        assert!(!left.contains(&c"kcore") && !read_only.contains(&c"kcore"));
        assert!(read_only.contains(&c"sys") && read_only.contains(&c"1") && left.contains(&c"cpuinfo"));
        let (left, read_only) = entries(false);
        assert!(left.contains(&c"kcore") && left.contains(&c"bus"));
        assert_eq!(read_only, [c"1", c"sys", c"pressure"]);
    }
}
