//! `Sandbox::command`: what `std::process::Command` says, said of a sandbox.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use kennel::{Ended, Sandbox, SandboxError, Stdio};
use kennel_tests::{Scratch, eventually, plain_sandbox};
use rustix::event::{PollFd, PollFlags, poll};

#[test]
fn words_are_any_bytes() {
    let odd = OsStr::from_bytes(b"a\xff b");
    let result =
        plain_sandbox().command("printf").args(["%s|%s|"]).arg(odd).arg("").output().expect("it runs");
    assert_eq!(result.stdout_bytes, b"a\xff b||");
    assert_eq!(result.ended, Ended::Exited(0));
}

#[test]
fn variables_are_set_taken_away_and_cleared_for_one_command() {
    let sandbox = Sandbox::builder().env("KEPT", "sandbox").env("GONE", "sandbox").build().expect("plain");
    let script = "echo \"$KEPT $GONE $NEW $CARGO_MANIFEST_DIR\"";
    let mut command = sandbox.command("sh");
    command
        .args(["-c", script])
        .env("NEW", "1")
        .env("NEW", "2")
        .env_remove("GONE")
        .env_remove("CARGO_MANIFEST_DIR");
    assert_eq!(command.output().expect("it runs").stdout, "sandbox  2 \n");
    // And once more, because a command can be started again.
    assert_eq!(command.output().expect("it runs").stdout, "sandbox  2 \n");
    let cleared =
        sandbox.command("env").env("LOST", "x").env_clear().env("ONLY", "y").output().expect("it runs");
    assert!(cleared.stdout.contains("ONLY=y\n") && !cleared.stdout.contains("LOST"), "{}", cleared.stdout);
    assert!(!cleared.stdout.contains("CARGO"), "{}", cleared.stdout);
    let other = sandbox.command("sh").args(["-c", "echo $GONE"]).output().expect("it runs");
    assert_eq!(other.stdout, "sandbox\n", "the sandbox itself is as it was");
    let wrong = sandbox.command("true").env("A=B", "x").output().expect_err("no name");
    assert!(matches!(wrong, SandboxError::ConfigValidation(_)), "{wrong}");
}

#[test]
fn a_command_starts_where_it_is_told() {
    let sandbox = Sandbox::builder().working_dir("/usr").build().expect("plain");
    assert_eq!(sandbox.command("pwd").output().expect("it runs").stdout, "/usr\n");
    let result = sandbox.command("pwd").current_dir("/usr/share").output().expect("it runs");
    assert_eq!(result.stdout, "/usr/share\n");
}

#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn files_can_be_its_streams_and_stay_as_they_are_but_for_what_is_written() {
    let scratch = Scratch::new();
    let input = scratch.write("in", "one\ntwo\n");
    let output = scratch.write("out", "before\n");
    for path in [&input, &output] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("own file");
    }
    let script = "chmod 777 /proc/self/fd/0 /proc/self/fd/1 2>/dev/null; cat /proc/self/fd/1 >&2; cat";
    let sandbox = Sandbox::builder().deny_read(&output).build().expect("plain");
    let mut command = sandbox.command("timeout");
    command.args(["10", "sh", "-c", script]).stdin(File::open(&input).expect("own file"));
    command.stdout(File::options().append(true).open(&output).expect("own file"));
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut errors = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
    let result = child.wait().expect("it ends");
    assert!(!errors.contains("before"), "{errors}");
    assert!(result.exit_code == 0 || result.exit_code == 124, "{result:?}");
    let written = std::fs::read_to_string(&output).expect("own file");
    assert!(written.starts_with("before\n"), "{written}");
    for path in [&input, &output] {
        assert_eq!(std::fs::metadata(path).expect("own file").mode() & 0o777, 0o644);
    }
    // The same by a run to the end.
    let ran = sandbox.command("cat").stdin(File::open(&input).expect("own file")).output().expect("it runs");
    assert_eq!(ran.stdout, "one\ntwo\n");
    let to_file = File::create(scratch.join("new")).expect("own folder");
    let ran = sandbox.command("echo").arg("x").stdout(to_file).output().expect("it runs");
    assert_eq!(
        (ran.stdout.as_str(), std::fs::read_to_string(scratch.join("new")).expect("own file").as_str()),
        ("", "x\n")
    );
}

#[test]
fn pipes_lead_from_one_sandbox_to_the_next() {
    let sandbox = plain_sandbox();
    let mut first = sandbox.command("echo").arg("hello").stdout(Stdio::piped()).spawn().expect("it starts");
    let pipe = first.stdout.take().expect("piped");
    let second = sandbox.command("tr").args(["a-z", "A-Z"]).stdin(pipe).output().expect("it runs");
    assert_eq!(second.stdout, "HELLO\n");
    assert!(first.wait().expect("it ends").success());
}

#[test]
fn a_child_is_asked_whether_it_has_ended() {
    let mut child = plain_sandbox()
        .command("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    assert!(child.try_wait().expect("it can be asked").is_none());
    let pidfd = child.as_fd().try_clone_to_owned().expect("a descriptor");
    drop(child.stdin.take());
    let mut ready = [PollFd::new(&pidfd, PollFlags::IN)];
    assert_eq!(poll(&mut ready, Some(&rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 })), Ok(1));
    let result = eventually("its result", || child.try_wait().expect("it can be asked"));
    assert_eq!(result.ended, Ended::Exited(0));
    assert_eq!(child.id(), child.init_pid());
}

#[test]
fn what_is_left_of_the_output_comes_with_the_end() {
    let sandbox = plain_sandbox();
    let mut command = sandbox.command("sh");
    command.args(["-c", "echo first; cat; echo last >&2; exit 4"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    writeln!(child.stdin.take().expect("piped"), "second").expect("it reads");
    let result = child.wait_with_output().expect("it ends");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("first\nsecond\n", "last\n"));
    assert_eq!(result.ended, Ended::Exited(4));
}

#[test]
fn signals_reach_the_command_and_say_so_in_the_end() {
    let sandbox = plain_sandbox();
    let script = "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done";
    let mut child =
        sandbox.command("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    child.signal(libc::SIGUSR1).expect("it runs");
    assert_eq!(lines.next().expect("a line").expect("text"), "caught");
    assert_eq!(child.wait().expect("it ends").ended, Ended::Exited(5));
    assert!(child.signal(9999).is_err());
    let mut child = sandbox.command("sleep").arg("60").spawn().expect("it starts");
    child.signal(libc::SIGTERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").ended, Ended::Signalled(libc::SIGTERM));
}

#[test]
fn limits_tell_what_became_of_a_command() {
    let sandbox =
        Sandbox::builder().wall_time_limit(std::time::Duration::from_millis(200)).build().expect("plain");
    let result = sandbox.command("sleep").arg("60").status().expect("it runs");
    assert_eq!((result.ended, result.exit_code, result.killed_by_timeout), (Ended::TimedOut, 124, true));
}
