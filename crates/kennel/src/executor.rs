//! What a platform has to be able to do.

use kennel_policy::policy::Policy;

use crate::builder::Extras;
use crate::{Child, ExecutionResult, Result, Sandbox, SandboxConfig};

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

/// The executor of the platform this was built for: each call makes a [`Sandbox`] of its configuration.
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

#[cfg(target_os = "linux")]
pub(crate) use linux::{check_platform, execute, spawn};
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::{check_platform, execute, spawn};

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use super::{Child, ExecutionResult, Extras, Policy, Result};

    pub(crate) fn check_platform() -> Result<()> {
        let system = std::env::consts::OS;
        Err(crate::SandboxError::UnsupportedPlatform(format!("kennel does not run on {system} yet")))
    }

    pub(crate) fn execute(
        _: &str,
        _: &[&str],
        _: Option<&[u8]>,
        _: &Policy,
        _: &Extras,
    ) -> Result<ExecutionResult> {
        check_platform().map(|()| ExecutionResult::default())
    }

    pub(crate) fn spawn(_: &str, _: &[&str], _: &Policy, _: &Extras) -> Result<Child> {
        check_platform().map(|()| unreachable!("no platform was supported"))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::os::fd::AsFd;

    use kennel_linux::sandbox;
    use kennel_linux::supervise::streams::Streams;
    use kennel_linux::supervise::{Attended, Running};

    use super::{Child, ExecutionResult, Extras, Policy, Result};
    use crate::SandboxError;
    use crate::network::Filtered;

    /// Bytes captured of each output stream unless the policy says how many.
    const CAPTURED: u64 = 64 << 20;

    /// A sandbox that runs, and the gate of its network.
    struct Started {
        running: Running,
        not_enforced: Vec<String>,
        filtered: Option<Filtered>,
    }

    pub(crate) fn check_platform() -> Result<()> {
        Ok(())
    }

    fn start(
        command: &str,
        args: &[&str],
        policy: &Policy,
        extras: &Extras,
        stdio: [std::os::fd::BorrowedFd; 3],
    ) -> Result<Started> {
        let words: Vec<OsString> = std::iter::once(&command).chain(args).map(OsString::from).collect();
        let variables: Vec<_> = std::env::vars_os().collect();
        let variables = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let mut filtered = Filtered::new(policy, variables.clone(), extras.ask.as_ref())
            .map_err(|error| SandboxError::Setup(error.to_string()))?;
        let network = filtered.as_ref().map(Filtered::plan);
        let count = extras.count_usage;
        let (mut running, not_enforced) =
            sandbox::start(policy, &words, &cwd, variables, stdio, network, count)?;
        if let Some(filtered) = &mut filtered {
            let (unconfined, outside) = filtered.take_outside();
            running.watch_too(if running.namespaced() { outside } else { unconfined });
        }
        Ok(Started { running, not_enforced, filtered })
    }

    pub(crate) fn execute(
        command: &str,
        args: &[&str],
        stdin: Option<&[u8]>,
        policy: &Policy,
        extras: &Extras,
    ) -> Result<ExecutionResult> {
        let cap = usize::try_from(policy.limits.output.unwrap_or(CAPTURED)).unwrap_or(usize::MAX);
        let (mut streams, ends) = Streams::new(stdin.map(<[u8]>::to_vec), cap)?;
        let Started { mut running, not_enforced, mut filtered } = {
            let [stdin, stdout, stderr] = &ends.fds;
            start(command, args, policy, extras, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?
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
        running.finish_without_namespace(&mut outcome);
        outcome.not_enforced = not_enforced;
        let mut result = ExecutionResult::of(&outcome, streams.into_captured());
        result.network = filtered.as_ref().map(Filtered::decisions).unwrap_or_default();
        Ok(result)
    }

    pub(crate) fn spawn(command: &str, args: &[&str], policy: &Policy, extras: &Extras) -> Result<Child> {
        let (stdin, to_stdin) = std::io::pipe()?;
        let (from_stdout, stdout) = std::io::pipe()?;
        let (from_stderr, stderr) = std::io::pipe()?;
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let Started { mut running, not_enforced, mut filtered } =
            start(command, args, policy, extras, stdio)?;
        // Nobody waits for the first client, so the gate opens at once.
        if let Some(filtered) = &mut filtered {
            filtered.open(running.take_doors(), running.init_pid(), false);
        }
        Child::new(running, not_enforced, filtered, to_stdin, from_stdout, from_stderr)
    }
}
