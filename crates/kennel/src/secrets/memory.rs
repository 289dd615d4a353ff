//! What keeps this process's memory to itself while it holds secrets.

use std::hint::black_box;

/// Keeps a program that is kennel's own from being dumped and traced: no core file, and none of `/proc/PID/{mem,environ,…}` for
/// other programs of the same user. Not for a library: the process is its caller's.
#[cfg(target_os = "linux")]
pub(crate) fn keep_private() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // For a core pattern that is a pipe the kernel does not look at a limit of 0; a limit of 1 means none there, and is too small
    // for a file.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
}

/// The same as far as macOS has it: no core file.
#[cfg(target_os = "macos")]
pub(crate) fn keep_private() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Overwrites the part of the stack that functions before this one may have used: PID 1 of a second try is a copy of it.
#[inline(never)]
pub(crate) fn scrub_stack() {
    let mut room = [0u8; 64 << 10];
    black_box(&mut room);
}
