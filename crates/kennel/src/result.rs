//! What came of a run.

use std::time::Duration;

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct ExecutionResult {
    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error as text; bytes that are not UTF-8 are replaced.
    pub stderr: String,
    /// Standard output as it was.
    pub stdout_bytes: Vec<u8>,
    /// Standard error as it was.
    pub stderr_bytes: Vec<u8>,
    /// The command's own code; 128 and the signal's number; 124 when time was up.
    pub exit_code: i32,
    /// Wall-clock time.
    pub duration: Duration,
    /// CPU time of everything inside, in programs and in the kernel.
    pub cpu_time: Option<Duration>,
    /// The most memory at once, in bytes.
    pub peak_memory: Option<u64>,
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
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// There was more output than `max_output`.
    pub output_truncated: bool,
    /// Every decision of the network gate, refusals included.
    #[cfg(target_os = "linux")]
    pub network: Vec<crate::NetworkDecision>,
    /// What this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
}

impl ExecutionResult {
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
            stdout: String::from_utf8_lossy(&stdout.bytes).into_owned(),
            stderr: String::from_utf8_lossy(&stderr.bytes).into_owned(),
            exit_code: outcome.exit_code(),
            duration: outcome.wall_time,
            cpu_time: Some(outcome.cpu_user + outcome.cpu_system),
            peak_memory: Some(outcome.peak_memory),
            killed_by_timeout: outcome.ended == Ended::TimedOut,
            killed_by_oom: outcome.ended == Ended::OutOfMemory,
            killed_by_cpu_time: outcome.ended == Ended::CpuTimeUsedUp,
            signal: outcome.ended.signal(),
            max_pids_seen: outcome.max_pids_seen,
            oom_kills: outcome.oom_kills,
            output_truncated: outcome.output_truncated,
            not_enforced: outcome.not_enforced.clone(),
            network: Vec::new(),
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
        }
    }
}
