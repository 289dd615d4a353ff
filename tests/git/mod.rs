//! Git repositories in what a sandbox can write: git's own commands work as far as the level lets them, and nothing
//! that git on the host would run later can be changed.

mod commands;
mod handed_back;
mod host_commands;
mod kept;
mod large;
mod programs;
mod search;
mod shapes;
mod worktrees;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kennel_tests::{Ran, Scratch, kennel, program, ran, skipped};

/// What commits need, and nothing of the caller's own configuration.
const GIT_ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ("GIT_EDITOR", "true"),
    // Submodules of the disk are refused otherwise.
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "protocol.file.allow"),
    ("GIT_CONFIG_VALUE_0", "always"),
    ("GIT_CONFIG_KEY_1", "init.defaultBranch"),
    ("GIT_CONFIG_VALUE_1", "main"),
];

const HOOKS: &str = "hooks-and-config-read-only";
const METADATA: &str = "metadata-read-only";

/// A folder with repositories in it; `None`, and said so, where there is no git.
struct Yard {
    scratch: Scratch,
}

impl Yard {
    #[must_use]
    fn new() -> Option<Yard> {
        if program("git").is_none() {
            skipped("git is not installed");
            return None;
        }
        Some(Yard { scratch: Scratch::new() })
    }

    /// The same with a repository `repo` of two commits and a file that is not committed yet.
    #[must_use]
    fn with_repository() -> Option<Yard> {
        let yard = Yard::new()?;
        yard.repository("repo");
        Some(yard)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    fn write(&self, name: &str, contents: &str) -> PathBuf {
        self.scratch.write(name, contents)
    }

    /// Makes a repository with two commits.
    fn repository(&self, name: &str) -> PathBuf {
        let path = self.scratch.dir(name);
        self.host(&path, "git init -q . && echo 1 > one && git add one && git commit -qm one && echo 2 > two && git add two && git commit -qm two && echo 3 > three");
        path
    }

    /// Runs a script outside, which has to succeed.
    #[track_caller]
    fn host(&self, folder: &Path, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(folder).stdin(Stdio::null());
        ran(command.envs(GIT_ENVIRONMENT.iter().copied()).env("HOME", self.scratch.path())).ok().stdout
    }

    /// Runs a script inside, in a folder that can be written.
    fn inside(&self, level: &str, folder: &Path, script: &str) -> Ran {
        self.inside_with(&["--git", level], folder, script)
    }

    fn inside_with(&self, flags: &[&str], folder: &Path, script: &str) -> Ran {
        let mut command = kennel(["run", "--no-settings", "--allow-write"]);
        command.arg(folder).args(flags).args(["--", "sh", "-c", script]).current_dir(folder);
        ran(command.envs(GIT_ENVIRONMENT.iter().copied()).env("HOME", self.scratch.path()))
    }

    /// Every path and its contents below a folder, to compare before and after.
    fn picture(&self, folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut picture = Vec::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path.clone());
                }
                let contents = std::fs::read(&path).or_else(|_| {
                    std::fs::read_link(&path).map(|to| to.into_os_string().into_encoded_bytes())
                });
                picture.push((path, contents.unwrap_or_default()));
            }
        }
        picture.sort();
        picture
    }

    /// Tries each line in a shell of its own; every one has to fail, and nothing that is there before may change.
    #[track_caller]
    fn none_of(&self, level: &str, folder: &Path, tries: &[&str]) {
        let before = self.picture(self.scratch.path());
        for line in tries {
            let ran = self.inside(level, folder, line);
            assert_ne!(ran.code, 0, "this worked: {line}\n{}{}", ran.stdout, ran.stderr);
            assert_ne!(ran.code, 125, "kennel itself failed: {line}\n{}", ran.stderr);
            let after = self.picture(self.scratch.path());
            let changed: Vec<_> = before
                .iter()
                .filter(|old| after.binary_search(old).is_err())
                .chain(after.iter().filter(|new| before.binary_search(new).is_err()))
                .map(|(path, _)| path)
                .collect();
            assert!(changed.is_empty(), "{line} changed {changed:?}");
        }
    }
}
