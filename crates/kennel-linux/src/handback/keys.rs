//! The settings of git that make it run nothing: a list of what is known to be harmless. What is not on it counts as
//! dangerous, so a setting that a later git invents is one until somebody has looked at it.

use super::config::Setting;

/// What a harmless setting may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// Anything: it is a number, a yes or no, a name, a pattern, a text.
    Any,
    /// An address that git itself goes to, without a helper that the address names.
    Address,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

use Value::{Address, Any, OneOf};

/// Settings without a subsection.
const PLAIN: &[(&str, &[&str], Value)] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkroundtripencoding",
            "checkstat",
            "commentchar",
            "commentstring",
            "commitgraph",
            "compression",
            "deltabasecachelimit",
            "eol",
            "filemode",
            "fscache",
            "fsync",
            "fsyncmethod",
            "fsyncobjectfiles",
            "hidedotfiles",
            "ignorecase",
            "ignorestat",
            "logallrefupdates",
            "longpaths",
            "loosecompression",
            "maxtreedepth",
            "multipackindex",
            "packedgitlimit",
            "packedgitwindowsize",
            "packedrefstimeout",
            "filesreflocktimeout",
            "precomposeunicode",
            "prefersymlinkrefs",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "usereplacerefs",
            "warnambiguousrefs",
            "whitespace",
        ],
        Any,
    ),
    // The monitor that is part of git; every other word is a program. A git that knows no such part looks for a program
    // of that name, and finds the system's.
    ("core", &["fsmonitor"], OneOf(&["true", "false"])),
    (
        "extensions",
        &[
            "compatobjectformat",
            "noop",
            "noop-v1",
            "objectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "relativeworktrees",
            "worktreeconfig",
        ],
        Any,
    ),
    ("user", &["name", "email", "useconfigonly"], Any),
    ("author", &["name", "email"], Any),
    ("committer", &["name", "email"], Any),
    ("init", &["defaultbranch"], Any),
    (
        "fetch",
        &["prune", "prunetags", "parallel", "recursesubmodules", "writecommitgraph", "showforcedupdates"],
        Any,
    ),
    ("pull", &["rebase", "ff"], OneOf(&["true", "false", "merges", "only", "interactive"])),
    ("push", &["default", "autosetupremote", "followtags", "recursesubmodules"], Any),
    ("rebase", &["autosquash", "autostash", "updaterefs", "stat", "missingcommitscheck"], Any),
    ("merge", &["ff", "conflictstyle", "log", "renames", "renamelimit", "stat", "autostash"], Any),
    ("rerere", &["enabled", "autoupdate"], Any),
    (
        "diff",
        &["algorithm", "colormoved", "context", "mnemonicprefix", "noprefix", "renames", "renamelimit"],
        Any,
    ),
    ("diff", &["submodule"], OneOf(&["short", "log", "diff"])),
    ("diff", &["ignoresubmodules"], OneOf(&["none", "untracked", "dirty", "all"])),
    ("status", &["branch", "short", "showuntrackedfiles", "showstash", "renames", "submodulesummary"], Any),
    ("commit", &["cleanup", "status", "verbose"], Any),
    ("commit", &["gpgsign"], OneOf(&["false"])),
    ("tag", &["gpgsign"], OneOf(&["false"])),
    ("tag", &["sort"], Any),
    ("branch", &["autosetupmerge", "autosetuprebase", "sort"], Any),
    ("checkout", &["defaultremote", "guess", "workers", "thresholdforparallelism"], Any),
    ("clone", &["defaultremotename", "rejectshallow"], Any),
    (
        "index",
        &["recordendofindexentries", "recordoffsettable", "sparse", "skiphash", "threads", "version"],
        Any,
    ),
    ("feature", &["experimental", "manyfiles"], Any),
    (
        "gc",
        &[
            "auto",
            "autodetach",
            "autopacklimit",
            "packrefs",
            "pruneexpire",
            "reflogexpire",
            "reflogexpireunreachable",
            "worktreepruneexpire",
            "writecommitgraph",
        ],
        Any,
    ),
    ("maintenance", &["auto", "autodetach", "strategy"], Any),
    ("pack", &["threads", "windowmemory", "depth", "window", "usesparse", "writereverseindex"], Any),
    ("receive", &["denycurrentbranch", "denynonfastforwards", "denydeletes", "fsckobjects"], Any),
    ("transfer", &["fsckobjects", "unpacklimit", "hiderefs"], Any),
    ("log", &["date", "decorate", "follow", "abbrevcommit"], Any),
    ("submodule", &["active", "recurse", "fetchjobs", "propagatebranches"], Any),
    ("submodule", &["alternatelocation", "alternateerrorstrategy"], Any),
    ("remote", &["pushdefault"], Address),
    ("http", &["postbuffer", "version", "lowspeedlimit", "lowspeedtime", "extraheader", "maxrequests"], Any),
    ("lfs", &["repositoryformatversion", "locksverify"], Any),
    ("color", &["ui", "status", "branch", "diff", "interactive"], Any),
];

/// Settings with one.
const NESTED: &[(&str, &[&str], Value)] = &[
    ("remote", &["url", "pushurl"], Address),
    (
        "remote",
        &[
            "fetch",
            "push",
            "mirror",
            "tagopt",
            "prune",
            "prunetags",
            "promisor",
            "partialclonefilter",
            "skipdefaultupdate",
            "skipfetchall",
            "followremotehead",
            // Of GitHub's own command.
            "gh-resolved",
        ],
        Any,
    ),
    ("branch", &["remote", "pushremote"], Address),
    (
        "branch",
        &[
            "merge",
            "rebase",
            "description",
            // Of editors and of GitHub's own command.
            "vscode-merge-base",
            "github-pr-owner-number",
            "github-pr-base-branch",
            "gh-merge-base",
        ],
        Any,
    ),
    ("submodule", &["url"], Address),
    ("submodule", &["active", "branch", "shallow", "fetchrecursesubmodules"], Any),
    ("submodule", &["ignore"], OneOf(&["none", "untracked", "dirty", "all"])),
    ("submodule", &["update"], OneOf(&["checkout", "rebase", "merge", "none"])),
    ("http", &["extraheader", "postbuffer", "version"], Any),
    ("lfs", &["access", "locksverify"], Any),
    ("diff", &["binary", "xfuncname", "funcname", "wordregex", "cachetextconv"], Any),
    ("merge", &["name"], Any),
    ("filter", &["required"], Any),
];

/// The filters of git-lfs, word by word as `git lfs install --local` writes them: a program of the host's own.
const LFS: &[(&str, &[&str])] = &[
    ("clean", &["git-lfs clean -- %f", "git lfs clean -- %f", "git lfs clean %f"]),
    (
        "smudge",
        &["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f", "git lfs smudge -- %f", "git lfs smudge %f"],
    ),
    ("process", &["git-lfs filter-process", "git-lfs filter-process --skip"]),
];

/// Whether a setting makes git run nothing. `core.worktree` is judged by whoever knows where it leads.
pub fn is_harmless(setting: &Setting) -> bool {
    let Setting { section, subsection, name, value } = setting;
    let (section, name) = (section.as_str(), name.as_str());
    if section == "advice" && subsection.is_none() {
        return true;
    }
    if section == "url" && matches!(name, "insteadof" | "pushinsteadof") {
        // What stands in the subsection is where git goes.
        return subsection.as_deref().is_some_and(is_plain_address);
    }
    if section == "filter" && subsection.as_deref() == Some(b"lfs") {
        let own = LFS.iter().find(|(own, _)| *own == name).map(|(_, words)| *words);
        let said = value.as_deref().unwrap_or_default();
        if own.is_some_and(|words| words.iter().any(|word| word.as_bytes() == said)) {
            return true;
        }
    }
    let table = if subsection.is_some() { NESTED } else { PLAIN };
    let mut rows = table.iter().filter(|(own, names, _)| *own == section && names.contains(&name));
    rows.any(|(_, _, kind)| match kind {
        Any => true,
        Address => value.as_deref().is_some_and(is_plain_address),
        OneOf(words) => value.as_deref().is_some_and(|said| words.iter().any(|word| word.as_bytes() == said)),
    })
}

/// Whether git goes to an address by itself: `NAME::…` and unknown schemes have it run a helper, and what starts with a
/// dash may be taken for an option.
fn is_plain_address(address: &[u8]) -> bool {
    const SCHEMES: &[&[u8]] = &[b"https", b"http", b"ssh", b"git", b"file"];
    if address.is_empty() || address[0] == b'-' || address.iter().any(u8::is_ascii_control) {
        return false;
    }
    let colons = |pair: &[u8]| address.windows(pair.len()).position(|window| window == pair);
    if let Some(end) = colons(b"://") {
        let after = &address[end + 3..];
        return SCHEMES.contains(&&address[..end]) && after.first().is_some_and(|byte| *byte != b'-');
    }
    colons(b"::").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_name_a_helper_are_not_plain() {
        for plain in [
            "https://example.org/x.git",
            "ssh://git@example.org:22/x",
            "git@github.com:a/b.git",
            "/srv/x.git",
            "../x",
            ".",
            "origin",
            "file:///srv/x",
        ] {
            assert!(is_plain_address(plain.as_bytes()), "{plain}");
        }
        for other in [
            "",
            "ext::sh -c evil",
            "fd::3",
            "evil://x",
            "ssh://-oProxyCommand=evil/x",
            "--upload-pack=evil",
            "a\nb",
            "https::evil",
            "x/::y",
        ] {
            assert!(!is_plain_address(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn every_row_is_in_lower_case_as_the_reader_gives_it() {
        let rows = PLAIN.iter().chain(NESTED);
        for (section, names, _) in rows {
            for word in std::iter::once(section).chain(*names) {
                assert_eq!(*word, word.to_ascii_lowercase());
            }
        }
    }
}
