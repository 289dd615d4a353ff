//! The minimal /dev: the nodes every program may expect, terminals and shared memory of the sandbox's own.

use std::ffi::CString;

use kennel_init::plan::{Access, Identity, Step};

use super::{Caller, PlanError, Steps, c_path};

/// The nodes. Bound from the host, because a user namespace may not make devices.
pub const NODES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// All that can be named in it.
pub const OWN: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "shm", "pts"];

const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

fn inside(name: &str) -> CString {
    CString::new(format!("/dev/{name}")).unwrap_or_default()
}

/// Makes the store of all private folders, which holds `scratch` bytes, at /dev, where something covers it later.
pub(super) fn store(steps: &mut Steps, scratch: u64, inodes: u64) {
    let store = Step::Store { target: c"/dev".into(), size: scratch, inodes };
    steps.add(store, "the private folders of the sandbox, and what hides files");
}

/// Makes /dev, above the store. `early` says that the host's nodes lie below the new /dev.
pub(super) fn make(steps: &mut Steps, caller: &Caller, early: bool) -> Result<(), PlanError> {
    let reason = "every sandbox has a minimal /dev of its own";
    steps.add(Step::Private { target: c"/dev".into(), name: c"dev".into(), mode: 0o755 }, reason);
    for node in NODES {
        device(steps, inside(node), inside(node), Identity::default(), early, reason);
    }
    for (name, points_to) in LINKS {
        let points_to = CString::new(*points_to).unwrap_or_default();
        steps.add(Step::Symlink { path: inside(name), points_to }, reason);
    }
    steps.add(Step::MakeDir { path: inside("pts"), mode: 0o755 }, reason);
    steps.add(Step::Devpts { target: inside("pts") }, reason);
    steps.add(Step::MakeDir { path: inside("shm"), mode: 0o755 }, reason);
    steps.add(Step::Private { target: inside("shm"), name: c"shm".into(), mode: 0o1777 }, reason);
    if let Some((path, identity)) = &caller.tty {
        // Programs ask for the name of their terminal; the host's name for it does not exist inside.
        let reason = "the caller's terminal, for programs that ask for its name";
        device(steps, c_path(path)?, inside("console"), *identity, early, reason);
    }
    Ok(())
}

pub(super) fn device(
    steps: &mut Steps,
    source: CString,
    target: CString,
    identity: Identity,
    early: bool,
    reason: &str,
) {
    steps.add(Step::MakeFile { path: target.clone() }, reason);
    steps.add(Step::Bind { source, identity, target, access: Access::Device, early }, reason);
}
