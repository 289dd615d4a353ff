//! What a command could not do with files because of its sandbox, and what would allow it, as its caller is told.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "serde")]
use super::shown;
use crate::printed::show;

/// Which calls that fail because of the sandbox are explained at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// None.
    #[default]
    Nothing,
    /// Those that write, where the guard hears of names anyway: it costs next to nothing.
    Writes,
    /// All that use a path, whatever it costs.
    EveryCall,
}

/// What was tried with a file. The order is that of likely causes of a failure: a program that cannot write gives up, and one
/// that does not find a file mostly goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Tried {
    /// To write a file that exists.
    Write,
    /// To make a file or a folder.
    Create,
    /// To move something there, or away from there.
    Move,
    /// To remove it.
    Remove,
    /// To change its mode, owner, times or attributes.
    Change,
    /// To run a program.
    Run,
    /// To read a file or list a folder.
    Read,
    /// To find out whether it is there, or what it is.
    LookUp,
}

/// What would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Remedy {
    /// This path in `files.allow_write`.
    AllowWrite(#[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))] PathBuf),
    /// This path in `files.allow_read`.
    AllowRead(#[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))] PathBuf),
    /// This path in `files.devices`.
    AllowDevice(#[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))] PathBuf),
    /// This path in `files.allow_write`, once it exists: all of the folder around it is too much.
    MakeFirst(#[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))] PathBuf),
    /// A rule keeps it closed, and would have to go.
    DropRule,
    /// It is a credential, or as private; the command can use a secret without seeing it.
    Credential,
    /// Programs on the host take commands from it, or it is the system's own: what needs it is not for a sandbox.
    Outside,
}

/// A path that a command could not use, though its user can outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileDenial {
    /// What was tried.
    pub tried: Tried,
    /// The path inside, without links.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))]
    pub path: PathBuf,
    /// The name that the program gave itself.
    pub program: Option<String>,
    /// The rule behind it, or that there is none.
    pub rule: String,
    /// What would allow it.
    pub remedy: Remedy,
    /// How often it was tried.
    pub times: u64,
}

/// What a command could not do with files: the likeliest cause of a failure first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Denials {
    /// Each path once for each way.
    pub list: Vec<FileDenial>,
    /// How many more tries there were at paths that are not listed.
    pub more: u64,
    /// Whether every call was looked at; otherwise only what makes or writes files, as far as the guard hears of it.
    pub traced: bool,
}

impl Tried {
    /// A word for it, in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Tried::Write => "write",
            Tried::Create => "create",
            Tried::Move => "move",
            Tried::Remove => "remove",
            Tried::Change => "change",
            Tried::Run => "run",
            Tried::Read => "read",
            Tried::LookUp => "look-up",
        }
    }

    /// Whether it would have changed something.
    #[must_use]
    pub fn changes(self) -> bool {
        self < Tried::Run
    }
}

impl Remedy {
    /// A word for it, in reports.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Remedy::AllowWrite(_) => "allow-write",
            Remedy::AllowRead(_) => "allow-read",
            Remedy::AllowDevice(_) => "allow-device",
            Remedy::MakeFirst(_) => "make-first",
            Remedy::DropRule => "drop-rule",
            Remedy::Credential => "credential",
            Remedy::Outside => "outside",
        }
    }
}

impl fmt::Display for FileDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.tried {
            Tried::Write => "write",
            Tried::Create => "create",
            Tried::Move => "move",
            Tried::Remove => "remove",
            Tried::Change => "change the attributes of",
            Tried::Run => "run",
            Tried::Read => "read",
            Tried::LookUp => "find",
        };
        match &self.program {
            Some(program) => write!(f, "{} ", show(program.as_bytes()))?,
            None => f.write_str("the command ")?,
        }
        let often = if self.times == 1 { String::new() } else { format!(" ({} times)", self.times) };
        let path = show(self.path.as_os_str().as_encoded_bytes());
        write!(f, "could not {what} {path}{often}: {}", show(self.rule.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_says_who_tried_what_where_and_why_and_no_name_steers_a_terminal() {
        let mut denial = FileDenial {
            tried: Tried::Create,
            path: "/srv/\u{1b}[2Jx".into(),
            program: Some("t\u{1b}ar".to_owned()),
            rule: "no rule allows writing there".to_owned(),
            remedy: Remedy::AllowWrite("/srv".into()),
            times: 3,
        };
        let text = denial.to_string();
        assert_eq!(
            text,
            "t\\u{1b}ar could not create /srv/\\u{1b}[2Jx (3 times): no rule allows writing there"
        );
        (denial.tried, denial.program, denial.times) = (Tried::Read, None, 1);
        assert!(denial.to_string().starts_with("the command could not read /srv"));
    }

    #[test]
    fn what_changes_files_comes_before_what_reads_them() {
        let all = [
            Tried::Write,
            Tried::Create,
            Tried::Move,
            Tried::Remove,
            Tried::Change,
            Tried::Run,
            Tried::Read,
            Tried::LookUp,
        ];
        assert!(all.is_sorted());
        assert!(all.iter().all(|tried| tried.changes() == (*tried < Tried::Run)));
    }
}
