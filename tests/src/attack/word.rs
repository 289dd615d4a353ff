//! Names in histories: any bytes as one plain word, so that a history is a text file that a person can read and edit.
//!
//! A byte that is no letter, digit or one of a few signs is written `%XX`. There is one way to write each name, so words
//! can be compared in place of names. The model, the snapshots and the histories all use words; bytes appear only where
//! a system call is made.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Signs that stand for themselves, besides letters and digits. `*`, `?`, `[` and `]` are not among them: unescaped, they
/// are globs.
const PLAIN: &[u8] = b"._/+~,=@:-";

/// A name as a word.
#[must_use]
pub fn escape(name: &OsStr) -> String {
    let mut word = String::new();
    for byte in name.as_bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(byte) {
            word.push(char::from(*byte));
        } else {
            word.push_str(&format!("%{byte:02X}"));
        }
    }
    word
}

/// The bytes that a word stands for. What is no escape stands for itself.
#[must_use]
pub fn unescape(word: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Where a path of a history is on this disk: below `top`, unless it is absolute.
#[must_use]
pub fn place(top: &Path, word: &str) -> PathBuf {
    let name = OsString::from_vec(unescape(word));
    // `join` takes an absolute path as it is.
    if word == "." { top.to_path_buf() } else { top.join(name) }
}

/// The folder of a path; of a name at the top it is `.`, and of the top there is none.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", _)) if path != "/" => Some("/"),
        Some((folder, _)) if path != "/" => Some(folder),
        None if path != "." => Some("."),
        _ => None,
    }
}

/// The last component.
#[must_use]
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A name in a folder.
#[must_use]
pub fn join(folder: &str, name: &str) -> String {
    match folder {
        "." | "" => name.to_owned(),
        folder => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}

/// Whether `path` is `above` or something below it. The top is `.`, and everything relative is below it and below `/`.
#[must_use]
pub fn is_within(path: &str, above: &str) -> bool {
    match above {
        "/" => true,
        "." => !path.starts_with('/'),
        above => path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    }
}

/// The path, its folder, and so on to the top, and then `/`.
pub fn upwards(path: &str) -> impl Iterator<Item = &str> {
    let top = (!path.starts_with('/')).then_some("/");
    std::iter::successors(Some(path), |path| parent(path)).chain(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_word_and_comes_back() {
        for name in [&b"plain.txt"[..], b"two words", b"\xff\n*?[]%41", b"a/b"] {
            let word = escape(OsStr::from_bytes(name));
            assert!(!word.contains(char::is_whitespace) && !word.contains('*'), "{word}");
            assert_eq!(unescape(&word), name);
        }
        assert_eq!(unescape("100%"), b"100%");
    }

    #[test]
    fn paths_go_up_to_the_top_and_the_root() {
        assert_eq!(upwards("w/a/b").collect::<Vec<_>>(), ["w/a/b", "w/a", "w", ".", "/"]);
        assert_eq!(upwards("/proc/self").collect::<Vec<_>>(), ["/proc/self", "/proc", "/"]);
        assert!(is_within("w/a", "w") && is_within("w", "w") && is_within("w", ".") && is_within("w", "/"));
        assert!(!is_within("wx", "w") && !is_within("/proc", "."));
    }
}
