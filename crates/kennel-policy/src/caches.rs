//! The caches of package managers and compilers (`caches.toml`): folders of the home that a sandbox with `files.caches` has a layer
//! of its own of. The host's cache shows below it and is never written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::rows;

/// What becomes of a layer when the run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// It is there for the next run in the same project.
    Cache,
    /// It is emptied before each run: programs in `PATH` would be started before anybody looked.
    Programs,
}

/// A folder that a tool fills with what it can fetch or make again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// Its path, below `~`.
    pub path: &'static str,
    /// What moves it: a variable, and what is below the folder that it names. Empty for none.
    pub moved: &'static str,
    /// Whose it is.
    pub program: &'static str,
    /// A command that gives a home without such a folder one; empty for none.
    pub command: &'static str,
    /// What becomes of its layer.
    pub kind: CacheKind,
    /// What is in it.
    pub why: &'static str,
}

/// Folders that a variable of everybody's moves, with all that is below.
const BASES: [(&str, &str); 2] = [(".cache/", "XDG_CACHE_HOME"), (".local/share/", "XDG_DATA_HOME")];

/// Where the layers are, below the home.
pub const FOLDER: &str = ".local/state/kennel/caches";

/// The table as it is written, for `kennel caches --table`.
pub const TEXT: &str = include_str!("caches.toml");

static TABLE: LazyLock<Vec<CacheEntry>> = LazyLock::new(|| read(TEXT));

/// All of them. None is in another.
#[must_use]
pub fn caches() -> &'static [CacheEntry] {
    &TABLE
}

impl CacheEntry {
    /// Its path below the home.
    #[must_use]
    pub fn below_home(&self) -> &'static str {
        self.path.strip_prefix("~/").unwrap_or(self.path)
    }

    /// Where it is for this home and these variables, and whether a variable says so.
    #[must_use]
    pub fn place(&self, home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> (PathBuf, bool) {
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let (name, below) = self.moved.split_once('/').unwrap_or((self.moved, ""));
        if let Some(folder) = Some(name).filter(|name| !name.is_empty()).and_then(folder) {
            return (if below.is_empty() { folder } else { folder.join(below) }, true);
        }
        let path = self.below_home();
        for (base, name) in BASES {
            if let (Some(rest), Some(folder)) = (path.strip_prefix(base), folder(name)) {
                return (folder.join(rest), true);
            }
        }
        (home.join(path), false)
    }

    /// The name of its layer: one name, whatever the path.
    #[must_use]
    pub fn layer(&self) -> String {
        self.below_home().trim_start_matches('.').replace("/.", "/").replace('/', "-")
    }

    /// Why it is there, in the user's words.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("the cache of {}: {} (files.caches)", self.program, self.why)
    }
}

/// Reads the table: at each start, so by its lines and without a parser. A test compares with one.
fn read(text: &'static str) -> Vec<CacheEntry> {
    let row = |fields: rows::Fields| CacheEntry {
        path: fields.get("path"),
        moved: fields.get("moved"),
        program: fields.get("program"),
        command: fields.get("command"),
        kind: if fields.get("kind") == "programs" { CacheKind::Programs } else { CacheKind::Cache },
        why: fields.get("why"),
    };
    text.lines().filter_map(rows::fields).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[test]
    fn the_lines_are_read_as_toml_reads_them() {
        let table = DeTable::parse(TEXT).unwrap().into_inner();
        let rows = table["caches"].get_ref().as_array().unwrap();
        assert!(table.len() == 1 && rows.len() == caches().len() && rows.len() > 40);
        for (row, read) in rows.iter().zip(caches()) {
            let row = row.get_ref().as_table().unwrap();
            let kind = if read.kind == CacheKind::Cache { "cache" } else { "programs" };
            let fields = [
                ("path", read.path),
                ("moved", read.moved),
                ("program", read.program),
                ("command", read.command),
                ("kind", kind),
                ("why", read.why),
            ];
            assert_eq!(row.len(), fields.len());
            for (name, value) in fields {
                assert_eq!(row[name].get_ref().as_str(), Some(value), "{}", read.path);
            }
        }
    }

    #[test]
    fn every_entry_names_a_narrow_place_once_and_says_why() {
        let mut layers: Vec<String> = caches().iter().map(CacheEntry::layer).collect();
        for entry in caches() {
            assert!(entry.path.starts_with("~/") && !entry.path.contains("..") && !entry.path.contains('*'));
            assert!(!entry.program.is_empty() && !entry.why.is_empty() && !entry.why.ends_with('.'));
            // What is thrown away needs no place but the home.
            assert!(entry.kind == CacheKind::Cache || entry.command.is_empty());
            assert!(!entry.layer().contains('/') && !entry.layer().starts_with('.'), "{}", entry.layer());
            let in_another = caches().iter().filter(|other| Path::new(entry.path).starts_with(other.path));
            assert_eq!(in_another.count(), 1, "{}", entry.path);
            // What of the home shows beside it is not in it.
            let shown = crate::home::shown().iter().filter(|shown| shown.path != entry.path);
            for shown in shown {
                assert!(!Path::new(shown.path).starts_with(entry.path), "{} {}", entry.path, shown.path);
            }
        }
        layers.sort_unstable();
        layers.dedup();
        assert_eq!(layers.len(), caches().len());
        for wide in
            ["~/.local/share", "~/.cache", "~/.local", "~/.cargo", "~/.m2", "~/.gradle", "~/.npm", "~/go"]
        {
            assert!(caches().iter().all(|entry| entry.path != wide), "{wide}");
        }
    }

    #[test]
    fn variables_move_caches() {
        let entry = |path: &str| caches().iter().find(|entry| entry.path == path).unwrap();
        let home = Path::new("/home/me");
        let place = |path: &str, set: &[(&str, &str)]| {
            let get = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            let (place, moved) = entry(path).place(home, get);
            (place.display().to_string(), moved)
        };
        assert_eq!(place("~/.cargo/git", &[]), ("/home/me/.cargo/git".into(), false));
        assert_eq!(place("~/.cargo/git", &[("CARGO_HOME", "/c")]), ("/c/git".into(), true));
        assert_eq!(place("~/.cargo/git", &[("CARGO_HOME", "c")]), ("/home/me/.cargo/git".into(), false));
        assert_eq!(place("~/.cache/pip", &[("XDG_CACHE_HOME", "/x")]), ("/x/pip".into(), true));
        let both = [("XDG_CACHE_HOME", "/x"), ("PIP_CACHE_DIR", "/p")];
        assert_eq!(place("~/.cache/pip", &both), ("/p".into(), true));
        assert_eq!(entry("~/.cache/pip").layer(), "cache-pip");
    }
}
