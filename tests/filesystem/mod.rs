//! The file rules, through the built binary, against real files: what can be read, what can be written, what is
//! hidden, and that nothing of a run is left on the host's disk.

mod denials;
mod globs;
mod held;
mod homes;
mod host_mounts;
mod models;
mod mounts;
mod names;
mod obeyed;
mod old_kernel;
mod own_settings;
mod planted;
mod precedence;
mod race;
mod special;
mod stalled;
mod symlinks;
mod vanished;
mod wide;
mod zones;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{Ran, Scratch, kennel, ran};

/// Flags that each take a path.
fn flags<P: AsRef<OsStr>>(rules: impl IntoIterator<Item = (&'static str, P)>) -> Vec<OsString> {
    rules.into_iter().flat_map(|(flag, path)| [OsString::from(flag), path.as_ref().to_owned()]).collect()
}

/// `kennel run FLAGS -- sh -c SCRIPT sh PATHS…`, so that `$1` is the first path, whatever bytes it holds. Messages of
/// the programs inside are in English.
fn command(rules: &[OsString], script: &str, paths: &[&Path]) -> Command {
    let mut command = kennel(["run"]);
    command.args(rules).args(["--", "sh", "-c", script, "sh"]).args(paths).env("LC_ALL", "C");
    command
}

fn inside(rules: &[OsString], script: &str, paths: &[&Path]) -> Ran {
    ran(&mut command(rules, script, paths))
}

/// The same script without a sandbox: what makes a refusal inside mean something.
#[track_caller]
fn outside(script: &str, paths: &[&Path]) -> Ran {
    ran(Command::new("sh").args(["-c", script, "sh"]).args(paths).env("LC_ALL", "C")).ok()
}

#[track_caller]
fn can_read(rules: &[OsString], path: &Path) {
    inside(rules, "cat < \"$1\"", &[path]).ok();
}

/// Reading fails with a message of the system's, not by a failure of kennel or of the shell.
#[track_caller]
fn cannot_read(rules: &[OsString], path: &Path) {
    let ran = inside(rules, "cat -- \"$1\" && exit 9; exit 7", &[path]).expect_code(7);
    let said = ["Permission denied", "No such file or directory"];
    assert!(said.iter().any(|said| ran.stderr.contains(said)), "{}", ran.stderr);
}

/// Appends to a file, and the host sees it.
#[track_caller]
fn can_write(rules: &[OsString], path: &Path) {
    let before = size(path);
    inside(rules, "echo more >> \"$1\"", &[path]).ok();
    assert_eq!(size(path), before + 5, "{} did not change on the host", path.display());
}

/// Tries every way a shell has to change a file, and the host's stays as it was.
#[track_caller]
fn cannot_write(rules: &[OsString], path: &Path) {
    let before = (std::fs::read(path).ok(), std::fs::symlink_metadata(path).ok().map(|data| data.ino()));
    let script = "(echo more >> \"$1\") 2>&1 && exit 9
                  (echo more > \"$1\") 2>&1 && exit 9
                  mv -- \"$1\" \"$1.moved\" 2>&1 && exit 9
                  rm -f -- \"$1.moved\" 2>/dev/null # the copy that mv made before it could not remove
                  test -e \"$1\" && rm -f -- \"$1\" 2>&1 && exit 9
                  chmod 777 -- \"$1\" 2>&1 && exit 9
                  touch -- \"$1\" 2>&1 && exit 9
                  exit 7";
    inside(rules, script, &[path]).expect_code(7);
    let after = (std::fs::read(path).ok(), std::fs::symlink_metadata(path).ok().map(|data| data.ino()));
    assert_eq!(before, after, "{} changed on the host", path.display());
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

/// A project beside a home with secrets: what most tests need. The files hold their own names.
struct Tree {
    scratch: Scratch,
}

impl Tree {
    fn new() -> Tree {
        let scratch = Scratch::new();
        for name in [
            "project/main.c",
            "project/sub/notes",
            "project/sub/deep/more",
            "home/profile",
            "home/.ssh/id",
            "home/.ssh/known/hosts",
            "other/file",
        ] {
            scratch.write(name, name);
        }
        Tree { scratch }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Fails unless every name below is there that was there before, and no other.
    #[track_caller]
    fn same_names_after(&self, work: impl FnOnce()) {
        let before = self.scratch.listing();
        work();
        assert_eq!(before, self.scratch.listing(), "a run left something behind, or took something away");
    }
}

/// A Python that an ordinary user may run, for what a shell cannot do. Says so where there is none.
fn python() -> Option<PathBuf> {
    let found = kennel_tests::world::python();
    if found.is_none() {
        kennel_tests::skipped("python3 is not installed");
    }
    found
}
