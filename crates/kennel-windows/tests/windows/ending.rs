//! How commands end, and that nothing is left of them.

use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use kennel_windows::KILLED;
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use super::*;

#[test]
fn a_command_ends_by_itself_with_its_own_code() {
    for code in [0u32, 1, 3, 137, 259, 0xC000_0005] {
        assert_eq!(probe(&policy(), &["exit", &code.to_string()]).end().code, code);
    }
}

#[test]
fn waiting_ends_in_time_and_the_command_goes_on() {
    let mut run = probe(&policy(), &["sleep", "600"]);
    let began = Instant::now();
    let end = run.sandboxed.wait(Some(began + Duration::from_millis(300))).expect("it can be waited for");
    assert!(end.is_none() && began.elapsed() >= Duration::from_millis(290));
    (run.sandboxed.killer())();
    assert_eq!(run.end().code, KILLED);
}

#[test]
#[kennel_claim::claim("windows/everything-ends")]
fn killing_ends_children_and_their_children() {
    let mut run = probe(&policy(), &["tree", "3"]);
    let tree: Vec<Watched> = (0..4).map(|_| Watched::new(&run.line())).collect();
    assert!(tree.iter().all(|process| !process.ends_within(Duration::ZERO)));
    let killer = run.sandboxed.killer();
    std::thread::spawn(killer).join().expect("it kills from another thread");
    assert_eq!(run.end().left, 0);
    assert!(tree.iter().all(|process| process.ends_within(Duration::from_secs(10))));
}

#[test]
#[kennel_claim::claim("windows/everything-ends")]
fn a_detached_child_ends_with_the_command() {
    let mut run = probe(&policy(), &["leave"]);
    let child = Watched::new(&run.line());
    assert_eq!(run.end().code, 0);
    assert!(child.ends_within(Duration::from_secs(10)));
}

#[test]
fn dropping_ends_everything() {
    let mut run = probe(&policy(), &["tree", "1"]);
    let tree: Vec<Watched> = (0..2).map(|_| Watched::new(&run.line())).collect();
    drop(run);
    assert!(tree.iter().all(|process| process.ends_within(Duration::from_secs(10))));
}

#[test]
fn everything_ends_when_its_controller_is_killed() {
    let mut controller =
        Command::new(probe_path()).arg("controller").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = BufReader::new(controller.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints");
        line.trim_end().to_owned()
    };
    let tree: Vec<Watched> = (0..2).map(|_| Watched::new(&line())).collect();
    assert!(tree.iter().all(|process| !process.ends_within(Duration::ZERO)));
    controller.kill().expect("it can be killed");
    controller.wait().expect("it ends");
    assert!(tree.iter().all(|process| process.ends_within(Duration::from_secs(20))));
}

#[test]
fn processes_are_counted() {
    let mut run = probe(&policy(), &["tree", "2"]);
    (0..3).for_each(|_| drop(run.line()));
    // The one that serves its console may be a fourth.
    let counted = (run.sandboxed.meter())().processes;
    assert!(matches!(counted, Some(3 | 4)), "{counted:?}");
    (run.sandboxed.killer())();
    assert_eq!(Some(run.end().most_processes), counted);
    assert_eq!((run.sandboxed.meter())().processes, Some(0));
}

#[test]
fn cpu_time_and_memory_are_counted() {
    if skipped("accounting of CPU time and memory in jobs") {
        return;
    }
    let end = probe(&policy(), &["spin", "1"]).end();
    assert!(end.cpu_user + end.cpu_system > Duration::from_millis(300), "{end:?}");
    let end = probe(&policy(), &["allocate", "50000000"]).end();
    assert!(end.peak_memory >= 50_000_000, "{end:?}");
}

#[test]
#[kennel_claim::claim("windows/limits-hold-for-all")]
fn memory_runs_out_at_the_limit_and_is_told() {
    let mut policy = policy();
    policy.limits.memory = Some(64 << 20);
    assert!(!probe(&policy, &["allocate", "1000"]).end().out_of_memory);
    if skipped("limits on memory") {
        return;
    }
    let end = probe(&policy, &["allocate", "500000000"]).end();
    assert!(end.out_of_memory && end.code != 0, "{end:?}");
}

#[test]
#[kennel_claim::claim("windows/limits-hold-for-all")]
fn one_process_too_many_is_refused_and_counted() {
    let mut policy = policy();
    policy.limits.pids = Some(2);
    if skipped("limits on processes") {
        return;
    }
    let mut run = probe(&policy, &["tree", "3"]);
    (0..2).for_each(|_| drop(run.line()));
    assert!(run.sandboxed.wait(Some(Instant::now() + Duration::from_secs(3))).expect("waited").is_none());
    (run.sandboxed.killer())();
    let end = run.end();
    assert!(end.refused >= 1 && end.most_processes == 2, "{end:?}");
}

#[test]
#[kennel_claim::claim("windows/limits-hold-for-all")]
fn cpu_time_is_used_up() {
    let mut policy = policy();
    policy.limits.cpu_time = Some(Duration::from_secs(1));
    if skipped("limits on CPU time") {
        return;
    }
    let end = probe(&policy, &["spin", "60"]).end();
    assert!(end.time_used_up, "{end:?}");
}

#[test]
#[kennel_claim::claim("windows/limits-hold-for-all")]
fn a_share_of_the_processors_is_set_or_nothing_starts() {
    let mut policy = policy();
    policy.limits.cpus = Some(0.1);
    let run = try_launch(&policy, &words(&[probe_path(), "exit", "0"]));
    if kennel_windows::host::wine_version().is_some() {
        // It does not know this limit, and says so: then nothing runs without it.
        let error = run.err().expect("it is not limited").to_string();
        assert!(error.starts_with("limiting CPU of the job object: "), "{error}");
        skipped("limits on CPU");
        return;
    }
    assert_eq!(run.expect("it starts").end().code, 0);
}

#[test]
fn ctrl_break_reaches_the_command_and_not_its_controller() {
    // On a console of its own, so that nobody else hears it.
    let mut command = Command::new(probe_path());
    command.arg("send-break").creation_flags(CREATE_NO_WINDOW).stdin(Stdio::null());
    let end = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&end.stdout).into_owned();
    if end.status.code() == Some(98) && kennel_windows::host::wine_version().is_some() {
        // Not to a plain child either.
        skipped("Ctrl-Break: it cannot be sent");
        return;
    }
    assert_eq!((end.status.code(), said.trim_end()), (Some(0), "42"));
}

#[test]
fn many_threads_start_many_commands() {
    let policy = Arc::new(policy());
    let threads: Vec<_> = (0..4u32)
        .map(|thread| {
            let policy = Arc::clone(&policy);
            std::thread::spawn(move || {
                for round in 0..4u32 {
                    let code = thread * 10 + round;
                    assert_eq!(probe(&policy, &["exit", &code.to_string()]).end().code, code);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all is well"));
}
