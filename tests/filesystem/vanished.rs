//! Paths that do not exist, per list; and that nothing is put in their place on the host's disk.

use std::path::Path;

use kennel_tests::Scratch;

use crate::filesystem::{Tree, can_write, flags, inside};

#[test]
fn a_missing_write_root_is_an_error_that_names_the_rule_and_the_remedy() {
    let tree = Tree::new();
    let absent = tree.at("absent");
    tree.same_names_after(|| {
        let ran = inside(&flags([("--allow-write", &absent)]), "true", &[]).expect_code(125);
        let expected = format!(
            "kennel: resolving allow_write {0} (--allow-write): {0}: no such file or directory\n\
             help: create it first\n",
            absent.display()
        );
        assert_eq!(ran.stderr, expected);
    });
}

#[test]
fn a_missing_device_is_an_error() {
    let ran =
        inside(&flags([("--device", Path::new("/dev/kennel-has-no-such"))]), "true", &[]).expect_code(125);
    assert!(
        ran.stderr.starts_with("kennel: resolving device /dev/kennel-has-no-such (--device): "),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_missing_allowed_read_is_skipped_under_open_reads_and_an_error_under_listed_ones() {
    let tree = Tree::new();
    let rules = flags([("--allow-read", tree.at("absent"))]);
    inside(&rules, "true", &[]).ok();
    let listed = [vec!["--reads".into(), "listed".into()], rules].concat();
    let ran = inside(&listed, "true", &[]).expect_code(125);
    assert!(
        ran.stderr.contains("absent: no such file or directory\nhelp: create it first"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_entry_can_say_for_itself_what_a_missing_path_means() {
    let tree = Tree::new();
    let settings = |text: &str| flags([("--settings", tree.scratch.write("s.toml", text))]);
    inside(&settings("[files]\nallow_write = [{ path = \"absent\", missing = \"skip\" }]"), "true", &[]).ok();
    let strict = settings("[files]\nallow_read = [{ path = \"absent\", missing = \"error\" }]");
    let ran = inside(&strict, "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("s.toml:2): "), "{}", ran.stderr);
    // A deny whose absence was said to be a mistake.
    let deny = settings("[files]\ndeny_read = [{ path = \"absent\", missing = \"error\" }]");
    let ran = inside(&deny, "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("absent: no such file or directory"), "{}", ran.stderr);
}

#[test]
fn a_missing_denied_path_where_nothing_can_be_written_needs_nothing() {
    let tree = Tree::new();
    let rules = flags([
        ("--deny-read", tree.at("other/absent")),
        ("--deny-write", tree.at("other/absent/too")),
        ("--allow-write", tree.at("project")),
    ]);
    tree.same_names_after(|| {
        inside(&rules, "test ! -e \"$1\" && ! mkdir \"$1\" 2>/dev/null", &[&tree.at("other/absent")]).ok();
    });
    can_write(&rules, &tree.at("project/main.c"));
}

/// A deny that has nothing to stand on holds all the same, and never puts a placeholder on the disk.
#[test]
fn a_missing_denied_path_inside_a_write_root_cannot_appear() {
    let tree = Tree::new();
    for flag in ["--deny-read", "--deny-write"] {
        for absent in ["project/absent", "project/absent/below/it", "project/sub/deep/absent"] {
            let path = tree.at(absent);
            let rules = flags([("--allow-write", tree.at("project")), (flag, path.clone())]);
            tree.same_names_after(|| {
                let script = "mkdir -p \"${1%/*}\" || exit 8; echo evil > \"$1\" && exit 9; exit 7";
                let ran = inside(&rules, script, &[&path]).expect_code(7);
                assert!(!path.exists(), "{flag} {absent} was made");
                assert!(ran.stderr.contains("Read-only file system"), "{}", ran.stderr);
                let list = flag.trim_start_matches("--").replace('-', "_");
                let told =
                    format!("kennel: refused to create {0} (open): {list} {0} ({flag})\n", path.display());
                assert!(ran.stderr.ends_with(&told), "{}", ran.stderr);
                // The folders on the way are not denied, and are taken away again here.
                let _ = std::fs::remove_dir_all(tree.at("project/absent"));
            });
        }
    }
}

#[test]
fn a_missing_denied_path_below_a_file_can_never_appear() {
    let tree = Tree::new();
    // main.c is a file, so nothing can be below it unless the sandbox removes it first.
    let rules =
        flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/main.c/below"))]);
    let script = "rm \"$1\" && mkdir \"$1\" && echo evil > \"$1/below\"";
    inside(&rules, script, &[&tree.at("project/main.c")]);
    assert!(!tree.at("project/main.c/below").exists());
}

#[test]
fn a_working_directory_that_is_gone_is_an_error() {
    let scratch = Scratch::new();
    let gone = scratch.dir("gone");
    let script = "cd \"$1\" && rmdir \"$1\" && exec \"$2\" run -- true";
    let bin = kennel_tests::kennel_bin();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, "sh"]).args([&gone, &bin]).env("XDG_CONFIG_HOME", "/nonexistent");
    let ran = kennel_tests::ran(&mut command).expect_code(125);
    assert!(ran.stderr.contains("kennel: reading the working directory: "), "{}", ran.stderr);
}
