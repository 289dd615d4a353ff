//! What is told of it, and what becomes of it when it cannot be done.

use std::path::Path;

use super::{Way, World};

const HOOKS: Way = Way::Level("hooks-and-config-read-only");

fn report(world: &World) -> serde_json::Value {
    let text = std::fs::read(world.scratch.join("report.json")).expect("there is a report");
    serde_json::from_slice(&text).expect("it is JSON")
}

#[test]
fn what_was_set_aside_is_told_with_the_reason_and_the_way_back() {
    let Some(world) = World::new() else { return };
    let path = world.scratch.join("report.json").display().to_string();
    let script = "git init -q e; cd e; git config core.fsmonitor RUN; git config alias.x '!RUN'; printf '#!/bin/sh\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; exit 7";
    let ran = world.inside_with(HOOKS, &["--report", &path], script).expect_code(7);
    let config = world.work().join("e/.git/config").display().to_string();
    for word in [
        format!(
            "kennel: took settings out of {config}: git on the host would act on core.fsmonitor, alias.x"
        ),
        "kennel: set aside".to_owned(),
        "git on the host would run the hook post-commit".to_owned(),
        format!("{config}.set-aside-by-kennel-"),
    ] {
        assert!(ran.stderr.contains(&word), "{word}: {}", ran.stderr);
    }
    let report = report(&world);
    let list = report["set_aside"].as_array().expect("a list");
    assert_eq!((list.len(), &report["set_aside_not_listed"]), (2, &serde_json::json!(0)), "{report}");
    assert_eq!(list[0]["what"], "settings");
    assert_eq!(list[0]["path"], config.as_str());
    assert_eq!(list[0]["settings"], serde_json::json!(["core.fsmonitor", "alias.x"]));
    assert_eq!(list[1]["what"], "hooks");
    // The commands do what they say.
    for entry in list {
        world.host(entry["put_back"].as_str().expect("there is a way back"));
    }
    assert_eq!(
        world.host("git -C e config alias.x; ls e/.git/hooks/post-commit"),
        world.fill_in("!RUN\ne/.git/hooks/post-commit\n")
    );
}

#[test]
fn the_library_tells_the_same() {
    let Some(world) = World::new() else { return };
    let sandbox = kennel::Sandbox::builder()
        .allow_write(world.work())
        .working_dir(world.work())
        .git(kennel::GitLevel::HooksAndConfigReadOnly)
        .build()
        .expect("it can be built");
    let script = world.fill_in("git init -q e; git -C e config core.fsmonitor RUN");
    let result = sandbox.run("sh", &["-c", &script]).expect("it runs");
    assert_eq!(result.set_aside.len(), 1, "{}", result.stderr);
    assert_eq!(result.set_aside[0].path, world.work().join("e/.git/config"));
    assert!(result.set_aside[0].moved_to.as_ref().is_some_and(|path| path.is_file()));
    let mut child = sandbox
        .spawn("sh", &["-c", &world.fill_in("git init -q f; git -C f config core.pager RUN")])
        .expect("it starts");
    assert_eq!(child.wait().expect("it ends").set_aside.len(), 1);
    // One that nobody waits for is looked after too.
    let mut child = sandbox
        .spawn(
            "sh",
            &[
                "-c",
                &world.fill_in(
                    "git init -q g; git -C g config core.fsmonitor 'RUN;false'; echo done; sleep 60",
                ),
            ],
        )
        .expect("it starts");
    let mut line = [0; 5];
    std::io::Read::read_exact(&mut child.take_stdout().expect("it is there"), &mut line).expect("it says so");
    drop(child);
    assert!(!world.runs_something(), "it ran");
}

#[test]
#[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
fn it_is_done_when_time_is_up_and_when_the_command_is_killed() {
    let Some(world) = World::new() else { return };
    let script = "git init -q e; git -C e config core.fsmonitor 'RUN;false'; sleep 60";
    world.inside_with(HOOKS, &["--timeout", "2s"], script).expect_code(124);
    assert!(!world.runs_something(), "it ran");
    let script = "git init -q f; git -C f config core.fsmonitor 'RUN;false'; kill -9 $$";
    world.inside(HOOKS, script).expect_code(137);
    assert!(!world.runs_something(), "it ran");
}

#[test]
fn a_run_that_makes_nothing_changes_nothing() {
    let Some(world) = World::new() else { return };
    // A repository that names a program, and is not harmless, was there before: it is its owner's.
    world.host("git init -q mine; git -C mine config core.fsmonitor 'RUN;false'; git -C mine config alias.x '!RUN'; printf '#!/bin/sh\\n' > mine/.git/hooks/post-commit; chmod +x mine/.git/hooks/post-commit; git init -q --bare mine.git; git -C mine.git config core.pager x");
    let before = world.scratch.listing();
    for script in ["true", "echo x > two", "touch new; rm new"] {
        for way in super::WAYS {
            let ran = world.inside(*way, script).ok();
            assert!(!ran.stderr.contains("set aside"), "{way:?}: {}", ran.stderr);
        }
    }
    let mut after = world.scratch.listing();
    // Nor is what kennel keeps for itself, such as layers of caches, the workspace's.
    let state =
        [".local", ".local/state", ".local/state/kennel"].map(|name| world.scratch.join("home").join(name));
    let is_kennels = |path: &Path| state.iter().any(|own| path == own) || path.starts_with(&state[2]);
    after.retain(|path| !path.ends_with("/settings.json") && !is_kennels(Path::new(path)));
    assert_eq!(before, after);
    assert!(world.runs_something(), "what was there before still runs");
}

#[test]
#[kennel_claim::claim("handed-back/git-search-skips-nothing")]
fn on_a_full_disk_it_is_done_all_the_same() {
    let Some(world) = World::new() else { return };
    if !kennel_tests::am_root() {
        return kennel_tests::skipped("a small file system can be mounted by root only");
    }
    let small = world.scratch.dir("work/small").display().to_string();
    world.host("mount -t tmpfs -o size=1m none small");
    let script = "git init -q small/e; git -C small/e config core.fsmonitor 'RUN;false'; git init -q small/f; printf '#!/bin/sh\\nRUN\\n' > small/f/.git/hooks/post-commit; chmod +x small/f/.git/hooks/post-commit; cat /dev/zero > small/fill 2>/dev/null; df small | tail -1";
    let ran = world.inside(HOOKS, script);
    let found = world.runs_something();
    world.host("umount small");
    assert!(!found, "{small}: {}", ran.stderr);
    assert!(ran.stderr.contains("set aside"), "{}", ran.stderr);
}

#[test]
fn two_sandboxes_in_one_folder_leave_nothing_between_them() {
    let Some(world) = World::new() else { return };
    std::thread::scope(|scope| {
        for number in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..2 {
                    let name = format!("e-{number}-{round}");
                    let script = format!("git init -q {name}; git -C {name} config core.fsmonitor 'RUN;false'; git -C {name} commit -q --allow-empty -m x; git clone -q {name} {name}-c; sleep 0.{number}");
                    // What changes while a sandbox is being set up ends its start.
                    let mut ran = world.inside(HOOKS, &script);
                    while ran.code == 125 && ran.stderr.contains("Stale file handle") {
                        ran = world.inside(HOOKS, &script);
                    }
                    assert_eq!(ran.code, 0, "{}", ran.stderr);
                }
            });
        }
    });
    assert!(!world.runs_something(), "it ran");
    assert_eq!(world.host("ls -d e-*-c | wc -l"), "8\n", "honest work is not disturbed");
}
