//! Running commands from a plain configuration: the interface for programs that also run commands in other ways.

use crate::{Child, ExecutionResult, Result, Sandbox, SandboxConfig};

/// Runs commands in sandboxes, the way its platform does.
pub trait PlatformExecutor: Send + Sync {
    /// Runs a command to its end and captures its output.
    ///
    /// # Errors
    /// When the sandbox cannot be set up or the command cannot be executed.
    fn execute(
        &self,
        command: &str,
        args: &[&str],
        stdin: Option<&[u8]>,
        config: &SandboxConfig,
    ) -> Result<ExecutionResult>;

    /// Starts a command with its standard streams as pipes.
    ///
    /// # Errors
    /// As [`PlatformExecutor::execute`].
    fn spawn(&self, command: &str, args: &[&str], config: &SandboxConfig) -> Result<Child>;
}

/// The executor of the platform this was built for: each call creates a [`Sandbox`] from its configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeExecutor;

impl PlatformExecutor for NativeExecutor {
    fn execute(
        &self,
        command: &str,
        args: &[&str],
        stdin: Option<&[u8]>,
        config: &SandboxConfig,
    ) -> Result<ExecutionResult> {
        let sandbox = Sandbox::with_config(config.clone())?;
        match stdin {
            Some(input) => sandbox.run_with_input(command, args, input),
            None => sandbox.run(command, args),
        }
    }

    fn spawn(&self, command: &str, args: &[&str], config: &SandboxConfig) -> Result<Child> {
        Sandbox::with_config(config.clone())?.spawn(command, args)
    }
}
