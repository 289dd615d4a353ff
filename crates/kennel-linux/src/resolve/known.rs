//! What a policy opens of git repositories, and what was there before the run, as plain values: the last look
//! ([`crate::handback`]) goes by it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kennel_init::plan::Identity;
use kennel_policy::policy::GitLevel;

use super::git::Personal;
use super::guard_rules::Anchor;

/// What has to be looked through when a run is over, and what was there before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handback {
    /// How much of a repository is kept during the run.
    pub level: GitLevel,
    /// The folders that can be written, none of them in another.
    pub roots: Vec<Anchor>,
    /// What was found at the places of repositories.
    pub known: HashMap<PathBuf, Known>,
    /// What the caller's own configuration has git run.
    pub personal: Personal,
}

/// What was found at the place of a repository before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// A repository's own folder.
    Folder(Box<KnownFolder>),
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFolder {
    /// `config`
    pub config: Option<Vec<u8>>,
    /// `config.worktree`
    pub own_config: Option<Vec<u8>>,
    /// `hooks`, and whether it is a link.
    pub hooks: Option<(Identity, bool)>,
    /// Whether there was a `commondir`.
    pub leads_on: bool,
    /// Whether there was a file `info/attributes`.
    pub attributes: bool,
    /// The top of its work tree.
    pub top: PathBuf,
    /// Paths in it that rules open by their names.
    pub opened: Vec<PathBuf>,
}

impl KnownFolder {
    /// Whether a rule opens a part of it, or what the part is in, by its name.
    pub(crate) fn is_open(&self, part: &str) -> bool {
        self.opened.iter().any(|opened| Path::new(part).starts_with(opened))
    }
}
