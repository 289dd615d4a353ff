//! Git's commands at each level.

use super::{HOOKS, METADATA, Yard};

#[test]
fn git_works_where_only_hooks_and_configuration_are_kept() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.inside(
        HOOKS,
        &repo,
        "set -e
        git add three && git commit -qm three
        echo 3b > three && git commit -qa --amend --no-edit
        git checkout -qb side HEAD~1 && echo s > side && git add side && git commit -qm side
        git rebase -q main
        echo dirty >> one && git stash -q && git stash pop -q && git checkout -q one
        git tag v1 && git branch -q -d side 2>/dev/null || git branch -q -D v1x 2>/dev/null || true
        git checkout -q main && git merge -q side
        git reset -q --hard HEAD~1
        git gc -q
        git fsck --no-progress",
    )
    .ok();
    let log = yard.host(&repo, "git log --format=%s -3; git fsck --no-progress");
    assert!(log.starts_with("three\ntwo\none"), "{log}");
}

#[test]
fn a_worktree_is_added_and_committed_to_inside() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.inside(HOOKS, &repo, "set -e; git worktree add -q -b feature trees/feature; cd trees/feature; echo f > f; git add f; git commit -qm f")
        .ok();
    assert_eq!(yard.host(&repo, "git log -1 --format=%s feature"), "f\n");
}

#[test]
fn commits_work_in_a_worktree_whose_repository_is_elsewhere() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "git worktree add -q -b feature ../tree");
    let tree = yard.at("tree");
    yard.inside(
        HOOKS,
        &tree,
        "set -e; echo f > f; git add f; git commit -qm f; git commit -q --amend -m g; echo x >> f; git stash -q; git stash pop -q; git checkout -q f; git branch gone; git branch -qD gone; git rebase -q main",
    )
    .ok();
    assert_eq!(yard.host(&repo, "git log -1 --format=%s feature"), "g\n");
    // The other worktree of the same repository, and what git runs, are not its business.
    let tries = [
        "echo x > ../repo/.git/config",
        "echo x > ../repo/.git/HEAD",
        "echo x > ../repo/.git/hooks/post-commit",
        "echo x > ../repo/.git/index",
        "echo x > ../repo/one",
        "git config user.name x",
        "echo x > ../repo/.git/worktrees/tree/commondir",
        "echo x > ../repo/.git/worktrees/tree/gitdir",
        "rm -f ../repo/.git/worktrees/tree/commondir",
        "git config --worktree user.name x",
        "echo x > .git",
    ];
    yard.none_of(HOOKS, &tree, &tries);
}

#[test]
fn a_worktree_does_not_show_a_repository_that_is_denied() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "git worktree add -q -b feature ../tree");
    let (tree, repo) = (yard.at("tree"), repo.display().to_string());
    let listed = ["--git", HOOKS, "--reads", "listed"];
    let look = "cat ../repo/.git/HEAD";
    // With listed reads kennel itself shows it, since no commit would work without it.
    yard.inside_with(&listed, &tree, look).ok();
    let denied = yard.inside_with(&[&listed[..], &["--deny-read", &repo]].concat(), &tree, look);
    assert_eq!((denied.code, denied.stdout.as_str()), (1, ""), "{}", denied.stderr);
}

#[test]
fn submodules_are_updated_and_committed_to_inside() {
    let Some(yard) = Yard::with_repository() else { return };
    yard.repository("library");
    let repo = yard.at("repo");
    yard.host(&repo, "git submodule --quiet add ../library lib && git commit -qm sub && git submodule --quiet deinit -f lib && rm -rf .git/modules/lib && git submodule --quiet init");
    yard.inside(HOOKS, &repo, "git submodule --quiet update && cat lib/one").ok();
    // Now its configuration is there, and kept.
    yard.inside(HOOKS, &repo, "set -e; cd lib; git checkout -q main; echo l > l; git add l; git commit -qm l; cd ..; git commit -qam lib").ok();
    // Git writes the submodule's configuration each time, with what stands there already.
    yard.host(&repo.join("lib"), "git checkout -q HEAD~1");
    let ran = yard
        .inside(HOOKS, &repo, "git submodule --quiet update && git submodule --quiet update --recursive")
        .ok();
    assert!(!ran.stderr.contains("kennel:"), "{}", ran.stderr);
    assert_eq!(
        yard.host(
            &repo.join("lib"),
            "git log -1 --format=%s; ls \"$(git rev-parse --git-dir)\"/*.lock 2>/dev/null || true"
        ),
        "l\n"
    );
}

#[test]
#[kennel_claim::claim("handed-back/git-rewrites-need-the-same-contents")]
fn a_configuration_is_written_only_with_what_it_says_already() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "git config some.thing here");
    let before = std::fs::read(repo.join(".git/config")).unwrap();
    yard.inside(HOOKS, &repo, "git config some.thing here && test ! -e .git/config.lock").ok();
    let ran = yard.inside(HOOKS, &repo, "git config some.thing there");
    assert_ne!(ran.code, 0);
    for word in [
        "could not write config file",
        "Read-only file system",
        "git runs programs that its configuration names",
        // The way out.
        "(`--git hooks-read-only` leaves it writable)",
    ] {
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
    assert!(
        !repo.join(".git/config.lock").exists() && std::fs::read(repo.join(".git/config")).unwrap() == before
    );
    yard.inside("hooks-read-only", &repo, "git config some.thing there").ok();
}

#[test]
fn fetching_and_cloning_work() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(
        yard.scratch.path(),
        "git clone -q repo copy && cd repo && git commit -q --allow-empty -m newer",
    );
    let copy = yard.at("copy");
    yard.inside(HOOKS, &copy, "set -e; git fetch -q; git merge -q --ff-only origin/main; git pull -q; git clone -q ../repo fresh; cd fresh; git config user.name me; git log -1 --format=%s").ok();
    assert_eq!(yard.host(&copy, "git log -1 --format=%s"), "newer\n");
    assert_eq!(yard.host(&repo, "git log -1 --format=%s"), "newer\n");
}

#[test]
fn a_new_repository_is_made_inside() {
    let Some(yard) = Yard::new() else { return };
    let folder = yard.scratch.dir("new");
    yard.inside(
        HOOKS,
        &folder,
        "set -e; git init -q; git config user.name me; echo 1 > one; git add one; git commit -qm one",
    )
    .ok();
    assert_eq!(yard.host(&folder, "git log --format=%s"), "one\n");
}

#[test]
fn nothing_is_committed_where_the_metadata_is_kept_and_git_says_why() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    let ran = yard
        .inside(
            METADATA,
            &repo,
            "git status --short && git log --format=%s && git diff --stat && echo x > four",
        )
        .ok();
    assert!(ran.stdout.contains("?? three"), "{}", ran.stdout);
    yard.host(&repo, "rm four");
    for line in [
        "git add three",
        "git commit -qm x --allow-empty",
        "git checkout -qb x",
        "git gc -q",
        "git config user.name x",
        "git fetch -q .",
        "git worktree add -q tree",
    ] {
        let ran = yard.inside(METADATA, &repo, line);
        assert_ne!(ran.code, 0, "this worked: {line}");
        assert!(ran.stderr.contains("Read-only file system"), "{line}: {}", ran.stderr);
    }
    assert_eq!(yard.host(&repo, "git log --format=%s; git status --short"), "two\none\n?? three\n");
}

#[test]
fn without_the_level_git_does_as_it_likes() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.inside("off", &repo, "set -e; git config user.name x; echo x > .git/hooks/post-commit").ok();
}
