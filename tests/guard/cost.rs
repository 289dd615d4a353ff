//! What a question to the guard may cost, and what a working tree may cost a start.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use kennel_tests::{Scratch, kennel, ran, ran_within, text};

use crate::guard::Project;

/// Links that go down and up again, each to the next; the last leads to `a`. No more than 19: where the kernel has to begin a path
/// again, it counts its links twice.
fn plant(project: &Project, links: usize, times: usize) {
    std::fs::create_dir_all(project.at("a")).unwrap();
    std::fs::create_dir_all(project.at("d")).unwrap();
    for number in 0..links {
        let next = if number == 0 { "a".to_owned() } else { format!("link{}", number - 1) };
        symlink(format!("{}{next}", "d/../".repeat(times)), project.at(&format!("link{number}"))).unwrap();
    }
}

#[test]
#[kennel_claim::claim("files/nothing-delays-the-guard")]
fn a_path_that_takes_too_many_steps_is_refused_though_the_kernel_would_follow_it() {
    for (links, times) in [(19, 800), (2, 800), (19, 40), (1, 300)] {
        let project = Project::denying(&["a/.git"]);
        plant(&project, links, times);
        let way = format!("link{}", links - 1);
        assert!(project.at(&way).join(".").exists(), "the kernel follows it");
        let script =
            format!("cd project; mkdir {way}/.git; touch {way}/.git; mkdir {way}/other && echo made");
        let mut command = kennel(["run"]);
        command.args(project.flags()).args(["--", "sh", "-c", &script]);
        command.current_dir(project.scratch.path()).env("LC_ALL", "C");
        let ran = ran(&mut command);
        assert_eq!(ran.stderr.matches("Too many levels of symbolic links").count(), 2, "{links}: {ran:?}");
        assert!(!project.at("a/.git").exists());
        assert_eq!(ran.stdout, "made\n", "a name that no rule has needs no look");
    }
}

#[test]
fn a_path_of_many_links_is_followed() {
    let project = Project::denying(&["a/.git"]);
    plant(&project, 19, 5);
    let script = "cd project; mkdir link18/.git; mkdir link18/other && echo made";
    let mut command = kennel(["run"]);
    command.args(project.flags()).args(["--", "sh", "-c", script]);
    let ran = ran(command.current_dir(project.scratch.path()).env("LC_ALL", "C"));
    assert!(ran.stderr.contains("Read-only file system"), "{ran:?}");
    assert_eq!(ran.stdout, "made\n");
}

/// A tree as an earlier run may leave it.
fn planted(folders: usize) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("project/file", "mine");
    for number in 0..folders {
        scratch.dir(&format!("project/planted/{}/p{number}/.vscode", number % 50));
    }
    scratch
}

#[test]
#[kennel_claim::claim("files/working-tree-is-bounded")]
fn a_tree_with_more_protected_names_than_any_project_has_is_refused_at_once_and_named() {
    let scratch = planted(10_500);
    let began = Instant::now();
    let mut command =
        kennel(["run", "--no-settings", "--profile", "agent", "--timeout", "60s", "--", "true"]);
    let refused = ran_within(Duration::from_secs(120), command.current_dir(scratch.join("project")));
    assert_ne!(refused.code, 0, "{refused:?}");
    let planted = text(&scratch.join("project/planted"));
    assert!(
        refused.stderr.contains("protected one by one") && refused.stderr.contains(&planted),
        "{refused:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(60), "it is told before the time is up");
    // As it says: deny the folder as a whole, and the rest can be worked in.
    let mut command = kennel(["run", "--no-settings", "--profile", "agent", "--allow-write", "."]);
    std::fs::remove_dir_all(scratch.join("project/planted")).unwrap();
    let after =
        ran(command.args(["--", "sh", "-c", "echo more >> file"]).current_dir(scratch.join("project")));
    after.ok();
}

/// Descriptors do not grow with the names: the usual limit of 1,024 is enough.
#[test]
#[kennel_claim::claim("files/working-tree-is-bounded")]
fn a_tree_with_thousands_of_protected_names_is_watched_with_few_descriptors() {
    let scratch = planted(3000);
    let file = text(&scratch.join("project/planted/7/p7/.vscode"));
    let script = format!(
        "ulimit -n 1024; exec {} run --no-settings --profile agent -- sh -c 'sleep 0.5; mkdir {file}/x'",
        text(&kennel_tests::kennel_bin())
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(scratch.join("project")).env("LC_ALL", "C");
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    let ran = ran_within(Duration::from_secs(120), &mut command);
    assert!(ran.stderr.contains("Read-only file system") && !ran.stderr.contains("guard failed"), "{ran:?}");
}

/// The clock runs from the start on, and not from when all of that is through.
#[test]
#[kennel_claim::claim("files/working-tree-is-bounded")]
fn the_time_limit_covers_the_start() {
    let scratch = planted(3000);
    let mut command =
        kennel(["run", "--no-settings", "--profile", "agent", "--timeout", "1ms", "--", "sleep", "60"]);
    let ran = ran_within(Duration::from_secs(50), command.current_dir(scratch.join("project")));
    assert!(ran.code != 0 && ran.stderr.contains("1ms") || ran.stderr.contains("0.001 s"), "{ran:?}");
}
