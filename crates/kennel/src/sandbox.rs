//! The sandbox as a value: configured once, used for any number of runs.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::executor::{self, PlatformExecutor};
use crate::{Child, ExecutionResult, Result, SandboxBuilder, SandboxConfig};

/// A configured sandbox. Each run is a sandbox of its own: nothing that one leaves in memory or in a private `/tmp`
/// is seen by the next. Can be shared between threads.
///
/// ```
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let result = sandbox.run("echo", &["hello"])?;
/// assert_eq!(result.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
pub struct Sandbox {
    id: u64,
    config: SandboxConfig,
    executor: Box<dyn PlatformExecutor>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the configuration: its variables may hold secrets.
        f.debug_struct("Sandbox").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts to say what a sandbox is to be.
    #[must_use]
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// A sandbox with this configuration.
    ///
    /// # Errors
    /// As [`SandboxBuilder::build`].
    pub fn with_config(mut config: SandboxConfig) -> Result<Sandbox> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        config.settle()?;
        config.policy()?;
        let executor = executor::of_this_platform()?;
        Ok(Sandbox { id: NEXT.fetch_add(1, Ordering::Relaxed), config, executor })
    }

    /// Unique in this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What the sandbox is.
    #[must_use]
    pub fn config(&self) -> &SandboxConfig {
        &self.config
    }

    /// Runs a command to its end and captures its output. It reads an empty standard input.
    ///
    /// # Errors
    /// When the sandbox could not be set up or the command not be executed. A command that fails is no error: see
    /// [`ExecutionResult::exit_code`].
    pub fn run(&self, command: &str, args: &[&str]) -> Result<ExecutionResult> {
        self.executor.execute(command, args, None, &self.config)
    }

    /// The same with something to read.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let result = sandbox.run_with_input("tr", &["a-z", "A-Z"], b"shout")?;
    /// assert_eq!(result.stdout, "SHOUT");
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn run_with_input(&self, command: &str, args: &[&str], input: &[u8]) -> Result<ExecutionResult> {
        self.executor.execute(command, args, Some(input), &self.config)
    }

    /// Starts a command and returns at once, with its standard streams as pipes.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let mut child = sandbox.spawn("cat", &[])?;
    /// child.take_stdin().unwrap().write_all(b"there and back")?;
    /// let mut text = String::new();
    /// child.take_stdout().unwrap().read_to_string(&mut text)?;
    /// assert_eq!(text, "there and back");
    /// assert!(child.wait()?.success());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn spawn(&self, command: &str, args: &[&str]) -> Result<Child> {
        self.executor.spawn(command, args, &self.config)
    }
}
