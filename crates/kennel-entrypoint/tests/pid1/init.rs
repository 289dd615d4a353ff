//! `AGENT_INIT=1`: the entrypoint stays as PID 1.

use std::time::{Duration, Instant};

use crate::container::{Container, Ending, LoneRoot, Ordinary, RemappedRoot, Root, each, quiet};

fn init() -> Container {
    Container::new().var("AGENT_INIT", "1")
}

#[test]
fn the_agent_is_a_child_that_leads_a_process_group() {
    // Fields of /proc/PID/stat: pid, (comm), state, ppid, pgrp.
    let script = "read -r pid comm state ppid pgrp rest < /proc/$$/stat; echo $((pid == pgrp)) $ppid; id -u";
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let run = init().script(script).run(identity);
        assert_eq!(run.text(), "1 1\n1000\n");
        assert_eq!(run.stderr, quiet(identity));
    });
}

#[test]
fn init_itself_has_dropped_to_the_agents_user() {
    each(&[Root, RemappedRoot], |identity| {
        let script = "grep -E '^(Uid|CapPrm):' /proc/1/status | tr -s '\\t' ' '";
        assert_eq!(
            init().script(script).run(identity).text(),
            "Uid: 1000 1000 1000 1000\nCapPrm: 0000000000000000\n"
        );
    });
}

#[test]
fn the_exit_code_is_the_agents() {
    each(&[Root, LoneRoot, Ordinary], |identity| {
        for code in [0, 1, 42, 255] {
            let container = init().args(["sh", "-c", &format!("exit {code}")]).without_passwd();
            assert_eq!(container.run(identity).ending, Ending::Exited(code));
        }
    });
}

#[test]
fn the_exit_code_of_an_agent_that_a_signal_ended_is_128_more_than_the_signal() {
    each(&[Root, Ordinary], |identity| {
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
            let container = init().args(["sh", "-c", &format!("kill -{signal} $$")]);
            assert_eq!(container.run(identity).ending, Ending::Exited(128 + signal));
        }
    });
}

#[test]
fn signals_are_handed_on_to_the_agents_whole_process_group() {
    let container = init().args([
        "sh",
        "-c",
        "trap 'wait; echo agent; exit 7' TERM
         sh -c 'trap \"echo grandchild; exit 0\" TERM; echo ready; while :; do sleep 0.05; done' &
         while :; do sleep 0.05; done",
    ]);
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let mut running = container.start(identity);
        assert_eq!(running.line(), "ready");
        running.signal(libc::SIGTERM);
        assert_eq!(running.line(), "grandchild");
        assert_eq!(running.line(), "agent");
        assert_eq!(running.finish().ending, Ending::Exited(7));
    });
}

#[test]
fn every_signal_that_can_be_caught_is_handed_on() {
    each(&[Root, Ordinary], |identity| {
        let names = ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "CONT", "WINCH"];
        let traps: String = names.iter().map(|name| format!("trap 'echo {name}' {name}\n")).collect();
        let script = format!("{traps}echo ready; while :; do sleep 0.02; done");
        let mut running = init().args(["sh", "-c", &script]).start(identity);
        assert_eq!(running.line(), "ready");
        let numbers = [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGTERM,
            libc::SIGCONT,
            libc::SIGWINCH,
        ];
        for (name, number) in names.iter().zip(numbers) {
            running.signal(number);
            assert_eq!(&running.line(), name);
        }
    });
}

/// Without init the same agent, as PID 1, would not even notice.
#[test]
fn an_agent_without_handlers_is_ended_by_sigterm() {
    each(&[Root, Ordinary], |identity| {
        let mut running = init().args(["sh", "-c", "echo ready; exec sleep 15"]).start(identity);
        assert_eq!(running.line(), "ready");
        running.signal(libc::SIGTERM);
        assert_eq!(running.finish().ending, Ending::Exited(128 + libc::SIGTERM));
    });
}

/// The states of PID 1's children: `S` for one that sleeps, `Z` for a zombie.
fn children(pid_1: libc::pid_t) -> String {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("stat"));
    let stats = processes.filter_map(|stat| std::fs::read_to_string(stat).ok());
    // pid (name) state parent …
    let states = stats.filter_map(|stat| {
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.to_owned();
        (fields.next()? == pid_1.to_string()).then_some(state)
    });
    let mut states: Vec<_> = states.collect();
    states.sort();
    states.concat()
}

#[test]
fn orphans_are_reaped() {
    // Twenty processes whose parent ends at once, and an agent that never waits for anything.
    let orphans = "i=0; while [ $i -lt 20 ]; do ( sleep 1 & ); i=$((i + 1)); done; echo ready; exec sleep 15";
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let left_with = |container: Container, expected: &dyn Fn(&str) -> bool| {
            let mut running = container.args(["sh", "-c", orphans]).start(identity);
            assert_eq!(running.line(), "ready");
            let deadline = Instant::now() + Duration::from_secs(10);
            while !expected(&children(running.pid())) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            let states = children(running.pid());
            assert!(expected(&states), "{states}");
        };
        left_with(init(), &|states| states == "S");
        // An agent that is PID 1 itself keeps them all, but for the odd one that the shell met before it became `sleep`.
        left_with(Container::new(), &|states| states.starts_with("ZZZZZZZZZZ"));
    });
}

#[test]
fn what_the_agent_leaves_running_ends_with_it() {
    each(&[Root, Ordinary], |identity| {
        let started = Instant::now();
        let run = init().args(["sh", "-c", "sleep 15 & exit 3"]).run(identity);
        assert_eq!(run.ending, Ending::Exited(3));
        // `run` reads stdout to its end, which a surviving `sleep` would hold open.
        assert!(started.elapsed().as_secs() < 10);
    });
}

#[test]
fn the_agent_cannot_end_pid_1() {
    each(&[Root, Ordinary], |identity| {
        let run = init()
            .args(["sh", "-c", "kill -KILL 1; kill -STOP 1; kill -SEGV 1; sleep 0.1; exit 9"])
            .run(identity);
        assert_eq!(run.ending, Ending::Exited(9), "{run:?}");
    });
}

#[test]
fn on_a_terminal_the_agent_is_the_foreground_job() {
    each(&[Root, Ordinary], |identity| {
        let script = "read -r line; echo \"got $line\"; exit 6";
        let mut running = init().args(["sh", "-c", script]).start_on_terminal(identity);
        running.type_in("hello\n");
        while running.line() != "got hello" {}
        assert_eq!(running.finish().ending, Ending::Exited(6));
    });
}

#[test]
fn control_c_on_a_terminal_reaches_the_agent() {
    each(&[Root, Ordinary], |identity| {
        let mut running = init().args(["sh", "-c", "echo ready; exec sleep 15"]).start_on_terminal(identity);
        while running.line() != "ready" {}
        // The shell may not have become `sleep` yet; either is ended by it.
        running.type_in("\x03");
        assert_eq!(running.finish().ending, Ending::Exited(128 + libc::SIGINT));
    });
}

#[test]
fn as_an_ordinary_process_it_reaps_orphans_too() {
    // Not PID 1 here: a shared PID namespace. The orphan's parent must be the entrypoint, not the host's init.
    let output = std::process::Command::new(crate::binary::entrypoint())
        .args(["sh", "-c", "( sh -c 'sleep 0.2; read -r pid comm state ppid rest < /proc/$$/stat; echo $ppid' & ); echo $PPID; sleep 0.6"])
        .env("AGENT_INIT", "1")
        .env("AGENT_WORKDIR", "/")
        .env("AGENT_USER", "root")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    assert_eq!(lines[0], lines[1], "{output:?}");
}

/// Interval timers survive an exec, and each of their signals ends a process that does not expect it.
#[test]
fn a_timer_of_whoever_started_the_container_does_not_end_the_agent() {
    use std::os::unix::process::CommandExt;
    let timers = [(libc::ITIMER_REAL, "ALRM"), (libc::ITIMER_VIRTUAL, "VTALRM"), (libc::ITIMER_PROF, "PROF")];
    for (timer, signal) in timers {
        let started = |program: &std::path::Path, words: &[&str]| {
            let mut command = std::process::Command::new(program);
            command.args(words).env("AGENT_WORKDIR", "/");
            // SAFETY: a plain call between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    let time = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
                    let value = libc::itimerval { it_interval: time, it_value: time };
                    libc::syscall(libc::SYS_setitimer, timer, &raw const value, 0);
                    Ok(())
                });
            }
            command.output().unwrap()
        };
        // It uses time of all three kinds.
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo done";
        let outside = started(std::path::Path::new("/bin/sh"), &["-c", busy]);
        assert!(!outside.status.success(), "SIG{signal} ends what does not expect it: {outside:?}");
        let agent = started(&crate::binary::entrypoint(), &["sh", "-c", busy]);
        assert_eq!(String::from_utf8_lossy(&agent.stdout), "done\n", "SIG{signal}: {agent:?}");
    }
}
