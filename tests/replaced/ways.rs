//! The ways in which programs of the host replace a file, each on each kind of protection.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use kennel_tests::{Scratch, program, ran, skipped, text};

use crate::replaced::{Inside, exposed, report};

/// A way to put a new file, with this text, in the place of an old one.
type Way = fn(&Path, &str);

const WAYS: &[(&str, Way)] = &[
    ("renamed over", |path, new| {
        let beside = path.with_extension("new");
        std::fs::write(&beside, new).unwrap();
        std::fs::rename(beside, path).unwrap();
    }),
    ("moved away, and made again", |path, new| {
        std::fs::rename(path, path.with_extension("backup")).unwrap();
        std::fs::write(path, new).unwrap();
    }),
    ("removed, and made again", |path, new| {
        std::fs::remove_file(path).unwrap();
        std::fs::write(path, new).unwrap();
    }),
    ("exchanged", |path, new| {
        let beside = path.with_extension("other");
        std::fs::write(&beside, new).unwrap();
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &beside, rustix::fs::CWD, path, flags).unwrap();
    }),
    ("linked to another file", |path, new| {
        let other = path.with_extension("target");
        std::fs::write(&other, new).unwrap();
        std::fs::remove_file(path).unwrap();
        std::fs::hard_link(&other, path).unwrap();
        std::fs::remove_file(&other).unwrap();
    }),
    ("its folder replaced", |path, new| {
        let folder = path.parent().unwrap();
        std::fs::rename(folder, folder.with_extension("old")).unwrap();
        std::fs::create_dir(folder).unwrap();
        std::fs::write(path, new).unwrap();
    }),
    ("a filled folder moved into the place of its folder", |path, new| {
        let folder = path.parent().unwrap();
        let fresh = folder.with_extension("fresh");
        std::fs::create_dir(&fresh).unwrap();
        std::fs::write(fresh.join(path.file_name().unwrap()), new).unwrap();
        std::fs::rename(folder, folder.with_extension("old")).unwrap();
        std::fs::rename(fresh, folder).unwrap();
    }),
    ("its folder made a link to another", |path, new| {
        let folder = path.parent().unwrap();
        let real = folder.with_extension("real");
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join(path.file_name().unwrap()), new).unwrap();
        std::fs::rename(folder, folder.with_extension("old")).unwrap();
        symlink(real.file_name().unwrap(), folder).unwrap();
    }),
];

/// A folder `work`, which the command may write, and beside it a home; a file in a folder of each.
fn yard() -> Scratch {
    let yard = Scratch::new();
    yard.write("work/conf/file", "old-text");
    yard.write("home/conf/file", "old-text");
    yard
}

#[test]
fn a_mount_alone_ends_when_the_host_replaces_the_file_below_it() {
    let Some(unshare) = program("unshare") else { return skipped("unshare is not installed") };
    let yard = yard();
    let script = "mount --bind /dev/null conf/file && cat conf/file && touch ready && \
                  while [ ! -e go ]; do sleep 0.01; done; cat conf/file";
    let mut command = Command::new(unshare);
    command.args(["-Urm", "sh", "-c", script]).current_dir(yard.join("work"));
    let child = std::thread::spawn(move || ran(&mut command));
    kennel_tests::eventually("the mount stands", || yard.join("work/ready").exists().then_some(()));
    WAYS[0].1(&yard.join("work/conf/file"), "new-text");
    yard.write("work/go", "");
    assert_eq!(child.join().unwrap().ok().stdout, "new-text");
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn a_hidden_file_outside_of_what_can_be_written_stays_hidden() {
    for (what, way) in WAYS {
        let yard = yard();
        let file = yard.join("home/conf/file");
        let mut inside = Inside::run(&yard, &["--deny-read", &text(&file)]);
        let look = format!("cat {}", text(&file));
        assert!(inside.ask(&look).contains("Permission denied"), "{what}");
        way(&file, "new-text");
        inside.until_without(&look, "new-text");
        let ran = inside.end().ok();
        assert!(exposed(&report(&yard), &file).is_some(), "{what}: {}", ran.stderr);
    }
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn a_hidden_file_in_what_can_be_written_stays_hidden_and_cannot_be_moved() {
    for (what, way) in WAYS {
        let yard = yard();
        let file = yard.join("work/conf/file");
        let mut inside = Inside::run(&yard, &["--allow-write", ".", "--deny-read", &text(&file)]);
        way(&file, "new-text");
        inside.until_without("cat conf/file", "new-text");
        let said = inside
            .ask("mv conf/file elsewhere; cat elsewhere; ln conf/file other; cat other; echo x > conf/file");
        assert!(!said.contains("new-text"), "{what}: {said}");
        inside.end();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new-text", "{what}");
    }
}

/// Who may not list a folder may not watch it, but can open one of its own from inside again.
#[test]
#[kennel_claim::claim("files/shut-folders-hide-nothing")]
fn a_hidden_file_in_a_folder_that_the_command_shuts_stays_hidden() {
    for mode in ["0000", "0100", "0300"] {
        let yard = yard();
        let file = yard.join("work/conf/file");
        let mut inside = Inside::run(&yard, &["--allow-write", ".", "--deny-read", &text(&file)]);
        inside.ask(&format!("chmod {mode} conf"));
        // What the host does with the permission that root has, or that an owner gives himself.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o300);
        std::fs::set_permissions(file.parent().unwrap(), open).unwrap();
        WAYS[0].1(&file, "new-text");
        inside.until_without("chmod 755 conf; cat conf/file", "new-text");
        inside.end();
    }
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn a_kept_file_stays_as_the_host_left_it() {
    for (what, way) in WAYS {
        let yard = yard();
        let file = yard.join("work/conf/file");
        let mut inside = Inside::run(&yard, &["--allow-write", ".", "--deny-write", &text(&file)]);
        assert!(inside.ask("echo x >> conf/file").contains("Read-only"), "{what}");
        way(&file, "new-text");
        inside.until_without("[ -w conf/file ] && echo writable", "writable");
        let said = inside.ask("cat conf/file; echo x >> conf/file; rm -f conf/file; mv conf/file y; echo x > z; mv -f z conf/file");
        assert!(said.contains("new-text"), "{what}: {said}");
        inside.end();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new-text", "{what}");
        assert!(exposed(&report(&yard), &file).is_some(), "{what}");
    }
}

#[test]
fn a_hidden_folder_stays_hidden() {
    let yard = yard();
    let folder = yard.join("home/conf");
    let mut inside = Inside::run(&yard, &["--deny-read", &text(&folder)]);
    std::fs::rename(&folder, yard.join("home/away")).unwrap();
    yard.write("home/conf/file", "new-text");
    let look = format!("cat {}/file; ls {}", text(&folder), text(&folder));
    inside.until_without(&look, "new-text");
    assert!(!inside.ask(&look).contains("\nfile"));
    inside.end().ok();
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn what_git_would_run_stays_when_git_on_the_host_writes_its_configuration() {
    if program("git").is_none() {
        return skipped("git is not installed");
    }
    let yard = yard();
    let git = |words: &[&str]| ran(Command::new("git").args(words).current_dir(yard.join("work"))).ok();
    git(&["init", "-q"]);
    let mut inside = Inside::run(&yard, &["--allow-write", ".", "--git", "hooks-and-config-read-only"]);
    let forge = "printf '[core]\\nfsmonitor=touch pwned\\n' >> .git/config; echo done";
    assert!(inside.ask(forge).contains("Read-only"));
    for round in 0..5 {
        git(&["config", "user.name", &format!("somebody {round}")]);
        inside.until_without("[ -w .git/config ] && echo writable", "writable");
        assert!(inside.ask(forge).contains("Read-only"));
    }
    inside.end().ok();
    git(&["status"]);
    assert!(!yard.join("work/pwned").exists());
    assert!(exposed(&report(&yard), &yard.join("work/.git/config")).is_some());
}

#[test]
#[kennel_claim::claim("files/host-replaces-denied-paths")]
fn a_link_on_the_way_to_a_denied_path_may_lead_elsewhere_by_then() {
    let yard = yard();
    yard.write("first/key", "first-text");
    yard.write("second/key", "second-text");
    symlink("first", yard.join("keys")).unwrap();
    let key = text(&yard.join("keys/key"));
    let mut inside = Inside::run(&yard, &["--deny-read", &key]);
    assert!(inside.ask(&format!("cat {key}")).contains("Permission denied"));
    std::fs::remove_file(yard.join("keys")).unwrap();
    symlink("second", yard.join("keys")).unwrap();
    inside.until_without(&format!("cat {key}"), "second-text");
    assert!(!inside.ask(&format!("cat {}", text(&yard.join("second/key")))).contains("second-text"));
    inside.end().ok();
}

#[test]
#[kennel_claim::claim("files/removed-names-stay-away")]
fn a_name_that_the_host_removed_cannot_be_made_inside() {
    for (flag, name) in
        [("--deny-write", "conf/file"), ("--deny-read", "conf/file"), ("--deny-write", "conf")]
    {
        let yard = yard();
        let path = yard.join("work").join(name);
        let mut inside = Inside::run(&yard, &["--allow-write", ".", flag, &text(&path)]);
        if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.unwrap();
        for attempt in [
            "echo evil > NAME",
            "mkdir NAME",
            "ln -s x NAME",
            "echo evil > x; mv x NAME",
            "echo evil > y; ln y NAME",
        ] {
            let said = inside.ask(&attempt.replace("NAME", name));
            assert!(said.contains("Read-only"), "{flag} {name}, {attempt}: {said}");
        }
        inside.end();
        assert!(path.symlink_metadata().is_err(), "{flag} {name}");
    }
}

#[test]
fn the_sandbox_ends_instead_where_the_policy_says_so() {
    let yard = yard();
    let file = yard.join("home/conf/file");
    let inside = Inside::run(&yard, &["--on-replace", "end", "--deny-read", &text(&file)]);
    WAYS[0].1(&file, "new-text");
    let mut inside = inside;
    // It does not end by itself.
    let to = inside.to.take();
    let output = inside.child.wait_with_output().unwrap();
    drop(to);
    let ran = kennel_tests::Ran::from(output).expect_code(123);
    assert!(ran.stderr.contains("was replaced on the host"), "{}", ran.stderr);
    assert_eq!(report(&yard)["ended"], "rule-broken");
}

#[test]
fn nothing_is_said_where_nothing_was_replaced_however_a_path_is_written() {
    let yard = Scratch::new();
    yard.dir("repo/src/deep");
    yard.dir("elsewhere");
    yard.write("repo/settings.json", "{}");
    yard.write("repo/src/inner.json", "{}");
    yard.write("elsewhere/file", "");
    symlink("../settings.json", yard.join("repo/src/link")).unwrap();
    symlink("../../elsewhere", yard.join("repo/src/far")).unwrap();
    symlink("repo/src", yard.join("way")).unwrap();
    let policy = "[files]\nallow_write = [\"src\"]\ndeny_write = [\".\", \"src/deep/../inner.json\"]\n";
    yard.write("repo/policy.toml", policy);
    let srt = r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": ["../settings.json", "deep/../inner.json"]}}"#;
    yard.write("repo/srt.json", srt);
    let absolute = |name: &str| text(&yard.join(name));
    let paths = [
        "../settings.json",
        ".././settings.json",
        "..//settings.json",
        "deep/../../settings.json",
        "deep/../inner.json",
        "./inner.json",
        "..",
        "../..",
        "../src/inner.json",
        "link",
        "far",
        "far/file",
        "far/absent",
        "../absent.json",
        "../absent/../settings.json",
        &absolute("way/inner.json"),
        &absolute("way/../settings.json"),
        &absolute("repo/src/../settings.json"),
        &absolute("repo/settings.json"),
    ];
    let from = yard.join("repo/src");
    let stays_quiet = |words: &[&str]| {
        let mut command = kennel_tests::kennel(words);
        command.args(["sh"]).current_dir(&from);
        let mut inside = Inside::start(command);
        assert_eq!(inside.ask("> made"), "", "{words:?}");
        assert!(inside.ask("> inner.json").contains("Read-only"), "{words:?}");
        // The write that was refused may be told, and nothing else.
        let said = inside.end().ok().stderr;
        let is_refusal = |line: &str| line.contains("sh could not write ") && line.contains("/inner.json: ");
        assert!(said.lines().all(is_refusal), "{words:?}: {said}");
    };
    let run = ["run", "--on-replace", "end", "--allow-write", "."];
    for flag in ["--deny-write", "--deny-read"] {
        // A folder around the one that it starts in is not hidden.
        let paths = paths.iter().filter(|path| flag == "--deny-write" || !path.ends_with(".."));
        let denied: Vec<&str> = paths.flat_map(|path| [flag, path]).collect();
        let inner = ["--deny-write", "deep/../inner.json", "--"];
        stays_quiet(&[&run[..], &denied, &inner].concat());
    }
    stays_quiet(&["run", "--on-replace", "end", "--settings", "../policy.toml", "--"]);
    stays_quiet(&["srt", "--settings", "../srt.json"]);
}

#[test]
fn a_path_with_dots_in_it_is_kept_when_the_host_replaces_what_it_leads_to() {
    let yard = yard();
    yard.dir("work/deep");
    let file = yard.write("work/inner.json", "old");
    let rules = [
        "--allow-write",
        ".",
        "--deny-write",
        "deep/../inner.json",
        "--deny-read",
        "../work/deep/../conf/file",
    ];
    let mut inside = Inside::run(&yard, &rules);
    WAYS[0].1(&file, "new");
    WAYS[0].1(&yard.join("work/conf/file"), "new-text");
    kennel_tests::eventually("both are covered again", || {
        let said = inside.ask("echo evil > inner.json; cat conf/file");
        (said.contains("Read-only") && !said.contains("new-text")).then_some(())
    });
    let ran = inside.end();
    assert_eq!(ran.stderr.matches("was replaced on the host").count(), 2, "{}", ran.stderr);
}

#[test]
fn a_project_file_can_ask_for_the_end_and_not_for_less() {
    let yard = yard();
    yard.write("work/kennel.toml", "[files]\non_replace = \"end\"\n");
    let mut plan = kennel_tests::kennel(["run", "--on-replace", "mend", "--", "true"]);
    ran(plan.current_dir(yard.join("work"))).ok();
    yard.write("work/kennel.toml", "[files]\non_replace = \"mend\"\n");
    let mut looser = kennel_tests::kennel(["run", "--on-replace", "end", "--", "true"]);
    let said = ran(looser.current_dir(yard.join("work"))).ok();
    assert!(said.stderr.contains("on_replace"), "{}", said.stderr);
}

#[test]
fn the_library_tells_what_was_exposed() {
    let yard = yard();
    let file = yard.join("home/conf/file");
    let sandbox = kennel::Sandbox::builder().deny_read(&file).build().unwrap();
    let script = "sleep 0.4; while cat \"$0\" 2>/dev/null; do :; done; cat \"$0\" 2>&1";
    let mut child = sandbox.spawn("sh", &["-c", script, &text(&file)]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(250));
    WAYS[0].1(&file, "new-text");
    let result = child.wait().unwrap();
    let exposed = result
        .violations
        .iter()
        .any(|one| matches!(one, kennel::Violation::Exposed { path, .. } if *path == file));
    assert!(exposed, "{:?}", result.violations);
    assert!(!result.killed_by_broken_rule);
}

#[test]
fn a_kept_file_that_the_host_makes_a_link_is_kept_where_it_leads_and_the_link_stays() {
    let yard = yard();
    let file = yard.join("work/conf/file");
    yard.write("work/other/real", "new-text");
    let mut inside = Inside::run(&yard, &["--allow-write", ".", "--deny-write", &text(&file)]);
    std::fs::remove_file(&file).unwrap();
    symlink("../other/real", &file).unwrap();
    inside.until_without("[ -w conf/file ] && echo writable", "writable");
    inside.ask("echo evil > conf/file; echo evil > other/real; rm -f conf/file; mv conf/file away; ln -sf evil conf/file");
    inside.end();
    assert_eq!(std::fs::read_link(&file).unwrap(), std::path::Path::new("../other/real"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new-text");
}

#[test]
fn a_file_that_is_replaced_as_the_command_starts_is_covered_a_moment_later() {
    // A new file mostly gets the number of the one that was just removed.
    let yard = yard();
    let file = yard.join("home/conf/file");
    let mut command = kennel_tests::kennel(["run", "--deny-read"]);
    let script = "echo started; read go; i=0; while cat \"$0\" 2>/dev/null && [ $i -lt 2000 ]; do i=$((i+1)); done; cat \"$0\"";
    command.arg(&file).args(["--", "sh", "-c", script]).arg(&file);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut word = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "new-text").unwrap();
    drop(child.stdin.take());
    assert_ne!(child.wait().unwrap().code(), Some(0), "it can still be read");
}

#[test]
fn nothing_is_left_of_the_helper_when_kennel_is_killed_or_the_command_ends() {
    let yard = yard();
    let children = |pid: u32| -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().map(|one| one.parse().unwrap()).collect::<Vec<_>>())
            .collect()
    };
    for kill in [true, false] {
        let file = yard.join("home/conf/file");
        let mut inside = Inside::run(&yard, &["--deny-read", &text(&file)]);
        let born = kennel_tests::eventually("PID 1 and the helper are there", || {
            Some(children(inside.child.id())).filter(|children| children.len() == 2)
        });
        if kill {
            inside.child.kill().unwrap();
        }
        drop(inside.to.take());
        inside.child.wait().unwrap();
        let alive = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("PPid:") && !status.contains("State:\tZ")
        };
        kennel_tests::eventually("both are gone", || (!born.iter().any(alive)).then_some(()));
    }
}
