//! Rules that change while a sandbox runs: by lines on a descriptor, and by the library.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use kennel::{HostAnswer, NetworkMode, Sandbox};
use kennel_tests::{kennel, ran_within};

use crate::network::LONG;
use kennel_tests::world::world;

/// Hands the reading end of a pipe to kennel as descriptor 9.
fn with_control(command: &mut Command) -> std::io::PipeWriter {
    let (lines, pen) = std::io::pipe().expect("a pipe");
    // The pipe may well have this number already, and dup2 would then leave it to be closed.
    // SAFETY: only dup2 and fcntl; the closure keeps the pipe open until the fork.
    unsafe {
        command.pre_exec(move || match libc::dup2(lines.as_raw_fd(), 9) {
            9 if libc::fcntl(9, libc::F_SETFD, 0) == 0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    pen
}

#[test]
fn lines_on_the_control_descriptor_hold_for_the_next_connection() {
    let Some(world) = world() else { return };
    let ask =
        |name: &str| format!("curl -s -o /dev/null -w '%{{http_code}}\\n' http://{name}.web.test/hello");
    let (early, late) = (ask("early"), ask("late"));
    let script = format!(
        "{early}; {late}; echo; read go
         i=0; until [ \"$({late})\" = 200 ] || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done
         {early}; {late}; read go; {late}; ls /proc/self/fd | wc -w"
    );
    let mut command =
        kennel(["run", "--no-settings", "--control-fd", "9", "--allow-domain", "never.web.test"]);
    command.args(["--", "sh", "-c", &script]);
    let mut pen = with_control(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Before anything runs: it replaces what the flags said.
    writeln!(pen, r#"{{"network": {{"allow": ["early.web.test"]}}}}"#).expect("it is open");
    let mut child = command.spawn().expect("kennel");
    drop(command);
    let mut stdout = child.stdout.take().expect("piped");
    let mut stdin = child.stdin.take().expect("piped");
    let mut said = [0; 9];
    stdout.read_exact(&mut said).expect("two answers");
    assert_eq!(&said, b"200\n403\n\n");
    let new = r#"{"network": {"allow": ["*.web.test"], "deny": ["early.web.test"]}}"#;
    writeln!(pen, "not JSON\n{new}").expect("it is open");
    // A thread follows the lines, so the command tries until they hold.
    writeln!(stdin, "go").expect("it reads");
    let mut said = [0; 8];
    stdout.read_exact(&mut said).expect("two answers");
    assert_eq!(&said, b"403\n200\n");
    // The end of the lines changes nothing.
    drop(pen);
    writeln!(stdin, "go").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    // 0, 1, 2, and the folder that ls reads.
    assert_eq!(rest.split_whitespace().collect::<Vec<_>>(), ["200", "4"], "the descriptor is not inside");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("line 2") && errors.contains("the old rules still apply"), "{errors}");
    world.saw_nothing_of("never.web.test");
}

#[test]
fn a_control_descriptor_that_is_none_is_an_error() {
    for (flags, said) in [
        (&["--control-fd", "77", "--net", "allow-list"][..], "not an open descriptor"),
        (&["--control-fd", "1", "--net", "allow-list"], "above 2"),
        (&["--control-fd", "x", "--net", "allow-list"], "not an open descriptor"),
    ] {
        let ran = ran_within(LONG, kennel(["run", "--no-settings"]).args(flags).args(["--", "true"]))
            .expect_code(125);
        assert!(ran.stderr.contains(said), "{flags:?}: {}", ran.stderr);
    }
    let mut command = kennel(["run", "--no-settings", "--control-fd", "9", "--", "true"]);
    let _pen = with_control(&mut command);
    let ran = ran_within(LONG, &mut command).expect_code(125);
    assert!(
        ran.stderr.contains("no rules to change") && ran.stderr.contains("--net allow-list"),
        "{}",
        ran.stderr
    );
}

#[test]
#[kennel_claim::claim("network/rules-come-from-the-caller")]
fn a_control_descriptor_that_the_sandbox_could_open_is_refused() {
    let Some(_) = world() else { return };
    let scratch = kennel_tests::Scratch::new();
    let fifo = scratch.join("rules.fifo");
    let file = scratch.write("rules.json", "{\"network\": {\"allow\": [\"late.web.test\"]}}\n");
    let inside_tmp = format!("/tmp/kennel-rules-{}", std::process::id());
    let shell = |script: &str, place: &str, flags: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash", place, &kennel_tests::kennel_bin().display().to_string(), flags]);
        command.current_dir(scratch.path()).env("XDG_CONFIG_HOME", "/nonexistent");
        ran_within(LONG, &mut command)
    };
    let run = "\"$2\" run --no-settings --net allow-list --control-fd 9 $3 -- true";
    let (fifo, file) = (fifo.display().to_string(), file.display().to_string());
    let mine = format!("--allow-write {}", scratch.path().display());
    for flags in [mine.as_str(), ""] {
        let ran = shell(&format!("mkfifo \"$1\"; exec 9<>\"$1\"; {run}"), &fifo, flags).expect_code(125);
        assert!(
            ran.stderr.contains("that the sandbox can open itself") && ran.stderr.contains("help: "),
            "{ran:?}"
        );
    }
    // Removed, below a /tmp that is another inside, without a name, or a file that can only be read.
    shell(&format!("exec 9<>\"$1\"; rm \"$1\"; {run}"), &fifo, &mine).ok();
    shell(&format!("mkfifo \"$1\"; exec 9<>\"$1\"; {run}"), &inside_tmp, &mine).ok();
    shell(&format!("exec 9<> <(:); {run}"), "", &mine).ok();
    shell(&format!("exec 9<\"$1\"; {run}"), &file, "").ok();
    // But not one that it can write, nor a /tmp that is the host's.
    shell(&format!("exec 9<\"$1\"; {run}"), &file, &mine).expect_code(125);
    shell(&format!("exec 9<>\"$1\"; {run}"), &inside_tmp, "--host-tmp").expect_code(125);
    let _ = std::fs::remove_file(inside_tmp);
}

#[test]
#[kennel_claim::claim("network/rules-come-from-the-caller")]
fn the_example_of_the_documentation_works_and_nobody_inside_finds_the_pipe() {
    let Some(_) = world() else { return };
    let page = include_str!("../../docs/network.md");
    let example =
        page.split("```bash\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example in bash");
    assert!(example.contains("exec 9<> <(:)") && example.contains("my-agent"), "{example}");
    let scratch = kennel_tests::Scratch::new();
    // An agent that waits until it may connect, and looks for a way to allow itself more.
    let agent = "#!/bin/sh
        for fd in /proc/*/fd/9; do echo '{\"network\": {\"allow\": [\"evil.web.test\"]}}' > $fd; done 2>/dev/null
        i=0; until [ \"$(curl -s -o /dev/null -w '%{http_code}' http://api.web.test/hello)\" = 200 ] || [ $i = 100 ]; do i=$((i + 1)); sleep 0.1; done
        curl -s -o /dev/null -w 'api %{http_code}\n' http://api.web.test/hello
        curl -s -o /dev/null -w 'evil %{http_code}\n' http://evil.web.test/hello";
    let path = scratch.write("my-agent", agent);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("its own file");
    let script = example
        .replace("kennel run", &format!("{} run --no-settings", kennel_tests::kennel_bin().display()))
        .replace("my-agent", &path.display().to_string())
        .replace("api.example.com", "api.web.test");
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{script}\nwait")])
        .current_dir(scratch.path())
        .env("XDG_CONFIG_HOME", "/nonexistent");
    let ran = ran_within(LONG, &mut command).ok();
    assert_eq!(ran.stdout, "api 200\nevil 403\n", "{ran:?}");
}

#[test]
#[kennel_claim::claim("network/answers-are-for-one-connection")]
fn an_answer_for_one_connection_is_not_for_those_that_wait_beside_it() {
    if world().is_none() {
        return;
    }
    let mut command = kennel_tests::role::play("ask-once");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    assert_eq!(ran_within(LONG, &mut command).ok().stdout, "one of eight\n");
}

/// The role `ask-once`: eight connections wait for one answer, which is for one of them.
pub fn ask_once(_: &[std::ffi::OsString]) -> i32 {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let own = std::sync::Arc::clone(&asked);
    let sandbox = Sandbox::builder()
        .network_mode(NetworkMode::AllowList)
        .ask_about_hosts(move |_| {
            // All eight have come by then.
            std::thread::sleep(std::time::Duration::from_secs(1));
            match own.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => HostAnswer::AllowOnce,
                _ => HostAnswer::Deny,
            }
        })
        .build()
        .expect("a list");
    let get = "curl -s -o /dev/null -w '%{http_code}\n' http://once.web.test/hello";
    let script = format!("for i in 1 2 3 4 5 6 7 8; do {get} & done; wait");
    let result = sandbox.run("sh", &["-c", &script]).expect("it runs");
    let count = |code: &str| result.stdout.lines().filter(|line| *line == code).count();
    assert_eq!((count("200"), count("403")), (1, 7), "{result:?}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 2);
    println!("one of eight");
    0
}

/// The part of the role `embed` that is about rules that change.
pub fn embedded() {
    let status = "curl -s -o /dev/null -w '%{http_code}\n' http://changing.web.test/hello";
    let list = Sandbox::builder().network_mode(NetworkMode::AllowList).allow_domain("other.web.test");
    let sandbox = list.clone().build().expect("a list");
    let mut child = sandbox.spawn("sh", &["-c", &format!("{status}; read go; {status}")]).expect("it starts");
    let mut stdout = child.take_stdout().expect("piped");
    let mut said = [0; 4];
    stdout.read_exact(&mut said).expect("an answer");
    assert_eq!(&said, b"403\n");
    let network = child.network().expect("it has a list");
    assert!(network.update(&["http://no.host/"], &[]).is_err(), "an address is no host");
    network.update(&["changing.web.test"], &[]).expect("a host");
    child.take_stdin().expect("piped").write_all(b"go\n").expect("it reads");
    stdout.read_exact(&mut said).expect("an answer");
    assert_eq!(&said, b"200\n");
    assert!(child.wait().expect("it ends").success());

    let denied =
        list.clone().allow_domain("*.web.test").deny_domain("changing.web.test").build().expect("lists");
    let result = denied.run("sh", &["-c", status]).expect("it runs");
    assert_eq!(result.stdout, "403\n");
    assert!(result.network.iter().any(|one| !one.allowed && one.reason == "on the deny list"), "{result:?}");

    let slow = list.clone().ask_timeout(std::time::Duration::from_millis(300)).ask_about_hosts(|_| {
        std::thread::sleep(std::time::Duration::from_secs(5));
        HostAnswer::Allow
    });
    let result = slow.build().expect("a list").run("sh", &["-c", status]).expect("it runs");
    assert_eq!(result.stdout, "403\n", "{result:?}");
    let late = result.network.iter().find(|one| !one.allowed).expect("a refusal");
    assert_eq!(late.reason, "no answer to the question in time");

    let asking = list.ask_about_hosts(|question| match (question.host.as_str(), question.port) {
        ("changing.web.test", 80) => HostAnswer::Allow,
        _ => HostAnswer::Deny,
    });
    let script = format!("{status}; {status}; {}", status.replace("changing", "refused"));
    let result = asking.build().expect("a list").run("sh", &["-c", &script]).expect("it runs");
    assert_eq!(result.stdout, "200\n200\n403\n", "{result:?}");
    assert!(
        result.network.iter().any(|one| one.host == "refused.web.test" && one.reason == "refused when asked")
    );
}
