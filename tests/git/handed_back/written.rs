//! What git on the host writes, and takes at its word: no index has it write into `.git` or out of the workspace, and at
//! no name that it writes to is there a link, or a file with a second name.

use super::{OFF, WAYS, World, ways};

/// Something prepared inside, and what the host does then.
struct Trap {
    name: &'static str,
    before: &'static str,
    inside: &'static str,
    host: &'static str,
    /// Whether it does harm without a level; git itself stops the others.
    works: bool,
}

/// Makes entries of an index by other names of the same length, and puts the real ones in.
const FORGED: &str = "printf '#!/bin/sh\\nRUN\\n' > hook; echo evil > rc; chmod +x hook
    forge() { git update-index --add --cacheinfo $1,$(git hash-object -w $2),$3; LC_ALL=C sed -i \"s|$3|$4|\" .git/index; }
    rm -f .git/index; ";

macro_rules! traps {
    ($($(#[$about:meta])* fn $name:ident($works:expr): $before:expr, $inside:expr, $host:expr;)*) => {
        $($(#[$about])*
        #[test]
        fn $name() {
            springs_not(&Trap { name: stringify!($name), before: $before, inside: $inside, host: $host, works: $works });
        })*
    };
}

fn forged(rest: &str) -> &'static str {
    Box::leak(format!("{FORGED}{rest}").into_boxed_str())
}

const CHECKOUT: &str =
    "git checkout .; git restore .; git checkout HEAD~0; git commit -q --allow-empty -m x; git status";

traps! {
    // The index.
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_in_hooks_is_not_checked_out(true): "", forged("forge 100755 hook Xgit/hooks/post-checkout .git/hooks/post-checkout"), CHECKOUT;
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_above_is_not_checked_out(true): "", forged("forge 100644 rc XX/rc ../rc"), CHECKOUT;
    fn an_entry_for_the_configuration_is_not_checked_out(true): "",
        forged("printf '[core]\\nfsmonitor = \"RUN;false\"\\n' > c; rm -f .git/x; forge 100644 c Xgit/config.worktree .git/config.worktree; forge 100644 c XgiT/HEAD/x .giT/HEAD/x"),
        "git config extensions.worktreeConfig true; git checkout .; git status";
    fn an_entry_in_a_new_repository_is_not_checked_out(true): "",
        forged("cd ..; cd work; git init -q n; mv hook n; cd n; git commit -q --allow-empty -m x; forge 100755 hook Xgit/hooks/post-checkout .git/hooks/post-checkout"),
        "cd n; git checkout .; git checkout HEAD~0";
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_with_its_index_in_the_fourth_version_is_not_checked_out(true): "",
        forged("git update-index --index-version 4; forge 100755 hook Xgit/hooks/post-checkout .git/hooks/post-checkout"), CHECKOUT;
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_in_a_shared_index_is_not_checked_out(true): "",
        forged("git update-index --add --cacheinfo 100755,$(git hash-object -w hook),Xgit/hooks/post-checkout; git update-index --split-index
            for it in .git/sharedindex.*; do chmod u+w $it; LC_ALL=C sed -i 's|Xgit/hooks|.git/hooks|' $it; done"), CHECKOUT;
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_of_a_worktree_is_not_checked_out(true): "",
        "git worktree add -q t; cd t; printf '#!/bin/sh\\nRUN\\n' > hook; G=$(git rev-parse --git-dir)
         git update-index --add --cacheinfo 100755,$(git hash-object -w hook),XX/Xgit/hooks/post-checkout; LC_ALL=C sed -i 's|XX/Xgit|../.git|' $G/index",
        "cd t; git checkout .; git checkout HEAD~0";
    #[kennel_claim::claim("handed-back/git-index")]
    fn an_entry_of_a_submodule_is_not_checked_out(true): "git init -q ../lib; git -C ../lib commit -q --allow-empty -m l; git submodule --quiet add ../lib lib; git commit -qm lib",
        "cd lib; printf '#!/bin/sh\\nRUN\\n' > hook; git update-index --add --cacheinfo 100755,$(git hash-object -w hook),XX/Xgit/hooks/post-checkout
         LC_ALL=C sed -i 's|XX/Xgit|../.git|' ../.git/modules/lib/index",
        "cd lib; git checkout .; cd ..; git checkout HEAD~0; git checkout main";
    fn an_entry_that_git_puts_back_is_not_checked_out(false): "",
        forged("git update-index --add --cacheinfo 100644,$(git hash-object -w rc),XX/rc; LC_ALL=C sed -i 's|XX/rc|../rc|' .git/index; cp .git/index .git/index.stash.1; ln -sf index.stash.1 .git/index"), CHECKOUT;

    // Links at names that git writes to.
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn the_message_of_a_commit_is_no_link_to_the_configuration(true): "",
        "rm -f .git/COMMIT_EDITMSG; ln -s config .git/COMMIT_EDITMSG; printf '[core]\\nfsmonitor = \"RUN;false\"\\n' > .git/MERGE_MSG",
        "GIT_EDITOR=true git commit --allow-empty; git status";
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn a_log_is_no_link_to_a_file_that_a_shell_reads(true): "",
        "git checkout -q -b 'x;touch${IFS}TOP/canary;'; rm .git/logs/HEAD; ln -s ../../../rc .git/logs/HEAD", "git checkout main; sh TOP/rc";
    fn a_log_of_a_branch_is_no_link(true): "", "rm .git/logs/refs/heads/main; ln -s TOP/rc .git/logs/refs/heads/main", "git commit --allow-empty -m x";
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn a_folder_of_logs_is_no_link(true): "mkdir ../out", "rm -rf .git/logs/refs; ln -s TOP/out .git/logs/refs", "git commit --allow-empty -m x; test ! -e TOP/out/heads || echo evil > TOP/rc";
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn packed_refs_are_no_link(true): "",
        "git update-ref 'refs/heads/x;touch${IFS}TOP/canary;' HEAD; rm -f .git/packed-refs; ln -s ../../new .git/packed-refs", "git gc -q; git pack-refs --all; sh TOP/new";
    fn an_index_is_no_link(true): "", "rm .git/index; ln -s ../../rc .git/index", "rm -f TOP/rc; git add one; test -e TOP/rc || echo clean > TOP/rc";
    fn what_was_fetched_is_no_link(true): "git clone -q . ../remote; git remote add o ../remote", "rm -f .git/FETCH_HEAD; ln -s TOP/rc .git/FETCH_HEAD", "git fetch -q o";
    fn the_attributes_of_a_sparse_checkout_are_no_link(true): "", "rm -f .git/info/sparse-checkout; ln -s TOP/rc .git/info/sparse-checkout", "git sparse-checkout set --no-cone one";
    fn a_list_of_commits_is_no_link(false): "", "mkdir -p .git/objects/info/commit-graphs; ln -s TOP/rc .git/objects/info/commit-graphs/commit-graph-chain", "git commit-graph write --split --reachable";
    fn a_head_that_was_moved_is_no_link(false): "", "rm -f .git/ORIG_HEAD; ln -s ../../rc .git/ORIG_HEAD", "git reset -q HEAD~1; git merge -q HEAD@{1}; git rebase -q HEAD~1";
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn a_folder_of_submodules_is_no_link(true): "git init -q ../lib; git -C ../lib commit -q --allow-empty -m l; git submodule --quiet add ../lib lib; git commit -qm lib; git submodule --quiet deinit -f lib; rm -rf .git/modules; git init -q ../other; git -C ../other config x.y z; cp ../other/.git/config ../kept",
        "mkdir -p .git/modules; ln -s TOP/other/.git .git/modules/lib", "git submodule --quiet update --init; cmp TOP/kept TOP/other/.git/config || echo evil > TOP/rc";
    // Links without a letter in them.
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn the_message_of_a_commit_is_not_the_configuration_by_another_name(true): "",
        "git init -q n; cd n; git commit -q --allow-empty -m 1; rm -f .git/COMMIT_EDITMSG; ln .git/config .git/COMMIT_EDITMSG; printf '[core]\\nfsmonitor = \"RUN;false\"\\n' > .git/MERGE_MSG",
        "cd n; GIT_EDITOR=true git commit --allow-empty; git status";
    #[kennel_claim::claim("handed-back/git-known-shape")]
    fn a_log_is_not_a_script_by_another_name(true): "",
        "git init -q n; cd n; git commit -q --allow-empty -m 1; echo clean > ../rc; git checkout -q -b 'x;touch${IFS}TOP/canary;'; rm .git/logs/HEAD; ln ../rc .git/logs/HEAD",
        "cd n; git checkout -q main; sh ../rc";

    // What git does next.
    #[kennel_claim::claim("handed-back/git-lists-of-commands")]
    fn a_rebase_runs_no_commands(true): "",
        "git checkout -q -b side HEAD~1; echo x > two; git add two; git commit -qm s; git rebase -q main; echo 'exec RUN' >> .git/rebase-merge/git-rebase-todo; echo x > two; git add two",
        "GIT_EDITOR=true git rebase --continue";
    #[kennel_claim::claim("handed-back/git-lists-of-commands")]
    fn a_cherry_pick_has_no_strategy_of_its_own(true): "",
        "git checkout -q -b side HEAD~1; for n in 1 2 3; do echo $n > two; git add two; git commit -qm $n; done; git checkout -q main; git cherry-pick side~2 side~1 side; echo x > two; git add two
         mkdir git-merge-..; printf '#!/bin/sh\\nRUN\\n' > s; chmod +x s; printf '[options]\\n\\tstrategy = ../../s\\n' > .git/sequencer/opts",
        "GIT_EDITOR=true git cherry-pick --continue";
    fn a_remote_in_a_file_of_its_own_is_not_asked(true): "git clone -q . ../remote",
        "mkdir -p .git/remotes .git/branches; echo \"URL: TOP/remote\" > .git/remotes/evil; echo TOP/remote > .git/branches/evil2", "git fetch evil && echo evil > TOP/rc; git fetch evil2 && echo evil > TOP/rc";
    fn a_worktree_is_repaired_nowhere_else(false): "mkdir ../out",
        "git worktree add -q t; echo TOP/out/.git > .git/worktrees/t/gitdir", "git worktree repair; test ! -e TOP/out/.git || echo evil > TOP/rc";
}

#[track_caller]
fn springs_not(trap: &Trap) {
    let spring = |world: &World| {
        let script = format!("{{ {}\n}} >/dev/null 2>&1 || true", trap.host);
        // Each command goes on where the one before failed.
        world.host(&format!("set +e; ({script})"));
        let rc = std::fs::read_to_string(world.scratch.join("rc")).unwrap_or_default();
        world.scratch.join("canary").exists() || rc != "clean\n"
    };
    let prepared = || {
        let world = World::new()?;
        world.scratch.write("rc", "clean\n");
        world.host(trap.before);
        Some(world)
    };
    let Some(world) = prepared() else { return };
    let ran = world.inside(OFF, trap.inside);
    if trap.works {
        assert!(spring(&world), "{}: it does not work without a level either\n{}", trap.name, ran.stderr);
    }
    for way in ways(trap.name) {
        let Some(world) = prepared() else { return };
        let ran = world.inside(way, trap.inside);
        assert_ne!(ran.code, 125, "{}: {way:?}: kennel itself failed\n{}", trap.name, ran.stderr);
        let links = world.host("find . -path '*/.git/*' -type l ! -name '*.set-aside-by-kennel-*'");
        assert_eq!(links, "", "{}: {way:?}: {}", trap.name, ran.stderr);
        assert!(!spring(&world), "{}: {way:?}: it did harm\n{}", trap.name, ran.stderr);
    }
}

/// What is on no list is moved aside; what was there before stays.
#[test]
#[kennel_claim::claim("handed-back/git-known-shape")]
fn only_names_that_git_makes_are_left_in_a_repository() {
    let before = "echo mine > .git/mine; mkdir .git/tool; ln -s ../one .git/link; echo x > .git/tool/a";
    let inside = "cd .git; for name in evil config~ hooks.lock; do echo x > $name; done; mkdir odd objects/x refs/.x; mkfifo FIFO_HEAD; \
                  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")' 2>/dev/null; echo x > objects/pack/evil.sh; \
                  echo x > info/evil; echo b >> tool/a; echo new > tool/b; echo more >> mine; echo x > branches/o 2>/dev/null";
    for way in WAYS.iter().filter(|way| {
        !matches!(way, super::Way::Level("metadata-read-only") | super::Way::Srt | super::Way::Codex)
    }) {
        let Some(world) = World::new() else { return };
        world.host(before);
        world.inside(*way, inside);
        let left = world.host("cd .git; find . \\( -name evil -o -name config~ -o -name hooks.lock -o -name odd -o -name x -o -name .x -o -name '*_HEAD' -o -name s -o -name evil.sh -o -name o \\) | sort");
        assert_eq!(left, "", "{way:?}");
        assert_eq!(
            world.host("cat .git/mine .git/tool/? .git/link; git status --short"),
            "mine\nmore\nx\nb\nnew\n1\n",
            "{way:?}"
        );
    }
}

#[test]
fn git_goes_on_with_what_is_left() {
    let Some(world) = World::new() else { return };
    let script =
        forged("forge 100644 rc XX/rc ../rc; rm -f .git/logs/HEAD; ln -s ../../../rc .git/logs/HEAD");
    let ran = world.inside(super::Way::Level("hooks-and-config-read-only"), script);
    assert!(
        ran.stderr.contains("`git reset` makes a new one") && ran.stderr.contains("../rc"),
        "{}",
        ran.stderr
    );
    let log =
        world.host("git reset -q; git add -A; git commit -qm more; git log --format=%s; git status --short");
    assert_eq!(log, "more\ntwo\none\n");
}
