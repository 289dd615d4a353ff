//! Several users in one sandbox: which of the caller's ids they are, and how their map gets into a user namespace.
//!
//! [`UserMaps::of`] decides the maps, from `/etc/subuid` and `/etc/subgid`; [`UserMaps::write_for`] has them written for a
//! process that was born in a namespace without one: by `newuidmap` and `newgidmap`, or directly by a root. Both know
//! nothing of how the process was made.

pub mod files;
mod maps;
mod subordinate;
mod tools;

use std::io;

use kennel_policy::host::{Finding, State};
use kennel_policy::policy::ProcessPolicy;

pub use maps::{Extent, UserMaps};
pub use subordinate::{Ids, Which};

/// Why several users cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The caller has no subordinate ids, or too few.
    #[error(
        "mapping {users}: {file} gives {caller} {have} subordinate {what}, and {need} {} needed\n\
         help: as root, add the line `{line}` to {file}",
        if *.need == 1 { "is" } else { "are" }
    )]
    TooFew {
        /// Who is to be mapped.
        users: String,
        /// The file that says so.
        file: &'static str,
        /// Whose.
        caller: String,
        /// How many there are.
        have: u32,
        /// Uids or gids.
        what: &'static str,
        /// How many have to be.
        need: u32,
        /// What to add.
        line: String,
    },
    /// A tool that does not exist.
    #[error(
        "mapping {users}: {tool} does not exist in {folders}\n\
         help: install it (Debian and Ubuntu: the package `uidmap`; Fedora: `shadow-utils-subid`; Arch: `shadow`)"
    )]
    NoTool {
        /// Who is to be mapped.
        users: String,
        /// Which.
        tool: &'static str,
        /// Where it was looked for.
        folders: String,
    },
    /// A tool that can do nothing.
    #[error("mapping {users}: {tool} {problem}\nhelp: {help}")]
    Powerless {
        /// Who is to be mapped.
        users: String,
        /// Its path.
        tool: String,
        /// Why.
        problem: &'static str,
        /// What to do.
        help: String,
    },
    /// A tool that refused.
    #[error("mapping {users}: {tool}: {said}")]
    Refused {
        /// Who is to be mapped.
        users: String,
        /// Its path.
        tool: String,
        /// What it said.
        said: String,
    },
    /// The kernel refused.
    #[error("mapping {users}: writing {file}: {source}")]
    Write {
        /// Who is to be mapped.
        users: String,
        /// What was written.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else.
    #[error("mapping {users}: {doing}: {source}")]
    System {
        /// Who is to be mapped.
        users: String,
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What `kennel doctor` says about several users.
#[must_use]
pub fn finding() -> Finding {
    let process = ProcessPolicy {
        users: ["root", "builder"].into_iter().zip([0, 1000]).map(|(name, id)| user(name, id)).collect(),
        ..ProcessPolicy::default()
    };
    let found = UserMaps::of(&process).and_then(|maps| maps.check().map(|how| (maps.count(), how)));
    match found {
        Ok((count, how)) => Finding {
            subject: "users",
            state: State::Good,
            detail: format!("several users inside: {count} ids, {how}"),
            remedy: None,
        },
        Err(error) => {
            let text = error.to_string();
            let (detail, remedy) = text.split_once("\nhelp: ").unwrap_or((&text, ""));
            let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
            let detail = format!("not with several users inside (`process.users`): {detail}");
            Finding { subject: "users", state: State::Weaker, detail, remedy }
        }
    }
}

fn user(name: &str, id: u32) -> kennel_policy::users::User {
    kennel_policy::users::User { name: name.to_owned(), uid: id, gid: id }
}
