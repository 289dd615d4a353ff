//! Feature `tokio`: commands that are awaited. One thread can supervise any number of them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), kennel::SandboxError> {
//! use kennel::Sandbox;
//!
//! let sandbox = Sandbox::builder().build()?;
//! let (one, two) = tokio::join!(
//!     sandbox.command("echo").arg("one").output_async(),
//!     sandbox.command("echo").arg("two").output_async(),
//! );
//! assert_eq!(one?.stdout + &two?.stdout, "one\ntwo\n");
//! # Ok(())
//! # }
//! ```
//!
//! Dropping cancels: everything inside is killed, and the dropping thread does not wait for it. The set-up, which
//! looks at the disk, runs on tokio's threads for blocking work; afterwards a sandbox has no thread of its own, but
//! for those of its network gate and of its guard where a policy needs them.

use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncReadExt, Interest};
use ::tokio::net::unix::pipe::{Receiver, Sender};
use ::tokio::sync::Semaphore;
use ::tokio::task::JoinHandle;
use kennel_policy::outcome::GatewayUse;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::backend::{GatewayMeter, Signaller};
use crate::job::Job;
use crate::network::Published;
use crate::stdio::{Bell, Pipes};
use crate::{
    Command, ExecutionResult, NetworkControl, Result, Running, SandboxError, Stdio, Terminal, Usage,
};

/// A command that runs, as [`crate::Child`]. Dropping it kills everything inside.
pub struct Child {
    /// The writing end of the command's standard input, if it is a pipe. Dropping it ends the input.
    pub stdin: Option<Sender>,
    /// The reading end of the command's standard output, if it is a pipe.
    pub stdout: Option<Receiver>,
    /// The reading end of the command's standard error, if it is a pipe.
    pub stderr: Option<Receiver>,
    /// The caller's side of the command's terminal, if it has one.
    pub terminal: Option<Terminal>,
    attending: Attending,
    /// Refers to PID 1.
    process: OwnedFd,
    init: u32,
    signaller: Signaller,
    meter: Box<dyn Fn() -> Usage + Send + Sync>,
    gateway: GatewayMeter,
    network: Option<NetworkControl>,
    published: Vec<Published>,
}

impl Command<'_> {
    /// Runs the command to its end and captures its output, as [`Command::output`].
    ///
    /// # Errors
    /// As there.
    pub fn output_async(&mut self) -> impl Future<Output = Result<ExecutionResult>> + Send + use<> {
        let job = self.captured([Stdio::null(), Stdio::piped(), Stdio::piped()]);
        async move { Attending::new(start(job?).await?)?.await }
    }

    /// Runs the command to its end on the caller's own streams, as [`Command::status`].
    ///
    /// # Errors
    /// As there.
    pub fn status_async(&mut self) -> impl Future<Output = Result<ExecutionResult>> + Send + use<> {
        let job = self.captured([Stdio::inherit(), Stdio::inherit(), Stdio::inherit()]);
        async move { Attending::new(start(job?).await?)?.await }
    }

    /// Starts the command, as [`Command::spawn`].
    ///
    /// # Errors
    /// As there.
    pub fn spawn_async(&mut self) -> impl Future<Output = Result<Child>> + Send + use<> {
        let job = self.given();
        async move { Child::new(start(job?).await?) }
    }
}

/// Starts a job where it may wait. Should nobody want it any more when it runs, it is ended there.
async fn start(job: Job) -> Result<Running> {
    // More at once than there are processors would be no quicker, and take a thread each.
    static AT_ONCE: LazyLock<Semaphore> =
        LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));
    // It is never closed.
    let _turn = AT_ONCE.acquire().await;
    let started = ::tokio::task::spawn_blocking(move || job.start()).await;
    started.map_err(|error| SandboxError::Internal(error.to_string().into()))?
}

impl Child {
    fn new(mut running: Running) -> Result<Child> {
        let Pipes { stdin, stdout, stderr, terminal } = running.take_pipes();
        let receiver = |pipe: std::io::PipeReader| Receiver::from_owned_fd(pipe.into());
        Ok(Child {
            stdin: stdin.map(|pipe| Sender::from_owned_fd(pipe.into())).transpose()?,
            stdout: stdout.map(receiver).transpose()?,
            stderr: stderr.map(receiver).transpose()?,
            terminal,
            process: running.process()?,
            init: running.init_pid(),
            signaller: running.signaller()?,
            meter: running.meter(),
            gateway: running.gateway_meter(),
            network: running.network(),
            published: running.published().to_vec(),
            attending: Attending::new(running)?,
        })
    }

    /// Waits for the end, after closing the command's input. Output that was not taken is read and dropped.
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub async fn wait(&mut self) -> Result<ExecutionResult> {
        drop(self.stdin.take());
        if let Some(terminal) = self.terminal.take() {
            terminal.drain()?;
        }
        // Read all the same: a command that fills a pipe would wait for a reader for ever. Borrowed, so that whoever gives the
        // waiting up still has them.
        let (_, _, result) =
            ::tokio::join!(drain(self.stdout.as_mut()), drain(self.stderr.as_mut()), &mut self.attending);
        result
    }

    /// The result if the command has ended; `None` while it runs.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub async fn try_wait(&mut self) -> Result<Option<ExecutionResult>> {
        if !self.attending.is_finished() {
            return Ok(None);
        }
        (&mut self.attending).await.map(Some)
    }

    /// Waits for the end, after closing the command's input, and returns the rest of its output, without a size
    /// limit.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub async fn wait_with_output(mut self) -> Result<ExecutionResult> {
        drop(self.stdin.take());
        if let Some(terminal) = self.terminal.take() {
            terminal.drain()?;
        }
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr, result) = ::tokio::join!(read(stdout), read(stderr), &mut self.attending);
        let mut result = result?;
        result.set_output(stdout?, stderr?);
        Ok(result)
    }

    /// Kills everything inside. [`Child::wait`] returns when it is done.
    pub fn kill(&mut self) {
        self.attending.bell.ring();
    }

    /// Sends a signal to the command's process group.
    ///
    /// # Errors
    /// When there is no such signal, or the command has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        (self.signaller)(signal)
    }

    /// PID 1 of the sandbox, as the caller sees it: the process that ends last.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.init
    }

    /// What everything inside uses now, as [`crate::Child::usage`].
    #[must_use]
    pub fn usage(&self) -> Usage {
        (self.meter)()
    }

    /// What was used of the model gateway so far, by provider and model.
    #[must_use]
    pub fn gateway_usage(&self) -> GatewayUse {
        (self.gateway)()
    }

    /// Handle to change the network rules; `None` without an allow list.
    #[must_use]
    pub fn network(&self) -> Option<NetworkControl> {
        self.network.clone()
    }

    /// The published ports, with their numbers on this host.
    #[must_use]
    pub fn published(&self) -> &[Published] {
        &self.published
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").field("init", &self.init).finish_non_exhaustive()
    }
}

/// A pidfd of PID 1: ready to read when everything inside has ended.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

async fn drain(stream: Option<&mut Receiver>) {
    if let Some(stream) = stream {
        let _ = ::tokio::io::copy(stream, &mut ::tokio::io::sink()).await;
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The task that attends to a sandbox. Dropping this has the task end it.
struct Attending {
    task: JoinHandle<Result<ExecutionResult>>,
    /// Tells the task to end the sandbox.
    bell: Bell,
    /// Ends it at once, also if nobody drives the runtime.
    killer: Option<OwnedFd>,
    result: Option<std::result::Result<ExecutionResult, String>>,
}

impl Attending {
    fn new(mut running: Running) -> Result<Attending> {
        let (heard, bell) = Bell::new()?;
        running.end_by(heard);
        let killer = running.killer();
        let task = ::tokio::spawn(attend(running));
        Ok(Attending { task, bell, killer, result: None })
    }

    fn is_finished(&self) -> bool {
        self.result.is_some() || self.task.is_finished()
    }
}

impl Future for Attending {
    type Output = Result<ExecutionResult>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let again = |result: &std::result::Result<_, String>| match result {
            Ok(result) => Ok(ExecutionResult::clone(result)),
            Err(error) => Err(SandboxError::Internal(error.as_str().into())),
        };
        if let Some(result) = &self.result {
            return Poll::Ready(again(result));
        }
        let ended = std::task::ready!(Pin::new(&mut self.task).poll(context));
        let result = ended.unwrap_or_else(|error| Err(SandboxError::Internal(error.to_string().into())));
        self.result = Some(result.as_ref().map(Clone::clone).map_err(ToString::to_string));
        Poll::Ready(result)
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        if self.result.is_none() && !self.task.is_finished() {
            if let Some(killer) = &self.killer {
                let _ = rustix::process::pidfd_send_signal(killer, rustix::process::Signal::KILL);
            }
            // And whoever drives the task clears away the rest.
            self.bell.ring();
        }
    }
}

async fn attend(mut running: Running) -> Result<ExecutionResult> {
    let descriptor = running.descriptor()?.try_clone_to_owned()?;
    // SAFETY: an open descriptor that this value owns, and that stays the same.
    let ready = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    let ready = ready.map_err(std::io::Error::from)?;
    loop {
        let mut news = ready.readable().await?;
        if let Some(outcome) = running.on_ready()? {
            return Ok(ExecutionResult::of(outcome, running.take_output()));
        }
        // tokio is told of changes only, and a turn may leave something for the next.
        if is_ready(ready.get_ref()) {
            drop(news);
            ::tokio::task::yield_now().await;
        } else {
            news.clear_ready();
        }
    }
}

fn is_ready(descriptor: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}
