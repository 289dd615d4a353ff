//! How a sandbox ended.

use std::time::Duration;

use crate::guard::Violations;
use crate::handback::HandedBack;

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited by itself.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its time was up and everything inside was killed.
    TimedOut,
    /// It had used up its CPU time.
    CpuTimeUsedUp,
    /// The sandbox was at its memory limit and the kernel killed the command.
    OutOfMemory,
    /// A protected path was made in spite of the guard, and everything inside was killed.
    RuleBroken,
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
    /// How long the limit on CPUs held processes back, added up over them, where a cgroup counted it.
    pub cpu_throttled: Option<Duration>,
    /// The most memory at once, in bytes: of everything inside where a cgroup counted it, else of any one process.
    pub peak_memory: u64,
    /// Whether `peak_memory` is of everything inside.
    pub memory_counted: bool,
    /// The most processes and threads at once, where a cgroup counted them.
    pub max_pids_seen: Option<u64>,
    /// How many processes the out-of-memory killer took; the command may have gone on without them.
    pub oom_kills: u64,
    /// How often a new process was refused because of the limit.
    pub pids_refused: u64,
    /// Whether there was more output than the limit allows.
    pub output_truncated: bool,
    /// What was tried at protected paths that do not exist.
    pub violations: Violations,
    /// Whether something inside tried to reach a network that is not there. Only looked for when the command failed, in a
    /// network of the sandbox's own.
    pub tried_network: bool,
    /// What git on the host would have run, and was set aside.
    pub handed_back: HandedBack,
    /// What the policy asked for and this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
}

impl Ended {
    /// The signal that ended the command.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            Ended::Exited(_) => None,
            Ended::Signalled(signal) => Some(signal),
            Ended::CpuTimeUsedUp => Some(libc::SIGXCPU),
            Ended::TimedOut | Ended::Killed | Ended::OutOfMemory | Ended::RuleBroken => Some(libc::SIGKILL),
        }
    }
}

impl Outcome {
    /// The exit code that says the same: the command's own, 128 and the signal's number (137 when memory ran
    /// out, 152 when CPU time did), 124 when time was up, or 123 when a rule was broken.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.ended {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => 128 + signal,
            Ended::TimedOut => 124,
            Ended::RuleBroken => 123,
            Ended::CpuTimeUsedUp => 128 + libc::SIGXCPU,
            Ended::Killed | Ended::OutOfMemory => 128 + libc::SIGKILL,
        }
    }
}
