//! A command that runs in its sandbox while the caller goes on.

use std::io::{PipeReader, PipeWriter};
use std::time::Duration;

use crate::{ExecutionResult, Result};

/// A running command. Dropping it kills everything inside and waits until nothing is left.
#[derive(Debug)]
pub struct Child {
    #[cfg(target_os = "linux")]
    running: kennel_linux::supervise::Running,
    #[cfg(target_os = "linux")]
    filtered: Option<crate::network::Filtered>,
    not_enforced: Vec<String>,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
}

#[cfg(target_os = "linux")]
impl Child {
    pub(crate) fn new(
        running: kennel_linux::supervise::Running,
        not_enforced: Vec<String>,
        filtered: Option<crate::network::Filtered>,
        stdin: PipeWriter,
        stdout: PipeReader,
        stderr: PipeReader,
    ) -> Child {
        Child {
            running,
            filtered,
            not_enforced,
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(stderr),
        }
    }

    /// Kills everything inside. [`Child::wait`] tells when it is done.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Waits for the end. Output that was not taken is dropped: whoever wants it reads the streams first.
    ///
    /// # Errors
    /// Only when the system fails this process itself.
    pub fn wait(mut self) -> Result<ExecutionResult> {
        drop(self.stdin.take());
        self.finish()
    }

    /// Waits for the end, but no longer than `limit`.
    ///
    /// # Errors
    /// [`crate::SandboxError::Timeout`] when it still runs, which it then goes on doing.
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<ExecutionResult> {
        if self.running.is_over_within(limit)? { self.finish() } else { Err(crate::SandboxError::Timeout) }
    }

    /// PID 1 of the sandbox, as the caller sees it.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.running.init_pid().cast_unsigned()
    }

    fn finish(&mut self) -> Result<ExecutionResult> {
        let mut outcome = self.running.wait(kennel_linux::supervise::Attended::default())?;
        outcome.not_enforced = std::mem::take(&mut self.not_enforced);
        let mut result = ExecutionResult::of(&outcome, Default::default());
        result.network = self.filtered.as_ref().map(crate::network::Filtered::decisions).unwrap_or_default();
        Ok(result)
    }
}

impl Child {
    /// The writing end of the command's standard input. Dropping it ends the input.
    pub fn take_stdin(&mut self) -> Option<PipeWriter> {
        self.stdin.take()
    }

    /// The reading end of the command's standard output.
    pub fn take_stdout(&mut self) -> Option<PipeReader> {
        self.stdout.take()
    }

    /// The reading end of the command's standard error.
    pub fn take_stderr(&mut self) -> Option<PipeReader> {
        self.stderr.take()
    }
}
