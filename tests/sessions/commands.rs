//! Commands of one session: each has its own streams, variables, folder, limits, signals and outcome.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use kennel::{Ended, Session, Stdio};
use kennel_tests::eventually;
use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};

fn session() -> Session {
    crate::sessions::session(crate::sessions::builder())
}

fn sh(session: &Session, script: &str) -> String {
    let result = session.command("sh").args(["-c", script]).output().unwrap();
    assert!(result.success(), "{script}: {result:?}");
    result.stdout
}

#[test]
fn commands_run_one_after_the_other_with_their_own_outcomes() {
    let session = session();
    assert_eq!(session.run("echo", &["one"]).unwrap().stdout, "one\n");
    assert_eq!(session.run("sh", &["-c", "exit 7"]).unwrap().exit_code, 7);
    let killed = session.run("sh", &["-c", "kill -9 $$"]).unwrap();
    assert_eq!((killed.ended, killed.signal), (Ended::Signalled(9), Some(9)));
    let result = session.command("tr").args(["a-z", "A-Z"]).input("shout").output().unwrap();
    assert_eq!(result.stdout, "SHOUT");
    assert_eq!(session.end().unwrap().ended, Ended::Killed);
}

#[test]
fn two_commands_run_at_once_each_with_its_own_variables_folder_and_streams() {
    let session = session();
    let mut command = session.command("sh");
    command
        .args(["-c", "read line; echo $NAME $PWD $line; read rest"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut one = command.env("NAME", "one").current_dir("/usr").spawn().unwrap();
    let mut two = command.env("NAME", "two").current_dir("/etc").spawn().unwrap();
    for (child, said) in [(&mut two, "deux"), (&mut one, "un")] {
        child.stdin.as_mut().unwrap().write_all(format!("{said}\n").as_bytes()).unwrap();
    }
    let mut heard = Vec::new();
    for child in [&mut one, &mut two] {
        let mut line = [0; 64];
        let length = child.stdout.as_mut().unwrap().read(&mut line).unwrap();
        heard.push(String::from_utf8_lossy(&line[..length]).into_owned());
        assert!(child.try_wait().unwrap().is_none());
    }
    assert_eq!(heard, ["one /usr un\n", "two /etc deux\n"]);
    assert_ne!(one.id(), two.id());
    assert!(one.wait().unwrap().exit_code == 1 && two.wait().unwrap().exit_code == 1);
}

#[test]
fn commands_run_from_many_threads() {
    let session = session();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let session = &session;
                scope.spawn(move || {
                    for round in 0..20 {
                        let said = format!("{number} {round}");
                        assert_eq!(session.run("echo", &[&said]).unwrap().stdout, format!("{said}\n"));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn variables_of_one_command_are_not_those_of_the_next() {
    let session = session();
    let mut first = session.command("sh");
    first.args(["-c", "export MORE=x; echo $SECRET"]).env("SECRET", "for one");
    assert_eq!(first.output().unwrap().stdout, "for one\n");
    assert_eq!(sh(&session, "echo $SECRET$MORE"), "\n");
}

#[test]
#[kennel_claim::claim("sessions/sessions-share-nothing")]
fn files_in_tmp_are_the_sessions_and_no_other_sessions() {
    let (one, other) = (session(), session());
    sh(&one, "echo mine > /tmp/file; mkdir /tmp/folder; echo > /dev/shm/shared");
    assert_eq!(sh(&one, "cat /tmp/file; ls /dev/shm"), "mine\nshared\n");
    assert_eq!(sh(&other, "ls -A /tmp /dev/shm"), "/dev/shm:\n\n/tmp:\n");
    assert_eq!(one.command("pwd").current_dir("/tmp/folder").output().unwrap().stdout, "/tmp/folder\n");
}

#[test]
fn a_folder_that_is_a_link_inside_is_followed_inside() {
    let session = session();
    sh(&session, "mkdir /tmp/there; ln -s there /tmp/link; ln -s /proc/self/fd /tmp/descriptors");
    let output = session.command("pwd").arg("-P").current_dir("/tmp/link").output().unwrap();
    assert_eq!(output.stdout, "/tmp/there\n");
    let error = session.command("pwd").current_dir("/tmp/none").output().unwrap_err().to_string();
    assert!(error.contains("change to") && error.contains("/tmp/none"), "{error}");
    assert_eq!(sh(&session, "echo goes on"), "goes on\n");
}

#[test]
fn a_command_that_cannot_be_executed_is_an_error_and_the_session_goes_on() {
    let session = session();
    let error = session.run("no-such-program", &[]).unwrap_err().to_string();
    assert!(error.contains("no-such-program"), "{error}");
    assert_eq!(sh(&session, "echo goes on"), "goes on\n");
}

#[test]
fn a_command_has_a_terminal_of_its_own() {
    let session = session();
    let script = "tty; stty size; ps -o tpgid= -p $$ | grep -q \"^ *$$\\$\" && echo in the foreground; read x; echo $x";
    let start = |rows| session.command("sh").args(["-c", script]).terminal(rows, 80).spawn().unwrap();
    let (mut one, mut two) = (start(24), start(50));
    let (mut first, mut second) = (one.terminal.take().unwrap(), two.terminal.take().unwrap());
    first.write_all(b"typed\n").unwrap();
    second.resize(51, 81).unwrap();
    second.write_all(b"tapped\n").unwrap();
    let mut shown = [String::new(), String::new()];
    first.read_to_string(&mut shown[0]).unwrap();
    second.read_to_string(&mut shown[1]).unwrap();
    assert!(shown[0].contains("/dev/pts/") && shown[0].contains("24 80"), "{shown:?}");
    assert!(shown[0].contains("in the foreground") && shown[0].ends_with("typed\r\n"), "{shown:?}");
    assert!(shown[1].ends_with("tapped\r\n") && !shown[1].contains("typed"), "{shown:?}");
    assert!(one.wait().unwrap().success() && two.wait().unwrap().success());
}

#[test]
fn control_c_on_a_terminal_ends_its_command_and_no_other() {
    let session = session();
    let mut other = session.command("sleep").arg("20").terminal(24, 80).spawn().unwrap();
    let mut one =
        session.command("sh").args(["-c", "echo ready; exec sleep 20"]).terminal(24, 80).spawn().unwrap();
    let mut terminal = one.terminal.take().unwrap();
    let mut shown = [0; 64];
    let length = terminal.read(&mut shown).unwrap();
    assert!(shown[..length].starts_with(b"ready"));
    terminal.write_all(b"\x03").unwrap();
    assert_eq!(one.wait().unwrap().signal, Some(2));
    let early = other.try_wait().unwrap();
    assert!(early.is_none(), "{early:?}");
    other.kill();
}

#[test]
fn a_signal_reaches_the_commands_group_and_no_other_command() {
    let session = session();
    let script = "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep .05; done";
    let start = || {
        let mut child = session.command("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        child
    };
    let (mut one, mut two) = (start(), start());
    one.signal(libc::SIGUSR1).unwrap();
    assert_eq!(one.wait().unwrap().exit_code, 3);
    assert!(two.try_wait().unwrap().is_none());
    two.kill();
    assert_eq!(two.wait().unwrap().ended, Ended::Killed);
}

#[test]
#[kennel_claim::claim("sessions/kills-reach-one-command")]
fn killing_a_command_kills_its_daemons_and_nobody_elses() {
    let session = session();
    let (mine, others, earlier) = (unique_sleep(), unique_sleep(), unique_sleep());
    sh(&session, &format!("setsid sh -c 'sleep {earlier} &' > /dev/null 2>&1 &"));
    let start = |sleep: &str| {
        let script = format!(
            "setsid sh -c 'setsid sleep {sleep} & sleep {sleep}' & (setsid sleep {sleep} &) ; sleep {sleep} & sleep {sleep}"
        );
        session.command("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap()
    };
    let (mut one, mut two) = (start(&mine), start(&others));
    let count = |sleep: &str| processes_with(sleep).iter().filter(|line| line.contains(": sleep")).count();
    eventually("all of them run", || {
        (count(&mine) == 5 && count(&others) == 5 && count(&earlier) == 1).then_some(())
    });
    one.kill();
    assert_eq!(one.wait().unwrap().ended, Ended::Killed);
    assert_eq!(processes_with(&mine), Vec::<String>::new());
    assert_eq!((count(&others), count(&earlier)), (5, 1));
    drop(two.try_wait().unwrap());
    drop(two);
    assert_eq!((processes_with(&others), count(&earlier)), (Vec::new(), 1));
    drop(session);
    assert_eq!(processes_left_with(&earlier), Vec::<String>::new());
}

#[test]
fn what_a_command_leaves_in_the_background_lives_as_long_as_the_session() {
    let session = session();
    let sleep = unique_sleep();
    let pid = sh(&session, &format!("setsid sleep {sleep} > /dev/null 2>&1 & echo $!"));
    let pid = pid.trim_end();
    assert_eq!(sh(&session, &format!("kill -0 {pid} && echo runs")), "runs\n");
    // A later command can end it, as a user expects.
    sh(&session, &format!("kill {pid}"));
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
    let sleep = unique_sleep();
    sh(&session, &format!("sleep {sleep} > /dev/null 2>&1 &"));
    // While a program is being replaced by another it has no arguments.
    kennel_tests::eventually("it runs", || (processes_with(&sleep).len() == 1).then_some(()));
    session.end().unwrap();
    assert_eq!(processes_with(&sleep), Vec::<String>::new());
}

#[test]
#[kennel_claim::claim("sessions/kills-reach-one-command")]
fn a_command_that_times_out_takes_its_daemons_with_it_and_nothing_else() {
    let session = session();
    let (mine, others) = (unique_sleep(), unique_sleep());
    let mut other = session.command("sleep").arg(&*others).spawn().unwrap();
    let script = format!("setsid sleep {mine} & echo before; exec sleep {mine}");
    let begun = Instant::now();
    let result =
        session.command("sh").args(["-c", &script]).timeout(Duration::from_millis(300)).output().unwrap();
    assert!(result.killed_by_timeout && begun.elapsed() < Duration::from_secs(10), "{result:?}");
    assert_eq!(result.stdout, "before\n");
    assert_eq!(processes_with(&mine), Vec::<String>::new());
    assert!(other.try_wait().unwrap().is_none());
    assert_eq!(sh(&session, "echo goes on"), "goes on\n");
    other.kill();
}

#[test]
fn each_command_has_its_own_limit_on_output() {
    let session = session();
    let result =
        session.command("sh").args(["-c", "yes | head -c 100000"]).max_output(1000).output().unwrap();
    assert!(result.output_truncated && result.stdout_bytes.len() == 1000, "{}", result.stdout_bytes.len());
    let result = session.command("sh").args(["-c", "yes | head -c 100000"]).output().unwrap();
    assert!(!result.output_truncated && result.stdout_bytes.len() == 100_000);
}

#[test]
fn a_limit_on_cpu_time_is_each_commands_own() {
    let sandbox = crate::sessions::builder().cpu_time_limit(Duration::from_secs(1)).build().unwrap();
    let session = sandbox.session().unwrap();
    for _ in 0..2 {
        assert!(session.run("sh", &["-c", "while :; do :; done"]).unwrap().killed_by_cpu_time);
    }
    assert_eq!(session.run("echo", &["goes on"]).unwrap().stdout, "goes on\n");
}

#[test]
fn statistics_are_those_of_the_commands_own_descendants() {
    let session = session();
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let busy = session.run("sh", &["-c", count]).unwrap();
    let idle = session.run("true", &[]).unwrap();
    assert!(busy.cpu_time.unwrap() > Duration::from_millis(50), "{busy:?}");
    let little = if kennel_tests::is_emulated() { busy.cpu_time.unwrap() } else { Duration::from_millis(50) };
    assert!(idle.cpu_time.unwrap() < little, "{idle:?}");
    let whole = session.end().unwrap();
    assert!(whole.cpu_user + whole.cpu_system >= busy.cpu_time.unwrap(), "{whole:?}");
}

#[test]
fn large_arguments_and_variables_arrive() {
    let session = session();
    let large = "x".repeat(100_000);
    for _ in 0..5 {
        let mut command = session.command("sh");
        command.args(["-c", "echo ${#1} ${#LARGE} ${#MORE}", "sh", &large]);
        let result = command.env("LARGE", &large).env("MORE", &large).output().unwrap();
        assert_eq!(result.stdout, "100000 100000 100000\n");
    }
}

#[test]
fn files_can_be_the_streams_of_a_command_and_stay_as_they_are() {
    let (session, scratch) = (session(), kennel_tests::Scratch::new());
    let input = std::fs::File::open(scratch.write("in", "from a file\n")).unwrap();
    let output = std::fs::File::create(scratch.join("out")).unwrap();
    let mut command = session.command("sh");
    command.args(["-c", "cat; chmod 777 /dev/fd/1 2>/dev/null; exit 0"]);
    assert!(command.stdin(input).stdout(output).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(scratch.join("out")).unwrap(), "from a file\n");
}

#[test]
fn hundreds_of_commands_at_once_end_in_an_error_and_not_in_the_sessions_end() {
    let session = session();
    let mut children = Vec::new();
    let error = loop {
        match session.command("sleep").arg("60").stdin(Stdio::null()).spawn() {
            Ok(child) => children.push(child),
            Err(error) => break error.to_string(),
        }
        assert!(children.len() <= 256, "more than are allowed at a time");
    };
    assert!(error.contains("256 commands at a time"), "{error}");
    assert_eq!(children.len(), 256);
    children.pop();
    // Its place is free when PID 1 has waited for its leader, a moment after its end was told.
    let again =
        kennel_tests::eventually("there is room for another", || session.run("echo", &["again"]).ok());
    assert_eq!(again.stdout, "again\n");
    session.end().unwrap();
    for mut child in children {
        assert_eq!(child.wait().unwrap().ended, Ended::Killed);
    }
}

#[test]
fn commands_are_awaited_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = crate::sessions::builder().build().unwrap();
        let session = sandbox.session_builder().start_async().await.unwrap();
        let (one, two) = tokio::join!(
            session.command("echo").arg("one").output_async(),
            session.command("echo").arg("two").output_async(),
        );
        assert_eq!(one.unwrap().stdout + &two.unwrap().stdout, "one\ntwo\n");
        let sleep = unique_sleep();
        let script = format!("setsid sleep {sleep} & sleep {sleep}");
        let child = session.command("sh").args(["-c", &script]).spawn_async().await.unwrap();
        eventually("both run", || (processes_with(&sleep).len() >= 2).then_some(()));
        drop(child);
        // Whoever drives the runtime ends it.
        while !processes_with(&sleep).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(session.command("echo").arg("goes on").output_async().await.unwrap().stdout, "goes on\n");
    });
}
