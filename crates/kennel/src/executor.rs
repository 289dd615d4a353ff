//! From a job to a result: the one line that every run of the library takes.

use std::borrow::Cow;
use std::ffi::OsString;

use kennel_policy::policy::Policy;

use crate::builder::Extras;
use crate::{Child, ExecutionResult, Result, Sandbox, SandboxConfig};

/// One run, with everything that it needs.
pub(crate) struct Job<'a> {
    pub(crate) policy: Cow<'a, Policy>,
    pub(crate) extras: &'a Extras,
    /// The command and its arguments; at least one word.
    pub(crate) words: Vec<OsString>,
}

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
    use super::{Child, ExecutionResult, Job, Result};
    use crate::{SandboxError, Stdio};

    fn unsupported() -> SandboxError {
        let system = std::env::consts::OS;
        SandboxError::UnsupportedPlatform(format!("kennel does not run on {system} yet"))
    }

    pub(crate) fn check_platform() -> Result<()> {
        Err(unsupported())
    }

    pub(crate) fn execute(_: &Job<'_>, _: Option<Vec<u8>>, _: [Stdio; 3]) -> Result<ExecutionResult> {
        Err(unsupported())
    }

    pub(crate) fn spawn(_: &Job<'_>, _: [Stdio; 3]) -> Result<Child> {
        Err(unsupported())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use kennel_linux::sandbox;
    use kennel_linux::supervise::Attended;
    use kennel_linux::supervise::streams::Streams;

    use super::{Child, ExecutionResult, Job, Result};
    use crate::child::Pipes;
    use crate::network::Filtered;
    use crate::stdio::Leads;
    use crate::{SandboxError, Stdio};

    /// Bytes captured of each output stream unless the policy says how many.
    const CAPTURED: u64 = 64 << 20;

    /// A sandbox that runs, and the gate of its network.
    struct Started {
        sandbox: sandbox::Started,
        filtered: Option<Filtered>,
    }

    pub(crate) fn check_platform() -> Result<()> {
        Ok(())
    }

    fn start(job: &Job, stdio: [BorrowedFd; 3]) -> Result<Started> {
        let Job { policy, extras, words } = job;
        let variables: Vec<_> = std::env::vars_os().collect();
        let variables = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let mut filtered = Filtered::new(policy, variables.clone(), extras.ask.as_ref())
            .map_err(|error| SandboxError::Setup(error.to_string()))?;
        let network = filtered.as_ref().map(Filtered::plan);
        let count = extras.count_usage;
        let mut sandbox = sandbox::start(policy, words, &cwd, variables, stdio, network, count)?;
        if let Some(filtered) = &mut filtered {
            let (unconfined, outside) = filtered.take_outside();
            let running = &mut sandbox.running;
            running.watch_too(if running.namespaced() { outside } else { unconfined });
        }
        Ok(Started { sandbox, filtered })
    }

    pub(crate) fn execute(
        job: &Job<'_>,
        input: Option<Vec<u8>>,
        streams: [Stdio; 3],
    ) -> Result<ExecutionResult> {
        let cap = usize::try_from(job.policy.limits.output.unwrap_or(CAPTURED)).unwrap_or(usize::MAX);
        let feeds = input.is_some();
        let (mut captured, ends) = Streams::new(input, cap)?;
        let mut ends = ends.fds;
        for (index, (end, stream)) in ends.iter_mut().zip(streams).enumerate() {
            match stream.0 {
                Leads::Piped => {}
                // Something to read comes by a pipe; and an empty one is as good as nothing.
                Leads::Nowhere if index == 0 => {}
                _ if index == 0 && feeds => {}
                leads => *end = descriptor(leads, index)?,
            }
        }
        let Started { sandbox, mut filtered } =
            start(job, [ends[0].as_fd(), ends[1].as_fd(), ends[2].as_fd()])?;
        drop(ends);
        let sandbox::Started { mut running, mut carried, not_enforced } = sandbox;
        let mut open = |doors, init| {
            if let Some(filtered) = &mut filtered {
                filtered.open(doors, init, false);
            }
        };
        let attended = Attended {
            streams: Some(&mut captured),
            carried: carried.as_mut(),
            open_doors: Some(&mut open),
            ..Attended::default()
        };
        let mut outcome = running.wait(attended)?;
        running.finish_without_namespace(&mut outcome);
        outcome.not_enforced = not_enforced;
        let mut result = ExecutionResult::of(&outcome, captured.into_captured());
        result.network = filtered.as_ref().map(Filtered::decisions).unwrap_or_default();
        Ok(result)
    }

    pub(crate) fn spawn(job: &Job<'_>, streams: [Stdio; 3]) -> Result<Child> {
        let mut pipes = Pipes::default();
        let mut ends = Vec::with_capacity(3);
        for (index, stream) in streams.into_iter().enumerate() {
            ends.push(match stream.0 {
                Leads::Piped => pipes.make(index)?,
                leads => descriptor(leads, index)?,
            });
        }
        let stdio = [ends[0].as_fd(), ends[1].as_fd(), ends[2].as_fd()];
        let Started { mut sandbox, mut filtered } = start(job, stdio)?;
        drop(ends);
        // Nobody waits for the first client, so the gate opens at once.
        if let Some(filtered) = &mut filtered {
            filtered.open(sandbox.running.take_doors(), sandbox.running.init_pid(), false);
        }
        Child::new(sandbox, filtered, pipes)
    }

    /// The descriptor behind a stream that is no pipe.
    fn descriptor(leads: Leads, index: usize) -> io::Result<OwnedFd> {
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        match leads {
            Leads::To(fd) => Ok(fd),
            // One that is closed leads nowhere.
            Leads::Here => own[index].try_clone_to_owned().or_else(|_| nowhere()),
            Leads::Nowhere | Leads::Piped => nowhere(),
        }
    }

    fn nowhere() -> io::Result<OwnedFd> {
        Ok(File::options().read(true).write(true).open("/dev/null")?.into())
    }
}
