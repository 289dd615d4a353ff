//! A command that runs in its sandbox while the caller goes on.

use std::io::{PipeReader, PipeWriter};
use std::time::Duration;

use crate::{ExecutionResult, Result, Usage};

/// A running command. Its limits hold whether or not somebody waits for it. Dropping it kills everything inside and
/// waits until nothing is left.
#[derive(Debug)]
pub struct Child {
    #[cfg(target_os = "linux")]
    attendant: kennel_linux::supervise::attendant::Attendant,
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
    ) -> Result<Child> {
        let attendant = kennel_linux::supervise::attendant::Attendant::new(running)?;
        let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
        Ok(Child { attendant, filtered, not_enforced, stdin, stdout, stderr })
    }

    /// Kills everything inside. [`Child::wait`] tells when it is done.
    pub fn kill(&self) {
        self.attendant.kill();
    }

    /// Waits for the end. Output that was not taken is dropped: whoever wants it reads the streams first.
    ///
    /// # Errors
    /// Only when the system fails this process itself.
    pub fn wait(mut self) -> Result<ExecutionResult> {
        drop(self.stdin.take());
        // Read all the same: a command that fills a pipe would wait for a reader for ever.
        for mut stream in [self.stdout.take(), self.stderr.take()].into_iter().flatten() {
            std::thread::Builder::new()
                .name("kennel-drain".into())
                .spawn(move || std::io::copy(&mut stream, &mut std::io::sink()))?;
        }
        self.finish(None)
    }

    /// Waits for the end, but no longer than `limit`. A command that fills a pipe which nobody reads does not end.
    ///
    /// # Errors
    /// [`crate::SandboxError::Timeout`] when it still runs, which it then goes on doing.
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<ExecutionResult> {
        self.finish(Some(limit))
    }

    /// A hold on the rules of its network, where it has an allow list.
    #[must_use]
    pub fn network(&self) -> Option<crate::NetworkControl> {
        self.filtered.as_ref().and_then(crate::network::Filtered::control)
    }

    /// Where the published ports are found on this host.
    ///
    /// ```no_run
    /// let sandbox = kennel::Sandbox::builder().publish(0, 8000).build()?;
    /// let child = sandbox.spawn("python3", &["-m", "http.server", "8000"])?;
    /// println!("http://127.0.0.1:{}/", child.published()[0].host);
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn published(&self) -> &[crate::Published] {
        self.filtered.as_ref().map(crate::network::Filtered::published).unwrap_or_default()
    }

    /// PID 1 of the sandbox, as the caller sees it.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.attendant.init_pid().cast_unsigned()
    }

    /// What everything inside uses now; nothing once it has ended, and where nothing counts it. A limit on memory,
    /// CPUs or processes has memory and processes counted, [`count_usage`](crate::SandboxBuilder::count_usage) asks
    /// for all of it.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().count_usage(true).build()?;
    /// let child = sandbox.spawn("sleep", &["10"])?;
    /// let usage = child.usage();
    /// if let Some(bytes) = usage.memory {
    ///     println!("{bytes} bytes in {:?} processes", usage.processes);
    /// }
    /// child.kill();
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn usage(&self) -> Usage {
        let usage = self.attendant.usage().unwrap_or_default();
        Usage {
            memory: usage.memory_now,
            cpu_user: usage.cpu_user,
            cpu_system: usage.cpu_system,
            processes: usage.processes,
        }
    }

    fn finish(&mut self, limit: Option<Duration>) -> Result<ExecutionResult> {
        let Some(mut outcome) = self.attendant.wait(limit)? else { return Err(crate::SandboxError::Timeout) };
        outcome.not_enforced.clone_from(&self.not_enforced);
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
