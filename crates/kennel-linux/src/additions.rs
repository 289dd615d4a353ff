//! What a sandbox gets that no rule names: files of kennel's own and variables, in the place of secrets.
//!
//! Whoever asks for a sandbox finds them out when PID 1 is born, so that it holds none of what was read for them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use kennel_policy::policy::Policy;

/// What a sandbox gets in the place of secrets.
#[derive(Default)]
pub struct Additions {
    /// Variables that the command gets.
    pub variables: Vec<(OsString, OsString)>,
    /// Variables of the caller's that it does not get.
    pub unset: Vec<OsString>,
    /// Files of kennel's own.
    pub files: Vec<OwnFile>,
    /// What the policy's masked files show, by the paths that the policy names.
    pub masked: Vec<(PathBuf, Vec<u8>)>,
    /// What becomes of a variable or an argument that holds a real value; `None` for one that holds none.
    pub without_secrets: Option<Box<WithoutSecrets>>,
    /// Whether the gate reads requests, which needs a network of the sandbox's own.
    pub reads_requests: bool,
}

/// Takes real values out of a text.
pub type WithoutSecrets = dyn Fn(&OsStr) -> Option<OsString> + Send + Sync;

/// A file of kennel's own, in [`own_folder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub contents: Vec<u8>,
    /// Why it is there.
    pub reason: &'static str,
}

impl Additions {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.masked.is_empty() && !self.reads_requests
    }

    /// What a masked file shows; `None` for one that cannot be opened inside, because there is nothing to show instead of it.
    pub(crate) fn masked(&self, file: &Path) -> Option<&[u8]> {
        self.masked.iter().find(|(own, _)| own == file).map(|(_, contents)| &**contents)
    }

    /// A text that the command gets, without real values.
    pub(crate) fn cleaned(&self, text: &OsStr) -> Option<OsString> {
        self.without_secrets.as_ref().and_then(|without| without(text))
    }
}

impl fmt::Debug for Additions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither variables nor contents: some are secrets that the command is to hold.
        f.debug_struct("Additions").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

/// The folder of files of kennel's own inside. Below `/run`, which a sandbox inside this one keeps, unless `/run` is the policy's.
#[must_use]
pub fn own_folder(policy: &Policy) -> &'static Path {
    let files = &policy.files;
    let run = Path::new("/run");
    let targets = files.mounts.iter().map(|mount| &mount.target);
    let mut targets = targets.chain(files.tmpfs.iter().map(|tmpfs| &tmpfs.target));
    let is_taken = files.host_run
        || files.rootfs.is_some()
        || files.deny_read.iter().any(|rule| !rule.pattern.is_glob() && rule.pattern.as_path() == run)
        || targets.any(|target| target.starts_with(run));
    if is_taken { Path::new("/dev/kennel") } else { Path::new("/run/kennel") }
}
