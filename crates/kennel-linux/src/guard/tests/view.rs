//! A caller with mounts and a root of its own is understood in its own view.

use std::path::Path;

use super::probe::{HERE, at, c, call};
use super::*;

/// Gives the probe new user and mount namespaces, with a private folder over `yard/private`. Where that is denied it
/// goes on without.
pub(super) fn unshare(command: &mut Command, yard: &Path) {
    use std::os::unix::process::CommandExt;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {user} 1")),
        (c"/proc/self/gid_map", format!("0 {group} 1")),
    ];
    let private = c(yard.join("private"));
    let enter = move || {
        // SAFETY: plain calls with C strings that outlive them.
        unsafe {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) != 0 {
                return Ok(());
            }
            for (path, map) in &maps {
                let fd = libc::open(path.as_ptr(), libc::O_WRONLY);
                libc::write(fd, map.as_ptr().cast(), map.len());
                libc::close(fd);
            }
            let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, flags, none.cast());
            libc::mount(c"tmpfs".as_ptr(), private.as_ptr(), c"tmpfs".as_ptr(), 0, none.cast());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; all they need was built before.
    unsafe { command.pre_exec(enter) };
}

pub(super) fn attempts(yard: &Path, tell: impl Fn(&str, i32)) {
    use std::os::unix::fs::symlink;
    let private = yard.join("private");
    let device = |path: &Path| rustix::fs::stat(path).expect("the folder is there").st_dev;
    if device(&private) == device(yard) {
        return tell("skipped", 0);
    }
    let mkdir = |path: &Path| call(libc::SYS_mkdirat, &[HERE, at(&c(path)), 0o700], false);
    let open =
        |path: &Path| call(libc::SYS_openat, &[HERE, at(&c(path)), libc::O_CREAT as usize, 0o600], true);
    // What the guard's own view shows at these paths is an empty folder.
    symlink(yard, private.join("up")).unwrap();
    symlink(yard.join(".git"), private.join("dangling")).unwrap();
    symlink(&private, yard.join("into")).unwrap();
    tell("through a link in the private folder", mkdir(&private.join("up/.git")));
    tell("a dangling link in the private folder", open(&private.join("dangling")));
    tell("reached by an absolute link", open(&yard.join("into/dangling")));
    tell("the same name in the private folder", mkdir(&private.join(".git")));
    // SAFETY: C strings that outlive the calls.
    let rooted = unsafe { libc::chroot(c(yard).as_ptr()) | libc::chdir(c"/private".as_ptr()) };
    if rooted == 0 {
        tell("from a root of its own", mkdir(Path::new("/.git")));
        tell("up from a root of its own", mkdir(Path::new("../../../.git")));
        symlink("/.git", "/rooted").unwrap();
        tell("a link to a root of its own", open(Path::new("/rooted")));
    }
}

#[test]
fn paths_are_resolved_in_the_callers_own_mounts_and_root() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("private")).unwrap();
    let told = Told::of("view", &yard, Some(yard.absent(&[".git"])));
    if told.attempts[0].0 == "skipped" {
        eprintln!("SKIPPED: this host lets this user make no namespaces");
        return;
    }
    assert_eq!(told.attempts.len(), 7);
    for (attempt, errno) in &told.attempts {
        let expected = if attempt == "the same name in the private folder" { 0 } else { libc::EROFS };
        assert_eq!(*errno, expected, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert!(!yard.path(".git").exists() && !told.ended);
}
