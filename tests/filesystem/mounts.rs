//! Mounts that the user asks for: host paths at other places, file systems in memory, devices.

use std::ffi::OsString;
use std::path::Path;

use kennel_tests::{Scratch, run_sh, skipped};

use crate::filesystem::{Tree, flags, inside};

/// `--mount SOURCE:TARGET`, with or without `:rw`.
fn mount(source: impl AsRef<Path>, target: impl AsRef<Path>, suffix: &str) -> Vec<OsString> {
    let mut value = source.as_ref().as_os_str().to_owned();
    value.push(":");
    value.push(target.as_ref());
    value.push(suffix);
    vec!["--mount".into(), value]
}

#[test]
fn a_folder_shows_at_a_place_that_the_host_does_not_have() {
    let tree = Tree::new();
    assert!(!Path::new("/workspace").exists());
    tree.same_names_after(|| {
        let rules = mount(tree.at("project"), "/workspace", "");
        let ran = inside(&rules, "cat /workspace/sub/notes && ls /", &[]).ok();
        assert!(ran.stdout.starts_with("project/sub/notes"), "{}", ran.stdout);
        for name in ["etc", "usr", "workspace", "tmp", "proc"] {
            assert!(ran.stdout.lines().any(|line| line == name), "{name} is gone: {}", ran.stdout);
        }
        let ran = inside(&rules, "> /workspace/new", &[]);
        assert!(ran.code == 2 && ran.stderr.contains("Read-only file system"), "{ran:?}");
    });
    assert!(!Path::new("/workspace").exists());
    inside(&mount(tree.at("project"), "/workspace", ":rw"), "echo x > /workspace/new", &[]).ok();
    assert_eq!(std::fs::read_to_string(tree.at("project/new")).unwrap(), "x\n");
}

#[test]
fn a_place_deep_below_what_exists_is_made_up_on_the_way() {
    let tree = Tree::new();
    for target in ["/workspace/very/deep", "/opt/kennel-test/deep", "/etc/kennel-test"] {
        let rules = mount(tree.at("project"), target, "");
        let ran =
            inside(&rules, "cat \"$1/main.c\" && cat /etc/passwd > /dev/null", &[Path::new(target)]).ok();
        assert_eq!(ran.stdout, "project/main.c", "{target}");
        assert!(!Path::new(target).exists());
    }
}

#[test]
fn a_mount_covers_what_the_host_has_at_that_place() {
    let tree = Tree::new();
    tree.same_names_after(|| {
        let rules = mount(tree.at("project"), tree.at("other"), "");
        let ran = inside(&rules, "ls \"$1\"", &[&tree.at("other")]).ok();
        assert_eq!(ran.stdout, "main.c\nsub\n");
        let file = mount(tree.at("project/main.c"), "/etc/hostname", "");
        if Path::new("/etc/hostname").is_file() {
            assert_eq!(inside(&file, "cat /etc/hostname", &[]).ok().stdout, "project/main.c");
        }
    });
}

#[test]
fn mounts_can_be_nested_where_the_outer_one_has_the_place() {
    let tree = Tree::new();
    tree.scratch.write("inner/file", "inner");
    for outer in ["", ":rw"] {
        let rules =
            [mount(tree.at("project"), "/workspace", outer), mount(tree.at("inner"), "/workspace/sub", "")]
                .concat();
        tree.same_names_after(|| {
            let ran =
                inside(&rules, "cat /workspace/main.c /workspace/sub/file && ! (> /workspace/sub/new)", &[]);
            assert_eq!(ran.stdout, "project/main.cinner", "the outer one is `{outer}`: {}", ran.stderr);
        });
    }
    // Said the other way round it means the same.
    let rules =
        [mount(tree.at("inner"), "/workspace/sub", ""), mount(tree.at("project"), "/workspace", "")].concat();
    assert_eq!(
        inside(&rules, "cat /workspace/main.c /workspace/sub/file", &[]).stdout,
        "project/main.cinner"
    );
}

#[test]
fn a_nested_mount_without_a_place_in_the_outer_one_fails_with_advice_and_leaves_nothing() {
    let tree = Tree::new();
    for outer in ["", ":rw"] {
        let rules =
            [mount(tree.at("project"), "/workspace", outer), mount(tree.at("other"), "/workspace/none", "")]
                .concat();
        tree.same_names_after(|| {
            let ran = inside(&rules, "cat /workspace/none/file", &[]);
            if ran.code == 125 {
                assert!(
                    ran.stderr.contains("does not exist") && ran.stderr.contains("create it first"),
                    "{}",
                    ran.stderr
                );
            } else {
                assert_eq!(ran.ok().stdout, "other/file");
            }
        });
    }
}

#[test]
fn a_place_that_would_have_to_be_made_in_a_write_root_is_refused() {
    let tree = Tree::new();
    let rules = [
        flags([("--allow-write", tree.at("project"))]),
        mount(tree.at("other"), tree.at("project/none"), ""),
    ]
    .concat();
    tree.same_names_after(|| {
        let ran = inside(&rules, "true", &[]).expect_code(125);
        assert!(
            ran.stderr
                .contains("does not exist, and creating it would leave it on the host; create it first"),
            "{}",
            ran.stderr
        );
    });
}

#[test]
fn what_is_denied_in_a_folder_is_denied_where_it_is_mounted_too() {
    let tree = Tree::new();
    let rules = [
        mount(tree.at("home"), "/workspace", ":rw"),
        flags([("--deny-read", tree.at("home/.ssh/id")), ("--deny-write", tree.at("home/.ssh/known"))]),
    ]
    .concat();
    let script = "cat /workspace/.ssh/id && exit 3
                  (echo evil > /workspace/.ssh/known/hosts) && exit 4
                  mv /workspace/.ssh /workspace/gone && exit 5
                  mv /workspace/.ssh/known /workspace/gone && exit 6
                  echo more >> /workspace/profile || exit 7
                  cat /workspace/.ssh/known/hosts";
    let ran = inside(&rules, script, &[]).ok();
    assert_eq!(ran.stdout, "home/.ssh/known/hosts");
    let globbed =
        [mount(tree.at("home"), "/workspace", ""), flags([("--deny-read", tree.at("home/**/i[d]"))])]
            .concat();
    inside(&globbed, "cat /workspace/.ssh/id", &[]).expect_code(1);
}

#[test]
fn a_mount_of_what_is_hidden_is_a_contradiction() {
    let tree = Tree::new();
    let hidden = flags([("--deny-read", tree.at("home"))]);
    for source in ["home", "home/.ssh", "home/.ssh/id"] {
        let rules = [hidden.clone(), mount(tree.at(source), "/workspace", "")].concat();
        let ran = inside(&rules, "true", &[]).expect_code(125);
        let end = format!(
            "its source is hidden by deny_read {} (--deny-read)\nhelp: drop one of the two rules\n",
            tree.at("home").display()
        );
        assert!(ran.stderr.ends_with(&end), "{source}: {}", ran.stderr);
    }
    // A write rule does not undo a deny of reading, so it does not undo it for a mount either.
    let rules = [
        hidden,
        flags([("--allow-write", tree.at("home/.ssh"))]),
        mount(tree.at("home/.ssh"), "/workspace", ""),
    ]
    .concat();
    let ran = inside(&rules, "cat /workspace/id", &[]);
    assert!(!ran.stdout.contains("home/.ssh/id"), "a write rule showed what is hidden");
}

#[test]
fn a_folder_whose_writing_is_denied_is_not_written_through_a_mount() {
    let tree = Tree::new();
    for denied in ["other", "."] {
        let rules =
            [flags([("--deny-write", tree.at(denied))]), mount(tree.at("other"), "/workspace", ":rw")]
                .concat();
        // An error, or read-only; at a tie deny wins.
        inside(&rules, "echo evil > /workspace/file", &[]);
        assert_eq!(
            std::fs::read_to_string(tree.at("other/file")).unwrap(),
            "other/file",
            "deny_write {denied}"
        );
    }
}

#[test]
fn a_mounts_source_that_does_not_exist_is_an_error() {
    let tree = Tree::new();
    let ran = inside(&mount(tree.at("absent"), "/workspace", ""), "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("absent: no such file or directory"), "{}", ran.stderr);
    let ran = inside(&["--mount".into(), "/usr".into()], "true", &[]).expect_code(125);
    assert!(
        ran.stderr
            .contains("`/usr` is not a mount; write SOURCE:TARGET, or SOURCE:TARGET:rw to make it writable"),
        "{}",
        ran.stderr
    );
    let ran = inside(&mount("/usr", "/", ""), "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("the root itself cannot be mounted over"), "{}", ran.stderr);
}

#[test]
fn mounts_work_under_listed_reads() {
    let tree = Tree::new();
    let rules = [
        vec!["--reads".into(), "listed".into()],
        mount(tree.at("project"), "/workspace", ":rw"),
        mount(tree.at("other"), "/data/in", ""),
    ]
    .concat();
    let script =
        "cat /data/in/file && echo more >> /workspace/main.c && ! (> /data/in/file) && test ! -e \"$1\"";
    inside(&rules, script, &[tree.scratch.path()]).ok();
}

#[test]
fn a_command_can_start_in_a_mount() {
    let tree = Tree::new();
    let rules =
        [mount(tree.at("project"), "/workspace", ""), flags([("--workdir", "/workspace/sub")])].concat();
    assert_eq!(inside(&rules, "pwd && cat notes", &[]).ok().stdout, "/workspace/sub\nproject/sub/notes");
}

#[test]
fn a_tmpfs_is_empty_writable_of_its_size_and_gone_afterwards() {
    let tree = Tree::new();
    let target = tree.at("other");
    let mut value = target.clone().into_os_string();
    value.push(":1M");
    tree.same_names_after(|| {
        let script = "test -z \"$(ls -A \"$1\")\" && head -c 900000 /dev/zero > \"$1/fits\" && head -c 900000 /dev/zero > \"$1/too-much\"";
        let ran = inside(&["--tmpfs".into(), value.clone()], script, &[&target]).expect_code(1);
        assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    });
    run_sh(
        ["--tmpfs", "/scratch"],
        "head -c 3000000 /dev/zero > /scratch/file && test $(stat -c %s /scratch/file) = 3000000",
    )
    .ok();
    assert!(!Path::new("/scratch").exists());
}

#[test]
fn a_tmpfs_inside_a_write_root_hides_what_is_below_and_leaves_it_alone() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project")), ("--tmpfs", tree.at("project/sub"))]);
    tree.same_names_after(|| {
        inside(&rules, "test ! -e \"$1/notes\" && echo x > \"$1/new\"", &[&tree.at("project/sub")]).ok();
    });
}

#[test]
fn a_tmpfs_inside_a_write_root_is_there_for_whoever_makes_it() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project")), ("--tmpfs", tree.at("project/sub"))]);
    let script = "mkdir -p \"$1\" && mkdir -p \"$1/a/b\" && mv \"$1/a\" \"$1/c\" && ! mkdir \"$1\" && ! mv \"$1\" \"$1-moved\"";
    let ran = inside(&rules, script, &[&tree.at("project/sub")]).ok();
    assert!(ran.stderr.contains("File exists"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("kennel: refused"), "{}", ran.stderr);
}

/// A device that is not in the minimal set and that the caller may at least open to read.
fn spare_device() -> Option<&'static str> {
    ["/dev/autofs", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/hpet", "/dev/loop-control"]
        .into_iter()
        .find(|device| std::fs::File::open(device).is_ok())
}

#[test]
fn a_device_is_there_only_when_it_is_asked_for() {
    let Some(device) = spare_device() else {
        return skipped("no device of this host can be opened by this user");
    };
    run_sh([] as [&str; 0], &format!("test ! -e {device}")).ok();
    run_sh(["--device", device], &format!("test -c {device} && : < {device}")).ok();
    run_sh(["--reads", "listed", "--device", device], &format!("test -c {device} && : < {device}")).ok();
}

#[test]
fn a_device_in_a_folder_of_its_own_has_its_place_made() {
    if !Path::new("/dev/net/tun").exists() {
        return skipped("there is no /dev/net/tun");
    }
    let ran = run_sh(["--device", "/dev/net/tun"], "test -c /dev/net/tun && ls /dev/net").ok();
    assert_eq!(ran.stdout, "tun\n");
}

#[test]
fn what_is_no_device_is_not_taken_for_one() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "x");
    let ran = inside(&flags([("--device", file)]), "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("not below /dev"), "{}", ran.stderr);
}
