//! Whether a sandbox could reach the descriptor that brings it new rules: then it could write its own, or take those that
//! were meant for kennel.
//!
//! A pipe without a name, a socket, and a file that has been removed are found by no path. A FIFO is open to everyone who
//! sees its name, on a read-only mount too, because nothing is written to the disk; so it has to lie where the sandbox sees
//! something else. A file that the sandbox cannot write is harmless: to read it takes nothing away.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use kennel_policy::policy::{MountAccess, Policy, TmpMode};
use rustix::fs::FileType;

const PIPEFS: u32 = 0x5049_5045;

/// Why these lines are not to be trusted, with advice; `None` where they are.
pub(super) fn reachable(lines: impl AsFd, policy: &Policy) -> Option<String> {
    let lines = lines.as_fd();
    let status = rustix::fs::fstat(lines).ok()?;
    let kind = FileType::from_raw_mode(status.st_mode);
    if status.st_nlink == 0 || !matches!(kind, FileType::Fifo | FileType::RegularFile) {
        return None;
    }
    if kind == FileType::Fifo && rustix::fs::fstatfs(lines).is_ok_and(|system| system.f_type as u32 == PIPEFS)
    {
        return None;
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", lines.as_raw_fd())).unwrap_or_default();
    let open = match kind {
        FileType::Fifo => !is_hidden(&path, policy),
        _ => is_writable(&path, policy),
    };
    let what = if kind == FileType::Fifo { "a FIFO" } else { "a file" };
    open.then(|| {
        format!(
            "the control descriptor is {what} that the sandbox can open itself: {}\n\
             help: use an unnamed pipe, such as bash's `exec 9<> <(:)`, or a FIFO below /tmp, which the sandbox does not share",
            path.display()
        )
    })
}

/// Whether another folder stands in the place of the one that it is in.
fn is_hidden(path: &Path, policy: &Policy) -> bool {
    let private_tmp = policy.files.tmp == TmpMode::Private;
    let hides = |folder: &str| path.starts_with(folder) && !mentions(Path::new(folder), policy);
    (private_tmp && (hides("/tmp") || hides("/dev/shm"))) || (!policy.files.host_run && hides("/run"))
}

/// Whether a rule or a mount shows something of this folder.
fn mentions(folder: &Path, policy: &Policy) -> bool {
    let files = &policy.files;
    let rules = files.allow_read.iter().chain(&files.allow_write).map(|rule| rule.pattern.literal_prefix());
    let sources = files.mounts.iter().map(|mount| mount.source.as_path());
    let mut shown = rules.chain(sources).map(real);
    shown.any(|path| path.starts_with(folder))
}

/// Whether it lies in a folder that the sandbox can write.
fn is_writable(path: &Path, policy: &Policy) -> bool {
    let files = &policy.files;
    let rules = files.allow_write.iter().map(|rule| rule.pattern.literal_prefix());
    let mounts = files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
    let mut roots = rules.chain(mounts.map(|mount| mount.source.as_path())).map(real);
    roots.any(|root| path.starts_with(root))
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
