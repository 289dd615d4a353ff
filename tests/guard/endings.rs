//! Nothing on the host's disk: not while a sandbox runs, not after it, not after a kill.

use std::io::Read;
use std::process::Stdio;

use kennel_tests::leftovers::{Host, processes_left_with, unique_sleep};
use kennel_tests::{eventually, kennel};

use crate::guard::Project;

const ABSENT: &[&str] = &[".git", ".bashrc", ".claude/commands", "deep/er/.git/hooks"];

enum Victim {
    Controller,
    Init,
}

fn killed(victim: &Victim) {
    let project = Project::denying(ABSENT);
    let host = Host::now();
    let sleep = unique_sleep();
    project.unchanged_by(|| {
        let before = project.scratch.listing();
        let mut command = kennel(["run"]);
        let script = format!("echo started; exec sleep {sleep}");
        command.args(project.flags()).args(["--", "sh", "-c", &script]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kennel can be started");
        let mut word = [0; 8];
        child.stdout.take().unwrap().read_exact(&mut word).expect("the command starts");
        assert_eq!(before, project.scratch.listing(), "something stands on the disk during the run");
        let controller = child.id().cast_signed();
        let pid = match victim {
            Victim::Controller => controller,
            Victim::Init => {
                let path = format!("/proc/{controller}/task/{controller}/children");
                let children = std::fs::read_to_string(path).unwrap();
                children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("PID 1")
            }
        };
        // SAFETY: a plain call; both are children of this test's, not waited for yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        child.wait().expect("a child can be waited for");
    });
    eventually("everything inside is gone", || {
        processes_left_with(&sleep.to_string()).is_empty().then_some(())
    });
    assert_eq!(host.left(), [""; 0]);
}

#[test]
#[kennel_claim::claim("files/no-placeholders")]
fn nothing_is_left_when_the_controller_is_killed() {
    killed(&Victim::Controller);
}

#[test]
#[kennel_claim::claim("files/no-placeholders")]
fn nothing_is_left_when_pid_1_is_killed() {
    killed(&Victim::Init);
}

/// The guard's refusals keep coming while others of the same folder come and go.
#[test]
fn sandboxes_in_the_same_folder_do_not_disturb_each_other() {
    let project = Project::denying(ABSENT);
    project.unchanged_by(|| {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let top = project.at("");
                    let script = format!(
                        "cd {} && for n in 1 2 3 4 5; do mkdir .git 2>/dev/null && exit 9; sleep 0.05; done; exit 7",
                        top.display()
                    );
                    kennel_tests::run_sh(project.flags(), &script).expect_code(7);
                });
            }
        });
    });
}
