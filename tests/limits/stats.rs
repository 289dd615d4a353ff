//! What is told about what was used: at the end, meanwhile, and to programs.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kennel::{Sandbox, SandboxError, Usage};
use kennel_tests::probe::executable;
use kennel_tests::{kennel, ran_within, role};

use crate::limits::{PATIENCE, cannot_limit, told_of};

#[test]
fn statistics_are_told_at_the_end() {
    if cannot_limit() {
        return;
    }
    let told = told_of("spin", &["--stats", "--cpus", "2"], &["300", "3"]).ended(0, "");
    let line = |what: &str| {
        let lines = told.ran.stderr.lines().filter_map(|line| line.strip_prefix("kennel: "));
        let found = lines.filter_map(|line| line.strip_prefix(what)).next();
        found.unwrap_or_else(|| panic!("{what}: {}", told.ran.stderr)).trim()
    };
    let seconds = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
    assert!(seconds(line("wall time")) >= 0.3);
    assert!(line("CPU time").contains(" s user, ") && seconds(line("CPU time")) > 0.0);
    assert!(line("peak memory").ends_with(" in total"));
    // Kernels before 6.1 keep no peak.
    assert!(["4", "not counted"].contains(&line("peak processes")), "{}", told.ran.stderr);
    assert_eq!(line("OOM kills"), "0");
}

#[test]
fn without_a_limit_a_cgroup_counts_where_root_makes_it() {
    let told = told_of("hog", &["--stats"], &["50000000"]).ended(0, "");
    if !kennel_tests::am_root() || cannot_limit() {
        return kennel_tests::skipped("only the top of the tree is sure to pass the memory controller on");
    }
    assert_eq!(told.report["peak_memory_of"], "all", "{:#}", told.report);
    assert!(told.number("peak_memory_bytes") >= 50e6, "{:#}", told.report);
}

/// A terminal of 24 rows: the end that shows it, and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: fills in two descriptors of a new terminal, which are nobody else's.
    unsafe {
        let null = std::ptr::null_mut();
        let result = libc::openpty(&raw mut ours, &raw mut theirs, null, std::ptr::null(), &raw const size);
        assert_eq!(result, 0, "a terminal can be had");
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(theirs, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn the_last_row_of_a_terminal_shows_what_is_used_and_is_given_back() {
    let (mut screen, end) = terminal();
    let mut command = kennel(["run", "--stats=live", "--", "sh", "-c", "sleep 1.6; echo over >&2"]);
    let mut child = command.env("TERM", "xterm").stderr(end).spawn().expect("kennel can be started");
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = screen.read_to_end(&mut shown);
    assert!(child.wait().expect("a child can be waited for").success());
    let shown = String::from_utf8_lossy(&shown);
    let (before, after) = shown.split_once("over").expect("the command's own output");
    assert!(before.contains("\x1b[1;23r"), "the region ends above the last row: {shown:?}");
    let rows = before.matches("\x1b[24;1H\x1b[2Kkennel: ").count();
    let most = if kennel_tests::is_emulated() { 20 } else { 4 };
    assert!((2..=most).contains(&rows), "{rows} times in 1.6 s: {shown:?}");
    let (given_back, rest) = after.split_once("\x1b[r\x1b[24;1H\x1b[2K").expect("the row is given back");
    assert!(!given_back.contains("wall time") && rest.contains("kennel: wall time"), "{shown:?}");
}

#[test]
fn without_a_terminal_nothing_is_shown_meanwhile() {
    let mut command = kennel(["run", "--stats=live", "--", "sleep", "0.8"]);
    let ran = ran_within(PATIENCE, command.env("TERM", "xterm")).ok();
    assert!(!ran.stderr.contains('\x1b') && ran.stderr.starts_with("kennel: wall time"), "{:?}", ran.stderr);
}

#[test]
fn a_program_is_told_what_its_child_uses() {
    if cannot_limit() {
        return;
    }
    let builder = Sandbox::builder().memory_limit(64 << 20).count_usage(true);
    let sandbox = builder.env(role::VARIABLE, "spin").build().unwrap();
    let mut child = sandbox.spawn(executable().to_str().unwrap(), &["60000", "2"]).unwrap();
    let cpu = |usage: Usage| usage.cpu_user.unwrap_or_default() + usage.cpu_system.unwrap_or_default();
    let usage = kennel_tests::eventually("two processes that compute", || {
        let usage = child.usage();
        (usage.processes == Some(3) && cpu(usage) > Duration::from_millis(50)).then_some(usage)
    });
    assert!(usage.memory.is_some_and(|bytes| bytes > 0), "{usage:?}");
    kennel_tests::eventually("more CPU time", || (cpu(child.usage()) > cpu(usage)).then_some(()));
    assert!(matches!(child.wait_timeout(Duration::from_millis(10)), Err(SandboxError::Timeout)));
    child.kill();
    child.wait_timeout(PATIENCE).unwrap();
    assert_eq!(child.usage(), Usage::default(), "nothing any more");
}

#[test]
fn the_clock_of_a_child_is_kept_while_its_parent_reads() {
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_millis(300)).build().unwrap();
    let mut child = sandbox.spawn("sleep", &["600"]).unwrap();
    let started = Instant::now();
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).unwrap();
    assert!(started.elapsed() < PATIENCE);
    let result = child.wait().unwrap();
    assert!(result.killed_by_timeout && result.exit_code == 124, "{result:?}");
}

/// On v2 a sandbox near its limit is slowed down until somebody sees to it.
#[test]
fn the_memory_of_a_child_is_seen_to_while_its_parent_reads() {
    if cannot_limit() {
        return;
    }
    let sandbox = Sandbox::builder().memory_limit(64 << 20).env(role::VARIABLE, "hog").build().unwrap();
    let mut child = sandbox.spawn(executable().to_str().unwrap(), &["300000000"]).unwrap();
    let started = Instant::now();
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).unwrap();
    let took = started.elapsed();
    assert!(child.wait().unwrap().killed_by_oom && text.is_empty());
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn another_word_than_live_is_a_mistake() {
    let mut command = kennel(["run", "--stats=often", "--", "true"]);
    let ran = ran_within(PATIENCE, command.stdin(Stdio::null())).expect_code(125);
    assert!(ran.stderr.contains("--stats=often: write --stats or --stats=live"), "{}", ran.stderr);
}

/// What three processes of the role `burn` use at least, in milliseconds, when each is told to use a hundred.
const BURNT: f64 = 290.0;

#[test]
#[kennel_claim::claim("ends/usage-is-counted")]
fn what_was_used_is_counted_when_time_is_up() {
    for flags in [&["--timeout", "4s"][..], &["--timeout", "4s", "--memory", "64M"]] {
        if flags.len() > 2 && cannot_limit() {
            continue;
        }
        let told = crate::limits::told_of("burn", flags, &["100"]);
        if told.ran.stdout.lines().count() < 3 {
            kennel_tests::skipped("this machine is too busy for 300 ms of CPU time in 4 s");
            continue;
        }
        let told = told.ended(124, "killed_by_timeout");
        let used = told.number("cpu_user_ms") + told.number("cpu_system_ms");
        assert!((BURNT..60_000.0).contains(&used), "{:#}", told.report);
        let of = if flags.len() > 2 { "all" } else { "largest-process" };
        assert_eq!(told.report["peak_memory_of"], of, "{:#}", told.report);
    }
}

#[test]
#[kennel_claim::claim("ends/usage-is-counted")]
fn what_was_used_is_counted_when_a_program_kills_its_child() {
    use std::io::BufRead;
    let sandbox = Sandbox::builder().env(role::VARIABLE, "burn").build().unwrap();
    let mut child = sandbox.spawn(executable().to_str().unwrap(), &["100"]).unwrap();
    let lines = std::io::BufReader::new(child.take_stdout().unwrap()).lines();
    assert_eq!(lines.take(3).map(Result::unwrap).collect::<Vec<_>>(), ["burnt"; 3]);
    child.kill();
    let result = child.wait_timeout(PATIENCE).unwrap();
    let used = result.cpu_time.unwrap().as_secs_f64() * 1000.0;
    assert!((BURNT..60_000.0).contains(&used), "{used} ms");
    assert_eq!((result.exit_code, result.killed_by_timeout), (137, false));
    assert!(!result.peak_memory_of_all);
}

#[test]
#[kennel_claim::claim("ends/usage-is-counted")]
fn what_outlives_the_command_is_counted_too() {
    let me = executable();
    let burn = format!("{}=burn {} 100", role::VARIABLE, me.display());
    let script = format!("mkfifo /tmp/burnt; {burn} >/tmp/burnt & head -n 3 </tmp/burnt; exit 3");
    let told = crate::limits::told_of_sh(&["--timeout", "60s"], &script).ended(3, "");
    let used = told.number("cpu_user_ms") + told.number("cpu_system_ms");
    assert!((BURNT..60_000.0).contains(&used), "{:#}", told.report);
}
