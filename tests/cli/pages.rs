//! What kennel prints about itself: help, manual, completions, schema, version, doctor.

use std::process::Command;

use kennel_tests::{Scratch, kennel, program, ran, skipped};
use serde_json::Value;

const COMMANDS: [&str; 11] = [
    "run",
    "plan",
    "enable",
    "disable",
    "trust",
    "doctor",
    "schema",
    "completions",
    "man",
    "help",
    "version",
];

fn page(words: &[&str]) -> String {
    let ran = ran(&mut kennel(words)).ok();
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.ends_with('\n'), "{words:?}");
    ran.stdout
}

/// The long flags that `kennel run --help-all` shows.
fn flags() -> Vec<String> {
    let help = page(&["run", "--help-all"]);
    let words = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line =
            line.strip_prefix('-').filter(|_| !line.starts_with("--")).map_or(line, |short| &short[3..]);
        Some(line.trim().strip_prefix("--")?.split([' ', '[', '=']).next()?.to_owned())
    });
    let flags: Vec<String> = words.collect();
    assert!(flags.len() > 30, "{flags:?}");
    flags
}

#[test]
fn help_names_every_command_and_every_command_has_help() {
    let help = page(&["help"]);
    assert_eq!(help, page(&["--help"]));
    assert_eq!(help, page(&["-h"]));
    assert_eq!(help, page(&[]));
    for command in COMMANDS {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))),
            "{command}:\n{help}"
        );
        let own = page(&["help", command]);
        assert!(own.contains(&format!("Usage: kennel {command}")), "{own}");
        if command != "help" && command != "version" {
            assert_eq!(own, page(&[command, "--help"]));
        }
    }
    assert!(help.lines().chain(page(&["run", "-h"]).lines()).all(|line| line.chars().count() <= 100));
}

#[test]
fn the_help_of_a_run_is_a_screen_and_all_of_it_is_one_word_away() {
    let help = page(&["run", "--help"]);
    assert!(help.lines().count() < 45, "{help}");
    assert!(help.contains("--profile") && !help.contains("--seccomp"), "{help}");
    let all = flags();
    assert!(help.ends_with(&format!("\n`kennel run --help-all` shows all {} flags.\n", all.len())), "{help}");
    assert!(all.iter().any(|flag| flag == "seccomp"));
}

#[test]
fn a_word_that_is_no_command_is_answered_with_the_nearest_or_with_how_to_run_it() {
    for (words, message) in [
        (&["ran"][..], "unknown command `ran`; did you mean `run`?"),
        (&["gcc"], "unknown command `gcc`; to run it in a sandbox, write kennel run -- gcc"),
        (&["--allow-write", "x"], "`--allow-write` is a flag of `run`; write kennel run --allow-write"),
        (&["--nonsense"], "unknown flag --nonsense"),
        (&["help", "gcc"], "unknown command `gcc`; to run it in a sandbox, write kennel run -- gcc"),
    ] {
        let ran = ran(&mut kennel(words)).expect_code(2);
        assert_eq!(ran.stderr, format!("kennel: {message}\nsee `kennel --help`\n"));
    }
    let extra = ran(&mut kennel(["doctor", "extra"])).expect_code(2);
    assert_eq!(extra.stderr, "kennel doctor: unexpected argument `extra`\nsee `kennel doctor --help`\n");
}

#[test]
fn the_version_is_one_line() {
    let expected = concat!("kennel ", env!("CARGO_PKG_VERSION"), "\n");
    for words in [["version"], ["--version"], ["-V"]] {
        assert_eq!(page(&words), expected);
    }
}

#[test]
fn the_schema_is_json_and_knows_every_section() {
    let schema: Value = serde_json::from_str(&page(&["schema"])).unwrap();
    for section in ["files", "network", "limits", "environment", "process", "profile", "best_effort"] {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
    // An editor flags what kennel would refuse.
    assert_eq!(schema["additionalProperties"], Value::Bool(false));
}

#[test]
fn completions_are_valid_to_their_shells_and_know_every_flag() {
    let scratch = Scratch::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = page(&["completions", shell]);
        for flag in flags() {
            assert!(script.contains(&flag), "{shell} does not know --{flag}");
        }
        let file = scratch.write(&format!("kennel.{shell}"), &script);
        match program(shell) {
            None => skipped(&format!("{shell} is not installed, so its completions are not checked")),
            Some(shell) => {
                let ran = ran(Command::new(shell).arg(check).arg(file).env("HOME", scratch.path())).ok();
                assert_eq!(ran.stderr, "");
            }
        }
    }
    let none = ran(&mut kennel(["completions"])).expect_code(2);
    assert_eq!(
        none.stderr,
        "kennel completions: no shell given; write bash, zsh or fish\nsee `kennel completions --help`\n"
    );
    let other = ran(&mut kennel(["completions", "tcsh"])).expect_code(2);
    assert_eq!(
        other.stderr,
        "kennel completions: no completions for `tcsh`; supported shells are bash, zsh and fish\nsee `kennel completions --help`\n"
    );
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let Some(bash) = program("bash") else { return skipped("bash is not installed") };
    let scratch = Scratch::new();
    let file = scratch.write("kennel.bash", &page(&["completions", "bash"]));
    let complete = |words: &[&str]| {
        let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"; COMP_POINT=${#COMP_LINE}
                      spec=$(complete -p kennel); f=${spec##*-F }; f=${f%% *}; $f kennel \"${!#}\" \"${@:$#-1:1}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        ran(Command::new(&bash).args(["-c", script, "bash"]).arg(&file).args(words)).ok().stdout
    };
    assert!(complete(&["kennel", "do"]).contains("doctor"));
    assert!(complete(&["kennel", "run", "--allow-w"]).contains("--allow-write"));
    assert!(complete(&["kennel", "run", "--net", ""]).contains("allow-list"));
}

#[test]
fn the_manual_renders_without_a_warning_and_knows_every_flag() {
    let scratch = Scratch::new();
    let file = scratch.write("kennel.1", &page(&["man"]));
    let Some(groff) = program("groff") else { return skipped("groff is not installed") };
    let ran = ran(Command::new(groff)
        .args(["-man", "-Tutf8", "-ww", "-P-cbou"])
        .arg(&file)
        .env("LC_ALL", "C.UTF-8"))
    .ok();
    assert_eq!(ran.stderr, "", "groff warns");
    assert!(ran.stdout.contains("NAME") && ran.stdout.contains("kennel"), "{}", ran.stdout);
    // Lines are broken at hyphens; flags are looked for without them.
    let flat: String = ran.stdout.replace('\u{2010}', "-").chars().filter(|c| !c.is_whitespace()).collect();
    for flag in flags() {
        assert!(flat.contains(&format!("--{flag}")), "--{flag}");
    }
    for code in ["124", "125", "126", "127"] {
        assert!(flat.contains(code), "the manual does not say what {code} means");
    }
}

#[test]
fn man_shows_it() {
    let Some(man) = program("man") else { return skipped("man is not installed") };
    let scratch = Scratch::new();
    let file = scratch.write("kennel.1", &page(&["man"]));
    let ran = ran(Command::new(man).arg("-l").arg(&file).env("MANPAGER", "cat").env("MANWIDTH", "80")).ok();
    assert!(ran.stdout.contains("kennel"), "{}", ran.stdout);
}

#[test]
fn doctor_says_what_this_host_offers_in_words_and_in_json() {
    let words = ran(&mut kennel(["doctor"]));
    let json = ran(&mut kennel(["doctor", "--json"]));
    assert_eq!(words.code, json.code);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["works"], Value::Bool(json.code == 0));
    let findings = report["findings"].as_array().unwrap();
    for subject in ["kernel", "namespaces", "landlock", "seccomp", "sandbox"] {
        let finding = findings
            .iter()
            .find(|finding| finding["subject"] == subject)
            .unwrap_or_else(|| panic!("no {subject}"));
        let state = finding["state"].as_str().unwrap();
        assert!(["ok", "weaker", "missing"].contains(&state), "{finding}");
        assert!(state == "ok" || finding["remedy"].is_string(), "no remedy: {finding}");
        assert!(
            words.stdout.lines().any(|line| line.starts_with(state) && line.contains(subject)),
            "{}",
            words.stdout
        );
    }
    // What it says of this host is what a run shows.
    assert_eq!(json.code == 0, ran(&mut kennel(["run", "--", "true"])).code == 0);
}

#[test]
fn printing_to_a_full_device_fails() {
    use std::process::Stdio;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = kennel(["help"]).stdout(Stdio::from(full)).status().unwrap();
    assert_ne!(status.code(), Some(0));
}
