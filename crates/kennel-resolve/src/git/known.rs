//! What was at the places of repositories before a run, to compare with when it is over.

use std::path::{Path, PathBuf};

/// What was found at the place of a repository before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<I> {
    /// A repository's own folder.
    Folder(Box<KnownFolder<I>>),
    /// A file that points to one, or was to, and what it says.
    Pointer {
        /// Its text.
        text: Vec<u8>,
        /// Whether there was a repository where it leads.
        leads_to_one: bool,
    },
    /// A link to one.
    Link,
    /// A repository that is read-only as a whole.
    Whole,
    /// A place that a rule opens by its name.
    Opened,
    /// A file system that did not answer.
    Unanswering,
}

/// What a repository's own folder held before the run, as far as git takes programs from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFolder<I> {
    /// `config`
    pub config: Option<Vec<u8>>,
    /// `config.worktree`
    pub own_config: Option<Vec<u8>>,
    /// `hooks`, and whether it is a link.
    pub hooks: Option<(I, bool)>,
    /// Whether there was a `commondir`.
    pub leads_on: bool,
    /// Whether there was a file `info/attributes`.
    pub attributes: bool,
    /// The top of its work tree.
    pub top: PathBuf,
    /// Paths in it that rules open by their names.
    pub opened: Vec<PathBuf>,
}

impl<I> Default for KnownFolder<I> {
    fn default() -> Self {
        KnownFolder {
            config: None,
            own_config: None,
            hooks: None,
            leads_on: false,
            attributes: false,
            top: PathBuf::new(),
            opened: Vec::new(),
        }
    }
}

impl<I> KnownFolder<I> {
    /// Whether a rule opens a part of it, or what the part is in, by its name.
    #[must_use]
    pub fn is_open(&self, part: &str) -> bool {
        self.opened.iter().any(|opened| Path::new(part).starts_with(opened))
    }
}
