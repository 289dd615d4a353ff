//! How a run ends: the exit code, and the report of it.

use std::time::{Duration, Instant};

use kennel_tests::{Ran, Scratch};
use serde_json::Value;

use crate::cli::{Said, run, run_in};

/// Runs with a report and reads it.
#[track_caller]
fn reported(words: &[&str]) -> (Ran, Value) {
    let scratch = Scratch::new();
    let ran = run_in(scratch.path(), ["--report", "report.json"].iter().chain(words));
    let text = std::fs::read_to_string(scratch.join("report.json"))
        .unwrap_or_else(|error| panic!("no report: {error}: {}", ran.stderr));
    (ran, serde_json::from_str(&text).expect("the report is JSON"))
}

#[test]
fn the_exit_code_is_the_commands_own() {
    for code in [0, 1, 2, 77, 124, 125, 126, 127, 255] {
        let (ran, report) = reported(&["--", "sh", "-c", &format!("exit {code}")]);
        let ran = ran.expect_code(code).says("");
        assert_eq!(ran.stdout, "");
        assert_eq!(
            (&report["exit_code"], &report["ended"], &report["signal"]),
            (&code.into(), &"exited".into(), &Value::Null)
        );
    }
}

#[test]
fn a_command_that_a_signal_ended_is_128_and_the_signal() {
    for (signal, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("USR1", 10), ("INT", 2)] {
        let (ran, report) = reported(&["--", "sh", "-c", &format!("kill -{signal} $$")]);
        ran.expect_code(128 + number);
        assert_eq!(
            (&report["exit_code"], &report["ended"], &report["signal"]),
            (&(128 + number).into(), &"signalled".into(), &number.into())
        );
    }
}

#[test]
fn time_that_is_up_is_124_and_kills_everything_inside() {
    let started = Instant::now();
    let (ran, report) = reported(&[
        "--timeout",
        "500ms",
        "--",
        "sh",
        "-c",
        "trap '' TERM; (trap '' TERM; sleep 60) & sleep 60",
    ]);
    ran.expect_code(124).says("kennel: timed out after 500ms (limits.timeout); the sandbox was killed\n");
    // The limit covers the start, which the command's own time in the report does not.
    let took = started.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(20)).contains(&took), "{took:?}");
    assert_eq!(
        (&report["ended"], &report["killed_by_timeout"], &report["exit_code"]),
        (&"timed-out".into(), &true.into(), &124.into())
    );
    assert!(report["wall_time_ms"].as_f64().unwrap() > 0.0, "{report}");
    run(["--timeout", "30s", "--", "true"]).ok().says("");
}

#[test]
fn a_report_says_what_was_used() {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 20000000 /dev/zero | tail -c 20000000 > /dev/null";
    let (ran, report) = reported(&["--", "sh", "-c", script]);
    ran.ok();
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} is no number: {report}"));
    assert!(number("wall_time_ms") > 0.0);
    assert!(number("cpu_user_ms") + number("cpu_system_ms") > 1.0, "{report}");
    // tail keeps all twenty million bytes.
    assert!(number("peak_memory_bytes") > 15e6 && number("peak_memory_bytes") < 4e9, "{report}");
    assert_eq!(
        (&report["killed_by_timeout"], &report["not_enforced"], &report["error"]),
        (&false.into(), &Value::Array(vec![]), &Value::Null)
    );
}

#[test]
fn a_report_of_a_command_that_did_not_start_says_why() {
    let (ran, report) = reported(&["--", "kennel-has-no-such"]);
    ran.expect_code(127);
    assert_eq!((&report["ended"], &report["exit_code"]), (&"not-started".into(), &127.into()));
    assert!(report["error"].as_str().unwrap().contains("kennel-has-no-such"), "{report}");
    let (ran, report) = reported(&["--", "/usr"]);
    ran.expect_code(126);
    assert_eq!((&report["ended"], &report["exit_code"]), (&"not-started".into(), &126.into()));
    let (ran, report) = reported(&["--allow-write", "/absent/root", "--", "true"]);
    ran.expect_code(125);
    assert_eq!((&report["ended"], &report["exit_code"]), (&"not-started".into(), &125.into()));
    assert!(report["error"].as_str().unwrap().contains("/absent/root"), "{report}");
}

#[test]
fn settings_that_are_wrong_are_reported_too() {
    // Whoever starts kennel from a program reads the report, not the terminal.
    let (ran, report) = reported(&["--settings", "absent.toml", "--", "true"]);
    ran.expect_code(125);
    assert_eq!((&report["ended"], &report["exit_code"]), (&"not-started".into(), &125.into()));
    assert!(report["error"].as_str().unwrap().contains("absent.toml"), "{report}");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let ran = run(["--report", "/absent/report.json", "--", "true"]).expect_code(125);
    assert!(
        ran.stderr.starts_with("kennel: preparing the report: /absent: No such file or directory"),
        "{}",
        ran.stderr
    );
}

#[test]
fn quiet_says_nothing_but_errors() {
    run(["-q", "--timeout", "200ms", "--", "sleep", "60"]).expect_code(124).says("");
    run(["-q", "--", "kennel-has-no-such"])
        .expect_code(127)
        .says("kennel: kennel-has-no-such: command not found\n");
}

#[test]
fn verbose_says_what_is_done() {
    let ran = run(["-v", "--", "echo", "out"]).ok();
    assert_eq!(ran.stdout, "out\n");
    assert!(!ran.stderr.is_empty(), "--verbose said nothing");
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    // `yes` ends by SIGPIPE, as it does outside.
    let script = "\"$1\" run -- yes | head -n 1; echo ${PIPESTATUS[0]}";
    let Some(bash) = kennel_tests::program("bash") else {
        return kennel_tests::skipped("bash is not installed");
    };
    let mut command = std::process::Command::new(bash);
    command
        .args(["-c", script, "bash"])
        .arg(kennel_tests::kennel_bin())
        .env("XDG_CONFIG_HOME", "/nonexistent");
    assert_eq!(kennel_tests::ran(&mut command).ok().stdout, "y\n141\n");
}
