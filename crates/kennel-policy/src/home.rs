//! A private home: the table of what shows of it (`home.toml`), and git's configuration without what may be secret.
//!
//! Homes hold keys, tokens and memories at names that nobody has a list of. So the list is of what is known to be needed and
//! harmless instead, and nothing else of a home is there.

use std::path::Path;
use std::sync::LazyLock;

use crate::rows;

/// How something of the home shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeAccess {
    /// The host's own, to read.
    Read,
    /// A copy of git's configuration with the settings that are known to be harmless.
    Filtered,
    /// Not at all, though something around it shows. One name of its path may be `*`.
    Hidden,
}

/// Something that shows of a private home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeEntry {
    /// Its path, absolute or below `~`.
    pub path: &'static str,
    /// Whose it is.
    pub program: &'static str,
    /// How it shows.
    pub access: HomeAccess,
    /// What for.
    pub why: &'static str,
}

impl HomeEntry {
    /// Its path below the home, if it is there.
    #[must_use]
    pub fn below_home(&self) -> Option<&'static str> {
        self.path.strip_prefix("~/")
    }

    /// Its path for a home.
    #[must_use]
    pub fn place(&self, home: &Path) -> std::path::PathBuf {
        self.below_home().map_or_else(|| self.path.into(), |below| home.join(below))
    }

    /// Why it shows, in the user's words.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.access {
            HomeAccess::Hidden => format!("hidden of the private home: {} of {}", self.why, self.program),
            _ => format!("shown of the private home for {}: {}", self.program, self.why),
        }
    }
}

/// A place of users' data outside of the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedPlace {
    /// Its path.
    pub path: &'static str,
    /// What is there.
    pub why: &'static str,
}

struct HomeTable {
    shown: Vec<HomeEntry>,
    closed: Vec<ClosedPlace>,
    git: Vec<&'static str>,
}

static TABLE: LazyLock<HomeTable> = LazyLock::new(|| read(include_str!("home.toml")));

/// What shows of a private home.
#[must_use]
pub fn shown() -> &'static [HomeEntry] {
    &TABLE.shown
}

/// What is closed besides.
#[must_use]
pub fn closed() -> &'static [ClosedPlace] {
    &TABLE.closed
}

/// Reads the table. A test compares with a parser of TOML.
fn read(text: &'static str) -> HomeTable {
    let mut table = HomeTable { shown: Vec::new(), closed: Vec::new(), git: Vec::new() };
    for line in text.lines().map(str::trim) {
        if let Some(fields) = rows::fields(line) {
            let (path, program, why) = (fields.get("path"), fields.get("program"), fields.get("why"));
            let access = match fields.get("access") {
                "read" => HomeAccess::Read,
                "filtered" => HomeAccess::Filtered,
                "hidden" => HomeAccess::Hidden,
                _ => {
                    table.closed.push(ClosedPlace { path, why });
                    continue;
                }
            };
            table.shown.push(HomeEntry { path, program, access, why });
        } else if let Some(setting) = line.strip_prefix('"').and_then(|line| line.strip_suffix("\",")) {
            table.git.push(setting);
        }
    }
    table
}

/// A configuration of git's as a private home shows it: the settings that are known to hold no secret and to run nothing, without
/// comments; and the paths that it includes, as they are written.
#[cfg(unix)]
#[must_use]
pub fn harmless_git_settings(text: &[u8]) -> (Vec<u8>, Vec<std::path::PathBuf>) {
    use std::os::unix::ffi::OsStringExt;
    let (mut kept, mut includes) = (Vec::new(), Vec::new());
    for (key, value) in crate::git_config::settings(text) {
        let (Some((section, _)), Some((above, name))) = (key.split_once('.'), key.rsplit_once('.')) else {
            continue;
        };
        // What is between the two is the subsection: a condition for an include may have any, others only one that is listed.
        let condition = above.strip_prefix(section).unwrap_or_default().strip_prefix('.');
        let plain = format!("{section}.{name}");
        let known = TABLE.git.iter().any(|known| match known.strip_suffix(".*") {
            Some(all) => section == all,
            None => *known == plain,
        });
        let known = match condition {
            Some(_) if section != "includeif" => TABLE.git.contains(&key.as_str()),
            condition => known && condition.is_some() == (section == "includeif"),
        };
        if !known || value.contains(&0) {
            continue;
        }
        if matches!(section, "include" | "includeif") {
            includes.push(std::ffi::OsString::from_vec(value.clone()).into());
        }
        let header = match condition {
            Some(condition) => {
                format!("[{section} \"{}\"]\n", condition.replace('\\', "\\\\").replace('"', "\\\""))
            }
            None => format!("[{section}]\n"),
        };
        kept.extend_from_slice(header.as_bytes());
        kept.extend_from_slice(format!("\t{name} = \"").as_bytes());
        for byte in value {
            match byte {
                b'\n' => kept.extend_from_slice(b"\\n"),
                b'\t' => kept.extend_from_slice(b"\\t"),
                8 => kept.extend_from_slice(b"\\b"),
                b'"' | b'\\' => kept.extend_from_slice(&[b'\\', byte]),
                byte => kept.push(byte),
            }
        }
        kept.extend_from_slice(b"\"\n");
    }
    (kept, includes)
}

#[cfg(test)]
mod tests;
