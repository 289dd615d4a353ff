//! A sandbox that a thread of kennel's attends to, because its caller goes on with something else: without one
//! nobody would keep the clock or see to a sandbox that is short of memory while the caller reads its output.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kennel_policy::outcome::Outcome;

use crate::backend::{Backend, Native};
use crate::stdio::{Bell, Handle};
use crate::{Result, Running, SandboxError};

/// The thread, and what its sandbox is known by. Dropping it ends the sandbox and waits until nothing is left.
#[derive(Debug)]
pub(crate) struct SupervisorThread {
    /// Refers to the process that ends last.
    process: Handle,
    /// Tells the thread to end the sandbox.
    bell: Bell,
    end: Receiver<Result<Outcome>>,
    thread: Option<JoinHandle<()>>,
    outcome: Option<Outcome>,
}

impl SupervisorThread {
    /// Takes a running sandbox over. When the system gives no thread or descriptor, the sandbox is ended.
    pub(crate) fn new(mut running: Running) -> Result<SupervisorThread> {
        let process = running.process()?;
        let (heard, bell) = Bell::new()?;
        running.end_by(heard);
        let (sender, end) = sync_channel(1);
        let thread = std::thread::Builder::new().name("kennel".into()).spawn(move || {
            // The caller's signals are for the caller's own threads.
            Native::block_signals();
            let outcome = running.wait();
            // Before the outcome is told, so that whoever has it finds nothing of the sandbox any more.
            drop(running);
            let _ = sender.send(outcome);
        })?;
        Ok(SupervisorThread { process, bell, end, thread: Some(thread), outcome: None })
    }

    /// Refers to the process that ends last.
    pub(crate) fn process(&self) -> &Handle {
        &self.process
    }

    /// Kills everything inside.
    pub(crate) fn kill(&self) {
        self.bell.ring();
    }

    /// Waits for the end, at most so long; `None` if it has not come.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Result<Option<Outcome>> {
        if self.outcome.is_none() {
            let end = match limit {
                None => self.end.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => self.end.recv_timeout(limit),
            };
            self.outcome = match end {
                Ok(end) => Some(end?),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    let gone = "the supervisor thread of the sandbox has exited";
                    return Err(SandboxError::Internal(gone.into()));
                }
            };
        }
        Ok(self.outcome.clone())
    }
}

impl Drop for SupervisorThread {
    fn drop(&mut self) {
        self.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
