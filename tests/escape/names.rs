//! Names: those that do not exist yet, those that look alike, and what an error tells about them.

use std::path::PathBuf;

use kennel_tests::probe::{Arg, Script, open_how, probe_inside, probe_outside};
use kennel_tests::{args, ran, run_sh};
use libc::{ENOENT, O_CREAT, O_EXCL, O_RDONLY, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

/// A mount needs something to be mounted on. What keeps the name from appearing has to know every way in which a name
/// comes into a folder.
#[test]
#[kennel_claim::claim("files/absent-denied-paths-stay-absent")]
fn a_denied_path_cannot_be_created_later() {
    let yard = Yard::new();
    let work = yard.work();
    let at = libc::AT_FDCWD;
    for list in ["--deny-read", "--deny-write"] {
        let (later, below) = (work.join("later"), work.join("folder/later"));
        let (mine, other) = (work.join("mine"), work.join("other"));
        yard.scratch().dir("work/folder");
        yard.scratch().write("work/other/later", "evil");
        std::os::unix::fs::symlink(&work, work.join("link")).unwrap();
        let folder = work.join("folder");
        let ways = [
            Script::new().open(&later, O_WRONLY | O_CREAT),
            Script::new().open(work.join("link/later"), O_WRONLY | O_CREAT),
            Script::new().open(work.join("folder/../later"), O_WRONLY | O_CREAT | O_EXCL),
            Script::new().open(format!("/proc/self/root{}", later.display()), O_WRONLY | O_CREAT),
            Script::new().open(&work, libc::O_PATH).open("/proc/self/fd/3/later", O_WRONLY | O_CREAT),
            Script::new()
                .open(&work, O_RDONLY)
                .call(libc::SYS_openat, args![Arg::Answer(0), "later", O_WRONLY | O_CREAT, 0o600]),
            Script::new().call(libc::SYS_chdir, args![&work]).open("later", O_WRONLY | O_CREAT),
            Script::new().call(libc::SYS_openat2, args![at, &later, open_how(O_WRONLY | O_CREAT, 0), 24]),
            Script::new().call(libc::SYS_mkdirat, args![at, &later, 0o755]),
            Script::new().call(libc::SYS_mknodat, args![at, &later, libc::S_IFREG | 0o600, 0]),
            Script::new().call(libc::SYS_mknodat, args![at, &later, libc::S_IFIFO | 0o600, 0]),
            Script::new().call(libc::SYS_symlinkat, args!["mine", at, &later]),
            Script::new().call(libc::SYS_linkat, args![at, &mine, at, &later, 0]),
            Script::new().call(libc::SYS_renameat2, args![at, &mine, at, &later, 0]),
            Script::new().call(libc::SYS_renameat2, args![at, &mine, at, &later, 1]),
            Script::new()
                .open(&work, libc::O_TMPFILE | O_WRONLY)
                .call(libc::SYS_linkat, args![at, "/proc/self/fd/3", at, &later, libc::AT_SYMLINK_FOLLOW]),
            Script::new().open(&below, O_WRONLY | O_CREAT),
            // The name comes with the folder that holds it.
            Script::new().call(libc::SYS_renameat2, args![at, &other, at, &folder, 0]),
            Script::new().call(libc::SYS_renameat2, args![at, &other, at, &folder, 2]),
            Script::new()
                .call(libc::SYS_unlinkat, args![at, &folder, libc::AT_REMOVEDIR])
                .call(libc::SYS_symlinkat, args!["other", at, &folder]),
        ];
        let flags = [list, later.to_str().unwrap(), list, below.to_str().unwrap()];
        let flags = [&["--allow-write", work.to_str().unwrap()], &flags[..]].concat();
        for way in &ways {
            for more in [&[][..], &["--seccomp", "permissive"], &["--seccomp", "none"]] {
                let told = ran(&mut probe_inside("calls", &[&flags[..], more].concat(), way.words()));
                assert!(
                    !later.exists() && !below.exists(),
                    "{list} {more:?}: it appeared by {way:?}: {told:?}"
                );
                let told = told.ok();
                let last =
                    told.stdout.lines().last().and_then(|line| line.split(" ").next()).unwrap_or_default();
                // openat2 is refused as a whole where the host's files can be written.
                let refused = [libc::EROFS, libc::ENOSYS].map(|errno| format!("-{errno}"));
                assert!(refused.contains(&last.to_owned()), "{list} {more:?}: {way:?}: {told:?}");
            }
        }
        // Outside, each of them makes one.
        for way in &ways {
            let told = ran(&mut probe_outside("calls", way.words())).ok();
            assert!(later.symlink_metadata().is_ok() || below.exists(), "{way:?}: {told:?}");
            std::fs::remove_dir_all(&work).unwrap();
            yard.scratch().dir("work/folder");
            yard.scratch().write("work/mine", "mine");
            yard.scratch().write("work/other/later", "evil");
            std::os::unix::fs::symlink(&work, work.join("link")).unwrap();
        }
        std::fs::remove_dir_all(&work).unwrap();
        yard.scratch().write("work/mine", "mine");
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
#[kennel_claim::claim("files/denied-paths-are-unreadable")]
fn no_call_tells_whether_a_hidden_name_exists() {
    let yard = Yard::new();
    let ask = |name: &str| {
        let path: PathBuf = yard.secrets().join(name);
        Script::new()
            .call(libc::SYS_mkdirat, args![libc::AT_FDCWD, &path, 0o755])
            .call(libc::SYS_mknodat, args![libc::AT_FDCWD, &path, libc::S_IFREG | 0o600, 0])
            .call(libc::SYS_symlinkat, args!["x", libc::AT_FDCWD, &path])
            .open(&path, O_RDONLY)
            .open(&path, O_WRONLY | O_CREAT | O_EXCL)
            .call(libc::SYS_faccessat, args![libc::AT_FDCWD, &path, 0])
            .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, &path, 0])
            .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, &path, libc::AT_REMOVEDIR])
            .call(
                libc::SYS_renameat2,
                args![libc::AT_FDCWD, &path, libc::AT_FDCWD, &yard.work().join("x"), 0],
            )
            .call(
                libc::SYS_renameat2,
                args![libc::AT_FDCWD, &yard.work().join("mine"), libc::AT_FDCWD, &path, 0],
            )
            .call(libc::SYS_linkat, args![libc::AT_FDCWD, &path, libc::AT_FDCWD, &yard.work().join("x"), 0])
            .call(libc::SYS_truncate, args![&path, 0])
            .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, &path, 0o777])
            .call(libc::SYS_chdir, args![&path])
            .call(libc::SYS_readlinkat, args![libc::AT_FDCWD, &path, Arg::Zeros(16), 16])
            .call(libc::SYS_inotify_init1, args![0])
            .call(libc::SYS_inotify_add_watch, args![Arg::Answer(15), &path, 0xfff])
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
