//! What is carried, and how: hung-up and stuck terminals, terminals that are not the session's, exact bytes.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::leftovers::{processes_left_with, unique_sleep};
use kennel_tests::pty::{Pty, collect, exit_code};
use kennel_tests::{Scratch, eventually, kennel, kennel_bin, kennel_sh, program, skipped, stays};

fn run(script: &str) -> Command {
    kennel_sh(["--no-settings"], script)
}

#[test]
#[kennel_claim::claim("ends/hang-ups")]
fn a_hang_up_is_told_inside_and_nothing_is_left() {
    let scratch = Scratch::new();
    let sleep = unique_sleep();
    for (ends, script) in [
        (
            "by itself",
            format!(
                "trap 'echo hup >>told; exit' HUP; echo go-$((1+1)); while :; do sleep 0.05; done; {sleep}"
            ),
        ),
        // One that does not care, in sessions of its own too.
        (
            "by force",
            format!("trap '' HUP; setsid sleep {sleep} & echo go-$((1+1)); while :; do sleep {sleep}; done"),
        ),
    ] {
        let terminal = Pty::new(&[]);
        let mut command = kennel(["run", "--no-settings", "--allow-write", "."]);
        command.args(["--", "sh", "-c", &script]).current_dir(scratch.path());
        let mut child = terminal.spawn(&mut command, [true; 3]);
        terminal.wait_for("go-2");
        drop(terminal);
        assert_ne!(exit_code(&mut child), 0, "{ends}");
        assert_eq!(processes_left_with(&sleep), Vec::<String>::new(), "{ends}");
    }
    assert_eq!(std::fs::read_to_string(scratch.join("told")).unwrap(), "hup\n", "it was told once");
}

#[test]
fn whoever_ignores_hang_ups_outlives_the_terminal() {
    let scratch = Scratch::new();
    let script = "echo go-$((1+1)); i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; sleep 4; echo end >ended";
    let terminal = Pty::new(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" run --no-settings --allow-write . -- sh -c \"$1\""]);
    command.arg(kennel_bin()).arg(script).current_dir(scratch.path());
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for("go-2");
    drop(terminal);
    assert_eq!(exit_code(&mut child), 0);
    assert_eq!(std::fs::read_to_string(scratch.join("ended")).unwrap(), "end\n");
}

#[test]
#[kennel_claim::claim("ends/timeout-while-stopped")]
fn a_terminal_that_hangs_stops_neither_the_clock_nor_signals() {
    let flood = "while :; do echo a line of a flood of lines; done";
    let terminal = Pty::new(&[]);
    let started = Instant::now();
    let mut command = kennel(["run", "--no-settings", "--timeout", "2s", "--", "sh", "-c", flood]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for("a line of");
    terminal.hang(true);
    assert_eq!(exit_code(&mut child), 124);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());

    let terminal = Pty::new(&[]);
    let mut child = terminal.spawn(&mut run(flood), [true; 3]);
    terminal.wait_for("a line of");
    terminal.hang(true);
    std::thread::sleep(Duration::from_millis(500));
    // SAFETY: a plain call on our own child.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    // The command has ended; what it wrote waits for the terminal, until somebody has no patience any more.
    let is_there = || child.try_wait().unwrap().is_none();
    stays("what was written is not thrown away", Duration::from_millis(500), is_there);
    // SAFETY: as above.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(exit_code(&mut child), 143);
}

#[test]
fn a_terminal_that_hangs_for_a_while_loses_nothing() {
    let terminal = Pty::new(&[]);
    let mut child = terminal.spawn(&mut run("echo go-$((1+1)); seq 40000; echo end-$((1+2))"), [true; 3]);
    terminal.wait_for("go-2");
    terminal.hang(true);
    std::thread::sleep(Duration::from_millis(700));
    terminal.hang(false);
    let shown = terminal.wait_for("end-3");
    assert_eq!(exit_code(&mut child), 0);
    let lines = shown.split('\n').map(|line| line.trim_end_matches('\r'));
    let numbers: Vec<&str> = lines.filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers.len(), 40000);
    assert!(numbers.iter().zip(1..).all(|(line, number)| line.parse() == Ok(number)));
}

/// The same bytes reach the terminal as without kennel, whoever turns a line feed into a new line.
#[test]
fn the_terminal_shows_exactly_what_it_would_without_kennel() {
    let script = "printf 'a\\nb\\r\\nc\\rd\\te\\n'; printf 'err\\n' >&2; stty -opost; printf 'x\\ny\\n'; stty opost; echo end";
    let pipeline = "printf 'a\\nb\\r\\n' >&2; echo end >&2";
    let alone = |command: &mut Command| {
        let terminal = Pty::new(&[]);
        let mut child = terminal.spawn(command, [true; 3]);
        let shown = terminal.wait_for("end\r\n");
        assert_eq!(exit_code(&mut child), 0);
        shown
    };
    assert_eq!(alone(&mut run(script)), alone(Command::new("sh").args(["-c", script])));
    let through = |program: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{program} sh -c \"$1\" | cat"), "sh", pipeline]);
        alone(&mut command)
    };
    assert_eq!(through(&format!("{} run --no-settings --", kennel_bin().display())), through("env"));
}

#[test]
fn a_terminal_that_is_not_the_sessions_is_carried_too() {
    let terminal = Pty::new(&[]);
    let stream = || Stdio::from(terminal.program().try_clone().unwrap());
    let script =
        "trap 'exit 7' INT; tty; test -t 1 && read x && echo got-$x-$((1+1)); while :; do sleep 0.1; done";
    let mut command = run(script);
    command.stdin(stream()).stdout(stream()).stderr(stream());
    // SAFETY: a plain call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    terminal.wait_for("/dev/pts/");
    terminal.type_bytes(b"hello\r");
    terminal.wait_for("got-hello-2");
    terminal.type_bytes(b"\x03");
    assert_eq!(exit_code(&mut child), 7);
}

#[test]
fn two_terminals_stay_two() {
    let (session, other) = (Pty::new(&[]), Pty::new(&[]));
    let mut command =
        run("test -t 0 && test -t 1 && echo out-$((1+1)); echo err-$((1+2)) >&2; read x; echo got-$x");
    command.stderr(other.program().try_clone().unwrap());
    let mut child = session.spawn(&mut command, [true, true, false]);
    session.wait_for("out-2");
    other.wait_for("err-3");
    session.type_bytes(b"hello\r");
    session.wait_for("got-hello");
    assert_eq!(exit_code(&mut child), 0);
    assert!(!session.shown().contains("err-3") && !other.shown().contains("out-2"));
}

#[test]
fn an_end_of_input_that_was_typed_early_arrives() {
    let terminal = Pty::new(&[]);
    terminal.type_bytes(b"typed\r\x04");
    let mut child = terminal.spawn(&mut run("cat; echo end-$((1+1))"), [true; 3]);
    terminal.wait_for("end-2");
    assert_eq!(exit_code(&mut child), 0);
}

#[test]
fn only_the_streams_that_are_terminals_become_one() {
    let terminal = Pty::new(&[]);
    let script = "for fd in 0 1 2; do test -t $fd && echo $fd >&2; done; cat; echo end-$((1+1)) >&2";
    let mut command = run(script);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn(&mut command, [false, false, true]);
    let output = collect(child.stdout.take().unwrap());
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let shown = terminal.wait_for("end-2");
    assert_eq!(exit_code(&mut child), 0);
    assert_eq!(shown, "2\r\nend-2\r\n");
    assert_eq!(
        eventually("all came", || {
            let all = output.lock().unwrap().clone();
            (!all.is_empty()).then_some(all)
        }),
        b"through\n"
    );
}

#[test]
fn programs_that_make_terminals_of_their_own_work() {
    if program("script").is_none() {
        return skipped("script is not installed");
    }
    let terminal = Pty::new(&[]);
    terminal.resize(33, 99);
    let mut child = terminal.spawn(
        &mut run("script -qc 'tty; stty size; echo in-$((1+1))' /dev/null; tty; stty size"),
        [true; 3],
    );
    assert_eq!(exit_code(&mut child), 0);
    // The test's terminal may take a moment to show what it was sent.
    let shown = terminal.wait_until("both sizes", |shown| shown.matches("33 99\r\n").count() == 2);
    let lines: Vec<&str> = shown.split("\r\n").collect();
    assert_eq!(lines, ["/dev/pts/1", "33 99", "in-2", "/dev/pts/0", "33 99", ""], "{shown:?}");
}

#[test]
fn top_and_tmux_draw_inside() {
    let terminal = Pty::new(&[]);
    if program("top").is_some() {
        let mut child =
            terminal.spawn(kennel(["run", "--no-settings", "--", "top"]).env("TERM", "xterm"), [true; 3]);
        terminal.wait_for("PID");
        terminal.type_bytes(b"q");
        assert_eq!(exit_code(&mut child), 0);
    }
    if program("tmux").is_none() {
        return skipped("tmux is not installed");
    }
    let words =
        ["run", "--no-settings", "--unix-sockets", "all", "--", "tmux", "-f", "/dev/null", "new-session"];
    let mut command = kennel(words);
    command
        .args(["echo deep-$((1+1)); tty; read x; echo got-$x-$((1+2)); sleep 1"])
        .env_remove("TMUX")
        .env("SHELL", "/bin/sh");
    let terminal = Pty::new(&[]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for("deep-2");
    terminal.type_bytes(b"hello\r");
    terminal.wait_for("got-hello-3");
    assert_eq!(exit_code(&mut child), 0);
}
