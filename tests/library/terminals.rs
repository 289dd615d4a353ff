//! A command on a terminal of its own, whose other side is the program's.

use std::io::{BufRead, BufReader, Read, Write};

use kennel::{Child, Ended, Sandbox};

fn on_terminal(script: &str) -> Child {
    let sandbox = Sandbox::builder().build().expect("the default configuration");
    let spawned = sandbox.command("sh").args(["-c", script]).terminal(30, 100).spawn();
    spawned.expect("it starts")
}

/// Reads until a line has `text` in it.
fn until(lines: &mut impl BufRead, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        assert_ne!(lines.read_line(&mut all).expect("it can be read"), 0, "{text} never came: {all}");
    }
    all
}

#[test]
fn all_three_streams_are_a_terminal_with_a_size_that_changes() {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; trap 'stty size; exit 5' WINCH; echo ready; \
                  while :; do sleep 0.1; done";
    let mut child = on_terminal(script);
    let terminal = child.terminal.take().expect("it has one");
    let mut lines = BufReader::new(terminal.try_clone().unwrap());
    assert!(until(&mut lines, "ready").contains("30 100"));
    terminal.resize(50, 70).unwrap();
    until(&mut lines, "50 70");
    assert_eq!(child.wait().unwrap().exit_code, 5);
    // The end is an end, and no error.
    assert_eq!(lines.read_to_string(&mut String::new()).unwrap(), 0);
}

#[test]
fn what_is_typed_arrives_and_control_c_interrupts() {
    let mut child = on_terminal("read x; echo heard $x; exec sleep 60");
    let mut terminal = child.terminal.take().unwrap();
    let mut lines = BufReader::new(terminal.try_clone().unwrap());
    terminal.write_all(b"hello\r").unwrap();
    until(&mut lines, "heard hello");
    terminal.write_all(b"\x03").unwrap();
    let result = child.wait().unwrap();
    assert_eq!(result.ended, Ended::Signalled(libc::SIGINT));
}

#[test]
fn job_control_works_inside() {
    let sandbox = Sandbox::builder().build().unwrap();
    let mut child = sandbox.command("bash").args(["--norc", "-i"]).terminal(24, 80).spawn().unwrap();
    let mut terminal = child.terminal.take().unwrap();
    let mut lines = BufReader::new(terminal.try_clone().unwrap());
    terminal.write_all(b"sleep 100\r").unwrap();
    // It has to run before it can be stopped.
    kennel_tests::eventually("sleep runs", || {
        let children = std::fs::read_dir("/proc").unwrap().flatten();
        let mine = |entry: std::fs::DirEntry| {
            let words = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let session = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let session =
                session.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3)).map(str::to_owned);
            words == concat!("sleep", "\0", "100", "\0") && session == Some(child.id().to_string())
        };
        children.into_iter().any(mine).then_some(())
    });
    terminal.write_all(b"\x1a").unwrap();
    until(&mut lines, "Stopped");
    terminal.write_all(b"fg\r").unwrap();
    until(&mut lines, "sleep 100");
    terminal.write_all(b"\x03").unwrap();
    until(&mut lines, "^C");
    terminal.write_all(b"exit 3\r").unwrap();
    std::thread::spawn(move || lines.read_to_string(&mut String::new()));
    assert_eq!(child.wait().unwrap().exit_code, 3);
}

#[test]
fn a_terminal_that_nobody_reads_keeps_nobody_from_ending_it() {
    let mut child = on_terminal("yes");
    let _held = child.terminal.take();
    child.kill();
    assert_eq!(child.wait().unwrap().ended, Ended::Killed);
}
