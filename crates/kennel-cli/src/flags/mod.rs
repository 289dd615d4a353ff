//! The command line: what can be typed, and what was.
//!
//! [`table`] is the one home of every flag. The parser, `--help`, the man page and the completions of three shells
//! are all made from it. There are two stages: [`parse`](parse()) finds out what was typed, without knowing where it runs;
//! [`RunArgs::settings`] finds out what that means there. `lexopt` splits the words; what they mean is looked up in the
//! table, because start-up time is part of what kennel promises, and a few dozen flags in a static table take microseconds.

use std::ffi::OsString;
use std::path::PathBuf;

use kennel_policy::policy::Origin;
use kennel_policy::settings::{Base, Settings};

pub mod advice;
pub mod completions;
pub mod help;
pub mod man;
mod parse;
mod table;
#[cfg(test)]
mod tests;

pub use parse::{UsageError, parse};
use table::Effect;
pub use table::{Command, Flag};

/// What `kennel trust` is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Trust files, after a question.
    #[default]
    Ask,
    /// Trust files without one.
    Give,
    /// Trust them no longer.
    Remove,
    /// List what is trusted.
    List,
}

/// What was asked for.
#[derive(Debug)]
pub enum Invocation {
    /// `kennel run`
    Run(RunArgs),
    /// `kennel plan`
    Plan {
        /// What would be run.
        args: RunArgs,
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel srt` or `kennel codex-linux-sandbox`: a front end that reads the rest itself.
    FrontEnd {
        /// Its name.
        name: &'static str,
        /// What follows.
        words: Vec<OsString>,
    },
    /// `kennel doctor`
    Doctor {
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel profiles`
    Profiles {
        /// The one to print; all are listed without.
        name: Option<String>,
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel registries`
    Registries {
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel caches`
    Caches {
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel caches --table`
    CacheTable,
    /// `kennel caches clear`
    ClearCaches {
        /// A path in the project; without one, that of the working directory.
        project: Option<OsString>,
        /// Whether to clear those of all projects.
        all: bool,
    },
    /// `kennel answers`
    Answers {
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel answers remove`
    RemoveAnswers {
        /// Hosts, with or without a port.
        hosts: Vec<OsString>,
        /// Whether to remove all.
        all: bool,
    },
    /// `kennel secrets`
    Secrets {
        /// Whether to print JSON.
        json: bool,
    },
    /// `kennel enable`
    Enable {
        /// What to enable; what is enabled is listed without.
        names: Vec<String>,
        /// Whether to write without a question.
        yes: bool,
    },
    /// `kennel disable`
    Disable {
        /// What to disable; all without.
        names: Vec<String>,
    },
    /// `kennel bypass`
    Bypass {
        /// The program's name.
        name: OsString,
        /// Its arguments.
        words: Vec<OsString>,
    },
    /// `kennel shim`
    Shim {
        /// The program's name.
        name: OsString,
        /// Its arguments.
        words: Vec<OsString>,
    },
    /// `kennel trust`
    Trust {
        /// What to do.
        what: Trust,
        /// A file or a folder; the working directory without.
        path: Option<PathBuf>,
    },
    /// `kennel schema`
    Schema,
    /// `kennel completions SHELL`
    Completions(Shell),
    /// `kennel man`
    Man,
    /// `kennel help`, or `--help` anywhere; of one command, or of all.
    Help(Option<&'static Command>),
    /// `--help-all`
    HelpAll(&'static Command),
    /// `kennel version`, or `--version`
    Version,
}

/// A shell that completions are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// When to tell what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// At the end.
    AtExit,
    /// Meanwhile too.
    Live,
}

/// What was typed after `kennel run` or `kennel plan`.
#[derive(Debug, Default)]
pub struct RunArgs {
    /// The command they were typed after, for messages.
    of: &'static str,
    /// The flags that say a setting, with their values, in order.
    typed: Vec<(&'static Flag, OsString)>,
    /// The files of `--settings`, in order, as they were typed.
    pub settings_files: Vec<PathBuf>,
    /// Leave the user's settings file and the one in the working directory alone.
    pub no_settings: bool,
    /// Where to write the outcome.
    pub report: Option<PathBuf>,
    /// The descriptor that new rules come by, as it was typed.
    pub control_fd: Option<OsString>,
    /// When to tell what was used.
    pub stats: Option<Stats>,
    /// Explain every file that the command cannot use.
    pub explain: bool,
    /// Say nothing but errors.
    pub quiet: bool,
    /// Say what is done.
    pub verbose: bool,
    /// Show a plan's steps.
    pub steps: bool,
    /// The command and its arguments; at least one word.
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Whether they were typed after `kennel why`.
    #[must_use]
    pub fn why(&self) -> bool {
        self.of == "why"
    }

    /// Whether a value of a flag may start with the home.
    #[must_use]
    pub fn may_speak_of_home(&self) -> bool {
        let of_home = |value: &OsString| matches!(value.as_encoded_bytes().first(), Some(b'~' | b'$'));
        // A mount has two paths.
        let second =
            |value: &OsString| value.as_encoded_bytes().windows(2).any(|two| matches!(two, b":~" | b":$"));
        self.typed.iter().any(|(_, value)| of_home(value) || second(value))
    }

    /// What the flags say. Relative paths are relative to the base's folder, which is the caller's working directory.
    pub fn settings(&self, base: &Base) -> Result<Settings, UsageError> {
        let mut settings = Settings::default();
        for (flag, value) in &self.typed {
            let origin = || Origin(format!("--{}", flag.name));
            let stated = match flag.effect {
                Effect::Says(setting) => setting.key.kind.state(&mut settings, value, base, origin()),
                Effect::SaysWord(setting, word) => {
                    setting.key.kind.state(&mut settings, word.as_ref(), base, origin())
                }
                Effect::SaysPart(setting, part) => {
                    let mut text = OsString::from(format!("{part}="));
                    text.push(value);
                    setting.key.kind.state(&mut settings, &text, base, origin())
                }
                Effect::KeepFd => settings.keep_fd(value),
                _ => Ok(()),
            };
            stated.map_err(|error| UsageError::value(self.of, flag, &error))?;
        }
        Ok(settings)
    }
}
