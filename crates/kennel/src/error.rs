//! What can go wrong, by what a caller would do about it.

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The configuration makes no sense, here or at all.
    #[error("{0}")]
    ConfigValidation(String),
    /// kennel cannot run here.
    #[error("{0}")]
    UnsupportedPlatform(String),
    /// Linux: the host denies namespaces.
    #[error("{0}")]
    NamespaceCreation(String),
    /// Linux: no cgroup could be made.
    #[error("{0}")]
    CgroupCreation(String),
    /// Linux: a limit could not be set.
    #[error("setting {setting} of the {controller} controller to {value}: {reason}")]
    CgroupSetting {
        /// Which controller.
        controller: String,
        /// Which of its files.
        setting: String,
        /// What was to be written.
        value: String,
        /// What the system said.
        reason: String,
    },
    /// macOS: the profile was refused.
    #[error("{0}")]
    SandboxProfile(String),
    /// A step of setting up the sandbox failed.
    #[error("{0}")]
    Setup(String),
    /// There is no such command inside.
    #[error("{0}: command not found")]
    CommandNotFound(String),
    /// The command cannot be executed.
    #[error("{0}")]
    PermissionDenied(String),
    /// It did not end in time. The sandbox still runs.
    #[error("the sandbox did not end in time")]
    Timeout,
    /// A fault of kennel's own.
    #[error("internal error: {0}")]
    Internal(String),
    /// The system failed this process.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

#[cfg(target_os = "linux")]
impl From<kennel_linux::sandbox::Error> for SandboxError {
    fn from(error: kennel_linux::sandbox::Error) -> Self {
        use kennel_linux::sandbox::Error;
        use kennel_linux::supervise::StartError;
        // Names in it may be a stranger's, and whoever gets this prints it.
        let text = kennel_policy::printed::show_lines(&error.to_string());
        match error {
            Error::NotEnforced(_) | Error::Resolve(_) | Error::Plan(_) => {
                SandboxError::ConfigValidation(text)
            }
            Error::Cgroup(_) => SandboxError::CgroupCreation(text),
            Error::Denied { .. } | Error::Launch(_) => SandboxError::NamespaceCreation(text),
            Error::Start(StartError::NotExecuted { command, source }) => {
                if source.kind() == std::io::ErrorKind::NotFound {
                    SandboxError::CommandNotFound(command)
                } else {
                    SandboxError::PermissionDenied(text)
                }
            }
            Error::Start(_) | Error::Network(_) => SandboxError::Setup(text),
            Error::System { source, .. } => SandboxError::Io(source),
        }
    }
}
