//! A session: one sandbox for many commands.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kennel_policy::outcome::{GatewayUse, Outcome};
use kennel_policy::policy::Policy;

use crate::backend::{Backend, GatewayMeter, Lasting, Native};
use crate::command::CommandPlace;
use crate::job::{Hooks, Job};
use crate::network::Published;
use crate::supervisor_thread::SupervisorThread;
use crate::{Command, ExecutionResult, NetworkControl, Result, Running, Sandbox, Usage};

/// One sandbox for many commands, created by [`Sandbox::session`]. They can run one after the other or at the same time, from any
/// thread, each with its own streams, variables, folder and limits. The private `/tmp`, the network, the published ports and the
/// processes that a command leaves in the background are the session's.
///
/// A command that ends leaves its background processes running. A command that is killed, times out or is dropped takes all that
/// it started with it, and nothing that another one started.
///
/// The session ends when it is dropped, when [`Session::end`] is called, at its timeout, when it is idle for too long, and with the
/// process that has started it. Whatever still runs inside is killed then.
///
/// ```
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let session = sandbox.session()?;
/// session.command("sh").args(["-c", "echo hello > /tmp/greeting"]).output()?;
/// let result = session.command("cat").arg("/tmp/greeting").output()?;
/// assert_eq!(result.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
pub struct Session {
    native: Arc<<Native as Backend>::Session>,
    policy: Arc<Policy>,
    supervisor: Mutex<SupervisorThread>,
    init: u32,
    meter: Box<dyn Fn() -> Usage + Send + Sync>,
    gateway: GatewayMeter,
    network: Option<NetworkControl>,
    published: Vec<Published>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("init", &self.init).finish_non_exhaustive()
    }
}

/// How long a session lasts, created by [`Sandbox::session_builder`].
///
/// ```
/// use std::time::Duration;
///
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let session = sandbox.session_builder().timeout(Duration::from_secs(3600)).idle(Duration::from_secs(60)).start()?;
/// assert!(session.command("true").output()?.success());
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SessionBuilder<'s> {
    sandbox: &'s Sandbox,
    lasting: Lasting,
}

impl<'s> SessionBuilder<'s> {
    pub(crate) fn new(sandbox: &'s Sandbox) -> SessionBuilder<'s> {
        SessionBuilder { sandbox, lasting: Lasting::default() }
    }

    /// Ends the session after this time, whatever runs in it.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> SessionBuilder<'s> {
        self.lasting.timeout = Some(limit);
        self
    }

    /// Ends the session when no command has run in it for this time. Processes that a command has left in the background do not
    /// count.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> SessionBuilder<'s> {
        self.lasting.idle = Some(limit);
        self
    }

    /// Starts the session.
    ///
    /// # Errors
    /// When the sandbox cannot be set up.
    pub fn start(self) -> Result<Session> {
        Session::start(self.job(), self.lasting)
    }

    /// The same without blocking the thread.
    ///
    /// # Errors
    /// As [`SessionBuilder::start`].
    #[cfg(all(target_os = "linux", feature = "tokio"))]
    pub fn start_async(self) -> impl Future<Output = Result<Session>> + Send + use<> {
        let (job, lasting) = (self.job(), self.lasting);
        async move {
            let started = ::tokio::task::spawn_blocking(move || Session::start(job, lasting)).await;
            started.map_err(|error| crate::SandboxError::Internal(error.to_string().into()))?
        }
    }

    fn job(&self) -> Job {
        let Sandbox { policy, extras, .. } = self.sandbox;
        let mut job = Job::new(Arc::clone(policy), Vec::new());
        job.hooks = Hooks { count: extras.count_usage, ask: extras.ask.clone(), ..Hooks::default() };
        job
    }
}

impl Session {
    fn start(job: Job, lasting: Lasting) -> Result<Session> {
        let policy = Arc::clone(&job.policy);
        let (native, running) = Native::start_session(job, lasting)?;
        let running = Running::new(running);
        let (init, meter, network) = (running.init_pid(), running.meter(), running.network());
        let gateway = running.gateway_meter();
        let published = running.published().to_vec();
        let supervisor = Mutex::new(SupervisorThread::new(running)?);
        Ok(Session { native: Arc::new(native), policy, supervisor, init, meter, gateway, network, published })
    }

    /// Prepares a command in the session. A time limit of the sandbox is each command's; its other limits hold for all of them
    /// together. [`Command::current_dir`] is a folder inside.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let session = kennel::Sandbox::builder().build()?.session()?;
    /// std::thread::scope(|scope| {
    ///     let one = scope.spawn(|| session.command("sh").args(["-c", "echo $NAME"]).env("NAME", "one").output());
    ///     let two = session.command("pwd").current_dir("/tmp").timeout(Duration::from_secs(5)).output()?;
    ///     assert_eq!(two.stdout, "/tmp\n");
    ///     assert_eq!(one.join().expect("it does not panic")?.stdout, "one\n");
    ///     Ok::<(), kennel::SandboxError>(())
    /// })?;
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command<'_> {
        Command::new(CommandPlace::Session(&self.policy, &self.native), program.as_ref())
    }

    /// Runs a command to its end and captures its output. It reads an empty standard input.
    ///
    /// # Errors
    /// When the command cannot be executed, or the session has ended.
    pub fn run(&self, command: &str, args: &[&str]) -> Result<ExecutionResult> {
        self.command(command).args(args).output()
    }

    /// Kills everything inside and waits until nothing is left. Returns how the session ended, with what everything in it has
    /// used.
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn end(self) -> Result<Outcome> {
        self.supervisor().kill();
        self.wait()
    }

    /// Waits until the session has ended by itself: at its timeout, when it was idle, or because a rule was broken.
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn wait(&self) -> Result<Outcome> {
        let gone = || crate::SandboxError::Internal("the session ended without an outcome".into());
        self.supervisor().wait(None)?.ok_or_else(gone)
    }

    /// How the session has ended, if it has.
    ///
    /// # Errors
    /// Only when a system call of this process fails.
    pub fn try_wait(&self) -> Result<Option<Outcome>> {
        self.supervisor().wait(Some(Duration::ZERO))
    }

    /// What everything inside uses now, as [`Child::usage`](crate::Child::usage).
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

    /// PID 1 of the session, as the caller sees it: the process that ends last.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.init
    }

    fn supervisor(&self) -> MutexGuard<'_, SupervisorThread> {
        // Nothing is ever half-done under this lock.
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandbox {
    /// Starts a session: one sandbox for many commands.
    ///
    /// # Errors
    /// When the sandbox cannot be set up.
    pub fn session(&self) -> Result<Session> {
        self.session_builder().start()
    }

    /// The same with limits on how long it lasts.
    #[must_use]
    pub fn session_builder(&self) -> SessionBuilder<'_> {
        SessionBuilder::new(self)
    }
}
