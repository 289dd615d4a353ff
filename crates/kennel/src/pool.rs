//! Sandboxes that are prepared before their commands are known.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Native, PoolKind};
use crate::command::CommandPlace;
use crate::{Command, ExecutionResult, Result, Sandbox, SandboxError, Zygote};

/// Sandboxes that wait for their commands, made by [`Zygote::pool`]. A command that is handed to the pool starts about as
/// fast as one without a sandbox.
///
/// Each sandbox is used for one command and thrown away; others are prepared in the background meanwhile. They have their
/// namespaces, mounts, network, cgroup, Landlock rules and filter. What comes with the command are its arguments, variables,
/// streams, kept descriptors, terminal and working directory.
///
/// The disk is looked at again for every command. A sandbox that was prepared for a disk that looks different now, because a
/// listed file has been replaced, a repository has appeared, or a file system was mounted, is not handed out but thrown away. When
/// none is ready, or none fits, the command starts in a fresh sandbox, and no later than it would without a pool.
///
/// A command's outcome is told when it and everything that it started have ended. That its mounts, its network and its cgroup
/// are gone too is seen to in the background; dropping the pool waits for it.
///
/// ```
/// let zygote = kennel::Zygote::start()?;
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let pool = zygote.pool(&sandbox, 4)?;
/// assert_eq!(pool.command("echo").arg("hello").output()?.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    sandbox: Arc<Sandbox>,
    native: <Native as Backend>::Pool,
}

/// How long a sandbox waits for its command before another takes its place.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How many may wait. Each holds some ten descriptors of this process's.
const LARGEST: usize = 1000;

impl Zygote {
    /// Prepares up to `size` sandboxes like this one ahead, in the background, and keeps as many ready. A sandbox that waits
    /// for a minute is replaced.
    ///
    /// # Errors
    /// When the size is 0 or more than 1000; when the sandbox publishes a port of the host's by its number, which only one
    /// can have; when the system has no thread or descriptor left. A sandbox that cannot be prepared is not an error here, but
    /// for the command that would have had it.
    pub fn pool(&self, sandbox: &Sandbox, size: usize) -> Result<Pool> {
        self.start_pool(sandbox, size, false)
    }

    /// The same for commands that come with a folder to work in ([`Command::workspace`]), each with its own. These sandboxes
    /// have everything but the mounts of that folder, which are made when the command comes, and what has to be done after all
    /// mounts: Landlock and the filter. A folder that lies above something that the sandbox hides, or below it, cannot be mounted
    /// late; its command starts in a fresh sandbox.
    ///
    /// ```
    /// let zygote = kennel::Zygote::start()?;
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let pool = zygote.workspace_pool(&sandbox, 2)?;
    /// # let folder = std::env::temp_dir().join(format!("kennel-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let result = pool.command("sh").args(["-c", "echo done > result"]).workspace(&folder).output()?;
    /// assert!(result.success());
    /// assert_eq!(std::fs::read_to_string(folder.join("result"))?, "done\n");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Zygote::pool`].
    pub fn workspace_pool(&self, sandbox: &Sandbox, size: usize) -> Result<Pool> {
        self.start_pool(sandbox, size, true)
    }

    fn start_pool(&self, sandbox: &Sandbox, size: usize, workspaces: bool) -> Result<Pool> {
        if !(1..=LARGEST).contains(&size) {
            let why = format!("the size of a pool is from 1 to {LARGEST}, and not {size}");
            return Err(SandboxError::ConfigValidation(why.into()));
        }
        if let Some(port) = sandbox.policy.network.publish.iter().find(|port| port.host != 0) {
            let why = format!(
                "sandboxes of a pool cannot publish {port}: only one of them can have that port of the host\nhelp: let \
                 each have a free one, with 0 for the host's port"
            );
            return Err(SandboxError::ConfigValidation(why.into()));
        }
        let kind = PoolKind {
            policy: Arc::clone(&sandbox.policy),
            ask: sandbox.extras.ask.clone(),
            count_usage: sandbox.extras.count_usage,
            size,
            workspaces,
            longest_wait: LONGEST_WAIT,
        };
        let sandbox = Arc::new(Sandbox::of(Arc::clone(&sandbox.policy), sandbox.extras.clone())?);
        Ok(Pool { sandbox, native: Native::start_pool(self.native(), kind)? })
    }
}

impl Pool {
    /// Prepares a command, as [`Sandbox::command`] does.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command<'_> {
        Command::new(CommandPlace::Pool(&self.sandbox, &self.native), program.as_ref())
    }

    /// Runs a command to its end and captures its output. It reads an empty standard input.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn run(&self, command: &str, args: &[&str]) -> Result<ExecutionResult> {
        self.command(command).args(args).output()
    }

    /// How many sandboxes wait for a command now.
    #[must_use]
    pub fn ready(&self) -> usize {
        Native::pool_ready(&self.native)
    }
}
