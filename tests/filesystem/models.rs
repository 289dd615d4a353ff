//! The two read models: everything but what is denied, and nothing but what is listed.

use std::path::Path;

use kennel_tests::run_sh;

use crate::filesystem::{Tree, can_read, can_write, cannot_read, cannot_write, flags, inside};

#[test]
#[kennel_claim::claim("files/only-allowed-paths-are-written")]
fn with_open_reads_everything_is_readable_and_nothing_writable() {
    let tree = Tree::new();
    tree.same_names_after(|| {
        can_read(&[], &tree.at("home/.ssh/id"));
        can_read(&[], Path::new("/etc/passwd"));
        cannot_write(&[], &tree.at("project/main.c"));
        let ran = inside(&[], "mkdir \"$1\"", &[&tree.at("new")]);
        assert!(ran.code == 1 && ran.stderr.contains("Read-only file system"), "{ran:?}");
    });
}

#[test]
#[kennel_claim::claim("files/denied-paths-are-unreadable")]
fn a_denied_read_hides_a_file_and_a_folder_with_all_below() {
    let tree = Tree::new();
    let rules = flags([("--deny-read", tree.at("home/.ssh")), ("--deny-read", tree.at("other/file"))]);
    tree.same_names_after(|| {
        cannot_read(&rules, &tree.at("home/.ssh/id"));
        cannot_read(&rules, &tree.at("home/.ssh/known/hosts"));
        cannot_read(&rules, &tree.at("other/file"));
        can_read(&rules, &tree.at("home/profile"));
        let listed = inside(&rules, "ls -A \"$1\"", &[&tree.at("home/.ssh")]);
        assert_eq!(listed.stdout, "", "a hidden folder shows names");
        cannot_write(&rules, &tree.at("home/.ssh/id"));
        cannot_write(&rules, &tree.at("other/file"));
    });
}

#[test]
#[kennel_claim::claim("files/denied-paths-are-unreadable")]
fn a_hidden_file_tells_neither_its_size_nor_its_contents() {
    let tree = Tree::new();
    let rules = flags([("--deny-read", tree.at("other/file"))]);
    let shown = inside(
        &rules,
        "stat -c '%s %a' \"$1\"; grep -r . \"$2\"",
        &[&tree.at("other/file"), &tree.at("other")],
    );
    assert_eq!(shown.stdout, "0 0\n", "{}", shown.stderr);
}

#[test]
#[kennel_claim::claim("files/only-allowed-paths-are-written")]
fn an_allowed_write_reaches_the_host_and_nothing_beside_it() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project"))]);
    can_write(&rules, &tree.at("project/main.c"));
    can_write(&rules, &tree.at("project/sub/deep/more"));
    cannot_write(&rules, &tree.at("other/file"));
    inside(
        &rules,
        "mkdir \"$1\" && echo x > \"$1/y\" && mv \"$1\" \"$2\"",
        &[&tree.at("project/a"), &tree.at("project/b")],
    )
    .ok();
    assert!(tree.at("project/b/y").is_file());
}

#[test]
fn a_single_file_can_be_made_writable() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project/main.c"))]);
    tree.same_names_after(|| {
        can_write(&rules, &tree.at("project/main.c"));
        cannot_write(&rules, &tree.at("project/sub/notes"));
        inside(&rules, "> \"$1\"", &[&tree.at("project/new")]).expect_code(2);
    });
}

#[test]
fn a_denied_write_carves_a_file_and_a_folder_out_of_a_write_root() {
    let tree = Tree::new();
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--deny-write", tree.at("project/sub")),
        ("--deny-write", tree.at("project/main.c")),
    ]);
    tree.same_names_after(|| {
        cannot_write(&rules, &tree.at("project/sub/notes"));
        cannot_write(&rules, &tree.at("project/main.c"));
        can_read(&rules, &tree.at("project/main.c"));
        inside(&rules, "> \"$1\"", &[&tree.at("project/sub/new")]).expect_code(2);
    });
    inside(&rules, "> \"$1\"", &[&tree.at("project/new")]).ok();
}

#[test]
fn the_whole_root_can_be_made_writable_and_carved_out_again() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", Path::new("/")), ("--deny-write", &tree.at("other"))]);
    can_write(&rules, &tree.at("project/main.c"));
    cannot_write(&rules, &tree.at("other/file"));
    // Writable or not, these are the sandbox's own.
    let private = Path::new("/tmp").join(tree.scratch.path().file_name().unwrap());
    inside(&rules, "> \"$1\" && test ! -e /run/lock && ! (> /proc/version)", &[&private]).ok();
    assert!(!private.exists());
}

#[test]
#[kennel_claim::claim("files/listed-reads-show-the-list")]
fn with_listed_reads_only_what_is_listed_exists() {
    let tree = Tree::new();
    let mut rules = flags([("--reads", Path::new("listed")), ("--allow-read", &tree.at("project"))]);
    tree.same_names_after(|| {
        can_read(&rules, &tree.at("project/sub/deep/more"));
        cannot_read(&rules, &tree.at("home/profile"));
        cannot_write(&rules, &tree.at("project/main.c"));
        let shown = inside(&rules, "ls -A \"$1\"", &[tree.scratch.path()]).ok();
        assert_eq!(shown.stdout, "project\n");
        let root = inside(&rules, "test ! -e /root && test ! -e /home && ls /", &[]).ok();
        for absent in ["root", "home", "var/lib", "sys/kernel"] {
            assert!(root.stdout.lines().all(|name| name != absent), "{absent} shows: {}", root.stdout);
        }
    });
    rules.extend(flags([("--allow-write", tree.at("other"))]));
    can_write(&rules, &tree.at("other/file"));
    rules.extend(flags([("--deny-read", tree.at("project/sub")), ("--deny-write", tree.at("other/file"))]));
    cannot_read(&rules, &tree.at("project/sub/notes"));
    can_read(&rules, &tree.at("project/main.c"));
    cannot_write(&rules, &tree.at("other/file"));
}

#[test]
fn the_minimal_system_set_runs_ordinary_programs_and_holds_no_secrets() {
    let script = "id > /dev/null && ls /usr/bin > /dev/null && grep -q root /etc/passwd && echo fine
                  for hidden in /etc/shadow /etc/ssh /etc/sudoers /var/log /root /home /boot /opt; do
                      test ! -e $hidden || echo $hidden shows
                  done";
    let shown = run_sh(["--reads", "listed"], script);
    assert_eq!(shown.stdout, "fine\n", "{}", shown.stderr);
}

#[test]
fn without_the_system_set_not_even_a_shell_exists() {
    let none = run_sh(["--reads", "listed", "--no-system"], "true").expect_code(127);
    assert_eq!(none.stderr, "kennel: sh: command not found\n");
    // What is listed by hand is enough: the interpreter's own folders.
    let mut rules: Vec<&str> = vec!["--reads", "listed", "--no-system"];
    for folder in ["/usr", "/bin", "/lib", "/lib64"].iter().filter(|folder| Path::new(folder).exists()) {
        rules.extend(["--allow-read", folder]);
    }
    let own = run_sh(rules, "test ! -e /etc/passwd && echo /*").ok();
    assert!(!own.stdout.contains("/etc"), "{}", own.stdout);
}

#[test]
fn a_listed_tree_cannot_be_changed_between_what_is_listed() {
    let tree = Tree::new();
    let rules = flags([("--reads", Path::new("listed")), ("--allow-write", &tree.at("project"))]);
    tree.same_names_after(|| {
        for script in ["> /new", "mkdir /etc/new", "> \"$1/new\"", "rmdir \"$1/project\"", "mv \"$1\" /x"] {
            let ran = inside(&rules, script, &[tree.scratch.path()]);
            assert_ne!(ran.code, 0, "{script}");
            assert_ne!(ran.code, 125, "{}", ran.stderr);
        }
    });
}
