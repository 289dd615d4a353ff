//! What a process inherits without being asked, put back to what a fresh process expects.

use crate::sys;

/// Leaves the agent stdin, stdout and stderr and no other descriptor.
///
/// Whatever else the container runtime left open is a mistake of the runtime, and has been a way out of the container
/// (CVE-2024-21626: a directory of the host, open in the container's PID 1).
pub fn close_descriptors() {
    // close_range came with Linux 5.9; older kernels and some system call filters refuse it.
    if sys::close_from(3).is_err() {
        // Every descriptor below the limit is tried. One above it could only be left by a runtime that lowered its
        // own limit afterwards.
        (3..sys::descriptor_limit().min(1 << 16)).for_each(sys::close);
    }
}

/// Unblocks all signals and gives each its default action.
///
/// Handlers do not survive execve, but an ignored signal stays ignored and a blocked one blocked. A daemon that
/// ignores SIGPIPE must not make every pipeline of the agent run on after its reader has gone.
pub fn reset_signals() {
    for signal in 1..=sys::LAST_SIGNAL {
        sys::default_action(signal);
    }
    sys::set_signal_mask(&sys::SignalSet::EMPTY);
}
