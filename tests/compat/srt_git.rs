//! srt and git.

use crate::compat::world::{Place, Told, World, installed};

const SETTINGS: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;

fn repository(place: &Place) {
    place.host(
        "git init -q . && echo 1 > one && git add one && git commit -qm one
         git init -q nested && cd nested && git commit -q --allow-empty -m one",
    );
}

#[test]
fn a_repository() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(SETTINGS),
        make: repository,
        tries: &[
            ("8 objects", "echo x > .git/objects/x"),
            ("8 refs", "echo x > .git/refs/x && rm .git/refs/x"),
            ("8 commit", "echo 2 > two && git add two && git commit -qm two"),
            ("8 amend", "git commit -q --amend --no-edit"),
            ("8 branch and merge", "git checkout -qb side && git commit -q --allow-empty -m side && git checkout -q - && git merge -q side"),
            ("8 stash", "echo dirty >> one && git stash -q && git stash pop -q && git checkout -q one"),
            ("8 gc", "git gc -q"),
            ("9 git config", "git config user.name x"),
            ("9 the file", "echo x >> .git/config"),
            ("9 a hook", "echo x > .git/hooks/post-commit"),
            ("9 rm -rf hooks", "rm -rf .git/hooks"),
            ("9 moving hooks", "mv .git/hooks .git/h"),
            ("10 nested hook", "echo x > nested/.git/hooks/post-commit"),
            ("10 nested config", "echo x >> nested/.git/config"),
            ("10 nested commit", "cd nested && git commit -q --allow-empty -m two"),
            ("11 mv .git", "mv .git gone"),
            ("11 moving a parent", "mv nested gone"),
            ("12 git init", "git init -q fresh && cd fresh && git config user.name me && git commit -q --allow-empty -m one"),
            ("what says where the configuration is", "echo ../evil > .git/commondir"),
            ("a configuration of the worktree", "echo x > .git/config.worktree"),
            ("attributes", "mkdir -p .git/info && echo x > .git/info/attributes"),
        ],
        differences: &[
            // Each of these makes git on the host run something later.
            ("what says where the configuration is", "ok", "EROFS"),
            ("a configuration of the worktree", "ok", "EROFS"),
            ("attributes", "ok", "EROFS"),
            // The lock is refused already, so the message says why.
            ("9 git config", "EBUSY", "EROFS"),
        ],
        disk_differs: &[".git/commondir", ".git/config.worktree", ".git/info", "fresh/.git", ".git/packed-refs", ".git/ORIG_HEAD"],
    }
    .compare();
}

#[test]
fn the_configuration_can_be_allowed() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(
            r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": [], "allowGitConfig": true}}"#,
        ),
        make: repository,
        tries: &[
            ("git config", "git config user.name x"),
            ("nested", "cd nested && git config user.name x"),
            ("hooks", "echo x > .git/hooks/post-commit"),
            ("nested hooks", "echo x > nested/.git/hooks/post-commit"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

/// 13: there, a commit in a worktree fails.
#[test]
fn a_worktree() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(SETTINGS),
        make: |place| {
            let main = place.dir("main");
            let script = format!(
                "cd {} && git init -q . && git commit -q --allow-empty -m one && rmdir ../work && git worktree add -q -b feature ../work",
                main.display()
            );
            place.host(&script);
        },
        tries: &[
            ("13 git status", "git status"),
            ("13 git log", "git log -1"),
            ("13 the pointer", "echo gitdir: /evil > .git"),
            ("13 removing it", "rm .git"),
            ("13 a commit", "echo 1 > one && git add one && git commit -qm two"),
            ("13 its repository's hooks", "echo x > ../main/.git/hooks/post-commit"),
            ("13 its repository's configuration", "echo x >> ../main/.git/config"),
            ("13 its repository's files", "echo x > ../main/file"),
        ],
        differences: &[("13 a commit", "EROFS", "ok")],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn nested_worktrees_and_submodules() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Srt(SETTINGS),
        make: |place| {
            repository(place);
            let library = place.dir("library");
            let script = format!(
                "cd {} && git init -q . && git commit -q --allow-empty -m one && cd - >/dev/null
                 git -c protocol.file.allow=always submodule --quiet add ../library lib && git commit -qm lib
                 git worktree add -q -b feature tree",
                library.display()
            );
            place.host(&script);
        },
        tries: &[
            ("a commit in a nested worktree", "cd tree && git commit -q --allow-empty -m x"),
            ("a commit in a submodule", "cd lib && git commit -q --allow-empty -m x"),
            ("a submodule's hooks", "echo x > .git/modules/lib/hooks/post-commit"),
            ("a submodule's configuration", "echo x >> .git/modules/lib/config"),
            ("a nested worktree's common folder", "echo /evil > .git/worktrees/tree/commondir"),
            ("a nested pointer", "echo gitdir: /evil > lib/.git"),
            (".gitmodules", "echo x >> .gitmodules"),
        ],
        differences: &[
            ("a submodule's hooks", "ok", "EROFS"),
            ("a submodule's configuration", "ok", "EROFS"),
            ("a nested worktree's common folder", "ok", "EROFS"),
            ("a nested pointer", "ok", "EROFS"),
        ],
        disk_differs: &[".git/modules", "lib/.git"],
    }
    .compare();
}
