//! What a policy opens of git repositories, and what was there before the run, as plain values: the last look
//! ([`crate::handback`]) goes by it.

use std::collections::HashMap;
use std::path::PathBuf;

use kennel_init::plan::Identity;
use kennel_policy::git::{self, Personal};
use kennel_policy::policy::GitLevel;

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
pub type Known = git::Known<Identity>;

/// What a repository's own folder held before the run, as far as git takes programs from it.
pub type KnownFolder = git::KnownFolder<Identity>;
