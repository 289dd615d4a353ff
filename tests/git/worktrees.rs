//! A sandbox in a worktree whose repository is elsewhere: commits work, and the main work tree's git obeys nothing of it.

use std::path::PathBuf;

use super::{HOOKS, Yard, program, skipped};

/// A repository `repo`, a remote of it, and a worktree `tree` beside it.
fn yard() -> Option<Yard> {
    let yard = Yard::with_repository()?;
    yard.host(
        &yard.at("repo"),
        "git add -A; git commit -qm three; git branch side HEAD~1; git branch packed; git init -q --bare ../remote.git
         git remote add origin ../remote.git; git push -q origin main; git pack-refs --all
         git worktree add -q -b feature ../tree; git worktree add -q -b other ../other",
    );
    Some(yard)
}

fn tree(yard: &Yard) -> PathBuf {
    yard.at("tree")
}

/// Names that git on the host would obey, or write through, in the main repository.
const TRIES: &[&str] = &[
    "mkdir e; echo ../../tree/e > ../repo/.git/commondir",
    "echo x > ../repo/.git/config",
    "echo x > ../repo/.git/config.worktree",
    "echo x > ../repo/.git/HEAD",
    "echo x > ../repo/.git/index",
    "echo x > ../repo/.git/gitdir",
    "echo x > ../repo/.git/anything",
    "mkdir ../repo/.git/anything",
    "mkfifo ../repo/.git/fifo",
    "ln -s x ../repo/.git/anything",
    "ln ../repo/.git/HEAD ../repo/.git/anything",
    "ln -s config ../repo/.git/COMMIT_EDITMSG.new && mv ../repo/.git/COMMIT_EDITMSG.new ../repo/.git/COMMIT_EDITMSG",
    "rm ../repo/.git/packed-refs",
    "rm ../repo/.git/index",
    "mv ../repo/.git/packed-refs ../repo/.git/commondir",
    "ln -sfn ../../tree ../repo/.git/packed-refs",
    "echo x >> ../repo/.git/logs/HEAD",
    "rm ../repo/.git/logs/HEAD",
    "ln -sf x ../repo/.git/logs/HEAD",
    "mv ../repo/.git/logs ../repo/.git/l",
    "echo x > ../repo/.git/logs/x",
    "echo x > ../repo/.git/hooks/post-commit",
    "echo x > ../repo/.git/info/attributes",
    "echo x > ../repo/.git/info/exclude",
    "mkdir ../repo/.git/rebase-merge",
    "echo x > ../repo/.git/MERGE_MSG",
    "mkdir ../repo/.git/worktrees/new",
    "echo x > ../repo/.git/worktrees/other/HEAD",
    "echo x > ../repo/.git/worktrees/other/commondir",
    "echo x > ../repo/.git/worktrees/tree/commondir",
    "echo x > ../repo/.git/worktrees/tree/gitdir",
    "echo x > ../repo/.git/worktrees/tree/config.worktree",
    "mv ../repo/.git/worktrees/tree ../repo/.git/worktrees/t",
    "echo x > ../repo/.git/packed-refs",
    "echo x >> ../repo/.git/packed-refs",
    "truncate -s0 ../repo/.git/packed-refs",
    "chmod 600 ../repo/.git/config",
    "touch ../repo/.git/HEAD",
    "echo x > x; mv x ../repo/.git/packed-refs",
    "cp ../repo/.git/config x; echo '[core] fsmonitor = x' >> x; mv x ../repo/.git/config.lock",
    // By git's own way, but with something else.
    "set -C; (set -e; echo x > ../repo/.git/packed-refs.lock; mv ../repo/.git/packed-refs.lock ../repo/.git/commondir)",
    "set -C; (set -e; echo x > ../repo/.git/packed-refs.lock; mv ../repo/.git/packed-refs.lock ../repo/.git/packed-refs)",
    "set -C; (set -e; echo x > ../repo/.git/config.lock; mv ../repo/.git/config.lock ../repo/.git/config)",
    "set -C; (set -e; echo x > ../repo/.git/packed-refs.lock; ln ../repo/.git/packed-refs.lock ../repo/.git/commondir)",
    "set -C; echo x > ../repo/.git/packed-refs.new",
    "mkdir ../repo/.git/packed-refs.lock",
    "ln -s x ../repo/.git/packed-refs.lock",
    "mkfifo ../repo/.git/shallow.lock",
];

#[test]
#[kennel_claim::claim("handed-back/git-worktrees")]
fn nothing_of_the_main_repository_is_made_or_changed() {
    let Some(yard) = yard() else { return };
    let before = yard.picture(&yard.at("repo"));
    for line in TRIES {
        let ran = yard.inside(HOOKS, &tree(&yard), line);
        assert!(ran.code != 0 && ran.code != 125, "{line}: {} {}", ran.code, ran.stderr);
        assert_eq!(yard.picture(&yard.at("repo")), before, "{line}");
        yard.host(&tree(&yard), "rm -rf e x");
    }
    // Without a level and with the repository as a write root, each of these would be made.
    let repo = yard.at("repo").display().to_string();
    yard.inside_with(&["--git", "off", "--allow-write", &repo], &tree(&yard), TRIES[0]).ok();
}

#[test]
#[kennel_claim::claim("handed-back/git-worktrees")]
fn no_links_are_made_in_what_is_shared() {
    let Some(yard) = yard() else { return };
    if !landlock() {
        return skipped("this kernel has no Landlock");
    }
    let places = [
        "refs/heads/l",
        "logs/refs/heads/l",
        "logs/refs/heads/main",
        "objects/l",
        "objects/info/alternates",
        "objects/info/commit-graph",
        "worktrees/tree/l",
        "worktrees/tree/logs/HEAD",
        "worktrees/tree/COMMIT_EDITMSG",
    ];
    for place in places {
        for line in [
            format!("ln -sf ~/.bashrc ../repo/.git/{place}"),
            format!("ln -s ~/.bashrc link; mv -f link ../repo/.git/{place}"),
            format!("ln -f one ../repo/.git/{place}"),
            format!("rm -f ../repo/.git/{place}; mkfifo ../repo/.git/{place}"),
        ] {
            let ran = yard.inside(HOOKS, &tree(&yard), &line);
            // `mv` copies where it cannot move: what comes of that is a plain file, or nothing.
            let made = std::fs::symlink_metadata(yard.at("repo/.git").join(place));
            let plain = made.is_err() || made.is_ok_and(|made| made.is_file() || made.is_dir());
            assert!(plain, "{line}: {}", ran.stderr);
        }
    }
}

/// Whether the kernel restricts what is made.
fn landlock() -> bool {
    // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1usize) > 0 }
}

#[test]
#[kennel_claim::claim("handed-back/git-worktrees")]
fn git_on_the_host_runs_nothing_in_the_main_work_tree_while_the_sandbox_runs() {
    let Some(yard) = yard() else { return };
    let canary = yard.at("canary");
    yard.host(&tree(&yard), "mkfifo ready go");
    let evil =
        format!("[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {};false\n", canary.display());
    yard.write("tree/evil", &evil);
    let attack = "git init -q e; cat evil >> e/.git/config; echo ../../tree/e/.git > ../repo/.git/commondir
        cp evil ../repo/.git/config.worktree; cp evil ../repo/.git/config; ln -sf ~/.bashrc ../repo/.git/logs/HEAD
        mkdir -p e/hooks; cp evil ../repo/.git/hooks/post-commit; echo done > ready; cat go";
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| yard.inside(HOOKS, &tree(&yard), attack));
        yard.host(&tree(&yard), "cat ready");
        let host = "git status --short; git log -1 --format=%s; echo h > h; git add h; git commit -qm h; git checkout -q side; git checkout -q main";
        let said = yard.host(&yard.at("repo"), host);
        yard.host(&tree(&yard), "echo > go");
        ran.join().expect("it ran");
        assert!(said.contains("three"), "{said}");
    });
    assert!(!canary.exists(), "it ran");
    let log = std::fs::symlink_metadata(yard.at("repo/.git/logs/HEAD")).unwrap();
    assert!(log.is_file());
}

#[test]
fn an_honest_agent_works_in_a_worktree() {
    let Some(yard) = yard() else { return };
    let remote = yard.at("remote.git").display().to_string();
    let script = "set -e
        echo a > a; git add a; git commit -qm a; git commit -q --amend -m b
        git branch gone; git branch -qD gone; git branch -qD packed; git branch old; git branch -m old new
        git checkout -q -b x HEAD~1; echo s > s; git add s; git commit -qm s; git rebase -q feature
        echo d >> a; git stash -q; git stash pop -q; git checkout -q a; git tag v1; git tag -d v1 >/dev/null
        git merge -q --no-ff -m m side; git reset -q --hard HEAD~1
        echo c > c; git add c; git commit -qm c; git revert --no-edit HEAD >/dev/null; git cherry-pick HEAD~1 >/dev/null
        git fetch -q; git fetch -q --prune; git push -q origin x; git pull -q --no-rebase origin main
        git notes add -m n; git bisect start HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1
        git pack-refs --all; git prune; git update-ref refs/heads/zz HEAD; git update-ref -d refs/heads/zz
        git fetch -q --depth 1; git fetch -q --unshallow; git commit-graph write --reachable 2>/dev/null
        git config user.name \"$(git config user.name || true)\" 2>/dev/null || true
        git fsck --no-progress --no-dangling; git status --short";
    let ran = yard.inside_with(&["--git", HOOKS, "--allow-write", &remote], &tree(&yard), script).ok();
    assert!(!ran.stderr.contains("packed-refs"), "{}", ran.stderr);
    let said = yard.host(
        &yard.at("repo"),
        "git log -1 --format=%s; git for-each-ref --format='%(refname)' refs/heads; git fsck --no-progress --no-dangling; git status --short; git gc -q; ls .git",
    );
    let expected = "three\nrefs/heads/feature\nrefs/heads/main\nrefs/heads/new\nrefs/heads/other\nrefs/heads/side\nrefs/heads/x\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(!said.contains(".lock"), "{said}");
}

#[test]
fn commits_work_in_a_worktree_of_a_bare_repository() {
    let Some(yard) = Yard::with_repository() else { return };
    yard.host(
        yard.scratch.path(),
        "git clone -q --bare repo bare.git; cd bare.git; rm -rf logs; git worktree add -q -b feature ../tree; rm -rf logs",
    );
    yard.inside(
        HOOKS,
        &tree(&yard),
        "set -e; echo a > a; git add a; git commit -qm a; git branch b; git branch -qD b; git stash list",
    )
    .ok();
    assert_eq!(yard.host(&yard.at("bare.git"), "git log -1 --format=%s feature"), "a\n");
}

#[test]
#[kennel_claim::claim("handed-back/git-worktrees")]
fn locks_hold_between_the_host_and_the_sandbox() {
    let Some(yard) = yard() else { return };
    // The host's lock is respected, and cannot be taken away.
    yard.host(&yard.at("repo"), "touch .git/packed-refs.lock");
    let ran =
        yard.inside(HOOKS, &tree(&yard), "git -c core.packedRefsTimeout=0 update-ref -d refs/heads/side");
    assert!(ran.code != 0 && ran.stderr.contains("packed-refs.lock"), "{}", ran.stderr);
    for line in ["rm -f ../repo/.git/packed-refs.lock", "mv ../repo/.git/packed-refs.lock x"] {
        assert_ne!(yard.inside(HOOKS, &tree(&yard), line).code, 0, "{line}");
    }
    assert!(yard.at("repo/.git/packed-refs.lock").exists());
    yard.host(&yard.at("repo"), "rm .git/packed-refs.lock");
    // The sandbox's does not outlive it.
    let left = "set -C; echo > ../repo/.git/packed-refs.lock; echo > ../repo/.git/packed-refs.new; echo > ../repo/.git/shallow.lock; ls ../repo/.git";
    let ran = yard.inside(HOOKS, &tree(&yard), left).ok();
    for lock in ["packed-refs.lock", "packed-refs.new", "shallow.lock"] {
        assert!(ran.stdout.contains(lock), "{}", ran.stdout);
        assert!(!yard.at("repo/.git").join(lock).exists(), "{lock}");
    }
    // Both at the same time: no ref is lost.
    let many = "for n in $(seq 30); do git branch i$n; git branch keep-i$n; git branch -qD i$n || exit 1; done; git pack-refs --all";
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| yard.inside(HOOKS, &tree(&yard), many));
        let host = many.replace("i$n", "h$n");
        yard.host(&yard.at("repo"), &host);
        inside.join().expect("it ran").ok();
    });
    let count = yard.host(
        &yard.at("repo"),
        "git for-each-ref 'refs/heads/keep-*' | wc -l; git fsck --no-progress --no-dangling",
    );
    assert_eq!(count.trim(), "60", "{count}");
}

#[test]
#[kennel_claim::claim("handed-back/git-worktrees")]
fn a_race_about_a_lock_makes_no_other_name() {
    let Some(yard) = yard() else { return };
    if program("python3").is_none() {
        return skipped("python3 is not installed");
    }
    // One thread changes a letter of the path while the other makes the calls.
    let race = r#"python3 - <<'END'
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
way = b'../repo/.git/'
end = time.time() + 3
names = [(b'packed-refs.lock', b'commondir\0'), (b'shallow.lock', b'commondir\0')]
buffers = []
def flip(buffer, one, two):
    while time.time() < end:
        ctypes.memmove(ctypes.addressof(buffer) + len(way), two, len(two))
        ctypes.memmove(ctypes.addressof(buffer) + len(way), one, len(one))
for one, two in names:
    buffer = ctypes.create_string_buffer(way + one, 64)
    threading.Thread(target=flip, args=(buffer, one + b'\0', two), daemon=True).start()
    buffers.append(buffer)
seen = 0
while time.time() < end:
    for buffer in buffers:
        fd = libc.open(buffer, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if fd >= 0:
            seen += 1
            os.close(fd)
        libc.rename(way + b'shallow.lock', buffer)
        libc.unlink(buffer)
        assert not os.path.exists('../repo/.git/commondir')
print('made', seen > 0)
END"#;
    let ran = yard.inside(HOOKS, &tree(&yard), race).ok();
    assert_eq!(ran.stdout, "made True\n", "{}", ran.stderr);
    assert!(!yard.at("repo/.git/commondir").exists());
}
