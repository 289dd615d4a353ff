//! How a sandbox ended: the last value on the way, the same whichever system it ran on.

mod changed;
mod denial;
mod gateway;
mod network;
mod set_aside;
#[cfg(feature = "serde")]
mod shown;
mod violation;

use std::time::Duration;

pub use changed::{Change, Changed};
pub use denial::{Denials, Explain, FileDenial, Remedy, Tried};
pub use gateway::{GatewayUse, ModelCounts, ModelUse};
pub use network::{HostTraffic, LimitUse, NetworkDecision, NetworkUse, Program, TrafficUse};
pub use set_aside::{HandedBack, SetAside, What};
pub use violation::{Mended, Violation, Violations};

/// Numbers that are the same wherever there are signals.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Ended {
    /// It exited by itself.
    Exited(i32),
    /// A signal killed it.
    Signalled(i32),
    /// It timed out and everything inside was killed.
    TimedOut,
    /// It used up its CPU time.
    CpuTimeUsedUp,
    /// The sandbox was at its memory limit and the kernel killed the command.
    OutOfMemory,
    /// A rule was broken despite the guard, and the sandbox was killed; or something that the host would run could
    /// not be set aside.
    RuleBroken,
    /// Everything inside was killed from outside.
    Killed,
}

/// How a sandbox ended, and what it used.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Outcome {
    /// How the command ended.
    pub ended: Ended,
    /// From the start of the command to the end of the last process.
    pub wall_time: Duration,
    /// User CPU time of all processes inside.
    pub cpu_user: Duration,
    /// System CPU time.
    pub cpu_system: Duration,
    /// How long the limit on CPUs throttled processes, summed over them, if a cgroup counted it.
    pub cpu_throttled: Option<Duration>,
    /// Peak memory in bytes: of everything inside if a cgroup counted it, otherwise of the largest process.
    pub peak_memory: u64,
    /// Whether `peak_memory` is of everything inside.
    pub memory_counted: bool,
    /// The most processes and threads at once, where a cgroup counted them.
    pub max_pids_seen: Option<u64>,
    /// How many processes the out-of-memory killer killed; the command may have continued without them.
    pub oom_kills: u64,
    /// How often a new process was refused because of the limit.
    pub pids_refused: u64,
    /// Whether there was more output than the limit allows.
    pub output_truncated: bool,
    /// What was tried at protected paths that do not exist.
    pub violations: Violations,
    /// What the command could not do with files, as far as that was looked at.
    pub denials: Denials,
    /// Whether something inside tried to reach a network that is not there. Only checked in a network of the
    /// sandbox's own; in a session, only when the command failed.
    pub tried_network: bool,
    /// What git on the host would have run, and was set aside.
    pub handed_back: HandedBack,
    /// What the policy requires and this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
    /// What the network gate decided, where there was one.
    pub network: NetworkUse,
    /// What was used of the model gateway, where there was one.
    pub gateway: GatewayUse,
    /// What the policy does not mean here, without that being an error: an expression that matches nothing in a secret, say.
    pub warnings: Vec<String>,
    /// Why output did not arrive where it was to go, if it did not: a full disk, say.
    pub stream_failure: Option<String>,
}

impl Ended {
    /// A word for it, in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Ended::Exited(_) => "exited",
            Ended::Signalled(_) => "signalled",
            Ended::TimedOut => "timed-out",
            Ended::CpuTimeUsedUp => "cpu-time-used-up",
            Ended::OutOfMemory => "out-of-memory",
            Ended::RuleBroken => "rule-broken",
            Ended::Killed => "killed",
        }
    }

    /// The signal that killed the command.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            Ended::Exited(_) => None,
            Ended::Signalled(signal) => Some(signal),
            Ended::CpuTimeUsedUp => Some(SIGXCPU),
            Ended::TimedOut | Ended::Killed | Ended::OutOfMemory | Ended::RuleBroken => Some(SIGKILL),
        }
    }
}

impl Outcome {
    /// The exit code that says the same: the command's own, 128 plus the signal's number (137 when memory ran out,
    /// 152 when CPU time did), 124 when it timed out, or 123 when a rule was broken.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.ended {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => 128 + signal,
            Ended::TimedOut => 124,
            Ended::RuleBroken => 123,
            Ended::CpuTimeUsedUp => 128 + SIGXCPU,
            Ended::Killed | Ended::OutOfMemory => 128 + SIGKILL,
        }
    }
}

/// What a sandbox uses while it runs. A figure that nothing counts on this host is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Usage {
    /// Bytes of memory now, of everything inside: of programs, of files in `/tmp`, of the page cache, and the kernel's own for
    /// this sandbox.
    pub memory: Option<u64>,
    /// User CPU time so far.
    pub cpu_user: Option<Duration>,
    /// System CPU time so far.
    pub cpu_system: Option<Duration>,
    /// Processes and threads now; PID 1, which is kennel's, is one of them.
    pub processes: Option<u64>,
    /// Bytes that left so far, with a budget for traffic.
    pub egress: Option<u64>,
    /// Bytes that came in so far.
    pub ingress: Option<u64>,
}

/// Somebody who wants to know what a sandbox uses.
pub trait UsageSink: Send {
    /// What it uses now.
    fn tell(&mut self, usage: &Usage);

    /// The command was stopped, and the terminal is its shell's until the next [`UsageSink::tell`].
    fn pause(&mut self) {}
}
