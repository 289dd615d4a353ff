//! Everything that git takes for a repository, and ways to hide one.

use super::{Attack, OFF, WAYS, Way, World, fails, works};

const MAKE: &str = "git init -q evil && git -C evil commit -q --allow-empty -m x && git -C evil config core.fsmonitor 'RUN;false'; ";

macro_rules! attacks {
    ($($(#[$about:meta])* fn $name:ident(): $before:expr, $inside:expr;)*) => {
        $($(#[$about])*
        #[test]
        fn $name() {
            fails(&Attack { name: stringify!($name), before: $before, inside: $inside });
        })*
    };
}

fn evil(rest: &str) -> &'static str {
    Box::leak(format!("{MAKE}{rest}").into_boxed_str())
}

attacks! {
    // Pointers.
    fn a_pointer_to_a_repository_of_another_name_runs_nothing(): "",
        evil("mkdir s; mv evil/.git x; echo 'gitdir: ../x' > s/.git");
    fn a_pointer_with_an_end_in_the_middle_runs_nothing(): "",
        evil("mkdir s; mv evil/.git x; printf 'gitdir: ../x\\0yz\\n' > s/.git");
    fn a_pointer_that_goes_up_behind_a_link_runs_nothing(): "",
        evil("mkdir -p s x/y; mv evil/.git x/z; git init -q z; ln -s x/y l; echo 'gitdir: ../l/../z' > s/.git");
    fn an_absolute_pointer_runs_nothing(): "",
        evil("mkdir s; mv evil/.git x; echo \"gitdir: $PWD/x\" > s/.git");
    fn a_link_runs_nothing(): "",
        evil("mkdir s; mv evil/.git x; ln -s ../x s/.git");
    #[kennel_claim::claim("handed-back/git-disguised-repositories")]
    fn a_link_to_a_pointer_runs_nothing(): "",
        evil("mkdir s; mv evil/.git x; echo 'gitdir: ../x' > p; ln -s ../p s/.git");
    fn a_renamed_folder_runs_nothing(): "",
        evil("mv evil/.git evil/dotgit; mkdir s; mv evil/dotgit s/.git");
    fn a_head_that_is_a_link_runs_nothing(): "",
        evil("cd evil/.git; rm HEAD; ln -s refs/heads/main HEAD");

    // Worktrees and submodules.
    #[kennel_claim::claim("handed-back/git-disguised-repositories")]
    fn a_worktree_whose_repository_is_another_runs_nothing(): "",
        evil("git worktree add -q t 2>/dev/null; mkdir -p .git/worktrees/t; echo ../../../evil/.git > .git/worktrees/t/commondir");
    fn a_worktree_of_a_folder_that_is_no_repository_runs_nothing(): "",
        evil("mkdir -p x/worktrees/y x/objects x/refs t; cp evil/.git/config x/; echo ref: refs/heads/main > x/worktrees/y/HEAD
             echo ../.. > x/worktrees/y/commondir; echo 'gitdir: ../x/worktrees/y' > t/.git; rm -rf evil");
    fn a_repository_that_says_its_settings_are_elsewhere_runs_nothing(): "",
        evil("git init -q s; mv evil/.git x; echo ../../x > s/.git/commondir");
    #[kennel_claim::claim("handed-back/git-disguised-repositories")]
    fn a_submodule_in_its_place_runs_nothing(): "",
        evil("mkdir -p .git/modules || mkdir -p m; mv evil/.git .git/modules/evil || mv evil/.git m/evil
             echo 'gitdir: ../.git/modules/evil' > evil/.git; git add evil; git commit -qm link");
    fn a_repository_deep_in_the_data_of_another_runs_nothing(): "",
        evil("place=.git/refs/x; mv evil/.git $place || { place=x; mv evil/.git x; }; git config -f $place/config core.worktree $PWD/evil");

    // Git itself writes the hook.
    fn a_work_tree_that_is_another_repositorys_own_folder_gets_no_hooks(): "",
        "git init -q evil; cd evil; mkdir hooks; printf '#!/bin/sh\\nRUN\\n' > hooks/post-commit; chmod +x hooks/post-commit
         git add .; git commit -qm e; rm -r hooks; git config core.worktree ../../.git";
    fn a_repository_in_anothers_own_folder_writes_no_hooks(): "",
        "git init -q evil; cd evil; mkdir hooks; printf '#!/bin/sh\\nRUN\\n' > hooks/post-commit; chmod +x hooks/post-commit
         git add .; git commit -qm e; rm -r hooks; echo 'gitdir: ../evil/.git' > ../.git/.git";
    #[kennel_claim::claim("handed-back/git-disguised-repositories")]
    fn a_repository_moved_into_anothers_own_folder_writes_no_hooks(): "",
        "git init -q evil; cd evil; mkdir hooks; printf '#!/bin/sh\\nRUN\\n' > hooks/post-commit; chmod +x hooks/post-commit
         git add .; git commit -qm e; rm -r hooks; mv .git ../.git/.git";
    fn a_submodules_work_tree_in_a_repositorys_own_folder_gets_no_hooks(): "git init -q --bare mirror.git && git init -q l",
        "git init -q evil; cd evil; mkdir hooks; printf '#!/bin/sh\\nRUN\\n' > hooks/post-checkout; chmod +x hooks/post-checkout
         git add .; git commit -qm e; rm -r hooks; mkdir -p ../modules; mv .git ../modules/evil; cd ..; rm -rf evil
         git config -f modules/evil/config core.bare false; git config -f modules/evil/config core.worktree ../../l/.git; echo 'gitdir: ../../modules/evil' > l/.git/.git";

    // Hard to get at.
    fn a_repository_in_a_folder_without_rights_runs_nothing(): "",
        evil("chmod 555 evil evil/.git");
    #[kennel_claim::claim("handed-back/git-search-skips-nothing")]
    fn a_repository_in_a_folder_that_cannot_be_listed_runs_nothing(): "",
        evil("mkdir d; mv evil d/; chmod 311 d");
    fn a_repository_among_thousands_runs_nothing(): "",
        evil("mkdir many; cd many; for n in $(seq 3000); do echo d$n; done | xargs mkdir; mv ../evil d2345/");
    fn a_repository_in_a_folder_of_hooks_runs_nothing(): "",
        evil("git init -q o; cd o/.git; printf '#!/bin/sh\\n' > hooks/post-commit; chmod +x hooks/post-commit; mv ../../evil/.git hooks/r; git config -f hooks/r/config core.worktree $PWD/../../evil");
    fn a_repository_in_the_packages_runs_nothing(): "",
        evil("mkdir -p node_modules/a/b/c; mv evil node_modules/a/b/c/");
    fn a_repository_with_an_odd_name_runs_nothing(): "",
        evil("mv evil $'a\\nb \\t\\e[2J\\xff'");
}

#[test]
fn a_gitlink_three_hundred_folders_down_runs_nothing() {
    let deep = "way=$(printf 'd/%.0s' $(seq 300)); mkdir -p $way; mv evil $way; \
                git update-index --add --cacheinfo 160000,$(git -C ${way}evil rev-parse HEAD),${way}evil; git commit -qm link";
    fails(&Attack { name: "three hundred folders down", before: "", inside: evil(deep) });
}

#[test]
#[kennel_claim::claim("handed-back/git-disguised-repositories")]
fn what_one_run_prepares_and_the_next_completes_runs_nothing() {
    let hooks = "mkdir .githooks; printf '#!/bin/sh\\n' > .githooks/post-commit; chmod +x .githooks/post-commit; git config core.hooksPath .githooks";
    let cases = [
        (
            "",
            "mkdir x s; mv evil/.git/* x/; rm x/HEAD; echo 'gitdir: ../x' > s/.git; mkdir -p y/objects y/refs; cp x/config y/",
            "echo ref: refs/heads/main > x/HEAD; echo ref: refs/heads/main > y/HEAD; git -C y config core.bare false; git -C y config core.worktree .",
        ),
        (
            "",
            "mkdir x t; mv evil/.git/* x/; rm x/HEAD; mkdir -p .git/worktrees/t; echo ../../../x > .git/worktrees/t/commondir
             echo $PWD/t/.git > .git/worktrees/t/gitdir; echo \"gitdir: $PWD/.git/worktrees/t\" > t/.git",
            "echo ref: refs/heads/main > .git/worktrees/t/HEAD",
        ),
        (
            hooks,
            "mkdir s; echo \"gitdir: $PWD/.git/worktrees/s\" > s/.git; rm -rf evil",
            "mkdir -p .git/worktrees/s s/.githooks; cp .git/HEAD .git/worktrees/s/; echo ../.. > .git/worktrees/s/commondir; echo $PWD/s/.git > .git/worktrees/s/gitdir
             printf '#!/bin/sh\\nRUN\\n' > s/.githooks/post-commit; chmod +x s/.githooks/post-commit",
        ),
    ];
    for (before, first, second) in cases {
        let first = evil(first);
        let Some(world) = World::new() else { return };
        world.host(before);
        world.inside(OFF, first).ok();
        world.inside(OFF, second);
        assert!(world.runs_something(), "it does not work without a level either: {second}");
        for way in WAYS {
            let Some(world) = World::new() else { return };
            world.host(before);
            for script in [first, second] {
                world.inside(*way, script);
                assert!(!world.runs_something(), "{way:?}: it ran: {script}");
            }
        }
    }
}

#[test]
fn what_was_set_aside_does_not_come_back_by_the_next_run() {
    let first = evil(
        "mkdir s; ln -s ../evil/.git s/.git; printf '#!/bin/sh\\nRUN\\n' > evil/.git/hooks/post-commit; chmod +x evil/.git/hooks/post-commit",
    );
    let second = "for it in $(find . -name '*.set-aside-by-kennel-*'); do mv -T $it ${it%.set-aside-by-kennel-*}; done; \
                  for it in $(find . -name '*.set-aside-by-kennel-*'); do rm -rf ${it%.set-aside-by-kennel-*}; mv -T $it ${it%.set-aside-by-kennel-*}; done";
    for way in WAYS {
        let Some(world) = World::new() else { return };
        world.inside(*way, first).ok();
        world.inside(*way, second);
        assert!(!world.runs_something(), "{way:?}: it ran");
    }
}

#[test]
fn alternates_lead_to_objects_and_to_nothing_that_runs() {
    let inside = evil(
        "git init -q s; echo \"$PWD/evil/.git/objects\" > s/.git/objects/info/alternates; cp evil/.git/refs/heads/main s/.git/refs/heads/main; git -C s log -1 --format=%s",
    );
    for way in WAYS {
        let Some(world) = World::new() else { return };
        let ran = world.inside(*way, inside).ok();
        assert_eq!(ran.stdout, "x\n", "{way:?}");
        assert!(!world.runs_something(), "{way:?}: it ran");
        assert_eq!(
            world.host("git -C s log -1 --format=%s | tail -1"),
            "x\n",
            "{way:?}: the objects are lost"
        );
    }
}

#[test]
fn an_update_that_the_list_of_submodules_names_runs_nothing() {
    let inside = "git init -q ../lib 2>/dev/null || git init -q lib; \
                  printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = ./lib\\n\\tupdate = !RUN\\n' > .gitmodules; git add -A; git commit -qm x";
    for way in WAYS {
        let Some(world) = World::new() else { return };
        world.inside(*way, inside);
        let _ = world.host("git submodule init; git submodule update || true");
        assert!(!world.runs_something(), "{way:?}: it ran");
    }
}

/// A FIFO, a socket or a folder in the place of a file does not hold kennel up.
#[test]
fn files_that_are_none_hold_nobody_up() {
    let inside = "git init -q a; rm a/.git/config; mkfifo a/.git/config; mkdir b; mkfifo b/.git; git init -q c; rm -r c/.git/hooks; mkfifo c/.git/hooks; \
                  git init -q d; mkfifo d/.git/commondir; git init -q e; mkfifo e/.git/info/attributes; git init -q f; mkdir f/.git/config.worktree";
    for way in WAYS {
        let Some(world) = World::new() else { return };
        world.inside(*way, inside).ok();
        assert!(!world.runs_something(), "{way:?}: it ran");
    }
}

#[test]
fn a_folder_that_takes_one_spelling_for_another_hides_nothing() {
    let Some(world) = World::new() else { return };
    // A folder of a file system that folds names, where one can be had.
    let made = world.host(
        "mkdir ../fold && (mount -t tmpfs -o casefold none ../fold && mkdir ../fold/w && chattr +F ../fold/w || umount ../fold; test -d ../fold/w) >/dev/null 2>&1 && echo yes || echo no",
    );
    if made.trim() != "yes" {
        return kennel_tests::skipped("no file system that folds names can be mounted here");
    }
    let attack = "cd TOP/fold/w; git init -q evil; git -C evil config core.fsmonitor 'RUN;false'; mv evil/.git x; mv x evil/.GIT; mkdir b; cp -r evil/.GIT/. b/; \
                  mv b/HEAD b/x; mv b/x b/head; mv b/refs b/y; mv b/y b/Refs";
    let top = world.scratch.join("fold/w").display().to_string();
    let check = "cd TOP/fold/w/evil; git status >/dev/null 2>&1; cd ../b; git status >/dev/null 2>&1; test -e TOP/canary && rm TOP/canary && echo ran || echo not";
    world.inside_with(OFF, &["--allow-write", &top], attack).ok();
    assert_eq!(world.host(check), "ran\n");
    world.host("rm -rf TOP/fold/w/*");
    world.inside_with(Way::Level("hooks-and-config-read-only"), &["--allow-write", &top], attack).ok();
    let ran = world.host(check);
    world.host("umount ../fold");
    assert_eq!(ran, "not\n");
}

#[test]
#[kennel_claim::claim("handed-back/git-search-skips-nothing")]
fn folders_in_each_other_beyond_what_a_path_can_name_are_gone_through() {
    let Some(world) = World::new() else { return };
    if kennel_tests::program("python3").is_none() {
        return kennel_tests::skipped("python3 is not installed");
    }
    // Far beyond what a path can name; at the bottom is a repository, and at each hundredth level a folder beside.
    let inside = evil(
        "python3 - <<'END'\nimport os\nevil = os.open('evil', os.O_RDONLY)\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')\n    if n % 100 == 0: os.mkdir('e')\nos.rename('.git', 'here', src_dir_fd=evil)\nos.mkdir('repo'); os.rename('here', 'repo/.git')\nEND\n",
    );
    let ran = world.inside(Way::Level("hooks-and-config-read-only"), inside);
    let left = ran.stderr.matches("core.fsmonitor").count();
    let clean = "import os\nos.chdir('d')\nwhile os.path.isdir('d'): os.chdir('d')\nos.system('rm -rf repo')\nfor n in range(3000):\n    os.chdir('..')\n    for x in 'de':\n        try: os.rmdir(x)\n        except OSError: pass\n";
    world.host(&format!("python3 -c \"{clean}\""));
    assert_eq!(left, 1, "{} {}", ran.code, ran.stderr);
}

/// Hooks are moved aside before anybody has looked into them: a repository in the hooks of another is found all the same,
/// and in the hooks of that one, and so on. Where that has no end, nothing is said to be safe.
#[test]
#[kennel_claim::claim("handed-back/git-disguised-repositories", "handed-back/git-search-skips-nothing")]
fn repositories_in_the_hooks_of_each_other_run_nothing() {
    let nest = |count: u32| -> &'static str {
        evil(&format!(
            "git init -q o; cd o/.git; for n in $(seq {count}); do rm -rf hooks; mkdir -p hooks/r/objects hooks/r/refs
                 printf '#!/bin/sh\\n' > hooks/post-commit; chmod +x hooks/post-commit; echo ref: refs/heads/main > hooks/r/HEAD; cd hooks/r; done
             cp TOP/work/evil/.git/config .; rm -rf TOP/work/evil; git config -f config core.worktree ."
        ))
    };
    fails(&Attack { name: "twelve", before: "", inside: nest(12) });
    let Some(world) = World::new() else { return };
    let ran = world.inside(Way::Level("hooks-and-config-read-only"), nest(300));
    assert_eq!(ran.code, 123, "{}", ran.stderr);
}

#[test]
fn the_attacks_of_this_file_can_fail() {
    works(&Attack { name: "a plain one", before: "", inside: evil("") });
}
