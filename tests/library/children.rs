//! `Sandbox::spawn`: streaming both ways, waiting, killing.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use kennel::{Sandbox, SandboxError};
use kennel_tests::plain_sandbox;

/// Fails the test when `work` takes longer than `limit`: for what would otherwise hang.
#[track_caller]
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).unwrap_or_else(|_| panic!("not done after {limit:?}"))
}

#[test]
fn a_conversation_line_by_line() {
    let mut child = plain_sandbox()
        .spawn("sh", &["-c", "while read x; do echo \"heard $x\"; done; exit 3"])
        .expect("starts");
    let mut stdin = child.take_stdin().expect("piped");
    let mut lines = BufReader::new(child.take_stdout().expect("piped")).lines();
    for word in ["one", "two", "three"] {
        writeln!(stdin, "{word}").expect("it reads");
        assert_eq!(lines.next().expect("an answer").expect("text"), format!("heard {word}"));
    }
    drop(stdin);
    assert!(lines.next().is_none());
    assert_eq!(child.wait().expect("it ends").exit_code, 3);
}

#[test]
fn standard_error_has_a_stream_of_its_own() {
    let mut child = plain_sandbox().spawn("sh", &["-c", "echo out; echo err >&2"]).expect("starts");
    let (mut out, mut err) = (String::new(), String::new());
    child.take_stdout().expect("piped").read_to_string(&mut out).expect("text");
    child.take_stderr().expect("piped").read_to_string(&mut err).expect("text");
    assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_stream_can_be_taken_once() {
    let mut child = plain_sandbox().spawn("true", &[]).expect("starts");
    assert!(child.take_stdin().is_some() && child.take_stdin().is_none());
    assert!(child.take_stdout().is_some() && child.take_stdout().is_none());
    assert!(child.take_stderr().is_some() && child.take_stderr().is_none());
}

#[test]
fn waiting_closes_the_input_that_was_not_taken() {
    let mut child = plain_sandbox().spawn("cat", &[]).expect("starts");
    assert!(within(Duration::from_secs(20), move || child.wait()).expect("it ends").success());
}

#[test]
fn waiting_drops_output_that_was_not_taken() {
    // More than a pipe holds: if nobody read it or closed the pipe, the command would never end.
    let mut child =
        plain_sandbox().spawn("sh", &["-c", "head -c 1000000 /dev/zero; exit 5"]).expect("starts");
    let result = within(Duration::from_secs(20), move || child.wait()).expect("it ends");
    assert_eq!((result.exit_code, result.stdout.len()), (5, 0));
}

#[test]
fn wait_timeout_says_timeout_and_the_command_goes_on() {
    let mut child = plain_sandbox().spawn("sh", &["-c", "read x; exit 6"]).expect("starts");
    let begun = Instant::now();
    assert!(matches!(child.wait_timeout(Duration::from_millis(200)), Err(SandboxError::Timeout)));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert!(matches!(child.wait_timeout(Duration::ZERO), Err(SandboxError::Timeout)));
    drop(child.take_stdin());
    let result = child.wait_timeout(Duration::from_secs(20)).expect("it ends");
    assert_eq!((result.exit_code, result.killed_by_timeout), (6, false));
}

#[test]
fn the_longest_duration_there_is_can_be_waited_for() {
    let mut child = plain_sandbox().spawn("true", &[]).expect("starts");
    let result = within(Duration::from_secs(20), move || child.wait_timeout(Duration::MAX));
    assert!(result.expect("it ends").success());
}

#[test]
fn the_clock_of_the_sandbox_also_ends_a_child() {
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_millis(300)).build().expect("plain");
    let mut child = sandbox.spawn("sleep", &["60"]).expect("starts");
    let result = within(Duration::from_secs(20), move || child.wait()).expect("it ends");
    assert!(result.killed_by_timeout && result.exit_code == 124, "{result:?}");
}

#[test]
fn the_clock_of_the_sandbox_runs_in_wait_timeout_too() {
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_millis(300)).build().expect("plain");
    let mut child = sandbox.spawn("sleep", &["60"]).expect("starts");
    let result = child.wait_timeout(Duration::from_secs(15)).expect("the sandbox's own limit is shorter");
    assert!(result.killed_by_timeout && result.exit_code == 124, "{result:?}");
}

#[test]
fn killing_ends_it_and_is_told() {
    let mut child = plain_sandbox().spawn("sleep", &["60"]).expect("starts");
    child.kill();
    child.kill();
    let result = within(Duration::from_secs(20), move || child.wait()).expect("it ends");
    assert_eq!((result.exit_code, result.signal), (137, Some(9)));
}

#[test]
fn a_child_can_be_sent_to_another_thread() {
    let mut child = plain_sandbox().spawn("sh", &["-c", "exit 8"]).expect("starts");
    let code =
        std::thread::spawn(move || child.wait().expect("it ends").exit_code).join().expect("the thread ends");
    assert_eq!(code, 8);
}

#[test]
fn the_pid_of_init_is_a_process_of_this_host() {
    let child = plain_sandbox().spawn("sleep", &["60"]).expect("starts");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.init_pid())).expect("it exists");
    let inner = status.lines().find(|line| line.starts_with("NSpid:")).expect("NSpid");
    assert_eq!(inner.split_whitespace().last(), Some("1"), "{inner}");
}
