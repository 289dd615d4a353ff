//! The terminal where there are no namespaces: of the host's, but the command's own, and stopped as a whole.

use std::process::Command;
use std::time::Duration;

use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::pty::{Pty, exit_code, is_terminal};
use kennel_tests::{Scratch, eventually, file_size, program, ran_within, skipped, stays_as_it_is};

use crate::hosts::world::{Lack, kennel_in, landlock_at_least};

const LACK: &[Lack] = &[Lack::UserNamespaces];

fn kennel(flags: &[&str], script: &str) -> Option<Command> {
    if !landlock_at_least(1) {
        return None;
    }
    let mut words = vec!["run", "--no-settings", "--best-effort", "--quiet"];
    words.extend(flags);
    words.extend(["--", "sh", "-c", script]);
    kennel_in(LACK, words)
}

#[test]
fn the_command_has_a_terminal_of_its_own() {
    let sleep = unique_sleep();
    let script = format!("setsid sleep {sleep} & tty; stty size; read x; echo got-$x-$((1+1)); read x");
    let Some(mut command) = kennel(&[], &script) else { return };
    let terminal = Pty::new(&[]);
    terminal.resize(33, 99);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for("33 99");
    terminal.type_bytes(b"hello\r");
    let shown = terminal.wait_for("got-hello-2");
    let own = rustix::termios::ttyname(terminal.program(), Vec::new()).unwrap();
    assert!(!shown.contains(&format!("{}\r\n", own.to_str().unwrap())), "{shown:?}");
    eventually("the other session runs", || {
        (!processes_with(&format!(" {}", &*sleep)).is_empty()).then_some(())
    });
    for line in processes_with(&format!("sleep {}", &*sleep)) {
        let pid = line.split(':').next().unwrap();
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let held: Vec<_> = fds.map(|fd| fd.path()).filter(|path| is_terminal(&terminal, path)).collect();
        // The controller has it, and it alone.
        let controller = pid == child.id().to_string();
        assert_eq!(held.is_empty(), !controller, "{line}: {held:?}");
    }
    terminal.type_bytes(b"\x03");
    assert_eq!(exit_code(&mut child), 130);
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}

#[test]
fn a_stop_stops_everything_inside_and_fg_continues_it() {
    if program("bash").is_none() {
        return skipped("bash is not installed");
    }
    let scratch = Scratch::new();
    let script = "setsid sh -c 'while :; do echo x >>ticks; sleep 0.02; done' & echo go-$((1+1)); read x; echo got-$x-$((1+2))";
    let Some(command) = kennel(&["--allow-write", "."], script) else { return };
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    scratch.write("run.sh", &format!("exec {}", words.join(" ")));
    let terminal = Pty::new(&[]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).current_dir(scratch.path());
    shell
        .env("PS1", "ready> ")
        .env(kennel_tests::role::VARIABLE, "world")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    let mut child = terminal.spawn(&mut shell, [true; 3]);
    terminal.wait_for("ready> ");
    terminal.type_bytes(b"sh run.sh\r");
    terminal.wait_for("go-2");
    let size = || file_size(&scratch.join("ticks"));
    eventually("it runs", || (size() > 4).then_some(()));
    terminal.type_bytes(b"\x1a");
    terminal.wait_for("Stopped");
    let before = size();
    stays_as_it_is(&scratch.join("ticks"));
    terminal.type_bytes(b"fg\r");
    eventually("it goes on", || (size() > before + 4).then_some(()));
    terminal.type_bytes(b"hello\r");
    terminal.wait_for("got-hello-3");
    terminal.type_bytes(b"exit\r");
    assert_eq!(exit_code(&mut child), 0);
}

/// Here init is an ordinary process, and the command may stop it; the time is up all the same.
#[test]
fn the_clock_goes_on_when_the_command_stops_init() {
    let sleep = unique_sleep();
    let script = format!("setsid sleep {sleep} & kill -STOP $PPID; exec sleep {sleep}");
    let Some(mut command) = kennel(&["--timeout", "1s"], &script) else { return };
    ran_within(Duration::from_secs(20), &mut command).expect_code(124);
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}
