//! How a sandbox ended.

use std::time::Duration;

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited by itself.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its time was up and everything inside was killed.
    TimedOut,
    /// PID 1 was killed from outside, and everything inside with it.
    Killed,
}

/// How a sandbox ended, and what it used.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What became of the command.
    pub ended: Ended,
    /// From the launch to the end of the last process.
    pub wall_time: Duration,
    /// CPU time in programs, of all processes inside.
    pub cpu_user: Duration,
    /// CPU time in the kernel.
    pub cpu_system: Duration,
    /// The most memory that any one process had at once, in bytes.
    pub peak_memory: u64,
    /// What the policy asked for and this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
}

impl Outcome {
    /// The exit code that says the same: the command's own, 128 and the signal's number, or 124 when time was up.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.ended {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => 128 + signal,
            Ended::TimedOut => 124,
            Ended::Killed => 128 + libc::SIGKILL,
        }
    }
}
