//! The last look has an end that no tree can put off, and passes over nothing: what was not looked at is locked away.

use super::{OFF, WAYS, Way, World};

const HOOKS: Way = Way::Level("hooks-and-config-read-only");
/// A repository that has git run something, made without git.
const ARMED: &str =
    "armed() { mkdir -p $1/.git/objects $1/.git/refs; echo ref: refs/heads/main > $1/.git/HEAD
    printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=RUN;false\\n' > $1/.git/config; }; ";

/// How many repositories are left that have git run something, and that nobody locked away.
fn armed(world: &World) -> String {
    world.host("grep -rls fsmonitor --include=config . | grep -v set-aside-by-kennel | wc -l")
}

#[test]
#[kennel_claim::claim("handed-back/git-search-is-bounded")]
fn a_folder_that_nobody_may_enter_hides_nothing() {
    for (name, hide) in [
        ("a folder", "mkdir d; armed d/x; chmod 000 d"),
        ("folders in each other", "mkdir -p d/e; armed d/e/x; chmod 000 d/e/x/.git d/e/x d/e d"),
        ("one that can be entered", "mkdir d; armed d/x; chmod 100 d"),
        ("a repository's own folder", "armed x; chmod 000 x/.git"),
        (
            "refs",
            "armed x; mkdir x/.git/refs/heads; ln -s TOP/rc x/.git/refs/heads/main; chmod 000 x/.git/refs/heads; chmod 000 x/.git/refs",
        ),
    ] {
        for way in WAYS {
            let Some(world) = World::new() else { return };
            let ran = world.inside(*way, &format!("{ARMED}{hide}"));
            assert_eq!(ran.code, 0, "{name}: {way:?}: {}", ran.stderr);
            world.host("chmod -R u+rwX .");
            assert_eq!(armed(&world), "0\n", "{name}: {way:?}: {}", ran.stderr);
            assert_eq!(
                world.host("find x/.git -type l ! -name '*set-aside*' 2>/dev/null || true"),
                "",
                "{name}: {way:?}"
            );
        }
    }
    let Some(world) = World::new() else { return };
    world.inside(OFF, &format!("{ARMED}mkdir d; armed d/x; chmod 000 d"));
    world.host("chmod -R u+rwX .");
    assert_eq!(armed(&world), "1\n", "the attack is none");
}

#[test]
fn a_folder_that_was_opened_is_shut_again() {
    let Some(world) = World::new() else { return };
    world.inside(HOOKS, "mkdir d; echo x > d/x; chmod 000 d").ok();
    assert_eq!(world.host("stat -c %a d; chmod 755 d"), "0\n");
}

#[test]
#[kennel_claim::claim("handed-back/git-search-is-bounded")]
fn more_than_anybody_wants_to_hear_of_is_locked_away() {
    let Some(world) = World::new() else { return };
    let script = format!(
        "{ARMED}mkdir -p {{1..6}}/{{1..1000}}/.git/{{objects,refs}}; for n in {{1..6}}/{{1..1000}}; do echo ref: refs/heads/main > $n/.git/HEAD; printf '[core]\\nfsmonitor=RUN;false\\n' > $n/.git/config; done; echo mine > kept"
    );
    let ran = world.inside(HOOKS, &script);
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("kennel: locked away") && ran.stderr.contains("nobody may enter it"),
        "{}",
        ran.stderr
    );
    let lines = ran.stderr.lines().filter(|line| line.starts_with("kennel: ")).count();
    assert!(lines < 600, "{lines}");
    assert_eq!(armed(&world), "0\n", "{}", &ran.stderr[..2000.min(ran.stderr.len())]);
    assert_eq!(world.host("cat kept; git log --format=%s -1"), "mine\ntwo\n");
    // The command that undoes it does so.
    let locked = ran.stderr.lines().find_map(|line| line.strip_prefix("help: to put it back: chmod "));
    world.host(&format!("chmod {}; chmod -R u+rwX .", locked.expect("there is one")));
}

#[test]
#[kennel_claim::claim("handed-back/git-search-is-bounded")]
fn paths_of_a_megabyte_end_nothing() {
    let Some(world) = World::new() else { return };
    if kennel_tests::program("python3").is_none() {
        return kennel_tests::skipped("python3 is not installed");
    }
    // Folders with long names in each other, at the bottom a repository; and others beside, which come later.
    let deep = "python3 - <<'END'\nimport os\nfor n in range(5200):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nos.makedirs('r/.git/objects'); os.mkdir('r/.git/refs')\nopen('r/.git/HEAD', 'w').write('ref: refs/heads/main\\n'); open('r/.git/config', 'w').write('[core]\\nfsmonitor=false;RUN\\n')\nEND\n";
    let ran =
        world.inside(HOOKS, &format!("{ARMED}for n in $(seq 60); do armed a$n; armed z$n; done; {deep}"));
    let clean = "import os, shutil\ntop = [n for n in os.listdir('.') if n.startswith('d' * 200)]\nos.chmod(top[0], 0o700); os.chdir(top[0]); n = 1\nwhile True:\n    inner = [x for x in os.listdir('.') if x.startswith('d' * 150)]\n    if not inner: break\n    os.chmod(inner[0], 0o700); os.chdir(inner[0]); n += 1\nshutil.rmtree('r', True)\nfor _ in range(n):\n    os.chdir('..')\n    for x in os.listdir('.'):\n        if x.startswith('d' * 150): os.rmdir(x)\n";
    world.host(&format!("python3 -c \"{clean}\" 2>/dev/null || true"));
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(ran.stderr.contains("locked away") && ran.stderr.len() < 1 << 20, "{}", ran.stderr.len());
    assert_eq!(armed(&world), "0\n");
}

#[test]
#[kennel_claim::claim("handed-back/git-search-is-bounded")]
fn a_look_in_a_run_that_timed_out_looks_at_everything_all_the_same() {
    let Some(world) = World::new() else { return };
    let script =
        format!("{ARMED}for n in $(seq 200); do mkdir -p f$n/a/b/c; armed f$n/a/b/c/d; done; sleep 60");
    let ran = world.inside_with(HOOKS, &["--timeout", "10s"], &script);
    assert!(matches!(ran.code, 123 | 124), "{}", ran.stderr);
    assert_eq!(armed(&world), "0\n", "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/git-index")]
fn an_index_that_is_written_in_place_is_looked_at_too() {
    let Some(world) = World::new() else { return };
    if kennel_tests::program("python3").is_none() {
        return kennel_tests::skipped("python3 is not installed");
    }
    // So many files that kennel hears of names that are made: here none is.
    world.host("mkdir many; cd many; seq 30000 | xargs touch; cd ..; echo many > .git/info/exclude; mkdir -p Xgit/hooks; printf '#!/bin/sh\\nRUN\\n' > Xgit/hooks/post-checkout; chmod +x Xgit/hooks/post-checkout; git add Xgit; git commit -qm x");
    let script = "python3 -c \"f = open('.git/index', 'r+b'); text = f.read(); f.seek(0); f.write(text.replace(b'Xgit/hooks', b'.git/hooks'))\"";
    let host = "(git checkout .; git checkout HEAD~0; git checkout -f; git checkout main) >/dev/null 2>&1 || true; test -e TOP/canary && echo ran || echo not";
    for (way, expected) in [(OFF, "ran\n"), (HOOKS, "not\n"), (Way::Agent, "not\n")] {
        world.host("rm -f TOP/canary .git/hooks/post-checkout .git/index; git reset -q");
        let ran = world.inside(way, script);
        assert_eq!(world.host(host), expected, "{way:?}: {}", ran.stderr);
    }
}

/// A repository in the tree whose HEAD is not there when kennel looks, and that `git checkout .` brings back.
#[test]
#[kennel_claim::claim("handed-back/git-index")]
fn a_checkout_makes_no_repository_that_names_programs() {
    let bare = "mkdir -p b/objects b/refs; mkdir b/objects/info b/refs/heads; echo x > b/objects/info/packs; echo x > b/refs/heads/k.lock; echo ref: refs/heads/main > b/HEAD
        printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=RUN;false\\n' > b/config; ";
    for (name, inside, host) in [
        ("without a HEAD", "git add b; rm b/HEAD", "git checkout .; cd b; git status"),
        ("without anything", "git add b; rm -r b", "git checkout .; cd b; git status"),
        (
            "deeper",
            "mkdir -p x/y; mv b x/y/b; git add x; rm x/y/b/HEAD x/y/b/config",
            "git restore .; cd x/y/b; git status",
        ),
        (
            "with its configuration elsewhere",
            "mkdir c; mv b/config b/objects b/refs c; echo ../c > b/commondir; echo ref: refs/heads/main > c/HEAD; git add b c; rm b/HEAD c/HEAD",
            "git checkout .; cd b; git status; cd ../c; git status",
        ),
    ] {
        for way in std::iter::once(&OFF).chain(WAYS) {
            let Some(world) = World::new() else { return };
            let ran = world.inside(*way, &format!("{bare}{inside}"));
            let ran_it = world.host(&format!(
                "({host}) >/dev/null 2>&1 || true; test -e TOP/canary && echo ran || echo not"
            ));
            assert_eq!(
                ran_it,
                if *way == OFF { "ran\n" } else { "not\n" },
                "{name}: {way:?}: {}",
                ran.stderr
            );
        }
    }
    // One that was there before is its owner's.
    let Some(world) = World::new() else { return };
    world.host(&format!("{bare}git add b; git commit -qm b"));
    let ran = world.inside(HOOKS, "echo more > more; git add more; git commit -qm more").ok();
    assert!(!ran.stderr.contains("set aside"), "{}", ran.stderr);
}
