//! The limit on output, and what it costs the controller.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;

use kennel::Sandbox;
use kennel_tests::probe::{executable, probe_inside};
use kennel_tests::role;

use crate::limits::scaled;

/// The most memory that a process has had, in bytes; 0 once it is gone.
fn most_memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
#[kennel_claim::claim("ends/output-is-bounded")]
fn ten_gigabytes_of_output_are_capped_and_cost_the_controller_no_memory() {
    // Emulated, it is a hundredth: what counts is that it is far more than the controller may take.
    let bytes = (scaled(scaled(10 << 10)) << 20).to_string();
    let mut command = probe_inside("flood", &["--max-output", "1M"], &[&bytes]);
    let mut kennel = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kennel starts");
    let mut stdout = kennel.stdout.take().expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let mut kept = Vec::new();
        stdout.read_to_end(&mut kept).map(|_| kept.len())
    });
    let mut most = 0;
    while kennel.try_wait().expect("a child can be asked").is_none() {
        most = most.max(most_memory(&kennel));
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = kennel.wait_with_output().expect("a child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "the command is not disturbed: {said}");
    assert_eq!(reader.join().unwrap().expect("a pipe can be read"), 1 << 20);
    assert!(said.contains("output exceeded 1M (limits.output); the rest was dropped"), "{said}");
    assert!((1..16 << 20).contains(&most), "the controller took {most} bytes");
}

#[test]
fn a_library_keeps_what_it_was_asked_to_keep_and_says_that_there_was_more() {
    let sandbox = Sandbox::builder().max_output(1000).env(role::VARIABLE, "flood").build().unwrap();
    let program = executable().to_str().expect("our paths are text");
    let result = sandbox.run(program, &["50000000"]).unwrap();
    assert_eq!((result.exit_code, result.stdout.len(), result.output_truncated), (0, 1000, true));
    let exact = Sandbox::builder().max_output(5).build().unwrap().run("echo", &["1234"]).unwrap();
    assert_eq!((exact.stdout.as_str(), exact.output_truncated), ("1234\n", false));
}
