//! From words to an [`Invocation`].

use std::ffi::{OsStr, OsString};
use std::fmt;

use kennel_policy::nearest::nearest;
use kennel_policy::ostext::split_once;
use kennel_policy::printed;
use kennel_policy::settings::ValueError;
use lexopt::{Arg, Parser};

use super::table::{COMMANDS, Command, Effect, FLAGS, Flag, Scope};
use super::{Invocation, RunArgs, Shell, Stats, Trust};

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

    /// 125 for `run` and `why`, whose other statuses belong to the command they run; 2 as usual elsewhere.
    pub fn exit_code(&self) -> u8 {
        if matches!(self.command, "run" | "why") { 125 } else { 2 }
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
    let mut typed = Typed {
        command,
        run,
        json: false,
        table: false,
        all: false,
        yes: false,
        trust: Trust::default(),
        help: false,
        help_all: false,
    };
    if let "srt" | "codex-linux-sandbox" = command.name {
        return Ok(Invocation::FrontEnd { name: command.name, words: words.collect() });
    }
    if let "bypass" | "shim" = command.name {
        return program(command, words);
    }
    let mut words = lexer(words);
    match command.name {
        "run" | "why" | "plan" => {
            typed.flags(&mut words)?;
            if typed.help_all {
                return Ok(Invocation::HelpAll(command));
            }
            if typed.help {
                return Ok(Invocation::Help(Some(command)));
            }
            if typed.run.command.is_empty() {
                return Err(
                    typed.error(format!("no command given; write kennel {} -- COMMAND", command.name))
                );
            }
            typed.run.explain |= command.name == "why";
            Ok(if command.name == "plan" {
                Invocation::Plan { args: typed.run, json: typed.json }
            } else {
                Invocation::Run(typed.run)
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
            let shell = shell.ok_or_else(|| typed.error("no shell given; write bash, zsh or fish"))?;
            Ok(Invocation::Completions(match shell.to_str() {
                Some("bash") => Shell::Bash,
                Some("zsh") => Shell::Zsh,
                Some("fish") => Shell::Fish,
                _ => {
                    return Err(typed.error(format!(
                        "no completions for `{}`; supported shells are bash, zsh and fish",
                        show(&shell)
                    )));
                }
            }))
        }
        "caches" => {
            let mut operands = typed.operands(&mut words, 2)?.into_iter();
            if typed.help {
                return Ok(Invocation::Help(Some(command)));
            }
            let (clear, project) = (operands.next(), operands.next());
            let printed = usize::from(typed.json) + usize::from(typed.table);
            match clear {
                None if typed.all => {
                    Err(typed.error("--all goes with clear; write kennel caches clear --all"))
                }
                None if printed > 1 => Err(typed.error("--table prints TOML; leave out --json")),
                None if typed.table => Ok(Invocation::CacheTable),
                None => Ok(Invocation::Caches { json: typed.json }),
                Some(word) if word != "clear" => Err(typed
                    .error(format!("unexpected argument `{}`; write clear to remove layers", show(&word)))),
                Some(_) if printed > 0 => {
                    Err(typed.error("clear prints nothing; leave out --json and --table"))
                }
                Some(_) if typed.all && project.is_some() => {
                    Err(typed.error("--all means every project; leave out PROJECT"))
                }
                Some(_) => Ok(Invocation::ClearCaches { project, all: typed.all }),
            }
        }
        "answers" => {
            let mut operands = typed.operands(&mut words, usize::MAX)?.into_iter();
            let remove = operands.next();
            let hosts: Vec<_> = operands.collect();
            Ok(match remove {
                _ if typed.help => Invocation::Help(Some(command)),
                None if typed.all => {
                    return Err(typed.error("--all goes with remove; write kennel answers remove --all"));
                }
                None => Invocation::Answers { json: typed.json },
                Some(word) if word != "remove" => {
                    let message =
                        format!("unexpected argument `{}`; write remove to remove answers", show(&word));
                    return Err(typed.error(message));
                }
                Some(_) if typed.json => return Err(typed.error("remove prints no JSON; leave out --json")),
                Some(_) if typed.all != hosts.is_empty() => {
                    return Err(typed.error("write which answers to remove: HOST, HOST:PORT or --all"));
                }
                Some(_) => Invocation::RemoveAnswers { hosts, all: typed.all },
            })
        }
        "enable" | "disable" => {
            let names = typed.operands(&mut words, usize::MAX)?;
            let names = names.iter().map(|name| show(name)).collect();
            Ok(match command.name {
                _ if typed.help => Invocation::Help(Some(command)),
                "enable" => Invocation::Enable { names, yes: typed.yes },
                _ => Invocation::Disable { names },
            })
        }
        "trust" => {
            let path = typed.operand(&mut words)?.map(Into::into);
            Ok(match typed.trust {
                _ if typed.help => Invocation::Help(Some(command)),
                Trust::List if path.is_some() => return Err(typed.error("--list takes no path")),
                Trust::Ask if typed.yes => Invocation::Trust { what: Trust::Give, path },
                what => Invocation::Trust { what, path },
            })
        }
        "profiles" => {
            let name = typed.operand(&mut words)?;
            if typed.help {
                return Ok(Invocation::Help(Some(command)));
            }
            if typed.json && name.is_some() {
                return Err(typed.error("--json lists the profiles; without it, NAME prints one"));
            }
            Ok(Invocation::Profiles { name: name.as_deref().map(show), json: typed.json })
        }
        other => {
            if let Some(word) = typed.operand(&mut words)?
                && !typed.help
            {
                return Err(typed.error(format!("unexpected argument `{}`", show(&word))));
            }
            Ok(match other {
                _ if typed.help => Invocation::Help(Some(command)),
                "doctor" => Invocation::Doctor { json: typed.json },
                "registries" => Invocation::Registries { json: typed.json },
                "secrets" => Invocation::Secrets { json: typed.json },
                "schema" => Invocation::Schema,
                "man" => Invocation::Man,
                _ => Invocation::Version,
            })
        }
    }
}

/// A program's name and its arguments: what follows the name is not kennel's.
fn program(
    command: &'static Command,
    mut words: impl Iterator<Item = OsString>,
) -> Result<Invocation, UsageError> {
    let name = words.next().ok_or_else(|| UsageError::new(command.name, "no program given"))?;
    let shown = show(&name);
    match shown.as_str() {
        "--help" | "-h" => return Ok(Invocation::Help(Some(command))),
        _ if shown.starts_with('-') => {
            return Err(UsageError::new(command.name, format!("unknown flag {shown}")));
        }
        _ if name.is_empty() || shown.contains('/') => {
            return Err(UsageError::new(command.name, format!("`{shown}` is not the name of a program")));
        }
        _ => {}
    }
    let words = words.collect();
    Ok(if command.name == "bypass" {
        Invocation::Bypass { name, words }
    } else {
        Invocation::Shim { name, words }
    })
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

/// Splits words into flags and values. `-C=x` means the value `=x`, as with most programs.
fn lexer(words: impl Iterator<Item = OsString>) -> Parser {
    let mut parser = Parser::from_args(words);
    parser.set_short_equals(false);
    parser
}

struct Typed {
    command: &'static Command,
    run: RunArgs,
    json: bool,
    table: bool,
    all: bool,
    yes: bool,
    trust: Trust,
    help: bool,
    help_all: bool,
}

impl Typed {
    /// Reads flags until the command to run; the rest of the words are its own.
    fn flags(&mut self, words: &mut Parser) -> Result<(), UsageError> {
        loop {
            let odd = words.try_raw_args().and_then(|rest| no_text(rest.peek()?));
            let argument = words.next().map_err(|error| self.error(error.to_string()))?;
            let (flag, is_long) = match argument {
                None => return Ok(()),
                Some(Arg::Long(name)) => {
                    let flag = self.command.flags().find(|flag| flag.name == name);
                    let shown = || odd.unwrap_or_else(|| format!("--{name}"));
                    (flag.ok_or_else(|| self.unknown(&shown()))?, true)
                }
                Some(Arg::Short(letter)) => {
                    let flag = self.command.flags().find(|flag| flag.short == Some(letter));
                    (flag.ok_or_else(|| self.unknown(&format!("-{letter}")))?, false)
                }
                Some(Arg::Value(word)) => {
                    self.run.command.push(word);
                    // All of them: a value is no flag with something attached.
                    self.run.command.extend(words.raw_args().into_iter().flatten());
                    return Ok(());
                }
            };
            // Behind a short flag that takes no value come others: `-qv`.
            let attached = (is_long || flag.value.is_some()).then(|| words.optional_value()).flatten();
            let value = self.value(flag, attached, words)?;
            self.apply(flag, value);
        }
    }

    /// Reads flags and at most one other word.
    fn operand(&mut self, words: &mut Parser) -> Result<Option<OsString>, UsageError> {
        Ok(self.operands(words, 1)?.pop())
    }

    /// Reads flags and at most so many other words. What follows a word can still be flags: `kennel completions bash --help`.
    fn operands(&mut self, words: &mut Parser, most: usize) -> Result<Vec<OsString>, UsageError> {
        let mut found = Vec::new();
        self.flags(words)?;
        loop {
            let mut rest = std::mem::take(&mut self.run.command).into_iter();
            match rest.next() {
                None => return Ok(found),
                Some(extra) if found.len() == most => {
                    return Err(self.error(format!("unexpected argument `{}`", show(&extra))));
                }
                Some(word) => found.push(word),
            }
            self.flags(&mut lexer(rest))?;
        }
    }

    /// The value of a flag: attached to it, or the next word.
    fn value(
        &self,
        flag: &Flag,
        attached: Option<OsString>,
        words: &mut Parser,
    ) -> Result<OsString, UsageError> {
        let name = flag.name;
        match (flag.value, attached) {
            (None, None) => Ok(OsString::new()),
            (None, Some(value)) => match flag.attached {
                Some(word) if value == word => Ok(value),
                Some(word) => {
                    let value = show(&value);
                    Err(self.error(format!("--{name}={value}: write --{name} or --{name}={word}")))
                }
                None => Err(self.error(format!("--{name} takes no value"))),
            },
            (Some(_), Some(value)) => Ok(value),
            // A flag instead of a value is nearly always a forgotten value, and `--allow-write -- ls` must not make
            // the separator a path.
            (Some(placeholder), None) => match words.value() {
                Ok(value) if !value.as_encoded_bytes().starts_with(b"--") => Ok(value),
                Ok(value) => {
                    let value = show(&value);
                    let message = format!("--{name} needs a value ({placeholder}), and `{value}` follows");
                    Err(self.error(format!("{message}; write --{name}={value} if that is the value")))
                }
                Err(_) => Err(self.error(format!("--{name} needs a value ({placeholder})"))),
            },
        }
    }

    fn apply(&mut self, flag: &'static Flag, value: OsString) {
        match flag.effect {
            Effect::Says(_) | Effect::SaysWord(..) | Effect::SaysPart(..) | Effect::KeepFd => {
                self.run.typed.push((flag, value));
            }
            Effect::SettingsFile => self.run.settings_files.push(value.into()),
            Effect::NoSettings => self.run.no_settings = true,
            Effect::Report => self.run.report = Some(value.into()),
            Effect::ControlFd => self.run.control_fd = Some(value),
            Effect::Stats => {
                let live = self.run.stats == Some(Stats::Live) || !value.is_empty();
                self.run.stats = Some(if live { Stats::Live } else { Stats::AtExit });
            }
            Effect::Explain => self.run.explain = true,
            Effect::Quiet => self.run.quiet = true,
            Effect::Verbose => self.run.verbose = true,
            Effect::Json => self.json = true,
            Effect::Table => self.table = true,
            Effect::All => self.all = true,
            Effect::Steps => self.run.steps = true,
            Effect::Yes => self.yes = true,
            Effect::Trusted(what) => self.trust = what,
            Effect::Help => self.help = true,
            Effect::HelpAll => self.help_all = true,
            // Not a flag of any command.
            Effect::Version => {}
        }
    }

    fn unknown(&self, flag: &str) -> UsageError {
        let flag = &show(flag.as_ref());
        let names: Vec<String> = self.command.flags().map(|flag| format!("--{}", flag.name)).collect();
        let hint = nearest(flag, names.iter().map(String::as_str));
        let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        self.error(format!("unknown flag {flag}{hint}"))
    }

    fn error(&self, message: impl Into<String>) -> UsageError {
        UsageError::new(self.command.name, message)
    }
}

/// The name of a flag that is no text, for a message: the lexer would show another.
fn no_text(word: &OsStr) -> Option<String> {
    let name = split_once(word, b'=').map_or(word, |(name, _)| name);
    name.to_str().is_none().then(|| show(name))
}

/// A word for a message: on one line, whatever it holds.
fn show(word: &OsStr) -> String {
    printed::show(word.as_encoded_bytes())
}
