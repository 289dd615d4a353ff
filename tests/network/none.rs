//! Without a network: a command that had tried to reach one is told why it could not, and nobody else is told anything.

use std::ffi::OsString;

use kennel_tests::{Ran, Scratch, kennel, program, ran_within, skipped};

use crate::network::LONG;
use kennel_tests::world::{THERE, THERE_V6, python, world};

const HINT: &str = "kennel: this sandbox has no network; to allow a host: --allow-domain HOST\n";

fn run(flags: &[&str], script: &str) -> Ran {
    let mut command = kennel(["run", "--no-settings"]);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    ran_within(LONG, command.args(flags).args(["--", "sh", "-c", script]))
}

/// A Python program in one word of a shell.
fn in_python(code: &str) -> Option<String> {
    let Some(python) = python() else {
        skipped("python3 is not installed");
        return None;
    };
    Some(format!("'{}' -c \"{code}\"", OsString::from(python).to_string_lossy()))
}

#[test]
fn a_command_that_had_tried_to_reach_a_network_is_told_that_there_is_none() {
    let Some(world) = world() else { return };
    let mut tries = vec![
        format!("curl -s -m 20 http://{THERE}/"),
        "curl -s -m 20 http://none.web.test/".to_owned(),
        "getent hosts none.web.test".to_owned(),
        // In the background, by a grandchild, and ended by a signal.
        format!("(curl -s -m 20 http://{THERE}/ &) ; sleep 0.5; exit 3"),
        format!("curl -s -m 20 http://{THERE}/; kill -TERM $$"),
    ];
    if world.ipv6 {
        tries.push(format!("curl -g -s -m 20 'http://[{THERE_V6}]/'"));
    }
    tries.extend(in_python("import urllib.request as r; r.urlopen('http://none.web.test/')"));
    tries.extend(in_python(&format!("import socket; socket.create_connection(('{THERE}', 80))")));
    tries.extend(in_python(&format!(
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{THERE}', 53))"
    )));
    for script in &tries {
        for flags in [&[][..], &["--reads", "listed"]] {
            let ran = run(flags, script);
            assert_ne!(ran.code, 0, "{script}: {ran:?}");
            assert!(ran.stderr.ends_with(HINT), "{flags:?} {script}: {ran:?}");
        }
        // In a shell or a pipe the failure is lost, and its cause is the same.
        if !script.contains("$$") {
            let lost = run(&[], &format!("({script}); true")).ok();
            assert!(lost.stderr.ends_with(HINT), "{script}: {lost:?}");
        }
    }
    world.saw_nothing_of("none.web.test");
}

#[test]
fn without_that_evidence_nothing_is_said() {
    let Some(_) = world() else { return };
    let try_it = format!("curl -s -m 20 http://{THERE}/");
    let mut others = vec![
        // It tried nothing.
        (&[][..], "false".to_owned()),
        (&[], "exit 7".to_owned()),
        (&[], "true".to_owned()),
        // It was not to be told, or has a network.
        (&["--quiet"], try_it.clone()),
        (&["--net", "host"], "exit 7".to_owned()),
        (&["--allow-domain", "x.web.test"], "curl -s -m 20 http://x.nowhere.test/; exit 7".to_owned()),
        // The loopback is there: nobody listens, or somebody does.
        (&[], "curl -s -m 20 http://127.0.0.1:9/ || curl -s -m 20 'http://[::1]:9/' || exit 7".to_owned()),
        (&[], "getent ahostsv4 localhost > /dev/null; exit 7".to_owned()),
    ];
    let loopback = "import socket as s
l = s.create_server(('127.0.0.1', 0)); s.create_connection(l.getsockname()).sendall(b'x')
s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9)); exit(7)";
    others.extend(in_python(loopback).map(|script| (&[][..], script)));
    for (flags, script) in &others {
        let ran = run(flags, script);
        assert!(!ran.stderr.contains("this sandbox has no network"), "{flags:?} {script}: {ran:?}");
    }
}

#[test]
fn who_took_the_network_away_is_named_and_the_advice_fits() {
    let Some(_) = world() else { return };
    let scratch = Scratch::new();
    let none = scratch.write("none.toml", "network.mode = \"none\"\n");
    let try_it = format!("curl -s -m 20 http://{THERE}/");
    let advice = "; to allow a host: --net allow-list --allow-domain HOST\n";
    let by_flag = run(&["--net", "none"], &try_it);
    assert!(
        by_flag.stderr.ends_with(&format!("kennel: this sandbox has no network (--net){advice}")),
        "{by_flag:?}"
    );
    let file = none.display().to_string();
    let by_file = run(&["--settings", &file], &try_it);
    assert!(by_file.stderr.ends_with(&format!("has no network ({file}:1){advice}")), "{by_file:?}");
    // It can be followed.
    run(&["--settings", &file, "--net", "allow-list", "--allow-domain", "x.web.test"], "true").ok();
    // No flag overrules a file that was found.
    std::fs::rename(&none, scratch.join("kennel.toml")).expect("a file");
    let mut found = kennel(["run", "--", "sh", "-c", &try_it]);
    let found = ran_within(LONG, found.current_dir(scratch.path()));
    assert!(found.stderr.ends_with("kennel: this sandbox has no network (kennel.toml:1)\n"), "{found:?}");
}

#[test]
fn a_look_up_by_a_name_server_on_the_loopback_is_evidence_too() {
    let Some(_) = world() else { return };
    if program("getent").is_none() {
        return skipped("getent is not installed");
    }
    let scratch = Scratch::new();
    let file = scratch.write("resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n");
    let mount = format!("{}:/etc/resolv.conf", file.display());
    let ran = run(&["--mount", &mount], "getent hosts none.web.test");
    assert!(ran.stderr.ends_with(HINT), "{ran:?}");
    let ran = run(&["--mount", &mount], "getent ahostsv4 localhost > /dev/null; exit 7");
    assert!(!ran.stderr.contains("no network"), "{ran:?}");
}

#[test]
fn the_report_and_the_library_say_it_as_well() {
    let Some(_) = world() else { return };
    let scratch = Scratch::new();
    for (script, expected) in [(format!("curl -s -m 20 http://{THERE}/"), true), ("false".to_owned(), false)]
    {
        let path = scratch.join(&format!("{expected}.json"));
        run(&["--report", &path.display().to_string()], &script);
        let text = std::fs::read_to_string(path).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["tried_network"], expected, "{text}");
        let sandbox = kennel::Sandbox::builder().build().expect("plain");
        let result = sandbox.run("sh", &["-c", &script]).expect("it runs");
        assert_eq!(result.tried_network, expected, "{result:?}");
    }
}
