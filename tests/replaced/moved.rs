//! What the host moves: a file with its cover to another name, a folder with all that is in it, the workspace, what is above
//! it. A cover is the one of its name, and the way to a name starts at a folder that is held.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{Scratch, kennel_bin, program, ran, skipped, text};
use rustix::fs::{CWD, RenameFlags};

use crate::replaced::{Inside, exposed, report};

fn exchange(one: &Path, other: &Path) {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// Writes a new file and renames it over the old one, as `sed -i` and most editors do.
fn replace(file: &Path, new: &str) {
    let beside = file.with_file_name("written-by-the-host");
    std::fs::write(&beside, new).unwrap();
    std::fs::rename(beside, file).unwrap();
}

/// `up/work`, which the command may write, with two files and two folders.
fn yard() -> Scratch {
    let yard = Scratch::new();
    for name in [".env", ".env.production", "one/file", "two/file", "two/deep/file"] {
        yard.write(&format!("work/{name}"), "old-text");
    }
    yard
}

/// Flags for names in `work`.
fn flags(yard: &Scratch, words: &[&str]) -> Vec<String> {
    let mut flags = vec!["--allow-write".to_owned(), ".".to_owned()];
    for pair in words.chunks(2) {
        flags.extend([pair[0].to_owned(), text(&yard.join("work").join(pair[1]))]);
    }
    flags
}

fn run(yard: &Scratch, words: &[&str]) -> Inside {
    let flags = flags(yard, words);
    Inside::run(yard, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

type Move = fn(&Path);

/// Rules; what the host does in the workspace; the name at which the host's text then must not be read.
const OTHER_COVERS: &[(&str, &[&str], Move, &str)] = &[
    (
        "a kept file over a hidden one",
        &["--deny-read", ".env", "--deny-write", ".env.production"],
        |work| std::fs::rename(work.join(".env.production"), work.join(".env")).unwrap(),
        ".env",
    ),
    (
        "a kept file and a hidden one exchanged",
        &["--deny-read", ".env", "--deny-write", ".env.production"],
        |work| exchange(&work.join(".env.production"), &work.join(".env")),
        ".env",
    ),
    (
        "a kept folder and a hidden one exchanged",
        &["--deny-read", "one", "--deny-write", "two"],
        |work| exchange(&work.join("one"), &work.join("two")),
        "one/file",
    ),
    (
        "a folder that holds something, and a hidden one, exchanged",
        &["--deny-read", "one", "--deny-write", "two/deep/file"],
        |work| exchange(&work.join("one"), &work.join("two")),
        "one/file",
    ),
    (
        "a kept link over a hidden file",
        &["--deny-read", ".env", "--deny-write", "link"],
        |work| {
            std::fs::rename(work.join("link"), work.join(".env")).unwrap();
        },
        ".env",
    ),
    (
        "a kept file twice on, by a name that nothing is said about",
        &["--deny-read", ".env", "--deny-write", ".env.production"],
        |work| {
            std::fs::rename(work.join(".env.production"), work.join("between")).unwrap();
            std::fs::rename(work.join("between"), work.join(".env")).unwrap();
        },
        ".env",
    ),
];

#[test]
#[kennel_claim::claim("files/covers-belong-to-their-name")]
fn a_cover_that_comes_along_with_a_file_does_not_count_at_another_name() {
    for (what, rules, act, name) in OTHER_COVERS {
        let yard = yard();
        symlink("two/file", yard.join("work/link")).unwrap();
        let mut inside = run(&yard, rules);
        act(&yard.join("work"));
        // In place: no name changes any more.
        std::fs::write(yard.join("work").join(name), "new-text").unwrap();
        inside.until_without(&format!("cat {name}"), "-text");
        inside.end().ok();
        let top = yard.join("work").join(name.split('/').next().unwrap());
        assert!(exposed(&report(&yard), &top).is_some(), "{what}: it is told");
    }
}

#[test]
#[kennel_claim::claim("files/covers-belong-to-their-name")]
fn a_cover_that_comes_along_with_a_folder_does_not_make_it_writable() {
    for (what, rules, act, name) in [
        (
            "one that is only held in its place",
            &["--deny-write", "one", "--deny-write", "two/deep/file"][..],
            (|work: &Path| exchange(&work.join("one"), &work.join("two"))) as Move,
            "one/file",
        ),
        (
            "a kept one with a folder in it that can be written",
            &["--deny-write", "one", "--deny-write", "two", "--allow-write", "two/deep"],
            |work| exchange(&work.join("one"), &work.join("two")),
            "one/deep/file",
        ),
    ] {
        let yard = yard();
        let mut inside = run(&yard, rules);
        act(&yard.join("work"));
        inside.until_without(&format!("[ -w {name} ] && echo writable"), "writable");
        let said = inside.ask(&format!("echo evil >> {name}; echo evil > {name}.new"));
        assert_eq!(said.matches("Read-only").count(), 2, "{what}: {said}");
        inside.end().ok();
        assert_eq!(std::fs::read_to_string(yard.join("work").join(name)).unwrap(), "old-text", "{what}");
    }
}

#[test]
#[kennel_claim::claim("files/covers-belong-to-their-name")]
fn the_sandbox_ends_for_a_cover_of_another_name_where_the_policy_says_so() {
    let yard = yard();
    let mut words = flags(&yard, &["--deny-read", ".env", "--deny-write", ".env.production"]);
    words.extend(["--on-replace".to_owned(), "end".to_owned()]);
    let mut inside = Inside::run(&yard, &words.iter().map(String::as_str).collect::<Vec<_>>());
    std::fs::rename(yard.join("work/.env.production"), yard.join("work/.env")).unwrap();
    let to = inside.to.take();
    let output = inside.child.wait_with_output().unwrap();
    drop(to);
    kennel_tests::Ran::from(output).expect_code(123);
    assert_eq!(report(&yard)["ended"], "rule-broken");
}

/// What is moved away and back is what it was: nothing has to be said.
#[test]
fn a_file_that_is_moved_away_and_back_is_covered_as_it_was() {
    let yard = yard();
    let mut inside = run(&yard, &["--deny-read", ".env", "--deny-write", ".env.production"]);
    for name in [".env", ".env.production"] {
        let (here, away) = (yard.join("work").join(name), yard.join("away"));
        std::fs::rename(&here, &away).unwrap();
        std::fs::rename(&away, &here).unwrap();
    }
    let said = inside.ask("cat .env; cat .env.production; echo evil >> .env.production");
    assert!(
        said.starts_with("cat: .env: Permission denied\nold-text") && said.contains("Read-only"),
        "{said}"
    );
    inside.end().ok();
}

/// Moves a workspace, and returns where it is then.
type MoveWorkspace = fn(&Scratch) -> PathBuf;

/// Where a workspace may go.
const MOVES: &[(&str, MoveWorkspace)] = &[
    ("to another name", |yard| {
        std::fs::rename(yard.join("up/work"), yard.join("up/other")).unwrap();
        yard.join("up/other")
    }),
    ("one folder up", |yard| {
        std::fs::rename(yard.join("up/work"), yard.join("other")).unwrap();
        yard.join("other")
    }),
    ("with the folder above it", |yard| {
        std::fs::rename(yard.join("up"), yard.join("other")).unwrap();
        yard.join("other/work")
    }),
    ("and another is put in its place", |yard| {
        std::fs::rename(yard.join("up/work"), yard.join("other")).unwrap();
        yard.write("up/work/.env", "decoy");
        yard.write("up/work/kept", "decoy");
        yard.join("other")
    }),
    ("twice", |yard| {
        std::fs::rename(yard.join("up/work"), yard.join("once")).unwrap();
        std::fs::rename(yard.join("once"), yard.join("up/twice")).unwrap();
        yard.join("up/twice")
    }),
    ("away and back", |yard| {
        std::fs::rename(yard.join("up/work"), yard.join("once")).unwrap();
        std::fs::rename(yard.join("once"), yard.join("up/work")).unwrap();
        yard.join("up/work")
    }),
    ("and the folder above it becomes a link", |yard| {
        std::fs::rename(yard.join("up"), yard.join("other")).unwrap();
        symlink("other", yard.join("up")).unwrap();
        yard.join("up/work")
    }),
    ("in exchange for another", |yard| {
        yard.write("decoy/.env", "decoy");
        yard.write("decoy/kept", "decoy");
        exchange(&yard.join("up/work"), &yard.join("decoy"));
        yard.join("decoy")
    }),
];

/// Runs a shell in `up/work`, moves that as each of the ways, and replaces what is hidden and what is kept in it.
fn moved(flags: impl Fn(&Scratch) -> Vec<String>) {
    for (what, act) in MOVES {
        let yard = Scratch::new();
        yard.write("up/work/.env", "old-text");
        yard.write("up/work/kept", "old-text");
        let mut command = kennel_tests::kennel(["run", "--report"]);
        command.arg(yard.join("report.json")).args(flags(&yard)).args(["--", "sh"]);
        let mut inside = Inside::start({
            command.current_dir(yard.join("up/work")).env("LC_ALL", "C");
            command
        });
        let there = act(&yard);
        replace(&there.join(".env"), "new-text");
        replace(&there.join("kept"), "new-text");
        // By the working directory, and by all names that it has now.
        let names = [PathBuf::from("."), there.clone(), yard.join("up/work"), yard.join("other")];
        for folder in names.iter().map(|folder| text(folder)) {
            inside.until_without(&format!("cat {folder}/.env"), "new-text");
            inside.until_without(&format!("[ -w {folder}/kept ] && echo writable"), "writable");
            inside.ask(&format!("echo evil >> {folder}/kept; echo evil >> {folder}/.env"));
        }
        inside.end().ok();
        for name in [".env", "kept"] {
            assert_eq!(std::fs::read_to_string(there.join(name)).unwrap(), "new-text", "{what}");
        }
        let told = exposed(&report(&yard), &yard.join("up/work/.env")).is_some();
        assert!(told, "{what}: it is told, by the name of the rule");
    }
}

#[test]
#[kennel_claim::claim("files/rules-follow-moved-folders")]
fn rules_go_along_with_a_workspace_that_the_host_moves() {
    moved(|yard| {
        let work = yard.join("up/work");
        let (env, kept) = (text(&work.join(".env")), text(&work.join("kept")));
        let flags = ["--allow-write", ".", "--deny-read", &env, "--deny-write", &kept];
        flags.map(str::to_owned).into()
    });
}

/// Nothing but the folder of the hidden file is held then.
#[test]
#[kennel_claim::claim("files/rules-follow-moved-folders")]
fn rules_go_along_with_a_folder_that_cannot_be_written() {
    moved(|yard| {
        let env = text(&yard.join("up/work/.env"));
        ["--deny-read", &env].map(str::to_owned).into()
    });
}

#[test]
#[kennel_claim::claim("files/rules-follow-moved-folders")]
fn rules_go_along_where_only_listed_paths_show() {
    moved(|yard| {
        let work = text(&yard.join("up/work"));
        let (env, kept) = (format!("{work}/.env"), format!("{work}/kept"));
        let mut flags: Vec<String> = vec!["--reads".into(), "listed".into()];
        for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc"].iter().filter(|it| Path::new(it).exists()) {
            flags.extend(["--allow-read".into(), (*folder).into()]);
        }
        flags.extend(["--allow-write", &work, "--deny-read", &env, "--deny-write", &kept].map(str::to_owned));
        flags
    });
}

#[test]
fn rules_go_along_with_a_folder_that_is_moved_within_the_workspace() {
    let yard = Scratch::new();
    yard.write("work/app/.env", "old-text");
    let env = text(&yard.join("work/app/.env"));
    let mut inside = Inside::run(&yard, &["--allow-write", ".", "--deny-read", &env]);
    std::fs::rename(yard.join("work/app"), yard.join("work/moved")).unwrap();
    replace(&yard.join("work/moved/.env"), "new-text");
    inside.until_without("cat moved/.env", "new-text");
    // And the name is still the rule's.
    yard.write("work/app/.env", "newer-text");
    inside.until_without("cat app/.env", "newer-text");
    inside.end().ok();
}

/// Git's own folder is moved away and made anew, in a workspace that was moved before.
#[test]
#[kennel_claim::claim("files/rules-follow-moved-folders")]
fn what_git_would_run_stays_in_a_workspace_that_was_moved() {
    if program("git").is_none() {
        return skipped("git is not installed");
    }
    let yard = Scratch::new();
    yard.dir("work");
    let git = |folder: &str, words: &[&str]| {
        ran(Command::new("git").args(words).current_dir(yard.join(folder))).ok();
    };
    git("work", &["init", "-q"]);
    let mut inside = Inside::run(&yard, &["--allow-write", ".", "--git", "hooks-and-config-read-only"]);
    let forge = "printf '[core]\\nfsmonitor=touch pwned\\n' >> .git/config; echo done";
    std::fs::rename(yard.join("work"), yard.join("moved")).unwrap();
    git("moved", &["config", "user.name", "somebody"]);
    inside.until_without("[ -w .git/config ] && echo writable", "writable");
    assert!(inside.ask(forge).contains("Read-only"));
    std::fs::rename(yard.join("moved/.git"), yard.join("moved/git-of-before")).unwrap();
    git("moved", &["init", "-q"]);
    inside.until_without("[ -w .git/config ] && echo writable", "writable");
    assert!(inside.ask(forge).contains("Read-only"));
    inside.end().ok();
    git("moved", &["status"]);
    assert!(!yard.join("moved/pwned").exists());
}

/// The host's mounts do not reach the sandbox, and what they cover for the host is still there inside.
#[test]
#[kennel_claim::claim("files/rules-follow-moved-folders")]
fn a_folder_that_the_host_mounts_over_is_watched_all_the_same() {
    let Some(unshare) = program("unshare") else { return skipped("unshare is not installed") };
    for onto in ["work", "."] {
        let yard = Scratch::new();
        yard.write("up/work/.env", "old-text");
        yard.write("other/work/.env", "decoy");
        let script = format!(
            "cd up/work && mkfifo ../../to && {{ {kennel} run --allow-write . --deny-read .env -- sh < ../../to > ../../said 2>&1 & kennel=$!; }}
             exec 3> ../../to && echo 'echo ready' >&3
             while ! grep -qs '^inotify wd' /proc/$kennel/fdinfo/*; do sleep 0.05; done
             mount --bind ../../other/{from} ../../up/{onto}
             echo new-text > new && mv new .env && sleep 0.4
             echo 'cat .env; echo over' >&3; exec 3>&-; wait; cat ../../said",
            kennel = text(&kennel_bin()),
            from = if onto == "work" { "work" } else { "." },
        );
        let mut command = Command::new(&unshare);
        command.args(["-Urm", "sh", "-c", &script]).current_dir(yard.path());
        command.env("XDG_CONFIG_HOME", "/nonexistent").env("LC_ALL", "C");
        let said = ran(&mut command);
        assert!(
            said.stdout.contains("Permission denied") && said.stdout.contains("over"),
            "{onto}: {said:?}"
        );
        assert!(!said.stdout.contains("new-text"), "{onto}: {said:?}");
    }
}

/// In the first moment of a run nothing is watched: a workspace that is gone by then ends the sandbox, or is covered.
#[test]
fn a_workspace_that_is_moved_as_the_command_starts_is_covered_or_ends_the_sandbox() {
    let yard = Scratch::new();
    yard.write("up/work/.env", "old-text");
    let mut command =
        kennel_tests::kennel(["run", "--allow-write", ".", "--deny-read", ".env", "--", "sh", "-c"]);
    let script = "echo started; read go; i=0; while cat .env 2>/dev/null && [ $i -lt 2000 ]; do i=$((i+1)); done; cat .env";
    command.arg(script).current_dir(yard.join("up/work"));
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut word = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
    std::fs::rename(yard.join("up"), yard.join("other")).unwrap();
    replace(&yard.join("other/work/.env"), "new-text");
    drop(child.stdin.take());
    assert_ne!(child.wait().unwrap().code(), Some(0), "it can still be read");
}

/// Mounts upon mounts, and numbers of mounts that come again.
#[test]
fn a_name_is_hidden_again_after_a_thousand_moves() {
    let yard = yard();
    let mut inside = run(&yard, &["--deny-read", ".env", "--deny-write", ".env.production"]);
    let (env, production) = (yard.join("work/.env"), yard.join("work/.env.production"));
    for _ in 0..500 {
        exchange(&env, &production);
    }
    std::fs::write(&env, "new-text").unwrap();
    inside.until_without("cat .env", "-text");
    inside.until_without("[ -w .env.production ] && echo writable", "writable");
    inside.end().ok();
}
