//! Limits on a whole sandbox: which cgroup holds it, and what stands in where it can have none.

use std::path::Path;

use kennel_policy::policy::Limits;

use crate::cgroup::{Cgroup, CgroupError, CgroupLimits, Controller, ControllerSet, OomScope};

/// Whether something in `limits` needs a cgroup.
#[must_use]
pub fn need_cgroup(limits: &Limits) -> bool {
    limits.memory.is_some() || limits.swap.is_some() || limits.cpus.is_some() || limits.pids.is_some()
}

/// Whether this is a unified host, on which a process can be born in its cgroup. Elsewhere it enters by itself.
#[must_use]
pub fn born_in_cgroup() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// The cgroup for `limits`; with `count` it counts all that it can.
///
/// # Errors
/// When this host cannot enforce one of them.
pub fn cgroup(limits: &Limits, count: bool) -> Result<Cgroup, CgroupError> {
    Cgroup::create(
        &CgroupLimits {
            memory: limits.memory,
            swap: limits.swap,
            cpus: limits.cpus,
            // The policy counts the command's processes; PID 1 is kennel's.
            pids: limits.pids.map(|pids| pids.saturating_add(1)),
            oom: OomScope::Everything,
        },
        count,
    )
}

/// A cgroup that only counts, where one can be had without further ado.
#[must_use]
pub fn counting_cgroup() -> Option<Cgroup> {
    Cgroup::to_count()
}

/// What stands in for controllers that are missing, with best effort: a limit on each process instead of on all of
/// them together. As (resource, value), and what to tell the user.
#[must_use]
pub fn stand_ins(
    limits: &Limits,
    missing: ControllerSet,
    user_namespace: bool,
) -> (Vec<(u32, u64)>, Vec<String>) {
    const RLIMIT_DATA: u32 = 2;
    const RLIMIT_STACK: u32 = 3;
    const RLIMIT_NPROC: u32 = 6;
    let mut rlimits = Vec::new();
    let mut notes = Vec::new();
    if let Some(bytes) = limits.memory.filter(|_| missing.contains(Controller::Memory)) {
        rlimits.push((RLIMIT_DATA, bytes));
        // Stacks are no data. More than the usual size would not do: it is also what each thread reserves, as data.
        rlimits.push((RLIMIT_STACK, bytes.min(8 << 20)));
        notes.push(format!("memory: {bytes} bytes for each process instead of for all together"));
    }
    if let Some(pids) = limits.pids.filter(|_| missing.contains(Controller::Pids)) {
        // Outside a user namespace of the sandbox's own it would count all of the user's processes.
        if user_namespace {
            rlimits.push((RLIMIT_NPROC, u64::from(pids) + 1));
            notes.push(format!(
                "pids: {pids} by the user's process limit inside; refused processes are not counted"
            ));
        } else {
            notes.push("pids: not limited".to_owned());
        }
    }
    if limits.cpus.is_some() && missing.contains(Controller::Cpu) {
        notes.push("cpus: not limited".to_owned());
    }
    (rlimits, notes)
}
