//! Feature `tokio`: commands that are awaited, many on one thread, and that what is dropped is cancelled.

use std::time::Duration;

use kennel::{Ended, Sandbox, SandboxError, Stdio};
use kennel_tests::{eventually, plain_sandbox, ran_within, role};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// Runs `work` on a runtime with one thread. What would hang fails.
#[track_caller]
fn on_one_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await.expect("in time") })
}

fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").expect("own threads").flatten();
    let name = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm")).ok();
    names.filter_map(name).filter(|name| name.trim() == "kennel").count()
}

/// The role: a program of its own, in which no other test has threads.
pub fn many(_: &[std::ffi::OsString]) -> i32 {
    let sandbox = plain_sandbox();
    on_one_thread(async {
        let mut children = Vec::new();
        for number in 0..200 {
            let script = format!("read x; echo {number} $x");
            let mut command = sandbox.command("sh");
            command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            children.push(command.spawn_async().await.expect("it starts"));
        }
        assert_eq!(threads(), 0, "a sandbox that is awaited has no thread of kennel's");
        for (number, mut child) in children.into_iter().enumerate() {
            child.stdin.as_mut().expect("piped").write_all(b"all there\n").await.expect("it reads");
            let result = child.wait_with_output().await.expect("it ends");
            assert_eq!((result.exit_code, result.stdout), (0, format!("{number} all there\n")));
        }
    });
    0
}

#[test]
fn two_hundred_sandboxes_at_once_on_one_thread() {
    let ran = ran_within(Duration::from_secs(150), &mut role::play("many-caller"));
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn output_and_limits_are_as_without_waiting() {
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_millis(300)).build().unwrap();
    on_one_thread(async {
        let mut shout = sandbox.command("tr");
        let shouted = shout.args(["a-z", "A-Z"]).input("shout").output_async().await.unwrap();
        assert_eq!(shouted.stdout, "SHOUT");
        let late = sandbox.command("sleep").arg("60").output_async().await.unwrap();
        assert_eq!((late.ended, late.exit_code), (Ended::TimedOut, 124));
        let status = sandbox.command("sh").args(["-c", "exit 7"]).status_async().await.unwrap();
        assert_eq!(status.exit_code, 7);
        let missing = sandbox.command("no-such-command").output_async().await;
        assert!(matches!(missing, Err(SandboxError::CommandNotFound(name)) if name == "no-such-command"));
    });
}

/// What is ready is told once to tokio, so whatever a turn leaves must not be forgotten.
#[test]
fn a_flood_arrives_whole() {
    let sandbox = plain_sandbox();
    on_one_thread(async {
        let flood = "head -c 20000000 /dev/zero; head -c 10000000 /dev/zero >&2";
        let (one, two) = tokio::join!(
            sandbox.command("sh").args(["-c", flood]).output_async(),
            sandbox.command("sh").args(["-c", flood]).output_async(),
        );
        for result in [one.unwrap(), two.unwrap()] {
            assert_eq!((result.stdout_bytes.len(), result.stderr_bytes.len()), (20_000_000, 10_000_000));
        }
    });
}

#[test]
fn a_conversation_line_by_line() {
    let sandbox = plain_sandbox();
    on_one_thread(async {
        let mut command = sandbox.command("sh");
        command.args(["-c", "while read x; do echo \"heard $x\"; done; exit 3"]);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn_async().await;
        let mut child = spawned.expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        for word in ["one", "two"] {
            let line = format!("{word}\n");
            child.stdin.as_mut().expect("piped").write_all(line.as_bytes()).await.expect("it reads");
            assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("heard {word}"));
        }
        assert!(child.try_wait().await.unwrap().is_none());
        assert_eq!(child.wait().await.unwrap().exit_code, 3);
        assert_eq!(child.try_wait().await.unwrap().unwrap().exit_code, 3);
    });
}

#[test]
fn signals_and_kills_arrive() {
    let sandbox = plain_sandbox();
    on_one_thread(async {
        let mut command = sandbox.command("sh");
        command.args(["-c", "trap 'echo caught; exit 4' TERM; echo ready; while :; do sleep 0.1; done"]);
        let mut child = command.stdout(Stdio::piped()).spawn_async().await.unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
        child.signal(libc::SIGTERM).unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "caught");
        assert_eq!(child.wait().await.unwrap().exit_code, 4);
        let mut child = sandbox.command("sleep").arg("60").spawn_async().await.unwrap();
        child.kill();
        assert_eq!(child.wait().await.unwrap().ended, Ended::Killed);
    });
}

fn is_gone(pid: u32) -> bool {
    // SAFETY: no signal is sent; the process is only looked for.
    let found = unsafe { libc::kill(pid.cast_signed(), 0) } == 0;
    let zombie =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    !found || zombie()
}

#[test]
fn dropping_cancels() {
    let sandbox = plain_sandbox();
    on_one_thread(async {
        let child = sandbox.command("sleep").arg("60").spawn_async().await.unwrap();
        let pid = child.id();
        assert!(!is_gone(pid));
        drop(child);
        while !is_gone(pid) {
            tokio::task::yield_now().await;
        }
        // One that is awaited and given up.
        let mut command = sandbox.command("sh");
        command.args(["-c", "echo $$; exec sleep 60"]);
        let cancelled = tokio::time::timeout(Duration::from_millis(300), command.output_async()).await;
        assert!(cancelled.is_err());
        // And one whose reader goes away in the middle.
        let mut command = sandbox.command("sh");
        command.args(["-c", "echo here; exec sleep 60"]);
        let mut child = command.stdout(Stdio::piped()).spawn_async().await.unwrap();
        let mut four = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut four).await.unwrap();
        let pid = child.id();
        drop(child.wait_with_output());
        while !is_gone(pid) {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let sandbox = plain_sandbox();
    let pids = on_one_thread(async {
        let mut pids = Vec::new();
        for _ in 0..5 {
            let child = sandbox.command("sleep").arg("60").spawn_async().await.unwrap();
            pids.push(child.id());
            std::mem::forget(child);
        }
        pids
    });
    for pid in pids {
        eventually("the sandbox is gone", || is_gone(pid).then_some(()));
    }
}

#[test]
fn the_network_is_served_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 1024]).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nhello from outside").unwrap();
    });
    let sandbox = Sandbox::builder().allow_domain(format!("127.0.0.1:{port}")).build().unwrap();
    let mut command = sandbox.command("curl");
    // By the proxy: without one, 127.0.0.1 is the sandbox itself.
    command.args(["-sS", "--noproxy", "", &format!("http://127.0.0.1:{port}/")]);
    let result = on_one_thread(command.output_async()).expect("it runs");
    assert_eq!(result.stdout, "hello from outside", "{}", result.stderr);
    server.join().unwrap();
    assert!(result.network.iter().any(|decision| decision.allowed), "{:?}", result.network);
}
