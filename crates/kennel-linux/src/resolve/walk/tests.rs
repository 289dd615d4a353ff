//! A large tree is the same tree, by whomever it is gone through.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kennel_policy::pattern::PathPattern;

use super::*;

/// A folder of its own for each test, removed with the value.
struct Yard(PathBuf);

impl Yard {
    fn new(name: &str) -> Yard {
        let path = std::env::temp_dir().join(format!("kennel-walk-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Yard(path)
    }

    fn folder(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn file(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    /// Searches for repositories everywhere and for files called `*.key`, alone or with others from the start.
    fn search(&self, alone: Duration) -> Result<Vec<Seen>, WalkError> {
        let pattern = PathPattern::parse(format!("{}/**/*.key", self.0.display())).unwrap();
        let search = Search {
            patterns: &[&pattern],
            repositories: &BTreeSet::from([self.0.clone()]),
            ..Search::of(&[])
        };
        walk_alone_for(alone, &search, None).map(|walked| walked.seen)
    }

    /// Repositories alone: then most folders are not listed.
    fn repositories(&self, alone: Duration) -> Vec<Seen> {
        let search = Search { repositories: &BTreeSet::from([self.0.clone()]), ..Search::of(&[]) };
        walk_alone_for(alone, &search, None).unwrap().seen
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Fills a tree with repositories of every kind among thousands of folders. Returns what there is to find.
fn large(yard: &Yard) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut tell = |path: PathBuf, what| seen.push(Seen { path, what });
    for part in 0..30 {
        for module in 0..100 {
            yard.file(&format!("{part}/module-{module}/file"));
        }
        tell(yard.folder(&format!("{part}/repository/.git")), What::DotGit);
        tell(yard.file(&format!("{part}/worktree/.git")), What::DotGit);
        tell(yard.folder(&format!("{part}/a/b/c/d/nested/.git")), What::DotGit);
        tell(yard.folder(&format!("{part}/node_modules/package/.git")), What::DotGit);
        tell(yard.folder(&format!("{part}/node_modules/@scope/package/.git")), What::DotGit);
        yard.folder(&format!("{part}/node_modules/package/lib/.git"));
        let link = yard.folder(&format!("{part}/linked")).join(".git");
        symlink("../repository/.git", &link).unwrap();
        tell(link, What::DotGit);
        for name in ["HEAD", "objects/x", "refs/x"] {
            yard.file(&format!("{part}/bare.git/{name}"));
        }
        tell(yard.folder(&format!("{part}/bare.git")), What::Bare);
        yard.file(&format!("{part}/apart/commondir"));
        yard.file(&format!("{part}/apart/HEAD"));
        tell(yard.folder(&format!("{part}/apart")), What::Bare);
        symlink("repository", yard.0.join(format!("{part}/link"))).unwrap();
    }
    seen.sort_by_cached_key(|seen| (key(&seen.path), seen.what));
    seen
}

#[test]
fn one_thread_and_several_find_the_same_in_the_same_order() {
    let yard = Yard::new("large");
    let mut expected = large(&yard);
    for alone in [Duration::MAX, Duration::ZERO, Duration::ZERO, Duration::ZERO] {
        assert_eq!(yard.repositories(alone), expected, "alone for {alone:?}");
    }
    for part in 0..30 {
        let path = yard.file(&format!("{part}/module-7/site.key"));
        expected.push(Seen { path, what: What::Match(0) });
    }
    expected.sort_by_cached_key(|seen| (key(&seen.path), seen.what));
    for alone in [Duration::MAX, Duration::ZERO, Duration::ZERO] {
        assert_eq!(yard.search(alone).unwrap(), expected, "with a glob, alone for {alone:?}");
    }
}

#[test]
fn folders_that_come_and_go_meanwhile_hide_none_of_the_others() {
    let yard = Yard::new("vanishing");
    let expected = large(&yard);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for part in 0..30 {
                    yard.folder(&format!("{part}/short/lived"));
                }
                for part in 0..30 {
                    fs::remove_dir_all(yard.0.join(format!("{part}/short"))).unwrap();
                }
            }
        });
        for _ in 0..10 {
            assert_eq!(yard.repositories(Duration::ZERO), expected);
        }
        over.store(true, Ordering::Relaxed);
    });
}
