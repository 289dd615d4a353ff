//! A place that everybody can reach, for programs that an ordinary user is to run: the checkout may well lie below a
//! folder that only its owner can enter. Below /var/tmp, because a sandbox has a /tmp of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;

/// A place's path but for the number of the process that made it.
const PREFIX: &str = "/var/tmp/kennel-workshop-";

/// The place. Removed with the value.
#[derive(Debug)]
pub struct Stage(PathBuf);

impl Stage {
    /// Makes an empty one.
    ///
    /// # Errors
    /// When /var/tmp cannot be written.
    pub fn new() -> Result<Stage, Failure> {
        remove_abandoned();
        let path = PathBuf::from(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("making {}: {error}", path.display()))?;
        let stage = Stage(path);
        fs::set_permissions(&stage.0, fs::Permissions::from_mode(0o755))?;
        Ok(stage)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a program on it for everybody to run; returns where it is.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn add(&self, program: &Path, name: &str) -> Result<PathBuf, Failure> {
        let place = self.0.join(name);
        fs::copy(program, &place)
            .map_err(|error| format!("copying {} to {}: {error}", program.display(), place.display()))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
        Ok(place)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: removing {}: {error}", self.0.display());
        }
    }
}

/// Places of a workshop that was interrupted: their makers are gone.
fn remove_abandoned() {
    for entry in fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        let path = entry.path();
        let maker = path.to_str().and_then(|path| path.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            // Somebody else's may well not be ours to remove.
            let _ = fs::remove_dir_all(&path);
        }
    }
}
