//! What an honest agent does goes on working, during the run and after it, and nothing of it is set aside.

use super::{WAYS, Way, World};

/// What is done inside, and what the host finds afterwards: a script and what it prints.
struct Work {
    name: &'static str,
    before: &'static str,
    inside: &'static str,
    after: &'static str,
    prints: &'static str,
    /// Whether it needs the data of the repository that was there.
    commits: bool,
}

const WORK: &[Work] = &[
    Work {
        name: "a clone into a subfolder",
        before: "git clone -q . ../remote",
        inside: "git clone -q TOP/remote sub && cd sub && echo 3 > three && git add three && git commit -qm three && (git push -q origin HEAD:new 2>/dev/null || true)",
        after: "git -C sub log --format=%s; git -C sub status --short; git -C sub config remote.origin.url",
        prints: "three\ntwo\none\nTOP/remote\n",
        commits: false,
    },
    Work {
        name: "a new repository",
        before: "",
        inside: "git init -q new && cd new && git config user.name me && echo 1 > f && git add f && git commit -qm f && git branch side && git tag v1",
        after: "cd new && git log --format='%s %an' && git branch --format='%(refname:short)' && git tag && git status --short",
        prints: "f me\nmain\nside\nv1\n",
        commits: false,
    },
    Work {
        name: "branches, a rebase and a stash in the repository that was there",
        before: "",
        inside: "set -e; git checkout -q -b side HEAD~1; echo s > s; git add s; git commit -qm s; git rebase -q main; echo dirty >> one; git stash -q; git stash pop -q",
        after: "git log --format=%s; git status --short",
        prints: "s\ntwo\none\n M one\n",
        commits: true,
    },
    Work {
        name: "branches, a rebase and a stash in a new one",
        before: "",
        inside: "set -e; git init -q n; cd n; for x in 1 2; do echo $x > $x; git add $x; git commit -qm $x; done; git checkout -q -b side HEAD~1; echo s > s; git add s; git commit -qm s; git rebase -q main; echo d >> 1; git stash -q; git stash pop -q; git merge -q main; git gc -q",
        after: "cd n; git log --format=%s; git status --short; git fsck --no-progress --no-dangling",
        prints: "s\n2\n1\n M 1\n",
        commits: false,
    },
    Work {
        name: "a worktree of the repository that was there",
        before: "",
        inside: "set -e; git worktree add -q -b feature trees/f; cd trees/f; echo f > f; git add f; git commit -qm f",
        after: "git -C trees/f log -1 --format=%s; git -C trees/f status --short; git worktree list | wc -l",
        prints: "f\n2\n",
        commits: true,
    },
    Work {
        name: "a worktree whose hooks are in the tree",
        before: "mkdir .githooks; printf '#!/bin/sh\\necho hooked >> TOP/hooked\\n' > .githooks/post-commit; chmod +x .githooks/post-commit; git config core.hooksPath .githooks; git add -A; git commit -qm h; rm TOP/hooked",
        inside: "set -e; git worktree add -q -b feature t; cd t; echo f > f; git add f; git commit -q --no-verify -m f || true",
        after: "cd t; git commit -q --allow-empty -m host; git log -1 --format=%s; cat TOP/hooked",
        prints: "host\nhooked\n",
        commits: true,
    },
    Work {
        name: "a new repository with a worktree",
        before: "",
        inside: "set -e; git init -q n; cd n; git commit -q --allow-empty -m 1; git worktree add -q ../t; cd ../t; git commit -q --allow-empty -m 2; git worktree list",
        after: "git -C t log --format=%s; git -C n worktree list | wc -l",
        prints: "2\n1\n2\n",
        commits: false,
    },
    Work {
        name: "a new repository with submodules of submodules",
        before: "git init -q ../inner && git -C ../inner commit -q --allow-empty -m i && git init -q ../lib && git -C ../lib submodule --quiet add ../inner inner && git -C ../lib commit -qm l",
        inside: "set -e; git init -q n; cd n; git submodule --quiet add TOP/lib lib; git commit -qm lib; git submodule --quiet update --init --recursive; cd lib; git checkout -q main; git commit -q --allow-empty -m more; cd ..; git commit -qam bump",
        after: "cd n; git submodule status --recursive | cut -c1 | sort -u; git -C lib log -1 --format=%s; git status --short; git -C lib/inner log -1 --format=%s",
        prints: " \nmore\ni\n",
        commits: false,
    },
    Work {
        name: "an update of a submodule that was registered before",
        before: "git init -q ../lib && git -C ../lib commit -q --allow-empty -m l && git submodule --quiet add ../lib lib && git commit -qm lib && git submodule --quiet deinit -f lib && rm -rf .git/modules/lib && git submodule --quiet init",
        inside: "git submodule --quiet update && git -C lib checkout -q main && git -C lib commit -q --allow-empty -m more && git commit -qam bump",
        after: "git -C lib log -1 --format=%s; git status --short",
        prints: "more\n",
        commits: true,
    },
    Work {
        name: "a bare clone, a mirror and a push to it",
        before: "",
        inside: "set -e; git clone -q --bare . mirror.git; git clone -q mirror.git c; cd c; git commit -q --allow-empty -m pushed; git push -q origin HEAD",
        after: "git -C mirror.git log -1 --format=%s; git -C c status --short",
        prints: "pushed\n",
        commits: false,
    },
    Work {
        name: "a repository of the other format of objects, of refs and without a folder of hooks",
        before: "",
        inside: "set -e; git init -q --object-format=sha256 n; cd n; git commit -q --allow-empty -m 256; cd ..; git init -q --template= m; cd m; git commit -q --allow-empty -m m",
        after: "git -C n log --format=%s; git -C m log --format=%s",
        prints: "256\nm\n",
        commits: false,
    },
    Work {
        name: "a sparse, partial and shallow clone",
        before: "git clone -q . ../remote && git -C ../remote config uploadpack.allowFilter true",
        inside: "set -e; git clone -q --depth 1 --filter=blob:none --sparse file://TOP/remote n 2>/dev/null; cd n; git sparse-checkout set --no-cone one; cat one",
        after: "cd n; git log --format=%s; git status --short; cat one",
        prints: "two\n1\n",
        commits: false,
    },
    Work {
        name: "a repository beside its own folder",
        before: "",
        inside: "set -e; git init -q --separate-git-dir=data.git n; cd n; echo 1 > f; git add f; git commit -qm f",
        after: "git -C n log --format=%s; git -C n status --short",
        prints: "f\n",
        commits: false,
    },
    Work {
        name: "a remote, another address and an upstream",
        before: "",
        inside: "set -e; git init -q n; cd n; git commit -q --allow-empty -m 1; git remote add o git@example.org:a/b.git; git config url.https://example.org/.insteadOf git@example.org:; git config branch.main.remote o; git config pull.rebase true",
        after: "cd n; git remote get-url o; git config pull.rebase",
        prints: "https://example.org/a/b.git\ntrue\n",
        commits: false,
    },
    Work {
        name: "hooks of the caller's own template",
        before: "mkdir -p TOP/home/template/hooks; printf '#!/bin/sh\\necho mine >> TOP/mine\\n' > TOP/home/template/hooks/post-commit; chmod +x TOP/home/template/hooks/post-commit; git config --global init.templateDir '~/template'",
        inside: "set -e; git init -q n; cd n; git commit -q --allow-empty -m 1 || true",
        after: "cd n; git commit -q --allow-empty -m host; cat TOP/mine",
        prints: "mine\n",
        commits: false,
    },
    Work {
        name: "a project with folders called hooks and config",
        before: "mkdir hooks config; printf '#!/bin/sh\\n' > hooks/post-commit; chmod +x hooks/post-commit; git add -A; git commit -qm p",
        inside: "printf '#!/bin/sh\\n' > hooks/other; chmod +x hooks/other; echo x > config/y; git init -q hooks/n; mkdir refs objects; echo x > refs/x",
        after: "ls hooks config refs; git -C hooks/n status --short",
        prints: "config:\ny\n\nhooks:\nn\nother\npost-commit\n\nrefs:\nx\n",
        commits: false,
    },
    Work {
        name: "thousands of files",
        before: "",
        inside: "set -e; git init -q n; cd n; for d in $(seq 40); do mkdir $d; for f in $(seq 50); do echo $f > $d/$f; done; done; git add -A; git commit -qm many; git rm -qr 1; git commit -qm fewer; git checkout -q HEAD~1; git checkout -q main",
        after: "cd n; git log --format=%s; git ls-files | wc -l; git status --short",
        prints: "fewer\nmany\n1950\n",
        commits: false,
    },
    Work {
        name: "the filters of git-lfs",
        before: "",
        inside: "set -e; git init -q n; cd n; git config filter.lfs.clean 'git-lfs clean -- %f'; git config filter.lfs.smudge 'git-lfs smudge -- %f'; git config filter.lfs.process 'git-lfs filter-process'; git config filter.lfs.required true; git config lfs.repositoryformatversion 0",
        after: "cd n; git config filter.lfs.process",
        prints: "git-lfs filter-process\n",
        commits: false,
    },
];

#[test]
fn honest_work_goes_on_working_and_nothing_of_it_is_set_aside() {
    for work in WORK {
        for way in WAYS {
            let keeps_all = matches!(way, Way::Level("metadata-read-only") | Way::Codex);
            // What is the caller's own lies in the home, which that profile closes.
            let closed = *way == Way::Agent && work.before.contains("~/");
            if closed || work.commits && keeps_all {
                continue;
            }
            let Some(world) = World::new() else { return };
            world.host(work.before);
            let ran = world.inside(*way, work.inside);
            assert_eq!(ran.code, 0, "{}: {way:?}\n{}{}", work.name, ran.stdout, ran.stderr);
            assert!(
                !ran.stderr.contains("set aside") && !ran.stderr.contains("took settings"),
                "{}: {way:?}\n{}",
                work.name,
                ran.stderr
            );
            assert_eq!(world.host(work.after), world.fill_in(work.prints), "{}: {way:?}", work.name);
        }
    }
}

/// Where the promise and honest work collide, as little is taken away as possible: the repository itself works.
#[test]
fn a_repository_that_names_programs_works_without_them() {
    let cases: &[(&str, &str)] = &[
        (
            "husky",
            "git config core.hooksPath .husky/_; mkdir -p .husky/_; printf '#!/bin/sh\\nRUN\\n' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit",
        ),
        ("a hook", "printf '#!/bin/sh\\nRUN\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"),
        (
            "a filter of its own",
            "git config filter.strip.clean 'RUN; cat'; echo '* filter=strip' > .gitattributes",
        ),
        ("a pager and an alias", "git config core.pager 'RUN; cat'; git config alias.st '!RUN'"),
    ];
    for way in WAYS {
        for (name, script) in cases {
            let Some(world) = World::new() else { return };
            let script = format!(
                "set -e; git init -q n; cd n; echo 1 > f; git add f; git commit -qm f; git remote add o /srv/x; {script}"
            );
            let ran = world.inside(*way, &script).ok();
            assert!(ran.stderr.contains("help: to put it back: mv -T"), "{name}: {way:?}: {}", ran.stderr);
            assert_eq!(
                world.host("cd n; git log --format=%s; git remote get-url o"),
                "f\n/srv/x\n",
                "{name}: {way:?}"
            );
            assert!(!world.runs_something(), "{name}: {way:?}");
        }
    }
}

/// Whatever git itself leaves behind, also in the middle of something, has a known shape: nothing of it is set aside.
#[test]
#[kennel_claim::claim("handed-back/git-own-leftovers-stay")]
fn what_git_leaves_in_the_middle_of_its_work_is_known() {
    const STATES: &[(&str, &str)] = &[
        (
            "a merge with a conflict",
            "git config rerere.enabled true; git checkout -q -b s1 HEAD~1; echo c > two; git add two; git commit -qm c; git merge main",
        ),
        (
            "a rebase with a conflict",
            "git checkout -q -b s2 HEAD~1; echo c > two; git add two; git commit -qm c; git rebase main",
        ),
        (
            "a rebase that keeps merges",
            "git checkout -q -b s3 HEAD~1; git commit -q --allow-empty -m a; git merge -q --no-ff -m m main; git commit -q --allow-empty -m b; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -i --rebase-merges --update-refs HEAD~1 --keep-empty --autosquash",
        ),
        (
            "a rebase by patches",
            "git checkout -q -b s4 HEAD~1; echo c > two; git add two; git commit -qm c; git rebase --apply main",
        ),
        (
            "a rebase with everything",
            "git checkout -q -b s5 HEAD~1; echo c > two; git add two; git commit -qm c; git commit -q --allow-empty -m 'fixup! c'; echo d > one; git rebase -i --autostash --autosquash --signoff --strategy=ort -Xours -Xrenormalize --reset-author-date --committer-date-is-author-date --root; git commit --amend -q",
        ),
        (
            "a rebase that squashes",
            "git checkout -q -b s6; for n in 1 2 3; do echo $n > sq; git add sq; git commit -qm $n; done; GIT_SEQUENCE_EDITOR='sed -i -e 2,\\$s/^pick/squash/ -e 2ibreak' git rebase -i HEAD~3; git rebase --continue",
        ),
        (
            "a cherry-pick of several",
            "git checkout -q -b s7 HEAD~1; for n in 1 2; do echo $n > two; git add two; git commit -qm $n; done; git checkout -q main; git cherry-pick -x --strategy-option=patience s7~1 s7",
        ),
        (
            "a revert",
            "git checkout -q -b s8; echo 1 > two; git commit -qam 1; echo 2 > two; git commit -qam 2; git revert --no-edit HEAD~1 HEAD",
        ),
        (
            "patches by mail",
            "git checkout -q -b s9 HEAD~1; echo c > two; git add two; git commit -qm c; git format-patch -q -1 -o p main; git am --3way --whitespace=nowarn -p1 -C3 p/*",
        ),
        ("a bisection", "git bisect start -q HEAD HEAD~1 -- one two; git bisect log; git bisect run true"),
        (
            "a bisection with terms",
            "git bisect start --term-old fast --term-new slow; git bisect slow; git bisect fast HEAD~1",
        ),
        (
            "a stash, notes and tags",
            "echo d > one; echo u > untracked; git stash -q -u; git stash pop -q; git notes add -m n; git notes --ref x add -m n; git tag -a -m t v1; git tag v2; git replace HEAD~0 HEAD~1; git replace -d HEAD",
        ),
        (
            "notes with a conflict",
            "git notes add -m a; git notes --ref y add -m b; git notes merge -s manual y",
        ),
        (
            "housekeeping",
            "git gc -q; git repack -q -adb --write-midx; git commit-graph write --reachable --split; git multi-pack-index write --bitmap; git pack-refs --all; git maintenance run -q --task=loose-objects --task=incremental-repack --task=commit-graph; git prune; git update-server-info; git repack -q --cruft -d",
        ),
        (
            "other forms of the index",
            "git update-index --index-version 4; git update-index --split-index; git add three; git update-index --no-split-index; git update-index --untracked-cache; git status; git update-index --skip-worktree one; git add -N four; git config core.untrackedCache true",
        ),
        (
            "a sparse index",
            "mkdir -p a b; echo x > a/x; echo x > b/x; git add a b; git commit -qm ab; git sparse-checkout set --cone --sparse-index a; git status; git sparse-checkout disable",
        ),
        (
            "worktrees",
            "git worktree add -q w1; git worktree add -q --detach --lock --reason=x w2; cd w1; git commit -q --allow-empty -m w; git checkout -q -b w1b HEAD~1; git bisect start; git submodule status; git stash list",
        ),
        (
            "a shallow clone, a partial one, one that borrows",
            "git clone -q --depth 1 file://$PWD c1; git clone -q --shared . c2; git clone -q --reference . --dissociate . c3; git clone -q --mirror . c4.git; git -C c1 fetch -q --unshallow; git -C c2 commit -q --allow-empty -m x; git clone -q --local . c5",
        ),
        (
            "orphans, odd names and pseudo refs",
            "git checkout -q --orphan o; git commit -qm o; git update-ref FOO_HEAD HEAD; git symbolic-ref refs/heads/sym refs/heads/main; git branch 'x;y$z'; git branch \u{e9}; git branch a/b/c/d; git push -q . HEAD:refs/for/x; git fetch -q . main",
        ),
        (
            "an edit",
            "printf 'e\\nq\\n' | git add -p; GIT_EDITOR=true git branch --edit-description; GIT_EDITOR=true git add -e; GIT_EDITOR=true git commit -q -v; GIT_EDITOR=true git tag -a v3",
        ),
        (
            "killed in the middle",
            "touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock .git/packed-refs.lock .git/objects/pack/tmp_pack_AbCdEf .git/objects/01/tmp_obj_aBcDeF 2>/dev/null; mkdir -p .git/objects/01; touch .git/objects/01/tmp_obj_aBcDeF .git/objects/tmp_obj_123456; rm -f .git/*.lock",
        ),
        (
            "another way to keep refs",
            "git init -q --ref-format=reftable r && cd r && git commit -q --allow-empty -m r && git branch x && git pack-refs",
        ),
        (
            "objects by SHA-256",
            "git init -q --object-format=sha256 z; cd z; echo 1 > f; git add f; git commit -qm 1; git rm -q f; git gc -q; git worktree add -q ../zw; cd ../zw; echo 2 > g; git add g; git commit -qm 2",
        ),
        (
            "submodules",
            "git init -q l; git -C l commit -q --allow-empty -m l; git init -q s; cd s; git submodule --quiet add ../l deep/er/lib; git commit -qm l; git submodule --quiet update --init; git -C deep/er/lib commit -q --allow-empty -m m; git submodule --quiet foreach true; git submodule --quiet absorbgitdirs",
        ),
        ("a subtree", "git subtree -q add -P st . main; git subtree split -q -P st"),
        (
            "tracked paths with odd letters",
            "mkdir 'a b'; echo x > 'a b/c\\d'; echo x > $'t\\tx'; echo x > foo\\x2dbar.service; ln -s one l; git add -A; git commit -qm odd",
        ),
    ];
    for new in [false, true] {
        let Some(world) = World::new() else { return };
        if new {
            world.host("git clone -q . ../base");
        }
        for (name, script) in STATES {
            let clone = if new {
                "git clone -q --no-hardlinks TOP/base n; cd n; git branch -q main 2>/dev/null; ".to_owned()
            } else {
                String::new()
            };
            let script = format!(
                "export GIT_EDITOR=true; {clone}echo 3 > three; echo 4 > four; {{ {script}; }} >/dev/null 2>&1; true"
            );
            let ran = world.inside(Way::Level("hooks-and-config-read-only"), &script).ok();
            let told: Vec<&str> = ran
                .stderr
                .lines()
                .filter(|line| line.contains("set aside") || line.contains("took"))
                .collect();
            assert!(told.is_empty(), "{name}, {}: {told:#?}", if new { "new" } else { "there before" });
            // What a rebase began, the host ends.
            world.host("cd n 2>/dev/null || true; for what in rebase merge cherry-pick revert am bisect; do git $what --abort >/dev/null 2>&1 || true; done; git bisect reset >/dev/null 2>&1 || true; find .git -name '*.lock' -delete; git status --short >/dev/null; git fsck --no-progress --no-dangling >/dev/null 2>&1 || true");
            world.host("rm -rf n p c1 c2 c3 c4.git c5 r z zw l s w1 w2 a b st; git worktree prune; git sparse-checkout disable >/dev/null 2>&1 || true; git update-index --index-version 2; git checkout -q -f main; git clean -qfdx; git reset -q --hard two 2>/dev/null || git reset -q --hard $(git log --format=%H --grep=^two$ | tail -1)");
        }
    }
}

/// A list with commands keeps the rest of its lines.
#[test]
#[kennel_claim::claim("handed-back/git-lists-of-commands")]
fn a_rebase_goes_on_without_its_commands() {
    let Some(world) = World::new() else { return };
    let script = "git checkout -q -b side HEAD~1; for n in 1 2; do echo $n > s$n; git add s$n; git commit -qm s$n; done
        GIT_SEQUENCE_EDITOR='sed -i 2ibreak' git rebase -q -i --exec 'RUN' main; rm -f TOP/canary";
    let ran = world.inside(Way::Level("hooks-and-config-read-only"), script).ok();
    assert!(ran.stderr.contains("kennel: took commands out of"), "{}", ran.stderr);
    assert_eq!(
        world.host(
            "git rebase --continue >/dev/null 2>&1; git log --format=%s; ls TOP/canary 2>/dev/null || true"
        ),
        "s2\ns1\ntwo\none\n"
    );
}
