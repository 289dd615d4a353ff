//! Signals: to processes outside, to the controller, to PID 1.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use kennel_tests::probe::{Arg, Script, probe_inside, probe_outside};
use kennel_tests::{args, kennel, ran, run_sh};
use libc::{EPERM, ESRCH};

use crate::escape::yard::EVERY_WAY;

#[test]
#[kennel_claim::claim("processes/outside-is-invisible")]
fn no_call_signals_an_outside_process_by_its_number() {
    let mut victim = Command::new("sleep").arg("60").process_group(0).stdin(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(victim.id()).unwrap();
    let script = Script::new()
        .call(libc::SYS_kill, args![pid, 0])
        .call(libc::SYS_tkill, args![pid, 0])
        .call(libc::SYS_tgkill, args![pid, pid, 0])
        .call(libc::SYS_kill, args![-pid, 0]);
    let outside = script.outside();
    outside.ok_all(0..4);
    for more in EVERY_WAY {
        let inside = script.inside(more);
        inside.refused_all(0..4, &[ESRCH, EPERM]);
    }
    assert!(victim.try_wait().unwrap().is_none());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// A descriptor names a process across namespaces: the number in it needs no translation. Landlock's scope for
/// signals (Linux 6.12) stands in the way.
#[test]
fn a_kept_pidfd_of_an_outside_process_cannot_be_signalled() {
    let mut victim = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(victim.id()).unwrap()).unwrap();
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let script = Script::new().call(libc::SYS_pidfd_send_signal, args![9, 0, 0, 0]);
    let run = |mut command: Command| {
        use std::os::fd::AsRawFd;
        let from = rustix::io::fcntl_dupfd_cloexec(&pidfd, 500).unwrap();
        // SAFETY: dup2 is safe between fork and exec; the descriptor lives until then.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(from.as_raw_fd(), 9) < 0 {
                    Err(std::io::Error::last_os_error())
                } else {
                    Ok(())
                }
            })
        };
        script.told(ran(&mut command))
    };
    run(probe_outside("calls", script.words())).ok(0);
    if landlock_version() < 6 {
        victim.kill().unwrap();
        victim.wait().unwrap();
        return kennel_tests::skipped("this kernel's Landlock has no scope for signals");
    }
    for more in EVERY_WAY {
        let flags = [&["--keep-fd", "9"][..], more].concat();
        run(probe_inside("calls", &flags, script.words())).refused(0, &[EPERM, libc::EINVAL]);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

fn landlock_version() -> i64 {
    // SAFETY: with the version flag the kernel takes no pointer.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1usize) }
}

#[test]
#[kennel_claim::claim("processes/kill-reaches-only-inside")]
fn kill_minus_one_and_kill_zero_reach_neither_the_controller_nor_its_caller() {
    // In a process group with kennel, as in a pipeline of a shell; whoever is hit dies and the test sees it.
    for (words, code) in [("kill -9 -1; exit 3", 3), ("kill -9 0; exit 3", 137), ("kill -STOP -1; exit 3", 3)]
    {
        for more in EVERY_WAY {
            let mut command = Command::new("sh");
            let line = format!(
                "{} run {} -- sh -c '{words}'; echo code $?",
                kennel_tests::kennel_bin().display(),
                more.join(" ")
            );
            let told = ran(command.args(["-c", &line]).process_group(0).stdin(Stdio::null()));
            assert_eq!(told.stdout, format!("code {code}\n"), "{words} with {more:?}: {told:?}");
        }
    }
}

#[test]
fn pid_1_cannot_be_killed_stopped_or_traced_from_inside() {
    let script = Script::new()
        .call(libc::SYS_kill, args![1, libc::SIGKILL])
        .call(libc::SYS_kill, args![1, libc::SIGSTOP])
        .call(libc::SYS_pidfd_open, args![1, 0])
        .call(libc::SYS_pidfd_send_signal, args![Arg::Answer(2), libc::SIGKILL, 0, 0])
        .call(libc::SYS_tgkill, args![1, 1, libc::SIGKILL])
        .call(libc::SYS_getpid, args![]);
    for more in EVERY_WAY {
        let told = script.inside(more);
        assert_eq!(told.ran.code, 0, "PID 1 went on and told the end of the command: {told:?}");
        told.ok(5);
    }
    // Stopped for good it could neither reap nor forward.
    let told = run_sh(
        ["--seccomp", "none"],
        "kill -STOP 1; sleep 0.2; (sleep 0.1 &); sleep 0.5; cat /proc/1/status",
    );
    assert!(!told.ok().stdout.contains("State:\tT"));
}

#[test]
fn the_command_has_no_handle_on_the_controller() {
    // The parent of PID 1 lives outside: its number is 0, and 0 is the caller's own group to kill.
    let told =
        run_sh(["--seccomp", "none"], "awk '/^PPid/ {print $2}' /proc/1/status; ls /proc | grep -c '^[0-9]'");
    let told = told.ok();
    let mut lines = told.stdout.lines();
    assert_eq!(lines.next(), Some("0"));
    let seen: u32 = lines.next().unwrap().parse().unwrap();
    assert!(seen <= 5, "only the sandbox's own processes are there: {told:?}");
}

#[test]
fn a_stopped_or_slowed_pid_1_does_not_outlive_its_time() {
    let script = "for i in 1 2 3; do renice -n 19 -p 1 >/dev/null 2>&1; done; taskset -p 1 1 >/dev/null 2>&1; kill -STOP -1; sleep 60";
    let mut command = kennel(["run", "--timeout", "2s", "--seccomp", "none", "--", "sh", "-c", script]);
    let told = kennel_tests::ran_within(std::time::Duration::from_secs(30), &mut command);
    assert_eq!(told.code, 124, "{told:?}");
}
