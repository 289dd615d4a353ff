//! The paths that git puts into a work tree: which of them git accepts (`verify_path` in its read-cache.c), with the
//! protections that it has for other systems' file systems always on.
//!
//! Pure, and linear in the length of a path.

/// What an entry of an index or of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryMode {
    /// A file, executable or not.
    File,
    /// A symbolic link.
    Link,
    /// A submodule.
    Gitlink,
    /// A folder that a sparse index does not expand.
    SparseFolder,
}

impl EntryMode {
    /// Reads the modes that git writes, and no others.
    #[must_use]
    pub fn new(mode: u32) -> Option<EntryMode> {
        match mode {
            0o100_644 | 0o100_755 => Some(EntryMode::File),
            0o120_000 => Some(EntryMode::Link),
            0o160_000 => Some(EntryMode::Gitlink),
            0o040_000 => Some(EntryMode::SparseFolder),
            _ => None,
        }
    }
}

/// Longer paths are nobody's: no system call takes them.
const MAX_BYTES: usize = 4096;

/// Whether git would put this path into a work tree.
#[must_use]
pub fn is_accepted(path: &[u8], mode: EntryMode) -> bool {
    let path = match (mode, path.strip_suffix(b"/")) {
        (EntryMode::SparseFolder, Some(folder)) => folder,
        (EntryMode::SparseFolder, None) => return false,
        _ => path,
    };
    let sound = !path.is_empty() && path.len() < MAX_BYTES && !path.contains(&0);
    sound && path.split(|byte| *byte == b'/').all(|name| is_name(name, mode))
}

/// Whether a name in a tree may be one in a work tree.
#[must_use]
pub fn is_name(name: &[u8], mode: EntryMode) -> bool {
    if matches!(name, b"" | b"." | b"..") {
        return false;
    }
    // To Windows a backslash is what a slash is. Elsewhere it is a letter, and systemd's units are called so.
    !name.split(|byte| *byte == b'\\').any(|part| {
        let plain = folded(part);
        let dot_git = plain == b".git" || plain == b"git~1";
        // Git reads `.gitmodules` from the work tree, and refuses one that is a link.
        let modules =
            plain == b".gitmodules" || plain.starts_with(b"gitmod~") || plain.starts_with(b"gi7eba~");
        dot_git || (mode == EntryMode::Link && modules)
    })
}

/// A name as file systems may take it that fold case, pass over some code points (HFS+), or drop dots and blanks at the
/// end and what follows a colon (NTFS).
fn folded(name: &[u8]) -> Vec<u8> {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        rest = match rest {
            // U+200C–200F, U+202A–202E, U+206A–206F, U+FEFF.
            [0xe2, 0x80, 0x8c..=0x8f | 0xaa..=0xae, after @ ..]
            | [0xe2, 0x81, 0xaa..=0xaf, after @ ..]
            | [0xef, 0xbb, 0xbf, after @ ..] => after,
            _ => {
                plain.push(first.to_ascii_lowercase());
                after
            }
        };
    }
    let end = plain.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
    plain.truncate(end);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_paths_are_accepted() {
        for path in [
            "a",
            "a/b/c",
            ".gitignore",
            ".gitmodules",
            "git",
            "a/.github/x",
            "...",
            "x.git/HEAD",
            "etc/foo\\x2dbar",
            "\u{e9}",
        ] {
            assert!(is_accepted(path.as_bytes(), EntryMode::File), "{path}");
        }
        assert!(is_accepted(b"a/b/", EntryMode::SparseFolder));
    }

    #[test]
    fn what_leads_out_or_into_git_is_not() {
        for path in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            ".git",
            ".git/hooks/x",
            "a/.GIT/config",
            ".gIt",
            "git~1",
            "GIT~1/x",
            ".git ",
            ".git.",
            ".git. . ",
            ".git::$INDEX_ALLOCATION",
            "a/.git:x",
            "a\\.git\\b",
            "\\.git",
            "git~1 .",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{202e}",
            ".gi\u{206f}t/hooks",
            "a\0b",
        ] {
            assert!(!is_accepted(path.as_bytes(), EntryMode::File), "{path:?}");
        }
        for link in [".gitmodules", "a/.GITMODULES ", "gitmod~1", "GI7EBA~1"] {
            assert!(!is_accepted(link.as_bytes(), EntryMode::Link), "{link}");
        }
        assert!(!is_accepted(b"a", EntryMode::SparseFolder) && !is_accepted(b"/", EntryMode::SparseFolder));
        assert!(!is_accepted(&vec![b'a'; 5000], EntryMode::File));
        assert_eq!(EntryMode::new(0o100_600), None);
    }

    proptest! {
        #[test]
        fn no_spelling_of_git_passes(
            before in prop_oneof![Just(""), Just("\u{200c}"), Just("\u{feff}")],
            name in "[.][gG][iI][tT]|[gG][iI][tT]~1",
            after in "[ .]{0,3}(:[a-z]{0,3})?(\u{200d})?",
            above in "([a-z]{1,3}[/\\\\]){0,2}",
        ) {
            let path = format!("{above}{before}{name}{after}");
            prop_assert!(!is_accepted(path.as_bytes(), EntryMode::File), "{:?}", path);
        }
    }
}
