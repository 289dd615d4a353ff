//! `kennel doctor`: names what is missing and what to do about it, and its exit code says whether `kennel run` works.

use kennel_tests::{kennel, ran};

use crate::hosts::world::{Lack, WITHOUT_NAMESPACES, kennel_in};

/// The finding about `subject`, from `kennel doctor --json`.
fn finding(report: &serde_json::Value, subject: &str) -> (String, String, String) {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let found = report["findings"].as_array().expect("findings").iter().find(|one| one["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("nothing about {subject} in {report:#}"));
    (text(&found["state"]), text(&found["detail"]), text(&found["remedy"]))
}

fn report(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn on_this_host_it_says_what_run_then_does() {
    let doctor = ran(&mut kennel(["doctor", "--json"]));
    let run = ran(&mut kennel(["run", "--no-settings", "--", "true"]));
    assert_eq!(doctor.code == 0, run.code == 0, "doctor: {doctor:?}\nrun: {run:?}");
    assert_eq!(report(&doctor.stdout)["works"], doctor.code == 0);
}

#[test]
#[kennel_claim::claim("hosts/namespaces-or-an-error")]
fn it_names_the_switch_that_denies_user_namespaces() {
    let Some(mut doctor) = kennel_in(&[Lack::UserNamespaces], ["doctor", "--json"]) else { return };
    let doctor = ran(&mut doctor).expect_code(1);
    let report = report(&doctor.stdout);
    assert_eq!(report["works"], false);
    let (state, detail, remedy) = finding(&report, "namespaces");
    assert_eq!(state, "missing");
    assert!(detail.contains("user.max_user_namespaces = 0"), "{detail}");
    assert!(remedy.contains("sysctl user.max_user_namespaces"), "{remedy}");
    assert_eq!(finding(&report, "sandbox").0, "missing");
}

#[test]
fn it_says_that_a_filter_may_be_the_reason() {
    for lack in [Lack::ContainerFilter, Lack::StrictContainerFilter] {
        let Some(mut doctor) = kennel_in(&[lack], ["doctor", "--json"]) else { continue };
        let doctor = ran(&mut doctor).expect_code(1);
        let (state, detail, remedy) = finding(&report(&doctor.stdout), "namespaces");
        assert_eq!(state, "missing", "{lack:?}");
        let said = format!("{detail} {remedy}");
        assert!(said.contains("seccomp"), "{lack:?}: {said}");
    }
}

#[test]
fn it_finds_that_nothing_can_be_mounted_in_a_namespace() {
    let Some(mut doctor) = kennel_in(&[Lack::Mounts], ["doctor", "--json"]) else { return };
    let doctor = ran(&mut doctor).expect_code(1);
    let (state, detail, _) = finding(&report(&doctor.stdout), "sandbox");
    assert_eq!(state, "missing");
    assert!(detail.contains("Operation not permitted"), "{detail}");
}

#[test]
#[kennel_claim::claim("hosts/namespaces-or-an-error")]
fn it_finds_the_masks_of_proc() {
    let Some(mut doctor) = kennel_in(&[Lack::WholeProc], ["doctor", "--json"]) else { return };
    let doctor = ran(&mut doctor).expect_code(1);
    let (state, detail, remedy) = finding(&report(&doctor.stdout), "sandbox");
    assert_eq!(state, "missing");
    let said = format!("{detail} {remedy}");
    assert!(said.contains("/proc are masked") && said.contains("systempaths=unconfined"), "{said}");
    assert!(said.contains("--best-effort"), "{said}");
}

#[test]
fn a_missing_landlock_is_weaker_but_works() {
    let Some(mut doctor) = kennel_in(&[Lack::Landlock], ["doctor", "--json"]) else { return };
    let doctor = ran(&mut doctor).ok();
    let (state, detail, remedy) = finding(&report(&doctor.stdout), "landlock");
    assert_eq!(state, "weaker");
    assert!(detail.contains("not available") && remedy.contains("lsm="), "{detail} {remedy}");
}

#[test]
fn in_words_every_lack_has_a_line_and_a_remedy() {
    for lack in WITHOUT_NAMESPACES {
        let Some(mut doctor) = kennel_in(&[lack], ["doctor"]) else { continue };
        let doctor = ran(&mut doctor).expect_code(1);
        let mut lines = doctor.stdout.lines().skip_while(|line| !line.starts_with("missing"));
        assert!(lines.next().is_some(), "{}", doctor.stdout);
        assert!(doctor.stdout.contains('→'), "{}", doctor.stdout);
        assert_eq!(doctor.stderr, "");
    }
}
