//! The limit on processes.

use std::time::{Duration, Instant};

use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::probe::probe_inside;
use kennel_tests::{eventually, kennel, ran_within};

use crate::limits::{PATIENCE, cannot_limit, told_of};

#[test]
fn a_command_gets_exactly_the_processes_it_was_allowed() {
    if cannot_limit() {
        return;
    }
    let told = told_of::<&str>("fork-until-refused", &["--pids", "10"], &[]).ended(0, "");
    assert_eq!(told.ran.stdout, format!("9 {}\n", libc::EAGAIN), "itself is the tenth");
    let told = told.said("at most 10 processes were allowed (limits.pids); 1 more was refused");
    assert_eq!(told.report["pids_refused"], 1);
    // Kernels before 6.1 keep no peak.
    let most = &told.report["max_pids_seen"];
    assert!(most.is_null() || *most == 11, "kennel's init is the eleventh: {:#}", told.report);
}

#[test]
fn threads_are_counted_as_processes_are() {
    if cannot_limit() {
        return;
    }
    let told = told_of::<&str>("threads-until-refused", &["--pids", "10"], &[]).ended(0, "");
    assert_eq!(told.ran.stdout, format!("9 {}\n", libc::EAGAIN));
}

/// How long the quickest of a few sandboxes takes.
fn quickest(runs: u32) -> Duration {
    let run = || {
        let started = Instant::now();
        ran_within(PATIENCE, &mut kennel(["run", "--memory", "64M", "--", "true"])).ok();
        started.elapsed()
    };
    (0..runs).map(|_| run()).min().expect("at least one run")
}

#[test]
#[kennel_claim::claim("ends/limits-hold-for-all")]
fn a_fork_bomb_is_contained_and_others_run_on() {
    if cannot_limit() {
        return;
    }
    let alone = quickest(5);
    let marker = unique_sleep();
    let flags = ["--pids", "50", "--cpus", "0.5", "--timeout", "60s"];
    // Left to itself it would be 200 processes; more would endanger whoever runs this without a limit that holds.
    let mut bomb = probe_inside("crowd", &flags, &[&marker, "200"]).spawn().expect("kennel can be started");
    eventually("it has gone off", || (processes_with(&marker).len() >= 10).then_some(()));
    let beside = quickest(10);
    let most = processes_with(&marker).len();
    bomb.kill().and_then(|()| bomb.wait()).expect("a child can be killed");
    assert!(processes_left_with(&marker).is_empty());
    // Another run removes the cgroup that a killed controller leaves.
    quickest(1);
    assert!((10..=54).contains(&most), "{most} processes, kennel and init among them");
    assert!(beside <= alone * 5 + Duration::from_millis(100), "{alone:?} alone, {beside:?} beside it");
}
