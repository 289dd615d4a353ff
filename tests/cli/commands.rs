//! What can be started and what cannot: the exit codes of shells, and a message that says why.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use kennel_tests::{Scratch, kennel, ran};

use crate::cli::{Said, run, run_in};

fn executable(scratch: &Scratch, name: impl AsRef<OsStr>, text: &str) -> PathBuf {
    let path = scratch.path().join(name.as_ref());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_command_that_is_not_there_is_127() {
    run(["--", "kennel-has-no-such"])
        .expect_code(127)
        .says("kennel: kennel-has-no-such: command not found\n");
    let ran = run(["--", "./absent"]).expect_code(127);
    assert!(ran.stderr.starts_with("kennel: ./absent: "), "{}", ran.stderr);
    let ran = run(["--", "/absent/folder/x"]).expect_code(127);
    assert!(ran.stderr.starts_with("kennel: /absent/folder/x: "), "{}", ran.stderr);
    // As every shell has it.
    run(["--", ""]).expect_code(127);
}

#[test]
fn a_folder_and_a_file_that_is_not_executable_are_126() {
    let scratch = Scratch::new();
    scratch.dir("folder");
    scratch.write("plain", "x");
    let ran = run_in(scratch.path(), ["--", "./plain"]).expect_code(126);
    assert!(ran.stderr.starts_with("kennel: ./plain: Permission denied"), "{}", ran.stderr);
    for folder in ["./folder", "/", "/usr/bin"] {
        let ran = run_in(scratch.path(), ["--", folder]).expect_code(126);
        let lower = ran.stderr.to_lowercase();
        assert!(lower.starts_with(&format!("kennel: {folder}: is a directory")), "{}", ran.stderr);
    }
}

#[test]
fn a_name_that_is_found_but_not_executable_is_126_unless_a_later_folder_has_it() {
    let scratch = Scratch::new();
    scratch.write("first/tool", "x");
    scratch.dir("second");
    let path = |folders: &[&str]| {
        format!(
            "PATH={}",
            folders.iter().map(|f| scratch.join(f).display().to_string()).collect::<Vec<_>>().join(":")
        )
    };
    run(["--env", &path(&["first", "second"]), "--", "tool"]).expect_code(126);
    executable(&scratch, "second/tool", "#!/bin/sh\necho found");
    assert_eq!(run(["--env", &path(&["first", "second"]), "--", "tool"]).ok().stdout, "found\n");
}

#[test]
fn a_folder_of_the_path_that_may_not_be_looked_into_is_passed_over() {
    let scratch = Scratch::new();
    let shut = scratch.dir("shut");
    // It can be listed, but nothing in it can be reached, whoever asks: root inside has no power over it either.
    std::fs::set_permissions(&shut, PermissionsExt::from_mode(0o600)).unwrap();
    // As shells have it: nobody knows whether it is there, and so it was not found.
    let path = format!("PATH={}:/usr/bin:/bin", shut.display());
    run(["--env", &path, "--", "true"]).ok();
    run(["--env", &path, "--", "kennel-has-no-such"])
        .expect_code(127)
        .says("kennel: kennel-has-no-such: command not found\n");
}

#[test]
fn a_script_without_an_interpreter_runs_as_a_shell_would_run_it() {
    let scratch = Scratch::new();
    executable(&scratch, "script", "echo ran \"$0\" \"$@\"\n");
    let ran = run_in(scratch.path(), ["--", "./script", "one", "two words"]).ok();
    assert_eq!(ran.stdout, "ran ./script one two words\n");
    executable(&scratch, "empty", "");
    run_in(scratch.path(), ["--", "./empty"]).ok();
}

#[test]
fn a_script_whose_interpreter_is_missing_says_that_and_not_that_the_script_is() {
    let scratch = Scratch::new();
    executable(&scratch, "script", "#!/absent/interpreter -x\n");
    let ran = run_in(scratch.path(), ["--", "./script"]);
    assert!([126, 127].contains(&ran.code), "{ran:?}");
    assert!(
        ran.stderr.contains("interpreter") && !ran.stderr.contains("command not found"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_command_that_a_rule_hides_is_not_found() {
    let scratch = Scratch::new();
    let tool = executable(&scratch, "tool", "#!/bin/sh\necho ran");
    let mut words: Vec<OsString> =
        vec!["--deny-read".into(), scratch.path().into(), "--".into(), tool.clone().into()];
    let ran = run(&words);
    assert!([126, 127].contains(&ran.code), "{ran:?}");
    words.drain(..2);
    assert_eq!(run(&words).ok().stdout, "ran\n");
}

#[test]
fn names_with_newlines_and_bytes_that_are_no_text_work() {
    let scratch = Scratch::new();
    for name in [b"line\nbreak".as_slice(), b"\xff\xfe", b"two words", b"-dash", b"\x1b(B"] {
        let path = executable(&scratch, OsStr::from_bytes(name), "#!/bin/sh\nprintf '%s' \"$1\"");
        let output = kennel(["run", "--"]).arg(&path).arg(OsStr::from_bytes(b"\xff\n")).output().unwrap();
        assert_eq!(output.stdout, b"\xff\n", "{}", path.display());
        let mut absent = path.into_os_string();
        absent.push("-absent");
        let ran = ran(kennel(["run", "--"]).arg(&absent)).expect_code(127);
        // On one line, without what would move a cursor.
        assert!(ran.stderr.lines().count() == 1 && !ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    }
}

#[test]
fn flags_end_at_the_command_and_the_rest_is_its_own() {
    assert_eq!(run(["echo", "--allow-write", "--", "-q"]).ok().stdout, "--allow-write -- -q\n");
    assert_eq!(run(["-q", "--", "printf", "%s\\n", "--help"]).ok().stdout, "--help\n");
    assert_eq!(run(["--workdir=/usr", "--", "pwd"]).ok().stdout, "/usr\n");
    assert_eq!(run(["-qC", "/usr", "pwd"]).ok().stdout, "/usr\n");
}

/// How many bytes of arguments one exec takes here: a quarter of the stack limit, and never more than 6 MiB.
fn most_bytes() -> usize {
    let mut stack = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills in the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut stack) };
    usize::try_from(stack.rlim_cur / 4).unwrap_or(usize::MAX).clamp(128 << 10, 6 << 20)
}

#[test]
fn an_argument_list_just_below_the_kernels_limit_runs() {
    // Each word costs its bytes, a NUL and a pointer. kennel itself is started with the same list, so a little less.
    let word = "x".repeat(1000);
    let count = (most_bytes() - (96 << 10)) / (word.len() + 1 + 8);
    let words = vec![word.as_str(); count];
    let mut command = kennel(["run", "--", "sh", "-c", "echo $#", "sh"]);
    let ran = ran(command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap())).ok();
    assert_eq!(ran.stdout, format!("{count}\n"));
}

#[test]
fn an_argument_list_past_the_limit_is_a_clear_error() {
    // The list fits an exec of kennel, but what --env adds makes it too much for the command.
    let word = "x".repeat(1000);
    let count = (most_bytes() - (200 << 10)) / (word.len() + 1 + 8);
    let scratch = Scratch::new();
    let value = "y".repeat(100_000);
    let variables: String = (0..4).map(|n| format!("V{n} = \"{value}\"\n")).collect();
    scratch.write("s.toml", &format!("[environment.set]\n{variables}"));
    let mut command = kennel(["run", "--settings"]);
    command.arg(scratch.join("s.toml")).args(["--", "true"]).args(vec![word.as_str(); count]);
    let ran = ran(command.env_clear().env("PATH", std::env::var_os("PATH").unwrap())).expect_code(126);
    assert!(ran.stderr.contains("Argument list too long"), "{}", ran.stderr);
    // One word of more than 128 KiB is too much whatever the rest is.
    let scratch = Scratch::new();
    scratch.write("s.toml", &format!("environment.set.LONG = \"{}\"", "z".repeat(140_000)));
    let ran = run_in(scratch.path(), ["--settings", "s.toml", "--", "true"]).expect_code(126);
    assert!(ran.stderr.contains("Argument list too long"), "{}", ran.stderr);
}

#[test]
fn five_thousand_flags_work() {
    let scratch = Scratch::new();
    let mut words: Vec<OsString> = Vec::new();
    for n in 0..5000 {
        let flag = ["--deny-read", "--allow-read"][n % 2];
        words.extend([flag.into(), scratch.join(&format!("absent-{n}")).into()]);
    }
    words.extend(["--".into(), "true".into()]);
    run(words).ok();
}
