//! Where a denied path can be: deep, below folders that do not exist either, in a folder that comes later or from
//! elsewhere, in a folder that shows at another place.

use kennel_tests::probe::Script;
use kennel_tests::{Ran, args, run_sh, text};
use libc::{AT_FDCWD, EROFS, O_CREAT, O_WRONLY};

use crate::guard::Project;

fn sh(project: &Project, script: &str) -> Ran {
    run_sh(project.flags(), &format!("cd {} && {script}", text(&project.at(""))))
}

#[test]
fn what_is_not_denied_can_be_made_as_ever() {
    let project = Project::denying(&[".git", "a/b/c/.bashrc"]);
    let script = "mkdir -p a/b/c other/.git && echo x > a/b/c/.profile && echo y > other/.git/config
                  echo z > .bashrc && ln -s .git git && mv other others && mkfifo a/.git && rm a/.git";
    let ran = sh(&project, script).ok();
    assert_eq!(ran.stderr, "");
    for path in ["a/b/c/.profile", "others/.git/config", ".bashrc"] {
        assert!(project.at(path).is_file(), "{path}");
    }
}

#[test]
fn a_denied_path_below_folders_that_do_not_exist_stays_absent_when_they_are_made() {
    let project = Project::denying(&["a/b/c/d/.git/hooks"]);
    let script = "mkdir -p a/b/c/d/.git && echo made; mkdir a/b/c/d/.git/hooks && exit 9
                  rm -r a && mkdir -p a/b/c/d/.git && cd a/b/c/d/.git && mkdir hooks && exit 9; exit 7";
    let ran = sh(&project, script).expect_code(7);
    assert_eq!(ran.stdout, "made\n", "{}", ran.stderr);
    assert!(project.at("a/b/c/d/.git").is_dir() && !project.at("a/b/c/d/.git/hooks").exists());
}

#[test]
#[kennel_claim::claim("files/absent-denied-paths-stay-absent")]
fn a_folder_that_holds_the_denied_name_cannot_be_renamed_into_its_place() {
    let project = Project::denying(&["repo/.git/hooks/pre-commit"]);
    let at = AT_FDCWD;
    project.scratch.write("project/made/.git/hooks/pre-commit", "evil");
    project.scratch.write("project/git/hooks/pre-commit", "evil");
    let rename = |script: Script, from: &str, to: &str| {
        script.call(libc::SYS_renameat2, args![at, &project.at(from), at, &project.at(to), 0])
    };
    let told = project.unchanged_by(|| {
        let script = rename(Script::new(), "made", "repo");
        script.call(libc::SYS_symlinkat, args!["made", at, &project.at("repo")]).inside(&project.flags())
    });
    told.refused_all(0..2, &[EROFS]);
    // Step by step: the folder first, then what it would hold.
    let script = Script::new().call(libc::SYS_mkdirat, args![at, &project.at("repo"), 0o755]);
    let told = rename(script, "git", "repo/.git").inside(&project.flags());
    told.ok(0).refused(1, &[EROFS]);
    // A folder without it may come.
    let told = rename(Script::new(), "mine", "repo/.git").inside(&project.flags());
    told.ok(0);
}

#[test]
fn a_folder_moved_away_and_made_anew_is_denied_the_same_name() {
    let project = Project::denying(&["a/.git"]);
    project.scratch.dir("project/a");
    let script = "mv a b && mkdir a && mkdir b/.git && mkdir a/.git && exit 9
                  rmdir a && mv b a && exit 9; exit 7";
    sh(&project, script).expect_code(7);
    assert!(!project.at("a/.git").exists());
    assert!(project.at("b/.git").is_dir(), "under another name it is not the denied path");
}

#[test]
fn relative_paths_descriptors_and_proc_lead_to_the_same_refusal() {
    let project = Project::denying(&["sub/.git"]);
    project.scratch.dir("project/sub/inner");
    let (at, sub) = (AT_FDCWD, project.at("sub"));
    let open = O_WRONLY | O_CREAT;
    let told = project.unchanged_by(|| {
        Script::new()
            .open(&sub, libc::O_PATH | libc::O_DIRECTORY)
            .call(libc::SYS_openat, args![kennel_tests::probe::Arg::Answer(0), ".git", open, 0o600])
            .call(libc::SYS_openat, args![at, "/proc/self/fd/3/.git", open, 0o600])
            .call(libc::SYS_chdir, args![&sub.join("inner")])
            .call(libc::SYS_openat, args![at, "../.git", open, 0o600])
            .call(libc::SYS_openat, args![at, "./..//../sub/./.git", open, 0o600])
            .call(libc::SYS_openat, args![at, "/proc/self/cwd/../.git", open, 0o600])
            .call(
                libc::SYS_openat,
                args![at, "/proc/thread-self/root/proc/1/../self/cwd/../.git", open, 0o600],
            )
            .call(libc::SYS_mkdirat, args![at, "../.git///", 0o755])
            .inside(&project.flags())
    });
    told.ok_all([0, 3]).refused_all([1, 2, 4, 5, 6, 7, 8], &[EROFS]);
}

#[test]
#[kennel_claim::claim("files/absent-denied-paths-stay-absent")]
fn a_denied_path_below_the_source_of_a_mount_stays_absent_there_too() {
    let project = Project::denying(&[]);
    let scratch = &project.scratch;
    let source = scratch.dir("source");
    scratch.dir("target");
    let mount = format!("{}:{}:rw", source.display(), scratch.join("target").display());
    let denied = text(&source.join("deep/.git"));
    let script = format!(
        "cd {} && mkdir deep && mkdir deep/.git && exit 9; mkdir deep/git && exit 7",
        scratch.join("target").display()
    );
    run_sh(["--no-settings", "--mount", &mount, "--deny-write", &denied], &script).expect_code(7);
    assert!(source.join("deep/git").is_dir() && !source.join("deep/.git").exists());
}

#[test]
fn a_denied_path_in_a_read_only_part_of_a_write_root_is_kept_by_that_alone() {
    let project = Project::denying(&["sub", "sub/.git"]);
    project.scratch.dir("project/sub");
    let denied = text(&project.at("sub/.git"));
    let flags = [&project.flags()[..], &["--deny-read", &denied]].concat();
    let mut plan = kennel_tests::kennel(["plan", "--steps"]);
    let plan = kennel_tests::ran(plan.args(&flags).args(["--", "true"])).ok();
    assert!(!plan.stdout.contains("guard: refuse to create"), "{}", plan.stdout);
    run_sh(&flags, &format!("mkdir {denied} && exit 9; exit 7")).expect_code(7);
}
