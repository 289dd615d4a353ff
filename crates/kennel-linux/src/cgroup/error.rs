//! What can go wrong with a cgroup, said so that the user knows which limit it concerns and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::controller::{Controller, ControllerSet};

/// Why a sandbox got no cgroup, or not the limits it asked for.
///
/// `Display` gives one line: what kennel was doing, on what, what the system said. [`CgroupError::help`]
/// gives the line that goes below it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A limit that no kernel accepts.
    #[error("limiting {limit}: {value}: {why}")]
    InvalidLimit {
        /// Which limit.
        limit: &'static str,
        /// What was asked for.
        value: String,
        /// Why it makes no sense.
        why: String,
    },
    /// Controllers that a limit needs and that the caller cannot use on this host.
    #[error("{}", Lacks(.0))]
    Missing(Vec<Lack>),
    /// The caller cannot have a cgroup at all.
    #[error("finding a cgroup for the sandbox: {place}: {why}")]
    NoPlace {
        /// Where kennel looked.
        place: String,
        /// What it found.
        why: String,
        /// What would help.
        help: String,
    },
    /// A file or directory of the cgroup file system refused.
    #[error("{doing}: {}: {source}", path.display())]
    System {
        /// What kennel was doing.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused the value of a limit.
    #[error("{doing}: {}: writing {value}: {source}", path.display())]
    Setting {
        /// What kennel was doing.
        doing: &'static str,
        /// To which file of a controller.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The user's systemd refused a scope, or could not be asked.
    #[error("asking systemd for a scope: {bus}: {why}")]
    Scope {
        /// The bus it was asked over.
        bus: String,
        /// What went wrong.
        why: String,
    },
}

/// One controller that is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The controller.
    pub controller: Controller,
    /// What kennel found.
    pub why: String,
    /// How to get it.
    pub remedy: String,
}

struct Lacks<'a>(&'a [Lack]);

impl fmt::Display for Lacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, lack) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let controller = lack.controller;
            write!(f, "preparing to {}: controller {controller}: {}", controller.purpose(), lack.why)?;
        }
        Ok(())
    }
}

impl CgroupError {
    pub(super) fn system(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self::System { doing, path: path.as_ref().to_owned(), source: source.into() }
    }

    pub(super) fn setting(
        doing: &'static str,
        path: impl AsRef<Path>,
        value: &impl ToString,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Setting {
            doing,
            path: path.as_ref().to_owned(),
            value: value.to_string(),
            source: source.into(),
        }
    }

    /// The controllers whose lack is the reason, for a caller that goes on without them.
    pub fn missing(&self) -> ControllerSet {
        match self {
            Self::Missing(lacks) => lacks.iter().map(|lack| lack.controller).collect(),
            _ => ControllerSet::EMPTY,
        }
    }

    /// What best effort would do instead, as a line of its own; nothing where the limit itself is the mistake.
    pub fn or_best_effort(&self) -> String {
        let all = [
            (Controller::Memory, "memory is limited for each process by itself"),
            (Controller::Pids, "the number of processes by a limit of the user's"),
            (Controller::Cpu, "CPUs are not limited"),
        ];
        let missing = self.missing();
        let instead: Vec<&str> = all
            .iter()
            .filter(|(controller, _)| missing.contains(*controller))
            .map(|(_, what)| *what)
            .collect();
        match self {
            Self::Missing(_) if !instead.is_empty() => {
                format!("\nor use `best_effort`: then {}, and the outcome says so", instead.join(", "))
            }
            Self::NoPlace { .. } | Self::Scope { .. } => {
                "\nor use `best_effort`, and the outcome lists what was not limited".to_owned()
            }
            _ => String::new(),
        }
    }

    /// What the user can do about it, in one line for each different remedy.
    pub fn help(&self) -> String {
        match self {
            Self::InvalidLimit { limit, .. } => format!("give {limit} another value, or leave it out"),
            Self::Missing(lacks) => {
                let mut remedies: Vec<&str> = Vec::new();
                for lack in lacks {
                    if !remedies.contains(&lack.remedy.as_str()) {
                        remedies.push(&lack.remedy);
                    }
                }
                remedies.join("\n")
            }
            Self::NoPlace { help, .. } => help.clone(),
            Self::System { .. } | Self::Setting { .. } => {
                "see docs/limits.md for what limits require from the host".to_owned()
            }
            Self::Scope { .. } => {
                "check `systemctl --user status`; without a user's systemd, a writable cgroup \
                                   has to be delegated (see docs/limits.md)"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_controller_is_named_with_what_it_is_for_and_its_remedy_is_given_once() {
        let lack = |controller| Lack {
            controller,
            why: "/sys/fs/cgroup: not writable".to_owned(),
            remedy: "delegate it".to_owned(),
        };
        let error = CgroupError::Missing(vec![lack(Controller::Memory), lack(Controller::Pids)]);
        assert_eq!(
            error.to_string(),
            "preparing to limit memory: controller memory: /sys/fs/cgroup: not writable; \
             preparing to limit the number of processes: controller pids: /sys/fs/cgroup: not writable"
        );
        assert_eq!(error.help(), "delegate it");
        assert!(error.missing().contains(Controller::Memory) && !error.missing().contains(Controller::Cpu));
    }
}
