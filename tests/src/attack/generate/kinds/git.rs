//! Repositories, and what git on the host would run later.

use std::ffi::OsStr;

use crate::attack::generate::Draft;
use crate::attack::word;

/// What a script leaves when it is run.
const SCRIPT: &str = "#!/bin/sh\ntouch {mark}\n";

/// Lines of a configuration that make git run something, by themselves or with the file beside them.
const TRAPS: &[(&str, Option<(&str, &str)>)] = &[
    ("[core]\n\tfsmonitor = \"touch {mark};false\"\n", None),
    ("[core]\n\thooksPath = {top}/w/hk\n", Some(("w/hk/post-index-change", SCRIPT))),
    ("[core]\n\thooksPath = {top}/w/hk\n", Some(("w/hk/pre-commit", SCRIPT))),
    (
        "[filter \"x\"]\n\tclean = touch {mark}\n\tsmudge = touch {mark}\n",
        Some(("w/.gitattributes", "* filter=x\n")),
    ),
    ("[diff]\n\texternal = touch {mark}\n", Some(("w/tracked", "changed\n"))),
    ("[diff \"x\"]\n\ttextconv = touch {mark}\n", Some(("w/.gitattributes", "* diff=x\n"))),
    ("[gpg]\n\tprogram = {top}/w/gpg\n[commit]\n\tgpgSign = true\n", Some(("w/gpg", SCRIPT))),
    (
        "[include]\n\tpath = {top}/w/more\n",
        Some(("w/more", "[core]\n\tfsmonitor = \"touch {mark};false\"\n")),
    ),
    (
        "[includeIf \"gitdir:{top}/\"]\n\tpath = {top}/w/more\n",
        Some(("w/more", "[core]\n\tfsmonitor = \"touch {mark};false\"\n")),
    ),
    (
        "[core]\n\talternateRefsCommand = touch {mark}\n\tpager = touch {mark}\n\teditor = touch {mark}\n",
        None,
    ),
    (
        "[submodule \"s\"]\n\turl = ./s\n\tupdate = !touch {mark}\n",
        Some(("w/.gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ./s\n")),
    ),
];

/// A text as one word; what stands in braces stays as it is.
fn text(text: &str) -> String {
    let escaped = word::escape(OsStr::new(text));
    escaped.replace("%7Bmark%7D", "{mark}").replace("%7Btop%7D", "{top}")
}

impl Draft<'_> {
    /// Repositories, and what git on the host would run later.
    pub(in crate::attack::generate) fn git(&mut self) {
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
            let usual = "hooks-and-config-read-only";
            let level = self.pick(&[usual, usual, "hooks-read-only", "metadata-read-only"]);
            self.flag("--allow-write", "w");
            self.flag("--git", level);
        }
        for _ in 0..self.rng.between(1, 3) {
            let lines = self.trap();
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

    /// A repository that was changed, made, or is one in disguise.
    fn trap(&mut self) -> Vec<String> {
        let (lines, beside) = *self.rng.one_of(TRAPS);
        let plain = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
        let config = text(&format!("{plain}{lines}"));
        let folder = self.pick(&["w", "w/sub", "w/evil", "w/sub/deep"]);
        let name = if folder == "w" { "evil" } else { folder.trim_start_matches("w/") };
        let shape = |folder: &str| {
            [
                format!("mkdir {folder}"),
                format!("mkdir {folder}/objects"),
                format!("mkdir {folder}/refs"),
                format!("put {folder}/HEAD {}", text("ref: refs/heads/main\n")),
            ]
            .to_vec()
        };
        let mut done = match self.rng.below(11) {
            // The folder itself as a bare repository in disguise.
            0 | 1 => {
                let disguise = text(&format!("{plain}\tworktree = .\n{lines}"));
                let mut done = vec![format!("rename {folder}/.git/HEAD {folder}/.git/H")];
                done.extend(shape(folder));
                done.push(format!("put {folder}/config {disguise}"));
                done
            }
            // A repository of its own, which the one above lists.
            2 | 3 => vec![
                format!("git w init -q {name}"),
                format!("git w/{name} commit -q --allow-empty -m x"),
                format!("put w/{name}/.git/config {config}"),
                format!("git w add {name}"),
            ],
            4 => {
                let mut done = shape(&format!("{folder}/.git"));
                done.push(format!("put {folder}/.git/config {config}"));
                done
            }
            5 => vec![
                format!("put {folder}/.git/hooks/post-index-change {}", text(SCRIPT)),
                format!("put {folder}/.git/hooks/pre-commit {}", text(SCRIPT)),
            ],
            6 => vec![
                format!("put {folder}/.git/config {config}"),
                format!("put {folder}/.git/config.worktree {config}"),
                format!("put {folder}/.git/info/attributes {}", text("* filter=x diff=x\n")),
            ],
            // A pointer to a repository that is somewhere else.
            7 => {
                let mut done = shape("w/store");
                done.push(format!("put w/store/config {config}"));
                done.push(format!("rename {folder}/.git {folder}/.git.old"));
                done.push(format!("put {folder}/.git {}", text("gitdir: {top}/w/store\n")));
                done
            }
            8 => {
                let mut done = shape("w/store");
                done.push(format!("put {folder}/.git/commondir {}", text("{top}/w/store\n")));
                done.push(format!("put w/store/config {config}"));
                done
            }
            9 => vec![
                "git w worktree add -q wt".into(),
                format!("put w/.git/worktrees/wt/config.worktree {config}"),
                format!("put w/.git/worktrees/wt/commondir {}", text("../../../store\n")),
                format!("put w/wt/.git {}", text("gitdir: {top}/w/store\n")),
            ],
            _ => vec![
                format!("rename {folder}/.git {folder}/.git2"),
                format!("git {folder} init -q"),
                format!("put {folder}/.git/config {config}"),
            ],
        };
        if let Some((path, content)) = beside {
            done.push("mkdir w/hk".into());
            done.push(format!("put {path} {}", text(content)));
        }
        done
    }
}
