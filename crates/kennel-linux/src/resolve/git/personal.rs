//! The caller's own git configuration: what it has git run in every repository, those of a sandbox too.

use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::config::{self, Named, RelativeTo};
use super::read;

/// As many files are read that these include, and as deep as git does.
const MOST_INCLUDED: usize = 32;
const MOST_INCLUDES_DEEP: usize = 10;

/// What the caller's own configuration has git run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Personal {
    /// What it names, in each repository: `core.hooksPath = .githooks`, and the like.
    pub named: Vec<Named>,
    /// The folder whose hooks git copies into each new repository, if it says one.
    pub templates: Option<PathBuf>,
}

/// Reads it, with what it includes.
pub fn personal() -> Personal {
    let home = home();
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let files = [
        Some(PathBuf::from("/etc/gitconfig")),
        folder.map(|folder| folder.join("git/config")),
        home.as_ref().map(|home| home.join(".gitconfig")),
    ];
    let mut personal = Personal::default();
    let mut left = MOST_INCLUDED;
    let mut files: Vec<(PathBuf, usize)> = files.into_iter().flatten().map(|file| (file, 0)).collect();
    while let Some((file, depth)) = files.pop() {
        let Some(text) = read(CWD, &file, config::MOST_BYTES) else { continue };
        for mut named in config::named(&text) {
            if let Some(path) = in_home(&named.path) {
                named.path = path;
            }
            if named.relative_to == RelativeTo::File {
                // What is included need not exist for every repository, and lies beside the file itself.
                if depth < MOST_INCLUDES_DEEP && left > 0 {
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
pub fn in_home(path: &Path) -> Option<PathBuf> {
    Some(home()?.join(path.strip_prefix("~").ok()?))
}

fn home() -> Option<PathBuf> {
    absolute("HOME")
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
