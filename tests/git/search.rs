//! Repositories are found wherever they are.

use super::{HOOKS, METADATA, Yard};

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn nested_repositories_are_kept_at_any_depth() {
    let Some(yard) = Yard::new() else { return };
    let work = yard.scratch.dir("work");
    let places = [
        "work/a",
        "work/a/b/c/d/e/f/g",
        "work/with space",
        "work/.hidden/x",
        "work/node_modules/pkg",
        "work/node_modules/@scope/pkg",
    ];
    for place in places {
        yard.repository(place);
    }
    for place in places {
        let place = place.strip_prefix("work/").unwrap();
        for level in [HOOKS, METADATA] {
            yard.none_of(
                level,
                &work,
                &[
                    &format!("echo evil > '{place}/.git/config'"),
                    &format!("echo evil > '{place}/.git/hooks/x'"),
                ],
            );
        }
    }
    yard.inside(HOOKS, &work, "cd 'with space' && git commit -q --allow-empty -m x").ok();
}

#[test]
fn folders_that_a_glob_opens_are_looked_through() {
    let Some(yard) = Yard::new() else { return };
    yard.repository("work/a/sub");
    yard.repository("work/b");
    let glob = format!("{}/*", yard.at("work").display());
    for level in [HOOKS, METADATA] {
        for path in ["a/sub/.git/config", "b/.git/config", "b/.git/hooks/x"] {
            let mut command = kennel_tests::kennel([
                "run",
                "--no-settings",
                "--git",
                level,
                "--allow-write",
                &glob,
                "--",
                "sh",
                "-c",
            ]);
            let ran = kennel_tests::ran(command.arg(format!("echo x > {path}")).current_dir(yard.at("work")));
            assert!(ran.code != 0 && ran.code != 125, "{level} {path}: {} {}", ran.code, ran.stderr);
        }
    }
    let mut command = kennel_tests::kennel([
        "run",
        "--no-settings",
        "--git",
        HOOKS,
        "--allow-write",
        &glob,
        "--",
        "sh",
        "-c",
        "echo x > b/file",
    ]);
    kennel_tests::ran(command.current_dir(yard.at("work"))).ok();
}

#[test]
fn a_repository_in_a_mount_is_kept() {
    let Some(yard) = Yard::with_repository() else { return };
    let mount = format!("{}:/work:rw", yard.at("repo").display());
    for level in [HOOKS, METADATA] {
        let mut command = kennel_tests::kennel([
            "run",
            "--no-settings",
            "--git",
            level,
            "--mount",
            &mount,
            "-C",
            "/work",
            "--",
            "sh",
            "-c",
        ]);
        let ran = kennel_tests::ran(command.arg("echo ok > file; echo x > .git/config"));
        assert!(ran.code != 0 && ran.code != 125, "{level}: {} {}", ran.code, ran.stderr);
        assert!(yard.at("repo/file").exists());
    }
}
