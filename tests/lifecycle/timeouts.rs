//! The clock: when time is up nothing inside goes on, whatever it is and does.

use std::time::{Duration, Instant};

use kennel_tests::leftovers::{processes_left_with, unique_sleep};
use kennel_tests::{Ran, kennel, ran_within, role};

const LONG: Duration = Duration::from_secs(60);

/// `kennel run --timeout 1s` of a script; fails unless that ended it in good time and left no `sleep`.
#[track_caller]
fn times_out(script: &str, sleep: &str) -> Ran {
    let begun = Instant::now();
    let ran = ran_within(LONG, kennel(["run", "--timeout", "1s", "--"]).args(["sh", "-c", script]));
    let took = begun.elapsed();
    let ran = ran.expect_code(124);
    assert!(took >= Duration::from_secs(1), "ended before its time: {took:?}");
    assert!(took < Duration::from_secs(15), "ended long after its time: {took:?}");
    assert!(ran.stderr.contains("timed out"), "{}", ran.stderr);
    assert_eq!(processes_left_with(sleep), Vec::<String>::new());
    ran
}

#[test]
fn a_plain_command_ends_with_124() {
    let sleep = unique_sleep();
    times_out(&format!("exec sleep {sleep}"), &sleep);
}

#[test]
fn a_command_that_ends_in_time_keeps_its_own_code() {
    let mut command = kennel(["run", "--timeout", "30s", "--", "sh", "-c", "exit 7"]);
    let begun = Instant::now();
    ran_within(LONG, &mut command).expect_code(7);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
#[kennel_claim::claim("ends/timeout-always")]
fn a_command_that_ignores_every_signal_it_can_ends() {
    let sleep = unique_sleep();
    let script = format!("trap '' HUP INT QUIT TERM TSTP USR1 USR2; while :; do sleep {sleep}; done");
    times_out(&script, &sleep);
}

#[test]
#[kennel_claim::claim("ends/daemons-end")]
fn daemons_that_forked_twice_into_sessions_of_their_own_end() {
    let sleep = unique_sleep();
    let script = format!(
        "for i in 1 2 3; do (setsid sh -c 'sleep {sleep} & setsid sleep {sleep} &' &); done; sleep {sleep}"
    );
    times_out(&script, &sleep);
}

#[test]
#[kennel_claim::claim("ends/daemons-end")]
fn stopped_processes_end() {
    let sleep = unique_sleep();
    let script = format!("sleep {sleep} & kill -STOP $!; kill -STOP $$; sleep {sleep}");
    times_out(&script, &sleep);
}

#[test]
fn output_from_before_the_end_is_not_lost() {
    let sleep = unique_sleep();
    assert_eq!(times_out(&format!("echo early; exec sleep {sleep}"), &sleep).stdout, "early\n");
}

#[test]
fn the_clock_runs_while_the_command_floods_its_output() {
    let begun = Instant::now();
    let ran = ran_within(
        LONG,
        // What is too much is dropped, but read: otherwise the command would only wait.
        &mut kennel([
            "run",
            "--timeout",
            "3s",
            "--max-output",
            "30M",
            "--",
            "sh",
            "-c",
            "yes | head -c 20M; exec yes >&2",
        ]),
    );
    let ran = ran.expect_code(124);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(ran.stdout.len(), 20 << 20);
}

#[test]
fn the_library_says_that_time_was_up() {
    let sleep = unique_sleep();
    let sandbox =
        kennel::Sandbox::builder().wall_time_limit(Duration::from_millis(700)).build().expect("plain");
    let script = format!("echo early; (setsid sleep {sleep} &); sleep {sleep}");
    let result = sandbox.run("sh", &["-c", &script]).expect("it starts");
    assert!(result.killed_by_timeout && result.exit_code == 124, "{result:?}");
    assert_eq!(result.stdout, "early\n");
    // The limit covers the start, which the command's own time does not.
    assert!(result.duration < Duration::from_secs(15), "{result:?}");
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}

#[test]
#[kennel_claim::claim("ends/timeout-always")]
fn a_fork_bomb_ends_with_its_time() {
    let marker = unique_sleep();
    let begun = Instant::now();
    let mut command = kennel(["run"]);
    command.args(role::inside("crowd", &["--timeout", "2s"], &[&marker, "400"]));
    ran_within(LONG, &mut command).expect_code(124);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(processes_left_with(&marker), Vec::<String>::new());
}
