//! What can go wrong, grouped by what a caller would do about it.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Why there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum SandboxError {
    /// The configuration is invalid, here or in general.
    ConfigValidation(Cause),
    /// kennel cannot run here.
    UnsupportedPlatform(Cause),
    /// Linux: the host denies namespaces.
    NamespaceCreation(Cause),
    /// Linux: no cgroup could be created.
    CgroupCreation(Cause),
    /// Linux: a limit could not be set.
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
    SandboxProfile(Cause),
    /// A step of setting up the sandbox failed.
    Setup(Cause),
    /// There is no such command inside.
    CommandNotFound(Cause),
    /// The command cannot be executed.
    PermissionDenied(Cause),
    /// It did not end in time. The sandbox is still running.
    Timeout,
    /// A fault of kennel's own.
    Internal(Cause),
    /// The system failed this process.
    Io(std::io::Error),
}

/// What was being done and why it failed, in words; and the error behind it, where there is one. A text in all that matters.
#[derive(Clone)]
pub struct Cause {
    text: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Cause {
    /// What an error says, and the error itself.
    pub(crate) fn of(error: impl Error + Send + Sync + 'static) -> Cause {
        // Names in it may be a stranger's, and whoever gets this prints it.
        Cause { text: kennel_policy::printed::show_lines(&error.to_string()), source: Some(Arc::new(error)) }
    }
}

impl Deref for Cause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause { text, source: None }
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Cause {
        text.to_owned().into()
    }
}

impl PartialEq<str> for Cause {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Cause {
    fn eq(&self, other: &&str) -> bool {
        self.text == **other
    }
}

impl SandboxError {
    /// Whether this host lacks something that the policy requires, or this process may not use it: then
    /// [`host::findings`](crate::host::findings) says more.
    #[must_use]
    pub fn lacks_of_host(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(error) =
            self.source().and_then(|source| source.downcast_ref::<kennel_linux::sandbox::Error>())
        {
            return error.lacks_of_host();
        }
        matches!(self, SandboxError::CgroupSetting { .. })
    }
}

impl SandboxError {
    /// The exit code that shells have for a command that could not be started: 127 if it was not found, 126 if it could not be
    /// executed; `None` for everything else.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            SandboxError::CommandNotFound(_) => Some(127),
            SandboxError::PermissionDenied(_) => Some(126),
            _ => None,
        }
    }
}

impl SandboxError {
    fn cause(&self) -> Option<&Cause> {
        match self {
            SandboxError::ConfigValidation(cause)
            | SandboxError::UnsupportedPlatform(cause)
            | SandboxError::NamespaceCreation(cause)
            | SandboxError::CgroupCreation(cause)
            | SandboxError::SandboxProfile(cause)
            | SandboxError::Setup(cause)
            | SandboxError::CommandNotFound(cause)
            | SandboxError::PermissionDenied(cause)
            | SandboxError::Internal(cause) => Some(cause),
            SandboxError::CgroupSetting { .. } | SandboxError::Timeout | SandboxError::Io(_) => None,
        }
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SandboxError::CgroupSetting { controller, setting, value, reason } => {
                write!(f, "setting {setting} of the {controller} controller to {value}: {reason}")
            }
            SandboxError::CommandNotFound(command) => write!(f, "{command}: command not found"),
            SandboxError::Timeout => f.write_str("timed out waiting for the sandbox to end"),
            SandboxError::Internal(cause) => write!(f, "internal error: {cause}"),
            SandboxError::Io(error) => error.fmt(f),
            other => other.cause().map_or(Ok(()), |cause| cause.fmt(f)),
        }
    }
}

impl Error for SandboxError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its text is this error's own.
            SandboxError::Io(error) => error.source(),
            other => other.cause()?.source.as_ref().map(|source| source.as_ref() as _),
        }
    }
}

impl From<std::io::Error> for SandboxError {
    fn from(error: std::io::Error) -> Self {
        SandboxError::Io(error)
    }
}

#[cfg(target_os = "linux")]
impl From<kennel_linux::sandbox::Error> for SandboxError {
    fn from(error: kennel_linux::sandbox::Error) -> Self {
        use kennel_linux::cgroup::CgroupError;
        use kennel_linux::sandbox::Error;
        use kennel_linux::supervise::StartError;
        match error {
            Error::NotEnforced(_) | Error::Resolve(_) | Error::Plan(_) => {
                SandboxError::ConfigValidation(Cause::of(error))
            }
            Error::Cgroup(CgroupError::Setting { path, value, source, .. }) => {
                let setting = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let controller = setting.split('.').next().unwrap_or_default().to_owned();
                SandboxError::CgroupSetting { controller, setting, value, reason: source.to_string() }
            }
            Error::Cgroup(_) => SandboxError::CgroupCreation(Cause::of(error)),
            Error::Denied { .. } | Error::Launch(_) => SandboxError::NamespaceCreation(Cause::of(error)),
            Error::Start(StartError::NotExecuted { command, source }) => {
                if source.kind() == std::io::ErrorKind::NotFound {
                    return SandboxError::CommandNotFound(command.into());
                }
                let folder = std::path::Path::new(&command).is_dir();
                let why = if folder { "is a directory".to_owned() } else { source.to_string() };
                let text = kennel_policy::printed::show_lines(&format!("{command}: {why}"));
                SandboxError::PermissionDenied(Cause { text, source: Some(Arc::new(source)) })
            }
            Error::Start(_) | Error::Network(_) => SandboxError::Setup(Cause::of(error)),
            Error::System { doing, source } => {
                SandboxError::Io(std::io::Error::new(source.kind(), format!("{doing}: {source}")))
            }
        }
    }
}

#[cfg(windows)]
impl From<kennel_windows::Error> for SandboxError {
    fn from(error: kennel_windows::Error) -> Self {
        use kennel_windows::Error;
        match error {
            Error::NotFound(command) => SandboxError::CommandNotFound(command.into()),
            Error::NotExecuted { .. } => SandboxError::PermissionDenied(Cause::of(error)),
            Error::Quote(_) | Error::Environment(_) => SandboxError::ConfigValidation(Cause::of(error)),
            Error::System { .. } => SandboxError::Setup(Cause::of(error)),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use kennel_linux::cgroup::CgroupError;
    use kennel_linux::sandbox::Error as LinuxError;

    use super::*;

    #[test]
    fn a_limit_that_the_kernel_refuses_is_named_with_its_value() {
        let refused = CgroupError::Setting {
            doing: "limiting CPU",
            path: "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us".into(),
            value: "50000".into(),
            source: std::io::Error::from_raw_os_error(22),
        };
        let error = SandboxError::from(LinuxError::Cgroup(refused));
        assert_eq!(
            error.to_string(),
            "setting cpu.cfs_quota_us of the cpu controller to 50000: Invalid argument (os error 22)"
        );
    }

    #[test]
    fn an_error_has_the_one_behind_it_as_its_source_and_says_nothing_twice() {
        let sandbox =
            crate::Sandbox::builder().allow_read("/no/such/place").reads(crate::ReadModel::Listed).build();
        let error = sandbox.and_then(|sandbox| sandbox.run("true", &[])).expect_err("there is no such place");
        assert!(matches!(error, SandboxError::ConfigValidation(_)), "{error:?}");
        assert!(error.source().is_some(), "{error:?}");
    }
}
