//! The guard of a sandbox around this one. The kernel allows one listener per process, so a sandbox inside a guarded one has no
//! guard of its own. What the outer guard keeps absent, the inner one does not have to: this asks it.

use std::path::Path;

use rustix::io::Errno;

use crate::resolve::guard_rules::{Asks, Rules};

/// The flags of a renameat2 that no kernel performs, and that a guard takes for the question. They contradict each other
/// (RENAME_NOREPLACE and RENAME_EXCHANGE), so the kernel answers EINVAL before it looks at any path.
pub const ASK: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;

/// Whether rules hold without a guard that the filter asks: because they do not need one, or because an outer guard keeps absent what
/// this one would. Files that may only be written anew as they are stay read-only then.
#[must_use]
pub fn suffices(rules: &Rules) -> bool {
    rules.asks() != Asks::Must
        // With none of the host's listed, no socket can be made then.
        || (rules.sockets.as_ref().is_none_or(|sockets| sockets.allowed.is_empty())
            && rules.in_root.is_empty()
            && rules.absent_by_policy().all(|absent| keeps_absent(&absent.path())))
}

/// Whether an outer guard lets nobody make anything at `path`. It resolves the path as it is for this process.
fn keeps_absent(path: &Path) -> bool {
    let ask = rustix::fs::RenameFlags::from_bits_retain(ASK);
    let cwd = rustix::fs::CWD;
    rustix::fs::renameat_with(cwd, path, cwd, path, ask) == Err(Errno::ROFS)
}
