//! A guard that dies lets nothing through, and a caller that dies does not hold it up.

use std::path::Path;
use std::sync::Arc;

use super::probe::{HERE, at, c, call};
use super::*;

pub(super) fn attempts(yard: &Path, tell: impl Fn(&str, i32)) {
    let mkdir = || call(libc::SYS_mkdirat, &[HERE, at(&c("harmless")), 0o700], false);
    tell("while it lives", mkdir());
    while yard.join("guarded").exists() {
        std::thread::yield_now();
    }
    tell("after its death", mkdir());
    tell("a call that makes no name", {
        call(libc::SYS_openat, &[HERE, at(&c(".")), libc::O_RDONLY as usize, 0], true)
    });
}

#[test]
fn when_the_guard_is_gone_its_calls_fail_and_others_do_not() {
    let yard = Yard::new();
    std::fs::write(yard.path("guarded"), "").unwrap();
    let mut guarded = Guarded::start("orphaned", &yard.0, Some(yard.absent(&[".git"])));
    let mut line = String::new();
    guarded.link.read_line(&mut line).unwrap();
    assert_eq!(line, "while it lives=0\n");
    drop(guarded.handle.take());
    std::fs::remove_file(yard.path("guarded")).unwrap();
    let told = guarded.finish();
    assert_eq!(told.errno("after its death"), libc::ENOSYS);
    assert_eq!(told.errno("a call that makes no name"), 0);
}

pub(super) fn many_threads(yard: &Path, tell: impl Fn(&str, i32)) {
    for number in 0..8 {
        let yard = yard.to_path_buf();
        std::thread::spawn(move || {
            for round in 0.. {
                let path = c(yard.join(format!("t{number}-{round}")));
                call(libc::SYS_mkdirat, &[HERE, at(&path), 0o700], false);
                call(libc::SYS_unlinkat, &[HERE, at(&path), libc::AT_REMOVEDIR as usize], false);
            }
        });
    }
    tell("started", 0);
    std::thread::sleep(std::time::Duration::from_secs(600));
}

#[test]
fn a_caller_killed_in_the_middle_of_its_calls_does_not_hang_the_guard() {
    for _ in 0..20 {
        let yard = Yard::new();
        let mut guarded = Guarded::start("killed while waiting", &yard.0, Some(yard.absent(&[".git"])));
        let mut line = String::new();
        guarded.link.read_line(&mut line).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        guarded.child.kill().unwrap();
        guarded.ended.store(true, Ordering::SeqCst);
        // Joins the guard's thread.
        assert_eq!(guarded.finish().violations, []);
    }
}

#[test]
fn a_guard_does_not_start_over_a_folder_that_was_swapped() {
    let yard = Yard::new();
    let mut rules = yard.absent(&[".git"]);
    Arc::make_mut(&mut rules.protected[0].anchor).identity.inode += 1;
    assert!(ProtectedPaths::new(&rules.protected).is_err());
}
