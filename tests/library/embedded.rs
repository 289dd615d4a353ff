//! A program that is `codex-linux-sandbox` itself, by `kennel::codex::run_main`.

use std::ffi::OsString;

use kennel_tests::{ran, role};

/// The role: holds a secret on its heap and acts as Codex's helper with its own arguments.
pub fn codex(_: &[OsString]) -> i32 {
    // Where only this process's memory has it: the arguments and variables are looked at as well.
    let secret: String = ["hea", "p-can", "ary"].concat();
    std::hint::black_box(&secret);
    kennel::codex::run_main()
}

fn codex_runs(script: &str) -> String {
    let mut command = role::play("codex-caller");
    command.args([
        "--sandbox-policy-cwd",
        "/",
        "--sandbox-policy",
        r#"{"type":"read-only"}"#,
        "--",
        "sh",
        "-c",
        script,
    ]);
    ran(command.env("CALLERS_SECRET", "environment-canary")).ok().stdout
}

#[test]
fn pid_1_of_a_program_that_acts_as_codexs_helper_has_nothing_of_its_callers() {
    let shown = codex_runs(
        "tr '\\0' ' ' </proc/1/cmdline; echo; tr '\\0' '\\n' </proc/1/environ 2>/dev/null | wc -l; id -u",
    );
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("kennel-init "), "{shown}");
    assert!(!lines[0].contains("sandbox-policy"), "{shown}");
}

#[test]
fn its_exit_code_and_streams_are_the_commands() {
    assert_eq!(codex_runs("echo out"), "out\n");
    let mut command = role::play("codex-caller");
    command.args([
        "--sandbox-policy-cwd",
        "/",
        "--sandbox-policy",
        r#"{"type":"read-only"}"#,
        "--",
        "sh",
        "-c",
    ]);
    let ran = ran(command.arg("echo err >&2; exit 7"));
    assert_eq!((ran.code, ran.stderr.as_str()), (7, "err\n"));
}
