//! What `kennel run` says on a terminal about agents that it knows.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::ran;

use crate::profiles::Home;

/// A program of this name that ends with this code.
fn program(home: &Home, name: &str, code: i32) -> PathBuf {
    let path = home.scratch.write(&format!("bin/{name}"), &format!("#!/bin/sh\nexit {code}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What a terminal shows of a run.
fn on_terminal(home: &Home, flags: &[&str], program: &PathBuf) -> String {
    let terminal = Pty::new(&[]);
    let mut command = home.kennel(["run"]);
    command.args(flags).arg("--").arg(program);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    let code = exit_code(&mut child);
    let mark = format!("[{code}]");
    rustix::io::write(terminal.program(), mark.as_bytes()).unwrap();
    let shown = terminal.wait_for(&mark);
    let shown = shown.replace("\r\n", "\n").replace(&mark, "");
    // What is said about its own sandbox is not of interest here.
    let lines =
        shown.split_inclusive('\n').filter(|line| !line.starts_with("kennel: note: codex runs with "));
    lines.collect()
}

const NOTE: &str = "kennel: note: codex has a profile, with its state and its hosts: --profile codex\n";

#[test]
fn the_profile_of_a_known_agent_is_named_on_a_terminal_and_nowhere_else() {
    let home = Home::new();
    let codex = program(&home, "codex", 0);
    assert_eq!(on_terminal(&home, &[], &codex), NOTE);
    assert_eq!(on_terminal(&home, &["--profile", "agent"], &codex), NOTE);
    for flags in
        [&["--quiet"][..], &["--profile", "codex"], &["--profile", "build"], &["--profile", "claude"]]
    {
        assert_eq!(on_terminal(&home, flags, &codex), "", "{flags:?}");
    }
    assert_eq!(on_terminal(&home, &[], &program(&home, "codex-helper", 0)), "");
    // In a pipe it could be taken for something that the command says.
    assert_eq!(ran(home.kennel(["run", "--"]).arg(&codex)).ok().stderr, "");
}

#[test]
fn an_agent_that_fails_at_once_is_told_with_the_state_that_was_closed() {
    let home = Home::new();
    let codex = program(&home, "codex", 1);
    let hint = |flags: &[&str]| {
        let shown = on_terminal(&home, flags, &codex);
        let hint = shown.replace(NOTE, "");
        // Without the time.
        let (before, rest) = hint.split_once(" after ").unwrap_or((&hint, ""));
        format!("{before}{}", rest.split_once(" s;").map_or("", |(_, rest)| rest))
    };
    let told = |how: &str, help: &str| {
        format!(
            "kennel: codex exited with 1 it keeps its state in ~/.codex, which {how} here\nhelp: {help}\n"
        )
    };
    assert_eq!(hint(&[]), told("does not exist", "--profile codex gives it one of its own"));
    std::fs::create_dir(home.at(".codex")).unwrap();
    let open = "--profile codex gives it one of its own; --allow-write ~/.codex opens yours";
    assert_eq!(hint(&[]), told("is read-only", open));
    assert_eq!(hint(&["--profile", "agent"]), told("is private and empty", open));
    let state = home.at(".codex").display().to_string();
    assert_eq!(hint(&["--deny-read", &state]), told("is hidden", "drop the rule that hides it: --deny-read"));
    // Nothing is said without evidence: where it is open, where nothing failed, where nobody reads it.
    let suggestion =
        "kennel: note: if a closed file is the cause, kennel why in the place of kennel run says which\n";
    assert_eq!(hint(&["--allow-write", &state]), suggestion);
    let reminder = "kennel: note: the home is private in this sandbox: `kennel plan --steps` lists what shows of it, --allow-read ~/… shows more\n";
    assert_eq!(hint(&["--profile", "codex"]), reminder);
    assert_eq!(hint(&["--quiet"]), "");
    assert_eq!(on_terminal(&home, &[], &program(&home, "codex", 0)), NOTE);
    assert_eq!(on_terminal(&home, &[], &program(&home, "something", 1)), suggestion);
    program(&home, "codex", 1);
    assert_eq!(ran(home.kennel(["run", "--"]).arg(&codex)).expect_code(1).stderr, "");
}

/// Only where kennel protects in its place.
#[test]
fn an_agents_own_sandbox_is_turned_off_only_where_this_one_protects_instead() {
    let home = Home::new();
    let codex = home.scratch.write("bin/codex", "#!/bin/sh\necho \"$@\"\n");
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    let called = |flags: &[&str]| {
        let mut command = home.kennel(["run", "--profile"]);
        let told = ran(command.args(flags).arg("--").arg(&codex).arg("exec")).ok();
        (told.stdout.contains("danger-full-access"), told.stderr.contains("kennel: note: codex runs with"))
    };
    assert_eq!(called(&["codex"]), (true, true));
    assert_eq!(called(&["codex", "--quiet"]), (true, false));
    for flags in [&["codex", "--net", "host"][..], &["codex", "--best-effort"], &["agent"], &["claude"]] {
        assert_eq!(called(flags), (false, false), "{flags:?}");
    }
}
