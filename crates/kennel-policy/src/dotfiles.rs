//! Files and folders in a project that programs on the host obey: shells when they start, editors when they open the
//! folder, agents and package managers when they are called there.
//!
//! [`TABLE`] lists them. They are looked for at every depth, in any spelling that differs in the case of letters only: so
//! do the programs on disks that take one for the other.

mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

pub use table::TABLE;

/// A name that some program obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obeyed {
    /// The name, or a folder's and one in it; one `*` in a name stands for any text. What is below it belongs to it.
    pub name: &'static str,
    /// Who obeys it.
    pub by: &'static str,
    /// How that is known.
    pub source: Source,
    /// What becomes of it.
    pub hold: Hold,
}

/// How it is known that a name is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was tried with that program.
    Tried,
    /// The program's documentation or its text says so.
    Documented,
}

/// What becomes of a name that a program obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It stays as it is, and no new one comes out of a run.
    Keep,
    /// It can be written, and the caller is told how it changed. A new link there that leads out of what can be written is
    /// moved aside.
    Tell,
    /// It can be written. A new link there that leads out of what can be written is moved aside: a program on the host writes
    /// to it.
    NoLink,
}

/// What Claude Code itself makes in a project's `.claude`, and what of the rest agents edit for their users.
const OPEN_IN: &[(&str, &[&str])] = &[(".claude", &["worktrees", "CLAUDE.md"])];

/// What srt keeps as it is, whatever its settings say.
pub const OF_SRT: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".ripgreprc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude/commands",
    ".claude/agents",
];

/// The names that stay as they are and have no `*`: those that can be named one by one.
#[must_use]
pub fn kept_by_name() -> &'static [&'static str] {
    &INDEX.by_name
}

/// What a name in a folder of this name is to those who obey such; `above` is empty where that folder has no name that
/// matters. An entry's name of two parts is found by its second.
#[must_use]
pub fn look(above: &[u8], name: &[u8]) -> Option<&'static Obeyed> {
    INDEX.look(above, name)
}

/// Whether a name of two parts starts so. A folder of that name may be made; something else in its place would lead elsewhere.
#[must_use]
pub fn is_first_part(name: &[u8]) -> bool {
    name.len() <= MAX && INDEX.firsts.contains_key(&name.to_ascii_lowercase()[..])
}

/// What a name of two parts that starts so goes on with, where that has no `*`.
pub fn second_parts(first: &[u8]) -> impl Iterator<Item = &'static str> {
    let inner = INDEX.firsts.get(&first.to_ascii_lowercase()[..]);
    inner.into_iter().flatten().map(|(second, _)| *second).filter(|second| !second.contains('*'))
}

/// Whether a program obeys most of what is in a folder of this name, whatever it is called.
#[must_use]
pub fn obeys_most_of(folder: &[u8]) -> bool {
    let inner = INDEX.firsts.get(&folder.to_ascii_lowercase()[..]);
    inner.is_some_and(|inner| inner.iter().any(|(second, _)| *second == "*"))
}

/// Whether a name alone may be one of the table, or the first or the second part of one, if that part has no `*`: asked before
/// anything else is.
#[must_use]
pub fn may_matter(name: &[u8]) -> bool {
    INDEX.may_matter(name)
}

/// The longest of the names, with room for what a `*` stands for.
const MAX: usize = 255;

struct Index {
    by_name: Vec<&'static str>,
    /// Names of one part, and no `*`, in lower case.
    single: HashMap<Vec<u8>, &'static Obeyed>,
    /// What comes in folders of these names, in lower case.
    firsts: HashMap<Vec<u8>, Vec<(&'static str, &'static Obeyed)>>,
    /// Second parts without a `*`, in lower case.
    seconds: HashSet<Vec<u8>>,
    /// Names of one part with a `*`.
    patterns: Vec<&'static Obeyed>,
    /// By the first letter, in lower case, whether any name starts so.
    letters: [bool; 256],
}

static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

impl Index {
    fn new() -> Index {
        let mut index = Index {
            by_name: Vec::new(),
            single: HashMap::new(),
            firsts: HashMap::new(),
            seconds: HashSet::new(),
            patterns: Vec::new(),
            letters: [false; 256],
        };
        for row in TABLE {
            let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
            if row.hold == Hold::Keep && !row.name.contains('*') {
                index.by_name.push(row.name);
            }
            match row.name.split_once('/') {
                Some((first, second)) => {
                    index.firsts.entry(lower(first)).or_default().push((second, row));
                    index.start(first);
                    if !second.contains('*') {
                        index.seconds.insert(lower(second));
                        index.start(second);
                    }
                }
                None if row.name.contains('*') => {
                    index.patterns.push(row);
                    index.start(row.name);
                }
                None => {
                    index.single.insert(lower(row.name), row);
                    index.start(row.name);
                }
            }
        }
        index
    }

    fn start(&mut self, name: &str) {
        match name.as_bytes().first() {
            Some(b'*') | None => {}
            Some(letter) => {
                self.letters[usize::from(letter.to_ascii_lowercase())] = true;
                self.letters[usize::from(letter.to_ascii_uppercase())] = true;
            }
        }
    }

    /// Of a `*` at the beginning of a name the rest is asked.
    fn may_start(&self, name: &[u8]) -> bool {
        let open = || self.patterns.iter().any(|row| row.name.starts_with('*') && fits(row.name, name));
        name.first().is_some_and(|letter| self.letters[usize::from(*letter)]) || open()
    }

    fn look(&self, above: &[u8], name: &[u8]) -> Option<&'static Obeyed> {
        if name.len() > MAX {
            return None;
        }
        if !above.is_empty()
            && above.len() <= MAX
            && let Some(inner) = self.firsts.get(&above.to_ascii_lowercase()[..])
        {
            let open = OPEN_IN.iter().filter(|(folder, _)| folder.as_bytes().eq_ignore_ascii_case(above));
            let is_open = |open: &&str| open.as_bytes().eq_ignore_ascii_case(name);
            let open = open.flat_map(|(_, open)| open.iter()).any(is_open);
            let found = inner.iter().find(|(second, _)| fits(second, name)).filter(|_| !open);
            if let Some((_, row)) = found {
                return Some(row);
            }
        }
        if !self.may_start(name) {
            return None;
        }
        let single = self.single.get(&name.to_ascii_lowercase()[..]).copied();
        single.or_else(|| self.patterns.iter().find(|row| fits(row.name, name)).copied())
    }

    fn may_matter(&self, name: &[u8]) -> bool {
        if name.len() > MAX || !self.may_start(name) {
            return false;
        }
        let lower = &name.to_ascii_lowercase()[..];
        self.single.contains_key(lower)
            || self.firsts.contains_key(lower)
            || self.seconds.contains(lower)
            || self.patterns.iter().any(|row| fits(row.name, name))
    }
}

/// Whether a name is what the table says, where one `*` stands for any text.
fn fits(wanted: &str, name: &[u8]) -> bool {
    let wanted = wanted.as_bytes();
    let Some(star) = wanted.iter().position(|byte| *byte == b'*') else {
        return wanted.eq_ignore_ascii_case(name);
    };
    let (start, end) = (&wanted[..star], &wanted[star + 1..]);
    name.len() >= start.len() + end.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(above: &str, name: &str) -> Option<Hold> {
        look(above.as_bytes(), name.as_bytes()).map(|row| row.hold)
    }

    #[test]
    fn an_agent_is_kept_from_what_srt_protects() {
        for name in OF_SRT.iter().filter(|name| **name != ".gitmodules") {
            let (above, last) = name.split_once('/').unwrap_or(("", name));
            assert_eq!(hold(above, last), Some(Hold::Keep), "{name}");
        }
    }

    #[test]
    fn no_row_stands_twice_and_each_is_one_or_two_names_with_at_most_one_star() {
        let mut seen = HashSet::new();
        for row in TABLE {
            assert!(seen.insert(row.name.to_ascii_lowercase()), "{} stands twice", row.name);
            let parts: Vec<&str> = row.name.split('/').collect();
            assert!(parts.len() <= 2 && parts.iter().all(|part| !part.is_empty()), "{}", row.name);
            assert!(parts.iter().all(|part| part.matches('*').count() <= 1), "{}", row.name);
            assert!(!parts[0].contains('*') || parts.len() == 1, "{}", row.name);
            assert!(!row.by.is_empty());
        }
    }

    #[test]
    fn every_row_is_found_in_every_case_of_its_letters() {
        for row in TABLE {
            let name = row.name.replace('*', "x");
            let (above, last) = name.split_once('/').unwrap_or(("", &name));
            for (above, last) in
                [(above.to_owned(), last.to_owned()), (above.to_uppercase(), last.to_uppercase())]
            {
                assert_eq!(look(above.as_bytes(), last.as_bytes()), Some(row), "{above}/{last}");
                assert!(may_matter(last.as_bytes()) || row.name.ends_with("/*"), "{last}");
            }
        }
    }

    /// `UPDATE_DOCS=1 cargo test -p kennel-policy` writes the page.
    #[test]
    fn the_page_lists_what_the_table_has() {
        let rows = TABLE.iter().map(|row| {
            let source = if row.source == Source::Tried { "tried" } else { "documented" };
            let hold = match row.hold {
                Hold::Keep => "kept",
                Hold::Tell => "told",
                Hold::NoLink => "no link",
            };
            format!("| `{}` | {} | {source} | {hold} |\n", row.name, row.by)
        });
        let table =
            format!("| name | obeyed by | known | |\n|---|---|---|---|\n{}", rows.collect::<String>());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workspace.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (start, end) = ("<!-- table -->\n", "<!-- end of the table -->");
        let (before, rest) = page.split_once(start).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let wanted = format!("{before}{start}{table}{end}{after}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), wanted, "UPDATE_DOCS=1 writes the page");
    }

    #[test]
    fn what_is_beside_the_table_is_nobodys_business() {
        for (above, name) in [
            ("", "config.toml"),
            ("src", "config.toml"),
            ("", ".gitmodules"),
            ("", ".github"),
            ("", "main.rs"),
            ("", ""),
            (".claude", "worktrees"),
            ("", "worktrees"),
            ("", "x.code-workspace.txt"),
        ] {
            assert_eq!(hold(above, name), None, "{above}/{name}");
        }
        assert_eq!(hold(".claude", "anything"), Some(Hold::Keep));
        assert_eq!(hold(".claude", "CLAUDE.md"), Some(Hold::Tell));
        assert_eq!(hold("", ".code-workspace"), Some(Hold::Keep));
        assert!(is_first_part(b".Claude") && is_first_part(b".cargo") && !is_first_part(b".vscode"));
        assert_eq!(look(b"", &[b'.'; 300]), None);
    }
}
