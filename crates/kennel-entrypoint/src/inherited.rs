//! What a process inherits without being asked, put back to what a fresh process expects.

use crate::sys;

/// Leaves the agent stdin, stdout and stderr and no other descriptor.
///
/// Whatever else the container runtime left open is a mistake of the runtime, and has been a way out of the container
/// (CVE-2024-21626: a directory of the host, open in the container's PID 1).
pub fn close_descriptors() {
    // close_range came with Linux 5.9; older kernels and some system call filters refuse it.
    if sys::close_from(3).is_err() {
        // Every number is tried that a process can have, unless an administrator has raised fs.nr_open: a runtime may
        // have lowered its own limit after it opened something.
        (3..sys::descriptor_limit().max(MAX_DESCRIPTORS)).for_each(sys::close);
    }
}

/// The kernel's own limit on the number of a descriptor, by default.
const MAX_DESCRIPTORS: i32 = 1 << 20;

/// Leaves the session keyring of whoever started the container, with the keys in it, for an empty one. To be called as
/// the agent's user, who owns it then. Where a system call filter refuses it, the agent cannot use any keyring either.
pub fn leave_keyring() {
    let _ = sys::join_new_session_keyring();
}

/// Unblocks all signals and gives each its default action. Interval timers, which survive execve too, are stopped: nobody here
/// would expect their signals, and by default each ends the process.
///
/// Handlers do not survive execve, but an ignored signal stays ignored and a blocked one blocked. A daemon that
/// ignores SIGPIPE must not make every pipeline of the agent run on after its reader has gone.
pub fn reset_signals() {
    for signal in 1..=sys::LAST_SIGNAL {
        sys::default_action(signal);
    }
    sys::stop_timers();
    sys::set_signal_mask(&sys::SignalSet::EMPTY);
}
