//! What was there before the run: what its configuration names stays, and a new work tree of it gets no other programs.

use super::{Attack, OFF, WAYS, Way, World, fails};

macro_rules! attacks {
    ($(fn $name:ident(): $before:expr, $inside:expr;)*) => {
        $(#[test]
        fn $name() {
            fails(&Attack { name: stringify!($name), before: $before, inside: $inside });
        })*
    };
}

attacks! {
    fn a_script_that_a_filter_hands_to_an_interpreter_stays():
        "mkdir tools; echo cat > tools/clean.sh; git config filter.x.clean 'sh tools/clean.sh %f'; echo '* filter=x' > .gitattributes; git add -A; git commit -qm f",
        "echo 'RUN; cat' > tools/clean.sh; echo more > three";
    fn a_script_beside_the_repository_that_a_filter_names_stays():
        "echo cat > clean.sh; git config filter.x.clean 'sh clean.sh'; echo '* filter=x' > .gitattributes; git add -A; git commit -qm f",
        "echo 'RUN; cat' > clean.sh; rm -f clean.sh; echo 'RUN; cat' > clean.sh; echo more > three";
    fn what_an_included_file_includes_stays():
        "printf '[include]\\npath = b.inc\\n' > a.inc; printf '[user]\\nname = x\\n' > b.inc; git config include.path ../a.inc",
        "printf '[core]\\nfsmonitor = \"RUN;false\"\\n' > b.inc";
    fn hooks_that_an_included_file_names_stay():
        "printf '[core]\\nhooksPath = .githooks\\n' > a.inc; mkdir .githooks; git config include.path ../a.inc",
        "printf '#!/bin/sh\\nRUN\\n' > .githooks/post-commit; chmod +x .githooks/post-commit";
    fn hooks_of_a_repository_above_stay():
        "rm -rf .git; cd ..; git init -q .; git config core.hooksPath work/.githooks; git commit -q --allow-empty -m x",
        "mkdir -p .githooks; printf '#!/bin/sh\\nRUN\\n' > .githooks/post-commit; chmod +x .githooks/post-commit";
    fn hooks_of_the_callers_own_configuration_are_not_planted_in_a_clone():
        "git config --global core.hooksPath .githooks",
        "git init -q new; mkdir new/.githooks; printf '#!/bin/sh\\nRUN\\n' > new/.githooks/post-commit; chmod +x new/.githooks/post-commit";
    fn hooks_that_the_callers_own_configuration_includes_are_not_planted():
        "printf '[core]\\n\\thooksPath = .githooks\\n' > TOP/home/more.inc; git config --global include.path more.inc",
        "mkdir -p .githooks; printf '#!/bin/sh\\nRUN\\n' > .githooks/post-commit; chmod +x .githooks/post-commit
         git init -q new; mkdir new/.githooks; cp .githooks/* new/.githooks/";
    fn hooks_in_a_new_worktree_are_those_of_the_first():
        "mkdir .githooks; printf '#!/bin/sh\\n' > .githooks/post-commit; chmod +x .githooks/post-commit; git config core.hooksPath .githooks; git add -A; git commit -qm h",
        "git worktree add -q t || exit 0; printf '#!/bin/sh\\nRUN\\n' > t/.githooks/post-commit";
    fn a_pointer_to_a_trusted_repository_brings_no_programs():
        "mkdir tools; printf '#!/bin/sh\\n' > tools/watch; chmod +x tools/watch; git config core.fsmonitor ./tools/watch",
        "mkdir -p s/tools; printf '#!/bin/sh\\nRUN\\n' > s/tools/watch; chmod +x s/tools/watch; echo 'gitdir: ../.git' > s/.git";
    fn a_pointer_to_a_repository_elsewhere_brings_no_programs():
        "git init -q ../other; git -C ../other commit -q --allow-empty -m x; git -C ../other config core.fsmonitor ./watch",
        "mkdir -p s; printf '#!/bin/sh\\nRUN\\n' > s/watch; chmod +x s/watch; echo 'gitdir: TOP/other/.git' > s/.git";
    fn the_settings_of_a_submodule_of_a_worktree_stay():
        "git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git worktree add -q t; cd t; git submodule --quiet add ../../lib lib; git commit -qm lib",
        "for file in .git/worktrees/t/modules/lib/config; do printf '[core]\\nfsmonitor = \"RUN;false\"\\n' >> $file; done";
}

#[test]
#[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
fn settings_that_name_programs_do_not_stay_where_the_configuration_is_open() {
    let ways: &[(&str, &str)] = &[
        ("by git", "git config core.fsmonitor 'RUN;false'"),
        ("appended", "printf '[core]\\nfsmonitor = \"RUN;false\"\\n' >> .git/config"),
        (
            "in place",
            "python3 -c \"f = open('.git/config', 'r+'); f.seek(0, 2); f.write('[core]\\nfsmonitor = \\\"RUN;false\\\"\\n')\"",
        ),
        ("included", "printf '[core]\\nfsmonitor = \"RUN;false\"\\n' > x; git config include.path ../x"),
        (
            "hooks elsewhere",
            "git config core.hooksPath h; mkdir h; printf '#!/bin/sh\\nRUN\\n' > h/post-commit; chmod +x h/post-commit",
        ),
        ("a link", "cp .git/config x; git config -f x core.fsmonitor 'RUN;false'; ln -sf ../x .git/config"),
        ("oddly written", "printf '[core] fsmonitor = \"RUN;false\"\\n' >> .git/config"),
        (
            "of the worktree",
            "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'RUN;false'",
        ),
        ("another file", "cp .git/config x; git config -f x core.fsmonitor 'RUN;false'; mv x .git/config"),
    ];
    for (name, script) in ways {
        for (way, runs) in [(OFF, true), (Way::Level("hooks-read-only"), false)] {
            let Some(world) = World::new() else { return };
            world.host("git config remote.o.url /srv/o.git; git config core.pager 'less -x'");
            world.inside(way, script).ok();
            assert_eq!(world.runs_something(), runs, "{name}: {way:?}");
            if !runs {
                // What its owner wrote is still there, and the repository works.
                let kept = world
                    .host("git config remote.o.url; git config core.pager; git log --format=%s | tail -1");
                assert_eq!(kept, "/srv/o.git\nless -x\none\n", "{name}");
            }
        }
    }
}

#[test]
fn harmless_settings_stay_where_the_configuration_is_open() {
    let Some(world) = World::new() else { return };
    let script = "git config user.name me; git remote add o https://example.org/x.git; git config core.fsmonitor RUN; git config branch.main.remote o";
    let ran = world.inside(Way::Level("hooks-read-only"), script).ok();
    assert!(
        ran.stderr.contains("took settings out of") && ran.stderr.contains("core.fsmonitor"),
        "{}",
        ran.stderr
    );
    let kept =
        world.host("git config user.name; git config remote.o.url; git config core.fsmonitor || echo gone");
    assert_eq!(kept, "me\nhttps://example.org/x.git\ngone\n");
}

#[test]
fn a_repository_that_a_rule_opens_by_its_name_is_left_alone() {
    let Some(world) = World::new() else { return };
    let hooks = world.work().join(".git/hooks").display().to_string();
    let script =
        "printf '#!/bin/sh\\nRUN\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; touch new";
    world.inside_with(Way::Level("hooks-and-config-read-only"), &["--allow-write", &hooks], script).ok();
    assert!(world.runs_something(), "--allow-write .git/hooks means what it says");
}

#[test]
fn a_submodules_folder_that_became_a_link_is_set_aside() {
    let before = "git init -q ../lib; echo 1 > ../lib/f; git -C ../lib add f; git -C ../lib commit -qm x
        git submodule --quiet add ../lib lib; git commit -qm lib; git submodule --quiet deinit -f lib; rm -rf lib";
    for way in WAYS {
        let Some(world) = World::new() else { return };
        world.host(before);
        world.inside(*way, "ln -s TOP/home lib; true");
        // In the submodule's own folder a checkout would write to the home.
        world.host("cd .git/modules/lib && (git checkout -q -f HEAD || true)");
        assert!(!world.scratch.join("home/f").exists(), "{way:?}");
    }
}

#[test]
fn a_race_that_is_won_against_the_guard_leaves_nothing_that_runs() {
    let Some(world) = World::new() else { return };
    if kennel_tests::program("python3").is_none() {
        return kennel_tests::skipped("python3 is not installed");
    }
    // One thread changes a letter of the path while the other makes the call; names that the guard could use to move it
    // aside are taken, and the folder loses its rights right after.
    let inside = r#"git init -q evil; git -C evil config core.fsmonitor 'RUN;false'
        for n in $(seq 999); do mkdir .git/commondir.refused-by-kennel-$n; done 2>/dev/null
        echo ../evil/.git > c
        python3 - <<'END'
import ctypes, threading, os, time
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b'.git/xommondir')
end = time.time() + 5
def flip():
    while time.time() < end:
        path[5] = b'c'; path[5] = b'x'
threading.Thread(target=flip, daemon=True).start()
while time.time() < end:
    libc.link(b'c', path)
    if os.path.exists('.git/commondir'): os.chmod('.git', 0o555)
    try: os.unlink('.git/xommondir')
    except OSError: pass
END"#;
    world.inside(Way::Level("hooks-and-config-read-only"), inside);
    assert!(!world.runs_something(), "it ran");
    world.host("chmod 755 .git; rm -rf .git/commondir.refused-by-kennel-*");
}
