//! Further cases of srt and git: shapes of repositories, odd names, and the commands that people use every day.

use crate::compat::world::{Told, World, installed};

const SETTINGS: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;

#[test]
fn shapes_and_odd_names() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(SETTINGS),
        make: |place| {
            place.host(
                "repo() { git init -q \"$1\" && git -C \"$1\" commit -q --allow-empty -m one; }
                 repo .; repo 'with space'; repo $'line\\nbreak'; repo 'quo\"te'; repo ünïcode; repo a/b; repo a/b/c/d/deep
                 repo node_modules/pkg
                 git init -q --bare bare.git
                 mkdir linked && git init -q real-git && mv real-git/.git real-git-dir && ln -s ../real-git-dir linked/.git
                 git init -q husky && mkdir -p husky/.husky && git -C husky config core.hooksPath .husky
                 echo echo > husky/.husky/pre-commit",
            );
        },
        tries: &[
            ("a space: a hook", "echo x > 'with space/.git/hooks/post-commit'"),
            ("a space: the configuration", "echo x >> 'with space/.git/config'"),
            ("a space: a commit", "git -C 'with space' commit -q --allow-empty -m two"),
            ("a line break: a hook", "echo x > $'line\\nbreak/.git/hooks/post-commit'"),
            ("a line break: a commit", "git -C $'line\\nbreak' commit -q --allow-empty -m two"),
            ("a quote: a hook", "echo x > 'quo\"te/.git/hooks/post-commit'"),
            ("beyond ASCII: a hook", "echo x > ünïcode/.git/hooks/post-commit"),
            ("two deep: a hook", "echo x > a/b/.git/hooks/post-commit"),
            ("five deep: a hook", "echo x > a/b/c/d/deep/.git/hooks/post-commit"),
            ("five deep: a commit", "git -C a/b/c/d/deep commit -q --allow-empty -m two"),
            ("a package: a hook", "echo x > node_modules/pkg/.git/hooks/post-commit"),
            ("a bare one: a hook", "echo x > bare.git/hooks/post-update"),
            ("a bare one: the configuration", "echo x >> bare.git/config"),
            ("a bare one: a push", "git push -q bare.git HEAD:refs/heads/x"),
            ("a linked one: a hook", "echo x > linked/.git/hooks/post-commit"),
            ("a linked one: the link", "rm linked/.git"),
            ("husky: a script", "echo x > husky/.husky/pre-commit"),
            ("husky: another", "echo x > husky/.husky/post-commit"),
            ("moving what holds a repository", "mv a gone"),
            ("removing what holds a repository", "rm -rf a/b/.git"),
        ],
        differences: &[
            // There, names are told apart by line breaks.
            ("a line break: a hook", "ok", "EROFS"),
            // There, a repository is found if its `.git` holds a file no deeper than the search goes.
            ("two deep: a hook", "ok", "EROFS"),
            ("moving what holds a repository", "ok", "EBUSY"),
            ("removing what holds a repository", "ok", "EROFS"),
            // There, links are not followed.
            ("a linked one: a hook", "ok", "EROFS"),
            ("a linked one: the link", "ok", "EBUSY"),
            ("five deep: a hook", "ok", "EROFS"),
            ("a package: a hook", "ok", "EROFS"),
            ("a bare one: a hook", "ok", "EROFS"),
            ("a bare one: the configuration", "ok", "EROFS"),
            ("husky: a script", "ok", "EROFS"),
            ("husky: another", "ok", "EROFS"),
        ],
        disk_differs: &["a", "gone", "node_modules/pkg/.git", "bare.git", "husky/.husky", "line\nbreak/.git", "linked", "real-git-dir"],
    }
    .compare();
}

#[test]
fn everyday_commands() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(SETTINGS),
        make: |place| {
            place.host(
                "git init -q . && for n in 1 2 3; do echo $n > $n && git add $n && git commit -qm $n; done
                 git branch side HEAD~1 && git init -q --bare ../remote.git && git push -q ../remote.git HEAD:refs/heads/main
                 git remote add origin ../remote.git && git fetch -q origin",
            );
        },
        tries: &[
            ("status", "git status --short"),
            ("diff", "echo more >> 1 && git diff --stat"),
            ("add and commit", "git add 1 && git commit -qm more"),
            ("amend", "git commit -q --amend -m amended"),
            ("reset", "git reset -q --hard HEAD~1"),
            ("checkout a branch", "git checkout -q side"),
            ("commit there", "echo s > s && git add s && git commit -qm s"),
            ("rebase", "git rebase -q master || git rebase -q main"),
            ("cherry-pick", "git checkout -qb pick HEAD~1 && git cherry-pick side"),
            ("merge", "git merge -q --no-edit side"),
            ("tag", "git tag v1"),
            ("an annotated tag", "git tag -a -m v2 v2"),
            ("stash", "echo z >> 1 && git stash -q && git stash pop -q && git checkout -q 1"),
            ("fetch", "git fetch -q origin"),
            ("clone", "git clone -q ../remote.git clone"),
            ("worktree add", "git worktree add -q -b wt tree"),
            ("commit in the new worktree", "git -C tree commit -q --allow-empty -m wt"),
            ("notes", "git notes add -m note"),
            ("gc", "git gc -q"),
            ("reflog", "git reflog"),
            ("exclude", "mkdir -p .git/info && echo x >> .git/info/exclude"),
            ("remote add", "git remote add other ../remote.git"),
            ("push", "git push -q origin HEAD:refs/heads/pushed"),
            ("config --global", "git config --global user.name x"),
        ],
        differences: &[],
        disk_differs: &[".git/packed-refs", "clone/.git", "tree/.git"],
    }
    .compare();
}
