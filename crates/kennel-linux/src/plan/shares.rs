//! A sandbox's share of what the kernel counts for a user in all namespaces, or for the whole machine. [`crate::shared`] lists
//! all of it.

use std::ffi::CStr;

use kennel_init::plan::{OpenFiles, Step};
use kennel_policy::policy::{NestedNamespaces, Policy, SeccompProfile};
use rustix::process::Resource;

use super::Steps;
use crate::shared::{INOTIFY_INSTANCES, NAMESPACES, OPEN_FILES, PENDING_SIGNALS};
use crate::tier::Tier;

const REASON: &str = "other programs of the same user need some too";

/// Limits that every process inside has. Since Linux 5.14 the kernel holds all inside together to those on signals, queues and
/// processes, because the sandbox's user namespace is made with them; before, each of them is compared with what the user has.
pub(super) fn limits(steps: &mut Steps, tier: Tier) {
    let mut share = |resource: Resource, most, half| {
        steps.add(Step::Share { resource: resource as u32, most, half }, REASON);
    };
    share(Resource::Sigpending, PENDING_SIGNALS, true);
    share(Resource::Msgqueue, u64::MAX, true);
    // Without a user namespace what the user runs outside would count too.
    if tier != Tier::LandlockOnly {
        share(Resource::Nproc, u64::MAX, true);
    }
    // No power of the caller's to come before others.
    share(Resource::Nice, 0, false);
    share(Resource::Rtprio, 0, false);
}

/// The limit on open descriptors holds more than those that are open: how many of the user's descriptors may be on their way through
/// sockets is compared with the sender's limit.
pub(super) fn open_files(policy: &Policy) -> OpenFiles {
    match policy.limits.open_files {
        None => OpenFiles::AtMost(OPEN_FILES),
        Some(u32::MAX) => OpenFiles::Inherit,
        Some(count) => OpenFiles::Exactly(count.into()),
    }
}

/// Limits of the sandbox's user namespace, by the names of the kernel's files. To be set when there is a /proc: the sandbox's own.
pub(super) fn namespaces(steps: &mut Steps, policy: &Policy) {
    let mut limit = |file: &CStr, value, half_of: &CStr| {
        steps.add(Step::NamespaceLimit { file: file.into(), value, half_of: half_of.into() }, REASON);
    };
    limit(c"max_inotify_instances", INOTIFY_INSTANCES, c"");
    // Where nobody says, half of what kernels before 5.11 give.
    limit(c"max_inotify_watches", 4096, c"sys/fs/inotify/max_user_watches");
    let filtered = matches!(policy.process.seccomp, SeccompProfile::Default | SeccompProfile::Strict);
    if filtered && policy.process.nested == NestedNamespaces::Denied {
        return;
    }
    for kind in NAMESPACE_KINDS {
        limit(kind, NAMESPACES, c"");
    }
    if !filtered {
        limit(c"max_fanotify_groups", INOTIFY_INSTANCES, c"");
        limit(c"max_fanotify_marks", 4096, c"sys/fs/fanotify/max_user_marks");
    }
}

/// Namespaces that somebody inside can make, where the filter lets them.
const NAMESPACE_KINDS: &[&CStr] = &[
    c"max_user_namespaces",
    c"max_pid_namespaces",
    c"max_uts_namespaces",
    c"max_ipc_namespaces",
    c"max_net_namespaces",
    c"max_mnt_namespaces",
    c"max_cgroup_namespaces",
    c"max_time_namespaces",
];
