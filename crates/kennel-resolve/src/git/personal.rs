//! The caller's own git configuration: what it has git run in every repository, those of a sandbox too.

use std::path::{Path, PathBuf};

use super::GitDisk;
use super::config::{self, Named, RelativeTo};

/// As many files are read that these include, and as deep as git does.
const MAX_INCLUDED: usize = 32;
const MAX_INCLUDES_DEEP: usize = 10;

/// What the caller's own configuration has git run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Personal {
    /// What it names, in each repository: `core.hooksPath = .githooks`, and the like.
    pub named: Vec<Named>,
    /// The folder whose hooks git copies into each new repository, if it says one.
    pub templates: Option<PathBuf>,
}

/// Reads the files in which a user and a host say it, later ones first, with what they include.
pub fn personal(disk: &impl GitDisk, files: impl IntoIterator<Item = PathBuf>) -> Personal {
    let home = disk.home();
    let mut personal = Personal::default();
    let mut left = MAX_INCLUDED;
    let mut files: Vec<(PathBuf, usize)> = files.into_iter().map(|file| (file, 0)).collect();
    while let Some((file, depth)) = files.pop() {
        let Some(text) = disk.read(&file, config::MAX_BYTES) else { continue };
        for mut named in config::named(&text) {
            if let Some(path) = in_home(home.as_deref(), &named.path) {
                named.path = path;
            }
            if named.relative_to == RelativeTo::File {
                // What is included need not exist for every repository, and lies beside the file itself.
                if depth < MAX_INCLUDES_DEEP && left > 0 {
                    left -= 1;
                    files.push((file.parent().unwrap_or(Path::new("/")).join(&named.path), depth + 1));
                }
            } else if named.key == "init.templatedir" {
                personal.templates = Some(named.path).filter(|path| path.is_absolute());
            } else {
                personal.named.push(named);
            }
        }
    }
    personal
}

/// A path that starts at the caller's home, made absolute.
pub(super) fn in_home(home: Option<&Path>, path: &Path) -> Option<PathBuf> {
    Some(home?.join(path.strip_prefix("~").ok()?))
}
