//! Why no profile says what a policy means on this disk.

use std::path::PathBuf;

pub use kennel_resolve::error::ResolveError;
pub(super) use kennel_resolve::error::{shown, system_error};

/// Why no profile could be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A path that a profile cannot hold.
    #[error("writing the Seatbelt profile: {rule}: {}: {what}\nhelp: rename the file, or drop the rule", shown(.path))]
    Path {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// More than the system compiles.
    #[error(
        "writing the Seatbelt profile: {count} {what}, and at most {most} are supported\n\
         help: name folders instead of files; a rule for a folder applies to everything in it"
    )]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// A tag that would not be found in the log again.
    #[error("writing the Seatbelt profile: the tag {0:?} may only hold letters, digits and `-`")]
    Tag(String),
    /// A part of the network's policy that Seatbelt has nothing for.
    #[error("writing the Seatbelt profile: {rule}: macOS cannot enforce it: {what}\nhelp: {help}")]
    Network {
        /// The rule.
        rule: String,
        /// What is missing.
        what: &'static str,
        /// What to do instead.
        help: &'static str,
    },
}
