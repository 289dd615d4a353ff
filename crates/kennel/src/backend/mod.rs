//! What a system has to do for a job. Everything above this line is the same everywhere.

pub mod job;

// On Linux the tests alone of what other systems share are run, with an ordinary process.
#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "kennel-linux has its own"))]
pub(crate) mod held;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(target_os = "macos", windows, all(test, target_os = "linux")))]
mod portable;
#[cfg(all(test, target_os = "linux"))]
#[path = "macos/private_folder.rs"]
mod private_folder;
#[cfg(not(target_os = "linux"))]
#[path = "no_terminal.rs"]
pub(crate) mod terminal;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
mod unsupported;
#[cfg(windows)]
mod windows;

use std::sync::Arc;
use std::time::Duration;

use kennel_policy::host::Finding;
use kennel_policy::outcome::{GatewayUse, Outcome};
use kennel_policy::policy::Policy;

use crate::network::Published;
use crate::stdio::{Handle, Pipes};
use crate::{AskAboutHosts, NetworkControl, Result, Usage};

use job::{Job, PlannedStep};

pub(crate) use crate::network::GatewayMeter;
#[cfg(target_os = "linux")]
pub use linux::InheritedMemory;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Linux as Native, held_file, terminal};
#[cfg(target_os = "macos")]
pub(crate) use macos::MacOs as Native;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(crate) use unsupported::Unsupported as Native;
#[cfg(windows)]
pub(crate) use windows::Windows as Native;

/// A file that is written after a command has run.
#[cfg(not(target_os = "linux"))]
pub(crate) use held as held_file;

/// What a clone of this process would have to forget; only Linux makes such clones.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedMemory;

/// Sends a signal, from any thread. An error if there is no such signal, or nobody to get it any more.
pub(crate) type Signaller = Box<dyn Fn(i32) -> Result<()> + Send + Sync>;

/// How long a session lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lasting {
    /// At most so long.
    pub(crate) timeout: Option<Duration>,
    /// Until no command has run for so long.
    pub(crate) idle: Option<Duration>,
}

/// What a pool is for.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux's backend asks"))]
pub(crate) struct PoolKind {
    /// What its sandboxes allow.
    pub(crate) policy: Arc<Policy>,
    /// Function to ask about hosts that no rule covers.
    pub(crate) ask: Option<AskAboutHosts>,
    /// Count resource usage even without a limit.
    pub(crate) count_usage: bool,
    /// How many wait at most.
    pub(crate) size: usize,
    /// Whether commands come with folders of their own.
    pub(crate) workspaces: bool,
    /// How long one may wait for its command.
    pub(crate) longest_wait: Duration,
}

/// A system that runs jobs.
pub(crate) trait Backend {
    /// One that runs.
    type Running: Attend;

    /// What sandboxes are cloned from, by many threads.
    type Zygote: Clone + std::fmt::Debug + Send + Sync;

    /// Starts what sandboxes are cloned from.
    fn start_zygote() -> Result<Self::Zygote>;

    /// Sandboxes that are prepared ahead.
    type Pool: Clone + std::fmt::Debug + Send + Sync;

    /// Starts to prepare sandboxes.
    fn start_pool(zygote: &Self::Zygote, kind: PoolKind) -> Result<Self::Pool>;

    /// How many wait for a job.
    fn pool_ready(pool: &Self::Pool) -> usize;

    /// Its processes.
    fn zygote_pids(zygote: &Self::Zygote) -> Vec<u32>;

    /// A sandbox for many commands, which can be started from any thread.
    type Session: std::fmt::Debug + Send + Sync;

    /// Starts one, and what attends to it. The command and the streams of the job are not looked at.
    fn start_session(job: Job, lasting: Lasting) -> Result<(Self::Session, Self::Running)>;

    /// Whether jobs can run here at all.
    fn check() -> Result<()>;

    /// Starts a job, in its session if it has one.
    fn start(job: Job) -> Result<Self::Running>;

    /// What starting it would do, step by step.
    fn plan(job: Job) -> Result<Vec<PlannedStep>>;

    /// Keeps signals that are sent to this process away from the thread.
    fn block_signals();

    /// What this host offers. `trial` runs a command that does nothing in a sandbox with the default policy.
    fn findings(trial: impl FnOnce() -> std::result::Result<(), String>) -> Vec<Finding>;
}

/// A job that runs, on some system.
pub(crate) trait Attend: std::fmt::Debug + Send {
    /// Waits for the next thing to happen and does what it asks for; the outcome once everything has ended.
    fn turn(&mut self) -> Result<Option<Outcome>>;
    /// The same without waiting.
    fn on_ready(&mut self) -> Result<Option<Outcome>>;
    /// Ready to read when there is something to do.
    #[cfg(unix)]
    fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>>;
    /// Ends everything when this is ready to read.
    fn end_by(&mut self, end: Handle);
    /// Refers to the process that ends last: ready to read, or signalled, when everything has ended.
    fn process(&self) -> Result<Handle>;
    /// Sends signals to the command's process group.
    fn signaller(&self) -> Result<Signaller>;
    /// The process that ends last.
    fn init_pid(&self) -> u32;
    /// Kills everything inside.
    fn kill(&mut self);
    /// What a SIGKILL can be sent to that ends everything, where there is such a process.
    fn killer(&self) -> Option<Handle>;
    /// Tells what is used, also from another thread.
    fn meter(&self) -> Box<dyn Fn() -> Usage + Send + Sync>;
    /// Tells what was used of the model gateway, also from another thread.
    fn gateway_meter(&self) -> GatewayMeter {
        Box::new(GatewayUse::default)
    }
    /// Handle to change the network rules.
    fn network(&self) -> Option<NetworkControl>;
    /// Where the published ports are found.
    fn published(&self) -> &[Published];
    /// The other ends of pipes.
    fn take_pipes(&mut self) -> Pipes;
    /// What was captured.
    fn take_output(&mut self) -> [Vec<u8>; 2];
}
