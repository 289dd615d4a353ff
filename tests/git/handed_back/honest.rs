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
            if work.commits && keeps_all {
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
