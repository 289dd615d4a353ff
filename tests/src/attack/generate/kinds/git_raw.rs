//! Repositories by raw bytes: what git on the host would run, obey or write through.

use std::ffi::OsStr;

use crate::attack::generate::Draft;
use crate::attack::word;

/// Names in a repository's folder that git reads or writes.
const NAMES: &[&str] = &[
    "HEAD",
    "index",
    "packed-refs",
    "shallow",
    "COMMIT_EDITMSG",
    "TAG_EDITMSG",
    "NOTES_EDITMSG",
    "MERGE_MSG",
    "SQUASH_MSG",
    "MERGE_HEAD",
    "FETCH_HEAD",
    "ORIG_HEAD",
    "AUTO_MERGE",
    "logs",
    "logs/HEAD",
    "logs/refs",
    "logs/refs/heads",
    "logs/refs/heads/main",
    "refs",
    "refs/heads",
    "refs/heads/main",
    "refs/heads/new",
    "refs/stash",
    "refs/tags",
    "objects",
    "objects/info",
    "objects/pack",
    "objects/info/alternates",
    "objects/info/commit-graph",
    "objects/info/packs",
    "info",
    "info/attributes",
    "info/exclude",
    "info/refs",
    "info/sparse-checkout",
    "rr-cache",
    "worktrees",
    "modules",
    "lost-found",
    "commondir",
    "gitdir",
    "config",
    "config.worktree",
    "config.lock",
    "index.lock",
    "HEAD.lock",
    "packed-refs.lock",
    "packed-refs.new",
    "hooks/post-checkout",
    "hooks/post-commit",
    "hooks",
    "rebase-merge",
    "sequencer",
    "gc.log",
    "worktrees/o/gitdir",
    "worktrees/o/commondir",
    "worktrees/o/HEAD",
    "description",
    "branches",
    "remotes/origin",
];
/// What is written at them.
const TEXTS: &[&str] = &[
    "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch {mark};false\"\n",
    "#!/bin/sh\ntouch {mark}\n",
    "{top}/w/evil/.git\n",
    "{top}/wt/evil/.git\n",
    "ref: refs/heads/main\n",
    "ref: refs/heads/../../../out/victim\n",
    "gitdir: {top}/w/evil/.git\n",
    "* filter=x\n",
    "# pack-refs with: peeled fully-peeled sorted \n",
    "DIRC\0\0\0\u{2}\0\0\0\0",
    "0000000000000000000000000000000000000000\n",
];
/// Where links lead.
const LEAD: &[&str] = &[
    "{top}/out/victim",
    "{top}/home/.bashrc",
    "{top}/out",
    "config",
    "../config",
    "../../config",
    "../one",
    "{top}/out/new",
    "..",
];
/// Paths of an index.
const PATHS: &[&str] = &[
    ".git/hooks/post-checkout",
    ".git/config",
    "../out/victim",
    "../out/new",
    "a/../../out/new",
    "sub/.git/config",
    "n/.git/HEAD",
    ".GIT/hooks/post-checkout",
    "d",
    "d/new",
    "tracked",
    "./x",
    "a//b",
    "..",
    ".git",
];
const MODES: &[&str] = &["100755", "100755", "100644", "120000", "160000"];

/// A text as one word; what stands in braces stays as it is.
fn text(text: &str) -> String {
    let escaped = word::escape(OsStr::new(text));
    escaped.replace("%7Bmark%7D", "{mark}").replace("%7Btop%7D", "{top}")
}

impl Draft<'_> {
    pub(in crate::attack::generate) fn git_raw(&mut self) {
        let worktree = self.rng.chance(45);
        let folder = if worktree { "wt" } else { "w" };
        if worktree {
            self.node("repo main");
            self.node("worktree wt main");
        } else {
            self.node("repo w");
        }
        self.node("file out/victim");
        self.node("file home/.bashrc");
        self.run().flags.retain(|(flag, _)| {
            !matches!(
                flag.as_str(),
                "--allow-write" | "--git" | "--profile" | "--reads" | "--precedence" | "--mount" | "--tmpfs"
            )
        });
        self.run().cwd = folder.into();
        if self.rng.chance(30) {
            self.flag("--profile", "agent");
        } else {
            let usual = "hooks-and-config-read-only";
            let level = self.pick(&[usual, usual, "hooks-read-only"]);
            self.flag("--allow-write", folder);
            self.flag("--git", level);
        }
        // What a commondir or a pointer may lead to.
        let evil = format!("{folder}/evil");
        let setting = format!("put {evil}/.git/config {}", text(TEXTS[0]));
        self.inside(0, &[format!("git {folder} init -q evil"), setting]);
        let own = if worktree { "main/.git/worktrees/wt" } else { "w/.git" };
        for _ in 0..self.rng.between(1, 4) {
            let repository = match (worktree, self.rng.below(6)) {
                (true, 0..=3) => "main/.git".to_owned(),
                (_, 0..=3) => own.to_owned(),
                (true, 4) => own.to_owned(),
                _ => {
                    self.inside(
                        0,
                        &[
                            format!("git {folder} init -q n"),
                            format!("git {folder}/n commit -q --allow-empty -m x"),
                        ],
                    );
                    format!("{folder}/n/.git")
                }
            };
            let lines = self.raw(&repository);
            self.inside(0, &lines);
        }
        if worktree && self.rng.chance(70) {
            self.inside(0, &["sync 5"]);
            self.host(&["await 5", "gitlook main", "go 5"]);
        }
    }

    /// Something at a name of git's.
    fn raw(&mut self, repository: &str) -> Vec<String> {
        let name = format!("{repository}/{}", self.pick(NAMES));
        let aside = || format!("rename {name} {name}.old");
        match self.rng.below(10) {
            0..=2 => {
                let mut line = format!("gitindex {repository}/index");
                for _ in 0..self.rng.between(1, 3) {
                    line += &format!(" {}:{}", self.pick(MODES), self.pick(PATHS));
                }
                vec![line]
            }
            3..=6 => {
                let lead = self.pick(LEAD);
                let mut lines = vec![aside(), format!("symlink {lead} {name}")];
                // What is written there is chosen, too.
                if self.rng.chance(30) {
                    lines.push(format!("put {repository}/MERGE_MSG {}", text(TEXTS[0])));
                    lines.push(format!("copy {repository}/refs/heads/main {repository}/MERGE_HEAD"));
                }
                lines
            }
            7 => vec![aside(), format!("link {repository}/config {name}")],
            8 => vec![format!("mkdir {name}")],
            _ => {
                let what = self.pick(TEXTS);
                vec![aside(), format!("put {name} {}", text(what))]
            }
        }
    }
}
