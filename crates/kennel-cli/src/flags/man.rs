//! The manual page, as roff.

use std::fmt::Write;

use super::help::usage;
use super::table::{COMMANDS, FLAGS, Flag, SECTIONS, Scope};

/// The whole page.
pub fn page() -> String {
    let mut page = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(page, ".TH KENNEL 1 \"\" \"kennel {version}\" \"User Commands\"");
    page.push_str(".SH NAME\nkennel \\- run a command so that it can do only what you allow\n");
    page.push_str(".SH SYNOPSIS\n");
    for (place, command) in COMMANDS.iter().enumerate() {
        let line_break = if place == 0 { "" } else { ".br\n" };
        let _ = writeln!(page, "{line_break}{}", roff(&usage(command)));
    }
    page.push_str(".SH DESCRIPTION\n");
    paragraph(
        &mut page,
        "kennel runs a command in a sandbox built from kernel features: namespaces, read-only mounts, Landlock, \
         seccomp and control groups. A policy says which files it may read and write, which hosts it may reach, how \
         many resources it may use and which variables it sees. If this host cannot enforce a rule, kennel reports \
         an error; it never ignores the rule silently.",
    );

    page.push_str(".SH COMMANDS\n");
    for command in COMMANDS {
        let _ = writeln!(page, ".TP\n.B {}", roff(&usage(command)));
        paragraph(&mut page, command.doc);
    }
    page.push_str(".SH FLAGS OF RUN AND PLAN\n");
    for section in SECTIONS {
        let _ = writeln!(page, ".SS {section}");
        for flag in FLAGS.iter().filter(|flag| flag.section == section && flag.scope != Scope::Top) {
            describe(&mut page, flag);
        }
    }

    page.push_str(".SH EXIT STATUS\n");
    for (status, meaning) in [
        ("N", "The command exited with status N."),
        (
            "123",
            "A denied path was created despite the guard, or was replaced with --on-replace end; the sandbox was \
             killed.",
        ),
        ("124", "The command ran longer than --timeout allows and was killed."),
        (
            "125",
            "kennel itself failed: a mistake on the command line or in settings, or something that this host \
                 cannot enforce.",
        ),
        ("126", "The command was found but could not be started."),
        ("127", "The command was not found."),
        ("128 + N", "The command was killed by signal N."),
    ] {
        let _ = writeln!(page, ".TP\n.B {status}");
        paragraph(&mut page, meaning);
    }

    page.push_str(".SH FILES\n");
    for (file, meaning) in [
        (
            "$XDG_CONFIG_HOME/kennel/settings.toml",
            "Your own settings, or settings.json; under ~/.config if XDG_CONFIG_HOME is not set.",
        ),
        (
            "kennel.toml",
            "Settings of the directory the command starts in and of those above it up to the repository's root, or kennel.json. \
             They can only tighten: the author of that directory may be the one you want to confine. kennel trust accepts them.",
        ),
    ] {
        let _ = writeln!(page, ".TP\n.I {}", roff(file));
        paragraph(&mut page, meaning);
    }

    page.push_str(".SH EXAMPLES\n");
    for (command, meaning) in [
        ("kennel run -- ls", "Read anything, write nothing, reach no network."),
        (
            "kennel run --profile agent --allow-domain api.example.com -- my-agent",
            "Write only here, reach one host.",
        ),
        (
            "kennel run --memory 512M --timeout 30s --pids 64 -- ./untrusted",
            "Limit the resources a program can use.",
        ),
    ] {
        let _ = writeln!(page, ".TP\n.B {}", roff(command));
        paragraph(&mut page, meaning);
    }
    page
}

fn describe(page: &mut String, flag: &Flag) {
    let short = flag.short.map(|short| format!("\\-{short}, ")).unwrap_or_default();
    let value = flag.value.map(|value| format!(" \\fI{}\\fR", roff(value))).unwrap_or_default();
    let attached = flag.attached.map(|word| format!("[={}]", roff(word))).unwrap_or_default();
    let _ = writeln!(page, ".TP\n\\fB{short}\\-\\-{}\\fR{value}{attached}", roff(flag.name));
    let repeat = if flag.repeatable { " Can be given more than once." } else { "" };
    let doc = if flag.doc.is_empty() { String::new() } else { format!(" {}", flag.doc) };
    paragraph(page, &format!("{}.{doc}{repeat}", flag.help));
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "{}", roff(text));
}

/// The text as roff takes it literally: a dash stays a dash that can be copied, and no line is taken for a request.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('…', "...");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}
