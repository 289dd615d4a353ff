//! Whatever `.git` is.

use super::{HOOKS, METADATA, Yard};

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn a_worktrees_pointer_and_its_folder_stay() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "git worktree add -q -b feature tree");
    let tries = [
        "echo gitdir: /tmp/evil > tree/.git",
        "rm tree/.git",
        "mv tree elsewhere",
        "mkdir evil && mv tree/.git evil",
        "echo evil > .git/worktrees/tree/commondir",
        "echo evil > .git/worktrees/tree/gitdir",
        "echo evil > .git/worktrees/tree/config.worktree",
        "mv .git/worktrees .git/w",
    ];
    for line in tries {
        let ran = yard.inside(HOOKS, &repo, line);
        assert!(ran.code != 0 && ran.code != 125, "{line}: {} {}", ran.code, ran.stderr);
        yard.host(&repo, "rm -rf evil; git -C tree status --short");
    }
    yard.inside(HOOKS, &repo, "set -e; cd tree; echo t > t; git add t; git commit -qm t").ok();
    yard.none_of(
        METADATA,
        &repo.join("tree"),
        &["git commit -qm x --allow-empty", "echo x > .git", "echo x > ../.git/config"],
    );
}

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn a_submodules_folder_stays() {
    let Some(yard) = Yard::with_repository() else { return };
    yard.repository("library");
    let repo = yard.at("repo");
    yard.host(&repo, "git submodule --quiet add ../library deep/lib && git commit -qm sub");
    yard.none_of(
        HOOKS,
        &repo,
        &[
            "echo evil > .git/modules/deep/lib/config",
            "echo evil > .git/modules/deep/lib/hooks/post-checkout",
            "rm -rf .git/modules/deep/lib/hooks",
            "mv .git/modules .git/m",
            "echo gitdir: evil > deep/lib/.git",
            "cd deep/lib; git config core.fsmonitor evil",
        ],
    );
}

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn a_bare_repository_is_one_too() {
    let Some(yard) = Yard::with_repository() else { return };
    yard.host(yard.scratch.path(), "git clone -q --bare repo work/mirror.git");
    let work = yard.at("work");
    yard.none_of(
        HOOKS,
        &work,
        &["echo x >> mirror.git/config", "echo x > mirror.git/hooks/post-receive", "mv mirror.git gone"],
    );
    yard.none_of(METADATA, &work, &["echo x > mirror.git/HEAD", "echo x > mirror.git/new"]);
    let mirror = work.join("mirror.git");
    yard.none_of(HOOKS, &mirror, &["echo x >> config", "echo x > hooks/post-receive"]);
    yard.none_of(METADATA, &mirror, &["echo x > HEAD", "echo x > refs/heads/x", "echo x > config"]);
}

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn a_link_to_a_repository_is_held_and_what_it_leads_to_stays() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "mv .git real && ln -s real .git");
    yard.none_of(
        HOOKS,
        &repo,
        &["echo x >> .git/config", "echo x >> real/config", "rm .git", "ln -sfn evil .git", "mv real gone"],
    );
    yard.inside(HOOKS, &repo, "git commit -q --allow-empty -m linked").ok();
}

#[test]
#[kennel_claim::claim("handed-back/git-every-kind-of-repository")]
fn a_broken_pointer_stays_itself() {
    let Some(yard) = Yard::new() else { return };
    for (name, text) in [
        ("empty", ""),
        ("odd", "gitdir:nowhere"),
        ("dangling", "gitdir: /nonexistent/x\n"),
        ("loop", "gitdir: .\n"),
    ] {
        yard.write(&format!("{name}/.git"), text);
        let folder = yard.at(name);
        yard.none_of(HOOKS, &folder, &["echo gitdir: evil > .git", "rm .git", "mv .git x"]);
        yard.inside(HOOKS, &folder, "echo x > file").ok();
    }
}

#[test]
#[kennel_claim::claim("handed-back/git-forged-pointers")]
fn a_pointer_that_nothing_points_back_to_opens_nothing() {
    let Some(yard) = Yard::with_repository() else { return };
    let repo = yard.at("repo");
    yard.host(&repo, "git worktree add -q -b feature ../tree");
    // As an earlier run could have left it: another folder that claims to be that worktree.
    let pointer = std::fs::read_to_string(yard.at("tree/.git")).unwrap();
    yard.write("forged/.git", &pointer);
    yard.write("keys/.git", &format!("gitdir: {}\n", yard.scratch.dir("secret").display()));
    let forged = yard.at("forged");
    yard.none_of(
        HOOKS,
        &forged,
        &[
            "git commit -q --allow-empty -m x",
            "echo x > ../repo/.git/worktrees/tree/HEAD",
            "echo x > ../repo/.git/objects/x",
        ],
    );
    yard.none_of(HOOKS, &yard.at("keys"), &["echo x > ../secret/x"]);
    // And the real one opens no more than a rule lets it.
    let deny = repo.join(".git").display().to_string();
    let ran = yard.inside_with(
        &["--git", HOOKS, "--deny-write", &deny],
        &yard.at("tree"),
        "git commit -q --allow-empty -m x",
    );
    assert_ne!(ran.code, 0);
}
