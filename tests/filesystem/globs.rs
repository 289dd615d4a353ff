//! Globs in all four lists: what they match, and what they leave alone.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use kennel_tests::{Scratch, am_root, skipped};

use crate::filesystem::{Tree, can_read, can_write, cannot_read, cannot_write, flags, inside};

#[test]
fn globs_work_in_all_four_lists_together() {
    let tree = Tree::new();
    for name in [
        "project/a.key",
        "project/sub/b.key",
        "project/sub/public.key",
        "project/out/log.txt",
        "project/out/log.lock",
    ] {
        tree.scratch.write(name, name);
    }
    let rules = flags([
        ("--deny-read", tree.at("project/**/*.key")),
        ("--allow-read", tree.at("project/*/public.*")),
        ("--allow-write", tree.at("project/o[tu]t")),
        ("--deny-write", tree.at("project/out/*.loc?")),
    ]);
    tree.same_names_after(|| {
        cannot_read(&rules, &tree.at("project/a.key"));
        cannot_read(&rules, &tree.at("project/sub/b.key"));
        // As specific as the deny, so the deny wins.
        cannot_read(&rules, &tree.at("project/sub/public.key"));
        can_read(&rules, &tree.at("project/sub/notes"));
        can_write(&rules, &tree.at("project/out/log.txt"));
        cannot_write(&rules, &tree.at("project/out/log.lock"));
        cannot_write(&rules, &tree.at("project/main.c"));
    });
}

#[test]
fn a_deny_of_all_in_a_folder_that_is_not_there_keeps_it_from_being_made() {
    let tree = Tree::new();
    tree.scratch.write("project/main.txt", "text");
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--deny-read", tree.at("project/hidden/**")),
        ("--deny-write", tree.at("project/kept/**")),
        ("--deny-write", tree.at("project/p[1]/**")),
        ("--deny-write", tree.at("nowhere/at/all/**")),
    ]);
    can_read(&rules, &tree.at("project/main.txt"));
    for name in ["hidden", "kept", "p[1]"] {
        let folder = tree.at(&format!("project/{name}"));
        let made = inside(&rules, "mkdir -p \"$1\" && echo x > \"$1/f\" && cat \"$1/f\"", &[&folder]);
        assert!(!made.stdout.contains('x'), "{name}: {made:?}");
        assert!(!Path::new(&folder).join("f").exists(), "{name} was made");
    }
}

#[test]
fn an_allow_glob_carves_out_of_a_hidden_folder() {
    let tree = Tree::new();
    tree.scratch.write("home/.ssh/id.pub", "public");
    let rules = flags([("--deny-read", tree.at("home")), ("--allow-read", tree.at("home/**/*.pub"))]);
    can_read(&rules, &tree.at("home/.ssh/id.pub"));
    cannot_read(&rules, &tree.at("home/.ssh/id"));
    let shown = inside(&rules, "ls -A \"$1\"", &[&tree.at("home/.ssh")]).ok();
    assert_eq!(shown.stdout, "id.pub\n");
}

#[test]
fn hidden_files_are_ordinary_names_to_a_glob() {
    let tree = Tree::new();
    for name in ["project/.env", "project/.env.local", "project/.config/.env"] {
        tree.scratch.write(name, name);
    }
    let star = flags([("--deny-read", tree.at("project/*"))]);
    cannot_read(&star, &tree.at("project/.env"));
    cannot_read(&star, &tree.at("project/main.c"));
    let deep = flags([("--deny-read", tree.at("project/**/.env*"))]);
    for name in ["project/.env", "project/.env.local", "project/.config/.env"] {
        cannot_read(&deep, &tree.at(name));
    }
    can_read(&deep, &tree.at("project/main.c"));
}

#[test]
fn two_stars_match_no_folder_one_and_many() {
    let scratch = Scratch::new();
    for name in ["a/b", "a/x/b", "a/x/y/z/b", "a/xb"] {
        scratch.write(name, name);
    }
    let rules = flags([("--deny-read", scratch.join("a/**/b"))]);
    for hidden in ["a/b", "a/x/b", "a/x/y/z/b"] {
        cannot_read(&rules, &scratch.join(hidden));
    }
    can_read(&rules, &scratch.join("a/xb"));
    // At the end it stands for the folder itself too.
    let whole = flags([("--deny-read", scratch.join("a/**"))]);
    let shown = inside(&whole, "ls -A \"$1\"", &[&scratch.join("a")]).ok();
    assert_eq!(shown.stdout, "");
}

#[test]
fn sets_and_single_characters_match_as_documented() {
    let scratch = Scratch::new();
    for name in ["k1", "k2", "k9", "kx", "k[1]", "kä"] {
        scratch.write(name, name);
    }
    let hidden_by = |glob: &str| -> Vec<String> {
        let rules = flags([("--deny-read", scratch.join(glob))]);
        let script = "cd \"$1\" && for f in *; do cat \"$f\" > /dev/null 2>&1 || echo \"$f\"; done";
        let mut names: Vec<String> =
            inside(&rules, script, &[scratch.path()]).ok().stdout.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(hidden_by("k[1-2]"), ["k1", "k2"]);
    assert_eq!(hidden_by("k[!0-9]"), ["kx", "kä"]);
    assert_eq!(hidden_by("k[^0-9]"), ["kx", "kä"]);
    assert_eq!(hidden_by("k?"), ["k1", "k2", "k9", "kx", "kä"]);
    assert_eq!(hidden_by("k[[]1]"), ["k[1]"]);
    assert_eq!(hidden_by("nothing*"), [""; 0]);
}

#[test]
fn a_deny_glob_follows_a_symlink_and_protects_what_it_names() {
    let tree = Tree::new();
    symlink(tree.at("home/.ssh/id"), tree.at("project/link.key")).unwrap();
    let rules = flags([("--deny-read", tree.at("project/*.key"))]);
    cannot_read(&rules, &tree.at("project/link.key"));
    cannot_read(&rules, &tree.at("home/.ssh/id"));
}

#[test]
fn an_allow_glob_leaves_out_a_symlink_that_an_earlier_run_may_have_made() {
    let tree = Tree::new();
    symlink(tree.at("other"), tree.at("project/out-link")).unwrap();
    tree.scratch.write("project/out-real/file", "x");
    let rules = flags([("--allow-write", tree.at("project/out-*"))]);
    can_write(&rules, &tree.at("project/out-real/file"));
    cannot_write(&rules, &tree.at("other/file"));
    let reads = flags([("--deny-read", tree.at("other")), ("--allow-read", tree.at("project/out-*"))]);
    cannot_read(&reads, &tree.at("other/file"));
}

#[test]
fn a_link_that_a_deny_glob_matched_cannot_be_replaced_in_a_write_root() {
    let tree = Tree::new();
    symlink("sub/notes", tree.at("project/conf.ini")).unwrap();
    let rules = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/*.ini"))]);
    // Fail closed as for a link that is named, or hold it in its place; but never let it be swapped.
    inside(&rules, "rm \"$1\" && echo evil > \"$1\"", &[&tree.at("project/conf.ini")]);
    assert_eq!(std::fs::read_to_string(tree.at("project/conf.ini")).unwrap(), "project/sub/notes");
}

/// A folder that even its owner cannot look into, until the value is dropped: a failing test has to clean up too.
struct Closed<'a>(&'a Path);

impl Closed<'_> {
    fn to(folder: &Path, mode: u32) -> Closed<'_> {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
        Closed(folder)
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::set_permissions(self.0, PermissionsExt::from_mode(0o700));
    }
}

#[test]
fn a_folder_that_the_caller_cannot_list_does_not_stop_a_walk() {
    if am_root() {
        return skipped("root can list every folder");
    }
    let tree = Tree::new();
    let shut = tree.scratch.dir("project/shut");
    tree.scratch.write("project/shut/a.key", "x");
    tree.scratch.write("project/z.key", "x");
    let _open_again = Closed::to(&shut, 0o000);
    let rules = flags([("--deny-read", tree.at("project/**/*.key"))]);
    cannot_read(&rules, &tree.at("project/z.key"));
    can_read(&rules, &tree.at("project/main.c"));
}

#[test]
fn a_folder_whose_names_can_be_passed_but_not_listed_keeps_a_denied_file_hidden() {
    if am_root() {
        return skipped("root can list every folder");
    }
    // Mode 0111: the walk cannot see the names, but whoever knows one can open it. A literal rule has to hold.
    let tree = Tree::new();
    let dim = tree.scratch.dir("project/dim");
    let key = tree.scratch.write("project/dim/a.key", "x");
    let _open_again = Closed::to(&dim, 0o111);
    can_read(&[], &key);
    cannot_read(&flags([("--deny-read", &key)]), &key);
}

#[test]
fn special_characters_of_the_working_directory_mean_themselves() {
    let tree = Tree::new();
    tree.scratch.write("app/[slug]/page.ts", "x");
    tree.scratch.write("app/s/page.ts", "x");
    let mut command = crate::filesystem::command(
        &flags([("--deny-read", "*.ts")]),
        "cat page.ts 2>&1 || cat ../s/page.ts",
        &[],
    );
    let ran = kennel_tests::ran(command.current_dir(tree.at("app/[slug]"))).ok();
    assert_eq!(ran.stdout, "cat: page.ts: Permission denied\nx");
}

#[test]
fn a_glob_that_finds_nothing_is_no_error() {
    let tree = Tree::new();
    let rules = flags([
        ("--deny-read", tree.at("project/*.none")),
        ("--allow-read", tree.at("project/*.none")),
        ("--allow-write", tree.at("project/*.none")),
        ("--deny-write", tree.at("absent/**/x")),
    ]);
    inside(&rules, "true", &[]).ok();
}

#[test]
fn a_broken_glob_is_an_error_that_says_how_to_write_it() {
    let ran = inside(&flags([("--deny-read", Path::new("/srv/[a"))]), "true", &[]).expect_code(125);
    assert!(
        ran.stderr.contains("`[` starts a set that is not closed; write `[[]` for the character itself"),
        "{}",
        ran.stderr
    );
    let ran = inside(&flags([("--deny-read", Path::new("/srv/../*"))]), "true", &[]).expect_code(125);
    assert!(ran.stderr.contains("a glob cannot contain `..`"), "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("files/deny-globs-behind-links")]
fn a_deny_glob_behind_a_symlinked_folder_protects_what_it_matches() {
    let tree = Tree::new();
    tree.scratch.write("real/a.conf", "x");
    tree.scratch.write("real/sub/b.conf", "x");
    symlink("real", tree.at("lnk")).unwrap();
    symlink(tree.at("lnk"), tree.at("again")).unwrap();
    symlink(tree.at("real"), tree.at("project/way")).unwrap();
    for (glob, hidden) in [
        ("lnk/*.conf", "real/a.conf"),
        ("again/*.conf", "real/a.conf"),
        ("project/way/*.conf", "real/a.conf"),
        ("lnk/sub/?.conf", "real/sub/b.conf"),
        ("lnk/**/b.*", "real/sub/b.conf"),
        // The link comes after the first star.
        ("*/way/*.conf", "real/a.conf"),
        ("project/*/*.conf", "real/a.conf"),
        ("project/**/*.conf", "real/sub/b.conf"),
        ("project/w?y/sub/b.conf", "real/sub/b.conf"),
        ("**/way/**/b.conf", "real/sub/b.conf"),
    ] {
        can_read(&[], &tree.at(hidden));
        let rules = flags([("--deny-read", tree.at(glob))]);
        cannot_read(&rules, &tree.at(hidden));
        let by_link = Path::new("project/way").join(Path::new(hidden).strip_prefix("real").unwrap());
        cannot_read(&rules, &tree.scratch.path().join(by_link));
        let rules =
            flags([("--allow-write", tree.scratch.path().to_owned()), ("--deny-write", tree.at(glob))]);
        cannot_write(&rules, &tree.at(hidden));
        can_write(&rules, &tree.at("other/file"));
    }
}

#[test]
#[kennel_claim::claim("files/deny-globs-behind-links")]
fn a_link_on_the_way_to_what_a_glob_denies_cannot_be_replaced() {
    let tree = Tree::new();
    tree.scratch.write("other/sub/a.conf", "kept");
    symlink("../other", tree.at("project/way")).unwrap();
    // One that leads to where the glob looks anyway.
    symlink("sub", tree.at("project/beside")).unwrap();
    tree.scratch.write("project/sub/b.conf", "kept");
    let rules =
        flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/**/*.conf"))]);
    let script = "cd \"$1\" || exit 8
                  for link in way beside; do
                      rm \"$link\" && exit 9
                      mv \"$link\" gone && exit 9
                      ln -sfn /etc \"$link\" && exit 9
                  done; exit 7";
    tree.same_names_after(|| drop(inside(&rules, script, &[&tree.at("project")]).expect_code(7)));
    assert_eq!(std::fs::read_link(tree.at("project/way")).unwrap(), Path::new("../other"));
}

#[test]
#[kennel_claim::claim("files/starts-are-bounded")]
fn links_in_a_circle_up_the_tree_and_to_the_root_neither_hang_a_walk_nor_lead_it_away() {
    let tree = Tree::new();
    tree.scratch.write("project/a.key", "x");
    tree.scratch.write("project/deep/er/b.key", "x");
    for (link, to) in [
        ("project/self", "."),
        ("project/deep/up", ".."),
        ("project/a", "b"),
        ("project/b", "a"),
        ("project/deep/er/top", "../.."),
    ] {
        symlink(to, tree.at(link)).unwrap();
    }
    symlink(tree.at("project"), tree.at("other/back")).unwrap();
    symlink(tree.at("other"), tree.at("project/there")).unwrap();
    tree.scratch.write("other/c.key", "x");
    let rules = flags([("--deny-read", tree.at("project/**/*.key"))]);
    for hidden in ["project/a.key", "project/deep/er/b.key", "other/c.key"] {
        cannot_read(&rules, &tree.at(hidden));
    }
    can_read(&rules, &tree.at("home/profile"));
    // What a run may have planted: a whole disk behind one name. It is looked through as far as that goes, or refused.
    symlink("/", tree.at("project/disk")).unwrap();
    let began = std::time::Instant::now();
    let told = inside(&rules, "true", &[]);
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    if told.code != 0 {
        let named = format!("too many files behind the symlink {}", tree.at("project/disk").display());
        assert!(told.code == 125 && told.stderr.contains(&named), "{told:?}");
    }
}

#[test]
#[kennel_claim::claim("files/starts-are-bounded")]
fn thousands_of_globs_neither_hold_a_start_nor_go_unheard() {
    let tree = Tree::new();
    for folder in 0..200 {
        for file in 0..50 {
            tree.scratch.write(&format!("project/{folder}/{file}.txt"), "");
        }
    }
    tree.scratch.write("project/7/secret-3999", "x");
    let settings = |count: usize, glob: &dyn Fn(usize) -> String| {
        let globs: Vec<String> = (0..count).map(|number| format!("\"{}\"", glob(number))).collect();
        tree.scratch.write("project/kennel.toml", &format!("[files]\ndeny_read = [{}]\n", globs.join(",\n")));
    };
    let run = || {
        let mut command = crate::filesystem::command(&[], "cat 7/secret-3999", &[]);
        kennel_tests::ran_within(std::time::Duration::from_secs(60), command.current_dir(tree.at("project")))
    };
    let began = std::time::Instant::now();
    settings(4000, &|number| format!("**/secret-{number}"));
    assert_eq!(run().code, 1, "the last of them holds");
    settings(4000, &|number| format!("**/*-{number}"));
    assert_eq!(run().code, 1, "the last of them holds");
    settings(4000, &|number| format!("**/s*t-{number}"));
    assert_eq!(run().code, 1, "the last of them holds");
    assert!(began.elapsed() < std::time::Duration::from_secs(45), "{:?}", began.elapsed());
    settings(20_000, &|number| format!("/**/secret-{number}"));
    let told = run().expect_code(125);
    assert!(told.stderr.contains("20000 globs, and at most 4096 are supported\nhelp: "), "{}", told.stderr);
    // Of each of these there are two readings.
    settings(40_000, &|number| format!("[{number}]*"));
    let told = run().expect_code(125);
    assert!(told.stderr.contains("40000 globs, and at most 4096 are supported\nhelp: "), "{}", told.stderr);
}

#[test]
fn a_glob_that_an_earlier_run_led_elsewhere_allows_nothing() {
    let tree = Tree::new();
    tree.scratch.write("other/sub/file", "x");
    symlink("../other", tree.at("project/out")).unwrap();
    let rules = flags([("--allow-write", tree.at("project/out/s*"))]);
    // Nobody inside could have made it.
    can_write(&rules, &tree.at("other/sub/file"));
    let rules = [flags([("--allow-write", tree.at("project"))]), rules].concat();
    let told = inside(&rules, "true", &[]).expect_code(125);
    assert!(told.stderr.contains("leads through the symlink"), "{}", told.stderr);
}

#[test]
fn a_glob_over_processes_is_an_error() {
    for glob in ["/proc/*/environ", "/proc/[0-9]*/cmdline", "/proc/*"] {
        let told = inside(&flags([("--deny-read", Path::new(glob))]), "true", &[]).expect_code(125);
        assert!(told.stderr.contains("names a process of the host"), "{}", told.stderr);
    }
    // One that comes by /proc on its way is not.
    inside(&flags([("--deny-read", Path::new("/proc/k*"))]), "! cat /proc/kallsyms", &[]).ok();
}

#[test]
#[kennel_claim::claim("handed-back/srt-brackets")]
fn a_deny_holds_for_the_name_that_its_brackets_spell_as_well() {
    let tree = Tree::new();
    for name in [
        "project/[slug]/key",
        "project/s/key",
        "project/x/key",
        "project/app/[slug]/key",
        "project/app/[slug]/[id].env",
        "project/app/s/i.env",
        "project/[id]",
    ] {
        tree.scratch.write(name, name);
    }
    let deep = flags([("--deny-read", tree.at("project/**/[slug]/*"))]);
    cannot_read(&deep, &tree.at("project/[slug]/key"));
    cannot_read(&deep, &tree.at("project/s/key"));
    cannot_read(&deep, &tree.at("project/app/[slug]/key"));
    can_read(&deep, &tree.at("project/x/key"));
    // Without a star it is a path.
    let named = flags([("--deny-read", tree.at("project/[id]"))]);
    cannot_read(&named, &tree.at("project/[id]"));
    let both = flags([("--deny-read", tree.at("project/app/[slug]/[id].env"))]);
    cannot_read(&both, &tree.at("project/app/[slug]/[id].env"));
    cannot_read(&both, &tree.at("project/app/s/i.env"));
    can_read(&both, &tree.at("project/app/[slug]/key"));
    // Who says that brackets are text means nothing else, and an allow opens what it says alone.
    let text = flags([("--deny-read", tree.at("project/[[]slug]/*"))]);
    cannot_read(&text, &tree.at("project/[slug]/key"));
    can_read(&text, &tree.at("project/s/key"));
    let allow = flags([("--allow-write", tree.at("project")), ("--deny-write", tree.at("project/[slug]/*"))]);
    cannot_write(&allow, &tree.at("project/[slug]/key"));
    cannot_write(&allow, &tree.at("project/s/key"));
    let allow = flags([("--deny-read", tree.at("project")), ("--allow-read", tree.at("project/[slug]"))]);
    can_read(&allow, &tree.at("project/s/key"));
    cannot_read(&allow, &tree.at("project/[slug]/key"));
}
