//! With `--best-effort`: the command runs under Landlock and seccomp, and the outcome lists what is not enforced.

use kennel_tests::{Ran, Scratch, am_root, kennel, ran, run_sh, skipped};

use crate::hosts::world::{Lack, WITHOUT_NAMESPACES, best_effort_in, kennel_in, landlock_at_least};

fn run_in(lack: Lack, flags: &[&str], script: &str) -> Option<Ran> {
    Some(ran(&mut best_effort_in(&[lack], flags.iter().copied(), script)?))
}

#[test]
fn the_command_runs_and_standard_error_says_what_is_not_enforced() {
    if !landlock_at_least(1) {
        return;
    }
    for lack in WITHOUT_NAMESPACES {
        let Some(run) = run_in(lack, &[], "echo out; exit 5") else { continue };
        let run = run.expect_code(5);
        assert_eq!(run.stdout, "out\n");
        for what in [
            "kennel: not enforced: namespaces",
            "kennel: not enforced: a private /tmp",
            "kennel: not enforced: a network",
        ] {
            assert!(run.stderr.contains(what), "{lack:?}: {what} is not in {}", run.stderr);
        }
    }
}

#[test]
fn the_report_lists_the_same() {
    if !landlock_at_least(1) {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.join("report.json");
    let Some(run) = run_in(Lack::UserNamespaces, &["--report", path.to_str().expect("plain")], "true") else {
        return;
    };
    let run = run.ok();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("written")).expect("JSON");
    let listed: Vec<_> =
        report["not_enforced"].as_array().expect("a list").iter().filter_map(|one| one.as_str()).collect();
    assert!(listed.len() >= 3, "{report:#}");
    for what in listed {
        assert!(run.stderr.contains(what), "{what} is not in {}", run.stderr);
    }
}

#[test]
fn where_nothing_is_missing_nothing_is_listed() {
    let scratch = Scratch::new();
    let path = scratch.join("report.json");
    let flags =
        ["run", "--no-settings", "--best-effort", "--report", path.to_str().expect("plain"), "--", "true"];
    let run = ran(&mut kennel(flags)).ok();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("written")).expect("JSON");
    let listed = report["not_enforced"].as_array().expect("a list");
    // A host without Landlock lists that and nothing else.
    assert!(listed.is_empty() || !landlock_at_least(1), "{report:#}");
    assert_eq!(run.stderr.contains("not enforced"), !listed.is_empty());
}

#[test]
fn a_missing_landlock_alone_is_listed() {
    let Some(run) = run_in(Lack::Landlock, &[], "echo out") else { return };
    let run = run.ok();
    assert!(run.stderr.contains("not enforced: Landlock"), "{}", run.stderr);
    assert!(!run.stderr.contains("not enforced: namespaces"), "{}", run.stderr);
}

#[test]
fn quiet_leaves_it_to_the_report() {
    if !landlock_at_least(1) {
        return;
    }
    let Some(run) = run_in(Lack::UserNamespaces, &["-q"], "true") else { return };
    assert_eq!(run.ok().stderr, "");
}

#[test]
fn exit_codes_and_signals_are_as_ever() {
    if !landlock_at_least(1) {
        return;
    }
    let lack = Lack::UserNamespaces;
    for (script, code) in [("exit 7", 7), ("kill -TERM $$; sleep 60", 143), ("kill -KILL $$; sleep 60", 137)]
    {
        let Some(run) = run_in(lack, &[], script) else { return };
        run.expect_code(code);
    }
    for (command, code) in [("no-such-command", 127), ("/etc/passwd", 126), ("/etc", 126)] {
        let Some(mut run) = kennel_in(&[lack], ["run", "--no-settings", "--best-effort", "--", command])
        else {
            return;
        };
        // The caller's own PATH may name folders that it cannot search.
        ran(run.env("PATH", "/usr/bin:/bin")).expect_code(code);
    }
    let Some(run) = run_in(lack, &["--timeout", "500ms"], "sleep 60") else { return };
    run.expect_code(124);
}

#[test]
fn the_command_has_no_capabilities_and_cannot_gain_any() {
    if !landlock_at_least(1) {
        return;
    }
    for lack in WITHOUT_NAMESPACES {
        let Some(run) =
            run_in(lack, &[], "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status")
        else {
            continue;
        };
        for line in run.ok().stdout.lines() {
            let (name, value) = line.split_once(':').expect("name and value");
            let expected = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                _ => "0000000000000000",
            };
            assert_eq!(value.trim(), expected, "{lack:?}: {name}");
        }
    }
}

/// Nothing ran, and nothing was tried with less.
#[track_caller]
fn failed_by(run: Ran, why: &str) {
    let run = run.expect_code(125);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains(why) && !run.stderr.contains("not enforced"), "{}", run.stderr);
}

#[test]
fn a_full_file_system_of_the_sandboxs_own_is_no_reason_to_do_without_namespaces() {
    let flags = ["--no-settings", "--best-effort", "--allow-domain", "host.test", "--tmp-size", "4k"];
    failed_by(run_sh(flags, "echo ran"), "No space left on device");
}

#[test]
fn a_call_that_needs_no_namespace_is_no_reason_to_do_without_them() {
    let Some(run) = run_in(Lack::Symlinks, &[], "echo ran") else { return };
    failed_by(run, "Permission denied");
}

#[test]
fn a_folder_that_is_closed_to_the_sandbox_is_no_reason_to_do_without_namespaces() {
    if !am_root() {
        return skipped("only root sees a folder that root of the sandbox cannot open");
    }
    let scratch = Scratch::new();
    let (closed, inner) = (scratch.dir("closed"), scratch.dir("closed/inner"));
    std::os::unix::fs::chown(&closed, Some(65534), Some(65534)).expect("root may");
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("root may");
    let inner = inner.to_str().expect("plain");
    failed_by(
        run_sh(["--no-settings", "--best-effort", "--allow-write", inner], "echo ran"),
        "Permission denied",
    );
}
