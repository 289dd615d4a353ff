//! Where real values come from, and what is said of them.

use std::os::fd::AsRawFd;

use kennel_tests::{Scratch, kennel, ran_within};
use serde_json::{Value, json};

use crate::secrets::{LONG, Setup, Told, Upstream, have, plain, upstream};

const HOST: &str = "sources.web.test";

/// Asks the upstream with the stand-in, by a path that tells the test.
fn ask(path: &str) -> String {
    format!(r#"printenv KEY; curl -sS -H "x-api-key: $KEY" https://{HOST}{path}"#)
}

/// Fails the test unless the real key arrived by this path, and the sandbox held another one.
#[track_caller]
fn check(upstream: &Upstream, told: Told, path: &str) {
    let told = told.ok();
    upstream.assert_clean("what is inside", &told.ran.stdout);
    assert!(told.ran.stdout.starts_with("sk-ant-api03-"), "{told:#?}");
    upstream.assert_clean("the messages", &told.ran.stderr);
    upstream.assert_clean("the report", &told.text);
    let seen = upstream.requests(path);
    assert_eq!(seen.first().map(|request| request["real"].clone()), Some("anthropic".into()), "{told:#?}");
}

fn setup(upstream: &Upstream, from: impl Into<Value>) -> Setup {
    let from = from.into();
    Setup::new(upstream, &[]).set("secrets.KEY", json!({"from": from, "hosts": [HOST]}))
}

#[test]
fn a_secret_comes_from_a_file_a_variable_a_descriptor_or_a_program() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let key = upstream.key("anthropic");
    let kept = Scratch::new();
    // With the line break that editors leave at the end.
    let file = kept.write("key", &format!("{key}\n")).display().to_string();
    let told = setup(upstream, json!(format!("file:{file}"))).sh(&ask("/from-file"));
    check(upstream, told, "/from-file");
    let told = setup(upstream, json!("env:OUTSIDE")).variable("OUTSIDE", key).sh(&ask("/from-env"));
    check(upstream, told, "/from-env");
    // A program's words are words: no shell reads them.
    let told = setup(upstream, json!({"command": ["cat", file]})).sh(&ask("/from-command"));
    check(upstream, told, "/from-command");
    let told = setup(upstream, json!({"command": ["printf", "%s", "$(id)"]})).sh("printenv KEY");
    assert!(!told.ran.stdout.contains("uid="), "{told:#?}");
    // A pipe that the caller has opened.
    let from_fd = setup(upstream, json!("fd:7"));
    let (reader, mut writer) = std::io::pipe().expect("a pipe can be made");
    std::io::Write::write_all(&mut writer, key.as_bytes()).expect("it is empty");
    drop(writer);
    let mut command = from_fd.command();
    command.args(["--", "sh", "-c", &ask("/from-fd")]);
    let fd = reader.as_raw_fd();
    // SAFETY: only dup2, to the number that the settings name.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, move || {
            if libc::dup2(fd, 7) < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    check(upstream, from_fd.finish(&mut command), "/from-fd");
}

#[test]
fn the_variable_that_a_secret_comes_from_stays_outside() {
    let Some(upstream) = upstream() else { return };
    let told =
        setup(upstream, json!("env:OUTSIDE")).variable("OUTSIDE", upstream.key("anthropic")).sh("env").ok();
    upstream.assert_clean("the environment", &told.ran.stdout);
}

#[test]
fn the_file_that_a_secret_comes_from_cannot_be_read_inside() {
    let Some(upstream) = upstream() else { return };
    let kept = Scratch::new();
    let file = kept.write("key", upstream.key("anthropic")).display().to_string();
    let told = setup(upstream, json!(format!("file:{file}"))).sh(&format!("cat {file}"));
    upstream.assert_clean("what is inside", &told.ran.stdout);
}

#[test]
#[kennel_claim::claim("secrets/values-stay-in-kennels-memory")]
fn a_source_that_gives_no_value_is_an_error_that_names_it() {
    let Some(upstream) = upstream() else { return };
    let key = upstream.key("anthropic");
    let kept = Scratch::new();
    let write = |name: &str, text: &str| kept.write(name, text).display().to_string();
    let cases = [
        (json!("env:NOT_THERE"), "NOT_THERE"),
        (json!("file:/nonexistent/key"), "/nonexistent/key"),
        (json!(format!("file:{}", write("empty", ""))), "empty"),
        (json!("fd:77"), "77"),
        (json!({"command": ["false"]}), "false"),
        (json!({"command": ["/nonexistent/program"]}), "/nonexistent/program"),
        (json!({"command": ["yes", key]}), "yes"),
        // No header field can hold these.
        (json!(format!("file:{}", write("two-lines", &format!("{key}\nsecond\n")))), "KEY"),
        (json!(format!("file:{}", write("return", &format!("{key}\rx")))), "KEY"),
        (json!(format!("file:{}", write("nul", &format!("{key}\0x")))), "KEY"),
    ];
    for (from, named) in cases {
        let told = setup(upstream, from.clone()).sh("echo started");
        assert_ne!(told.ran.code, 0, "{from}: {told:#?}");
        assert!(!told.ran.stdout.contains("started"), "{from}: {told:#?}");
        assert!(told.ran.stderr.contains(named), "{from}: {told:#?}");
        upstream.assert_clean("the error", &told.ran.stderr);
    }
}

#[test]
fn a_program_that_does_not_end_is_not_waited_for() {
    let Some(upstream) = upstream() else { return };
    let began = std::time::Instant::now();
    let told = setup(upstream, json!({"command": ["sleep", "1000"]})).sh("echo started");
    assert_ne!(told.ran.code, 0, "{told:#?}");
    assert!(told.ran.stderr.contains("sleep"), "{told:#?}");
    assert!(began.elapsed().as_secs() < 90, "{:?}", began.elapsed());
}

#[test]
#[kennel_claim::claim("secrets/found-files-name-no-secret")]
fn a_settings_file_that_was_found_names_no_secret() {
    let Some(upstream) = upstream() else { return };
    for (text, key) in [
        (r#"{"secrets": {"KEY": {"from": "env:OUTSIDE", "hosts": ["evil.web.test"]}}}"#, "secrets"),
        (
            r#"{"secrets": {"KEY": {"from": {"command": ["touch", "ran"]}, "hosts": ["evil.web.test"], "mode": "inject"}}}"#,
            "secrets",
        ),
        (
            r#"{"gateway": {"anthropic": {"key": "env:OUTSIDE", "upstream": "https://evil.web.test"}}}"#,
            "gateway",
        ),
        (r#"{"network": {"terminate": ["*"]}}"#, "network.terminate"),
        (r#"{"network": {"extra_ca": ["own.pem"]}}"#, "network.extra_ca"),
    ] {
        let home = Scratch::new();
        home.write("kennel.json", text);
        let mut command = kennel(["run", "--", "sh", "-c", "env; ls"]);
        plain(&mut command, &home);
        command.env("OUTSIDE", upstream.key("anthropic")).args::<[&str; 0], _>([]);
        let ran = ran_within(LONG, &mut command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(key), "it is told: {text}: {ran:#?}");
        assert!(!said.contains("ANTHROPIC_BASE_URL=") && !said.contains("KEY=sk-"), "{text}: {ran:#?}");
        assert!(!home.join("ran").exists(), "{text}: {ran:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/values-stay-in-kennels-memory")]
fn a_plan_shows_where_a_secret_comes_from_and_not_what_it_is() {
    let Some(upstream) = upstream() else { return };
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[HOST]);
    let setup = setup.gateway(upstream, &crate::secrets::clients::OPENAI);
    // The same words with another command.
    let line = setup.command();
    let mut command = kennel(["plan", "--steps"]);
    plain(&mut command, &setup.home);
    let words = line
        .get_args()
        .skip(1)
        .filter(|word| *word != "--report" && !word.to_string_lossy().ends_with("report.json"));
    command.args(words).args(["--", "true"]);
    for (name, value) in line.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let ran = ran_within(LONG, &mut command).ok();
    for shown in ["KEY", HOST, "openai"] {
        assert!(ran.stdout.contains(shown), "{ran:#?}");
    }
    upstream.assert_clean("the plan", &ran.stdout);
    upstream.assert_clean("the messages", &ran.stderr);
}

#[test]
#[kennel_claim::claim("secrets/values-stay-in-kennels-memory")]
fn no_process_has_a_secret_in_its_words_or_its_environment() {
    let Some(upstream) = upstream() else { return };
    let kept = Scratch::new();
    let file = kept.write("key", upstream.key("anthropic")).display().to_string();
    let setup = setup(upstream, json!(format!("file:{file}"))).set("files.deny_read", json!([kept.path()]));
    let mut command = setup.command();
    command.args(["--", "sh", "-c", "printenv KEY; exec sleep 1000"]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("kennel can be started");
    let mut begun = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut begun)
        .expect("it says its stand-in");
    // Kennel, what it has started, and what that has started.
    let (mut all, mut seen) = (String::new(), 0);
    let mut pids = vec![child.id()];
    while let Some(pid) = pids.pop() {
        for name in ["cmdline", "environ"] {
            if let Ok(bytes) = std::fs::read(format!("/proc/{pid}/{name}")) {
                all.push_str(&String::from_utf8_lossy(&bytes));
                seen += 1;
            }
        }
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    assert!(begun.starts_with("sk-ant-"), "{begun}");
    assert!(seen >= 2 && all.contains("sleep"), "{all}");
    upstream.assert_clean("the words and environments of all processes", &all);
}
