//! What a run changed in files that agents and tools obey and that agents edit for their users: the caller is told, with
//! what is different.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "serde")]
use super::shown;
use crate::printed::show;

/// As many lines of a difference are kept, and as much of each.
const MAX_LINES: usize = 40;
const MAX_SHOWN: usize = 200;

/// A file that a program on the host obeys, and that a run made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Changed {
    /// Its path on the host.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))]
    pub path: PathBuf,
    /// Who obeys it.
    pub by: &'static str,
    /// What became of it.
    pub how: Change,
    /// Lines that went (`-`) and lines that came (`+`), as they may be printed.
    pub diff: Vec<String>,
    /// How many more lines there were.
    pub more: u64,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Change {
    /// It was not there before.
    Made,
    /// It says something else.
    Changed,
    /// It is gone.
    Removed,
}

impl Change {
    /// A word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Change::Made => "made",
            Change::Changed => "changed",
            Change::Removed => "removed",
        }
    }
}

impl Changed {
    /// What is different between two texts: what both begin and end with is left out. Either is empty where there was no
    /// file.
    #[must_use]
    pub fn between(path: PathBuf, by: &'static str, how: Change, before: &[u8], after: &[u8]) -> Changed {
        let lines = |text: &'_ [u8]| -> Vec<Vec<u8>> {
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            if text.is_empty() {
                Vec::new()
            } else {
                text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
            }
        };
        let (before, after) = (lines(before), lines(after));
        let same = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
        let (before, after) = (&before[same..], &after[same..]);
        let same =
            before.iter().rev().zip(after.iter().rev()).take_while(|(one, other)| one == other).count();
        let (before, after) = (&before[..before.len() - same], &after[..after.len() - same]);
        let marked = |mark: char, lines: &[Vec<u8>]| -> Vec<String> {
            lines.iter().take(MAX_LINES).map(|line| format!("{mark}{}", cut(line))).collect()
        };
        // What came matters more than what went.
        let came = marked('+', after);
        let mut diff = marked('-', before);
        diff.truncate(MAX_LINES - came.len().min(MAX_LINES / 2));
        diff.extend(came);
        diff.truncate(MAX_LINES);
        let more = before.len() + after.len() - diff.len();
        Changed { path, by, how, diff, more: more as u64 }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = cut_to(self.path.as_os_str().as_encoded_bytes(), 1024);
        write!(f, "the command {} {path}, which {} would obey on the host", self.how.word(), self.by)?;
        for line in &self.diff {
            write!(f, "\n  {line}")?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str("\n  and 1 more line"),
            more => write!(f, "\n  and {more} more lines"),
        }
    }
}

fn cut(text: &[u8]) -> String {
    cut_to(text, MAX_SHOWN)
}

/// A stranger's text, safe to print, and not longer than this.
fn cut_to(text: &[u8], most: usize) -> String {
    if text.len() <= most { show(text).to_string() } else { format!("{}…", show(&text[..most])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(before: &str, after: &str) -> Changed {
        Changed::between(
            "/w/CLAUDE.md".into(),
            "Claude Code",
            Change::Changed,
            before.as_bytes(),
            after.as_bytes(),
        )
    }

    #[test]
    fn what_is_different_is_told() {
        let changed = changed("one\ntwo\nthree\n", "one\n2\nthree\n");
        assert_eq!(
            changed.to_string(),
            "the command changed /w/CLAUDE.md, which Claude Code would obey on the host\n  -two\n  +2"
        );
    }

    #[test]
    fn a_text_cannot_steer_a_terminal_nor_fill_it() {
        let odd = changed("", "\u{1b}]0;x\u{7}\n");
        assert!(!odd.to_string().contains('\u{1b}') && !odd.to_string().contains('\u{7}'), "{odd}");
        let long = changed("", &"x".repeat(1 << 20));
        assert!(long.to_string().len() < 2000);
        let many = changed(&"a\n".repeat(5000), &"b\n".repeat(5000));
        assert_eq!((many.diff.len(), many.more), (40, 9960));
        assert!(many.diff.iter().any(|line| line.starts_with('+')) && many.diff[0].starts_with('-'));
    }

    #[test]
    fn a_last_line_may_lack_its_end() {
        assert_eq!(changed("one", "one\ntwo").diff, ["+two"]);
        assert_eq!(changed("", "\n").diff, [""; 0]);
        assert_eq!(changed("one\ntwo", "").diff, ["-one", "-two"]);
    }
}
