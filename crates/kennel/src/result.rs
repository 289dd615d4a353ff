//! The result of a run.

use std::time::Duration;

use kennel_policy::outcome::{
    Changed, Ended, GatewayUse, NetworkDecision, Outcome, SetAside, TrafficUse, Violation,
};

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExecutionResult {
    /// How the command ended. The fields below say the same one by one.
    pub ended: Ended,
    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error as text; bytes that are not UTF-8 are replaced.
    pub stderr: String,
    /// Standard output as it was.
    pub stdout_bytes: Vec<u8>,
    /// Standard error as it was.
    pub stderr_bytes: Vec<u8>,
    /// The command's own code; 128 plus the signal's number; 124 when it timed out; 123 when a rule was broken.
    pub exit_code: i32,
    /// Wall-clock time.
    pub duration: Duration,
    /// CPU time of everything inside, user and system.
    pub cpu_time: Option<Duration>,
    /// The user part of it.
    pub cpu_user: Option<Duration>,
    /// The system part of it.
    pub cpu_system: Option<Duration>,
    /// How long `cpu_limit` throttled processes, summed over them, if that was counted.
    pub cpu_throttled: Option<Duration>,
    /// Peak memory in bytes: of everything inside if there is a limit on all of it or `count_usage` was possible,
    /// otherwise of the largest process.
    pub peak_memory: Option<u64>,
    /// Whether `peak_memory` is of everything inside together, and not of the largest process.
    pub peak_memory_of_all: bool,
    /// The sandbox timed out and was killed.
    pub killed_by_timeout: bool,
    /// Memory ran out and the kernel killed the command.
    pub killed_by_oom: bool,
    /// The command used up its CPU time.
    pub killed_by_cpu_time: bool,
    /// How many processes the kernel killed because memory ran out; the command may have continued without them.
    pub oom_kills: u64,
    /// The most processes and threads at once, where something counted them.
    pub max_pids_seen: Option<u64>,
    /// How often a new process or thread was refused because of `max_pids`.
    pub pids_refused: u64,
    /// The signal that killed the command.
    pub signal: Option<i32>,
    /// The output exceeded `max_output`.
    pub output_truncated: bool,
    /// Every decision of the network gate, refusals included.
    pub network: Vec<NetworkDecision>,
    /// How many bytes left and came in, with a [`traffic_budget`](crate::SandboxBuilder::traffic_budget). The outcome of a session
    /// has those of its commands.
    pub traffic: Option<TrafficUse>,
    /// What was used of the model gateway, by provider and model.
    pub gateway: GatewayUse,
    /// Without a network: whether something inside tried to reach one. In a session only checked when the
    /// command failed.
    pub tried_network: bool,
    /// Attempts at denied paths that do not exist.
    pub violations: Vec<Violation>,
    /// What the command left that git on the host would have run, and that was set aside: see
    /// [`SandboxBuilder::git`](crate::SandboxBuilder::git). What could not be set aside has an error, and is still there.
    pub set_aside: Vec<SetAside>,
    /// Instructions of agents and files of tools that the command made, changed or removed: see
    /// [`SandboxBuilder::protect_dotfiles`](crate::SandboxBuilder::protect_dotfiles).
    pub changed: Vec<Changed>,
    /// A denied path was created despite the guard, and the sandbox was killed; `violations` says which.
    pub killed_by_broken_rule: bool,
    /// What this host could not enforce (only with best effort).
    pub not_enforced: Vec<String>,
    /// What the policy does not mean here, without that being an error: an expression that matches nothing in a secret, say.
    pub warnings: Vec<String>,
    /// Why output did not arrive where it was to go, if it did not: a full disk behind a file, say.
    pub stream_failure: Option<String>,
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

impl ExecutionResult {
    pub(crate) fn of(outcome: Outcome, [stdout, stderr]: [Vec<u8>; 2]) -> Self {
        ExecutionResult {
            ended: outcome.ended,
            exit_code: outcome.exit_code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            stdout_bytes: stdout,
            stderr_bytes: stderr,
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
            killed_by_broken_rule: outcome.ended == Ended::RuleBroken,
            signal: outcome.ended.signal(),
            max_pids_seen: outcome.max_pids_seen,
            pids_refused: outcome.pids_refused,
            oom_kills: outcome.oom_kills,
            output_truncated: outcome.output_truncated,
            not_enforced: outcome.not_enforced,
            warnings: outcome.warnings,
            stream_failure: outcome.stream_failure,
            violations: outcome.violations.list,
            set_aside: outcome.handed_back.list,
            changed: outcome.handed_back.changed,
            network: outcome.network.decisions,
            traffic: outcome.network.traffic,
            gateway: outcome.gateway,
            tried_network: outcome.tried_network,
        }
    }
}
