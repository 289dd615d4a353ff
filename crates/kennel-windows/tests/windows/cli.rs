//! The command line on Windows: `KENNEL_BIN` is the binary.

use std::io::Write;
use std::net::TcpListener;
use std::os::windows::process::CommandExt;
use std::process::{Command, Output, Stdio};

use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use super::*;

fn kennel() -> Option<OsString> {
    // Or the one that was built beside the probe.
    let beside = std::path::Path::new(probe_path()).with_file_name("kennel.exe");
    let kennel = std::env::var_os("KENNEL_BIN").or_else(|| beside.is_file().then(|| beside.into_os_string()));
    if kennel.is_none() {
        println!("SKIPPED: no binary of kennel's (KENNEL_BIN)");
    }
    kennel
}

fn run(kennel: &OsString, words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(kennel).args(words).stdin(Stdio::null()).output().expect("kennel runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().expect("it exits"), text(stdout), text(stderr))
}

#[test]
fn a_command_runs_and_its_code_and_output_are_its_own() {
    let Some(kennel) = kennel() else { return };
    let (code, output, errors) =
        run(&kennel, &["run", "--net", "host", "--", "cmd", "/d", "/c", "echo hello& exit 7"]);
    assert_eq!((code, output.trim_end(), errors.as_str()), (7, "hello", ""));
    let (code, _, errors) = run(&kennel, &["run", "--net", "host", "--", "no-such-program"]);
    assert_eq!((code, errors.trim_end()), (127, "kennel: no-such-program: command not found"));
    let crash = 0xC000_0005u32.to_string();
    let (code, _, errors) = run(&kennel, &["run", "--net", "host", "--", probe_path(), "exit", &crash]);
    assert_eq!(code.cast_unsigned(), 0xC000_0005);
    assert!(errors.contains("0xC0000005: it crashed: access violation"), "{errors}");
}

#[test]
#[kennel_claim::claim("windows/all-or-an-error")]
fn what_cannot_be_enforced_is_an_error_that_names_it_and_nothing_runs() {
    let Some(kennel) = kennel() else { return };
    let file = std::env::temp_dir().join(format!("kennel-test-ran-{}", std::process::id()));
    let name = file.to_string_lossy().into_owned();
    let flags: &[(&[&str], &str)] = &[
        (&[], "network.mode: "),
        (&["--net", "host", "--allow-write", "."], "files.allow_write: "),
        (&["--net", "host", "--deny-read", "C:\\secret"], "files.deny_read: "),
        (&["--net", "host", "--reads", "listed"], "files.reads: "),
        (&["--net", "host", "--open-files", "10"], "limits.open_files: "),
        (&["--net", "host", "--seccomp", "strict"], "process.seccomp: "),
        (&["--net", "host", "--hostname", "x"], "process.hostname: "),
        (&["--allow-domain", "example.com"], "network.mode: "),
    ];
    for (flags, key) in flags {
        let words: Vec<&str> =
            ["run"].iter().chain(*flags).chain(&["--", probe_path(), "write", &name]).copied().collect();
        let (code, output, errors) = run(&kennel, &words);
        assert_eq!((code, output.as_str()), (125, ""), "{errors}");
        assert!(errors.contains(key) && errors.contains("--best-effort"), "{flags:?}: {errors}");
        assert!(!file.exists(), "it ran");
        // With best effort it runs, and says so.
        let words: Vec<&str> = ["run", "--best-effort"]
            .iter()
            .chain(*flags)
            .chain(&["--", probe_path(), "exit", "5"])
            .copied()
            .collect();
        let (code, _, errors) = run(&kennel, &words);
        assert_eq!(code, 5, "{errors}");
        assert!(errors.contains(&format!("kennel: not enforced: {key}")), "{flags:?}: {errors}");
    }
}

#[test]
fn a_plan_says_what_is_done_and_what_is_not() {
    let Some(kennel) = kennel() else { return };
    let (code, output, _) =
        run(&kennel, &["plan", "--steps", "--best-effort", "--memory", "64M", "--pids", "3", "--", "cmd"]);
    assert_eq!(code, 0);
    for part in [
        "restrict writes of the token",
        "limit committed memory to 67108864 bytes",
        "limit processes to 3",
        "not enforced: a network of its own needs an AppContainer",
        "network.mode (partly)",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let (code, _, errors) = run(&kennel, &["plan", "--steps", "--", "cmd"]);
    assert!(code == 125 && errors.contains("network.mode: "), "{errors}");
}

#[test]
fn the_doctor_lists_what_is_kept_and_runs_a_command() {
    let Some(kennel) = kennel() else { return };
    let (code, output, _) = run(&kennel, &["doctor"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("a command ran in its job object"), "{output}");
    assert!(output.contains("in docs/platforms.md are enforced here"), "{output}");
}

#[test]
#[kennel_claim::claim("windows/everything-ends")]
fn time_runs_out_for_everything() {
    let Some(kennel) = kennel() else { return };
    let mut child = Command::new(&kennel)
        .args(["run", "--net", "host", "--timeout", "2s", "--", probe_path(), "tree", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kennel runs");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints");
        line.trim_end().to_owned()
    };
    let tree: Vec<Watched> = (0..2).map(|_| Watched::new(&line())).collect();
    let end = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&end.stderr).into_owned();
    assert_eq!(end.status.code(), Some(124), "{errors}");
    assert!(errors.contains("timed out after 2s"), "{errors}");
    assert!(tree.iter().all(|process| process.ends_within(Duration::from_secs(10))));
}

#[test]
#[kennel_claim::claim("windows/everything-ends")]
fn everything_ends_when_kennel_is_killed() {
    let Some(kennel) = kennel() else { return };
    let mut child = Command::new(&kennel)
        .args(["run", "--net", "host", "--", probe_path(), "tree", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kennel runs");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints");
        line.trim_end().to_owned()
    };
    let tree: Vec<Watched> = (0..2).map(|_| Watched::new(&line())).collect();
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert!(tree.iter().all(|process| process.ends_within(Duration::from_secs(20))));
}

#[test]
fn ctrl_c_and_ctrl_break_are_the_commands_and_kennel_tells_its_end() {
    let Some(kennel) = kennel() else { return };
    for (typed, code) in [("type-ctrl-c", 43), ("type-ctrl-break", 44)] {
        // On a console of its own, so that nobody else hears it.
        let mut command = Command::new(probe_path());
        command.creation_flags(CREATE_NO_WINDOW).arg(typed).arg(&kennel);
        command.args(["run", "--net", "host", "--", probe_path(), "interrupt"]);
        let end = command.stdin(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&end.stdout).into_owned();
        if typed == "type-ctrl-break"
            && said.trim_end() == "ready false"
            && skipped("Ctrl-Break: it cannot be sent")
        {
            return;
        }
        assert_eq!((said.trim_end(), end.status.code()), ("ready true", Some(code)));
    }
}

/// A server that says the same to everybody.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let _ = stream.read(&mut [0; 1024]);
            let _ =
                stream.write_all(b"HTTP/1.1 299 Reached\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

#[test]
fn the_gate_lets_allowed_hosts_through_for_who_asks_it() {
    let Some(kennel) = kennel() else { return };
    let (allowed, other) = (server(), server());
    let get = |verb: &str, address: &str| {
        run(&kennel, &["run", "--best-effort", "--allow-domain", &allowed, "--", probe_path(), verb, address])
    };
    let (code, output, errors) = get("get", &allowed);
    assert_eq!((code, output.trim_end()), (0, "HTTP/1.1 299 Reached"), "{errors}");
    let (_, output, errors) = get("get", &other);
    assert!(output.starts_with("HTTP/1.1 403"), "{output}{errors}");
    assert!(errors.contains(&format!("to allow it: --allow-domain {other}")), "{errors}");
    // It is advisory, and kennel does not claim more: who goes around it gets there.
    let (_, output, errors) = get("get-directly", &other);
    assert_eq!(output.trim_end(), "HTTP/1.1 299 Reached");
    assert!(
        errors.contains("not enforced: network.mode: only proxy variables lead to the network gate"),
        "{errors}"
    );
}

#[test]
fn without_a_network_proxies_lead_nowhere() {
    let Some(kennel) = kennel() else { return };
    let address = server();
    let (_, output, _) = run(&kennel, &["run", "--best-effort", "--", probe_path(), "get", &address]);
    assert!(!output.contains("299"), "{output}");
}

#[test]
#[kennel_claim::claim("windows/standard-handles-only")]
fn a_file_behind_a_stream_is_written_through_a_pipe() {
    let Some(kennel) = kennel() else { return };
    let file = std::env::temp_dir().join(format!("kennel-test-output-{}", std::process::id()));
    let output = std::fs::File::create(&file).expect("made");
    let end = Command::new(&kennel)
        .args(["run", "--net", "host", "--max-output", "1000", "--", probe_path(), "fill", "5000"])
        .stdout(output)
        .stderr(Stdio::piped())
        .output()
        .expect("kennel runs");
    let errors = String::from_utf8_lossy(&end.stderr).into_owned();
    assert!(end.status.success() && errors.contains("limits.output"), "{errors}");
    assert_eq!(std::fs::read(&file).expect("it is there").len(), 1000);
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn a_report_says_how_it_ended_and_what_was_not_enforced() {
    let Some(kennel) = kennel() else { return };
    let file = std::env::temp_dir().join(format!("kennel-test-report-{}.json", std::process::id()));
    let name = file.to_string_lossy().into_owned();
    let (code, _, errors) =
        run(&kennel, &["run", "--best-effort", "--report", &name, "--", probe_path(), "exit", "3"]);
    assert_eq!(code, 3, "{errors}");
    let report = std::fs::read_to_string(&file).expect("it was written");
    assert!(report.contains("\"not_enforced\"") && report.contains("network.mode: "), "{report}");
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn kennel_runs_in_kennel_and_says_what_that_costs() {
    let Some(kennel) = kennel() else { return };
    let name = kennel.to_string_lossy().into_owned();
    let inside = ["run", "--net", "host", "--", &name];
    let nested = |words: &[&str]| {
        let all: Vec<&str> = inside.iter().chain(words).copied().collect();
        run(&kennel, &all)
    };
    let (code, output, errors) = nested(&["run", "--net", "host", "--", probe_path(), "exit", "6"]);
    assert_eq!(code, 6, "{output}{errors}");
    let (_, output, _) = nested(&["plan", "--steps", "--net", "host", "--", "cmd"]);
    assert!(
        output.contains("without limits on the desktop") && output.contains("in a job object itself"),
        "{output}"
    );
    let (_, output, _) = run(&kennel, &["plan", "--steps", "--net", "host", "--", "cmd"]);
    assert!(output.contains("keep the job object from the clipboard"), "{output}");
    // Everything ends with the outer one.
    let words = [
        "run",
        "--net",
        "host",
        "--timeout",
        "1s",
        "--",
        &name,
        "run",
        "--net",
        "host",
        "--",
        probe_path(),
        "sleep",
        "600",
    ];
    let (code, _, errors) = run(&kennel, &words);
    assert_eq!(code, 124, "{errors}");
}
