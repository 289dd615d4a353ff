//! The command line and the policies of Codex's `codex-linux-sandbox`, as one more way to say a [`Policy`].
//!
//! Each line of releases has a form of its own: one JSON object that says it all (up to 0.125), one for files and one
//! for the network (0.113 to 0.125), a permission profile (from 0.126 on). All are accepted. What only steers the
//! original's inner stages, or the bwrap that it ships, is accepted and has no effect.
//!
//! [`Policy`]: crate::policy::Policy

use std::path::PathBuf;

use crate::pattern::PathPattern;

mod command_line;
mod managed;
mod meaning;
mod read;

pub use command_line::{CodexError, Invocation, USAGE, command_line};
pub use managed::{ATTRIBUTION, ManagedError, ManagedNetwork, manage};
pub use meaning::CodexContext;
pub use read::{managed_network, permission_profile, sandbox_policy, split_policies};

/// What a command may do, whatever form it was said in.
#[derive(Clone, Debug, PartialEq)]
pub struct Permissions {
    /// Files.
    pub files: CodexFiles,
    /// Whether the host's network can be used.
    pub network: bool,
}

/// Which files can be read and written.
#[derive(Clone, Debug, PartialEq)]
pub enum CodexFiles {
    /// All of them.
    Unrestricted,
    /// What the entries say. The most specific one wins; at a tie a deny, then a write, then a read.
    Restricted(Vec<Entry>),
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it speaks of.
    pub place: CodexPlace,
    /// What may be done there.
    pub access: CodexAccess,
    /// Whether one that does not exist may be made, where it is denied.
    pub skip_missing: bool,
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexAccess {
    /// Nothing.
    Deny,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// What an entry speaks of.
#[derive(Clone, Debug, PartialEq)]
pub enum CodexPlace {
    /// An absolute path.
    Path(PathBuf),
    /// What a pattern matches.
    Glob(PathPattern),
    /// Everything.
    Root,
    /// What most programs need of the system.
    Minimal,
    /// The policy's working directory, or a folder in it.
    ProjectRoots(Option<PathBuf>),
    /// `$TMPDIR`
    TmpDir,
    /// `/tmp`
    SlashTmp,
}

#[cfg(test)]
mod tests;
