//! What a sandbox tried at a protected path, as its caller is told.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "serde")]
use super::shown;
use crate::printed::show;

/// What a sandbox tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case", rename_all_fields = "snake_case")
)]
pub enum Violation {
    /// A call was refused.
    Refused {
        /// Which, in words.
        call: &'static str,
        /// The protected path, on the host, or the socket's, as the caller named it; `None` where the caller could not be
        /// looked into.
        #[cfg_attr(feature = "serde", serde(serialize_with = "shown::maybe_path"))]
        path: Option<PathBuf>,
        /// The rule behind it; empty where there is no path.
        rule: String,
        /// How often.
        times: u64,
    },
    /// A call won the race against the guard. The sandbox was ended.
    Broken {
        /// The protected path, on the host.
        #[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))]
        path: PathBuf,
        /// The rule behind it.
        rule: String,
        /// What was done about it.
        mended: Mended,
    },
    /// The host put something else in the place of a covered name, and it showed inside until it was covered again.
    Exposed {
        /// The name, on the host.
        #[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))]
        path: PathBuf,
        /// The rule behind it.
        rule: String,
        /// How long it took at most from when it happened until it was covered.
        longest: Duration,
        /// How often.
        times: u64,
    },
    /// The guard itself failed, and nothing that it had to judge was let through from then on.
    GuardFailed {
        /// Why.
        why: String,
    },
}

/// How a broken rule was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Mended {
    /// What appeared was removed.
    Removed,
    /// What appeared now stands beside, under this name.
    MovedAside(#[cfg_attr(feature = "serde", serde(serialize_with = "shown::name"))] OsString),
    /// What appeared was gone again before anybody could take it away.
    Gone,
    /// It could not be mended, because of this error of the system's.
    Not(i32),
}

impl Mended {
    /// The system's error, where it could not be mended.
    #[must_use]
    pub fn error(&self) -> Option<std::io::Error> {
        match self {
            Mended::Not(errno) => Some(std::io::Error::from_raw_os_error(*errno)),
            _ => None,
        }
    }
}

/// All that a sandbox tried: attempts that are alike are counted, and those past a bound only as a number, because a
/// sandbox can make as many as it likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Violations {
    /// Each with how often.
    pub list: Vec<Violation>,
    /// How many more there were.
    pub more: u64,
    /// Whether the sandbox was ended because the host replaced a covered name, as the policy wants it.
    pub ended: bool,
}

/// As many different ones are kept.
const MAX: usize = 256;

impl Violations {
    /// Takes one more into the count.
    pub fn add(&mut self, new: Violation) {
        for old in &mut self.list {
            if let (
                Violation::Refused { call, path, times, .. },
                Violation::Refused { call: new_call, path: new_path, .. },
            ) = (&mut *old, &new)
                && call == new_call
                && path == new_path
            {
                *times += 1;
                return;
            }
            if let (
                Violation::Exposed { path, longest, times, .. },
                Violation::Exposed { path: new_path, longest: new_longest, .. },
            ) = (&mut *old, &new)
                && path == new_path
            {
                (*longest, *times) = ((*longest).max(*new_longest), *times + 1);
                return;
            }
            if *old == new {
                return;
            }
        }
        // A broken rule ends the sandbox, so there are few.
        if self.list.len() < MAX || new.ends() {
            self.list.push(new);
        } else {
            self.more += 1;
        }
    }

    /// Whether the guard let something through, or might have: then the sandbox was ended.
    #[must_use]
    pub fn broken(&self) -> bool {
        self.ended || self.list.iter().any(Violation::ends)
    }

    /// Whether nothing was tried.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Violation {
    /// A word for it, in reports.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Violation::Refused { .. } => "refused",
            Violation::Broken { mended: Mended::Removed, .. } => "removed",
            Violation::Broken { mended: Mended::MovedAside(_), .. } => "moved-aside",
            Violation::Broken { mended: Mended::Gone, .. } => "gone-again",
            Violation::Broken { mended: Mended::Not(_), .. } => "not-removed",
            Violation::Exposed { .. } => "exposed",
            Violation::GuardFailed { .. } => "guard-failed",
        }
    }

    /// Whether the sandbox ends for it, whatever the policy says.
    fn ends(&self) -> bool {
        !matches!(self, Violation::Refused { .. } | Violation::Exposed { .. })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| show(path.as_os_str().as_encoded_bytes());
        let why = |rule: &str| show(rule.as_bytes());
        match self {
            Violation::Refused { call, path: Some(path), rule, times } => {
                let what = match *call {
                    "connect" => "connect to",
                    "listen" => "listen at",
                    // What only other systems than Linux tell of.
                    "read" | "write" | "remove" | "execute" | "look up" | "run" | "use" => call,
                    _ => "create",
                };
                write!(f, "refused to {what} {} ({call}{}): {}", name(path), often(*times), why(rule))
            }
            Violation::Refused { call, path: None, times, .. } => write!(
                f,
                "refused a call ({call}{}) from a process that the guard cannot inspect",
                often(*times)
            ),
            Violation::Broken { path, rule, mended } => {
                write!(f, "{} was created despite the guard, ", name(path))?;
                match mended {
                    Mended::Removed => f.write_str("and removed again")?,
                    Mended::Gone => f.write_str("and was gone again at once")?,
                    Mended::MovedAside(to) => {
                        write!(f, "and moved aside to {}", show(to.as_encoded_bytes()))?;
                    }
                    Mended::Not(errno) => {
                        let error = std::io::Error::from_raw_os_error(*errno);
                        write!(f, "and could not be removed: {error}")?;
                    }
                }
                write!(f, "; the sandbox was killed: {}", why(rule))
            }
            Violation::Exposed { path, rule, longest, times } => write!(
                f,
                "{} was replaced on the host{} and was not protected inside for at most {} \u{b5}s, until it was covered again: {}",
                name(path),
                often(*times),
                longest.as_micros(),
                why(rule)
            ),
            Violation::GuardFailed { why } => write!(f, "the guard failed: {why}"),
        }
    }
}

fn often(times: u64) -> String {
    if times == 1 { String::new() } else { format!(", {times} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> Violation {
        let (path, rule) = (Some(path.into()), format!("deny_write {path}"));
        Violation::Refused { call: "open", path, rule, times: 1 }
    }

    #[test]
    fn attempts_that_are_alike_are_counted() {
        let mut all = Violations::default();
        (0..3).for_each(|_| all.add(refused("/w/.git")));
        all.add(refused("/w/.bashrc"));
        assert_eq!(all.list.len(), 2);
        assert_eq!(all.list[0].to_string(), "refused to create /w/.git (open, 3 times): deny_write /w/.git");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = Violations::default();
        (0..1000).for_each(|number| all.add(refused(&format!("/w/{number}"))));
        assert_eq!((all.list.len(), all.more), (256, 744));
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert!(!refused("/w/\u{1b}[2J").to_string().contains('\u{1b}'));
    }
}
