//! From a path as it was typed to an absolute one.
//!
//! A path that would stand for nothing is a mistake here, not later: a deny that silently matches nothing protects
//! nothing. `~` and `$HOME` are the home; other variables, and blanks before these, are refused.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::ValueError;
use crate::pattern::{PathPattern, PatternError};

/// What typed paths are relative to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The folder of relative paths: the caller's working directory for flags, the file's own folder for a file.
    pub folder: PathBuf,
    /// What a leading `~` stands for.
    pub home: Option<PathBuf>,
    /// Homes that the same person may have besides: a deny below `~` holds in each of them.
    pub other_homes: Vec<PathBuf>,
}

/// Whether a path is listed to be allowed or to be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// It opens something: `~` is one folder.
    Allow,
    /// It closes something: `~` is every folder that may be the home.
    Deny,
}

/// What a text starts from.
enum Start<'a> {
    Folder(&'a Path),
    Home(&'a Path),
}

impl Base {
    /// A base with one home.
    pub fn new(folder: impl Into<PathBuf>, home: Option<PathBuf>) -> Base {
        Base { folder: folder.into(), home, other_homes: Vec::new() }
    }

    /// The same homes with another folder.
    #[must_use]
    pub fn in_folder(&self, folder: impl Into<PathBuf>) -> Base {
        Base { folder: folder.into(), ..self.clone() }
    }

    /// The patterns that a text of a list stands for: `~` and relative texts are resolved, special characters make it a
    /// glob. There is one, or for a deny one for each home.
    ///
    /// ```
    /// use kennel_policy::settings::{Base, Sense};
    /// let base = Base::new("/work", Some("/home/me".into()));
    /// let keys = base.patterns("$HOME/.ssh".as_ref(), Sense::Deny)?;
    /// assert_eq!(keys[0].as_path(), std::path::Path::new("/home/me/.ssh"));
    /// assert!(base.patterns("$KEYS/*".as_ref(), Sense::Deny).is_err());
    /// # Ok::<(), kennel_policy::settings::ValueError>(())
    /// ```
    ///
    /// # Errors
    /// When it is no path, or no path of this base.
    pub fn patterns(&self, text: &OsStr, sense: Sense) -> Result<Vec<PathPattern>, ValueError> {
        check(text)?;
        self.globs(text, sense)
    }

    /// The same for a text in which a `$` and blanks mean themselves.
    pub(crate) fn globs(&self, text: &OsStr, sense: Sense) -> Result<Vec<PathPattern>, ValueError> {
        let error = |error| ValueError::path(text, error);
        match self.split(text)? {
            Start::Folder(rest) => Ok(vec![PathPattern::parse_in(&self.folder, rest).map_err(error)?]),
            Start::Home(rest) => {
                self.homes(sense)?.map(|home| PathPattern::parse_in(home, rest).map_err(error)).collect()
            }
        }
    }

    /// The folders that a text starts from, and what of it is relative to them.
    pub(crate) fn places<'t>(
        &self,
        text: &'t OsStr,
        sense: Sense,
    ) -> Result<Vec<(PathBuf, &'t OsStr)>, ValueError> {
        if text.as_encoded_bytes().contains(&0) {
            return Err(ValueError::path(text, PatternError::Nul));
        }
        match self.split(text)? {
            Start::Folder(rest) if rest.has_root() => Ok(vec![(PathBuf::from("/"), rest.as_os_str())]),
            Start::Folder(rest) => Ok(vec![(self.folder.clone(), rest.as_os_str())]),
            Start::Home(rest) => {
                Ok(self.homes(sense)?.map(|home| (home.to_path_buf(), rest.as_os_str())).collect())
            }
        }
    }

    /// The paths of a text in which every character but a leading `~` means itself.
    pub(crate) fn literals(&self, text: &OsStr, sense: Sense) -> Result<Vec<PathPattern>, ValueError> {
        if text.as_encoded_bytes().contains(&0) {
            return Err(ValueError::path(text, PatternError::Nul));
        }
        match self.split(text)? {
            Start::Folder(rest) => Ok(vec![PathPattern::literal(self.folder.join(rest))]),
            Start::Home(rest) => {
                Ok(self.homes(sense)?.map(|home| PathPattern::literal(home.join(rest))).collect())
            }
        }
    }

    /// A path without globs. `..` stays: where it leads depends on symlinks.
    ///
    /// # Errors
    /// When it is no path, or no path of this base.
    pub fn path(&self, text: &OsStr) -> Result<PathBuf, ValueError> {
        check(text)?;
        let mut literals = self.literals(text, Sense::Allow)?;
        literals.pop().map(|pattern| pattern.as_path().to_owned()).ok_or(ValueError::NoHome)
    }

    fn homes(&self, sense: Sense) -> Result<impl Iterator<Item = &Path>, ValueError> {
        let home = self.home.as_deref().ok_or(ValueError::NoHome)?;
        let others = self.other_homes.iter().filter(move |_| sense == Sense::Deny);
        Ok(std::iter::once(home).chain(others.map(PathBuf::as_path)))
    }

    /// What a text is relative to, and what is relative to it.
    fn split<'a>(&self, text: &'a OsStr) -> Result<Start<'a>, ValueError> {
        if text.is_empty() {
            return Err(ValueError::path(text, PatternError::Empty));
        }
        let path = Path::new(text);
        if let Some(rest) = below_home(path) {
            return Ok(Start::Home(rest));
        }
        if text.as_encoded_bytes().starts_with(b"~") {
            return Err(ValueError::OtherHome(text.to_string_lossy().into_owned()));
        }
        Ok(Start::Folder(path))
    }
}

/// What follows the home in a text that starts with it.
pub(crate) fn below_home(path: &Path) -> Option<&Path> {
    let rest = ["~", "$HOME", "${HOME}"].iter().find_map(|home| path.strip_prefix(home).ok())?;
    // An empty rest is the home itself; `.` keeps it from looking like a mistake.
    Some(if rest.as_os_str().is_empty() { Path::new(".") } else { rest })
}

/// Refuses what somebody else was to expand or to cut off, and did not.
fn check(text: &OsStr) -> Result<(), ValueError> {
    let bytes = text.as_encoded_bytes();
    // What is left of a list that somebody took apart at its commas.
    if bytes.first().is_some_and(u8::is_ascii_whitespace)
        && matches!(bytes.trim_ascii_start().first(), Some(b'~' | b'$' | b'/'))
    {
        return Err(ValueError::Blank(text.to_string_lossy().into_owned()));
    }
    let rest = below_home(Path::new(text)).map_or(bytes, |rest| rest.as_os_str().as_encoded_bytes());
    let variable = |name: &[u8]| matches!(name, [b'$', next, ..] if next.is_ascii_alphabetic() || matches!(next, b'_' | b'{' | b'('));
    match rest.split(|byte| *byte == b'/').find(|name| variable(name)) {
        Some(name) => {
            let (text, name) =
                (text.to_string_lossy().into_owned(), String::from_utf8_lossy(name).into_owned());
            Err(ValueError::NotExpanded { text, name })
        }
        None => Ok(()),
    }
}
