//! The library on such hosts: the same errors and the same list, as values.

use std::ffi::OsString;
use std::time::Duration;

use kennel::{Sandbox, SandboxError};
use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::{Ran, ran_within, role};

use crate::hosts::world::{Lack, WITHOUT_NAMESPACES, command_in, landlock_at_least};

/// The role: uses the library and says what came of it.
pub fn embedder(arguments: &[OsString]) -> i32 {
    let word = |at: usize| arguments[at].to_string_lossy().into_owned();
    match word(0).as_str() {
        "strict" => match Sandbox::builder().build().expect("plain").run("echo", &["ran"]) {
            Err(SandboxError::NamespaceCreation(text)) => print!("{text}"),
            other => panic!("{other:?}"),
        },
        "lenient" => {
            let sandbox = Sandbox::builder().best_effort(true).build().expect("plain");
            let result = sandbox.run_with_input("sh", &["-c", "cat; exit 6"], b"ran ").expect("it runs");
            println!("{}{} {}", result.stdout, result.exit_code, result.not_enforced.join("; "));
        }
        "drop" => {
            let sleep = word(1);
            let sandbox = Sandbox::builder().best_effort(true).build().expect("plain");
            let script = format!("sleep {sleep} & (setsid sleep {sleep} &); echo ready; exec sleep {sleep}");
            let mut child = sandbox.spawn("sh", &["-c", &script]).expect("it starts");
            let mut ready = [0; 6];
            std::io::Read::read_exact(&mut child.take_stdout().expect("piped"), &mut ready)
                .expect("the command starts");
            drop(child);
            let own = std::process::id().to_string();
            // At once: dropping waits until the last process is gone.
            let left = processes_with(&sleep).into_iter().filter(|line| !line.starts_with(&own));
            left.for_each(|line| println!("{line}"));
        }
        _ => {
            let sleep = word(1);
            let sandbox = Sandbox::builder().best_effort(true).wall_time_limit(Duration::from_millis(700));
            let script = format!("sleep {sleep} & (setsid sleep {sleep} &); exec sleep {sleep}");
            let result = sandbox.build().expect("plain").run("sh", &["-c", &script]).expect("it runs");
            println!("{} {}", result.exit_code, result.killed_by_timeout);
        }
    }
    0
}

fn embedder_in(lack: Lack, arguments: &[&str]) -> Option<Ran> {
    let me = std::env::current_exe().expect("a test knows its own path");
    // The world takes its own role out of the environment; `env` gives the next.
    let mut command = command_in(&[lack], std::path::Path::new("/usr/bin/env"))?;
    command.arg(format!("{}=hosts-embedder", role::VARIABLE)).arg(me).args(arguments);
    Some(ran_within(Duration::from_secs(60), &mut command))
}

#[test]
fn denied_namespaces_are_an_error_of_their_own() {
    for lack in WITHOUT_NAMESPACES.into_iter().chain([Lack::WholeProc]) {
        let Some(run) = embedder_in(lack, &["strict"]) else { continue };
        let said = run.ok().stdout;
        assert!(said.contains("help: ") && !said.contains("ran\n"), "{lack:?}: {said}");
    }
}

#[test]
fn with_best_effort_the_result_lists_what_is_not_enforced() {
    if !landlock_at_least(1) {
        return;
    }
    for lack in WITHOUT_NAMESPACES {
        let Some(run) = embedder_in(lack, &["lenient"]) else { continue };
        let said = run.ok().stdout;
        assert!(said.starts_with("ran 6 namespaces"), "{lack:?}: {said}");
    }
}

#[test]
fn dropping_a_child_leaves_nothing_running() {
    if !landlock_at_least(1) {
        return;
    }
    let sleep = unique_sleep();
    let Some(run) = embedder_in(Lack::UserNamespaces, &["drop", &sleep]) else { return };
    assert_eq!(run.ok().stdout, "");
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}

#[test]
fn nothing_runs_on_when_time_is_up() {
    if !landlock_at_least(1) {
        return;
    }
    let sleep = unique_sleep();
    let Some(run) = embedder_in(Lack::UserNamespaces, &["time", &sleep]) else { return };
    assert_eq!(run.ok().stdout, "124 true\n");
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}
