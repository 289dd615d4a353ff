//! A whole history: the tree is made, the runs follow each other in it, and each is judged.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::canary::Canaries;
use super::host::Host;
use super::ledger::Ledger;
use super::model::Model;
use super::oracle::{Case, Finding, promises_git};
use super::perform::{Outcome, Session};
use super::script::{History, Run};
use super::snapshot::{self, Kind, Snapshot};
use super::tree::{Area, Living, git};
use super::word;

/// What came of a history.
#[derive(Debug, Default)]
pub struct Played {
    /// What must not be.
    pub findings: Vec<Finding>,
    /// How many of its runs started a command.
    pub started: usize,
    /// For a person who wants to know more: what each run said.
    pub log: Vec<String>,
}

impl Session {
    /// Plays a history.
    ///
    /// # Errors
    /// When the test itself fails.
    pub fn play(&self, history: &History, area: &mut Area, nonce: u64) -> Result<Played, String> {
        let mut canaries = Canaries::new(nonce);
        let living = area.plant(&history.tree, &mut canaries)?;
        let _ = self.listener.arrived();
        let mut played = Played::default();
        let mut planted = BTreeSet::new();
        let mut before = snapshot::take(&area.top());
        for run in &history.runs {
            if !run.before.is_empty() {
                let model = Model::default();
                let ledger = Ledger::new(&before);
                let mut host =
                    Host::new(area, &model, ledger, &mut canaries).map_err(|error| error.to_string())?;
                run.before.iter().for_each(|op| host.perform(op));
                before = snapshot::take(&area.top());
            }
            let model = Model::of(run, &before, &planted);
            let ledger = Ledger::new(&before);
            let mut host =
                Host::new(area, &model, ledger, &mut canaries).map_err(|error| error.to_string())?;
            let mut outcome = self.perform(run, area, &mut host, false).map_err(|error| error.to_string())?;
            let (ledger, host_log, also) = (host.ledger, host.log, host.also);
            let after = snapshot::take(&area.top());
            sockets(run, &living, &mut outcome);
            played.log.push(log(run, &outcome, &host_log));
            played.started += usize::from(!outcome.records.is_empty());
            // A link in the place of a rule of the second one's is one that the first one made, unless it was there before.
            let made = links_made_inside(&before, &after, &ledger);
            let all: BTreeSet<String> = planted.iter().cloned().chain(made.iter().cloned()).collect();
            let others: Vec<Model> =
                also.iter().map(|(second, _)| Model::of(second, &before, &all)).collect();
            let case = |run, model, outcome| Case {
                run,
                model,
                others: &others,
                before: &before,
                after: &after,
                ledger: &ledger,
                outcome,
            };
            played.findings.extend(case(run, &model, &outcome).judge());
            for ((second, outcome), other) in also.iter().zip(&others) {
                played.log.push(log(second, outcome, &[]));
                played.findings.extend(case(second, other, outcome).judge_sight());
            }
            if promises_git(run) {
                played.findings.extend(host_git(area, run, &model, &after));
                if played.findings.is_empty() && is_raw(run) {
                    played.findings.extend(all_of_git(area, run, nonce));
                }
            }
            if !played.findings.is_empty() {
                break;
            }
            planted.extend(made);
            before = snapshot::take(&area.top());
        }
        Ok(played)
    }
}

/// Links that are there now, and that neither were there before nor are the host's.
fn links_made_inside(before: &Snapshot, after: &Snapshot, ledger: &Ledger) -> Vec<String> {
    let links = after.iter().filter(|(_, entry)| entry.kind == Kind::Link);
    let made = links.filter(|(path, entry)| {
        // Not by the inode alone: a new link may have the number of what was removed.
        let old = before.get(*path).is_some_and(|old| old.kind == Kind::Link && old.content == entry.content);
        let hosts =
            ledger.names.get(*path).is_some_and(|name| !name.exact && name.entry.content == entry.content);
        !old && !hosts
    });
    made.map(|(path, _)| path.clone()).collect()
}

/// Who connected to the host's daemons, though no rule lets anybody.
fn sockets(run: &Run, living: &Living, outcome: &mut Outcome) {
    for (path, daemon) in &living.daemons {
        let mut connected = false;
        while daemon.accept().is_ok() {
            connected = true;
        }
        let all = run.flag("--unix-sockets") == Some("all");
        if connected && !all && !run.all("--allow-unix-socket").any(|listed| listed == path) {
            outcome.findings.push(Finding::new("reached", path, "a daemon of the host's was connected to"));
        }
    }
}

/// Runs git on the host, as a user does who looks what came of it, wherever the sandbox could write.
fn host_git(area: &Area, run: &Run, model: &Model, after: &Snapshot) -> Vec<Finding> {
    let marks = area.at("marks");
    let is_repository = |path: &str| {
        ["HEAD", ".git", "config"].iter().any(|name| after.contains_key(&word::join(path, name)))
    };
    let folders = after.iter().filter(|(path, entry)| {
        entry.kind == Kind::Folder && model.may_write(path) && !path.split('/').any(|name| name == ".git")
    });
    let mut folders: Vec<&str> = folders.map(|(path, _)| path.as_str()).collect();
    folders.sort_by_key(|path| (!is_repository(path), path.len()));
    folders.truncate(6);
    folders.insert(0, if run.cwd.is_empty() { "." } else { &run.cwd });
    let mut findings = Vec::new();
    let mut call = |folder: &str, words: &[&str]| {
        let _ = git(&word::place(&area.top(), folder)).args(words).status();
        if has_entries(&marks) {
            let what = format!("`git {}` on the host ran a program that the sandbox wrote", words.join(" "));
            findings.push(Finding::new("executed", folder, &what));
            snapshot::clear(&marks);
        }
    };
    for folder in &folders {
        call(folder, &["status"]);
    }
    for words in
        [&["diff"][..], &["log", "-1"], &["submodule", "status"], &["add", "-A"], &["commit", "-qm", "x"]]
    {
        call(folders[0], words);
    }
    call(folders[0], &["checkout", "-q", "."]);
    findings
}

/// Whether a run writes into repositories by other ways than git's.
fn is_raw(run: &Run) -> bool {
    let raw = |verb: &str| matches!(verb, "gitindex" | "symlink" | "link" | "put");
    let mut ops = run.inside.iter().flatten().filter(|op| raw(&op.verb));
    ops.any(|op| op.words.iter().any(|word| word.contains(".git/")))
}

/// What people type, each line for a repository as it was left by the ones before.
const COMMANDS: &[&str] = &[
    "checkout -q -f .",
    "restore .",
    "commit -q --allow-empty",
    "tag -a v1",
    "notes add",
    "add -A",
    "commit -q -m x",
    "branch new2",
    "checkout -q -b new3",
    "stash",
    "stash pop",
    "merge -q main",
    "fetch -q .",
    "pull -q . main",
    "rebase -q main",
    "cherry-pick main",
    "revert --no-edit HEAD",
    "bisect start HEAD HEAD",
    "bisect reset",
    "worktree add -q trees",
    "worktree prune",
    "submodule --quiet update --init",
    "sparse-checkout set sub",
    "sparse-checkout disable",
    "fsck --lost-found",
    "pack-refs --all",
    "branch -D new2",
    "repack -q -a -d",
    "commit-graph write --reachable",
    "reflog expire --all --expire=now",
    "gc -q",
    "status",
    "reset -q --hard",
    "switch -q -f main",
    "clean -q -f -d",
    "status",
];

/// All of git's commands in every repository that a sandbox had to do with: they run nothing, and write nothing outside.
fn all_of_git(area: &Area, run: &Run, nonce: u64) -> Vec<Finding> {
    let (top, marks) = (area.top(), area.at("marks"));
    let own = if run.cwd.is_empty() { "." } else { run.cwd.as_str() };
    let nested = word::join(own, "n");
    let folders = [own, nested.as_str(), "main"].into_iter().filter(|folder| {
        let place = word::place(&top, folder);
        place.join(".git").symlink_metadata().is_ok() || place.join("HEAD").exists()
    });
    let folders: Vec<&str> = folders.collect();
    let before = snapshot::take(&top);
    let mut findings = Vec::new();
    for folder in &folders {
        // From another one each time: some clear away what others act on.
        let start = usize::try_from(nonce).unwrap_or(0) % COMMANDS.len();
        for words in COMMANDS.iter().cycle().skip(start).take(COMMANDS.len()) {
            let mut command = git(&word::place(&top, folder));
            let _ = command.env("GIT_EDITOR", "true").args(words.split(' ')).status();
            if has_entries(&marks) {
                let what = format!("`git {words}` on the host ran a program that the sandbox wrote");
                findings.push(Finding::new("executed", folder, &what));
                snapshot::clear(&marks);
            }
        }
    }
    let after = snapshot::take(&top);
    let is_own = |path: &str| folders.iter().chain([&own]).any(|folder| word::is_within(path, folder));
    let changed = before.iter().filter(|(path, old)| {
        !is_own(path) && after.get(*path).is_none_or(|new| new.content != old.content || new.kind != old.kind)
    });
    let new = after.keys().filter(|path| !before.contains_key(*path) && !is_own(path));
    let changed = changed.map(|(path, _)| path).chain(new);
    let what = "git on the host wrote it, by what the sandbox had left in a repository";
    findings.extend(changed.map(|path| Finding::new("written", path, what)));
    findings
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn log(run: &Run, outcome: &Outcome, host: &[String]) -> String {
    let mut log = format!("exit {:?}\n", outcome.code);
    host.iter().for_each(|line| log += &format!("  host {line}\n"));
    for record in &outcome.records {
        let op = run.inside.get(usize::from(record.actor)).and_then(|ops| ops.get(usize::from(record.op)));
        let op = op.map(ToString::to_string).unwrap_or_default();
        log += &format!("  {:?} {}.{} {op}: {}", record.about, record.actor, record.op, record.result);
        if !record.data.is_empty() {
            log += &format!(" {:?}", String::from_utf8_lossy(&record.data[..record.data.len().min(100)]));
        }
        log.push('\n');
    }
    log + &String::from_utf8_lossy(&outcome.stderr)
}
