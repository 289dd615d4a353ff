//! Nothing of a root's layer is left, whoever dies first.

use std::process::Stdio;
use std::time::Duration;

use kennel_tests::leftovers::{Host, processes_left_with, processes_with, unique_sleep};
use kennel_tests::{Scratch, eventually, kennel};

use super::tree::small;

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Controller,
    Init,
    Command,
}

#[test]
#[kennel_claim::claim("files/root-file-system-is-unchanged")]
fn nothing_is_left_of_a_layer_whoever_is_killed_and_when() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let work = scratch.dir("work");
    let before = scratch.listing();
    let host = Host::now();
    for round in 0..24u64 {
        let sleep = unique_sleep();
        // Before there is a command, init's child is who makes the network, and not missed when that is done.
        let victims = [Victim::Controller, Victim::Init, Victim::Command];
        let victim = victims[round as usize % if round < 12 { 2 } else { 3 }];
        let mut command =
            kennel(["run", "--deny-read", "/etc/absent", "--deny-write", "/etc/plain", "--rootfs"]);
        command.arg(&root).arg("--allow-write").arg(&work).args(["--", "sh", "-c"]);
        command.arg(format!("mkdir /layer; echo x > /layer/file; exec sleep {}", &*sleep));
        let mut controller = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let own = controller.id().cast_signed();
        // Some at once, and later and later in the set-up; some while the command runs.
        if round < 12 {
            std::thread::sleep(Duration::from_micros(round * 400));
        } else {
            eventually("the command runs", || {
                processes_with(&format!("sleep {}", &*sleep))
                    .iter()
                    .find(|line| !line.contains("kennel") && !line.contains("sh -c"))
                    .map(drop)
            });
        }
        let pid = match victim {
            Victim::Controller => Some(own),
            Victim::Init => child_of(own),
            Victim::Command => child_of(own).and_then(child_of),
        };
        // SAFETY: plain calls, on a child of this test's and on its descendants.
        unsafe { libc::kill(pid.unwrap_or(own), libc::SIGKILL) };
        if pid.is_none() {
            let _ = controller.kill();
        }
        let _ = controller.wait();
        assert_eq!(processes_left_with(&sleep), Vec::<String>::new(), "{victim:?}");
    }
    assert_eq!(host.left(), Vec::<String>::new());
    assert_eq!(scratch.listing(), before);
}

fn child_of(pid: i32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
