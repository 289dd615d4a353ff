//! Run a command so that it can do only what a policy allows: which files it may read and write, which hosts it may
//! reach, how much memory, CPU and time it may use, which secrets it may see.
//!
//! ```
//! use kennel::Sandbox;
//! use std::time::Duration;
//!
//! let sandbox = Sandbox::builder().wall_time_limit(Duration::from_secs(10)).build()?;
//! let result = sandbox.run("sh", &["-c", "echo hello; echo no > /etc/passwd"])?;
//!
//! assert_eq!(result.stdout, "hello\n");
//! assert_ne!(result.exit_code, 0, "nothing is writable but what is listed");
//! # Ok::<(), kennel::SandboxError>(())
//! ```
//!
//! On Linux a sandbox is a set of namespaces, Landlock and seccomp; no root and no helper program is required. A
//! [`Sandbox`] can be used from any thread of a program of any size, by many threads at once: the calling process is
//! never forked, and PID 1 of the sandbox holds nothing of its memory.

mod backend;
mod builder;
pub mod caches;
mod child;
pub mod codex;
mod command;
mod config;
mod error;
mod executor;
mod handle;
pub mod home;
pub mod mirrors;
mod network;
#[cfg(test)]
mod pages;
mod pool;
pub mod profiles;
mod pty;
#[cfg(test)]
mod public_api;
mod result;
mod running;
mod sandbox;
#[cfg(all(any(target_os = "linux", target_os = "macos"), feature = "network"))]
mod secrets;
mod session;
pub mod settings_file;
mod stdio;
mod supervisor_thread;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod tokio;
mod zygote;

pub use backend::job;
pub use builder::SandboxBuilder;
pub use child::Child;
pub use command::Command;
pub use config::{MountPoint, Permission, SandboxConfig};
pub use error::{Cause, SandboxError};
pub use executor::{NativeExecutor, PlatformExecutor};
pub use kennel_policy as policy;
pub use kennel_policy::gateway::{Api, Budget};
pub use kennel_policy::outcome::{
    self, Change, Changed, Ended, Mended, NetworkDecision, Program, SetAside, Usage, Violation, What,
};
pub use kennel_policy::policy::{
    GitLevel, HomeMode, NetworkMode, OnReplace, Policy, Precedence, ReadModel, RootFsWrite, SeccompProfile,
    SecretVariables, TmpMode, UnixSockets,
};
pub use kennel_policy::secrets::{SecretMode, SecretSource, SwapIn};
pub use kennel_policy::settings::{KeySource, ProviderEntry, SecretEntry};
pub use network::Published;
use network::control;
pub use network::control::{
    AskAboutHosts, ControlFault, ControlLines, HostAnswer, HostQuestion, NetworkControl,
};
pub use pool::Pool;
pub use pty::Terminal;
pub use result::ExecutionResult;
pub use running::Running;
pub use sandbox::Sandbox;
pub use session::{Session, SessionBuilder};
pub use stdio::Stdio;
pub use zygote::Zygote;

/// Asking the user on the terminal that a command runs on.
pub mod terminal {
    pub use crate::backend::terminal::{Asker, Questions, Reply, questions};
}

/// A file that is written after a command has run, in a place that was held before.
pub mod held {
    pub use crate::backend::held_file::{HeldFile, HoldError};
}

/// What a host supports.
pub mod host {
    pub use kennel_policy::host::{Finding, State};

    use crate::backend::{Backend, Native};

    /// What an exit code means that is the system's and not a program's own. Windows has such codes, where other systems have
    /// signals.
    #[must_use]
    pub fn exit_meaning(code: i32) -> Option<&'static str> {
        #[cfg(windows)]
        return kennel_windows::exit::meaning(code.cast_unsigned());
        #[cfg(not(windows))]
        {
            let _ = code;
            None
        }
    }

    /// What this host supports, and how to fix what it does not.
    #[must_use]
    pub fn findings() -> Vec<Finding> {
        Native::findings(|| {
            let sandbox = crate::Sandbox::builder().build().map_err(|error| error.to_string())?;
            match sandbox.run("true", &[]) {
                Ok(result) if result.success() => Ok(()),
                Ok(result) => Err(format!("`true` ended with {}", result.exit_code)),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, SandboxError>;
