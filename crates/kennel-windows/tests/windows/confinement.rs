//! The job and the token.

use kennel_policy::policy::{Missing, Origin, PathRule, SearchScope};
use windows_sys::Win32::System::SystemServices::SE_GROUP_USE_FOR_DENY_ONLY;

use super::*;

#[test]
#[kennel_claim::claim("windows/stays-in-its-job")]
fn the_first_thing_that_it_can_do_it_does_in_its_job() {
    // Outside it is in none.
    let plain = std::process::Command::new(probe_path()).arg("is-in-job").output().expect("it runs");
    if plain.stdout.starts_with(b"true") {
        println!("SKIPPED: this process is in a job itself");
        return;
    }
    assert_eq!(printed(&policy(), &["is-in-job"]).trim_end(), "true");
}

#[test]
#[kennel_claim::claim("windows/stays-in-its-job")]
fn it_cannot_leave_its_job() {
    assert_eq!(printed(&policy(), &["breakaway"]).trim_end(), "refused 5");
}

/// What the probe's token has, as the probe prints it.
fn token(policy: &Policy) -> Vec<String> {
    printed(policy, &["token"]).lines().map(str::to_owned).collect()
}

fn token_outside() -> Vec<String> {
    let plain = std::process::Command::new(probe_path()).arg("token").output().expect("it runs");
    String::from_utf8_lossy(&plain.stdout).lines().map(str::to_owned).collect()
}

#[test]
#[kennel_claim::claim("windows/no-privileges")]
fn administrators_are_there_to_deny_only() {
    let attributes = |token: &[String]| {
        token.iter().find_map(|line| {
            let hex = line.strip_prefix("group S-1-5-32-544 ")?;
            u32::from_str_radix(hex, 16).ok()
        })
    };
    let Some(outside) = attributes(&token_outside()) else {
        println!("SKIPPED: this user is no administrator");
        return;
    };
    let deny_only = SE_GROUP_USE_FOR_DENY_ONLY as u32;
    let inside = attributes(&token(&policy())).expect("the group stays");
    assert_ne!(inside & deny_only, 0, "{inside:x}, outside {outside:x}");
    if kennel_windows::host::wine_version().is_some() {
        assert_eq!(outside & deny_only, 0, "the test shows nothing: {outside:x}");
    }
}

#[test]
#[kennel_claim::claim("windows/no-privileges")]
fn no_privilege_stays_but_passing_through_folders() {
    let outside = token_outside();
    assert!(outside.iter().filter(|line| line.starts_with("privilege ")).count() > 1, "{outside:?}");
    for policy in [policy(), writable()] {
        let inside = token(&policy);
        let left: Vec<&String> = inside.iter().filter(|line| line.starts_with("privilege ")).collect();
        assert_eq!(left, ["privilege SeChangeNotifyPrivilege"]);
    }
}

#[test]
#[kennel_claim::claim("windows/private-folder-only")]
fn its_token_is_restricted_and_of_low_integrity() {
    let inside = token(&policy());
    if skipped("restricting SIDs and integrity levels") {
        return;
    }
    assert!(inside.contains(&"integrity S-1-16-4096".to_owned()), "{inside:?}");
    assert!(inside.contains(&"restricted true".to_owned()), "{inside:?}");
    let open = token(&writable());
    assert!(open.contains(&"restricted false".to_owned()), "{open:?}");
}

/// A policy with a place to write, which takes the protection of files away: see `verdict`.
fn writable() -> Policy {
    let mut policy = policy();
    policy.files.allow_write = vec![PathRule {
        pattern: kennel_policy::pattern::PathPattern::literal("C:\\x"),
        missing: Missing::Skip,
        follow_link: true,
        lenient: false,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::Everywhere,
        origin: Origin("a test".into()),
    }];
    policy
}

#[test]
#[kennel_claim::claim("windows/private-folder-only")]
fn nothing_can_be_written_but_in_its_own_folder() {
    let file = std::env::temp_dir().join(format!("kennel-test-write-{}", std::process::id()));
    let name = file.to_string_lossy().into_owned();
    if !skipped("integrity levels of files") {
        assert_eq!(printed(&policy(), &["write", &name]).trim_end(), "refused 5");
        assert!(!file.exists());
    }
    assert_eq!(printed(&writable(), &["write", &name]).trim_end(), "written");
    std::fs::remove_file(&file).expect("it was written");
}
