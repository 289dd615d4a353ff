//! Without `--best-effort`: what cannot be enforced is an error, in the words of `kennel doctor`, and nothing runs.

use kennel_tests::{Scratch, ran};

use crate::hosts::world::{Lack, WITHOUT_NAMESPACES, kennel_in};

#[test]
#[kennel_claim::claim("itself/fails-closed")]
fn run_fails_with_125_and_the_command_never_runs() {
    for lack in WITHOUT_NAMESPACES.into_iter().chain([Lack::WholeProc]) {
        let scratch = Scratch::new();
        let folder = scratch.path().to_str().expect("plain");
        let script = "echo ran; touch here";
        let Some(mut run) = kennel_in(
            &[lack],
            ["run", "--no-settings", "--allow-write", folder, "-C", folder, "--", "sh", "-c", script],
        ) else {
            continue;
        };
        let run = ran(&mut run).expect_code(125);
        assert_eq!(run.stdout, "", "{lack:?}");
        assert!(
            run.stderr.starts_with("kennel: ") && run.stderr.contains("\nhelp: "),
            "{lack:?}: {}",
            run.stderr
        );
        assert!(scratch.listing().is_empty());
    }
}

#[test]
fn run_says_what_doctor_says() {
    for lack in WITHOUT_NAMESPACES.into_iter().chain([Lack::WholeProc]) {
        let Some(mut doctor) = kennel_in(&[lack], ["doctor", "--json"]) else { continue };
        let Some(mut run) = kennel_in(&[lack], ["run", "--no-settings", "--", "true"]) else { continue };
        let report: serde_json::Value = serde_json::from_str(&ran(&mut doctor).stdout).expect("JSON");
        let run = ran(&mut run).expect_code(125).stderr;
        let findings = report["findings"].as_array().expect("findings");
        let missing: Vec<_> = findings.iter().filter(|one| one["state"] == "missing").collect();
        assert!(!missing.is_empty());
        // What is wrong, and what to do: each stands in both, word for word.
        let same = |key: &str| {
            missing.iter().any(|one| {
                one[key].as_str().is_some_and(|text| {
                    text.split(": ")
                        .last()
                        .is_some_and(|words| run.contains(words.lines().next().unwrap_or("?")))
                })
            })
        };
        assert!(same("detail"), "{lack:?}\ndoctor: {report:#}\nrun: {run}");
        let remedies: String = findings.iter().filter_map(|one| one["remedy"].as_str()).collect();
        let helps: Vec<_> = run.lines().filter_map(|line| line.strip_prefix("help: ")).collect();
        let everything = format!("{remedies} {report}");
        assert!(
            helps.iter().any(|help| everything.contains(help)),
            "{lack:?}: {helps:?} is not in {report:#}"
        );
        assert!(helps.iter().any(|help| help.contains("kennel doctor")), "{run}");
    }
}

#[test]
fn the_report_holds_the_same_error() {
    let scratch = Scratch::new();
    let path = scratch.join("report.json");
    let Some(mut run) = kennel_in(
        &[Lack::UserNamespaces],
        ["run", "--no-settings", "--report", path.to_str().expect("plain"), "--", "true"],
    ) else {
        return;
    };
    let run = ran(&mut run).expect_code(125);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("written")).expect("JSON");
    assert_eq!((&report["exit_code"], &report["ended"]), (&125.into(), &"not-started".into()));
    let error = report["error"].as_str().expect("an error");
    assert!(run.stderr.contains(error), "{} / {error}", run.stderr);
}

#[test]
fn without_landlock_the_mounts_hold_the_rules() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "before\n");
    let script = format!("cat '{0}'; echo x > '{0}' || echo refused", file.display());
    let Some(mut run) = kennel_in(&[Lack::Landlock], ["run", "--no-settings", "--", "sh", "-c", &script])
    else {
        return;
    };
    assert_eq!(ran(&mut run).ok().stdout, "before\nrefused\n");
}

#[test]
#[kennel_claim::claim("itself/fails-closed")]
fn with_neither_namespaces_nor_landlock_not_even_best_effort_runs() {
    for lack in WITHOUT_NAMESPACES {
        for flags in [&["run", "--no-settings"][..], &["run", "--no-settings", "--best-effort"]] {
            let Some(mut run) =
                kennel_in(&[lack, Lack::Landlock], flags.iter().chain(&["--", "echo", "ran"]))
            else {
                continue;
            };
            let run = ran(&mut run).expect_code(125);
            assert_eq!(run.stdout, "");
            if flags.contains(&"--best-effort") {
                assert!(run.stderr.contains("no Landlock"), "{lack:?}: {}", run.stderr);
            }
        }
    }
}
