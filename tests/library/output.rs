//! What is read and written: large input, floods of output, bytes that are no text.

use std::ffi::OsString;
use std::time::Duration;

use kennel::Sandbox;
use kennel_tests::{ran_within, role};

fn plain() -> Sandbox {
    Sandbox::builder().wall_time_limit(Duration::from_secs(60)).build().expect("a plain configuration")
}

#[test]
fn without_input_the_command_reads_an_empty_one() {
    let result = plain().run("sh", &["-c", "wc -c"]).expect("it runs");
    assert_eq!(result.stdout.trim(), "0");
    let result = plain().run_with_input("sh", &["-c", "wc -c"], b"").expect("it runs");
    assert_eq!(result.stdout.trim(), "0");
}

#[test]
fn a_large_input_goes_in_while_the_output_comes_out() {
    // Far more than all pipes hold, both ways at once.
    let input: Vec<u8> = (0..32u32 << 20).map(|at| (at % 251) as u8).collect();
    let result = plain().run_with_input("cat", &[], &input).expect("it runs");
    assert!(result.success() && result.stdout_bytes == input);
}

#[test]
fn a_command_that_does_not_read_its_input_is_not_waited_for() {
    let input = vec![b'x'; 32 << 20];
    let result = plain().run_with_input("true", &[], &input).expect("it runs");
    assert!(result.success() && !result.killed_by_timeout);
    let result =
        plain().run_with_input("sh", &["-c", "exec <&-; sleep 0.2; echo done"], &input).expect("it runs");
    assert_eq!(result.stdout, "done\n");
}

#[test]
fn a_command_that_reads_a_part_gets_that_part() {
    let input = b"0123456789".repeat(1 << 20);
    let result = plain().run_with_input("head", &["-c", "15"], &input).expect("it runs");
    assert_eq!(result.stdout, "012345678901234");
}

#[test]
fn bytes_stay_as_they_are_and_text_replaces_what_is_none() {
    let result = plain().run("printf", &[r"a\377b\000c"]).expect("it runs");
    assert_eq!(result.stdout_bytes, b"a\xffb\0c");
    assert_eq!(result.stdout, "a\u{fffd}b\0c");
    let result = plain().run("sh", &["-c", r"printf 'e\377' >&2"]).expect("it runs");
    assert_eq!((result.stderr_bytes.as_slice(), result.stderr.as_str()), (&b"e\xff"[..], "e\u{fffd}"));
}

#[test]
fn output_is_cut_at_the_cap_and_the_command_goes_on() {
    let sandbox = Sandbox::builder().max_output(1000).build().expect("plain");
    let result = sandbox.run("sh", &["-c", "yes | head -c 3000000; echo end >&2; exit 3"]).expect("it runs");
    assert_eq!(result.stdout_bytes, b"y\n".repeat(500));
    assert_eq!((result.stderr.as_str(), result.exit_code), ("end\n", 3));
    assert!(result.output_truncated);
}

#[test]
fn output_of_exactly_the_cap_is_whole() {
    let sandbox = Sandbox::builder().max_output(1000).build().expect("plain");
    for (size, truncated) in [("999", false), ("1000", false), ("1001", true)] {
        let result = sandbox.run("sh", &["-c", &format!("yes | head -c {size}")]).expect("it runs");
        assert_eq!(
            (result.output_truncated, result.stdout.len()),
            (truncated, size.parse::<usize>().unwrap().min(1000))
        );
    }
    let nothing = Sandbox::builder().max_output(0).build().expect("plain");
    let result = nothing.run("echo", &["x"]).expect("it runs");
    assert!(result.stdout.is_empty() && result.output_truncated && result.success());
}

#[test]
fn both_streams_can_be_flooded_at_once() {
    let script = "yes out | head -c 8000000 & yes err | head -c 8000000 >&2; wait";
    let result = plain().run("sh", &["-c", script]).expect("it runs");
    assert!(result.success());
    assert_eq!((result.stdout.len(), result.stderr.len()), (8_000_000, 8_000_000));
}

/// The role: captures a gigabyte with a small cap, and says what that cost.
pub fn reading_a_flood(_: &[OsString]) -> i32 {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak").to_owned();
        line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number")
    };
    let sandbox = Sandbox::builder().max_output(1 << 20).build().expect("plain");
    sandbox.run("true", &[]).expect("it runs");
    let before = peak();
    let result = sandbox.run("head", &["-c", "1000000000", "/dev/zero"]).expect("it runs");
    assert!(result.success() && result.output_truncated && result.stdout_bytes.len() == 1 << 20);
    println!("{}", peak() - before);
    0
}

#[test]
fn a_gigabyte_of_output_costs_the_caller_no_more_than_the_cap() {
    let ran = ran_within(Duration::from_secs(120), &mut role::play("reading-caller")).ok();
    let kilobytes: u64 = ran.stdout.trim().parse().expect("a number");
    // The cap of 1 MiB as bytes and as text, twice over for a growing buffer.
    assert!(kilobytes < 16 << 10, "{kilobytes} kB");
}
