//! What a platform has to be able to do.

use crate::{Child, ExecutionResult, Result, SandboxConfig};

/// Runs commands in sandboxes, the way its platform does.
pub trait PlatformExecutor: Send + Sync {
    /// Runs a command to its end and captures its output.
    ///
    /// # Errors
    /// When the sandbox could not be set up or the command not be executed.
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

/// The executor of the platform this was built for.
#[cfg(target_os = "linux")]
pub(crate) fn of_this_platform() -> Result<Box<dyn PlatformExecutor>> {
    Ok(Box::new(linux::Linux))
}

/// The executor of the platform this was built for.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of_this_platform() -> Result<Box<dyn PlatformExecutor>> {
    Err(crate::SandboxError::UnsupportedPlatform(format!(
        "kennel does not run on {} yet",
        std::env::consts::OS
    )))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::os::fd::AsFd;

    use kennel_linux::sandbox::start;
    use kennel_linux::supervise::streams::Streams;
    use kennel_linux::supervise::{Attended, Running};

    use super::PlatformExecutor;
    use crate::network::Filtered;
    use crate::{Child, ExecutionResult, Result, SandboxConfig, SandboxError};

    /// Namespaces, Landlock and seccomp.
    pub(super) struct Linux;

    impl Linux {
        fn start(
            command: &str,
            args: &[&str],
            config: &SandboxConfig,
            stdio: [std::os::fd::BorrowedFd; 3],
        ) -> Result<Started> {
            let policy = config.policy()?;
            let words: Vec<OsString> = std::iter::once(&command).chain(args).map(OsString::from).collect();
            let variables: Vec<_> = std::env::vars_os().collect();
            let variables = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
            let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
            let mut filtered = Filtered::new(&policy, variables.clone(), config.ask.as_ref())
                .map_err(|error| SandboxError::Setup(error.to_string()))?;
            let network = filtered.as_ref().map(Filtered::plan);
            let count = config.count_usage;
            let (mut running, not_enforced) = start(&policy, &words, &cwd, variables, stdio, network, count)?;
            if let Some(filtered) = &mut filtered {
                let (unconfined, outside) = filtered.take_outside();
                running.watch_too(if running.namespaced() { outside } else { unconfined });
            }
            Ok(Started { running, not_enforced, filtered })
        }
    }

    /// A sandbox that runs, and the gate of its network.
    struct Started {
        running: Running,
        not_enforced: Vec<String>,
        filtered: Option<Filtered>,
    }

    impl PlatformExecutor for Linux {
        fn execute(
            &self,
            command: &str,
            args: &[&str],
            stdin: Option<&[u8]>,
            config: &SandboxConfig,
        ) -> Result<ExecutionResult> {
            let cap = usize::try_from(config.max_output).unwrap_or(usize::MAX);
            let (mut streams, ends) = Streams::new(stdin.map(<[u8]>::to_vec), cap)?;
            let Started { mut running, not_enforced, mut filtered } = {
                let [stdin, stdout, stderr] = &ends.fds;
                Linux::start(command, args, config, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?
            };
            drop(ends);
            let mut open = |doors, init| {
                if let Some(filtered) = &mut filtered {
                    filtered.open(doors, init, false);
                }
            };
            let attended =
                Attended { streams: Some(&mut streams), open_doors: Some(&mut open), ..Attended::default() };
            let mut outcome = running.wait(attended)?;
            outcome.not_enforced = not_enforced;
            let mut result = ExecutionResult::of(&outcome, streams.into_captured());
            result.network = filtered.as_ref().map(Filtered::decisions).unwrap_or_default();
            Ok(result)
        }

        fn spawn(&self, command: &str, args: &[&str], config: &SandboxConfig) -> Result<Child> {
            let (stdin, to_stdin) = std::io::pipe()?;
            let (from_stdout, stdout) = std::io::pipe()?;
            let (from_stderr, stderr) = std::io::pipe()?;
            let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
            let Started { mut running, not_enforced, mut filtered } =
                Linux::start(command, args, config, stdio)?;
            // Nobody waits for the first client, so the gate opens at once.
            if let Some(filtered) = &mut filtered {
                filtered.open(running.take_doors(), running.init_pid(), false);
            }
            Child::new(running, not_enforced, filtered, to_stdin, from_stdout, from_stderr)
        }
    }
}
