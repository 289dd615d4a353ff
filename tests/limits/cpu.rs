//! Limits on CPU: how much at a time, and how much in all. And on time by the clock, to be told apart from it.

use kennel_tests::skipped;

use crate::limits::{cannot_limit, told_of, told_of_sh};

#[test]
#[kennel_claim::claim("ends/limits-hold-for-all")]
fn a_cpu_hog_is_held_to_half_a_cpu() {
    if cannot_limit() {
        return;
    }
    let mut most = 0.0;
    for _ in 0..4 {
        let told = told_of("spin", &["--cpus", "0.5"], &["2500", "4"]).ended(0, "");
        let used = (told.number("cpu_user_ms") + told.number("cpu_system_ms")) / told.number("wall_time_ms");
        assert!(used <= 0.55, "{used} CPUs: {:#}", told.report);
        most = f64::max(most, used);
        if used >= 0.45 {
            assert!(told.number("cpu_throttled_ms") > 0.0, "{:#}", told.report);
            return;
        }
    }
    // The limit is no promise that there is half a CPU to be had.
    skipped(&format!("this machine is too busy to give anybody half a CPU: at most {most:.2}"));
}

#[test]
fn a_busy_loop_is_stopped_by_its_cpu_time() {
    let told = told_of("spin", &["--cpu-time", "1s"], &["60000", "1"]).ended(152, "killed_by_cpu_time");
    let told = told.said("used up its 1s of CPU time (limits.cpu_time)");
    let used = told.number("cpu_user_ms") + told.number("cpu_system_ms");
    // The kernel looks at its ticks, which an emulated machine is late with.
    assert!((500.0..20_000.0).contains(&used), "{:#}", told.report);
}

#[test]
fn one_that_is_deaf_to_the_warning_is_stopped_a_second_later() {
    let told = told_of::<&str>("stubborn-spin", &["--cpu-time", "1s"], &[]);
    told.ended(152, "killed_by_cpu_time").said("used up its 1s of CPU time");
}

#[test]
fn the_same_signal_from_somebody_else_is_not_called_cpu_time() {
    told_of_sh(&["--cpu-time", "5s"], "kill -XCPU $$").ended(152, "");
    told_of_sh(&["--cpu-time", "5s"], "kill -KILL $$").ended(137, "");
}

#[test]
fn a_sleeping_command_is_stopped_by_the_clock_and_not_by_cpu_time() {
    let flags = ["--timeout", "1s", "--cpu-time", "1s"];
    let told = told_of_sh(&flags, "sleep 60").ended(124, "killed_by_timeout");
    let told = told.said("timed out after 1s (limits.timeout)");
    // The limit covers the start too, and the command begins after that.
    assert!(told.number("wall_time_ms") >= 500.0, "{:#}", told.report);
}
