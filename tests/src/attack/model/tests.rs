//! The model against the sentences of docs/settings.md, one test for each.

use super::*;
use crate::attack::script::History;
use crate::attack::snapshot::Entry;

/// A tree, written as a history's; a second name is made by `hard` and `bind`.
fn tree(nodes: &str) -> Snapshot {
    let history = History::parse(&format!("tree\n{nodes}")).unwrap();
    let mut tree = Snapshot::new();
    for (number, node) in history.tree.iter().enumerate() {
        let kind = match node.verb.as_str() {
            "dir" | "bind" => Kind::Folder,
            "link" => Kind::Link,
            _ => Kind::File,
        };
        let content = if kind == Kind::Link { node.word(1).into() } else { Vec::new() };
        let (path, identity) = match node.verb.as_str() {
            "hard" => (node.word(0), tree[node.word(1)].identity),
            "bind" => (node.word(1), tree[node.word(0)].identity),
            _ => (node.word(0), (1, number as u64)),
        };
        let entry = Entry {
            kind,
            identity,
            content,
            mode: 0,
            owner: (0, 0),
            modified: (0, 0),
            size: 0,
            xattrs: Vec::new(),
        };
        tree.insert(path.to_owned(), entry);
    }
    tree
}

fn model(flags: &str, nodes: &str) -> Model {
    model_after(flags, nodes, &[])
}

fn model_after(flags: &str, nodes: &str, planted: &[&str]) -> Model {
    let flags: Vec<String> =
        flags.split(" --").map(|flag| format!("flag --{}\n", flag.trim_start_matches('-'))).collect();
    let history = History::parse(&format!("run\n{}", flags.concat())).unwrap();
    Model::of(&history.runs[0], &tree(nodes), &planted.iter().map(|path| (*path).to_owned()).collect())
}

const TREE: &str =
    "dir w\nfile w/.env\ndir w/conf\nfile w/conf/key\nfile w/conf/open\ndir out\nfile out/f\nlink w/l ../out";

#[test]
fn by_default_everything_is_read_and_nothing_written() {
    let model = model("--cpus 1", TREE);
    assert!(model.may_read("w/.env") && !model.may_write("w/.env") && !model.is_denied("w/.env"));
}

#[test]
fn the_longest_path_decides_and_at_a_tie_the_deny() {
    let model = model("--allow-write . --deny-write w --allow-write w/conf --deny-write w/conf/key", TREE);
    for (path, writable) in [("out/f", true), ("w/.env", false), ("w/conf/open", true), ("w/conf/key", false)]
    {
        assert_eq!(model.may_write(path), writable, "{path}");
    }
    let tie = super::tests::model("--deny-read w --allow-read w --allow-read w/conf", TREE);
    assert!(!tie.may_read("w/.env") && tie.may_read("w/conf/key"));
}

#[test]
fn a_write_rule_never_shows_what_is_hidden() {
    let model = model("--deny-read w/conf --allow-write w/conf/key --allow-write w", TREE);
    assert!(!model.may_read("w/conf/key") && !model.may_write("w/conf/key") && model.may_write("w/.env"));
}

#[test]
fn under_listed_reads_only_what_a_rule_or_a_mount_shows_is_read() {
    let model = model("--reads listed --allow-read w/conf --mount out:/mnt/x --deny-read w/conf/key", TREE);
    assert!(model.may_read("w/conf/open") && model.may_read("out/f"));
    assert!(!model.may_read("w/.env") && !model.may_read("w/conf/key") && !model.may_write("out/f"));
}

#[test]
fn a_rule_is_about_names_that_do_not_exist_as_well() {
    let model = model("--allow-write w --deny-write w/.git/hooks", TREE);
    assert!(model.may_write("w/.git/config") && !model.may_write("w/.git/hooks/pre-commit"));
    assert!(model.is_denied("w/.git/hooks") && !model.is_denied("w/.git"));
}

#[test]
fn with_the_other_precedence_a_deny_of_writing_holds_for_all_below() {
    let model = model(
        "--precedence deny-write --deny-write w --allow-write w/conf --deny-read out --allow-read out",
        TREE,
    );
    assert!(!model.may_write("w/conf/key") && model.may_read("out/f"));
}

#[test]
fn a_deny_follows_links_and_keeps_them_in_their_places() {
    let model = model("--allow-write w --deny-read w/l/f", TREE);
    assert!(!model.may_read("out/f") && !model.may_write("w/l") && model.may_write("w/.env"));
}

#[test]
fn a_deny_holds_for_hard_links_and_second_mounts_unless_a_rule_allows_that_name() {
    let nodes = "dir w\nfile w/a\nhard w/b w/a\ndir s\nfile s/f\nbind s t\n";
    let hidden = model("--deny-read w/a --deny-read s", nodes);
    assert!(!hidden.may_read("w/b") && !hidden.may_read("t/f") && !hidden.may_read("t/later"));
    let allowed = model("--deny-read s --allow-read t", nodes);
    assert!(!allowed.may_read("s/f") && allowed.may_read("t/f"));
}

#[test]
fn an_allow_follows_a_link_unless_a_sandbox_made_it() {
    let flags = "--allow-write w/l --mount w/l:/mnt/x:rw --deny-read out/f --allow-read w/l/f";
    assert!(model("--allow-write w/l", TREE).may_write("out/f"));
    let planted = model_after(flags, TREE, &["w/l"]);
    assert!(!planted.may_write("out/f") && !planted.may_read("out/f"));
}

#[test]
fn a_glob_stands_for_what_is_there_and_follows_links_in_deny_lists() {
    let nodes = "dir d\nfile d/a.conf\nfile d/b.txt\nlink l d\ndir e\nlink e/k ../d/b.txt\nfile e/f";
    for (glob, path, hidden) in [
        ("d/*.conf", "d/a.conf", true),
        ("d/*.conf", "d/b.txt", false),
        ("l/*.conf", "d/a.conf", true),
        ("l/?.txt", "d/b.txt", true),
        ("e/*", "d/b.txt", true),
        ("*/a.conf", "d/a.conf", true),
        ("**/f", "e/f", true),
        ("d/**", "d/b.txt", true),
    ] {
        assert_eq!(!model(&format!("--deny-read {glob}"), nodes).may_read(path), hidden, "{glob} {path}");
    }
    assert!(!model("--allow-write e/*", nodes).may_write("d/b.txt"));
    assert!(model("--allow-write e/*", nodes).may_write("e/f"));
}

#[test]
fn a_mount_is_written_only_where_nothing_denies_its_source() {
    assert!(model("--mount out:/mnt/x:rw", TREE).may_write("out/f"));
    assert!(!model("--mount out:/mnt/x", TREE).may_write("out/f"));
    assert!(!model("--mount out:/mnt/x:rw --deny-write .", TREE).may_write("out/f"));
}

#[test]
fn git_keeps_what_it_runs_unless_an_allow_names_it() {
    let nodes = "dir w\ndir w/.git\nfile w/.git/HEAD\nfile w/.git/config\ndir w/.git/hooks\nfile w/x";
    let kept = model("--allow-write w --git hooks-and-config-read-only", nodes);
    assert!(!kept.may_write("w/.git/config") && !kept.may_write("w/.git/hooks/pre-commit"));
    assert!(kept.may_write("w/.git/HEAD") && kept.may_write("w/x"));
    assert!(!model("--allow-write w --git metadata-read-only", nodes).may_write("w/.git/HEAD"));
    let opened = model("--allow-write w --git hooks-and-config-read-only --allow-write w/.git/hooks", nodes);
    assert!(opened.may_write("w/.git/hooks/pre-commit") && !opened.may_write("w/.git/config"));
}

#[test]
fn an_agent_writes_where_it_starts_and_kennels_settings_are_never_written() {
    let nodes = "dir home\ndir home/.ssh\nfile home/.ssh/id\ndir home/.config\ndir w";
    let history = History::parse("run\ncwd home\nflag --profile agent").unwrap();
    let model = Model::of(&history.runs[0], &tree(nodes), &BTreeSet::new());
    assert!(model.may_write("home/x") && !model.may_read("home/.ssh/id") && !model.may_write("w/x"));
    assert!(!model.may_write("home/.config/kennel/settings.toml"));
}

#[test]
fn of_a_private_home_only_what_rules_allow_may_be_read() {
    let nodes = "dir home\nfile home/any\ndir home/w\nfile home/w/x\ndir home/.ssh\nfile home/.ssh/id\ndir home/r\nfile home/r/x";
    let history = History::parse(
        "run\ncwd home/w\nflag --profile agent\nflag --allow-read home/r\nflag --allow-read home/.ssh\nflag --allow-read .",
    );
    let model = Model::of(&history.unwrap().runs[0], &tree(nodes), &BTreeSet::new());
    assert!(model.may_write("home/w/x") && model.may_read("home/r/x") && model.may_read("home/.ssh/id"));
    assert!(!model.may_read("home/any") && !model.may_read("home/.config/x") && model.may_read("other"));
    let build = Model::of(
        &History::parse("run\ncwd w\nflag --profile build").unwrap().runs[0],
        &tree(nodes),
        &BTreeSet::new(),
    );
    assert!(!build.may_read("home/w/x"));
}

#[test]
fn links_in_a_circle_stand_for_nothing() {
    assert_eq!(find(&tree("link a b\nlink b a"), "a/x", true), []);
}

#[test]
fn what_a_glob_matches_in_a_denied_folder_is_not_looked_for_elsewhere() {
    let nodes = "dir w\nfile out/f\nhard w/h out/f";
    assert!(!model("--deny-read w/h", nodes).may_read("out/f"));
    assert!(!model("--deny-read w/h*", nodes).may_read("out/f"));
    let whole = model("--deny-read w/**", nodes);
    assert!(whole.may_read("out/f") && !whole.may_read("w/h"));
}
