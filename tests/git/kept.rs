//! What git on the host would run later stays as it is.

use super::{HOOKS, METADATA, Yard};

/// Ways to get a program into a repository.
const WAYS_IN: &[&str] = &[
    "echo evil > .git/hooks/post-commit",
    "echo evil >> .git/config",
    "git config core.fsmonitor ./evil",
    "git config --worktree core.fsmonitor ./evil",
    "echo evil > .git/config.worktree",
    "echo '* filter=evil' > .git/info/attributes",
    "mkdir evil; echo ../evil > .git/commondir",
    "rm -rf .git/hooks",
    "rm -f .git/config",
    "mv .git/hooks .git/old",
    "mv .git/config .git/old",
    "cp .git/config new && mv new .git/config",
    "cp .git/config .git/new && mv .git/new .git/config",
    "cp .git/config .git/config.lock && echo evil >> .git/config.lock && mv .git/config.lock .git/config || { rm .git/config.lock; false; }",
    "cp .git/config config.lock && mv config.lock .git/config || { rm config.lock; false; }",
    "ln -s config .git/config.lock && mv .git/config.lock .git/config || { rm .git/config.lock; false; }",
    "mkdir .git/config.lock && mv -T .git/config.lock .git/config || { rmdir .git/config.lock; false; }",
    "ln -f one .git/config",
    "ln -s ../one .git/config.worktree",
    "ln -sf ../one .git/config",
    "mkdir -p evil/hooks; mv -T evil/hooks .git/hooks",
    "mv .git old",
    "mv .git old; mkdir .git",
    "chmod 777 .git/hooks",
    "touch .git/config",
    "truncate -s0 .git/config",
];

#[test]
#[kennel_claim::claim("handed-back/git-hooks-and-configuration-stay")]
#[kennel_claim::claim("handed-back/git-rewrites-need-the-same-contents")]
fn hooks_and_configuration_stay() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    for line in WAYS_IN {
        let before: Vec<_> =
            ["config", "hooks"].iter().map(|name| yard.picture(&repo.join(".git").join(name))).collect();
        let config = std::fs::read(repo.join(".git/config")).unwrap();
        let ran = yard.inside(HOOKS, &repo, line);
        assert_ne!(ran.code, 0, "this worked: {line}\n{}", ran.stderr);
        assert_ne!(ran.code, 125, "kennel itself failed: {line}\n{}", ran.stderr);
        let after: Vec<_> =
            ["config", "hooks"].iter().map(|name| yard.picture(&repo.join(".git").join(name))).collect();
        assert!(before == after && std::fs::read(repo.join(".git/config")).unwrap() == config, "{line}");
        for absent in ["config.worktree", "info/attributes", "commondir", "config.lock"] {
            assert!(!repo.join(".git").join(absent).exists(), "{line} left .git/{absent}");
        }
        yard.host(&repo, "rm -rf evil new; git status --short >/dev/null");
    }
}

#[test]
#[kennel_claim::claim("handed-back/git-metadata-stays")]
fn with_the_metadata_kept_nothing_of_it_changes() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    let mut tries = WAYS_IN.to_vec();
    tries.retain(|line| !line.starts_with("mkdir") && !line.starts_with("cp"));
    tries.extend([
        "echo x > .git/index.lock",
        "echo x > .git/HEAD",
        "echo x > .git/refs/heads/x",
        "mv .git .got",
    ]);
    yard.none_of(METADATA, &repo, &tries);
}

#[test]
#[kennel_claim::claim("handed-back/git-metadata-stays")]
fn a_repository_cannot_be_made_where_there_was_none_and_metadata_is_kept() {
    let Some(yard) = Yard::new() else { return };
    let folder = yard.scratch.dir("plain");
    yard.none_of(
        METADATA,
        &folder,
        &["git init -q", "mkdir .git", "echo gitdir: /x > .git", "ln -s /etc .git"],
    );
    yard.inside(METADATA, &folder, "echo x > file").ok();
}

#[test]
fn the_configuration_can_be_left_out() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.inside("hooks-read-only", &repo, "git config user.name x").ok();
    yard.none_of("hooks-read-only", &repo, &["echo x > .git/hooks/post-commit", "rm -rf .git/hooks"]);
}

#[test]
#[kennel_claim::claim("handed-back/git-hooks-and-configuration-stay")]
fn what_the_configuration_names_stays_too() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.write("repo/.githooks/pre-commit", "#!/bin/sh\n");
    yard.write("repo/tools/watch", "#!/bin/sh\n");
    yard.write("repo/shared.inc", "[user]\nname = x\n");
    yard.write("repo/tools/clean me", "#!/bin/sh\n");
    yard.host(
        &repo,
        "git config core.hooksPath .githooks; git config core.fsmonitor './tools/watch --fast'
        git config include.path ../shared.inc; git config filter.x.clean '\"tools/clean me\" %f'",
    );
    yard.none_of(
        HOOKS,
        &repo,
        &[
            "echo x > .githooks/pre-commit",
            "echo x > .githooks/post-commit",
            "mv .githooks gone",
            "echo x > tools/watch",
            "mv tools gone",
            "echo x > shared.inc",
            "rm shared.inc",
            "echo x > 'tools/clean me'",
        ],
    );
    yard.inside(HOOKS, &repo, "echo x > tools/other").ok();
}

#[test]
#[kennel_claim::claim("handed-back/git-hooks-and-configuration-stay")]
fn what_the_callers_own_configuration_names_stays_in_every_repository() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.repository("repo/nested");
    yard.write(".gitconfig", "[core]\n\thooksPath = .githooks\n\tfsmonitor = ./tools/watch\n");
    yard.write("repo/nested/.githooks/pre-commit", "#!/bin/sh\n");
    yard.write("repo/tools/watch", "#!/bin/sh\n");
    yard.none_of(
        HOOKS,
        &repo,
        &[
            "mkdir .githooks",
            "echo x > nested/.githooks/pre-commit",
            "mv nested/.githooks nested/gone",
            "echo x > tools/watch",
        ],
    );
    yard.inside(HOOKS, &repo, "echo x > tools/other").ok();
}

#[test]
#[kennel_claim::claim("handed-back/git-hooks-and-configuration-stay")]
fn the_scripts_beside_huskys_folder_stay_too() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.write("repo/.husky/_/pre-commit", "#!/bin/sh\n");
    yard.write("repo/.husky/pre-commit", "npm test\n");
    yard.host(&repo, "git config core.hooksPath .husky/_");
    yard.none_of(HOOKS, &repo, &["echo x > .husky/pre-commit", "echo x > .husky/_/pre-commit"]);
}

#[test]
fn a_path_that_a_rule_names_is_writable_all_the_same() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    let hooks = repo.join(".git/hooks").display().to_string();
    yard.inside_with(&["--git", HOOKS, "--allow-write", &hooks], &repo, "echo x > .git/hooks/post-commit")
        .ok();
    let flags = ["--git", HOOKS, "--allow-write", &hooks, "--precedence", "deny-write"];
    assert_ne!(yard.inside_with(&flags, &repo, "echo x > .git/hooks/post-commit").code, 0);
}
