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
//! On Linux a sandbox is a set of namespaces, Landlock and seccomp; no root and no helper program is needed. A
//! [`Sandbox`] can be used from any thread of a program of any size, by many threads at once: the calling process is
//! never forked, and PID 1 of the sandbox holds nothing of its memory.

mod builder;
mod child;
mod command;
mod config;
mod error;
mod executor;
pub mod home;
mod result;
mod sandbox;
pub mod settings_file;
mod stdio;

#[cfg(target_os = "linux")]
pub mod attached;
#[cfg(target_os = "linux")]
pub mod codex;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod network;

pub use builder::SandboxBuilder;
pub use child::Child;
pub use command::Command;
pub use config::{MountPoint, Permission, SandboxConfig};
#[cfg(target_os = "linux")]
pub use control::{AskAboutHosts, HostAnswer, HostQuestion, NetworkControl};
pub use error::SandboxError;
pub use executor::{NativeExecutor, PlatformExecutor};
#[cfg(target_os = "linux")]
pub use kennel_linux::guard::{Mended, Violation};
#[cfg(target_os = "linux")]
pub use kennel_linux::handback::{SetAside, What};
pub use kennel_policy as policy;
pub use kennel_policy::policy::{
    GitLevel, NetworkMode, OnReplace, Policy, Precedence, ReadModel, SeccompProfile, TmpMode, UnixSockets,
};
#[cfg(target_os = "linux")]
pub use network::{NetworkDecision, Program, Published};
pub use result::{Ended, ExecutionResult, Usage};
pub use sandbox::Sandbox;
pub use stdio::Stdio;

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, SandboxError>;
