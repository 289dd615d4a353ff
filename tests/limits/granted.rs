//! An ordinary user on cgroup v1, to whom an administrator has given a folder in each hierarchy.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kennel_tests::probe::executable;
use kennel_tests::{Scratch, am_root, kennel, kennel_bin, ran, ran_within, skipped};

use crate::limits::refusals::STRANGER;
use crate::limits::{PATIENCE, is_unified};

/// Held by those to whom it matters whether a stranger has folders.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folders, as docs/limits.md tells an administrator to make them. Those that were made go with the value.
struct Folders(Vec<PathBuf>);

impl Folders {
    fn grant(user: u32) -> io::Result<Folders> {
        let mut made = Folders(Vec::new());
        for controller in ["memory", "cpu", "cpuacct", "pids", "freezer"] {
            let folder = PathBuf::from(format!("/sys/fs/cgroup/{controller}/kennel"));
            match fs::create_dir(&folder) {
                Ok(()) => made.0.push(folder.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            chown(&folder, Some(user), None)?;
        }
        Ok(made)
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn a_user_with_folders_of_their_own_has_the_same_limits() {
    if !am_root() {
        return skipped("only root can give folders to somebody");
    }
    if is_unified() {
        return skipped("this host has no cgroup v1");
    }
    let _turn = turn();
    let mut try_it = kennel(["version"]);
    if ran_within(PATIENCE, try_it.uid(STRANGER).gid(STRANGER)).code != 0 {
        return skipped("an ordinary user cannot run the kennel under test");
    }
    let folders = match Folders::grant(STRANGER) {
        Ok(folders) => folders,
        Err(error) => return skipped(&format!("the hierarchies cannot be written: {error}")),
    };
    let home = Scratch::new();
    chown(home.path(), Some(STRANGER), Some(STRANGER)).expect("root can give a folder away");
    let mut suite = std::process::Command::new(executable());
    suite.uid(STRANGER).gid(STRANGER).current_dir(home.path());
    suite.env("HOME", home.path()).env("KENNEL_BIN", kennel_bin()).env("KENNEL_TEST_NEEDS_CGROUPS", "1");
    suite.args(["limits::memory::", "limits::processes::", "limits::cgroups::what", "--test-threads=2"]);
    let ran = ran(&mut suite);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains("SKIPPED") && ran.stdout.contains("test result: ok"), "{}", ran.stdout);
    drop(folders);
    assert!(!PathBuf::from("/sys/fs/cgroup/memory/kennel").exists(), "something was left in the folder");
}
