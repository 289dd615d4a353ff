//! The names that git makes in a repository's own folder, and of what kind each is. What is not in these tables, git did
//! not make.
//!
//! From gitrepository-layout(5), git's sources (`path.c`, `wt-status.c`, `sequencer.c`, `builtin/am.c`, `bisect.c`,
//! `rerere.c`, `packfile.c`), and from what git 2.39 and 2.47 leave behind (`tests/git/handed_back/honest.rs`). Rows of other
//! programs say which. A row that is missing costs its user a file that is moved aside; a row too many, a look at
//! what git does with such a file.

use super::{refs, state};

/// What may stand at a name.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// It is judged elsewhere in [`crate::handback`]; here it only may not be there by a second name.
    JudgedApart,
    /// A file that git only reads as data, or replaces as a whole.
    Plain,
    /// A file whose contents have to fit.
    Text(fn(&[u8]) -> bool),
    /// A list of what git does next.
    Todo,
    /// An index.
    Index,
    /// The place of a worktree.
    Gitdir,
    /// A folder with these names in it.
    Folder(&'static [Row]),
    /// A folder of refs or of their logs: files and folders with names that git accepts for refs.
    Refs,
    Logs,
    /// A folder of objects.
    Objects,
    /// One of its 256 folders.
    LooseObjects,
    /// A folder of files and folders of any name, for data.
    Data,
    /// A folder of submodules' folders, and of folders with such.
    Modules,
    /// A folder of worktrees' folders.
    Worktrees,
    /// A folder that is gone through like any other.
    GoneThrough,
}

impl Shape {
    /// Whether a folder stands there.
    pub fn is_folder(self) -> bool {
        match self {
            JudgedApart | Plain | Text(_) | Todo | Index | Gitdir => false,
            Folder(_)
            | Refs
            | Logs
            | Objects
            | Shape::LooseObjects
            | Data
            | Modules
            | Worktrees
            | GoneThrough => true,
        }
    }
}

/// A name, and what it may be. In a name `%` stands for one or more hexadecimal digits, `#` for decimal ones, `_` at the
/// end for the six letters of a temporary file, `*` for letters, digits, dots and dashes.
pub type Row = (&'static str, Shape);

use Shape::{
    Data, Folder, Gitdir, GoneThrough, Index, JudgedApart, Logs, Modules, Objects, Plain, Refs, Text, Todo,
    Worktrees,
};

const ONE_REF: Shape = Text(refs::is_ref);
const OBJECT_NAMES: Shape = Text(refs::are_objects);
const WORDS: Shape = Text(state::is_words);
const STRATEGY: Shape = Text(state::is_strategy);
const AUTHOR: Shape = Text(state::is_author);
const HEAD_NAME: Shape = Text(state::is_head_name);

/// What a repository and a worktree's own folder have both.
const EACH: &[Row] = &[
    ("HEAD", ONE_REF),
    ("index", Index),
    ("index.stash.#", Index),
    ("next-index-#", Plain),
    ("sharedindex.%", Index),
    ("sharedindex_", Plain),
    ("logs", Logs),
    ("refs", Refs),
    ("config.worktree", JudgedApart),
    ("commondir", JudgedApart),
    ("modules", Modules),
    ("FETCH_HEAD", Plain),
    ("BISECT_LOG", Plain),
    ("BISECT_START", Text(state::is_start)),
    ("BISECT_TERMS", WORDS),
    ("BISECT_NAMES", Text(state::are_quoted)),
    ("BISECT_ANCESTORS_OK", Plain),
    ("BISECT_FIRST_PARENT", Plain),
    ("BISECT_EXPECTED_REV", OBJECT_NAMES),
    ("BISECT_RUN", Plain),
    ("MERGE_AUTOSTASH", OBJECT_NAMES),
    ("AUTO_MERGE", OBJECT_NAMES),
    ("MERGE_MSG", Plain),
    ("MERGE_MODE", WORDS),
    ("MERGE_RR", Text(state::are_conflicts)),
    ("SQUASH_MSG", Plain),
    ("COMMIT_EDITMSG", Plain),
    ("TAG_EDITMSG", Plain),
    ("NOTES_EDITMSG", Plain),
    ("EDIT_DESCRIPTION", Plain),
    ("ADD_EDIT.patch", Plain),
    ("addp-hunk-edit.diff", Plain),
    ("NOTES_MERGE_PARTIAL", OBJECT_NAMES),
    ("NOTES_MERGE_REF", ONE_REF),
    ("NOTES_MERGE_WORKTREE", Folder(&[("%", Plain)])),
    ("rebase-merge", Folder(REBASE)),
    ("rebase-apply", Folder(APPLY)),
    ("sequencer", Folder(SEQUENCER)),
    ("fsmonitor--daemon", Folder(&[("cookies", Folder(&[("#-#", Plain)]))])),
    // git gui and gitk.
    ("GITGUI_MSG", Plain),
    ("GITGUI_BCK", Plain),
    ("GITGUI_EDITMSG", Plain),
    ("gitk.cache", Plain),
    // GitHub's command lines, hub and gh.
    ("PULLREQ_EDITMSG", Plain),
    ("ISSUE_EDITMSG", Plain),
    ("RELEASE_EDITMSG", Plain),
];

/// What only the repository itself has.
const WHOLE: &[Row] = &[
    ("config", JudgedApart),
    ("hooks", GoneThrough),
    ("objects", Objects),
    ("packed-refs", Text(refs::are_packed)),
    ("packed-refs.new", Plain),
    ("description", Plain),
    ("shallow", OBJECT_NAMES),
    ("shallow_", Plain),
    ("info", Folder(INFO)),
    ("worktrees", Worktrees),
    ("gc.log", Plain),
    ("gc.pid", Plain),
    ("rr-cache", Folder(&[("%", Folder(RESOLUTIONS))])),
    ("reftable", Folder(TABLES)),
    // Remotes as they were written before 2005: each file is an address. Git's templates had the empty folder until 2.37.
    ("branches", Folder(&[])),
    ("remotes", Folder(&[])),
    // git-lfs.
    ("lfs", Data),
    // git subtree, and git-filter-repo.
    ("subtree-cache", Data),
    ("filter-repo", Data),
    // opencode's id of the project.
    ("opencode", Text(state::is_id)),
];

/// What only a worktree's folder has.
const WORKTREE: &[Row] = &[("gitdir", Gitdir), ("locked", Plain)];

const INFO: &[Row] = &[
    ("attributes", JudgedApart),
    ("exclude", Plain),
    ("sparse-checkout", Plain),
    ("grafts", OBJECT_NAMES),
    ("refs", Plain),
    ("refs_", Plain),
];

const RESOLUTIONS: &[Row] = &[
    ("preimage", Plain),
    ("postimage", Plain),
    ("thisimage", Plain),
    ("preimage.#", Plain),
    ("postimage.#", Plain),
    ("thisimage.#", Plain),
];

const TABLES: &[Row] = &[("tables.list", Text(state::are_tables)), ("tables.list_", Plain), ("0x*", Plain)];

const SEQUENCER: &[Row] = &[
    ("todo", Todo),
    ("head", OBJECT_NAMES),
    ("abort-safety", OBJECT_NAMES),
    ("opts", Text(state::are_options)),
];

const REBASE: &[Row] = &[
    ("git-rebase-todo", Todo),
    ("git-rebase-todo.backup", Plain),
    ("done", Plain),
    ("end", WORDS),
    ("msgnum", WORDS),
    ("head-name", HEAD_NAME),
    ("onto", OBJECT_NAMES),
    ("onto_name", Plain),
    ("orig-head", OBJECT_NAMES),
    ("head", OBJECT_NAMES),
    ("squash-onto", OBJECT_NAMES),
    ("interactive", WORDS),
    ("quiet", WORDS),
    ("verbose", WORDS),
    ("signoff", WORDS),
    ("strategy", STRATEGY),
    ("strategy_opts", WORDS),
    ("gpg_sign_opt", WORDS),
    ("allow_rerere_autoupdate", WORDS),
    ("drop_redundant_commits", WORDS),
    ("keep_redundant_commits", WORDS),
    ("reschedule-failed-exec", WORDS),
    ("no-reschedule-failed-exec", WORDS),
    ("cdate_is_adate", WORDS),
    ("ignore_date", WORDS),
    ("force_rebase", WORDS),
    ("autostash", OBJECT_NAMES),
    ("author-script", AUTHOR),
    ("amend", OBJECT_NAMES),
    ("stopped-sha", WORDS),
    ("dropped", Plain),
    ("current", WORDS),
    ("current-commit", OBJECT_NAMES),
    ("current-fixups", Plain),
    ("fixup-commit", Plain),
    ("message", Plain),
    ("message-fixup", Plain),
    ("message-squash", Plain),
    ("patch", Plain),
    ("refs-to-delete", Text(state::are_updates)),
    ("update-refs", Text(state::are_updates)),
    ("rewritten-list", Plain),
    ("rewritten-pending", Plain),
    ("rewritten", Folder(&[("%", Plain), ("onto", Plain), ("root", Plain)])),
];

const APPLY: &[Row] = &[
    ("#", Plain),
    ("abort-safety", OBJECT_NAMES),
    ("apply-opt", Text(state::are_apply_options)),
    ("applying", WORDS),
    ("author-script", AUTHOR),
    ("autostash", OBJECT_NAMES),
    ("dirtyindex", Plain),
    ("final-commit", Plain),
    ("format", WORDS),
    ("gpg_sign_opt", WORDS),
    ("head-name", HEAD_NAME),
    ("info", Plain),
    ("keep", WORDS),
    ("last", WORDS),
    ("messageid", WORDS),
    ("msg", Plain),
    ("msg-clean", Plain),
    ("next", WORDS),
    ("no_inbody_headers", WORDS),
    ("onto", OBJECT_NAMES),
    ("orig-head", OBJECT_NAMES),
    ("original-commit", OBJECT_NAMES),
    ("patch", Plain),
    ("patch-merge-base", Plain),
    ("patch-merge-index", Index),
    ("quiet", WORDS),
    ("quoted-cr", WORDS),
    ("rebasing", WORDS),
    ("rewritten", Plain),
    ("scissors", WORDS),
    ("sign", WORDS),
    ("strategy", STRATEGY),
    ("strategy_opts", WORDS),
    ("allow_rerere_autoupdate", WORDS),
    ("threeway", WORDS),
    ("utf8", WORDS),
    ("verbose", WORDS),
];

/// What a folder of objects has.
pub const OBJECTS: &[Row] = &[
    ("pack", Folder(PACKS)),
    ("info", Folder(OBJECTS_INFO)),
    ("tmp_obj_", Plain),
    ("tmp_objdir-*", Objects),
    ("incoming-*", Objects),
    ("loose-object-idx", Plain),
    ("maintenance", Plain),
    ("schedule", Plain),
];

const PACKS: &[Row] = &[
    ("pack-%.pack", Plain),
    ("pack-%.idx", Plain),
    ("pack-%.rev", Plain),
    ("pack-%.bitmap", Plain),
    ("pack-%.mtimes", Plain),
    ("pack-%.keep", Plain),
    ("pack-%.promisor", Plain),
    ("pack-%.old", Plain),
    ("multi-pack-index", Plain),
    ("multi-pack-index-%.rev", Plain),
    ("multi-pack-index-%.bitmap", Plain),
    (
        "multi-pack-index.d",
        Folder(&[
            ("multi-pack-index-chain", OBJECT_NAMES),
            ("multi-pack-index-%.midx", Plain),
            ("multi-pack-index-%.rev", Plain),
            ("multi-pack-index-%.bitmap", Plain),
        ]),
    ),
    ("tmp_*", Plain),
    (".tmp-*", Plain),
];

const OBJECTS_INFO: &[Row] = &[
    ("packs", Plain),
    ("packs_", Plain),
    ("commit-graph", Plain),
    (
        "commit-graphs",
        Folder(&[("commit-graph-chain", OBJECT_NAMES), ("graph-%.graph", Plain), ("tmp_graph_", Plain)]),
    ),
    ("alternates", Text(state::are_alternates)),
    ("http-alternates", Text(state::are_alternates)),
];

/// What may stand at a name in a repository's own folder, or in that of one of its worktrees.
pub fn of_repository(name: &[u8], worktree: bool) -> Option<Shape> {
    let own = if worktree { WORKTREE } else { WHOLE };
    find(EACH, name).or_else(|| find(own, name)).or_else(|| is_pseudoref(name).then_some(ONE_OR_MORE))
}

const ONE_OR_MORE: Shape = Text(|text| refs::is_ref(text) || refs::are_objects(text));

/// `MERGE_HEAD`, `ORIG_HEAD` and whatever else of this form commands keep a commit in.
fn is_pseudoref(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".lock").unwrap_or(name);
    name.ends_with(b"_HEAD") && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

/// What may stand at a name in a folder with these rows.
pub fn find(rows: &[Row], name: &[u8]) -> Option<Shape> {
    let row = |name: &[u8]| {
        rows.iter().find(|(pattern, _)| fits(pattern.as_bytes(), name)).map(|(_, shape)| *shape)
    };
    row(name).or_else(|| match row(name.strip_suffix(b".lock")?)? {
        // The lock of a file, which a killed git left.
        shape if shape.is_folder() => None,
        _ => Some(Plain),
    })
}

/// What may stand at a name in a folder of objects.
pub fn of_objects(name: &[u8]) -> Option<Shape> {
    let loose = name.len() == 2 && name.iter().all(|byte| is_hex(*byte));
    if loose { Some(Shape::LooseObjects) } else { find(OBJECTS, name) }
}

/// Whether a file among loose objects is one, or one that was being written.
pub fn is_loose_object(name: &[u8]) -> bool {
    (matches!(name.len(), 38 | 62) && name.iter().all(|byte| is_hex(*byte))) || name.starts_with(b"tmp_obj_")
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let class = |fits: fn(u8) -> bool, rest: &[u8]| {
        let most = name.iter().take_while(|byte| fits(**byte)).count();
        // Digits may be followed by what reads like one: the longest first.
        (1..=most).rev().any(|end| self::fits(rest, &name[end..]))
    };
    match pattern {
        [] => name.is_empty(),
        [b'_'] => {
            let random = name.strip_prefix(b"_").unwrap_or(name);
            random.len() == 6 && random.iter().all(u8::is_ascii_alphanumeric)
        }
        [b'%', rest @ ..] => class(is_hex, rest),
        [b'#', rest @ ..] => class(|byte| byte.is_ascii_digit(), rest),
        [b'*'] => name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte)),
        [first, rest @ ..] => name.first() == Some(first) && self::fits(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_gits_own() {
        for name in [
            "HEAD",
            "HEAD.lock",
            "index.lock",
            "MERGE_HEAD",
            "FOO_HEAD",
            "FOO_HEAD.lock",
            "sharedindex.0a1b",
            "sharedindex_aB3dE6",
            "next-index-12.lock",
            "packed-refs.lock",
            "config.lock",
            "rebase-merge",
            "index.stash.77",
            "index.stash.77.lock",
        ] {
            assert!(of_repository(name.as_bytes(), false).is_some(), "{name}");
        }
        for name in [
            "x",
            "head",
            "HEAD ",
            "_HEADX",
            "a_HEAD",
            "sharedindex.",
            "sharedindex.x",
            "hooks.lock",
            "gitdir",
            "index.lock.lock",
            "config~",
            "objects.lock",
            ".git",
            "index.stash.x",
            "HEAD.set-aside-by-kennel-0123456789abcdef",
        ] {
            assert!(of_repository(name.as_bytes(), false).is_none(), "{name}");
        }
        assert!(of_repository(b"gitdir", true).is_some() && of_repository(b"objects", true).is_none());
        for name in
            ["0a", "ff", "pack", "info", "tmp_obj_Ab12cd", "tmp_objdir-incoming-x1", "maintenance.lock"]
        {
            assert!(of_objects(name.as_bytes()).is_some(), "{name}");
        }
        for name in ["0", "0A", "000", "xx", "HEAD", "refs", "tmp"] {
            assert!(of_objects(name.as_bytes()).is_none(), "{name}");
        }
        for name in [
            "pack-0123.pack",
            "pack-0123.keep",
            "multi-pack-index",
            "multi-pack-index.lock",
            "tmp_pack_AbCdEf",
            ".tmp-12-pack-0a.pack",
            "pack-01.lock",
            "pack-01.idx.lock",
        ] {
            assert_eq!(find(PACKS, name.as_bytes()).is_some(), name != "pack-01.lock", "{name}");
        }
        assert!(
            is_loose_object(&[b'a'; 38])
                && is_loose_object(&[b'0'; 62])
                && !is_loose_object(&[b'a'; 39])
                && !is_loose_object(b"HEAD")
        );
    }
}
