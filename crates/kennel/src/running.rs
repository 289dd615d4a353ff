//! A job that runs, for whoever attends to it.

use std::io::{PipeReader, PipeWriter};

use kennel_policy::outcome::{Ended, GatewayUse, Outcome};

use crate::backend::{Attend, Backend, GatewayMeter, Native, Signaller};
use crate::job::{Job, PlannedStep};
use crate::network::Published;
use crate::stdio::{Handle, Pipes};
use crate::{NetworkControl, Result, SandboxError, Terminal, Usage};

/// A sandbox that runs. Somebody has to attend to it: to keep its clock, to carry its streams, to serve its network. That is
/// either [`Running::wait`], which does nothing else, or an event loop, which calls [`Running::on_ready`] whenever
/// [`Running::descriptor`] is ready to read, for one sandbox or for a thousand.
///
/// Dropping it kills everything inside and waits until nothing is left.
///
/// ```
/// use kennel::job::{Job, Streams};
/// use kennel::{Sandbox, Stdio};
///
/// let sandbox = Sandbox::builder().build()?;
/// let mut job = Job::new(sandbox.policy().clone().into(), vec!["true".into()]);
/// job.streams = Streams::Given([Stdio::null(), Stdio::inherit(), Stdio::inherit()]);
/// assert_eq!(job.start()?.wait()?.exit_code(), 0);
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Debug)]
pub struct Running {
    native: <Native as Backend>::Running,
    outcome: Option<Outcome>,
    /// Whether the system has failed this process, so that there is no outcome to come.
    failed: bool,
    pipes: Pipes,
}

impl Job {
    /// Starts it.
    ///
    /// # Errors
    /// When the sandbox could not be set up or the command not be executed; nothing is left then.
    pub fn start(self) -> Result<Running> {
        Native::start(self).map(Running::new)
    }

    /// Starts it and waits for its end. Output that did not arrive where it was to go is an error, unless there is worse to
    /// tell.
    ///
    /// # Errors
    /// As [`Job::start`], and [`SandboxError::Io`] for such output.
    pub fn run(self) -> Result<Outcome> {
        let outcome = self.start()?.wait()?;
        match &outcome.stream_failure {
            Some(why) if outcome.ended != Ended::RuleBroken => {
                Err(SandboxError::Io(std::io::Error::other(why.clone())))
            }
            _ => Ok(outcome),
        }
    }

    /// The steps that [`Job::start`] would perform, in their order. Nothing is made for it: no port is bound and no process
    /// started.
    ///
    /// # Errors
    /// When the policy does not fit this host.
    pub fn plan(self) -> Result<Vec<PlannedStep>> {
        let work = kennel_policy::gate_work::of(&self.policy).into_iter();
        let work = work.map(|work| PlannedStep { step: work.what, reason: work.origin.0 });
        // Where the gate reads no requests, the policy was refused, or what is not enforced is said elsewhere.
        let work: Vec<PlannedStep> = if cfg!(unix) { work.collect() } else { Vec::new() };
        let mut steps = Native::plan(self)?;
        steps.extend(work);
        Ok(steps)
    }
}

impl Running {
    pub(crate) fn new(native: <Native as Backend>::Running) -> Running {
        let mut running = Running { native, outcome: None, failed: false, pipes: Pipes::default() };
        running.pipes = running.native.take_pipes();
        running
    }

    /// Takes note of what came of a turn.
    fn note(&mut self, turn: Result<Option<Outcome>>) -> Result<()> {
        self.failed = turn.is_err();
        self.outcome = turn?;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(SandboxError::Internal("the sandbox was ended after an earlier error".into()));
        }
        Ok(())
    }

    /// Does what there is to do, without waiting; the outcome once everything has ended. Calling it when there is nothing to
    /// do does no harm.
    ///
    /// # Errors
    /// Only when the system fails this process itself; the sandbox is ended then.
    pub fn on_ready(&mut self) -> Result<Option<Outcome>> {
        if self.outcome.is_none() {
            self.check()?;
            let turn = self.native.on_ready();
            self.note(turn)?;
        }
        Ok(self.outcome.clone())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// As [`Running::on_ready`].
    pub fn wait(&mut self) -> Result<Outcome> {
        loop {
            if let Some(outcome) = &self.outcome {
                return Ok(outcome.clone());
            }
            self.check()?;
            let turn = self.native.turn();
            self.note(turn)?;
        }
    }

    /// A descriptor that is ready to read when [`Running::on_ready`] has something to do. It stays the same.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    #[cfg(unix)]
    pub fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>> {
        self.native.descriptor()
    }

    /// Ends everything inside when `end` becomes ready to read.
    pub(crate) fn end_by(&mut self, end: Handle) {
        self.native.end_by(end);
    }

    /// Refers to the process that ends last.
    pub(crate) fn process(&self) -> Result<Handle> {
        self.native.process()
    }

    /// Sends signals to the command's process group.
    pub(crate) fn signaller(&self) -> Result<Signaller> {
        self.native.signaller()
    }

    /// PID 1 of the sandbox, as the caller sees it: the process that ends last.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.native.init_pid()
    }

    /// Kills everything inside. [`Running::wait`] tells when it is done.
    pub fn kill(&mut self) {
        self.native.kill();
    }

    /// What a SIGKILL can be sent to that ends everything, where there is such a process.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "for those who cannot wait"))]
    pub(crate) fn killer(&self) -> Option<Handle> {
        self.native.killer()
    }

    pub(crate) fn meter(&self) -> Box<dyn Fn() -> Usage + Send + Sync> {
        self.native.meter()
    }

    pub(crate) fn gateway_meter(&self) -> GatewayMeter {
        self.native.gateway_meter()
    }

    /// What was used of the model gateway so far.
    #[must_use]
    pub fn gateway_usage(&self) -> GatewayUse {
        self.gateway_meter()()
    }

    /// Handle to change the network rules; `None` without an allow list.
    #[must_use]
    pub fn network(&self) -> Option<NetworkControl> {
        self.native.network()
    }

    /// The published ports, with their numbers on this host.
    #[must_use]
    pub fn published(&self) -> &[Published] {
        self.native.published()
    }

    /// The other ends of the streams that are pipes.
    pub(crate) fn take_pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    /// The writing end of the command's standard input, if it is a pipe. Dropping it ends the input.
    pub fn take_stdin(&mut self) -> Option<PipeWriter> {
        self.pipes.stdin.take()
    }

    /// The reading end of the command's standard output, if it is a pipe. Somebody has to read it: a command that fills a pipe
    /// waits.
    pub fn take_stdout(&mut self) -> Option<PipeReader> {
        self.pipes.stdout.take()
    }

    /// The reading end of the command's standard error, if it is a pipe.
    pub fn take_stderr(&mut self) -> Option<PipeReader> {
        self.pipes.stderr.take()
    }

    /// The caller's side of the command's terminal, if it has one. Somebody has to read it.
    pub fn take_terminal(&mut self) -> Option<Terminal> {
        self.pipes.terminal.take()
    }

    /// What was captured of standard output and standard error; to be taken when it has ended.
    pub fn take_output(&mut self) -> [Vec<u8>; 2] {
        self.native.take_output()
    }
}
