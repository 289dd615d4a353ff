//! A file system that never answers: set-up does not wait for it, as long as no rule leads into it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::{Ran, am_root, skipped};

use crate::filesystem::host_mounts::{Host, around};
use crate::filesystem::{Tree, command, flags};

/// Far more than a run takes; a wait on the file system would last for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs to the end, or fails the test when it does not come. `None` where the mount cannot be made.
#[track_caller]
pub fn within_reason(command: &mut Command) -> Option<Ran> {
    let started = Instant::now();
    let mut child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            skipped(&format!("this host does not let the test make a stalled mount: {error}"));
            return None;
        }
    };
    while child.try_wait().expect("a child can be waited for").is_none() {
        if started.elapsed() > PATIENCE {
            // Its end takes the only server of the file system with it, which frees whoever waits in it.
            child.kill().expect("a child can be killed");
            let said = child.wait_with_output().expect("a child can be waited for");
            panic!("still not done after {PATIENCE:?}: {}", String::from_utf8_lossy(&said.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(child.wait_with_output().expect("a child can be waited for").into())
}

fn kinds() -> Vec<fn() -> Host> {
    if am_root() { vec![|| Host::Fuse, || Host::Autofs] } else { vec![|| Host::Fuse] }
}

#[track_caller]
fn runs_with_a_stalled_mount(tree: &Tree, at: &Path, rules: &[OsString]) {
    for kind in kinds() {
        let script = "cat \"$1\" > /dev/null";
        let mut command = command(rules, script, &[&tree.at("project/main.c")]);
        around(&mut command, [(at, kind())]);
        let Some(ran) = within_reason(&mut command) else { return };
        ran.ok();
    }
}

#[test]
fn the_mounts_of_these_tests_do_stall() {
    let tree = Tree::new();
    let at = tree.at("other");
    for kind in kinds() {
        let mut look = Command::new("timeout");
        look.args(["-s", "KILL", "1", "ls"]).arg(&at).stdin(Stdio::null());
        around(&mut look, [(&at, kind())]);
        let Some(ran) = within_reason(&mut look) else { return };
        assert_eq!(ran.code, 137, "{ran:?}");
    }
}

#[test]
#[kennel_claim::claim("files/nothing-hangs-the-start")]
fn a_stalled_mount_somewhere_does_not_hang_a_run() {
    let tree = Tree::new();
    runs_with_a_stalled_mount(&tree, &tree.at("other"), &[]);
}

#[test]
fn a_stalled_mount_inside_a_write_root_does_not_hang_a_run() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/main.c"))]);
    runs_with_a_stalled_mount(&tree, &tree.at("project/sub"), &rules);
}

#[test]
fn a_glob_does_not_walk_into_a_stalled_mount() {
    let tree = Tree::new();
    let rules =
        flags([("--deny-read", tree.scratch.join("**/*.key")), ("--allow-write", tree.at("project"))]);
    runs_with_a_stalled_mount(&tree, &tree.at("project/sub"), &rules);
    // Nor from a glob whose fixed part ends right there.
    let rules = flags([("--deny-read", tree.at("project/sub/*.key"))]);
    runs_with_a_stalled_mount(&tree, &tree.at("project/sub"), &rules);
}

#[test]
fn a_stalled_mount_can_be_denied_by_its_own_path() {
    let tree = Tree::new();
    for flag in ["--deny-read", "--deny-write", "--allow-read"] {
        runs_with_a_stalled_mount(&tree, &tree.at("other"), &flags([(flag, tree.at("other"))]));
    }
}

#[test]
fn a_stalled_mount_does_not_hang_a_tree_that_is_built_anew() {
    let tree = Tree::new();
    let target = tree.at("appears");
    let mut mount = tree.at("project").into_os_string();
    mount.push(":");
    mount.push(&target);
    runs_with_a_stalled_mount(&tree, &tree.at("other"), &["--mount".into(), mount]);
    let rules = flags([("--reads", "listed".into()), ("--allow-read", tree.at("project"))]);
    runs_with_a_stalled_mount(&tree, &tree.at("other"), &rules);
}

#[test]
fn a_fifo_in_the_way_of_a_rule_does_not_hang_a_run() {
    let tree = Tree::new();
    let fifo = tree.at("project/pipe");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for flag in ["--deny-read", "--deny-write", "--allow-read", "--allow-write"] {
        for path in [fifo.clone(), tree.at("project/p*")] {
            within_reason(&mut command(&flags([(flag, path)]), "true", &[])).unwrap().ok();
        }
    }
}
