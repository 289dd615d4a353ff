//! Why a policy has no meaning on this disk, or none that a profile could say.

use std::io;
use std::path::{Path, PathBuf};

use kennel_policy::printed::show;

/// Why a policy has no meaning here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// A listed path is not there.
    #[error(
        "resolving {rule}: {}: no such file or directory\nhelp: create it first, or mark the entry `missing = \"skip\"`",
        shown(.path)
    )]
    Missing {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
    },
    /// A place to write is not there, and could not be made.
    #[error("creating a folder for {rule}: {}: {source}\nhelp: create it first, or drop the rule", shown(.path))]
    NotCreated {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The caller may not look at a listed path.
    #[error("resolving {rule}: {}: permission denied", shown(.path))]
    Forbidden {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
    },
    /// A denied file can be reached under another name.
    #[error(
        "resolving {rule}: {} has {links} hard links, and not all of them are denied\n\
         help: deny its other names too (find them with `find / -samefile`), or give the file a copy of its own",
        shown(.path)
    )]
    HardLinks {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// How many.
        links: u64,
    },
    /// An allow leads through a link that an earlier run could have made.
    #[error(
        "resolving {rule}: leads through the symlink {}, which the command could have created, to {}\n\
         help: name the target itself, or remove the link",
        shown(.link), shown(.place)
    )]
    PlantedLink {
        /// The rule.
        rule: String,
        /// The link.
        link: PathBuf,
        /// Where it leads.
        place: PathBuf,
    },
    /// An allow leads through a link to what is denied.
    #[error(
        "resolving {rule}: leads through the symlink {} to {}, which is denied by {deny}\n\
         help: name that path itself to allow it, or drop one of the two rules",
        shown(.link), shown(.place)
    )]
    LinkToDenied {
        /// The rule.
        rule: String,
        /// The link.
        link: PathBuf,
        /// Where it leads.
        place: PathBuf,
        /// The other rule.
        deny: String,
    },
    /// Something is not what a rule needs it to be.
    #[error("resolving {rule}: {}: {what}", shown(.path))]
    Unfit {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Seatbelt has nothing that would keep the rule.
    #[error("resolving {rule}: macOS cannot enforce it: {what}\nhelp: {help}")]
    NotOnMacos {
        /// The rule.
        rule: String,
        /// What is missing.
        what: &'static str,
        /// What to do instead.
        help: &'static str,
    },
    /// Nobody means so many.
    #[error(
        "resolving the lists of paths: {count} globs, and at most {most} are supported\n\
         help: name folders instead; a rule for a folder applies to everything in it"
    )]
    TooManyGlobs {
        /// How many.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// A home would be writable where it must not be.
    #[error(
        "resolving {rule}: {} is a home folder, or holds one: shells, editors and kennel itself run commands from files there (files.refuse_home)\n\
         help: start in a project's folder, or name one with `process.workdir`; to start anyway, use `files.refuse_home = false`",
        shown(.path)
    )]
    Home {
        /// The rule.
        rule: String,
        /// The folder.
        path: PathBuf,
    },
    /// There is too much to look through.
    #[error(
        "searching for glob matches and git repositories: {}: {what}\n\
         help: start the pattern at a deeper folder, remove a link that leads away, allow writing to a smaller folder, or use `files.git = \"off\"`",
        shown(.path)
    )]
    TooWide {
        /// Where the search began.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
    },
    /// The system failed.
    #[error("resolving {rule}: {}: {source}", shown(.path))]
    System {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

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

/// A path as it may be printed: a stranger may have chosen it.
pub(super) fn shown(path: &Path) -> String {
    show(path.as_os_str().as_encoded_bytes())
}

pub(super) fn system_error(rule: &str, path: &Path) -> impl FnOnce(io::Error) -> ResolveError {
    let (rule, path) = (rule.to_owned(), path.to_path_buf());
    move |source| ResolveError::System { rule, path, source }
}
