//! The minimal /dev: the nodes every program may expect, terminals and shared memory of the sandbox's own.

use std::ffi::CString;

use kennel_init::plan::{Access, Identity, Step};

use super::{Caller, PlanError, Steps, TerminalStreams, c_path};

/// The nodes. Bound from the host, because a user namespace may not make devices.
pub const NODES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

const DEVICE_STREAM: &str = "no descriptor of the host's devices is inside";

fn inside(name: &str) -> CString {
    CString::new(format!("/dev/{name}")).unwrap_or_default()
}

/// Makes the store of all private folders, which holds `scratch` bytes, at /dev, where something covers it later.
pub(super) fn store(steps: &mut Steps, caller: &Caller, scratch: u64, inodes: u64) -> Result<(), PlanError> {
    let store = Step::Store { target: c"/dev".into(), size: scratch, inodes };
    steps.add(store, "the private folders of the sandbox, and what hides files");
    if let Some(input) = &caller.input {
        // While the host's paths mean what they did; and after the store, which holds the place to mount it on.
        let (source, identity, offset) = (c_path(&input.path)?, input.identity, input.offset);
        steps
            .add(Step::InputFile { source, identity, offset }, "no descriptor of the host's files is inside");
    }
    Ok(())
}

/// Where /dev is hidden: the devices that the command has as streams, until something covers them.
pub(super) fn streams_only(steps: &mut Steps, caller: &Caller, early: bool) {
    for (node, _) in &caller.devices {
        device(steps, inside(node), inside(node), Identity::default(), early, DEVICE_STREAM);
    }
    streams(steps, caller);
}

/// The devices that the command has as streams.
pub(super) fn streams(steps: &mut Steps, caller: &Caller) {
    for (node, streams) in &caller.devices {
        let step = Step::DeviceStream { path: inside(node), streams: streams.clone() };
        steps.add(step, DEVICE_STREAM);
    }
}

/// Makes /dev, above the store. `early` says that the host's nodes lie below the new /dev.
pub(super) fn make(steps: &mut Steps, caller: &Caller, early: bool) {
    let reason = "every sandbox has a minimal /dev of its own";
    steps.add(Step::Private { target: c"/dev".into(), name: c"dev".into(), mode: 0o755 }, reason);
    for node in NODES {
        device(steps, inside(node), inside(node), Identity::default(), early, reason);
    }
    // Before a rule hides the node: what the caller has opened is there all the same.
    streams(steps, caller);
    for (name, points_to) in LINKS {
        let points_to = CString::new(*points_to).unwrap_or_default();
        steps.add(Step::Symlink { path: inside(name), points_to }, reason);
    }
    steps.add(Step::MakeDir { path: inside("pts"), mode: 0o755 }, reason);
    steps.add(Step::Devpts { target: inside("pts"), most: crate::shared::TERMINALS }, reason);
    steps.add(Step::MakeDir { path: inside("shm"), mode: 0o755 }, reason);
    steps.add(Step::Private { target: inside("shm"), name: c"shm".into(), mode: 0o1777 }, reason);
}

/// What takes the place of the caller's terminal. When all mounts are made, and before Landlock.
pub(super) fn terminal(steps: &mut Steps, caller: &Caller) {
    if let Some(TerminalStreams { modes, size, streams }) = &caller.tty {
        let step = Step::Terminal { modes: modes.clone(), size: *size, streams: streams.clone() };
        steps
            .add(step, "the caller's terminal is not inside: the controller carries what is typed and shown");
    }
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
