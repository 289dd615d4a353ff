//! Why a policy has no meaning on this disk.

use std::io;
use std::path::{Path, PathBuf};

use kennel_policy::printed::show;

use crate::walk::WalkError;

/// Why a policy has no meaning here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// A listed path is not there.
    #[error(
        "resolving {rule}: {}: no such file or directory\nhelp: create it first{}",
        shown(.path), or_mark(.rule)
    )]
    Missing {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
    },
    /// What the caller allows, and a rule of a profile denies as much by name.
    #[error("resolving {rule}: it has no effect: {deny} wins\nhelp: {help}")]
    NoEffect {
        /// The rule.
        rule: String,
        /// The profile's.
        deny: String,
        /// What to do.
        help: String,
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
    /// A graphics card is not there.
    #[error("resolving {rule}: there is no such card: {there}")]
    NoGpu {
        /// The rule.
        rule: String,
        /// What there is.
        there: String,
    },
    /// Root's command would need a capability.
    #[error(
        "process.nested: the command of a sandbox of root's cannot create user namespaces, because Linux (since 5.12) lets \
         nobody map user 0 without CAP_SETFCAP, and the command has no capabilities\n\
         help: run kennel as an ordinary user"
    )]
    NestedAsRoot,
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
    /// Nothing can be laid over a folder with mounts in it.
    #[error(
        "resolving {rule}: {} is mounted below it, and the kernel lays no writable layer over a folder with mounts in it\n\
         help: unmount it, or use `files.rootfs_write = \"none\"`",
        shown(.mount)
    )]
    MountedInRoot {
        /// The rule.
        rule: String,
        /// The mount.
        mount: PathBuf,
    },
    /// A mount would show what a rule hides.
    #[error("resolving {mount}: its source is hidden by {rule}\nhelp: drop one of the two rules")]
    HiddenSource {
        /// The mount.
        mount: String,
        /// The deny.
        rule: String,
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
    /// Each place costs a mount, and an earlier run may have made any number of them.
    #[error(
        "resolving the rules for files: {count} files and folders would be protected one by one, {inside} of them in {}; at most {most} \
         are supported\n\
         help: remove that folder if the command made it, deny writing to it as a whole, or allow writing to a smaller folder",
        shown(.folder)
    )]
    TooManyPlaces {
        /// How many there are.
        count: usize,
        /// How many there can be.
        most: usize,
        /// A folder that holds many.
        folder: PathBuf,
        /// How many.
        inside: usize,
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
    /// There is too much to look through.
    #[error(
        "searching for glob matches and git repositories: {0}\n\
         help: start the pattern at a deeper folder, remove a link that leads away, allow writing to a smaller folder, or use `files.git = \"off\"`"
    )]
    Walk(#[from] WalkError),
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

/// What an entry of a settings file can say in addition. Elsewhere nobody can write that.
fn or_mark(rule: &str) -> &'static str {
    let line = rule.strip_suffix(')').and_then(|rule| rule.rsplit_once(':')).map(|(_, line)| line);
    let in_file = line.is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()));
    match in_file {
        false => "",
        true if rule.starts_with("allow_write") => ", or mark the entry `missing = \"create\"` or `\"skip\"`",
        true => ", or mark the entry `missing = \"skip\"`",
    }
}

/// A path as it may be printed: a stranger may have chosen it.
#[must_use]
pub fn shown(path: &Path) -> String {
    show(path.as_os_str().as_encoded_bytes())
}

/// Says which rule and which path the system failed at.
pub fn system_error(rule: &str, path: &Path) -> impl FnOnce(io::Error) -> ResolveError + use<> {
    let (rule, path) = (rule.to_owned(), path.to_path_buf());
    move |source| ResolveError::System { rule, path, source }
}
