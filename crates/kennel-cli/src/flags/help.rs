//! `--help`, in at most a hundred columns.

use std::fmt::Write;

use super::table::{COMMANDS, Command, Effect, FLAGS, Flag, SECTIONS, Scope};

const WIDTH: usize = 100;
/// Where the explanations start.
const COLUMN: usize = 30;

/// The help of one command, or of kennel as a whole.
pub fn render(topic: Option<&Command>) -> String {
    match topic {
        Some(command) => of_command(command),
        None => overview(),
    }
}

fn overview() -> String {
    let mut text = String::from(
        "kennel runs a command so that it can do only what you allow.\n\n\
         Usage: kennel COMMAND [FLAGS]\n\nCommands:\n",
    );
    for command in COMMANDS {
        entry(&mut text, &format!("  {}", command.name), command.help);
    }
    text.push_str("\nFlags:\n");
    for flag in FLAGS.iter().filter(|flag| matches!(flag.scope, Scope::Help | Scope::Top)) {
        entry(&mut text, &left(flag), flag.help);
    }
    text.push_str(
        "\nExamples:\n  \
           kennel run -- ls                                  read anything, write nothing, no network\n  \
           kennel run --profile agent -- my-agent            write only here, close the home\n  \
           kennel run --profile claude -- claude             Claude Code, with its state and its hosts\n  \
           kennel run --allow-domain example.com -- curl …   reach one host\n  \
           kennel plan --profile judge -- ./a.out            show what would be done\n\n\
         kennel help COMMAND shows a command's flags; kennel man prints the manual.\n",
    );
    text
}

/// The help of one command with every flag that it takes.
pub fn all(command: &Command) -> String {
    let mut text = start(command);
    for section in SECTIONS {
        let mut flags = command.flags().filter(|flag| flag.section == section).peekable();
        if flags.peek().is_some() {
            let _ = writeln!(text, "\n{section}:");
        }
        for flag in flags {
            entry(&mut text, &left(flag), flag.help);
        }
    }
    text
}

/// The same with the flags that most people need, where there are many.
fn of_command(command: &Command) -> String {
    if !command.flags().any(|flag| flag.common) {
        return all(command);
    }
    let mut text = start(command);
    text.push_str("\nCommon flags:\n");
    let common = |flag: &&Flag| {
        flag.common || matches!(flag.effect, Effect::Help | Effect::HelpAll | Effect::Json | Effect::Steps)
    };
    for flag in SECTIONS
        .iter()
        .flat_map(|section| command.flags().filter(|flag| flag.section == *section))
        .filter(common)
    {
        entry(&mut text, &left(flag), flag.help);
    }
    let _ =
        writeln!(text, "\n`kennel {} --help-all` shows all {} flags.", command.name, command.flags().count());
    text
}

fn start(command: &Command) -> String {
    let mut text = format!("{}\n\nUsage: {}\n\n", command.help, usage(command));
    for line in wrap(command.doc, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text
}

pub(super) fn usage(command: &Command) -> String {
    format!("kennel {} {}", command.name, command.usage).trim_end().to_owned()
}

fn left(flag: &Flag) -> String {
    let short = flag.short.map_or("    ".to_owned(), |short| format!("-{short}, "));
    let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
    let attached = flag.attached.map(|word| format!("[={word}]")).unwrap_or_default();
    format!("  {short}--{}{value}{attached}", flag.name)
}

fn entry(text: &mut String, left: &str, help: &str) {
    let mut lines = wrap(help, WIDTH - COLUMN).into_iter();
    let width = left.chars().count();
    if width + 2 > COLUMN {
        let _ = writeln!(text, "{left}");
    } else {
        let _ = writeln!(text, "{left:COLUMN$}{}", lines.next().unwrap_or_default());
    }
    for line in lines {
        let _ = writeln!(text, "{:COLUMN$}{line}", "");
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
        }
    }
    lines
}
