//! Repositories, and what git on the host would run later.

use crate::attack::generate::Draft;

impl Draft<'_> {
    /// Repositories, and what git on the host would run later.
    pub(in crate::attack::generate) fn git(&mut self) {
        const EVIL: &str = "[core]%0A%09repositoryformatversion%20=%200%0A%09bare%20=%20false%0A%09fsmonitor%20=%20%22touch%20{mark};false%22%0A";
        const EVIL_TREE: &str = "[core]%0A%09repositoryformatversion%20=%200%0A%09bare%20=%20false%0A%09worktree%20=%20.%0A%09fsmonitor%20=%20%22touch%20{mark};false%22%0A";
        const SCRIPT: &str = "%23!/bin/sh%0Atouch%20{mark}%0A";
        if self.rng.chance(80) {
            self.node("repo w");
        }
        if self.rng.chance(30) {
            self.node("repo w/sub");
        }
        self.run().flags.retain(|(flag, _)| {
            !matches!(flag.as_str(), "--allow-write" | "--git" | "--profile" | "--reads" | "--precedence")
        });
        if self.rng.chance(30) {
            self.flag("--profile", "agent");
        } else {
            let level = self.pick(&[
                "hooks-and-config-read-only",
                "hooks-and-config-read-only",
                "hooks-read-only",
                "metadata-read-only",
            ]);
            self.flag("--allow-write", "w");
            self.flag("--git", level);
        }
        for _ in 0..self.rng.between(1, 3) {
            let folder = self.pick(&["w", "w/sub", "w/evil", "w/sub/deep"]);
            let lines: Vec<String> = match self.rng.below(10) {
                // The folder itself as a bare repository in disguise.
                0..=1 => vec![
                    format!("rename {folder}/.git/HEAD {folder}/.git/H"),
                    format!("mkdir {folder}/objects"),
                    format!("mkdir {folder}/refs"),
                    format!("put {folder}/HEAD ref:%20refs/heads/main%0A"),
                    format!("put {folder}/config {EVIL_TREE}"),
                ],
                // A repository of its own, which the one above lists.
                2..=3 => vec![
                    format!("git w init -q {}", folder.trim_start_matches("w/").replace('w', "evil")),
                    format!("git {folder} commit -q --allow-empty -m x"),
                    format!("put {folder}/.git/config {EVIL}"),
                    format!("git w add {}", folder.trim_start_matches("w/")),
                ],
                4 => vec![
                    format!("mkdir {folder}/.git"),
                    format!("mkdir {folder}/.git/objects"),
                    format!("mkdir {folder}/.git/refs"),
                    format!("put {folder}/.git/HEAD ref:%20refs/heads/main%0A"),
                    format!("put {folder}/.git/config {EVIL}"),
                ],
                5 => vec![
                    format!("put {folder}/.git/hooks/post-index-change {SCRIPT}"),
                    format!("put {folder}/.git/hooks/pre-commit {SCRIPT}"),
                ],
                6 => vec![
                    format!("put {folder}/.git/config {EVIL}"),
                    format!("put {folder}/.git/config.worktree {EVIL}"),
                ],
                // A pointer to a repository that is somewhere else.
                7 => vec![
                    "mkdir w/store".into(),
                    "mkdir w/store/objects".into(),
                    "mkdir w/store/refs".into(),
                    "put w/store/HEAD ref:%20refs/heads/main%0A".into(),
                    format!("put w/store/config {EVIL}"),
                    format!("rename {folder}/.git {folder}/.git.old"),
                    format!("put {folder}/.git gitdir:%20{{top}}/w/store%0A"),
                ],
                8 => vec![
                    format!("put {folder}/.git/commondir ../store%0A"),
                    "mkdir w/store".into(),
                    format!("put w/store/config {EVIL}"),
                ],
                _ => vec![
                    format!("rename {folder}/.git {folder}/.git2"),
                    format!("git {folder} init -q"),
                    format!("put {folder}/.git/config {EVIL}"),
                ],
            };
            self.inside(0, &lines);
        }
        if self.rng.chance(20) {
            let line = self.pick(&["gitconfig w", "gitinit w/sub"]);
            self.host(&["await 3", line, "go 3"]);
            let after =
                self.pick(&["append w/.git/config", "write w/.git/config", "put w/sub/.git/config x"]);
            self.inside(0, &["sync 3", after]);
        }
    }
}
