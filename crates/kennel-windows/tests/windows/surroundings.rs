//! What a command finds around it: variables, handles, folders.

use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{CreateEventW, WaitForSingleObject};

use kennel_policy::policy::{EnvironmentBase, TmpMode};

use super::*;

/// An event that processes can inherit.
fn event() -> OwnedHandle {
    // SAFETY: neither attributes nor a name are given.
    let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
    assert!(!event.is_null());
    // SAFETY: it was just made for us.
    let event = unsafe { OwnedHandle::from_raw_handle(event) };
    // SAFETY: the handle is valid.
    unsafe { SetHandleInformation(event.as_raw_handle(), HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) };
    event
}

fn is_set(event: &OwnedHandle) -> bool {
    // SAFETY: the handle is of an event.
    unsafe { WaitForSingleObject(event.as_raw_handle(), 0) == WAIT_OBJECT_0 }
}

#[test]
#[kennel_claim::claim("windows/standard-handles-only")]
fn a_handle_that_is_not_listed_does_not_arrive() {
    let event = event();
    let number = event.as_raw_handle().addr().to_string();
    // Without kennel it does.
    let plain =
        std::process::Command::new(probe_path()).args(["set-event", &number]).output().expect("it runs");
    assert!(is_set(&event), "{plain:?}");
    let event = self::event();
    let number = event.as_raw_handle().addr().to_string();
    printed(&policy(), &["set-event", &number]);
    assert!(!is_set(&event));
}

#[test]
fn streams_lead_where_they_were_given() {
    let (input, mut writer) = std::io::pipe().expect("a pipe");
    let (mut output, end) = std::io::pipe().expect("a pipe");
    let (variables, cwd) = (std::env::vars_os().collect::<Vec<_>>(), std::env::temp_dir());
    let streams = [input.into(), end.into(), nowhere()];
    let mut sandboxed =
        launch(&policy(), &words(&[probe_path(), "copy"]), &variables, cwd, streams).expect("it starts");
    std::io::Write::write_all(&mut writer, b"there and back").expect("it reads");
    drop(writer);
    let mut text = String::new();
    // It ends only if nobody here holds the command's ends.
    output.read_to_string(&mut text).expect("it writes");
    assert_eq!(text, "there and back");
    assert!(sandboxed.wait(Some(Instant::now() + LONG)).expect("waited").is_some());
}

#[test]
#[kennel_claim::claim("windows/passed-variables-only")]
fn only_the_variables_that_the_policy_passes_arrive() {
    let mut policy = policy();
    policy.environment.base = EnvironmentBase::Clear;
    policy.environment.pass = vec!["kennel_pass".into()];
    policy.environment.set = vec![("Kennel_Set".into(), "a=b ä".into()), ("EMPTY".into(), "".into())];
    let mut inherited: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in [("KENNEL_PASS", "1"), ("KENNEL_SECRET", "2"), ("=Z:", "Z:\\secret")] {
        inherited.push((name.into(), value.into()));
    }
    let (mut output, end) = std::io::pipe().expect("a pipe");
    let streams = [nowhere(), end.into(), nowhere()];
    let words = words(&[probe_path(), "environment"]);
    let mut sandboxed =
        launch(&policy, &words, &inherited, std::env::temp_dir(), streams).expect("it starts");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("it prints");
    sandboxed.wait(Some(Instant::now() + LONG)).expect("waited").expect("it ends");
    let has = |line: &str| text.lines().any(|own| own == line);
    assert!(has("KENNEL_PASS=1") && has("Kennel_Set=a=b ä"), "{text}");
    assert!(!text.contains("SECRET") && !text.contains("secret"), "{text}");
    assert!(text.lines().any(|line| line.to_ascii_lowercase().starts_with("systemroot=")), "{text}");
}

#[test]
fn folders_of_the_callers_drives_do_not_arrive() {
    let mut inherited: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    inherited.push(("=Z:".into(), "Z:\\secret".into()));
    let (mut output, end) = std::io::pipe().expect("a pipe");
    let streams = [nowhere(), end.into(), nowhere()];
    let words = words(&[probe_path(), "environment"]);
    let mut sandboxed =
        launch(&policy(), &words, &inherited, std::env::temp_dir(), streams).expect("it starts");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("it prints");
    sandboxed.wait(Some(Instant::now() + LONG)).expect("waited").expect("it ends");
    assert!(text.contains("TEMP=") && !text.contains("secret"), "{text}");
}

#[test]
#[kennel_claim::claim("windows/passed-variables-only")]
fn a_name_that_would_smuggle_in_another_variable_is_refused() {
    let mut policy = policy();
    policy.environment.set = vec![("A".into(), "x\0PATH=evil".into())];
    let error = try_launch(&policy, &words(&[probe_path(), "exit", "0"])).err().expect("it is refused");
    assert!(matches!(error, Error::Environment(_)), "{error}");
}

#[test]
fn temporary_files_go_to_a_folder_of_its_own_that_is_removed() {
    let text = printed(&policy(), &["environment"]);
    let temp = text.lines().find_map(|line| line.strip_prefix("TEMP=")).expect("a folder").to_owned();
    assert!(text.contains(&format!("TMP={temp}")) && temp.contains("kennel-tmp-"), "{text}");
    assert!(!std::path::Path::new(&temp).exists());
    // It can be written while the command runs.
    let mut run =
        try_launch(&policy(), &words(&["cmd", "/c", "echo x>%TEMP%\\f&&type %TEMP%\\f"])).expect("it starts");
    assert_eq!(run.line(), "x");
    run.end();
    let mut policy = policy();
    policy.files.tmp = TmpMode::Host;
    let text = printed(&policy, &["environment"]);
    assert!(!text.contains("kennel-tmp-"), "{text}");
}

#[test]
fn it_starts_in_its_folder_or_not_at_all() {
    let text = printed(&policy(), &["folder"]);
    let folder = std::fs::canonicalize(text.trim_end()).expect("it is there");
    assert_eq!(folder, std::fs::canonicalize(std::env::temp_dir()).expect("it is there"));
    let streams = [nowhere(), nowhere(), nowhere()];
    let words = words(&[probe_path(), "exit", "0"]);
    let started = launch(&policy(), &words, &[], "C:\\no such folder".into(), streams);
    let error = started.expect_err("there is no such folder").to_string();
    assert!(error.starts_with("starting in C:\\no such folder: "), "{error}");
}
