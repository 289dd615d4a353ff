//! The layers of caches that sandboxes with `files.caches` have written, and are kept for the next run of a project.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// The layers of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheProject {
    /// The name of their folder.
    pub name: OsString,
    /// The project's path.
    pub path: PathBuf,
    /// The states of agents that the sandbox wrote: an agent's layers are its own.
    pub states: Vec<PathBuf>,
    /// When a run used them last.
    pub used: SystemTime,
    /// Whether a run holds some of them now.
    pub in_use: bool,
    /// What holds something: its name, and how many bytes of the disk it takes. The largest is first.
    pub layers: Vec<(String, u64)>,
    /// Whether there is more than was counted.
    pub at_least: bool,
}

/// What became of a project's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// They are gone.
    All,
    /// Some are in use, and were left.
    InUse,
}

/// Where they are; `None` where the caller has no home.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    return kennel_linux::caches::folder();
    #[cfg(not(target_os = "linux"))]
    None
}

/// All projects that have layers, by their paths.
///
/// # Errors
/// When they cannot be looked at.
pub fn list() -> io::Result<Vec<CacheProject>> {
    #[cfg(target_os = "linux")]
    if let Some(folder) = folder() {
        let projects = kennel_linux::caches::list(&folder)?.into_iter();
        return Ok(projects
            .map(|project| CacheProject {
                name: project.name,
                path: project.path,
                states: project.states,
                used: project.used,
                in_use: project.in_use,
                layers: project.layers.into_iter().map(|layer| (layer.name, layer.bytes)).collect(),
                at_least: project.at_least,
            })
            .collect());
    }
    Ok(Vec::new())
}

/// Removes the layers of a project, but for what a run holds now.
///
/// # Errors
/// When something cannot be removed.
pub fn clear(project: &CacheProject) -> io::Result<Cleared> {
    #[cfg(target_os = "linux")]
    if let Some(folder) = folder() {
        return Ok(match kennel_linux::caches::clear(&folder, &project.name)? {
            kennel_linux::caches::Cleared::InUse => Cleared::InUse,
            _ => Cleared::All,
        });
    }
    let _ = project;
    Ok(Cleared::All)
}
