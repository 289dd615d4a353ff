//! Somebody who can have no cgroup: a limit is refused, or with best effort something else stands in and that is said.

use std::os::unix::process::CommandExt;
use std::process::Command;

use kennel_tests::probe::probe_inside;
use kennel_tests::{Scratch, am_root, kennel, ran_within, skipped};

use crate::limits::{PATIENCE, granted, is_unified};

/// Nobody, who owns nothing.
pub const STRANGER: u32 = 65_534;

/// Makes a command that of somebody to whom nothing is delegated; `false` where nobody is.
fn as_stranger(command: &mut Command) -> bool {
    if am_root() {
        // From a folder that a stranger may look into: settings may lie there.
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
        let mut try_it = kennel(["version"]);
        if ran_within(PATIENCE, try_it.uid(STRANGER).gid(STRANGER)).code != 0 {
            skipped("an ordinary user cannot run the kennel under test");
            return false;
        }
    } else if ran_within(PATIENCE, &mut kennel(["run", "--memory", "64M", "--", "true"])).code == 0 {
        skipped("this user has a cgroup");
        return false;
    }
    true
}

#[test]
#[kennel_claim::claim("ends/limits-or-an-error", "hosts/cgroups-or-an-error")]
fn a_limit_without_a_cgroup_is_refused_with_what_is_missing_and_how_to_get_it() {
    let _turn = granted::turn();
    for (flag, value, controller) in
        [("--memory", "64M", "memory"), ("--pids", "10", "pids"), ("--cpus", "0.5", "cpu")]
    {
        let mut command = kennel(["run", flag, value, "--", "echo", "started"]);
        if !as_stranger(&mut command) {
            return;
        }
        let ran = ran_within(PATIENCE, &mut command).expect_code(125);
        assert_eq!(ran.stdout, "", "the command was not started");
        assert!(ran.stderr.contains(&format!("controller {controller}:")), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nhelp: "), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nor use `--best-effort`"), "{}", ran.stderr);
        if !is_unified() && am_root() {
            let remedy = format!("as root: install -d -o {STRANGER} /sys/fs/cgroup/");
            assert!(ran.stderr.contains(&remedy), "{}", ran.stderr);
        }
    }
}

#[test]
fn with_best_effort_something_stands_in_and_the_outcome_says_so() {
    let _turn = granted::turn();
    let scratch = Scratch::new();
    let report = scratch.join("report");
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let limits = ["--best-effort", "--memory", "64M", "--pids", "10", "--cpus", "0.5"];
    let flags = [&limits[..], &["--report", report.to_str().unwrap()]].concat();
    let mut command = probe_inside::<&str>("fork-until-refused", &flags, &[]);
    if !as_stranger(&mut command) {
        return;
    }
    let ran = ran_within(PATIENCE, &mut command).ok();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&report).expect("a report")).expect("JSON");
    let lacks: Vec<&str> =
        report["not_enforced"].as_array().unwrap().iter().filter_map(|lack| lack.as_str()).collect();
    for limit in ["memory: ", "pids: ", "cpus: "] {
        assert!(lacks.iter().any(|lack| lack.starts_with(limit)), "{lacks:?}");
        assert!(ran.stderr.contains(&format!("not enforced: {limit}")), "{}", ran.stderr);
    }
    // The user's process limit stands in, within the sandbox's own user namespace (since 5.14).
    let (children, error) = ran.stdout.trim().split_once(' ').expect("two numbers");
    assert!(children.parse::<u32>().is_ok_and(|children| children <= 10), "{children} children");
    assert_eq!(error.parse(), Ok(libc::EAGAIN));
    // And the limit on data for each process.
    let mut hog = probe_inside("hog", &limits, &["300000000"]);
    as_stranger(&mut hog);
    let ran = ran_within(PATIENCE, &mut hog);
    assert!(ran.code != 0 && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn statistics_alone_are_never_refused() {
    let _turn = granted::turn();
    let mut command = kennel(["run", "--stats", "--", "echo", "started"]);
    if !as_stranger(&mut command) {
        return;
    }
    let ran = ran_within(PATIENCE, &mut command).ok();
    assert_eq!(ran.stdout, "started\n");
    assert!(ran.stderr.contains("kennel: wall time"), "{}", ran.stderr);
}
