//! Settings that cannot be read or make no sense: an error with the file, the line and the nearest thing that would.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kennel_tests::{Scratch, am_root, skipped};

use crate::cli::{Said, run, run_in};

#[test]
fn each_mistake_is_told_with_its_file_and_line() {
    let cases = [
        ("s.toml", "[files\n", "s.toml:1: unclosed table, expected `]`"),
        ("s.json", "{\"files\": }", "s.json:1: a value is expected here"),
        (
            "s.json",
            "{\n\"profile\": \"a\",\n\"profile\": \"b\"}",
            "s.json:3: the key `profile` is given twice",
        ),
        (
            "s.toml",
            "[files]\n\nalow_write = []",
            "s.toml:3: unknown key `alow_write` in `files`; did you mean `allow_write`?",
        ),
        ("s.toml", "profil = \"agent\"", "s.toml:1: unknown key `profil`; did you mean `profile`?"),
        ("s.toml", "memory = 1", "s.toml:1: unknown key `memory`; `memory` belongs in `limits`"),
        ("s.toml", "zzzzzz = 1", "s.toml:1: unknown key `zzzzzz`"),
        (
            "s.toml",
            "[files]\nallow_write = \".\"",
            "s.toml:2: `files.allow_write` is a string, but must be a list",
        ),
        (
            "s.toml",
            "[files]\nreads = \"opne\"",
            "s.toml:2: `files.reads`: `opne` is not one of `listed`, `open`; did you mean `open`?",
        ),
        (
            "s.toml",
            "[limits]\nmemory = \"12 potatoes\"",
            "s.toml:2: `limits.memory`: `12 potatoes` is not a size; write bytes, or a number with K, M, G or T, such as `512M` or `1.5G`",
        ),
        (
            "s.toml",
            "[network]\nallow = [\"https://x.com\"]",
            "s.toml:2: `network.allow`: `https://x.com` is a URL; write only its host, such as `example.com` or `example.com:443`",
        ),
        ("s.toml", "profile = \"agnet\"", "s.toml:1: there is no profile `agnet`; did you mean `agent`?"),
    ];
    for (name, text, message) in cases {
        let scratch = Scratch::new();
        scratch.write(name, text);
        run_in(scratch.path(), ["--settings", name, "--", "true"])
            .expect_code(125)
            .says(&format!("kennel: {message}\n"));
    }
}

#[test]
#[kennel_claim::claim("itself/settings-files-are-bounded")]
fn a_file_that_is_not_there_not_a_file_or_not_text_is_told_plainly() {
    let scratch = Scratch::new();
    scratch.dir("folder");
    std::fs::write(scratch.join("bytes.toml"), b"\xff\xfe").unwrap();
    std::fs::write(scratch.join("huge.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(Command::new("mkfifo").arg(scratch.join("fifo.toml")).status().unwrap().success());
    for (file, message) in [
        ("absent.toml", "reading settings: absent.toml: no such file"),
        ("folder", "reading settings: folder: not a regular file"),
        ("fifo.toml", "reading settings: fifo.toml: not a regular file"),
        ("bytes.toml", "bytes.toml: the file is not UTF-8 text"),
        ("huge.toml", "huge.toml: the file is larger than 1 MiB, the limit for settings"),
    ] {
        run_in(scratch.path(), ["--settings", file, "--", "true"])
            .expect_code(125)
            .says(&format!("kennel: {message}\n"));
    }
}

#[test]
fn a_file_that_may_not_be_read_is_an_error_even_where_it_was_merely_found() {
    if am_root() {
        return skipped("root may read every file");
    }
    let scratch = Scratch::new();
    let file = scratch.write("kennel.toml", "");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    // What it says might tighten, so going on without it would fail open.
    for words in [&["--", "true"][..], &["--settings", "kennel.toml", "--", "true"]] {
        let ran = run_in(scratch.path(), words).expect_code(125);
        assert!(
            ran.stderr.starts_with("kennel: reading settings: kennel.toml: Permission denied"),
            "{}",
            ran.stderr
        );
    }
    run_in(scratch.path(), ["--no-settings", "--", "true"]).ok();
}

#[test]
fn a_broken_project_file_stops_the_run() {
    let scratch = Scratch::new();
    scratch.write("kennel.toml", "[files]\ndeny_raed = [\"x\"]");
    run_in(scratch.path(), ["--", "true"])
        .expect_code(125)
        .says("kennel: kennel.toml:2: unknown key `deny_raed` in `files`; did you mean `deny_read`?\n");
    std::fs::remove_file(scratch.join("kennel.toml")).unwrap();
    // A FIFO that somebody put there is not waited for.
    assert!(Command::new("mkfifo").arg(scratch.join("kennel.json")).status().unwrap().success());
    run_in(scratch.path(), ["--", "true"])
        .expect_code(125)
        .says("kennel: reading settings: kennel.json: not a regular file\n");
}

#[test]
#[kennel_claim::claim("itself/settings-files-are-bounded")]
fn deeply_nested_and_hostile_texts_are_refused_quickly() {
    let scratch = Scratch::new();
    for (name, text, message) in [
        ("deep.json", "[".repeat(100_000), "deep.json:1: the values are nested more than 64 deep"),
        (
            "deep.toml",
            format!("a = {}", "[".repeat(100_000)),
            "deep.toml:1: the values are nested more than 64 deep",
        ),
    ] {
        scratch.write(name, &text);
        run_in(scratch.path(), ["--settings", name, "--", "true"])
            .expect_code(125)
            .says(&format!("kennel: {message}\n"));
    }
    // Names from a stranger's file reach the terminal without their control characters.
    scratch.write("esc.json", "{\"\\u001b]0;owned\\u0007\": 1}");
    let ran = run_in(scratch.path(), ["--settings", "esc.json", "--", "true"]).expect_code(125);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", ran.stderr);
}

#[test]
fn each_wrong_flag_is_told_with_the_nearest_right_one() {
    for (words, message) in [
        (
            &["--allow-wirte", "x", "--", "true"][..],
            "unknown flag --allow-wirte; did you mean --allow-write?",
        ),
        (&["--zzzzzzzzzz", "--", "true"], "unknown flag --zzzzzzzzzz"),
        (&["-Z", "--", "true"], "unknown flag -Z"),
        (&["--allow-write"], "--allow-write needs a value (PATH)"),
        (
            &["--allow-write", "--", "true"],
            "--allow-write needs a value (PATH), and `--` follows; write --allow-write=-- if that is the value",
        ),
        (&["--clear-env=yes", "--", "true"], "--clear-env takes no value"),
        (
            &["--timeout", "soon", "--", "true"],
            "--timeout: `soon` is not a duration; write seconds, or a value such as `500ms`, `30s`, `1m30s` or `2h`",
        ),
        (
            &["--memory", "lots", "--", "true"],
            "--memory: `lots` is not a size; write bytes, or a number with K, M, G or T, such as `512M` or `1.5G`",
        ),
        (&["--pids", "0", "--", "true"], "--pids: `0` is not a whole number from 1 to 4194304"),
        (&["--env", "NAME", "--", "true"], "--env: `NAME` is not a variable; write NAME=VALUE"),
        (
            &["--hostname", "a b", "--", "true"],
            "--hostname: `a b` is not a host name; write at most 64 letters, digits, `-` and `.`",
        ),
        (
            &["--user", "rot", "--", "true"],
            "--user: `rot` is not one of `self`, `root`; did you mean `root`?",
        ),
        (&["--allow-write", "", "--", "true"], "--allow-write: ``: the path is empty"),
        (&[], "no command given; write kennel run -- COMMAND"),
        (&["--"], "no command given; write kennel run -- COMMAND"),
        (&["--quiet", "--report", "x"], "no command given; write kennel run -- COMMAND"),
    ] {
        run(words).expect_code(125).says(&format!("kennel run: {message}\nsee `kennel run --help`\n"));
    }
}

#[test]
fn contradictions_between_rules_about_the_network_are_told() {
    run(["--net", "none", "--allow-domain", "example.com", "--", "true"]).expect_code(125).says(
        "kennel: network.allow `example.com` (--allow-domain) cannot be used with network mode `none` (--net); \
         use mode `allow-list` to allow only listed hosts\n",
    );
    run(["--profile", "nobody", "--", "true"]).expect_code(125).says(&format!(
        "kennel: --profile: there is no profile `nobody`; the profiles are {}\n",
        kennel_policy::profiles::NAMES.join(", ")
    ));
}
