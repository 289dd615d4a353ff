//! PID 1: reaps what is orphaned, forwards signals, ends with its controller, holds nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kennel_tests::{Scratch, am_root, eventually, kennel, kennel_bin, program, ran, run_sh, skipped};

#[test]
fn orphans_and_double_forks_leave_no_zombies() {
    let script = "for i in $(seq 50); do (sh -c 'sleep 0.05 & exit' &) ; done; sleep 1;
        for p in /proc/[0-9]*; do grep -h '^State' $p/status 2>/dev/null; done | grep -c Z; ls -d /proc/[0-9]* | wc -l";
    let told = run_sh::<&str>([], script);
    let numbers: Vec<u32> = told.ok().stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers[0], 0, "zombies");
    assert!(numbers[1] <= 6, "{} processes are left", numbers[1]);
}

#[test]
fn orphans_become_children_of_pid_1() {
    // The substitution ends when the orphan, which holds its pipe, has ended.
    let told = run_sh::<&str>([], "echo $( (sh -c 'sleep 0.3; grep PPid /proc/self/status' &) )").ok();
    // grep is a child of the orphaned shell, or has replaced it.
    assert!(told.stdout.starts_with("PPid:"), "{told:?}");
    let told = run_sh::<&str>([], "echo $( (sh -c 'sleep 0.3; exec cat /proc/$$/stat' &) )").ok();
    assert_eq!(told.stdout.split(' ').nth(3), Some("1"), "{told:?}");
}

/// A sandbox with a shell that says which signals it gets.
fn listening() -> (Child, BufReader<std::process::ChildStdout>) {
    let script = "for s in HUP INT QUIT TERM USR1 USR2 WINCH CONT; do trap \"echo got $s\" $s; done; trap 'exit 0' PIPE;
        echo ready; while :; do sleep 0.05; done";
    let mut child = kennel(["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, lines)
}

fn send(pid: u32, signal: i32) {
    // SAFETY: a plain call on a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0);
}

#[test]
fn signals_to_kennel_reach_the_command() {
    let (mut child, mut lines) = listening();
    let signals = [
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGTERM, "TERM"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGWINCH, "WINCH"),
    ];
    for (number, name) in signals {
        send(child.id(), number);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, format!("got {name}\n"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_command_that_a_forwarded_signal_ends_is_reported_so() {
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129), (libc::SIGUSR1, 138)] {
        let mut child = kennel(["run", "--", "sh", "-c", "echo ready; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        send(child.id(), signal);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{status:?}");
    }
}

#[test]
fn everything_inside_dies_with_its_controller() {
    let (mut child, mut lines) = listening();
    child.kill().unwrap();
    child.wait().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = lines.read_to_end(&mut rest);
        let _ = sender.send(());
    });
    // The shell inside holds the pipe's other end: it ends only with the shell.
    receiver.recv_timeout(Duration::from_secs(10)).expect("the command outlived its controller");
}

#[test]
fn everything_inside_dies_with_the_command() {
    let marker = kennel_tests::leftovers::unique_sleep();
    run_sh::<&str>([], &format!("setsid sleep {marker} & (sleep {marker} &) ; sleep 0.1; exit 5"))
        .expect_code(5);
    assert_eq!(kennel_tests::leftovers::processes_left_with(&marker), Vec::<String>::new());
}

/// PID 1 of the sandbox that a kennel runs, as the host numbers it.
fn init_of(kennel: u32) -> u32 {
    eventually("kennel has a child", || kennel_tests::leftovers::children_of(kennel).first().copied())
}

#[test]
#[kennel_claim::claim("processes/pid-1-holds-no-descriptor")]
fn pid_1_holds_its_link_and_its_signals_and_no_other_descriptor() {
    if !am_root() {
        return skipped("only root can look at PID 1's descriptors from outside");
    }
    let (mut child, _lines) = listening();
    let init = init_of(child.id());
    let held = || -> Vec<String> {
        let files = std::fs::read_dir(format!("/proc/{init}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| Some(std::fs::read_link(file.path()).ok()?.display().to_string())).collect()
    };
    eventually("PID 1 waits for signals", || {
        held().iter().any(|name| name.contains("signalfd")).then_some(())
    });
    let held = held();
    assert_eq!(held.len(), 2, "{held:?}");
    assert!(held.iter().any(|name| name.starts_with("socket:")), "{held:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_pid_1_ends_the_sandbox() {
    let (mut child, _lines) = listening();
    let init = init_of(child.id());
    let killed = Command::new("kill").args(["-9", &init.to_string()]).status().unwrap();
    assert!(killed.success(), "whoever started a sandbox may kill its PID 1");
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

/// Whoever makes the network is killed in the middle of it: a command would find itself in the host's.
#[test]
#[kennel_claim::claim("privileges/no-network-no-command")]
fn without_a_network_that_was_finished_there_is_no_command() {
    let Some(strace) = program("strace") else { return skipped("strace is not installed") };
    let scratch = Scratch::new();
    let mut command = Command::new(strace);
    command.args(["-f", "-qq", "-o"]).arg(scratch.join("trace"));
    command.args(["-e", "trace=unshare", "-e", "inject=unshare:signal=SIGKILL:when=1"]);
    command.arg(kennel_bin()).args(["run", "--no-settings", "--", "echo", "it runs"]);
    let told = ran(&mut command);
    if told.stderr.contains("ptrace") {
        return skipped("strace cannot trace here");
    }
    let trace = std::fs::read_to_string(scratch.join("trace")).unwrap();
    assert!(trace.contains("unshare(CLONE_NEWNET)"), "nobody was killed: {trace}");
    assert_eq!((told.code, told.stdout.as_str()), (125, ""), "{told:?}");
    assert!(told.stderr.contains("create an empty network"), "{told:?}");
}

/// Every user namespace has files of its own there under the same names, and processors that look for them at once wait for
/// each other: sixteen started half as many sandboxes as eight.
#[test]
fn a_start_opens_nothing_of_the_hosts_proc_sys() {
    let Some(strace) = program("strace") else { return skipped("strace is not installed") };
    let scratch = Scratch::new();
    let ways: [&[&str]; 6] = [
        &[],
        &["--net", "host"],
        &["--allow-domain", "example.com"],
        &["--reads", "listed"],
        &["--seccomp", "permissive"],
        &["--deny-read", "/proc"],
    ];
    for flags in ways {
        let mut command = Command::new(&strace);
        command.args(["-f", "-qq", "-y", "-o"]).arg(scratch.join("trace"));
        command.args(["-e", "trace=open,openat,openat2"]);
        command.arg(kennel_bin()).args(["run", "--no-settings"]).args(flags).args(["--", "true"]);
        let told = ran(&mut command);
        if told.stderr.contains("ptrace") {
            return skipped("strace cannot trace here");
        }
        assert_eq!(told.code, 0, "{told:?}");
        let trace = std::fs::read_to_string(scratch.join("trace")).unwrap();
        // By its path it is the host's; the sandbox's own is reached from a descriptor that leads nowhere yet.
        let hosts: Vec<&str> = trace.lines().filter(|line| line.contains("\"/proc/sys")).collect();
        assert!(hosts.is_empty(), "{flags:?}: {hosts:#?}");
        for limit in ["max_inotify_instances", "max_inotify_watches"] {
            let set = trace.lines().filter(|line| line.contains(&format!("\"{limit}\"")));
            assert_eq!(set.count(), 1, "{flags:?}: {trace}");
        }
    }
}
