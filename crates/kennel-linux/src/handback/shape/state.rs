//! What git does next in a repository: the lists and options of a rebase, a cherry-pick, a bisection or `git am` that is
//! not finished. Each file is read as git writes it; what has git run a command of its own is taken out.

use super::paths::{self, EntryMode};
use super::refs;
use crate::handback::config;

/// The longest of these files that is read.
pub const MAX_BYTES: usize = 4 << 20;

/// The commands of a list of a rebase or of a cherry-pick that run nothing; the short forms are git's own.
const COMMANDS: &[&[u8]] = &[
    b"pick",
    b"p",
    b"revert",
    b"reword",
    b"r",
    b"edit",
    b"e",
    b"squash",
    b"s",
    b"fixup",
    b"f",
    b"drop",
    b"d",
    b"label",
    b"l",
    b"reset",
    b"t",
    b"merge",
    b"m",
    b"break",
    b"b",
    b"update-ref",
    b"u",
    b"noop",
];

/// A list without the lines that git does not write, or that have it run a command (`exec`); `None` if there is none.
#[must_use]
pub fn without_commands(text: &[u8]) -> Option<Vec<u8>> {
    let fits = |line: &&[u8]| {
        // Before the word there may be blanks, after it a blank, a tab or the end.
        let line = line.trim_ascii();
        let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        word.is_empty() || word[0] == b'#' || COMMANDS.contains(&word)
    };
    let lines = || text.split_inclusive(|byte| *byte == b'\n');
    if text.contains(&0) {
        return Some(Vec::new());
    }
    if lines().all(|line| fits(&line)) {
        None
    } else {
        Some(lines().filter(fits).flatten().copied().collect())
    }
}

/// The strategies of git's own; any other word is the end of a program's name, and may be a path.
const STRATEGIES: &[&[u8]] = &[b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"];

/// Whether a file names a strategy of git's own, or none.
#[must_use]
pub fn is_strategy(text: &[u8]) -> bool {
    let word = text.trim_ascii();
    word.is_empty() || STRATEGIES.contains(&word)
}

/// Whether the options of a cherry-pick are some that git writes.
#[must_use]
pub fn are_options(text: &[u8]) -> bool {
    const SWITCHES: &[&str] = &[
        "no-commit",
        "edit",
        "allow-empty",
        "allow-empty-message",
        "drop-redundant-commits",
        "keep-redundant-commits",
        "signoff",
        "record-origin",
        "allow-ff",
        "mainline",
        "default-msg-cleanup",
        "allow-rerere-auto",
    ];
    let Some(settings) = config::settings(text) else { return false };
    settings.iter().all(|setting| {
        let value = setting.value.as_deref().unwrap_or_default();
        setting.section == "options"
            && setting.subsection.is_none()
            && match setting.name.as_str() {
                "strategy" => is_strategy(value),
                "gpg-sign" | "strategy-option" => is_words(value),
                name => SWITCHES.contains(&name) && is_words(value),
            }
    })
}

/// Whether a file is nothing but plain words: numbers, names of options and their values.
#[must_use]
pub fn is_words(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || b" \t\n'\"=,._:/@<>+%-".contains(byte))
}

/// Whether a file is the author of a commit, as git quotes one for a shell: old scripts of git's run it.
#[must_use]
pub fn is_author(text: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"GIT_AUTHOR_NAME=", b"GIT_AUTHOR_EMAIL=", b"GIT_AUTHOR_DATE="];
    let mut rest = text;
    while !rest.is_empty() {
        let Some(value) = NAMES.iter().find_map(|name| rest.strip_prefix(*name)) else { return false };
        let Some(after) = quoted(value).and_then(|after| after.strip_prefix(b"\n")) else { return false };
        rest = after;
    }
    true
}

/// Whether a file is a list of words that git quotes for a shell.
#[must_use]
pub fn are_quoted(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return true,
            Some(b'\'') => match quoted(rest) {
                Some(after) => rest = after,
                None => return false,
            },
            _ => return false,
        }
    }
}

/// What follows a word in single quotes, in which `'\''` and `'\!'` stand for a quote and an exclamation mark.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"'")?;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\'')?;
        rest = &rest[end + 1..];
        match rest {
            [b'\\', b'\'' | b'!', b'\'', after @ ..] => rest = after,
            _ => return Some(rest),
        }
    }
}

/// Whether a file holds one name of a branch or of a commit: git hands it to `checkout`.
#[must_use]
pub fn is_start(text: &[u8]) -> bool {
    let name = text.trim_ascii();
    refs::is_object(name)
        || name.split(|byte| *byte == b'/').all(|part| refs::is_component(part) && part[0] != b'-')
}

/// Whether a file holds the name of a branch that is rebased.
#[must_use]
pub fn is_head_name(text: &[u8]) -> bool {
    let name = text.strip_suffix(b"\n").unwrap_or(text);
    name == b"detached HEAD" || refs::is_name(name)
}

/// Whether a file holds names of refs, each with the names of two commits, on lines of their own.
#[must_use]
pub fn are_updates(text: &[u8]) -> bool {
    let fits = |line: &[u8]| line.is_empty() || refs::is_object(line) || refs::is_name(line);
    text.split(|byte| *byte == b'\n').all(fits)
}

/// Whether the options are some that `git am` hands to `git apply`.
#[must_use]
pub fn are_apply_options(text: &[u8]) -> bool {
    const STARTS: &[&[u8]] = &[
        b"'--whitespace=",
        b"'--ignore-space-change'",
        b"'--ignore-whitespace'",
        b"'--directory=",
        b"'--exclude=",
        b"'--include=",
        b"'-C",
        b"'-p",
        b"'--reject'",
    ];
    let text = text.trim_ascii();
    let words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    are_quoted(text)
        && text.iter().all(|byte| *byte != b'\\')
        && words.clone().all(|word| STARTS.iter().any(|start| word.starts_with(start)))
}

/// Whether a file is a list of conflicts, each with the path that its resolution is written to.
#[must_use]
pub fn are_conflicts(text: &[u8]) -> bool {
    text.split(|byte| *byte == 0).all(|entry| {
        if entry.is_empty() {
            return true;
        }
        let Some(end) = entry.iter().position(|byte| *byte == b'\t') else { return false };
        let (id, path) = (&entry[..end], &entry[end + 1..]);
        let id = id.split(|byte| *byte == b'.').next().unwrap_or_default();
        refs::is_object(id) && paths::is_accepted(path, EntryMode::File)
    })
}

/// Whether a file names the tables that refs are kept in: git removes those that it has put together.
#[must_use]
pub fn are_tables(text: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
    let fits = |line: &[u8]| line.is_empty() || (line.starts_with(b"0x") && line.iter().all(plain));
    text.split(|byte| *byte == b'\n').all(fits)
}

/// Whether a file is a list of other repositories' objects: folders of that name.
#[must_use]
pub fn are_alternates(text: &[u8]) -> bool {
    let fits = |line: &[u8]| {
        let plain = line.len() < 4096 && line[0] != b'"' && !line.iter().any(u8::is_ascii_control);
        plain && line.trim_ascii_end().ends_with(b"objects")
    };
    text.split(|byte| *byte == b'\n').all(|line| line.is_empty() || line[0] == b'#' || fits(line))
}

/// Whether a file holds one short name and no more: of a project, as opencode notes its.
#[must_use]
pub fn is_id(text: &[u8]) -> bool {
    let id = text.trim_ascii();
    id.len() <= 64 && id.iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_keep_what_runs_nothing() {
        let list = b"pick 1234 x\nfixup -C 1234\nlabel onto\nreset onto\nmerge -C 12 b # x\nbreak\nnoop\nupdate-ref refs/heads/a\n# exec x\n\n";
        assert_eq!(without_commands(list), None);
        assert_eq!(
            without_commands(b"pick 1\nexec touch x\n\tx touch x\npick 2\nunknown\n").unwrap(),
            b"pick 1\npick 2\n"
        );
        assert_eq!(without_commands(b"pick 1\0\nexec x"), Some(Vec::new()));
        assert_eq!(without_commands(b"exec\ttouch x").unwrap(), b"");
    }

    #[test]
    fn options_are_gits_own() {
        assert!(are_options(
            b"[options]\n\tno-commit = true\n\tstrategy = ort\n\tallow-rerere-auto = true\n"
        ));
        for text in [
            "[options]\nstrategy = ../../x\n",
            "[options]\nstrategy = -x\n",
            "[core]\nfsmonitor = x\n",
            "[include]\npath = x\n",
            "[options]\nnew = 1\n",
        ] {
            assert!(!are_options(text.as_bytes()), "{text}");
        }
        assert!(is_strategy(b"ort\n") && !is_strategy(b"x/../../y\n"));
        assert!(
            are_apply_options(b" '--whitespace=nowarn' '-C3'") && !are_apply_options(b"'--unsafe-paths'")
        );
        assert!(!are_apply_options(b"'-p1' '--directory=x' x") && !are_apply_options(b"'-p1'$(x)"));
    }

    #[test]
    fn what_a_shell_would_read_is_quoted() {
        assert!(is_author(
            b"GIT_AUTHOR_NAME='A '\\''B'\nGIT_AUTHOR_EMAIL='a@b'\nGIT_AUTHOR_DATE='@1 +0000'\n"
        ));
        for text in [
            "GIT_AUTHOR_NAME='a';touch x\n",
            "GIT_AUTHOR_NAME=$(x)\n",
            "PATH='x'\n",
            "GIT_AUTHOR_NAME='a\n",
            "touch x\n",
        ] {
            assert!(!is_author(text.as_bytes()), "{text}");
        }
        assert!(are_quoted(b" 'a' 'b c'\n") && !are_quoted(b"'a' $(x)") && !are_quoted(b"'a'; x"));
        assert!(
            is_start(b"main\n")
                && is_start(b"a/b")
                && !is_start(b"--orphan")
                && !is_start(b"")
                && !is_start(b"a b")
        );
        assert!(is_head_name(b"detached HEAD\n") && is_head_name(b"refs/heads/x") && !is_head_name(b"../x"));
    }

    #[test]
    fn paths_and_names_lead_nowhere_else() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert!(are_conflicts(format!("{id}\ta/b\0{id}.1\tc\0").as_bytes()));
        assert!(
            !are_conflicts(format!("{id}\t../b\0").as_bytes())
                && !are_conflicts(format!("{id}\t.git/config\0").as_bytes())
        );
        assert!(
            are_tables(b"0x000000000001-0x000000000002-abcdef12.ref\n")
                && !are_tables(b"../../x\n")
                && !are_tables(b"0x/../x\n")
        );
        assert!(
            are_alternates(b"/srv/x.git/objects\n../../y/.git/objects\n")
                && !are_alternates(b"/etc\n")
                && !are_alternates(b"\"x\\033objects\"\n")
        );
        assert!(is_id(b"0123abc\n") && !is_id(b"../x"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (are_options(&text), is_author(&text), are_quoted(&text), is_start(&text), are_conflicts(&text));
            let _ = (are_tables(&text), are_alternates(&text), are_apply_options(&text), is_head_name(&text), is_id(&text));
            if let Some(rest) = without_commands(&text) {
                prop_assert_eq!(without_commands(&rest), None);
            }
        }
    }
}
