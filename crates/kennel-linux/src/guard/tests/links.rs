//! A symlink that is protected stays what it is.

use std::path::Path;

use super::probe::{HERE, at, c, call};
use super::*;

pub(super) fn attempts(yard: &Path, tell: impl Fn(&str, i32)) {
    let rename = |from: &str, to: &str, flags: usize| {
        call(libc::SYS_renameat2, &[HERE, at(&c(from)), HERE, at(&c(to)), flags], false)
    };
    std::fs::write(yard.join("other"), "").unwrap();
    std::fs::create_dir(yard.join("beside")).unwrap();
    std::os::unix::fs::symlink("evil", yard.join("spare")).unwrap();
    std::os::unix::fs::symlink("evil", yard.join("beside/settings")).unwrap();
    tell("unlinkat", call(libc::SYS_unlinkat, &[HERE, at(&c("sub/settings")), 0], false));
    #[cfg(target_arch = "x86_64")]
    tell("unlink", call(libc::SYS_unlink, &[at(&c("sub/settings"))], false));
    tell("away", rename("sub/settings", "sub/moved", 0));
    tell("over", rename("spare", "sub/settings", 0));
    tell("exchanged", rename("spare", "sub/settings", libc::RENAME_EXCHANGE as usize));
    tell("exchanged the other way round", rename("sub/settings", "spare", libc::RENAME_EXCHANGE as usize));
    tell("its folder away", rename("sub", "moved", 0));
    tell("its folder exchanged", rename("beside", "sub", libc::RENAME_EXCHANGE as usize));
    tell("another", call(libc::SYS_unlinkat, &[HERE, at(&c("other")), 0], false));
    tell("the same name elsewhere", call(libc::SYS_unlinkat, &[HERE, at(&c("beside/settings")), 0], false));
}

#[test]
fn a_protected_symlink_is_neither_removed_nor_replaced() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("sub")).unwrap();
    std::os::unix::fs::symlink("target", yard.path("sub/settings")).unwrap();
    let told = Told::of("links", &yard, Some(yard.rules(&["sub/settings"], true)));
    for (attempt, errno) in &told.attempts {
        let expected =
            if ["another", "the same name elsewhere"].contains(&attempt.as_str()) { 0 } else { libc::EROFS };
        assert_eq!(*errno, expected, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert_eq!(std::fs::read_link(yard.path("sub/settings")).unwrap(), Path::new("target"));
    assert!(!told.ended);
}

#[test]
fn without_a_guard_the_symlink_is_gone_at_the_first_attempt() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("sub")).unwrap();
    std::os::unix::fs::symlink("target", yard.path("sub/settings")).unwrap();
    assert_eq!(Told::of("links", &yard, None).errno("unlinkat"), 0);
}

#[test]
fn a_link_that_is_not_there_any_more_when_the_guard_starts_is_an_error() {
    let yard = Yard::new();
    let error = Ground::new(&yard.rules(&["settings"], true)).expect_err("there is no link");
    assert_eq!(error.0, yard.path("settings"));
}
