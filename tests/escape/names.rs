//! Names: those that do not exist yet, those that look alike, and what an error tells about them.

use std::path::PathBuf;

use kennel_tests::probe::Script;
use kennel_tests::{args, run_sh};
use libc::{ENOENT, O_CREAT, O_EXCL, O_RDONLY, O_WRONLY};

use crate::yard::{EVERY_WAY, SECRET, Yard, refs};

/// A mount needs something to be mounted on. Where nothing can keep the name from appearing, there is no sandbox.
#[test]
fn a_denied_path_cannot_be_created_later() {
    let yard = Yard::new();
    let work = yard.work();
    for list in ["--deny-read", "--deny-write"] {
        for name in ["later", "folder/later"] {
            let denied = work.join(name);
            let flags = ["--allow-write", work.to_str().unwrap(), list, denied.to_str().unwrap()];
            let script = format!("mkdir -p {0}/folder; echo evil > {0}/{name}", work.display());
            let told = run_sh(flags, &script);
            assert_ne!(told.code, 0, "{list} {name}: {told:?}");
            assert!(!denied.exists(), "{list} {name} appeared");
        }
    }
}

/// Where the parent cannot be written nothing has to be done: the name cannot appear from inside.
#[test]
fn a_denied_path_that_is_missing_outside_the_write_roots_stays_missing() {
    let yard = Yard::new();
    let denied = yard.scratch().join("later");
    let told =
        run_sh(["--deny-read", denied.to_str().unwrap()], &format!("echo evil > {}", denied.display()));
    assert_ne!(told.code, 0);
    assert!(!denied.exists());
}

/// On a file system that folds case or Unicode forms each of these would be the denied file.
#[test]
fn case_and_unicode_variants_of_a_denied_name_do_not_open_it() {
    let yard = Yard::new();
    let folder = yard.scratch().path();
    yard.scratch().write("clé", SECRET);
    let denied = [folder.join("clé"), yard.secret()];
    let variants = [
        "SECRET",
        "Secret",
        "secret ",
        "secret.",
        "secret\u{200d}",
        "ſecret",
        "ｓecret",
        "secret\u{fe0f}",
        "./secret/.",
        "cle\u{301}",
        "CLÉ",
        "clé",
        "secret/",
        "secret//",
        "secret/../secret",
    ];
    let mut script = Script::new();
    for variant in variants {
        script = script.open(folder.join(variant), O_RDONLY);
    }
    for (index, _) in variants.iter().enumerate() {
        script = script.read(index);
    }
    assert!(script.outside().shows(SECRET), "one of them is the denied name itself");
    for more in EVERY_WAY {
        let flags = ["--deny-read", denied[0].to_str().unwrap(), "--deny-read", denied[1].to_str().unwrap()];
        let told = script.inside(&[&flags[..], more].concat());
        assert!(!told.shows(SECRET), "{told:?}");
    }
}

/// What can be asked about a name below a hidden folder has one answer, whether it exists or not.
#[test]
fn no_call_tells_whether_a_hidden_name_exists() {
    let yard = Yard::new();
    let ask = |name: &str| {
        let path: PathBuf = yard.secrets().join(name);
        Script::new()
            .call(libc::SYS_mkdir, args![&path, 0o755])
            .call(libc::SYS_mknod, args![&path, libc::S_IFREG | 0o600, 0])
            .call(libc::SYS_symlink, args!["x", &path])
            .open(&path, O_RDONLY)
            .open(&path, O_WRONLY | O_CREAT | O_EXCL)
            .call(libc::SYS_access, args![&path, 0])
            .call(libc::SYS_unlink, args![&path])
            .call(libc::SYS_rmdir, args![&path])
            .call(libc::SYS_rename, args![&path, &yard.work().join("x")])
            .call(libc::SYS_rename, args![&yard.work().join("mine"), &path])
            .call(libc::SYS_link, args![&path, &yard.work().join("x")])
            .call(libc::SYS_truncate, args![&path, 0])
            .call(libc::SYS_chmod, args![&path, 0o777])
            .call(libc::SYS_chdir, args![&path])
            .call(libc::SYS_readlink, args![&path, kennel_tests::probe::Arg::Zeros(16), 16])
            .call(libc::SYS_inotify_init1, args![0])
            .call(libc::SYS_inotify_add_watch, args![kennel_tests::probe::Arg::Answer(15), &path, 0xfff])
    };
    assert_ne!(ask("key").outside().errno(0), ask("no-such-key").outside().errno(0), "outside mkdir tells");
    std::fs::remove_dir_all(yard.secrets()).unwrap();
    yard.scratch().write("secrets/key", SECRET);
    yard.scratch().write("work/mine", "mine");
    for more in EVERY_WAY {
        let flags = yard.flags(more);
        let (there, missing) = (ask("key").inside(&refs(&flags)), ask("no-such-key").inside(&refs(&flags)));
        for index in 0..17 {
            assert_eq!(there.errno(index), missing.errno(index), "call {index} with {more:?}");
        }
    }
    // Under listed reads the same holds for everything that is not listed.
    let flags = ["--reads", "listed", "--allow-read", kennel_tests::probe::executable().to_str().unwrap()];
    let (there, missing) = (ask("key").inside(&flags), ask("no-such-key").inside(&flags));
    for index in 0..17 {
        assert_eq!(there.errno(index), missing.errno(index), "call {index} under listed reads");
    }
    there.refused(3, &[ENOENT]);
}
