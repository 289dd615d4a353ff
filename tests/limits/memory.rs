//! The limit on memory, and who is told to have hit it.

use std::process::Command;

use crate::limits::{cannot_limit, is_unified, told_of, told_of_sh};

const LIMIT: &[&str] = &["--memory", "64M"];
/// What the kernel may go over or stop short by: it charges in batches.
const SLACK: f64 = 4.0 * 1024.0 * 1024.0;

#[test]
#[kennel_claim::claim("ends/limits-hold-for-all")]
fn a_memory_hog_is_killed_and_the_limit_is_named() {
    if cannot_limit() {
        return;
    }
    let told = told_of("hog", LIMIT, &["300000000"]).ended(137, "killed_by_oom");
    let told = told.said("memory ran out at 64M (limits.memory); the command was killed");
    assert!(told.number("oom_kills") >= 1.0, "{:#}", told.report);
    let beyond = told.number("peak_memory_bytes") - 64.0 * 1024.0 * 1024.0;
    assert!(beyond.abs() <= SLACK, "{:#}", told.report);
    assert_eq!(told.report["peak_memory_of"], "all");
}

#[test]
fn a_program_that_stays_below_its_limit_is_left_alone() {
    if cannot_limit() {
        return;
    }
    let told = told_of("hog", LIMIT, &["50000000"]).ended(0, "");
    assert_eq!(told.ran.stdout, "used\n");
    assert_eq!(told.report["oom_kills"], 0);
    assert!(told.number("peak_memory_bytes") >= 50e6, "{:#}", told.report);
    assert!(told.ran.stderr.is_empty(), "{}", told.ran.stderr);
}

#[test]
fn the_same_program_takes_what_it_wants_without_a_limit() {
    let mut outside = Command::new(kennel_tests::probe::executable());
    outside.arg("300000000").env(kennel_tests::role::VARIABLE, "hog");
    assert_eq!(kennel_tests::ran(&mut outside).ok().stdout, "used\n");
}

#[test]
fn somebody_elses_sigkill_is_not_called_out_of_memory() {
    if cannot_limit() {
        return;
    }
    let told = told_of_sh(LIMIT, "kill -KILL $$").ended(137, "");
    assert_eq!((&told.report["signal"], &told.report["ended"]), (&9.into(), &"signalled".into()));
    assert!(!told.ran.stderr.contains("memory"), "{}", told.ran.stderr);
}

/// On v1 the killer takes the one process, and the command goes on; on v2 nothing goes on with a part of it missing.
#[test]
fn a_hog_in_a_grandchild_is_told_even_if_the_command_goes_on() {
    if cannot_limit() {
        return;
    }
    let told = told_of("hog-child", LIMIT, &["300000000", "5"]);
    let told = if is_unified() {
        told.ended(137, "killed_by_oom").said("the command was killed")
    } else {
        let said = "memory ran out at 64M (limits.memory); 1 process was killed, the command went on";
        told.ended(5, "").said(said)
    };
    assert!(told.number("oom_kills") >= 1.0, "{:#}", told.report);
}

#[test]
fn files_in_tmp_count_as_memory() {
    if cannot_limit() {
        return;
    }
    let flags = ["--memory", "64M", "--tmp-size", "512M"];
    told_of("fill-tmp", &flags, &["200000000"]).ended(137, "killed_by_oom");
    let flags = ["--memory", "512M", "--tmp-size", "512M"];
    let told = told_of("fill-tmp", &flags, &["100000000"]).ended(0, "");
    assert!(told.number("peak_memory_bytes") >= 100e6, "{:#}", told.report);
}

#[test]
fn a_full_tmp_is_an_error_and_not_the_hosts_memory() {
    let told = told_of("fill-tmp", &["--tmp-size", "8M"], &["100000000"]).ended(3, "");
    let (fitted, error) = told.ran.stdout.trim().split_once(' ').expect("two numbers");
    assert_eq!(error.parse(), Ok(libc::ENOSPC));
    assert!(fitted.parse::<u64>().is_ok_and(|bytes| bytes <= 8 << 20), "{fitted}");
}

#[test]
fn what_tcp_holds_in_its_buffers_counts_as_memory() {
    if cannot_limit() {
        return;
    }
    let filled = |flags: &[&str]| {
        let told = told_of("fill-sockets", flags, &["300000000"]);
        told.ran.stdout.trim().parse::<f64>().ok()
    };
    let without = filled(&[]).expect("it runs to its end");
    // Small machines give TCP less of themselves.
    assert!(without >= 130e6, "only {without} bytes without a limit");
    // On v2 the sandbox may be killed for it instead.
    let with = filled(LIMIT).unwrap_or(0.0);
    assert!(with <= 100e6, "{with} bytes under a limit of 64M");
}
