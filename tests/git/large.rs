//! Workspaces that are large: as well kept as small ones, with few descriptors, and the plan is always the same.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{HOOKS, METADATA, Yard};
use kennel_tests::{kennel, ran};

/// Thousands of folders, and among them repositories of every kind.
fn workspace() -> Option<Yard> {
    let yard = Yard::new()?;
    for number in 0..2000 {
        yard.write(&format!("work/part-{}/module-{number}/file", number % 20), "");
    }
    for number in 0..40 {
        let name = format!("work/part-{}/repository-{number}", number % 20);
        yard.write(&format!("{name}/.git/hooks/pre-commit"), "");
        yard.write(&format!("{name}/.git/config"), "[core]\n\thooksPath = .githooks\n");
        yard.write(&format!("{name}/.git/HEAD"), "ref: refs/heads/main\n");
        yard.write(&format!("{name}/.githooks/x"), "");
    }
    yard.repository("work/main");
    yard.repository("work/library");
    let work = yard.at("work");
    yard.host(
        &work,
        "git -C main worktree add -q ../part-3/worktree && git clone -q --bare library part-4/bare.git && \
         git -C main submodule add -q ../library sub && ln -s ../../main/.git part-5/module-5/.git && \
         mkdir -p node_modules/package && cp -r library/.git node_modules/package/",
    );
    Some(yard)
}

#[test]
fn in_a_large_workspace_every_kind_of_repository_is_kept() {
    let Some(yard) = workspace() else { return };
    let work = yard.at("work");
    let tries = "for place in part-7/repository-7/.git part-19/repository-39/.git main/.git main/.git/modules/sub \
                 part-4/bare.git node_modules/package/.git; do \
                   (echo x >> $place/config) && echo $place/config; \
                   (echo x > $place/hooks/new) && echo $place/hooks; \
                   mv $place $place-gone && echo $place; \
                 done; \
                 (echo x > part-7/repository-7/.githooks/x) && echo githooks; \
                 mv part-7/repository-7 part-7/gone && echo folder; \
                 (echo x > part-3/worktree/.git) && echo pointer; \
                 (echo x > main/.git/worktrees/worktree/commondir) && echo commondir; \
                 (echo x > part-7/repository-7/.git/commondir) && echo absent; \
                 rm part-5/module-5/.git && echo link; \
                 touch part-7/module-7/new";
    for level in [HOOKS, METADATA] {
        let before = yard.picture(&work);
        let tried = yard.inside(level, &work, tries).ok();
        assert_eq!(tried.stdout, "", "at {level} these worked; {}", tried.stderr);
        std::fs::remove_file(work.join("part-7/module-7/new")).unwrap();
        let after = yard.picture(&work);
        let changed = before.iter().filter(|old| after.binary_search(old).is_err()).map(|(path, _)| path);
        assert_eq!(changed.collect::<Vec<_>>(), [""; 0], "at {level} these changed");
        assert_eq!(before.len(), after.len(), "at {level} something was made");
    }
    // The same tries without a level.
    let tried = yard.inside("off", &work, tries).ok().stdout;
    for worked in
        ["part-7/repository-7/.git/config", "part-4/bare.git/hooks", "githooks", "folder", "pointer", "link"]
    {
        assert!(tried.lines().any(|line| line == worked), "{worked} failed all the same: {tried}");
    }
}

#[test]
fn two_plans_of_a_large_workspace_are_the_same() {
    let Some(yard) = workspace() else { return };
    for level in [HOOKS, METADATA] {
        let plan = || {
            let mut command = kennel(["plan", "--steps", "--no-settings", "--git", level, "--allow-write"]);
            ran(command.arg(yard.at("work")).args(["--", "true"])).ok().stdout
        };
        let first = plan();
        assert!(first.contains("repository-39"), "{first}");
        for _ in 0..5 {
            assert_eq!(plan(), first);
        }
    }
}

/// Has a command start with a limit on its open files.
fn with_descriptors(command: &mut Command, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: one plain system call.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Has a command start with one processor, and so look through a tree alone: how many folders it has open is certain.
fn on_one_processor(command: &mut Command) {
    // SAFETY: plain system calls; the sets are memory that they fill in and read.
    unsafe {
        command.pre_exec(|| {
            let (mut own, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            libc::sched_getaffinity(0, size, &raw mut own);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &own));
            libc::CPU_SET(first.unwrap_or(0), &mut one);
            match libc::sched_setaffinity(0, size, &raw const one) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[test]
fn a_wide_workspace_is_looked_through_with_few_descriptors() {
    let Some(yard) = workspace() else { return };
    let mut command = kennel(["plan", "--steps", "--no-settings", "--git", HOOKS, "--allow-write"]);
    command.arg(yard.at("work")).args(["--", "true"]);
    let plan = ran(&mut command).ok().stdout;
    with_descriptors(&mut command, 40);
    assert_eq!(ran(&mut command).ok().stdout, plan);
}

#[test]
fn a_folder_that_cannot_be_opened_for_lack_of_descriptors_ends_the_start() {
    let Some(yard) = Yard::new() else { return };
    // Each folder stays open as long as others in it are left, and is mostly left for one that is further down.
    let mut deep = "work".to_owned();
    for level in 0..120 {
        for other in 0..4 {
            yard.scratch.dir(&format!("{deep}/other-{other}"));
        }
        deep += &format!("/deep-{level}");
    }
    yard.write(&format!("{deep}/.git/config"), "");
    yard.write(&format!("{deep}/.git/HEAD"), "");
    let mut command = kennel(["plan", "--steps", "--no-settings", "--git", HOOKS, "--allow-write"]);
    command.arg(yard.at("work")).args(["--", "true"]);
    assert!(ran(&mut command).ok().stdout.contains(".git/config"));
    with_descriptors(&mut command, 40);
    on_one_processor(&mut command);
    let refused = ran(&mut command).expect_code(125);
    assert!(refused.stderr.contains("Too many open files"), "{}", refused.stderr);
    assert!(refused.stderr.contains("/deep-0/"), "{}", refused.stderr);
}
