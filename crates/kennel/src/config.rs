//! A sandbox's configuration as plain data: the few settings that most programs use. [`SandboxBuilder`](crate::SandboxBuilder) has all
//! of them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use kennel_policy::policy::{MountAccess, NetworkMode, Policy, SeccompProfile};

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Only read.
    ReadOnly,
    /// Read and written.
    ReadWrite,
}

/// A host path that appears inside, perhaps at a different path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The host's path.
    pub source: PathBuf,
    /// Where it appears inside.
    pub target: PathBuf,
    /// Whether it can be written.
    pub permission: Permission,
}

impl MountPoint {
    /// A host path that can be read inside.
    pub fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { source: source.into(), target: target.into(), permission: Permission::ReadOnly }
    }

    /// A host path that can be read and written inside.
    pub fn read_write(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { source: source.into(), target: target.into(), permission: Permission::ReadWrite }
    }
}

/// The main settings of a sandbox, as plain data. Convert it to a [`SandboxBuilder`](crate::SandboxBuilder) to set more;
/// [`Sandbox::config`](crate::Sandbox::config) shows a sandbox as one.
///
/// ```
/// use kennel::{Sandbox, SandboxBuilder, SandboxConfig};
///
/// let config = SandboxConfig { max_pids: Some(16), ..SandboxConfig::default() };
/// let sandbox = SandboxBuilder::from(config).deny_read("/srv").build()?;
/// assert_eq!(sandbox.config().max_pids, Some(16));
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct SandboxConfig {
    /// Host paths that appear inside.
    pub mounts: Vec<MountPoint>,
    /// Bytes of memory for everything inside together.
    pub memory_limit: Option<u64>,
    /// CPU time, in CPUs: 1.5 is one and a half.
    pub cpu_limit: Option<f64>,
    /// Wall-clock time after which everything inside is killed.
    pub wall_time_limit: Option<Duration>,
    /// Number of processes and threads at once.
    pub max_pids: Option<u32>,
    /// Open descriptors of each process.
    pub max_open_files: Option<u32>,
    /// Which network the sandbox uses.
    pub network_mode: NetworkMode,
    /// Variables that are set inside.
    pub env_vars: HashMap<String, String>,
    /// The directory commands start in; the caller's working directory when `None`.
    pub working_dir: Option<PathBuf>,
    /// Which system calls commands can make.
    pub seccomp_profile: SeccompProfile,
}

impl fmt::Debug for SandboxConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The names of the variables, and not their values, which may be secrets.
        let mut names: Vec<&str> = self.env_vars.keys().map(String::as_str).collect();
        names.sort_unstable();
        f.debug_struct("SandboxConfig")
            .field("mounts", &self.mounts)
            .field("memory_limit", &self.memory_limit)
            .field("cpu_limit", &self.cpu_limit)
            .field("wall_time_limit", &self.wall_time_limit)
            .field("max_pids", &self.max_pids)
            .field("max_open_files", &self.max_open_files)
            .field("network_mode", &self.network_mode)
            .field("env_vars", &names)
            .field("working_dir", &self.working_dir)
            .field("seccomp_profile", &self.seccomp_profile)
            .finish()
    }
}

impl SandboxConfig {
    /// The parts of a policy that this can show.
    pub(crate) fn of(policy: &Policy) -> SandboxConfig {
        let mount = |mount: &kennel_policy::policy::MountPoint| MountPoint {
            source: mount.source.clone(),
            target: mount.target.clone(),
            permission: match mount.access {
                MountAccess::ReadOnly => Permission::ReadOnly,
                MountAccess::ReadWrite => Permission::ReadWrite,
            },
        };
        let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        SandboxConfig {
            mounts: policy.files.mounts.iter().map(mount).collect(),
            memory_limit: policy.limits.memory,
            cpu_limit: policy.limits.cpus,
            wall_time_limit: policy.limits.wall_time,
            max_pids: policy.limits.pids,
            max_open_files: policy.limits.open_files,
            network_mode: policy.network.mode,
            env_vars: policy.environment.set.iter().map(|(name, value)| (text(name), text(value))).collect(),
            working_dir: policy.process.workdir.clone(),
            seccomp_profile: policy.process.seccomp,
        }
    }
}
