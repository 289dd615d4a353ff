//! `kennel answers`: what a person has answered to `--ask` for good, for one workspace or for all.
//!
//! An answer takes the place of a question that would be put, and of nothing else: what a rule denies is denied, and without `--ask`
//! nobody is asked. It is noted with the path of its workspace, beside what `kennel trust` notes.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use kennel_policy::domain::{Host, HostRule};
use kennel_policy::policy::{NetworkMode, Origin, Policy};
use kennel_policy::printed::{show, show_lines};
use serde_json::json;

use super::noted::Noted;
use super::policy::Lazy;
use super::{FAILED, json_text, print, project, say};
use crate::platform;

/// The folder of the notes.
const FOLDER: &str = "answers";

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A connection.
    Connect {
        /// The host, in its one spelling, which holds no character that a terminal would obey.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Asked {
    /// The word for its kind in a note; no two kinds have the same.
    fn kind(&self) -> &'static str {
        match self {
            Asked::Connect { .. } => "connect",
        }
    }

    /// What it is about, as it is noted and as a person names it.
    fn what(&self) -> String {
        match self {
            Asked::Connect { host, port } => format!("{host}:{port}"),
        }
    }

    /// What a person should know who takes names as they look.
    pub fn caution(&self) -> &'static str {
        let Asked::Connect { host, .. } = self;
        match host.split('.').any(|label| label.starts_with("xn--")) {
            true => " (a name with letters beyond a to z)",
            false => "",
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked::Connect { host, port } = self;
        write!(f, "connect to {host}:{port}")
    }
}

/// Where an answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// In the workspace at this path.
    Here(PathBuf),
    /// Everywhere.
    Everywhere,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holds::Here(path) => write!(f, "in {}", show(path.as_os_str().as_encoded_bytes())),
            Holds::Everywhere => f.write_str("always"),
        }
    }
}

/// The answers for one workspace.
pub struct Answers {
    noted: Noted,
    workspace: PathBuf,
}

impl Answers {
    /// Those for commands that start in `folder`.
    pub fn of(folder: &Path, homes: &Lazy) -> Option<Answers> {
        Some(Answers { noted: Noted::in_folder(FOLDER, homes)?, workspace: project::workspace(folder)? })
    }

    /// The workspace, as a place where an answer holds.
    pub fn here(&self) -> Holds {
        Holds::Here(self.workspace.clone())
    }

    /// Whether it has been answered.
    pub fn holds(&self, asked: &Asked) -> bool {
        [Holds::Everywhere, self.here()].iter().any(|holds| self.noted.holds(&note(asked, holds)))
    }

    /// Keeps that it may be, from now on.
    ///
    /// # Errors
    /// When it cannot be written: what, and why.
    pub fn keep(&self, asked: &Asked, holds: &Holds) -> Result<(), String> {
        let folder = self.noted.folder().display();
        self.noted.put(&note(asked, holds)).map_err(|error| format!("writing below {folder}: {error}"))
    }
}

/// What holds for a run that asks, as rules with their reasons: all answers for its workspace that no rule takes back.
pub fn in_force(policy: &Policy, folder: &Path, homes: &Lazy) -> Vec<(String, Origin)> {
    let network = &policy.network;
    let Some(answers) =
        Answers::of(folder, homes).filter(|_| network.ask && network.mode == NetworkMode::AllowList)
    else {
        return Vec::new();
    };
    let denied = |what: &str| {
        let (host, port) = what.rsplit_once(':')?;
        let (host, port) = (Host::parse(host).ok()?, port.parse().ok()?);
        network.deny.iter().find(|rule: &&HostRule| rule.matches(&host, port))
    };
    let mut list = Vec::new();
    for Entry { kind, what, holds, .. } in entries(&answers.noted) {
        if kind == "connect"
            && (holds == Holds::Everywhere || holds == answers.here())
            && denied(&what).is_none()
        {
            list.push((
                what,
                Origin(format!(
                    "kennel answers, {}",
                    if holds == Holds::Everywhere { "always" } else { "here" }
                )),
            ));
        }
    }
    list
}

/// An answer as it is noted.
fn note(asked: &Asked, holds: &Holds) -> Vec<u8> {
    let place = match holds {
        Holds::Here(path) => path.as_os_str().as_encoded_bytes(),
        Holds::Everywhere => b"",
    };
    [asked.kind().as_bytes(), b"\0", asked.what().as_bytes(), b"\0", place].concat()
}

/// A note that was read.
struct Entry {
    file: PathBuf,
    kind: String,
    what: String,
    holds: Holds,
}

/// All answers, in order.
fn entries(noted: &Noted) -> Vec<Entry> {
    let read = |(file, note): (PathBuf, Vec<u8>)| {
        let mut parts = note.splitn(3, |byte| *byte == 0);
        let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (kind, what) = (text()?, text()?);
        let holds = match parts.next()? {
            b"" => Holds::Everywhere,
            path => Holds::Here(platform::path_of(path.to_vec())?),
        };
        Some(Entry { file, kind, what, holds })
    };
    let mut list: Vec<Entry> = noted.all().into_iter().filter_map(read).collect();
    list.sort_by_cached_key(|entry| (entry.what.clone(), entry.holds.to_string()));
    list
}

/// Lists them.
pub fn answers(as_json: bool) -> i32 {
    let list = Noted::in_folder(FOLDER, &Lazy::default()).map(|noted| entries(&noted)).unwrap_or_default();
    if as_json {
        let value = |entry: &Entry| {
            let workspace = match &entry.holds {
                Holds::Here(path) => Some(path.to_string_lossy()),
                Holds::Everywhere => None,
            };
            json!({ "kind": entry.kind, "what": entry.what, "workspace": workspace })
        };
        return print(&json_text(&json!({ "answers": list.iter().map(value).collect::<Vec<_>>() })));
    }
    let mut text = String::new();
    for Entry { kind, what, holds, .. } in &list {
        text.push_str(&format!("{} {}  {holds}\n", show(kind.as_bytes()), show(what.as_bytes())));
    }
    if text.is_empty() {
        text.push_str("No answers are kept.\n");
    }
    print(&show_lines(&text))
}

/// Removes those about hosts, or all.
pub fn remove_answers(hosts: &[OsString], all: bool) -> i32 {
    let list = Noted::in_folder(FOLDER, &Lazy::default()).map(|noted| entries(&noted)).unwrap_or_default();
    let mut code = 0;
    let mut removed = Vec::new();
    let mut remove = |entry: &Entry| {
        let Entry { file, kind, what, holds } = entry;
        if removed.contains(file) {
            return;
        }
        let shown = format!("{} {}  {holds}", show(kind.as_bytes()), show(what.as_bytes()));
        match std::fs::remove_file(file) {
            Ok(()) => {
                print(&show_lines(&format!("removed: {shown}\n")));
            }
            Err(error) => {
                say(&format!("kennel: removing {shown}: {error}"));
                code = FAILED;
            }
        }
        removed.push(file.clone());
    };
    list.iter().filter(|_| all).for_each(&mut remove);
    let mut unknown = Vec::new();
    for host in hosts {
        let host = host.to_string_lossy();
        let is_meant = |entry: &&Entry| {
            let without_port = entry.what.rsplit_once(':').map(|(host, _)| host);
            entry.what == host || without_port == Some(&*host)
        };
        let mut meant = list.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            unknown.push(host.to_string());
        }
        meant.for_each(&mut remove);
    }
    for host in unknown {
        say(&format!(
            "kennel answers: {}: no answer about that is kept\nhelp: `kennel answers` lists those that are",
            show(host.as_bytes())
        ));
        code = FAILED;
    }
    code
}
