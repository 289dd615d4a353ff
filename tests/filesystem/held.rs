//! Ways around a rule by moving things: renames, exchanges, hard links, and removing what is protected.

use crate::filesystem::{Tree, cannot_read, flags, inside, outside};

/// Runs a script that must fail inside with `said`, after showing on a copy of the tree that it works outside.
#[track_caller]
fn refused(rules: &[(&'static str, &str)], script: &str, said: &str) {
    let open = Tree::new();
    outside(script, &[open.scratch.path()]);
    let tree = Tree::new();
    let rules = flags(rules.iter().map(|(flag, name)| (*flag, tree.at(name))));
    tree.same_names_after(|| {
        let ran = inside(&rules, script, &[tree.scratch.path()]);
        assert!(ran.code != 0 && ran.code != 125, "{script}: {ran:?}");
        assert!(ran.stderr.contains(said), "{script}: {}", ran.stderr);
    });
    for name in ["project/main.c", "project/sub/notes", "home/.ssh/id", "other/file"] {
        assert_eq!(std::fs::read_to_string(tree.at(name)).unwrap(), name, "{script}");
    }
}

const BUSY: &str = "Device or resource busy";
const READ_ONLY: &str = "Read-only file system";
const ACROSS: &str = "cross-device link";

const WRITE_DENIED: &[(&str, &str)] =
    &[("--allow-write", "project"), ("--deny-write", "project/sub/deep/more")];
const READ_DENIED: &[(&str, &str)] =
    &[("--allow-write", "project"), ("--deny-read", "project/sub/deep/more")];
const FOLDER_DENIED: &[(&str, &str)] = &[("--allow-write", "project"), ("--deny-write", "project/sub/deep")];

#[test]
fn a_protected_file_cannot_be_moved_away_removed_or_replaced() {
    for rules in [WRITE_DENIED, READ_DENIED] {
        refused(rules, "cd \"$1/project/sub/deep\" && mv more moved || { rm -f moved; exit 1; }", BUSY);
        refused(rules, "rm -f \"$1/project/sub/deep/more\"", BUSY);
        refused(
            rules,
            "cd \"$1/project\" && echo evil > new && mv new sub/deep/more || { rm -f new; exit 1; }",
            BUSY,
        );
    }
    refused(WRITE_DENIED, "echo evil > \"$1/project/sub/deep/more\"", READ_ONLY);
    refused(WRITE_DENIED, "chmod 777 \"$1/project/sub/deep/more\"", READ_ONLY);
}

#[test]
fn a_protected_folder_cannot_be_moved_away_or_replaced() {
    refused(FOLDER_DENIED, "mv \"$1/project/sub/deep\" \"$1/project/sub/gone\"", BUSY);
    refused(FOLDER_DENIED, "rm -rf \"$1/project/sub/deep\"", READ_ONLY);
    refused(FOLDER_DENIED, "> \"$1/project/sub/deep/new\"", READ_ONLY);
}

#[test]
fn no_ancestor_of_a_protected_path_can_be_renamed() {
    for rules in [WRITE_DENIED, READ_DENIED, FOLDER_DENIED] {
        refused(rules, "mv \"$1/project/sub\" \"$1/project/gone\"", BUSY);
        refused(rules, "mv \"$1/project/sub/deep\" \"$1/project/sub/gone\"", BUSY);
    }
    // The write root itself lies in a folder that is read-only.
    refused(WRITE_DENIED, "mv \"$1/project\" \"$1/gone\"", READ_ONLY);
}

#[test]
fn an_exchange_of_two_names_moves_nothing_that_is_protected() {
    let Some(python) = crate::filesystem::python() else { return };
    let tree = Tree::new();
    let rules =
        flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/sub/deep/more"))]);
    // renameat2 with RENAME_EXCHANGE, for which there is no program everywhere.
    let program = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in sys.argv[2:]:
    done = libc.renameat2(-100, os.fsencode(name), -100, os.fsencode(sys.argv[1]), 2)
    print(os.strerror(ctypes.get_errno()) if done else 'exchanged')";
    tree.scratch.dir("project/decoy");
    let names = [
        tree.at("project/decoy"),
        tree.at("project/sub"),
        tree.at("project/sub/deep"),
        tree.at("project/sub/deep/more"),
    ];
    let mut bare = std::process::Command::new(&python);
    bare.args(["-c", program]).arg(&names[0]).arg(&names[1]).env("LC_ALL", "C");
    let ran = kennel_tests::ran(&mut bare).ok();
    assert_eq!(ran.stdout, "exchanged\n");
    kennel_tests::ran(&mut bare).ok();
    let mut command = kennel_tests::kennel(["run"]);
    command.args(&rules).arg("--").arg(&python).args(["-c", program]).args(&names).env("LC_ALL", "C");
    tree.same_names_after(|| {
        let ran = kennel_tests::ran(&mut command).ok();
        // Where the two lie on different mounts the kernel says so first; either way nothing moves.
        for line in ran.stdout.lines() {
            assert!([BUSY, "Invalid cross-device link"].contains(&line), "{}", ran.stdout);
        }
        assert_eq!(ran.stdout.lines().count(), 3, "{}", ran.stdout);
    });
}

#[test]
fn a_hard_link_carries_nothing_into_a_write_root() {
    let rules: &[(&str, &str)] = &[("--allow-write", "project")];
    refused(rules, "ln \"$1/other/file\" \"$1/project/linked\"", ACROSS);
    refused(rules, "ln \"$1/home/.ssh/id\" \"$1/project/linked\"", ACROSS);
    refused(WRITE_DENIED, "ln \"$1/project/sub/deep/more\" \"$1/project/sub/deep/linked\"", ACROSS);
    refused(FOLDER_DENIED, "ln \"$1/project/sub/deep/more\" \"$1/project/linked\"", ACROSS);
}

#[test]
fn two_write_roots_are_not_joined_by_renames_of_folders() {
    // Each is a mount of its own, so that what is protected in one cannot be carried to the other.
    let tree = Tree::new();
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--allow-write", tree.at("other")),
        ("--deny-write", tree.at("project/sub/deep/more")),
    ]);
    let script = "mv \"$1/project/sub\" \"$1/other/sub\"";
    let ran = inside(&rules, script, &[tree.scratch.path()]);
    assert_ne!(ran.code, 0);
    assert_eq!(std::fs::read_to_string(tree.at("project/sub/deep/more")).unwrap(), "project/sub/deep/more");
}

#[test]
fn a_denied_file_with_a_second_name_is_refused_until_that_is_denied_too() {
    let tree = Tree::new();
    let (secret, twin) = (tree.at("home/.ssh/id"), tree.at("other/twin"));
    std::fs::hard_link(&secret, &twin).unwrap();
    tree.same_names_after(|| {
        for (flag, list) in [("--deny-read", "deny_read"), ("--deny-write", "deny_write")] {
            let rules = flags([(flag, secret.clone()), ("--allow-write", tree.at("home"))]);
            let ran = inside(&rules, "true", &[]).expect_code(125);
            let expected = format!(
                "kennel: resolving {list} {0} ({flag}): {0} has 2 hard links, and not all of them are denied\n\
                 help: deny its other names too (find them with `find / -samefile`), or give the file a copy of its own\n",
                secret.display()
            );
            assert_eq!(ran.stderr, expected);
        }
        let both = flags([("--deny-read", &secret), ("--deny-read", &twin)]);
        cannot_read(&both, &secret);
        cannot_read(&both, &twin);
    });
}

#[test]
fn a_second_name_made_inside_a_write_root_before_the_deny_is_found() {
    let tree = Tree::new();
    std::fs::hard_link(tree.at("project/main.c"), tree.at("project/copy.c")).unwrap();
    let rules = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/main.[c]"))]);
    let ran = inside(&rules, "echo evil > \"$1\"", &[&tree.at("project/copy.c")]);
    assert_eq!(ran.code, 125, "{ran:?}");
    assert_eq!(std::fs::read_to_string(tree.at("project/main.c")).unwrap(), "project/main.c");
}
