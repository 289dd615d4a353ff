//! The sandbox as a value: configured once, used for any number of runs.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kennel_policy::policy::Policy;

use crate::backend::{Backend, Native};
use crate::builder::Extras;
use crate::command::Place;
use crate::settings_file;
use crate::{Child, Command, ExecutionResult, Result, SandboxBuilder, SandboxConfig, Stdio};

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
    pub(crate) policy: Arc<Policy>,
    pub(crate) extras: Extras,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the policy: its variables may hold secrets.
        f.debug_struct("Sandbox").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Returns a builder for a sandbox.
    #[must_use]
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    pub(crate) fn new(policy: Policy, extras: Extras) -> Result<Sandbox> {
        Sandbox::of(Arc::new(policy), extras)
    }

    pub(crate) fn of(policy: Arc<Policy>, extras: Extras) -> Result<Sandbox> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Native::check()?;
        Ok(Sandbox { id: NEXT.fetch_add(1, Ordering::Relaxed), policy, extras })
    }

    /// A sandbox with this configuration.
    ///
    /// # Errors
    /// As [`SandboxBuilder::build`].
    pub fn with_config(config: SandboxConfig) -> Result<Sandbox> {
        SandboxBuilder::from(config).build()
    }

    /// A sandbox with this policy, wherever it came from.
    ///
    /// # Errors
    /// [`SandboxError::UnsupportedPlatform`](crate::SandboxError::UnsupportedPlatform) where kennel cannot run.
    pub fn from_policy(policy: Policy) -> Result<Sandbox> {
        Sandbox::new(policy, Extras::default())
    }

    /// A sandbox configured by a settings file, such as a `kennel.toml`. Relative paths in it are relative to its own
    /// folder. The caller trusts it: unlike a file that the command line finds in the working directory, it can
    /// loosen the defaults.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`](crate::SandboxError::ConfigValidation) when it cannot be read or is
    /// invalid.
    pub fn from_settings(file: impl AsRef<Path>) -> Result<Sandbox> {
        SandboxBuilder::from_settings(file)?.build()
    }

    /// The same for text, TOML or JSON. Relative paths in it are relative to the working directory.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::from_settings_text("[limits]\ntimeout = \"10s\"\n[files]\ndeny_read = [\"/srv\"]\n")?;
    /// assert!(sandbox.run("true", &[])?.success());
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::from_settings`].
    pub fn from_settings_text(text: &str) -> Result<Sandbox> {
        SandboxBuilder::from_settings_text(text)?.build()
    }

    /// Unique in this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What is allowed.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its main settings as plain data.
    #[must_use]
    pub fn config(&self) -> SandboxConfig {
        SandboxConfig::of(&self.policy)
    }

    /// Prepares a command, as with [`std::process::Command`].
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let result = sandbox.command("tr").args(["a-z", "A-Z"]).input("shout").output()?;
    /// assert_eq!(result.stdout, "SHOUT");
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command<'_> {
        Command::new(Place::Sandbox(self), program.as_ref())
    }

    /// Runs a command to its end and captures its output. It reads an empty standard input.
    ///
    /// # Errors
    /// When the sandbox cannot be set up or the command cannot be executed. A command that fails is not an error: see
    /// [`ExecutionResult::exit_code`].
    pub fn run(&self, command: &str, args: &[&str]) -> Result<ExecutionResult> {
        self.command(command).args(args).output()
    }

    /// The same with input for the command.
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
        self.command(command).args(args).input(input).output()
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
        let mut command = self.command(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(args).spawn()
    }
}

impl SandboxBuilder {
    /// Starts from a settings file; other settings override those of the file, and lists grow. See
    /// [`Sandbox::from_settings`].
    ///
    /// # Errors
    /// As there.
    pub fn from_settings(file: impl AsRef<Path>) -> Result<SandboxBuilder> {
        let (settings, base) = settings_file::settings(file.as_ref())?;
        Ok(SandboxBuilder::of(settings, base.folder))
    }

    /// The same for text. See [`Sandbox::from_settings_text`].
    ///
    /// # Errors
    /// As there.
    pub fn from_settings_text(text: &str) -> Result<SandboxBuilder> {
        let (settings, base) = settings_file::settings_text(text)?;
        Ok(SandboxBuilder::of(settings, base.folder))
    }
}
