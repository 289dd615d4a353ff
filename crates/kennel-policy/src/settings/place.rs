//! From a path as it was typed to an absolute one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::ValueError;
use crate::pattern::{PathPattern, PatternError};

/// What typed paths are relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The folder of relative paths: the caller's working directory for flags, the file's own folder for a file.
    pub folder: PathBuf,
    /// What a leading `~` stands for.
    pub home: Option<PathBuf>,
}

impl Base {
    /// A pattern: `~` and relative texts are resolved, special characters make it a glob.
    pub(crate) fn pattern(&self, text: &OsStr) -> Result<PathPattern, ValueError> {
        let (folder, rest) = self.split(text)?;
        PathPattern::parse_in(folder, rest).map_err(|error| ValueError::path(text, error))
    }

    /// A path in which every character means itself. `..` stays: where it leads depends on symlinks.
    pub(crate) fn path(&self, text: &OsStr) -> Result<PathBuf, ValueError> {
        let (folder, rest) = self.split(text)?;
        if rest.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(ValueError::path(text, PatternError::Nul));
        }
        Ok(PathPattern::literal(folder.join(rest)).as_path().to_owned())
    }

    /// The folder that a text is relative to, and what is relative to it.
    fn split<'a>(&'a self, text: &'a OsStr) -> Result<(&'a Path, &'a Path), ValueError> {
        if text.is_empty() {
            return Err(ValueError::path(text, PatternError::Empty));
        }
        let path = Path::new(text);
        if !text.as_encoded_bytes().starts_with(b"~") {
            return Ok((&self.folder, path));
        }
        match path.strip_prefix("~") {
            Ok(rest) => {
                let home = self.home.as_deref().ok_or(ValueError::NoHome)?;
                // An empty rest is `~` itself; `.` keeps it from looking like a mistake.
                Ok((home, if rest.as_os_str().is_empty() { Path::new(".") } else { rest }))
            }
            Err(_) => Err(ValueError::OtherHome(text.to_string_lossy().into_owned())),
        }
    }
}
