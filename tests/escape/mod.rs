//! Ways out of a sandbox, each tried for real.
//!
//! A test's name is the technique. Where a try needs something to be true of the host, the test makes the same try
//! outside, where it has to succeed, or with the protection in question switched off.

mod attacks;
mod descriptors;
mod ipc;
mod kernel;
mod links;
mod mounts;
mod names;
mod nodes;
mod power;
mod printed;
mod processes;
mod procfs;
mod programs;
mod report;
mod signals;
mod streams;
mod sysfs;
mod terminal;
mod yard;

/// Linux 6.6, with the same number everywhere; libc has it for some processors only.
const FCHMODAT2: libc::c_long = 452;

kennel_tests::roles! {
    "own-memory" => attacks::memory::write_own,
    "other-memory" => attacks::memory::other_process,
    "compatibility-call" => attacks::machine::compatibility_call,
    "vsyscall" => attacks::machine::vsyscall,
    "uring" => attacks::uring::open_and_socket,
    "terminal" => attacks::terminal::inject,
    "swapped-link" => attacks::links::read_while_swapping,
    "messages" => attacks::sockets::send_and_receive,
    "status-of" => attacks::programs::status_of,
    "from-memory" => attacks::programs::from_memory,
    "wait" => attacks::programs::wait,
    "daemon" => attacks::programs::daemon,
    "fill" => attacks::fill::fill,
    "credentials" => attacks::sockets::credentials,
}
