//! Ends that are not the clock's: the command's own, background jobs, stops, closed streams, races of exit codes.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kennel::{Sandbox, SandboxError};
use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::{eventually, kennel, kennel_bin, ran_within, run_sh};

const LONG: Duration = Duration::from_secs(60);

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn background_jobs_end_with_the_command() {
    let sleep = unique_sleep();
    let begun = Instant::now();
    let script = format!(
        "sleep {sleep} & setsid sleep {sleep} & (trap '' TERM HUP; sleep {sleep} &); echo done; exit 3"
    );
    let ran = run_sh(["--no-settings"], &script).expect_code(3);
    assert_eq!(ran.stdout, "done\n");
    assert!(begun.elapsed() < Duration::from_secs(15), "they held their pipe open");
    assert_eq!(processes_left_with(&sleep), none());
}

#[test]
fn exit_codes_and_signals_come_through() {
    for code in [0, 1, 2, 100, 124, 125, 127, 200, 255] {
        run_sh(["--no-settings"], &format!("exit {code}")).expect_code(code);
    }
    for signal in [1, 2, 6, 9, 11, 13, 15, 31] {
        run_sh(["--no-settings"], &format!("kill -{signal} $$; sleep 60")).expect_code(128 + signal);
    }
}

#[test]
fn the_exit_code_never_loses_a_race_with_a_crowd_of_orphans() {
    // Orphans are reaped by PID 1 in the same loop in which the command's own end is found.
    let script = "i=0; while [ $i -lt 40 ]; do (true & true & exit 9) & i=$((i+1)); done; exit 42";
    for _ in 0..25 {
        ran_within(LONG, &mut kennel(["run", "--no-settings", "--", "sh", "-c", script])).expect_code(42);
    }
}

#[test]
fn a_command_that_ends_at_once_and_one_that_ends_at_its_deadline_give_one_of_two_codes() {
    for delay in ["0.02", "0.05", "0.1", "0.1", "0.1"] {
        let script = format!("sleep {delay}; exit 5");
        let mut command = kennel(["run", "--no-settings", "--timeout", "100ms", "--", "sh", "-c", &script]);
        let ran = ran_within(LONG, &mut command);
        assert!([5, 124].contains(&ran.code), "{ran:?}");
        assert_eq!(ran.code == 124, ran.stderr.contains("timed out"), "{ran:?}");
    }
}

#[test]
fn a_command_that_stops_itself_goes_on_when_it_is_continued() {
    let script = "(sleep 0.3; kill -CONT $$) & kill -STOP $$; echo again; exit 6";
    let ran = ran_within(LONG, &mut kennel(["run", "--no-settings", "--", "sh", "-c", script]));
    assert_eq!(ran.expect_code(6).stdout, "again\n");
}

#[test]
fn signals_to_the_controller_reach_the_command() {
    for (name, number) in
        [("HUP", libc::SIGHUP), ("INT", libc::SIGINT), ("TERM", libc::SIGTERM), ("USR1", libc::SIGUSR1)]
    {
        let script = format!("trap 'echo {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done");
        let mut command = kennel(["run", "--no-settings", "--timeout", "50s", "--", "sh", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kennel");
        let mut stdout = child.stdout.take().expect("piped");
        let mut word = [0; 6];
        stdout.read_exact(&mut word).expect("the command starts");
        // SAFETY: a plain call on a child that has not been waited for.
        unsafe { libc::kill(child.id().cast_signed(), number) };
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("text");
        assert_eq!((rest.trim(), child.wait().expect("a child").code()), (name, Some(9)));
    }
}

#[test]
fn a_controller_whose_standard_streams_are_closed_runs_its_command_all_the_same() {
    let bin = kennel_bin().display().to_string();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let script = format!("'{bin}' run --no-settings -- sh -c 'exit 11' {closed}");
        ran_within(LONG, std::process::Command::new("sh").args(["-c", &script])).expect_code(11);
    }
    // What the command opens must not become its standard stream by accident.
    let script = format!("'{bin}' run --no-settings -- sh -c 'cat; echo out' <&-");
    let ran = ran_within(LONG, std::process::Command::new("sh").args(["-c", &script])).ok();
    assert_eq!(ran.stdout, "out\n");
}

#[test]
fn dropping_a_child_leaves_nothing_running() {
    let sleep = unique_sleep();
    let sandbox = Sandbox::builder().build().expect("plain");
    let script =
        format!("trap '' TERM INT HUP; sleep {sleep} & setsid sleep {sleep} & echo ready; sleep {sleep}");
    let mut child = sandbox.spawn("sh", &["-c", &script]).expect("it starts");
    let mut word = [0; 6];
    child.take_stdout().expect("piped").read_exact(&mut word).expect("the command starts");
    eventually("its processes run", || (processes_with(&sleep).len() >= 3).then_some(()));
    drop(child);
    // At once: dropping waits until the last process is gone.
    assert_eq!(processes_with(&sleep), none());
}

#[test]
fn a_killed_child_says_so_and_leaves_nothing() {
    let sleep = unique_sleep();
    let sandbox = Sandbox::builder().build().expect("plain");
    let mut child = sandbox
        .spawn("sh", &["-c", &format!("(setsid sleep {sleep} &); exec sleep {sleep}")])
        .expect("starts");
    eventually("its processes run", || (processes_with(&sleep).len() >= 2).then_some(()));
    child.kill();
    let result = child.wait().expect("it ends");
    assert_eq!((result.exit_code, result.signal), (137, Some(9)));
    assert!(!result.killed_by_timeout);
    assert_eq!(processes_with(&sleep), none());
}

#[test]
fn a_sandbox_outlives_the_thread_that_spawned_it() {
    let sandbox = Sandbox::builder().build().expect("plain");
    let script = "read line; echo \"$line\"";
    let mut child = std::thread::spawn(move || sandbox.spawn("sh", &["-c", script]).expect("it starts"))
        .join()
        .expect("the thread ends");
    assert!(
        matches!(child.wait_timeout(Duration::from_millis(300)), Err(SandboxError::Timeout)),
        "it died with the thread"
    );
    let mut stdin = child.take_stdin().expect("piped");
    std::io::Write::write_all(&mut stdin, b"still here\n").expect("it reads");
    drop(stdin);
    let mut text = String::new();
    child.take_stdout().expect("piped").read_to_string(&mut text).expect("text");
    assert_eq!(text, "still here\n");
    assert!(child.wait().expect("it ends").success());
}
