//! Symlinks: the target is what is protected, and a link that leaves a write root gives no write.

use std::os::unix::fs::symlink;

use crate::filesystem::{Tree, can_read, can_write, cannot_read, cannot_write, flags, inside};

#[test]
fn denying_a_link_protects_its_target_under_every_name() {
    let tree = Tree::new();
    symlink(tree.at("home/.ssh"), tree.at("other/keys")).unwrap();
    symlink("keys", tree.at("other/again")).unwrap();
    for named in ["other/keys", "other/again"] {
        let rules = flags([("--deny-read", tree.at(named))]);
        for way in ["other/keys/id", "other/again/id", "home/.ssh/id"] {
            cannot_read(&rules, &tree.at(way));
        }
    }
}

#[test]
fn denying_a_target_holds_for_every_link_to_it() {
    let tree = Tree::new();
    symlink(tree.at("home"), tree.at("project/home")).unwrap();
    symlink("../../home/.ssh/id", tree.at("project/sub/id")).unwrap();
    let rules = flags([("--deny-read", tree.at("home/.ssh")), ("--allow-write", tree.at("project"))]);
    cannot_read(&rules, &tree.at("project/home/.ssh/id"));
    cannot_read(&rules, &tree.at("project/sub/id"));
    can_read(&rules, &tree.at("project/home/profile"));
}

#[test]
fn a_link_in_the_middle_of_a_rules_path_is_followed() {
    let tree = Tree::new();
    symlink("home", tree.at("user")).unwrap();
    cannot_read(&flags([("--deny-read", tree.at("user/.ssh/id"))]), &tree.at("home/.ssh/id"));
    can_write(&flags([("--allow-write", tree.at("user/.ssh"))]), &tree.at("home/.ssh/id"));
    let dots = flags([("--deny-read", tree.at("user/../home/.ssh"))]);
    cannot_read(&dots, &tree.at("home/.ssh/id"));
}

#[test]
#[kennel_claim::claim("files/no-write-through-a-symlink")]
fn a_symlink_out_of_the_write_root_cannot_be_written_through() {
    let tree = Tree::new();
    symlink(tree.at("other"), tree.at("project/out")).unwrap();
    symlink("../other/file", tree.at("project/file")).unwrap();
    let rules = flags([("--allow-write", tree.at("project"))]);
    tree.same_names_after(|| {
        for script in [
            "echo evil > \"$1/out/file\"",
            "echo evil > \"$1/file\"",
            "> \"$1/out/new\"",
            "rm \"$1/out/file\"",
        ] {
            let ran = inside(&rules, script, &[&tree.at("project")]);
            assert!(ran.code != 0 && ran.stderr.contains("Read-only file system"), "{script}: {ran:?}");
        }
    });
    assert_eq!(std::fs::read_to_string(tree.at("other/file")).unwrap(), "other/file");
    // One that the sandbox makes itself is worth no more.
    let made = inside(
        &rules,
        "ln -s \"$2\" \"$1/own\" && echo evil > \"$1/own/file\"",
        &[&tree.at("project"), &tree.at("other")],
    );
    assert!(made.stderr.contains("Read-only file system"), "{made:?}");
}

#[test]
fn a_link_named_as_writable_makes_its_target_writable() {
    let tree = Tree::new();
    symlink("project", tree.at("current")).unwrap();
    let rules = flags([("--allow-write", tree.at("current"))]);
    can_write(&rules, &tree.at("current/main.c"));
    can_write(&rules, &tree.at("project/main.c"));
    cannot_write(&rules, &tree.at("other/file"));
    // The link itself lies outside the write root, and stays.
    let ran = inside(&rules, "rm \"$1\"", &[&tree.at("current")]);
    assert!(ran.code != 0 && tree.at("current").is_symlink(), "{ran:?}");
}

#[test]
fn under_listed_reads_a_listed_link_works_under_its_own_name() {
    let tree = Tree::new();
    symlink("project", tree.at("current")).unwrap();
    symlink("current", tree.at("latest")).unwrap();
    let rules =
        [vec!["--reads".into(), "listed".into()], flags([("--allow-read", tree.at("latest"))])].concat();
    can_read(&rules, &tree.at("latest/main.c"));
    can_read(&rules, &tree.at("project/main.c"));
    cannot_read(&rules, &tree.at("other/file"));
}

#[test]
fn a_denied_link_inside_a_write_root_stays_in_its_place() {
    let tree = Tree::new();
    symlink(tree.at("home/.ssh"), tree.at("project/keys")).unwrap();
    symlink("notes", tree.at("project/sub/conf")).unwrap();
    let tries = "cd \"$1\" || exit 1
                 rm -f keys sub/conf
                 mv keys gone; mv sub/conf sub/gone
                 mv sub gone
                 ln -sfn /etc keys; ln -sf /etc/passwd sub/conf
                 echo evil > new && mv new keys; mv new sub/conf; rm -f new
                 exit 0";
    for deny in ["--deny-read", "--deny-write"] {
        let rules = flags([
            ("--allow-write", tree.at("project")),
            (deny, tree.at("project/keys")),
            (deny, tree.at("project/sub/co??")),
        ]);
        tree.same_names_after(|| drop(inside(&rules, tries, &[&tree.at("project")]).ok()));
        assert_eq!(std::fs::read_link(tree.at("project/keys")).unwrap(), tree.at("home/.ssh"));
        assert_eq!(std::fs::read_link(tree.at("project/sub/conf")).unwrap(), std::path::Path::new("notes"));
        assert_eq!(std::fs::read_to_string(tree.at("project/sub/notes")).unwrap(), "project/sub/notes");
    }
    // What it names is protected too, and it can be read through where only writing is denied.
    let rules = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/sub/conf"))]);
    cannot_write(&rules, &tree.at("project/sub/notes"));
    can_read(&rules, &tree.at("project/sub/conf"));
}

#[test]
fn links_that_lead_to_each_other_are_an_error_and_not_a_hang() {
    let tree = Tree::new();
    symlink("b", tree.at("a")).unwrap();
    symlink("a", tree.at("b")).unwrap();
    for flag in ["--deny-read", "--allow-read", "--allow-write", "--deny-write"] {
        let ran = inside(&flags([(flag, tree.at("a"))]), "true", &[]).expect_code(125);
        assert!(ran.stderr.contains("Too many levels of symbolic links"), "{flag}: {}", ran.stderr);
    }
}

#[test]
fn a_dangling_denied_link_stands_for_what_it_names() {
    let tree = Tree::new();
    symlink("../project/later", tree.at("other/dangling")).unwrap();
    inside(&flags([("--deny-read", tree.at("other/dangling"))]), "true", &[]).ok();
    // Inside a write root its target could be made, through the link or without it.
    let rules = flags([("--deny-read", tree.at("other/dangling")), ("--allow-write", tree.at("project"))]);
    tree.same_names_after(|| {
        for path in ["other/dangling", "project/later"] {
            let ran = inside(&rules, "echo evil > \"$1\"", &[&tree.at(path)]);
            assert!(ran.stderr.contains("Read-only file system"), "{path}: {ran:?}");
        }
    });
}

/// Otherwise the path that the rule names would lead elsewhere, to a place of the sandbox's choice.
#[test]
#[kennel_claim::claim("files/links-on-the-way-stay")]
fn a_link_on_the_way_to_what_is_denied_can_be_neither_removed_nor_replaced() {
    let tree = Tree::new();
    symlink("sub", tree.at("project/way")).unwrap();
    symlink("nowhere", tree.at("project/dangling")).unwrap();
    for denied in ["project/way/notes", "project/way/absent", "project/way/note?", "project/dangling"] {
        let rules = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at(denied))]);
        let link = if denied.ends_with("dangling") { "project/dangling" } else { "project/way" };
        let script =
            "rm \"$1\" && exit 9; mv \"$1\" \"$1.old\" && exit 9; ln -sfn /etc \"$1\" && exit 9; exit 7";
        tree.same_names_after(|| drop(inside(&rules, script, &[&tree.at(link)]).expect_code(7)));
        let points_to = std::fs::read_link(tree.at(link)).unwrap();
        assert!(["sub", "nowhere"].iter().any(|name| points_to == std::path::Path::new(name)));
    }
}
