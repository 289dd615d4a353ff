//! How long a session lasts, and that nothing is left of it, and nothing grows in it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio as Standard;
use std::time::{Duration, Instant};

use kennel::{Ended, Sandbox, Session, Stdio};
use kennel_tests::leftovers::{children_of, processes_left_with, processes_with, unique_sleep};
use kennel_tests::{eventually, role};

fn sandbox() -> Sandbox {
    crate::sessions::builder().build().unwrap()
}

#[test]
fn a_session_ends_at_its_timeout_whatever_runs() {
    let sandbox = sandbox();
    let session = sandbox.session_builder().timeout(Duration::from_millis(400)).start().unwrap();
    let sleep = unique_sleep();
    let result = session.run("sh", &["-c", &format!("setsid sleep {sleep} & sleep {sleep}")]).unwrap();
    assert_eq!((result.ended, session.wait().unwrap().ended), (Ended::Killed, Ended::TimedOut));
    assert_eq!(processes_with(&sleep), Vec::<String>::new());
}

#[test]
fn a_session_ends_when_no_command_has_run_for_a_while() {
    let sandbox = sandbox();
    let session = sandbox.session_builder().idle(Duration::from_millis(500)).start().unwrap();
    let sleep = unique_sleep();
    session.run("sh", &["-c", &format!("sleep {sleep} > /dev/null 2>&1 &")]).unwrap();
    let begun = Instant::now();
    // As long as a command runs the session does.
    assert!(session.run("sleep", &["1.2"]).unwrap().success());
    assert!(begun.elapsed() >= Duration::from_millis(1200) && session.try_wait().unwrap().is_none());
    assert_eq!(session.wait().unwrap().ended, Ended::TimedOut);
    assert!(begun.elapsed() >= Duration::from_millis(1700));
    assert_eq!(processes_with(&sleep), Vec::<String>::new());
}

#[test]
fn a_command_outlives_neither_its_session_nor_its_handle() {
    let session = sandbox().session().unwrap();
    let (one, two) = (unique_sleep(), unique_sleep());
    let start = |sleep: &str| {
        session.command("sh").args(["-c", &format!("setsid sleep {sleep} & sleep {sleep}")]).spawn()
    };
    let (dropped, mut kept) = (start(&one).unwrap(), start(&two).unwrap());
    eventually("they run", || {
        (processes_with(&one).len() > 2 && processes_with(&two).len() > 2).then_some(())
    });
    drop(dropped);
    assert_eq!(processes_with(&one), Vec::<String>::new());
    drop(session);
    assert_eq!(processes_with(&two), Vec::<String>::new());
    assert_eq!(kept.wait().unwrap().ended, Ended::Killed);
}

/// The role `session-owner`: has a session with commands and daemons until it is killed.
pub fn owner(words: &[OsString]) -> i32 {
    let sleep = words[0].to_string_lossy().into_owned();
    let session = sandbox().session().unwrap();
    let script = format!("(setsid sleep {sleep} &) ; sleep {sleep}");
    let children: Vec<_> = (0..4)
        .map(|_| session.command("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap())
        .collect();
    println!("{}", session.id());
    loop {
        // One after the other too, so that it is killed at any moment of one.
        let _ = session.run("sh", &["-c", &format!("sleep {sleep} > /dev/null 2>&1 & sleep .01; kill $!")]);
        std::hint::black_box(&children);
    }
}

#[test]
#[kennel_claim::claim("sessions/nothing-is-left")]
fn nothing_is_left_when_the_owner_is_killed_at_any_moment() {
    for round in 0..10u64 {
        let sleep = unique_sleep();
        let mut owner = role::play("session-owner").arg(&*sleep).stdout(Standard::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        std::thread::sleep(Duration::from_micros(round * 7919 % 23_000));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
        let init = format!("/proc/{}", line.trim());
        eventually("PID 1 is gone", || (!std::path::Path::new(&init).exists()).then_some(()));
    }
}

#[test]
#[kennel_claim::claim("sessions/nothing-is-left")]
fn nothing_is_left_when_pid_1_of_a_session_is_killed() {
    for round in 0..10u64 {
        let session = sandbox().session().unwrap();
        let sleep = unique_sleep();
        let script = format!("(setsid sleep {sleep} &) ; sleep {sleep}");
        let mut child = session.command("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(round * 611 % 5000));
        // SAFETY: a plain call; the session has not been waited for, so the number is still its own.
        unsafe { libc::kill(session.id().cast_signed(), libc::SIGKILL) };
        assert_eq!(child.wait().unwrap().ended, Ended::Killed);
        assert_eq!(session.wait().unwrap().ended, Ended::Killed);
        assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
    }
}

#[test]
fn a_published_server_of_one_command_is_there_for_as_long_as_the_session() {
    let sandbox = crate::sessions::builder().publish(0, 8000).build().unwrap();
    let session = sandbox.session().unwrap();
    let mut command = session.command(std::env::current_exe().unwrap());
    let mut server = command.env(role::VARIABLE, "echo-server").stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 8];
    server.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    for word in ["one", "two"] {
        assert!(session.run("true", &[]).unwrap().success());
        let mut stream = TcpStream::connect(("127.0.0.1", session.published()[0].host)).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, word);
    }
    let mut client = session.command(std::env::current_exe().unwrap());
    let result = client.env(role::VARIABLE, "echo-client").output().unwrap();
    assert_eq!(result.stdout, "inside", "{result:?}");
}

/// The role `echo-server`.
pub fn echo_server(_: &[OsString]) -> i32 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 8000)).expect("a free port");
    println!("serving");
    for stream in listener.incoming().flatten() {
        let mut reader = stream.try_clone().expect("a descriptor");
        let _ = std::io::copy(&mut reader, &mut &stream);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    0
}

/// The role `echo-client`.
pub fn echo_client(_: &[OsString]) -> i32 {
    let mut stream = TcpStream::connect(("127.0.0.1", 8000)).expect("the server of another command");
    stream.write_all(b"inside").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    print!("{answer}");
    0
}

#[test]
fn usage_is_that_of_everything_in_the_session() {
    let session = crate::sessions::builder().count_usage(true).build().unwrap().session().unwrap();
    if session.usage().processes.is_none() {
        return kennel_tests::skipped("no cgroup counts here");
    }
    let children: Vec<_> = (0..3).map(|_| session.command("sleep").arg("60").spawn().unwrap()).collect();
    // Three commands, their leaders and PID 1.
    assert_eq!(session.usage().processes, Some(7));
    drop(children);
}

fn status(pid: u32, key: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

fn children(pid: u32) -> usize {
    children_of(pid).len()
}

/// The role `growth`: many commands in one session, in a process of its own. 20,000 with `KENNEL_SESSION_COMMANDS=20000`.
pub fn growth(_: &[OsString]) -> i32 {
    let count =
        std::env::var("KENNEL_SESSION_COMMANDS").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let session = sandbox().session().unwrap();
    let (own, init) = (std::process::id(), session.id());
    let run = |session: &Session, round: usize| {
        let result = match round % 10 {
            0 => session.command("sh").args(["-c", "sleep 0 & true"]).output(),
            // More than fits into a leader's own memory.
            1 => session
                .command("true")
                .env("LARGE", "x".repeat(120_000))
                .env("MORE", "x".repeat(120_000))
                .env("MOST", "x".repeat(120_000))
                .env("LAST", "x".repeat(120_000))
                .env("END", "x".repeat(120_000))
                .output(),
            2 => session.command("no-such-program").output().or_else(|_| session.command("true").output()),
            3 => session.command("sleep").arg("9").timeout(Duration::from_millis(2)).output(),
            4 => session.command("true").terminal(24, 80).spawn().and_then(|mut child| child.wait()),
            5 => session
                .command("true")
                .current_dir("/none")
                .output()
                .or_else(|_| session.command("true").output()),
            _ => session.command("true").output(),
        };
        result.unwrap();
    };
    let look = || {
        // What has just ended is waited for in a moment.
        eventually("PID 1 has waited for all", || (children(init) == 0).then_some(()));
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let inside = std::fs::read_dir(format!("/proc/{init}/fd")).map_or(0, Iterator::count);
        (
            descriptors,
            inside,
            status(own, "Threads:"),
            children(own),
            status(init, "VmSize:"),
            status(init, "VmRSS:"),
            status(own, "VmRSS:"),
        )
    };
    (0..200).for_each(|round| run(&session, round));
    let before = look();
    (0..count).for_each(|round| run(&session, round));
    let after = look();
    println!("{before:?}\n{after:?}");
    assert_eq!((before.0, before.1, before.2, before.3), (after.0, after.1, after.2, after.3));
    // A leader that still ends when the next one starts takes a place of its own, of which there are few.
    assert!(after.4 <= before.4 + 4 * 576, "the memory of PID 1 grows: {before:?}, {after:?}");
    assert!(after.5 <= before.5 + 512, "PID 1 grows: {before:?}, {after:?}");
    assert!(after.6 <= before.6 + 4096, "the controller grows: {before:?}, {after:?}");
    0
}

#[test]
fn nothing_grows_with_the_commands_of_a_session() {
    let played = kennel_tests::ran(&mut role::play("growth"));
    print!("{}", played.ok().stdout);
}
