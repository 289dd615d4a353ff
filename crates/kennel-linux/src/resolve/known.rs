//! What a policy opens of git repositories, and what was there before the run, as plain values: the last look
//! ([`crate::handback`]) goes by it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use kennel_init::plan::Identity;
use kennel_policy::policy::GitLevel;
use kennel_resolve::git::{self, Personal};

use super::Reason;
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
    /// The names that programs obey, where they are kept at every depth.
    pub names: Option<ObeyedNames>,
}

/// What is known of the names that programs obey ([`kennel_policy::dotfiles`]) before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObeyedNames {
    /// Folders that a rule opens by their names: what they are called does not count.
    pub opened: BTreeSet<PathBuf>,
    /// Folders that are kept for sandboxes, and where they show inside: no program on the host goes by these.
    pub own: Vec<(PathBuf, PathBuf)>,
    /// What stood at such names, and was kept by mounts.
    pub known: HashSet<PathBuf>,
    /// What files held of which the caller is told how they changed.
    pub told: Vec<Remembered>,
    /// The rule behind it, in the user's words.
    pub rule: Reason,
}

/// A file that was there before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its path on the host.
    pub path: PathBuf,
    /// What it held.
    pub contents: Contents,
}

/// What a file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// This text.
    Text(Vec<u8>),
    /// It was a link to this path.
    Link(Vec<u8>),
    /// It was too large, or something else. Its number and the time of its last change, which nobody can set.
    Other(u64, (i64, u32)),
}

/// What was found at the place of a repository before the run.
pub type Known = git::Known<Identity>;

/// What a repository's own folder held before the run, as far as git takes programs from it.
pub type KnownFolder = git::KnownFolder<Identity>;
