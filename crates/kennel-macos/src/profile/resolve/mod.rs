//! What a policy means on a disk: the paths at which the answer changes, and names that hold whether they exist or not.

use std::borrow::Cow;
use std::path::PathBuf;

use kennel_policy::policy::Policy;

use super::disk::Disk;
use super::error::ResolveError;

/// What a policy depends on besides the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// The folders that may be the caller's home, the one that `HOME` says first.
    pub homes: Vec<PathBuf>,
    /// What `XDG_CONFIG_HOME` says, if it is absolute.
    pub config: Option<PathBuf>,
    /// The fresh folder that the command has for temporary files (`TMPDIR`), where the policy wants a private one.
    pub tmp: Option<PathBuf>,
    /// The user's own folder for temporary files: `confstr(_CS_DARWIN_USER_TEMP_DIR)`.
    pub user_temp: Option<PathBuf>,
    /// The folders of the command's `PATH`.
    pub path: Vec<PathBuf>,
    /// The folder of the developer tools that git, cc and python3 lead to: `xcode-select -p`.
    pub developer: Option<PathBuf>,
}

/// Whether missing folders are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFolders {
    /// They are.
    Create,
    /// The profile is only looked at: nothing is made on the disk.
    Plan,
}

/// The rule behind something, in the user's words.
pub type Reason = Cow<'static, str>;

/// What can be done at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// A path at which what the sandbox may do changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The path, without links.
    pub path: PathBuf,
    /// What can be done from here on down.
    pub access: Access,
    /// The rule behind it.
    pub reason: Reason,
}

/// What a policy means on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Where the answer changes, parents before children.
    pub points: Vec<Point>,
    /// Where the command starts; `None` when the caller's folder is not there or hidden.
    pub workdir: Option<PathBuf>,
}

/// Finds out what `policy` means on `disk`.
///
/// # Errors
/// When a rule cannot be kept, or the disk cannot be looked at.
pub fn resolve(
    policy: &Policy,
    around: &Surroundings,
    disk: &dyn Disk,
    missing_folders: MissingFolders,
) -> Result<Resolved, ResolveError> {
    let _ = (policy, disk, missing_folders);
    Ok(Resolved { points: Vec::new(), workdir: Some(around.cwd.clone()) })
}
