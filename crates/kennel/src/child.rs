//! A command that runs in its sandbox while the caller continues.

use std::io::{PipeReader, PipeWriter};
use std::time::Duration;

use kennel_policy::outcome::GatewayUse;

use crate::backend::{GatewayMeter, Signaller};
use crate::network::Published;
use crate::stdio::Pipes;
use crate::supervisor_thread::SupervisorThread;
use crate::{ExecutionResult, NetworkControl, Result, Running, SandboxError, Terminal, Usage};

/// A running command. Its limits apply whether or not the caller waits for it. Dropping it kills everything inside
/// and waits until nothing is left.
#[derive(Debug)]
pub struct Child {
    /// The writing end of the command's standard input, if it is a pipe. Dropping it ends the input.
    pub stdin: Option<PipeWriter>,
    /// The reading end of the command's standard output, if it is a pipe.
    pub stdout: Option<PipeReader>,
    /// The reading end of the command's standard error, if it is a pipe.
    pub stderr: Option<PipeReader>,
    /// The caller's side of the command's terminal, if it has one.
    pub terminal: Option<Terminal>,
    inner: ChildState,
}

/// The supervisor thread, and what the caller can query while the command runs.
struct ChildState {
    supervisor: SupervisorThread,
    init: u32,
    signaller: Signaller,
    meter: Box<dyn Fn() -> Usage + Send + Sync>,
    gateway: GatewayMeter,
    network: Option<NetworkControl>,
    published: Vec<Published>,
}

impl std::fmt::Debug for ChildState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("init", &self.init).finish_non_exhaustive()
    }
}

impl Child {
    pub(crate) fn new(mut running: Running) -> Result<Child> {
        let Pipes { stdin, stdout, stderr, terminal } = running.take_pipes();
        let (init, meter, network) = (running.init_pid(), running.meter(), running.network());
        let gateway = running.gateway_meter();
        let (published, signaller) = (running.published().to_vec(), running.signaller()?);
        let supervisor = SupervisorThread::new(running)?;
        Ok(Child {
            stdin,
            stdout,
            stderr,
            terminal,
            inner: ChildState { supervisor, init, signaller, meter, gateway, network, published },
        })
    }

    /// Kills everything inside. [`Child::wait`] returns when it is done.
    pub fn kill(&self) {
        self.inner.supervisor.kill();
    }

    /// Waits for the end, after closing the command's input. Output that was not taken is dropped: to get it, read
    /// the streams first, or use [`Child::wait_with_output`].
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn wait(&mut self) -> Result<ExecutionResult> {
        drop(self.stdin.take());
        if let Some(terminal) = self.terminal.take() {
            terminal.drain()?;
        }
        // Read all the same: a command that fills a pipe would wait for a reader for ever.
        for mut stream in [self.stdout.take(), self.stderr.take()].into_iter().flatten() {
            std::thread::Builder::new()
                .name("kennel-drain".into())
                .spawn(move || std::io::copy(&mut stream, &mut std::io::sink()))?;
        }
        self.finish(None)
    }

    /// The result if the command has ended; `None` while it runs.
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn try_wait(&mut self) -> Result<Option<ExecutionResult>> {
        match self.finish(Some(Duration::ZERO)) {
            Ok(result) => Ok(Some(result)),
            Err(SandboxError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the end, after closing the command's input, and returns the rest of its output, without a size
    /// limit.
    ///
    /// ```
    /// use kennel::{Sandbox, Stdio};
    ///
    /// let sandbox = Sandbox::builder().build()?;
    /// let child = sandbox.command("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// assert_eq!(child.wait_with_output()?.stdout, "hello\n");
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn wait_with_output(mut self) -> Result<ExecutionResult> {
        use std::io::Read;
        drop(self.stdin.take());
        if let Some(terminal) = self.terminal.take() {
            terminal.drain()?;
        }
        let read = |stream: Option<PipeReader>| {
            let mut bytes = Vec::new();
            stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut bytes)).map(|_| bytes)
        };
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            let errors = scope.spawn(|| read(stderr));
            (read(stdout), errors.join())
        });
        let stderr = stderr.map_err(|_| SandboxError::Internal("a reader thread has exited".into()))?;
        let (stdout, stderr) = (stdout?, stderr?);
        let mut result = self.finish(None)?;
        result.set_output(stdout, stderr);
        Ok(result)
    }

    /// Sends a signal to the command's process group.
    ///
    /// # Errors
    /// When there is no such signal, or the command has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        (self.inner.signaller)(signal)
    }

    /// Waits for the end, but no longer than `limit`. A command that fills an unread pipe does not end.
    ///
    /// # Errors
    /// [`SandboxError::Timeout`] when the command is still running; it keeps running.
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<ExecutionResult> {
        self.finish(Some(limit))
    }

    /// Handle to change the network rules; `None` without an allow list.
    #[must_use]
    pub fn network(&self) -> Option<NetworkControl> {
        self.inner.network.clone()
    }

    /// The published ports, with their numbers on this host.
    ///
    /// ```no_run
    /// let sandbox = kennel::Sandbox::builder().publish(0, 8000).build()?;
    /// let child = sandbox.spawn("python3", &["-m", "http.server", "8000"])?;
    /// println!("http://127.0.0.1:{}/", child.published()[0].host);
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn published(&self) -> &[Published] {
        &self.inner.published
    }

    /// PID 1 of the sandbox, as the caller sees it: the process that ends last.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.init_pid()
    }

    /// The same.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.inner.init
    }

    /// What everything inside uses now; empty once it has ended, and where usage is not counted. With a limit on
    /// memory, CPUs or processes, memory and processes are counted; with
    /// [`count_usage`](crate::SandboxBuilder::count_usage), everything is.
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
        (self.inner.meter)()
    }

    /// What was used of the model gateway so far, by provider and model.
    #[must_use]
    pub fn gateway_usage(&self) -> GatewayUse {
        (self.inner.gateway)()
    }

    fn finish(&mut self, limit: Option<Duration>) -> Result<ExecutionResult> {
        let outcome = self.inner.supervisor.wait(limit)?.ok_or(SandboxError::Timeout)?;
        Ok(ExecutionResult::of(outcome, Default::default()))
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

/// The command's process: signalled when it has ended.
#[cfg(windows)]
impl std::os::windows::io::AsHandle for Child {
    fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
        self.inner.supervisor.process().as_handle()
    }
}

/// A pidfd of PID 1: ready to read when everything inside has ended.
#[cfg(unix)]
impl std::os::fd::AsFd for Child {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.supervisor.process().as_fd()
    }
}
