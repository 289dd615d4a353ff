//! Folders that benchmarks work in.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// A folder, mostly below /var/tmp, because sandboxes have a /tmp of their own. Removed with the value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes an empty one.
    ///
    /// # Errors
    /// When /var/tmp cannot be written.
    pub fn new(name: &str) -> Result<Folder, Failure> {
        Folder::below("/var/tmp", name)
    }

    /// The same in memory. A sandbox does not see it: it has a /dev/shm of its own.
    ///
    /// # Errors
    /// When /dev/shm cannot be written.
    pub fn in_memory(name: &str) -> Result<Folder, Failure> {
        Folder::below("/dev/shm", name)
    }

    fn below(top: &str, name: &str) -> Result<Folder, Failure> {
        let path = PathBuf::from(format!("{top}/kennel-bench-{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("making {}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something in it, as text for a command line.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Fills it with small files, `per_folder` in each of so many folders.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn fill(&self, folders: usize, per_folder: usize) -> Result<(), Failure> {
        for folder in 0..folders {
            // Two levels, as source trees have.
            let place = self.0.join(format!("part-{}/module-{folder}", folder % 20));
            fs::create_dir_all(&place)?;
            for file in 0..per_folder {
                fs::write(place.join(format!("file-{file}.txt")), format!("{folder} {file}\n"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
