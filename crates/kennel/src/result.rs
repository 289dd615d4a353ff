//! What came of a run.

use std::time::Duration;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It exited by itself, with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// Its time was up and everything inside was killed.
    TimedOut,
    /// It had used up its CPU time.
    CpuTimeUsedUp,
    /// Memory ran out and the kernel killed it.
    OutOfMemory,
    /// A rule was broken in spite of all, and everything inside was killed; or something that the host would run could not
    /// be set aside.
    RuleBroken,
    /// Everything inside was killed from outside.
    Killed,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct ExecutionResult {
    /// What became of the command. The fields below say the same one by one.
    pub ended: Ended,
    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error as text; bytes that are not UTF-8 are replaced.
    pub stderr: String,
    /// Standard output as it was.
    pub stdout_bytes: Vec<u8>,
    /// Standard error as it was.
    pub stderr_bytes: Vec<u8>,
    /// The command's own code; 128 and the signal's number; 124 when time was up; 123 when a rule was broken.
    pub exit_code: i32,
    /// Wall-clock time.
    pub duration: Duration,
    /// CPU time of everything inside, in programs and in the kernel.
    pub cpu_time: Option<Duration>,
    /// The part of it in programs.
    pub cpu_user: Option<Duration>,
    /// The part of it in the kernel.
    pub cpu_system: Option<Duration>,
    /// How long `cpu_limit` held processes back, added up over them, where something counted it.
    pub cpu_throttled: Option<Duration>,
    /// The most memory at once, in bytes: of everything inside where there is a limit on all of it or
    /// `count_usage` could be had, else of the largest process.
    pub peak_memory: Option<u64>,
    /// Whether `peak_memory` is of everything inside together, and not of the largest process.
    pub peak_memory_of_all: bool,
    /// Time was up and everything inside was killed.
    pub killed_by_timeout: bool,
    /// Memory ran out and the kernel killed the command.
    pub killed_by_oom: bool,
    /// The command had used up its CPU time.
    pub killed_by_cpu_time: bool,
    /// How many processes the kernel killed because memory had run out; the command may have gone on without them.
    pub oom_kills: u64,
    /// The most processes and threads at once, where something counted them.
    pub max_pids_seen: Option<u64>,
    /// How often a new process or thread was refused because of `max_pids`.
    pub pids_refused: u64,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// There was more output than `max_output`.
    pub output_truncated: bool,
    /// Every decision of the network gate, refusals included.
    #[cfg(target_os = "linux")]
    pub network: Vec<crate::NetworkDecision>,
    /// Without a network: whether something inside tried to reach one. Only looked for when the command failed.
    pub tried_network: bool,
    /// What was tried at denied paths that do not exist.
    #[cfg(target_os = "linux")]
    pub violations: Vec<crate::Violation>,
    /// What the command left that git on the host would have run, and that was set aside: see
    /// [`SandboxBuilder::git`](crate::SandboxBuilder::git). What could not be set aside has an error, and is still there.
    #[cfg(target_os = "linux")]
    pub set_aside: Vec<crate::SetAside>,
    /// A denied path was made in spite of all, and everything inside was killed; `violations` says which.
    pub killed_by_broken_rule: bool,
    /// What this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
}

/// What a sandbox uses while it runs. A figure that nothing counts on this host is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory now, of everything inside, files in `/tmp` included.
    pub memory: Option<u64>,
    /// CPU time in programs so far.
    pub cpu_user: Option<Duration>,
    /// CPU time in the kernel so far.
    pub cpu_system: Option<Duration>,
    /// Processes and threads now; PID 1, which is kennel's, is one of them.
    pub processes: Option<u64>,
}

impl ExecutionResult {
    pub(crate) fn set_output(&mut self, stdout: Vec<u8>, stderr: Vec<u8>) {
        self.stdout = String::from_utf8_lossy(&stdout).into_owned();
        self.stderr = String::from_utf8_lossy(&stderr).into_owned();
        (self.stdout_bytes, self.stderr_bytes) = (stdout, stderr);
    }

    /// Whether the command exited with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code == 0
    }
}

#[cfg(target_os = "linux")]
impl ExecutionResult {
    pub(crate) fn of(
        outcome: &kennel_linux::outcome::Outcome,
        [stdout, stderr]: [kennel_linux::supervise::streams::Captured; 2],
    ) -> Self {
        use kennel_linux::outcome::Ended;
        ExecutionResult {
            ended: outcome.ended.into(),
            stdout: String::from_utf8_lossy(&stdout.bytes).into_owned(),
            stderr: String::from_utf8_lossy(&stderr.bytes).into_owned(),
            exit_code: outcome.exit_code(),
            duration: outcome.wall_time,
            cpu_time: Some(outcome.cpu_user + outcome.cpu_system),
            cpu_user: Some(outcome.cpu_user),
            cpu_system: Some(outcome.cpu_system),
            cpu_throttled: outcome.cpu_throttled,
            peak_memory: Some(outcome.peak_memory),
            peak_memory_of_all: outcome.memory_counted,
            killed_by_timeout: outcome.ended == Ended::TimedOut,
            killed_by_oom: outcome.ended == Ended::OutOfMemory,
            killed_by_cpu_time: outcome.ended == Ended::CpuTimeUsedUp,
            signal: outcome.ended.signal(),
            max_pids_seen: outcome.max_pids_seen,
            pids_refused: outcome.pids_refused,
            oom_kills: outcome.oom_kills,
            output_truncated: outcome.output_truncated,
            not_enforced: outcome.not_enforced.clone(),
            violations: outcome.violations.list.clone(),
            set_aside: outcome.handed_back.list.clone(),
            killed_by_broken_rule: outcome.ended == Ended::RuleBroken,
            network: Vec::new(),
            tried_network: outcome.tried_network,
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
        }
    }
}

#[cfg(target_os = "linux")]
impl From<kennel_linux::outcome::Ended> for Ended {
    fn from(ended: kennel_linux::outcome::Ended) -> Ended {
        use kennel_linux::outcome::Ended as Linux;
        match ended {
            Linux::Exited(code) => Ended::Exited(code),
            Linux::Signalled(signal) => Ended::Signalled(signal),
            Linux::TimedOut => Ended::TimedOut,
            Linux::CpuTimeUsedUp => Ended::CpuTimeUsedUp,
            Linux::OutOfMemory => Ended::OutOfMemory,
            Linux::RuleBroken => Ended::RuleBroken,
            Linux::Killed => Ended::Killed,
        }
    }
}
