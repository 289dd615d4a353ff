//! Links and renames: other names for what is protected, and names that change while kennel looks at them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{args, kennel, ran, ran_within, run_sh};
use libc::{EACCES, EBUSY, EPERM, EROFS, EXDEV, O_RDONLY, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

const RENAME_EXCHANGE: i32 = 2;

fn exchange(one: &Path, other: &Path) {
    let cwd = rustix::fs::CWD;
    rustix::fs::renameat_with(cwd, one, cwd, other, rustix::fs::RenameFlags::EXCHANGE).unwrap();
}

/// Starts sandboxes while another thread swaps `one` and `other`; each tries to write `file`. Returns how many began.
fn write_while_swapping(one: &Path, other: &Path, rule: &str, file: &Path, runs: usize) -> usize {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                exchange(one, other);
            }
        });
        let began = (0..runs)
            .filter(|_| {
                let script = format!("echo stolen > '{}'", file.display());
                let mut command = kennel(["run", "--allow-write", rule, "--", "sh", "-c", &script]);
                let told = ran_within(Duration::from_secs(30), &mut command);
                assert!(told.stderr.is_empty() || !told.stderr.contains("panicked"), "{told:?}");
                told.code == 0
            })
            .count();
        over.store(true, Ordering::Relaxed);
        began
    })
}

/// The rule is a glob, because links that a glob finds give no write: whatever the moment, the victim must stay as it
/// is. A path that is named outright would be followed.
#[test]
#[kennel_claim::claim("files/swaps-during-set-up")]
fn swapping_the_last_component_for_a_link_during_set_up_redirects_no_mount() {
    let yard = Yard::new();
    let victim = yard.scratch().dir("victim");
    let (real, link) = (yard.scratch().dir("tree/real"), yard.scratch().join("tree/link"));
    symlink(&victim, &link).unwrap();
    let rule = format!("{}/tree/re[a]l", yard.scratch().path().display());
    write_while_swapping(&real, &link, &rule, &real.join("file"), 60);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0, "the victim was written");
}

#[test]
#[kennel_claim::claim("files/swaps-during-set-up")]
fn swapping_a_middle_component_for_a_link_during_set_up_redirects_no_mount() {
    let yard = Yard::new();
    let victim = yard.scratch().dir("victim/inner");
    yard.scratch().dir("tree/real/inner");
    let (real, link) = (yard.scratch().join("tree/real"), yard.scratch().join("tree/link"));
    symlink(yard.scratch().join("victim"), &link).unwrap();
    let rule = format!("{}/tree/re[a]l/inner", yard.scratch().path().display());
    write_while_swapping(&real, &link, &rule, &real.join("inner/file"), 60);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0, "the victim was written");
}

#[test]
#[kennel_claim::claim("files/swaps-during-set-up")]
fn swapping_the_first_component_for_a_link_during_set_up_redirects_no_mount() {
    let yard = Yard::new();
    let victim = yard.scratch().dir("victim/tree/inner");
    yard.scratch().dir("real/tree/inner");
    let (real, link) = (yard.scratch().join("real"), yard.scratch().join("link"));
    symlink(yard.scratch().join("victim"), &link).unwrap();
    let rule = format!("{}/r[e]al/tree/inner", yard.scratch().path().display());
    write_while_swapping(&real, &link, &rule, &real.join("tree/inner/file"), 60);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0, "the victim was written");
}

/// That the tries above can succeed: without the swap the same rule gives write.
#[test]
fn without_a_swap_the_same_rule_gives_write() {
    let yard = Yard::new();
    let real = yard.scratch().dir("tree/real");
    let rule = format!("{}/tree/re[a]l", yard.scratch().path().display());
    run_sh(["--allow-write", &rule], &format!("echo mine > {}/file", real.display())).ok();
    assert_eq!(std::fs::read_to_string(real.join("file")).unwrap(), "mine\n");
}

#[test]
#[kennel_claim::claim("files/protected-paths-do-not-move")]
fn rename_exchange_does_not_move_a_mask_or_a_read_only_file_out_of_the_way() {
    let yard = Yard::new();
    let work = yard.work();
    let (secret, fixed) =
        (yard.scratch().write("work/secret", SECRET), yard.scratch().write("work/fixed", "fixed"));
    let flags = ["--allow-write", work.to_str().unwrap(), "--deny-read", secret.to_str().unwrap()];
    let flags = [&flags[..], &["--deny-write", fixed.to_str().unwrap()]].concat();
    let mut script = Script::new();
    for target in [&secret, &fixed] {
        for how in [0, RENAME_EXCHANGE] {
            script = script
                .call(
                    libc::SYS_renameat2,
                    args![libc::AT_FDCWD, target, libc::AT_FDCWD, &work.join("mine"), how],
                )
                .call(
                    libc::SYS_renameat2,
                    args![libc::AT_FDCWD, &work.join("mine"), libc::AT_FDCWD, target, how],
                );
        }
    }
    for more in EVERY_WAY {
        let told = script.inside(&[&flags[..], more].concat());
        told.refused_all(0..8, &[EBUSY, EXDEV, EROFS, EACCES, EPERM]);
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), SECRET);
    assert_eq!(std::fs::read_to_string(&fixed).unwrap(), "fixed");
    let exchange = args![libc::AT_FDCWD, &secret, libc::AT_FDCWD, &work.join("mine"), RENAME_EXCHANGE];
    Script::new().call(libc::SYS_renameat2, exchange).outside().ok(0);
}

/// A mask stays on its file when a folder above is renamed, but the path is free then for another file.
#[test]
#[kennel_claim::claim("files/protected-paths-do-not-move")]
fn renaming_an_ancestor_of_a_denied_path_is_refused() {
    let yard = Yard::new();
    let work = yard.work();
    let hooks = yard.scratch().dir("work/repo/.git/hooks");
    let key = yard.scratch().write("work/a/b/c/key", SECRET);
    let flags = ["--allow-write", work.to_str().unwrap(), "--deny-write", hooks.to_str().unwrap()];
    let flags = [&flags[..], &["--deny-read", key.to_str().unwrap()]].concat();
    yard.scratch().dir("work/other");
    let mut script = Script::new();
    let ancestors = ["repo", "repo/.git", "a", "a/b", "a/b/c"];
    for ancestor in ancestors {
        let (from, to) = (work.join(ancestor), work.join("other"));
        script = script
            .call(libc::SYS_renameat2, args![libc::AT_FDCWD, &from, libc::AT_FDCWD, &work.join("gone"), 0])
            .call(libc::SYS_renameat2, args![libc::AT_FDCWD, &from, libc::AT_FDCWD, &to, RENAME_EXCHANGE])
            .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, &from, libc::AT_REMOVEDIR]);
    }
    for more in EVERY_WAY {
        let told = script.inside(&[&flags[..], more].concat());
        for (index, ancestor) in ancestors.iter().enumerate() {
            for call in 0..2 {
                assert_ne!(told.errno(3 * index + call), 0, "{ancestor} was renamed with {more:?}");
            }
        }
    }
    assert!(hooks.is_dir());
    assert_eq!(std::fs::read_to_string(&key).unwrap(), SECRET);
    Script::new()
        .call(
            libc::SYS_renameat2,
            args![libc::AT_FDCWD, &work.join("a"), libc::AT_FDCWD, &work.join("gone"), 0],
        )
        .outside()
        .ok(0);
}

#[test]
#[kennel_claim::claim("files/no-second-name")]
fn a_hard_link_to_a_protected_file_cannot_be_made() {
    let yard = Yard::new();
    let (work, fixed) = (yard.work(), yard.scratch().write("work/fixed", "fixed"));
    let flags = yard.flags(&["--deny-write", fixed.to_str().unwrap()]);
    let script = Script::new()
        .call(libc::SYS_linkat, args![libc::AT_FDCWD, &yard.secret(), libc::AT_FDCWD, &work.join("link1"), 0])
        .call(libc::SYS_linkat, args![libc::AT_FDCWD, &yard.open(), libc::AT_FDCWD, &work.join("link2"), 0])
        .call(libc::SYS_linkat, args![libc::AT_FDCWD, &fixed, libc::AT_FDCWD, &work.join("link3"), 0])
        .open(&fixed, libc::O_PATH)
        .call(
            libc::SYS_linkat,
            args![
                libc::AT_FDCWD,
                "/proc/self/fd/3",
                libc::AT_FDCWD,
                &work.join("link4"),
                libc::AT_SYMLINK_FOLLOW
            ],
        )
        .call(
            libc::SYS_linkat,
            args![Arg::Answer(3), "", libc::AT_FDCWD, &work.join("link5"), libc::AT_EMPTY_PATH],
        )
        .call(
            libc::SYS_linkat,
            args![libc::AT_FDCWD, &work.join("mine"), libc::AT_FDCWD, &work.join("link6"), 0],
        );
    for more in EVERY_WAY {
        let told = script.inside(&[&refs(&flags)[..], more].concat());
        for index in [0, 1, 2, 4, 5] {
            told.refused(index, &[EXDEV, EPERM, EACCES, EROFS, libc::ENOENT]);
        }
        told.ok(6);
        std::fs::remove_file(work.join("link6")).unwrap();
    }
    script.outside().ok(0).ok(1).ok(2);
}

#[test]
#[kennel_claim::claim("files/no-second-name")]
fn a_hard_link_made_before_to_a_protected_file_is_not_a_second_door() {
    let yard = Yard::new();
    std::fs::hard_link(yard.secret(), yard.scratch().join("second-name")).unwrap();
    let secret = yard.secret();
    let denied = ["--deny-read", secret.to_str().unwrap()];
    let told = run_sh(denied, &format!("cat {}/second-name", yard.scratch().path().display()));
    assert!(!told.stdout.contains(SECRET), "{told:?}");
    assert_eq!(told.code, 125, "kennel says that it cannot hide this file: {told:?}");
    let fixed = yard.scratch().write("fixed", "fixed");
    std::fs::hard_link(&fixed, yard.work().join("second-name")).unwrap();
    let work = yard.work();
    let flags = ["--allow-write", work.to_str().unwrap(), "--deny-write", fixed.to_str().unwrap()];
    run_sh(flags, &format!("echo changed > {}/second-name", work.display()));
    assert_eq!(std::fs::read_to_string(&fixed).unwrap(), "fixed", "written through its second name");
}

/// One thread turns a link to and fro between an open file and the hidden one, another opens it.
#[test]
fn a_link_swapped_between_look_up_and_open_shows_nothing_hidden() {
    let yard = Yard::new();
    let flags = yard.flags(&["--seccomp", "none"]);
    let (open, secret, work) = (yard.open(), yard.secret(), yard.work());
    let magic = PathBuf::from(format!("/proc/self/root{}", secret.display()));
    for target in [&secret, &magic] {
        let words = [work.join("link"), open.clone(), target.clone()];
        let told = ran(&mut probe_inside("swapped-link", &refs(&flags), &words)).ok();
        assert!(told.stdout.contains("opened"), "the open file was never read: {told:?}");
        assert!(told.stdout.contains("refused"), "the hidden file was never tried: {told:?}");
        assert!(!told.stdout.contains(SECRET), "{told:?}");
    }
}

#[test]
#[kennel_claim::claim("files/no-write-through-a-symlink")]
fn a_link_in_the_write_root_writes_nothing_outside() {
    let yard = Yard::new();
    let (work, open) = (yard.work(), yard.open());
    let script = Script::new()
        .call(libc::SYS_symlinkat, args![&open, libc::AT_FDCWD, &work.join("out")])
        .open(work.join("out"), O_WRONLY)
        .call(libc::SYS_symlinkat, args!["/proc/self/root", libc::AT_FDCWD, &work.join("root")])
        .open(format!("{}/root{}", work.display(), open.display()), O_WRONLY)
        .open(work.join("out"), O_RDONLY)
        .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, &work.join("out"), 0])
        .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, &work.join("root"), 0]);
    for more in EVERY_WAY {
        let told = script.inside(&refs(&yard.flags(more)));
        told.ok(0).refused(1, &[EROFS, EACCES]).ok(2).refused(3, &[EROFS, EACCES]).ok(4);
    }
    assert_eq!(std::fs::read_to_string(&open).unwrap(), "anybody may read this");
}
