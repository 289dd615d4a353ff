//! `kennel plan`: the steps in order, with the rule behind each, and nothing done.

use std::path::Path;

use kennel_tests::{Ran, Scratch, kennel, program, ran, skipped};
use serde_json::Value;

fn plan_in(folder: &Path, words: &[&str]) -> Ran {
    ran(kennel(["plan", "--steps"]).args(words).current_dir(folder))
}

#[test]
fn every_step_has_its_number_and_its_reason() {
    let scratch = Scratch::new();
    scratch.write("secret", "x");
    scratch.dir("out");
    let ran = plan_in(scratch.path(), &["--deny-read", "secret", "--allow-write", "out", "--", "true"]).ok();
    let here = scratch.path().display();
    for (number, line) in ran.stdout.lines().enumerate() {
        let (step, reason) = line.split_once("  # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(step.trim_start().starts_with(&format!("{} ", number + 1)) && !reason.is_empty(), "{line}");
    }
    let has = |step: &str, reason: &str| {
        let found =
            ran.stdout.lines().any(|line| line.contains(step) && line.ends_with(&format!("# {reason}")));
        assert!(found, "{step} # {reason}:\n{}", ran.stdout);
    };
    has(&format!("hide the file {here}/secret"), &format!("deny_read {here}/secret (--deny-read)"));
    has(&format!("show {here}/out writable"), &format!("allow_write {here}/out (--allow-write)"));
    has("mount proc on /proc", "every sandbox has a /proc of its own");
}

#[test]
fn a_person_sees_what_it_means_in_some_ten_lines() {
    let scratch = Scratch::new();
    scratch.write("home/project/.env", "x");
    scratch
        .write("home/project/kennel.toml", "[files]\ndeny_read = [\".env\"]\n[limits]\ntimeout = \"10m\"\n");
    let mut command =
        kennel(["plan", "--profile", "agent", "--allow-domain", "example.com", "--publish", "8080:3000"]);
    command.args(["--memory", "2G", "--best-effort", "--", "make"]).current_dir(scratch.join("home/project"));
    let shown = ran(command.env("HOME", scratch.join("home")).env("GITHUB_TOKEN", "x")).ok().stdout;
    for line in [
        "starts in    ~/project",
        "writes       ~/project (profile agent); a fresh home around it; a fresh /tmp, gone at the end",
        "but not      ~/project/kennel.toml (settings of this project); git's hooks and configuration; names that shells, editors and agents obey",
        "reads        everything outside of homes; of the home what toolchains need",
        "hidden       ~/.ssh, ~/.gnupg, ",
        ", ~/project/.env (kennel.toml)",
        "network      example.com (--allow-domain); published ports 8080:3000",
        "limits       memory 2G, 600s",
        "variables    kept outside: GITHUB_TOKEN",
        "not enforced what this host cannot enforce (--best-effort)",
        "             kennel plan --steps shows the ",
    ] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
    assert!(shown.lines().count() <= 12, "{shown}");
    let plain = ran(kennel(["plan", "--", "true"]).current_dir(scratch.path())).ok().stdout;
    assert!(plain.contains("\nnetwork      none\nlimits       none of yours\n"), "{plain}");
}

#[test]
fn the_order_is_files_then_restrictions() {
    let ran = plan_in(Scratch::new().path(), &["--", "true"]).ok();
    let at = |what: &str| {
        ran.stdout.lines().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}"))
    };
    assert!(at("separate the mounts") < at("mount proc"));
    assert!(at("finish mounts") < at("forbid gaining privileges"));
    assert!(at("forbid gaining privileges") < at("drop all capabilities"));
    assert!(at("drop all capabilities") < at("filter system calls"));
    assert_eq!(at("filter system calls"), ran.stdout.lines().count() - 1);
}

#[test]
fn a_rule_of_a_file_is_named_with_its_line() {
    let scratch = Scratch::new();
    scratch.dir("out");
    scratch.write("s.toml", "[files]\nallow_write = [\n  \"out\",\n]\n");
    let ran = plan_in(scratch.path(), &["-s", "s.toml", "--", "true"]).ok();
    assert!(ran.stdout.contains("/out (s.toml:3)"), "{}", ran.stdout);
}

#[test]
fn as_json_it_says_the_same() {
    let scratch = Scratch::new();
    let text = plan_in(scratch.path(), &["--", "true"]).ok().stdout;
    let json: Value =
        serde_json::from_str(&plan_in(scratch.path(), &["--json", "--", "true"]).ok().stdout).unwrap();
    let steps = json["steps"].as_array().unwrap();
    assert_eq!(steps.len(), text.lines().count());
    for (step, line) in steps.iter().zip(text.lines()) {
        assert!(
            line.contains(step["step"].as_str().unwrap()) && line.ends_with(step["reason"].as_str().unwrap()),
            "{line}"
        );
    }
}

#[test]
fn nothing_is_run_and_nothing_is_made() {
    let scratch = Scratch::new();
    scratch.dir("out");
    let before = scratch.listing();
    plan_in(scratch.path(), &["--allow-write", "out", "--", "touch", "out/made"]).ok();
    plan_in(scratch.path(), &["--", "kennel-has-no-such"]).ok();
    assert_eq!(before, scratch.listing());
}

#[test]
fn what_run_would_refuse_plan_refuses_with_the_same_words() {
    let scratch = Scratch::new();
    for words in [&["--allow-write", "absent", "--", "true"][..], &["-s", "absent.toml", "--", "true"]] {
        let plan = plan_in(scratch.path(), words).expect_code(125);
        let run = crate::cli::run_in(scratch.path(), words).expect_code(125);
        assert_eq!(plan.stderr, run.stderr);
        assert_eq!(plan.stdout, "");
    }
    let none = plan_in(scratch.path(), &[]).expect_code(2);
    assert_eq!(
        none.stderr,
        "kennel plan: no command given; write kennel plan -- COMMAND\nsee `kennel plan --help`\n"
    );
}

#[test]
#[kennel_claim::claim("itself/no-escape-sequences")]
fn names_that_a_stranger_chose_cannot_move_the_cursor() {
    let scratch = Scratch::new();
    scratch.dir("\u{1b}]0;owned\u{7}\nline");
    let ran = plan_in(scratch.path(), &["--allow-write", "?*", "--", "true"]).ok();
    assert!(ran.stdout.contains("owned") && !ran.stdout.contains(['\u{1b}', '\u{7}']), "{:?}", ran.stdout);
    assert!(!ran.stdout.lines().any(|line| line.starts_with("line")), "{:?}", ran.stdout);
}

#[test]
fn a_project_file_that_loosens_is_noted() {
    let scratch = Scratch::new();
    scratch.write("kennel.toml", "[files]\nallow_write = [\".\"]");
    let ran = plan_in(scratch.path(), &["--", "true"]).ok();
    assert!(
        ran.stderr.starts_with(
            "kennel: note: kennel.toml was merely found and may only tighten; not applied: files.allow_write;"
        ),
        "{}",
        ran.stderr
    );
    assert!(!ran.stdout.contains("writable"), "{}", ran.stdout);
}

/// Each step and its reason.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let (step, reason) = line.split_once("  # ")?;
        let (_, step) = step.trim_start().split_once("  ")?;
        Some((step.trim().to_owned(), reason.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

#[test]
fn what_a_verbose_run_says_is_what_it_does_and_what_plan_shows() {
    let scratch = Scratch::new();
    scratch.write("secret", "x");
    let flags = ["--no-settings", "--deny-read", "secret", "--allow-write", ".", "--", "true"];
    let planned = plan_in(scratch.path(), &flags).ok().stdout;
    let mut command = kennel(["run", "-v"]);
    let said = ran(command.args(flags).current_dir(scratch.path())).ok().stderr;
    assert!(pairs(&planned).len() > 20, "{planned}");
    assert_eq!(pairs(&said), pairs(&planned));
    // A run that fails has said what it was about to do.
    let mut command = kennel(["run", "-v", "--no-settings", "--", "kennel-has-no-such"]);
    let said = ran(&mut command).expect_code(127).stderr;
    assert!(pairs(&said).len() > 20, "{said}");
}

#[test]
fn a_plan_binds_no_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let publish = format!("{}:80", taken.local_addr().expect("bound").port());
    let flags = ["--no-settings", "--publish", &publish, "--allow-domain", "x.example", "--", "true"];
    plan_in(Scratch::new().path(), &flags).ok();
    let mut command = kennel(["run"]);
    let said = ran(command.args(flags)).expect_code(125).stderr;
    assert!(said.contains(&publish[..publish.len() - 3]), "{said}");
}

#[test]
fn the_guide_shows_the_last_steps_as_they_are() {
    let guide = include_str!("../../docs/README.md");
    let (_, shown) = guide.split_once("$ kennel plan --steps --allow-write . -- make").expect("an example");
    let (shown, _) = shown.split_once("```").expect("its end");
    let scratch = Scratch::new();
    let here = scratch.path().display().to_string();
    let shown: Vec<_> = pairs(&shown.replace("/home/me/project", &here)).into_iter().collect();
    let planned =
        pairs(&plan_in(scratch.path(), &["--no-settings", "--allow-write", ".", "--", "make"]).ok().stdout);
    // How long a filter is differs from one processor to another.
    let without_numbers = |list: &[(String, String)]| -> Vec<String> {
        let plain = |text: &str| text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
        list.iter().map(|(step, reason)| plain(step) + " # " + &plain(reason)).collect()
    };
    assert!(shown.len() >= 5, "{shown:?}");
    let last = &planned[planned.len() - shown.len()..];
    assert_eq!(without_numbers(&shown), without_numbers(last));
}

/// All that is typed goes to one shell; what kennel and the shell print is compared.
#[test]
fn the_readme_shows_a_run_as_it_is() {
    if program("curl").is_none() {
        return skipped("there is no curl");
    }
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("\n$ kennel run --allow-write").expect("an example");
    let (shown, _) = shown.split_once("```").expect("its end");
    let (line, shown) = shown.split_once('\n').expect("what is typed");
    let flags = format!("--allow-write{line}");
    let flags: Vec<&str> = flags.strip_suffix(" -- sh").expect("a shell").split_whitespace().collect();
    let scratch = Scratch::new();
    let (home, project) = (scratch.dir("home"), scratch.dir("project"));
    scratch.write("project/.env", "KEY=1");
    let is_typed = |line: &&str| line.starts_with("$ ");
    let typed: Vec<&str> = shown.lines().filter(is_typed).map(|line| &line[2..]).collect();
    let script = format!("exec 2>&1\n{}", typed.join("\n"));
    let mut command = kennel(["run", "--no-settings"]);
    let command = command.args(&flags).args(["--", "sh", "-c", &script]);
    let ran = ran(command.current_dir(project).env("HOME", &home).env("LC_ALL", "C"));
    let printed = format!("{}{}", ran.stdout, ran.stderr).replace(&*home.to_string_lossy(), "/home/me");
    let expected: Vec<&str> = shown.lines().filter(|line| !is_typed(line)).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn where_every_address_can_be_reached_only_the_name_is_denied() {
    let plan = |words: &[&str]| {
        let command = &mut kennel(["plan", "--no-settings"]);
        ran(command.args(words).args(["--", "true"])).ok().stdout
    };
    let denied = ["--deny-domain", "a.test", "--deny-domain", "192.0.2.1"];
    let public = plan(&[&["--net", "public"][..], &denied].concat());
    assert!(
        public.contains("never 192.0.2.1 (--deny-domain); never by the name a.test (--deny-domain)"),
        "{public}"
    );
    // Where only listed ones can, there is no other way to it.
    let listed = plan(&[&["--allow-domain", "*.b.test"][..], &denied].concat());
    assert!(listed.contains("never a.test, 192.0.2.1 (--deny-domain)"), "{listed}");
}
