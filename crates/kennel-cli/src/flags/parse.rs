//! From words to an [`Invocation`].

use std::ffi::{OsStr, OsString};
use std::fmt;

use kennel_policy::nearest::nearest;
use kennel_policy::ostext::split_once;
use kennel_policy::printed;
use kennel_policy::settings::ValueError;

use super::table::{COMMANDS, Command, Effect, FLAGS, Flag, Scope};
use super::{Invocation, RunArgs, Shell, Stats};

/// A mistake on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// The command it was made with; empty before there is one.
    command: &'static str,
    message: String,
}

impl UsageError {
    fn new(command: &'static str, message: impl Into<String>) -> Self {
        UsageError { command, message: message.into() }
    }

    pub(super) fn value(command: &'static str, flag: &Flag, error: &ValueError) -> Self {
        UsageError::new(command, format!("--{}: {error}", flag.name))
    }

    /// 125 for `run`, whose other statuses belong to the command it runs; 2 as usual elsewhere.
    pub fn exit_code(&self) -> u8 {
        if self.command == "run" { 125 } else { 2 }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UsageError { command, message } = self;
        let space = if command.is_empty() { "" } else { " " };
        write!(f, "kennel{space}{command}: {message}\nsee `kennel{space}{command} --help`")
    }
}

impl std::error::Error for UsageError {}

/// Finds out what was typed. The words come without the program's own name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Invocation, UsageError> {
    let mut words = words.into_iter();
    let Some(first) = words.next() else { return Ok(Invocation::Help(None)) };
    match first.to_str() {
        Some("--help" | "-h") => return Ok(Invocation::Help(None)),
        Some("--version" | "-V") => return Ok(Invocation::Version),
        _ => {}
    }
    let command = find_command(&first)?;
    let run = RunArgs { of: command.name, ..RunArgs::default() };
    let mut typed = Typed { command, run, json: false, help: false };
    match command.name {
        "srt" => Ok(Invocation::Srt(words.collect())),
        "codex-linux-sandbox" => Ok(Invocation::Codex(words.collect())),
        "run" | "plan" => {
            typed.flags(&mut words)?;
            if typed.help {
                return Ok(Invocation::Help(Some(command)));
            }
            if typed.run.command.is_empty() {
                return Err(
                    typed.error(format!("no command given; write kennel {} -- COMMAND", command.name))
                );
            }
            Ok(if command.name == "run" {
                Invocation::Run(typed.run)
            } else {
                Invocation::Plan { args: typed.run, json: typed.json }
            })
        }
        "help" => {
            let topic = typed.operand(&mut words)?;
            Ok(Invocation::Help(topic.as_deref().map(find_command).transpose()?))
        }
        "completions" => {
            let shell = typed.operand(&mut words)?;
            if typed.help {
                return Ok(Invocation::Help(Some(command)));
            }
            let shell = shell.ok_or_else(|| typed.error("which shell? Write bash, zsh or fish"))?;
            Ok(Invocation::Completions(match shell.to_str() {
                Some("bash") => Shell::Bash,
                Some("zsh") => Shell::Zsh,
                Some("fish") => Shell::Fish,
                _ => {
                    return Err(typed.error(format!(
                        "no completions for `{}`; there are bash, zsh and fish",
                        show(&shell)
                    )));
                }
            }))
        }
        other => {
            if let Some(word) = typed.operand(&mut words)?
                && !typed.help
            {
                return Err(typed.error(format!("`{}` is one word too many", show(&word))));
            }
            Ok(match other {
                _ if typed.help => Invocation::Help(Some(command)),
                "doctor" => Invocation::Doctor { json: typed.json },
                "schema" => Invocation::Schema,
                "man" => Invocation::Man,
                _ => Invocation::Version,
            })
        }
    }
}

fn find_command(word: &OsStr) -> Result<&'static Command, UsageError> {
    if let Some(command) = COMMANDS.iter().find(|command| word == command.name) {
        return Ok(command);
    }
    let shown = show(word);
    if shown.starts_with('-') {
        let name = shown.trim_start_matches('-').split('=').next().unwrap_or_default();
        let hint = match FLAGS.iter().any(|flag| flag.name == name && flag.scope == Scope::Run) {
            true => format!("`{shown}` is a flag of `run`; write kennel run {shown}"),
            false => format!("unknown flag {shown}"),
        };
        return Err(UsageError::new("", hint));
    }
    let hint = match nearest(&shown, COMMANDS.iter().map(|command| command.name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("to run it in a sandbox, write kennel run -- {shown}"),
    };
    Err(UsageError::new("", format!("unknown command `{shown}`; {hint}")))
}

struct Typed {
    command: &'static Command,
    run: RunArgs,
    json: bool,
    help: bool,
}

impl Typed {
    /// Reads flags until the command to run; the rest of the words are its own.
    fn flags(&mut self, words: &mut dyn Iterator<Item = OsString>) -> Result<(), UsageError> {
        while let Some(word) = words.next() {
            match word.as_encoded_bytes() {
                b"--" => {
                    self.run.command.extend(words);
                    return Ok(());
                }
                [b'-', b'-', ..] => self.long(&word, words)?,
                [b'-', _, ..] => self.short(&word, words)?,
                _ => {
                    self.run.command.push(word);
                    self.run.command.extend(words);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads flags and at most one other word.
    fn operand(&mut self, words: &mut dyn Iterator<Item = OsString>) -> Result<Option<OsString>, UsageError> {
        self.flags(words)?;
        let mut rest = std::mem::take(&mut self.run.command).into_iter();
        let operand = rest.next();
        // What follows the word can still be flags: `kennel completions bash --help`.
        self.flags(&mut rest)?;
        match self.run.command.first() {
            Some(extra) => Err(self.error(format!("`{}` is one word too many", show(extra)))),
            None => Ok(operand),
        }
    }

    fn long(&mut self, word: &OsStr, words: &mut dyn Iterator<Item = OsString>) -> Result<(), UsageError> {
        let (dashed, attached) = match split_once(word, b'=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let name = dashed.to_str().and_then(|name| name.strip_prefix("--"));
        let Some(flag) = name.and_then(|name| self.command.flags().find(|flag| flag.name == name)) else {
            return Err(self.unknown(&show(dashed)));
        };
        let value = match (flag.value, attached) {
            (None, None) => OsString::new(),
            (None, Some(value)) if flag.attached.is_some_and(|word| value == word) => value.to_owned(),
            (None, Some(value)) if flag.attached.is_some() => {
                let (name, word) = (flag.name, flag.attached.unwrap_or_default());
                let value = show(value);
                return Err(self.error(format!("--{name}={value}: it is --{name} or --{name}={word}")));
            }
            (None, Some(_)) => return Err(self.error(format!("--{} takes no value", flag.name))),
            (Some(_), Some(value)) => value.to_owned(),
            (Some(placeholder), None) => self.next_value(flag, placeholder, words)?,
        };
        self.apply(flag, value);
        Ok(())
    }

    /// One or more short flags in a word; the value of one may follow in the same word: `-qCdir`.
    fn short(&mut self, word: &OsStr, words: &mut dyn Iterator<Item = OsString>) -> Result<(), UsageError> {
        let mut rest = word;
        // The dash itself, and then each letter: what `split_once` leaves is what follows.
        let mut letter = b'-';
        loop {
            let Some((_, after)) = split_once(rest, letter) else { return Ok(()) };
            rest = after;
            let Some(&next) = rest.as_encoded_bytes().first() else { return Ok(()) };
            letter = next;
            let Some(flag) = self.command.flags().find(|flag| flag.short == Some(char::from(letter))) else {
                let unknown = rest.to_string_lossy().chars().next().unwrap_or_default();
                return Err(self.unknown(&format!("-{unknown}")));
            };
            let Some(placeholder) = flag.value else {
                self.apply(flag, OsString::new());
                continue;
            };
            let value = match split_once(rest, letter) {
                Some((_, value)) if !value.is_empty() => value.to_owned(),
                _ => self.next_value(flag, placeholder, words)?,
            };
            self.apply(flag, value);
            return Ok(());
        }
    }

    /// A flag instead of a value is nearly always a forgotten value, and `--allow-write -- ls` must not make the
    /// separator a path.
    fn next_value(
        &self,
        flag: &Flag,
        placeholder: &str,
        words: &mut dyn Iterator<Item = OsString>,
    ) -> Result<OsString, UsageError> {
        match words.next() {
            Some(value) if !value.as_encoded_bytes().starts_with(b"--") => Ok(value),
            Some(value) => {
                let (name, value) = (flag.name, show(&value));
                let message = format!("--{name} needs a value ({placeholder}), and `{value}` follows");
                Err(self.error(format!("{message}; write --{name}={value} to mean that")))
            }
            None => Err(self.error(format!("--{} needs a value ({placeholder})", flag.name))),
        }
    }

    fn apply(&mut self, flag: &'static Flag, value: OsString) {
        match flag.effect {
            Effect::Says(_) | Effect::SaysWord(..) | Effect::KeepFd => self.run.typed.push((flag, value)),
            Effect::SettingsFile => self.run.settings_files.push(value.into()),
            Effect::NoSettings => self.run.no_settings = true,
            Effect::Report => self.run.report = Some(value.into()),
            Effect::ControlFd => self.run.control_fd = Some(value),
            Effect::Stats => {
                let live = self.run.stats == Some(Stats::Live) || !value.is_empty();
                self.run.stats = Some(if live { Stats::Live } else { Stats::AtExit });
            }
            Effect::Quiet => self.run.quiet = true,
            Effect::Verbose => self.run.verbose = true,
            Effect::Json => self.json = true,
            Effect::Help => self.help = true,
            // Not a flag of any command.
            Effect::Version => {}
        }
    }

    fn unknown(&self, flag: &str) -> UsageError {
        let names: Vec<String> = self.command.flags().map(|flag| format!("--{}", flag.name)).collect();
        let hint = nearest(flag, names.iter().map(String::as_str));
        let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        self.error(format!("unknown flag {flag}{hint}"))
    }

    fn error(&self, message: impl Into<String>) -> UsageError {
        UsageError::new(self.command.name, message)
    }
}

/// A word for a message: on one line, whatever it holds.
fn show(word: &OsStr) -> String {
    printed::show(word.as_encoded_bytes())
}
