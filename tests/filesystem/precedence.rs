//! Which rule wins: the most specific; at a tie the deny; and a write never shows what a read deny hides.

use crate::filesystem::{Tree, can_read, can_write, cannot_read, cannot_write, flags, inside};

#[test]
#[kennel_claim::claim("files/most-specific-rule-wins")]
fn the_most_specific_read_rule_wins_at_every_depth() {
    let tree = Tree::new();
    let rules = flags([
        ("--deny-read", tree.at("home")),
        ("--allow-read", tree.at("home/.ssh")),
        ("--deny-read", tree.at("home/.ssh/known")),
    ]);
    tree.same_names_after(|| {
        cannot_read(&rules, &tree.at("home/profile"));
        can_read(&rules, &tree.at("home/.ssh/id"));
        cannot_read(&rules, &tree.at("home/.ssh/known/hosts"));
        let shown = inside(&rules, "ls -A \"$1\"", &[&tree.at("home")]).ok();
        assert_eq!(shown.stdout, ".ssh\n", "a hidden folder shows only what is carved out of it");
    });
}

#[test]
fn the_order_in_which_rules_are_said_does_not_matter() {
    let tree = Tree::new();
    let (home, ssh) = (tree.at("home"), tree.at("home/.ssh"));
    for rules in [
        flags([("--deny-read", &home), ("--allow-read", &ssh)]),
        flags([("--allow-read", &ssh), ("--deny-read", &home)]),
    ] {
        can_read(&rules, &tree.at("home/.ssh/id"));
        cannot_read(&rules, &tree.at("home/profile"));
    }
}

#[test]
fn a_file_that_is_denied_stays_hidden_in_a_folder_that_is_allowed() {
    let tree = Tree::new();
    let rules = flags([
        ("--deny-read", tree.at("home")),
        ("--allow-read", tree.at("home/.ssh")),
        ("--deny-read", tree.at("home/.ssh/id")),
    ]);
    cannot_read(&rules, &tree.at("home/.ssh/id"));
    can_read(&rules, &tree.at("home/.ssh/known/hosts"));
}

#[test]
fn a_single_file_can_be_carved_out_of_a_hidden_folder() {
    let tree = Tree::new();
    let rules = flags([("--deny-read", tree.at("home")), ("--allow-read", tree.at("home/.ssh/known/hosts"))]);
    can_read(&rules, &tree.at("home/.ssh/known/hosts"));
    cannot_read(&rules, &tree.at("home/.ssh/id"));
    cannot_write(&rules, &tree.at("home/.ssh/known/hosts"));
}

#[test]
#[kennel_claim::claim("files/most-specific-rule-wins")]
fn at_a_tie_the_deny_wins() {
    let tree = Tree::new();
    let (home, project) = (tree.at("home"), tree.at("project"));
    cannot_read(&flags([("--deny-read", &home), ("--allow-read", &home)]), &tree.at("home/profile"));
    cannot_read(&flags([("--allow-read", &home), ("--deny-read", &home)]), &tree.at("home/profile"));
    let writes = flags([("--deny-write", &project), ("--allow-write", &project)]);
    cannot_write(&writes, &tree.at("project/main.c"));
    let listed =
        [vec!["--reads".into(), "listed".into()], flags([("--deny-read", &home), ("--allow-read", &home)])]
            .concat();
    cannot_read(&listed, &tree.at("home/profile"));
}

#[test]
#[kennel_claim::claim("files/most-specific-rule-wins")]
fn a_write_rule_never_shows_what_a_read_rule_hides() {
    let tree = Tree::new();
    let secret = tree.at("home/.ssh/id");
    for write in ["home", "home/.ssh", "home/.ssh/id"] {
        let rules = flags([("--deny-read", tree.at("home/.ssh")), ("--allow-write", tree.at(write))]);
        cannot_read(&rules, &secret);
        cannot_write(&rules, &secret);
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "home/.ssh/id");
    // Only a more specific rule about reading shows it again, and then the write holds.
    let rules = flags([
        ("--deny-read", tree.at("home/.ssh")),
        ("--allow-read", tree.at("home/.ssh/id")),
        ("--allow-write", tree.at("home/.ssh/id")),
    ]);
    can_read(&rules, &secret);
    can_write(&rules, &secret);
    cannot_read(&rules, &tree.at("home/.ssh/known/hosts"));
}

#[test]
fn the_most_specific_write_rule_wins_at_every_depth() {
    let tree = Tree::new();
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--deny-write", tree.at("project/sub")),
        ("--allow-write", tree.at("project/sub/deep")),
        ("--deny-write", tree.at("project/sub/deep/more")),
    ]);
    can_write(&rules, &tree.at("project/main.c"));
    cannot_write(&rules, &tree.at("project/sub/notes"));
    cannot_write(&rules, &tree.at("project/sub/deep/more"));
    inside(&rules, "> \"$1\"", &[&tree.at("project/sub/deep/new")]).ok();
    assert!(tree.at("project/sub/deep/new").exists());
}

#[test]
fn a_write_denied_above_does_not_undo_one_allowed_below() {
    let tree = Tree::new();
    let rules = flags([("--deny-write", tree.scratch.path()), ("--allow-write", &tree.at("project"))]);
    can_write(&rules, &tree.at("project/main.c"));
    cannot_write(&rules, &tree.at("other/file"));
}

#[test]
fn an_allowed_read_inside_a_write_root_does_not_take_the_write_away() {
    let tree = Tree::new();
    let rules = flags([("--allow-write", tree.at("project")), ("--allow-read", tree.at("project/sub"))]);
    can_write(&rules, &tree.at("project/sub/notes"));
}

#[test]
fn the_same_rule_twice_and_a_rule_inside_its_like_change_nothing() {
    let tree = Tree::new();
    let project = tree.at("project");
    let rules = flags([
        ("--allow-write", project.clone()),
        ("--allow-write", project),
        ("--allow-write", tree.at("project/sub")),
        ("--deny-read", tree.at("home")),
        ("--deny-read", tree.at("home/.ssh")),
    ]);
    can_write(&rules, &tree.at("project/sub/notes"));
    cannot_read(&rules, &tree.at("home/.ssh/id"));
    // One mount, so a rename between the two still works as outside.
    inside(&rules, "ln \"$1\" \"$2\"", &[&tree.at("project/main.c"), &tree.at("project/sub/linked")]).ok();
}
