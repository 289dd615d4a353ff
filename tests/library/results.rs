//! `ExecutionResult`: each field against something known.

use std::time::{Duration, Instant};

use kennel_tests::plain_sandbox;

#[test]
fn a_command_that_succeeds() {
    let result = plain_sandbox().run("sh", &["-c", "echo out; echo err >&2"]).expect("it runs");
    assert!(result.success());
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((result.exit_code, result.signal), (0, None));
    assert!(!result.killed_by_timeout && !result.killed_by_oom && !result.output_truncated);
    assert!(result.not_enforced.is_empty());
}

#[test]
fn a_command_that_fails_is_no_error() {
    let result = plain_sandbox().run("sh", &["-c", "exit 42"]).expect("it runs");
    assert!(!result.success());
    assert_eq!((result.exit_code, result.signal), (42, None));
}

#[test]
fn a_signal_is_told_by_its_number() {
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
        let result =
            plain_sandbox().run("sh", &["-c", &format!("kill -{signal} $$; sleep 60")]).expect("it runs");
        assert_eq!((result.exit_code, result.signal), (128 + signal, Some(signal)));
    }
}

#[test]
fn an_exit_code_above_128_is_no_signal() {
    let result = plain_sandbox().run("sh", &["-c", "exit 137"]).expect("it runs");
    assert_eq!((result.exit_code, result.signal), (137, None));
}

#[test]
fn the_duration_is_wall_clock_time() {
    let begun = Instant::now();
    let result = plain_sandbox().run("sleep", &["0.5"]).expect("it runs");
    assert!(result.duration >= Duration::from_millis(500), "{:?}", result.duration);
    assert!(result.duration <= begun.elapsed(), "{:?}", result.duration);
    // Sleeping costs no CPU time.
    assert!(result.cpu_time.is_some_and(|time| time < Duration::from_millis(400)), "{:?}", result.cpu_time);
}

#[test]
fn the_cpu_time_is_that_of_all_processes_inside() {
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let one = plain_sandbox().run("sh", &["-c", burn]).expect("it runs").cpu_time.expect("Linux measures it");
    // Twice the work in children, which the command waits for.
    let script = format!("({burn}) & ({burn}) & wait");
    let result = plain_sandbox().run("sh", &["-c", &script]).expect("it runs");
    let two = result.cpu_time.expect("Linux measures it");
    assert!(one > Duration::from_millis(5), "{one:?}");
    assert!(two > one * 5 / 4, "one loop took {one:?}, two took {two:?}");
    assert!(one < Duration::from_secs(60) && two < Duration::from_secs(120));
}

#[test]
fn the_peak_of_memory_grows_with_what_is_used() {
    // dd keeps a buffer of the block's size.
    let peak = |block: &str| {
        let size = format!("bs={block}");
        let result =
            plain_sandbox().run("dd", &["if=/dev/zero", "of=/dev/null", "count=1", &size]).expect("it runs");
        assert!(result.success(), "{}", result.stderr);
        result.peak_memory.expect("Linux measures it")
    };
    let (small, large) = (peak("4K"), peak("200M"));
    assert!((100 << 10..64 << 20).contains(&small), "{small}");
    assert!((200 << 20..300 << 20).contains(&large), "{large}");
}

#[test]
fn one_sandbox_gives_each_run_a_world_of_its_own() {
    let sandbox = plain_sandbox();
    assert!(sandbox.run("sh", &["-c", "echo x > /tmp/left"]).expect("it runs").success());
    assert!(!sandbox.run("test", &["-e", "/tmp/left"]).expect("it runs").success());
}
