//! Without clone3 PID 1 cannot choose the number of the process that makes the network, so it makes the network itself.

use kennel_tests::ran;

use crate::hosts::world::{Lack, kennel_in};

#[test]
fn a_sandbox_is_whole_without_clone3() {
    let script = "echo $$; tail -n +3 /proc/net/dev | cut -d: -f1";
    let words = ["run", "--no-settings", "--", "sh", "-c", script];
    let Some(mut command) = kennel_in(&[Lack::Clone3], words) else { return };
    let run = ran(&mut command).expect_code(0);
    let lines: Vec<_> = run.stdout.lines().map(str::trim).collect();
    assert_eq!(lines.first(), Some(&"2"), "the command is the first child of PID 1: {run:?}");
    assert_eq!(lines.last(), Some(&"lo"), "a network of its own: {run:?}");
    assert_eq!(run.stderr, "");
}
