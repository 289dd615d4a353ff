//! Every call that can make a name.

use kennel_tests::probe::{Arg, Script, open_how};
use kennel_tests::{args, text};
use libc::{AT_FDCWD, EROFS, O_CREAT, O_EXCL, O_WRONLY};

use crate::guard::Project;

/// An address of a unix socket.
fn address(path: &str) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(path.as_bytes());
    bytes.push(0);
    bytes
}

/// One script for each way to make `name`; the last call of each is the one that makes it.
fn ways(project: &Project, name: &str) -> Vec<(&'static str, Script)> {
    let (at, path, own) = (AT_FDCWD, project.at(name), project.at("own"));
    let (file, folder, link) = (own.join("file"), own.join("folder"), own.join("link"));
    let one = |number, arguments| Script::new().call(number, arguments);
    let bound = address(&text(&path));
    let length = bound.len();
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "only x86-64 has the old calls"))]
    let mut ways = vec![
        ("openat", Script::new().open(&path, O_WRONLY | O_CREAT)),
        ("openat with O_EXCL", Script::new().open(&path, O_WRONLY | O_CREAT | O_EXCL)),
        ("openat2", one(libc::SYS_openat2, args![at, &path, open_how(O_WRONLY | O_CREAT, 0), 24])),
        ("mkdirat", one(libc::SYS_mkdirat, args![at, &path, 0o755])),
        ("mknodat of a file", one(libc::SYS_mknodat, args![at, &path, libc::S_IFREG | 0o600, 0])),
        ("mknodat of a FIFO", one(libc::SYS_mknodat, args![at, &path, libc::S_IFIFO | 0o600, 0])),
        ("symlinkat", one(libc::SYS_symlinkat, args!["anywhere", at, &path])),
        ("linkat", one(libc::SYS_linkat, args![at, &file, at, &path, 0])),
        ("renameat of a file", one(libc::SYS_renameat, args![at, &file, at, &path])),
        ("renameat2 of a folder", one(libc::SYS_renameat2, args![at, &folder, at, &path, 0])),
        ("renameat2 of a link", one(libc::SYS_renameat2, args![at, &link, at, &path, 0])),
        ("renameat2 with RENAME_NOREPLACE", one(libc::SYS_renameat2, args![at, &file, at, &path, 1])),
        (
            "linkat of an unnamed file",
            Script::new()
                .open(&own, libc::O_TMPFILE | O_WRONLY)
                .call(libc::SYS_linkat, args![at, "/proc/self/fd/3", at, &path, libc::AT_SYMLINK_FOLLOW]),
        ),
        (
            "bind of a unix socket",
            Script::new()
                .call(libc::SYS_socket, args![libc::AF_UNIX, libc::SOCK_STREAM, 0])
                .call(libc::SYS_bind, args![Arg::Answer(0), bound, length]),
        ),
        ("openat through a link", Script::new().open(own.join("to-it"), O_WRONLY | O_CREAT)),
    ];
    #[cfg(target_arch = "x86_64")]
    ways.extend([
        ("open", one(libc::SYS_open, args![&path, O_WRONLY | O_CREAT, 0o600])),
        ("creat", one(libc::SYS_creat, args![&path, 0o600])),
        ("mkdir", one(libc::SYS_mkdir, args![&path, 0o755])),
        ("mknod", one(libc::SYS_mknod, args![&path, libc::S_IFREG | 0o600, 0])),
        ("rename", one(libc::SYS_rename, args![&file, &path])),
        ("link", one(libc::SYS_link, args![&file, &path])),
        ("symlink", one(libc::SYS_symlink, args!["anywhere", &path])),
    ]);
    ways
}

/// What the ways start from.
fn stock(project: &Project, name: &str) {
    let own = project.at("own");
    let _ = std::fs::remove_dir_all(&own);
    project.scratch.write("project/own/file", "own");
    project.scratch.dir("project/own/folder");
    std::os::unix::fs::symlink("nowhere", own.join("link")).unwrap();
    std::os::unix::fs::symlink(format!("../{name}"), own.join("to-it")).unwrap();
}

#[track_caller]
fn every_way_is_refused(project: &Project, name: &str, more: &[&str]) {
    stock(project, name);
    let flags = [&project.flags()[..], &["--unix-sockets", "all"], more].concat();
    for (way, script) in ways(project, name) {
        let last = script.words().iter().filter(|word| *word == ";").count() - 1;
        let told = project.unchanged_by(|| script.inside(&flags));
        // The filter refuses openat2 by itself where the host's files can be written.
        let errors = if way == "openat2" { &[EROFS, libc::ENOSYS][..] } else { &[EROFS] };
        told.refused(last, errors);
        assert_eq!(told.ran.code, 0, "{way} ended the sandbox: {:?}", told.ran);
    }
}

#[test]
#[kennel_claim::claim("files/absent-denied-paths-stay-absent")]
fn every_call_that_makes_a_name_is_refused_for_a_denied_one() {
    let project = Project::denying(&[".git"]);
    every_way_is_refused(&project, ".git", &[]);
    // The same calls, made by a program that nobody holds back.
    for (way, script) in ways(&project, ".git") {
        stock(&project, ".git");
        let told = script.outside();
        assert!(project.at(".git").symlink_metadata().is_ok(), "{way} makes nothing: {:?}", told.ran);
        let _ = std::fs::remove_dir_all(project.at(".git"));
        let _ = std::fs::remove_file(project.at(".git"));
    }
}

#[test]
fn a_denied_name_is_refused_under_every_seccomp_profile() {
    let project = Project::denying(&[".git"]);
    let at = AT_FDCWD;
    for profile in ["strict", "default", "permissive", "none"] {
        let told = project.unchanged_by(|| {
            Script::new()
                .call(libc::SYS_mkdirat, args![at, &project.at(".git"), 0o755])
                .open(project.at(".git"), O_WRONLY | O_CREAT)
                .inside(&[&project.flags()[..], &["--seccomp", profile]].concat())
        });
        told.refused_all(0..2, &[EROFS]);
    }
}

/// io_uring opens and renames where no filter sees it, so it is shut even where there is no profile to shut it.
#[test]
fn io_uring_is_no_side_door_without_a_profile() {
    let project = Project::denying(&[".git"]);
    let flags = [&project.flags()[..], &["--seccomp", "none"]].concat();
    let ring = Script::new().call(libc::SYS_io_uring_setup, args![1, Arg::Zeros(120)]);
    ring.inside(&flags).refused(0, &[libc::EPERM]);
}

#[test]
fn an_exchange_brings_no_denied_name_in_either_direction() {
    let project = Project::denying(&["sub/.git"]);
    project.scratch.write("project/sub/file", "");
    project.scratch.write("project/other/.git/config", "evil");
    let (at, sub, other) = (AT_FDCWD, project.at("sub"), project.at("other"));
    let exchange = libc::RENAME_EXCHANGE;
    let told = project.unchanged_by(|| {
        Script::new()
            .call(libc::SYS_renameat2, args![at, &sub, at, &other, exchange])
            .call(libc::SYS_renameat2, args![at, &other, at, &sub, exchange])
            .inside(&project.flags())
    });
    told.refused_all(0..2, &[EROFS]);
    Script::new().call(libc::SYS_renameat2, args![at, &sub, at, &other, exchange]).outside().ok(0);
    assert!(project.at("sub/.git/config").exists());
}

#[test]
fn a_denied_name_cannot_be_renamed_over_what_was_made_by_somebody_else_meanwhile() {
    let project = Project::denying(&["a/.git"]);
    project.scratch.dir("project/a");
    // Of the right name, at a place that is not denied; then moved to the one that is.
    let at = AT_FDCWD;
    let told = Script::new()
        .call(libc::SYS_mkdirat, args![at, &project.at("mine/.git"), 0o755])
        .call(libc::SYS_renameat2, args![at, &project.at("mine/.git"), at, &project.at("a/.git"), 0])
        .inside(&project.flags());
    told.ok(0).refused(1, &[EROFS]);
    assert!(!project.at("a/.git").exists());
}
