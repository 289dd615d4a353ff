//! The last look, at any point of which the time may be over.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::policy::GitLevel;
use rustix::fs::{CWD, Mode, OFlags};

use super::budget::Budget;
use super::repository::Judge;
use super::{Handback, Held, SetAside, What, identity, walk};
use crate::resolve::guard_rules::Anchor;

/// Repositories that have git run something, near the top and far below it, some in each other.
const PLACES: [&str; 9] =
    ["a", "b/x", "c/d/e/f/g/h/i", "c/d/e/f/g/z", "c/d/y", "s/t/u/v/w/n", "s/t/u/v/w/n/m", "k/l", "q"];

fn tree(top: &Path) {
    for place in PLACES {
        let git = top.join(place).join(".git");
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::create_dir_all(git.join("refs")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), "[core]\n\tfsmonitor = evil\n").unwrap();
    }
    fs::write(top.join("k/kept"), "mine").unwrap();
}

fn look(top: &Path, time: Duration) -> Vec<SetAside> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, top, flags, Mode::empty()).unwrap();
    let root = Anchor { path: top.to_path_buf(), identity: identity(opened.as_fd()).unwrap() };
    let handback = Handback {
        level: GitLevel::HooksAndConfigReadOnly,
        roots: vec![root],
        known: HashMap::new(),
        personal: Default::default(),
        names: None,
    };
    let roots = [Held::new(&handback.roots[0], true).unwrap()];
    let (before, budget) = (HashMap::new(), Budget::of_time(time));
    let judge = Judge { handback: &handback, roots: &roots, before: &before, since: None, budget: &budget };
    walk::look_through(&judge, None)
}

/// Files that have git run something and that nobody locked away.
fn armed(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.metadata().unwrap().permissions().mode() & 0o7777 != 0 {
            armed(&path, found);
        } else if kind.is_file()
            && path.file_name().unwrap() == "config"
            && fs::read_to_string(&path).unwrap().contains("fsmonitor")
        {
            found.push(path);
        }
    }
}

#[test]
fn what_is_not_looked_at_in_time_is_locked_away_as_a_whole_and_told() {
    let top = std::env::temp_dir().join(format!("kennel-last-look-{}", std::process::id()));
    let mut locked_at = Vec::new();
    for time in [0, 50, 100, 200, 400, 800, 1600, 60_000_000].map(Duration::from_micros) {
        fs::create_dir_all(&top).unwrap();
        tree(&top);
        let told = look(&top, time);
        let locked: Vec<&SetAside> =
            told.iter().filter(|found| matches!(found.what, What::Locked(_))).collect();
        let mut left = Vec::new();
        armed(&top, &mut left);
        assert!(left.is_empty(), "{time:?}: {left:?} {told:?}");
        assert!(told.iter().all(|found| found.error.is_none()), "{told:?}");
        // What is locked away is told of, and one command undoes it.
        for found in &locked {
            let now = found.moved_to.as_deref().unwrap_or(&found.path);
            assert_eq!(fs::metadata(now).unwrap().permissions().mode() & 0o7777, 0);
            assert!(found.put_back().unwrap().starts_with("chmod 755 "), "{found}");
        }
        locked_at.push(locked.len());
        // All is there still. The inner ones come last.
        for found in locked.iter().rev() {
            let now = found.moved_to.as_deref().unwrap_or(&found.path);
            fs::set_permissions(now, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut files = 0;
        count(&top, "fsmonitor", &mut files);
        assert_eq!(files, PLACES.len(), "{time:?}");
        fs::remove_dir_all(&top).unwrap();
    }
    assert!(locked_at[0] > 0 && locked_at.last() == Some(&0), "{locked_at:?}");
}

fn count(folder: &Path, text: &str, files: &mut usize) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            count(&entry.path(), text, files);
        } else {
            *files += usize::from(fs::read_to_string(entry.path()).unwrap_or_default().contains(text));
        }
    }
}
