//! Where the workshop keeps what takes long to fetch or to build, from one run to the next.

use std::path::{Path, PathBuf};

/// The folder of one task below the user's cache folder. It need not exist yet.
pub fn folder(task: &str) -> Result<PathBuf, String> {
    let caches = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::var_os("HOME")
            .map(|home| Path::new(&home).join(".cache"))
            .ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is set".to_owned())?,
    };
    Ok(caches.join("kennel-lanes").join(task))
}
