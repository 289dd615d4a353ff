//! What is done, by whom: the operations of a history, and its text.
//!
//! ```text
//! # a line for the reader
//! tree
//!   dir w
//!   file w/.env
//! run
//!   flag --allow-write w
//!   flag --deny-read w/.env
//!   inside
//!     sync 1
//!     read w/.env
//!   host
//!     await 1
//!     replace w/.env
//!     go 1
//! ```
//!
//! Paths are relative to the top of a scratch folder, or absolute. `tree` says what is there at first. Each `run` is one
//! `kennel run` with its flags; each `inside` is a process in the sandbox, and they run at the same time; `host` is what
//! the user's own programs do meanwhile. `sync K` tells the host that a process has come so far, and waits for `go K`;
//! `await K` waits until somebody inside is there. Without these, both sides run freely.
//!
//! An operation is a verb and its words. The tables below are the whole language; [`super::attacker`] and [`super::host`]
//! perform them.

use std::fmt;

/// A verb with the least and the most words it takes.
type Verb = (&'static str, usize, usize);

/// What can be in a tree.
const TREE: &[Verb] = &[
    ("dir", 1, 2),  // PATH [MODE]
    ("file", 1, 2), // PATH [MODE]: its content is a secret of its own
    ("link", 2, 2), // PATH TEXT
    ("hard", 2, 2), // PATH EXISTING
    ("fifo", 1, 1),
    ("sock", 1, 1),     // a daemon of the host's listens there
    ("repo", 1, 1),     // a git repository with a commit, in a folder
    ("worktree", 2, 2), // PATH REPOSITORY: of a repository that is there
    ("bind", 2, 2),     // FROM ONTO: a second mount; root only
];

/// What the attacker can do. A path may be followed by `@WAY`: how it is given to the kernel.
const INSIDE: &[Verb] = &[
    ("sync", 1, 1),
    ("pause", 1, 1), // MICROSECONDS
    // Looking.
    ("read", 1, 2),
    ("readlink", 1, 2),
    ("list", 1, 2),
    ("sweep", 0, 1), // [MICROSECONDS]: read everything, again and again for so long
    ("poll", 2, 2),  // PATH MICROSECONDS: open and read it as fast as possible
    // Files.
    ("write", 1, 2),
    ("append", 1, 2),
    ("create", 1, 2),
    ("trunc", 1, 2),
    ("mmap", 1, 2),
    ("put", 2, 2), // PATH TEXT, in which {mark} is a file that nobody but the host can make
    ("copy", 2, 2),
    ("tmpfile", 2, 2), // FOLDER PATH: O_TMPFILE, then a link
    ("mkdir", 1, 3),   // PATH [MODE] [@WAY]
    ("fifo", 1, 2),
    ("sock", 1, 1),
    ("node", 1, 1),
    ("rmdir", 1, 2),
    ("unlink", 1, 2),
    ("rename", 2, 3),
    ("exchange", 2, 3),
    ("noreplace", 2, 3),
    ("link", 2, 3),
    ("symlink", 2, 3), // TEXT PATH
    ("chmod", 2, 3),
    ("xattr", 2, 3), // PATH NAME
    ("caps", 1, 1),
    ("utimes", 1, 2),
    ("flood", 2, 2),  // PREFIX COUNT
    ("deep", 2, 2),   // PATH COUNT: so many folders in each other
    ("flip", 3, 3),   // PATH PATH MS: exchanges two names again and again
    ("repeat", 2, 6), // COUNT VERB WORDS…: until it succeeds, at most so often
    // Descriptors; 0, 1 and 2 are what kennel was started with.
    ("open", 3, 3), // PATH SLOT r|w|rw|path
    ("reopen", 3, 3),
    ("fdread", 1, 1),
    ("fdwrite", 1, 1),
    ("fdchmod", 2, 2),
    ("fdtrunc", 1, 1),
    ("fdutimes", 1, 1),
    ("fdxattr", 2, 2),
    ("fdlink", 2, 2), // SLOT PATH
    ("pass", 1, 1),
    ("take", 1, 1),
    // Against the guard: another thread changes one byte of the path meanwhile.
    ("race", 4, 5), // mkdir|create|symlink|fifo HARMLESS DENIED MS; rename|link FROM HARMLESS DENIED MS
    // Processes.
    ("daemon", 2, 6), // MICROSECONDS VERB WORDS…: out of the session, after the command has ended
    ("ptrace", 0, 0),
    ("kill", 1, 1), // all|init|stop: the first process that the command started
    ("chdir", 1, 1),
    ("mount", 2, 2),
    ("umount", 1, 1),
    ("unshare", 0, 0),
    ("git", 2, 8),      // FOLDER WORDS…
    ("gitindex", 2, 8), // FILE MODE:NAME…: an index, byte by byte
    // What belongs to all.
    ("cgroup", 0, 0),
    ("procs", 0, 0),
    ("memory", 0, 0), // of every process
    ("procwrite", 0, 0),
    ("lease", 1, 1),
    ("flock", 1, 1),
    ("inotify", 1, 1),
    ("hog", 1, 1), // all that it can of something of crate::hog
    // Ways out.
    ("tcp", 2, 2), // HOST PORT, or {port} for the host's listener
    ("udp", 2, 2),
    ("proxy", 2, 2),
    ("unix", 1, 1),
];

/// What the host can do.
const HOST: &[Verb] = &[
    ("await", 1, 1),
    ("go", 1, 1),
    ("pause", 1, 1),
    ("replace", 1, 1), // as editors do: a new file, renamed over the old one
    ("rewrite", 1, 1), // in place
    ("make", 1, 1),
    ("mkdir", 1, 1),
    ("remove", 1, 1),
    ("rename", 2, 2),
    ("swap", 2, 2),
    ("over", 2, 2),   // what stands at the one name over what stands at the other
    ("move", 2, 2),   // a folder, with the rules about what is in it
    ("linkto", 2, 2), // TEXT PATH: a link in its place
    ("chmod", 2, 2),
    ("touch", 1, 1),
    ("bind", 2, 2),      // FROM ONTO, until the run ends; root only
    ("sed", 1, 1),       // the real `sed -i`
    ("gitconfig", 1, 1), // the real `git config` in a folder
    ("gitinit", 1, 1),   // and `git init`
    ("gitlook", 1, 1),   // `git status` and `log`, which must run nothing
    ("open", 1, 1),      // for writing, which must not be hindered
    ("flock", 1, 1),
    ("needs", 1, 1),     // what a program of the host's needs of it, and another sandbox
    ("neighbour", 0, 0), // another sandbox of the same user, which must start
    ("also", 3, 3), // FLAG VALUE PATH: a second sandbox in the same tree, with one rule, that attacks a path
];

/// One operation: a verb and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What is done.
    pub verb: String,
    /// To what.
    pub words: Vec<String>,
}

impl Op {
    /// Reads one from a line without comment: `verb word word`.
    ///
    /// # Panics
    /// On an empty line.
    #[must_use]
    pub fn of(line: &str) -> Op {
        let mut words = line.split_whitespace().map(str::to_owned);
        Op { verb: words.next().expect("an operation has a verb"), words: words.collect() }
    }

    /// A word; empty if there is none.
    #[must_use]
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// A word as a number.
    #[must_use]
    pub fn number(&self, index: usize) -> u64 {
        self.word(index).parse().unwrap_or(0)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

/// One `kennel run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// What the host does before.
    pub before: Vec<Op>,
    /// Its flags, each with its value.
    pub flags: Vec<(String, String)>,
    /// The folder it is started in; the top if there is none.
    pub cwd: String,
    /// A path for `--report`; else a file that only the host sees.
    pub report: Option<String>,
    /// Files behind standard input (read), output and error (appended to).
    pub streams: [Option<String>; 3],
    /// The processes inside.
    pub inside: Vec<Vec<Op>>,
    /// What the host does meanwhile.
    pub host: Vec<Op>,
}

impl Run {
    /// The value of a flag that is given once.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.flags.iter().rev().find(|(flag, _)| flag == name).map(|(_, value)| value.as_str())
    }

    /// All values of a flag.
    pub fn all<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r str> {
        self.flags.iter().filter(move |(flag, _)| flag == name).map(|(_, value)| value.as_str())
    }
}

/// A tree, and what is done in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Lines for the reader.
    pub notes: Vec<String>,
    /// What is there at first, parents before children.
    pub tree: Vec<Op>,
    /// One run after the other, in the same tree.
    pub runs: Vec<Run>,
}

impl History {
    /// How many operations it has.
    #[must_use]
    pub fn operations(&self) -> usize {
        let of_run =
            |run: &Run| run.before.len() + run.host.len() + run.inside.iter().map(Vec::len).sum::<usize>();
        self.runs.iter().map(of_run).sum()
    }

    /// Reads a history.
    ///
    /// # Errors
    /// With the line that is none.
    pub fn parse(text: &str) -> Result<History, String> {
        let mut history = History::default();
        let mut section = "";
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(note) = line.strip_prefix('#') {
                history.notes.push(note.trim().to_owned());
                continue;
            }
            if line.is_empty() {
                continue;
            }
            let op = Op::of(line);
            let wrong = |what: &str| Err(format!("line {}: {what}: {line}", number + 1));
            match (op.verb.as_str(), op.words.is_empty()) {
                ("tree", true) if history.runs.is_empty() => section = "tree",
                ("run", true) => {
                    history.runs.push(Run::default());
                    section = "run";
                }
                ("inside", true) if !history.runs.is_empty() => {
                    history.runs.last_mut().expect("checked").inside.push(Vec::new());
                    section = "inside";
                }
                ("host", true) if !history.runs.is_empty() => section = "host",
                _ if section == "tree" && is_one_of(TREE, &op) => history.tree.push(op),
                _ => {
                    let Some(run) = history.runs.last_mut() else { return wrong("no such node") };
                    match section {
                        "run" if !header(run, &op) => return wrong("no such part of a run"),
                        "run" => {}
                        "inside" if is_one_of(INSIDE, &op) => {
                            run.inside.last_mut().expect("the section began with one").push(op);
                        }
                        "host" if is_one_of(HOST, &op) => run.host.push(op),
                        _ => return wrong("no such operation"),
                    }
                }
            }
        }
        Ok(history)
    }
}

/// Reads what stands before the operations of a run.
fn header(run: &mut Run, op: &Op) -> bool {
    match (op.verb.as_str(), op.words.as_slice()) {
        ("flag", [name]) => run.flags.push((name.clone(), String::new())),
        ("flag", [name, value]) => run.flags.push((name.clone(), value.clone())),
        ("cwd", [path]) => run.cwd.clone_from(path),
        ("report", [path]) => run.report = Some(path.clone()),
        ("stdin", [path]) => run.streams[0] = Some(path.clone()),
        ("stdout", [path]) => run.streams[1] = Some(path.clone()),
        ("stderr", [path]) => run.streams[2] = Some(path.clone()),
        ("before", [verb, words @ ..]) => {
            let op = Op { verb: verb.clone(), words: words.to_vec() };
            let known = is_one_of(HOST, &op);
            run.before.push(op);
            return known;
        }
        _ => return false,
    }
    true
}

fn is_one_of(table: &[Verb], op: &Op) -> bool {
    let known = table.iter().find(|(verb, ..)| *verb == op.verb);
    known.is_some_and(|(_, least, most)| (*least..=*most).contains(&op.words.len()))
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.iter().try_for_each(|note| writeln!(f, "# {note}"))?;
        writeln!(f, "tree")?;
        self.tree.iter().try_for_each(|node| writeln!(f, "  {node}"))?;
        self.runs.iter().try_for_each(|run| write!(f, "{run}"))
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run")?;
        self.before.iter().try_for_each(|op| writeln!(f, "  before {op}"))?;
        if !self.cwd.is_empty() {
            writeln!(f, "  cwd {}", self.cwd)?;
        }
        if let Some(report) = &self.report {
            writeln!(f, "  report {report}")?;
        }
        for (name, path) in ["stdin", "stdout", "stderr"].iter().zip(&self.streams) {
            if let Some(path) = path {
                writeln!(f, "  {name} {path}")?;
            }
        }
        for (name, value) in &self.flags {
            writeln!(f, "  flag {name}{}{value}", if value.is_empty() { "" } else { " " })?;
        }
        for process in &self.inside {
            writeln!(f, "  inside")?;
            process.iter().try_for_each(|op| writeln!(f, "    {op}"))?;
        }
        if !self.host.is_empty() {
            writeln!(f, "  host")?;
            self.host.iter().try_for_each(|op| writeln!(f, "    {op}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# row 2
tree
  dir w
  file w/.env 0600
  link w/l ../out
run
  cwd w
  stdin w/.env
  flag --allow-write w
  flag --host-tmp
  inside
    sync 1
    read w/.env @procfd
  inside
    sweep
  host
    await 1
    replace w/.env
    go 1
run
  before touch w/.env
  report w/r.json
";

    #[test]
    fn a_history_is_printed_as_it_was_read() {
        let history = History::parse(TEXT).unwrap();
        assert_eq!(history.to_string(), TEXT);
        assert_eq!((history.operations(), history.runs.len(), history.runs[0].inside.len()), (7, 2, 2));
    }

    #[test]
    fn what_is_no_operation_is_told_with_its_line() {
        for (text, line) in [("tree\n  fly w\n", "line 2"), ("run\n  inside\n    read\n", "line 3")] {
            let error = History::parse(text).unwrap_err();
            assert!(error.starts_with(line), "{error}");
        }
    }
}
