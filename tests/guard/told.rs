//! What the caller is told: on standard error, in the report, in the plan, by the library; and nothing where there is
//! nothing to guard.

use kennel_tests::{kennel, ran, run_sh, text};

use crate::guard::Project;

#[test]
fn a_refusal_is_told_with_the_path_the_rule_and_how_often() {
    let project = Project::denying(&[".git", ".bashrc"]);
    let report = text(&project.scratch.join("report.json"));
    let flags = [&project.flags()[..], &["--report", &report]].concat();
    let script = format!(
        "cd {} && for n in 1 2 3; do mkdir .git; done; true > .bashrc; exit 5",
        text(&project.at(""))
    );
    let ran = run_sh(flags, &script).expect_code(5);
    let (git, bashrc) = (text(&project.at(".git")), text(&project.at(".bashrc")));
    let told = format!(
        "kennel: refused to create {git} (mkdir or mknod, 3 times): deny_write {git} (--deny-write)\n\
         kennel: refused to create {bashrc} (open): deny_write {bashrc} (--deny-write)\n"
    );
    assert!(ran.stderr.ends_with(&told), "{}", ran.stderr);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).expect("the report is JSON");
    assert_eq!(report["ended"], "exited");
    assert_eq!(report["violations"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["violations"][0]["what"], "refused");
    assert_eq!(report["violations"][0]["path"], git.as_str());
    assert_eq!(report["violations"][0]["count"], 3);
    assert_eq!(report["violations"][0]["rule"], format!("deny_write {git} (--deny-write)"));
}

#[test]
fn quiet_keeps_refusals_to_the_report() {
    let project = Project::denying(&[".git"]);
    let flags = [&project.flags()[..], &["--quiet"]].concat();
    let ran = run_sh(flags, &format!("mkdir {} 2>/dev/null", text(&project.at(".git")))).expect_code(1);
    assert_eq!(ran.stderr, "");
}

#[test]
fn the_plan_says_what_is_guarded_and_why() {
    let project = Project::denying(&["a/.git"]);
    let mut plan = kennel(["plan", "--steps"]);
    let plan = ran(plan.args(project.flags()).args(["--", "true"])).ok().stdout;
    let path = text(&project.at("a/.git"));
    let guarded = plan.lines().find(|line| line.contains(&format!("guard: refuse to create {path}")));
    assert!(
        guarded.is_some_and(|line| line.ends_with(&format!("# deny_write {path} (--deny-write)"))),
        "{plan}"
    );
    assert!(plan.contains("the guard decides some"), "{plan}");
}

/// Does something that waits, and hands over the controller's pid while it does.
fn while_it_runs(flags: &[&str], first: &str, look: impl FnOnce(u32)) {
    use std::io::Read;
    let mut command = kennel(["run"]);
    command.args(flags).args(["--", "sh", "-c", &format!("{first}; echo started; read answer")]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("kennel can be started");
    let mut word = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut word).expect("the command starts");
    look(child.id());
    drop(child.stdin.take());
    child.wait().expect("a child can be waited for");
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

#[test]
fn the_guards_threads_run_when_a_name_is_made_where_a_denied_path_is_absent() {
    let guarded = Project::denying(&[".git"]);
    let name = format!("> {}", text(&guarded.at("name")));
    while_it_runs(&guarded.flags(), &name, |controller| assert_eq!(threads(controller), 3));
    while_it_runs(&guarded.flags(), "cat /etc/passwd > /dev/null", |controller| {
        assert_eq!(threads(controller), 3, "a redirection is a call that could make a name");
    });
    while_it_runs(&guarded.flags(), "true", |controller| assert_eq!(threads(controller), 1));
    let project = Project::denying(&[]);
    let name = format!("> {}", text(&project.at("name")));
    while_it_runs(&project.flags(), &name, |controller| assert_eq!(threads(controller), 1));
}

#[test]
fn the_library_tells_the_same() {
    let project = Project::denying(&[]);
    let denied = project.at(".git");
    let sandbox = kennel::Sandbox::builder()
        .allow_write(project.at(""))
        .deny_write(&denied)
        .build()
        .expect("the configuration is sound");
    let result = sandbox.run("mkdir", &[&text(&denied)]).expect("the command runs");
    assert_eq!(result.exit_code, 1);
    assert!(result.stderr.contains("Read-only file system"), "{}", result.stderr);
    assert!(!result.killed_by_broken_rule);
    match &result.violations[..] {
        [kennel::Violation::Refused { path, times: 1, .. }] => assert_eq!(path.as_deref(), Some(&*denied)),
        other => panic!("{other:?}"),
    }
    assert!(!denied.exists());
    // Spawned, with nobody who waits for it yet.
    let mut child = sandbox.spawn("mkdir", &[&text(&denied)]).expect("the command starts");
    assert_eq!(child.wait().expect("it ends").violations.len(), 1);
    // And by many threads at once, each with a guard of its own.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let result = sandbox.run("sh", &["-c", "mkdir \"$0\"; exit 3", &text(&denied)]).unwrap();
                assert_eq!((result.exit_code, result.violations.len()), (3, 1), "{}", result.stderr);
            });
        }
    });
    assert!(!denied.exists());
}
