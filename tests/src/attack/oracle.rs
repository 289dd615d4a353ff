//! Whether a run kept what its policy says: the books of the host against what is there, and what was seen.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::canary::{self, Canary};
use super::ledger::{Ledger, Place};
use super::model::{Model, find, other_names};
use super::perform::Outcome;
use super::script::{Op, Run};
use super::snapshot::{Entry, Kind, Snapshot};
use super::wire::{About, Record};
use super::word;

/// How long it may take, in milliseconds, until a guard on a busy machine notices what the host did. The report says how
/// long it took from then on.
const NOTICED_AFTER: f64 = 50.0;
/// The longest time in all for which something that the host puts at a denied name may be open, whatever the report admits.
const LONGEST_EXPOSURE: f64 = 250.0;
/// Names are watched when a command has run for so long: what the host changes before is covered only then, and in a run
/// that is over by then never. `KENNEL_ATTACK_STRICT=1` takes this allowance away.
const WATCHED_AFTER: f64 = 100.0;
/// More than this on standard error is a flood.
const MOST_OUTPUT: usize = 1 << 20;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What class it is: shrinking keeps it.
    pub kind: &'static str,
    /// What it is about.
    pub path: String,
    /// In words.
    pub what: String,
}

impl Finding {
    /// A finding.
    #[must_use]
    pub fn new(kind: &'static str, path: &str, what: &str) -> Finding {
        Finding { kind, path: path.to_owned(), what: what.to_owned() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind, self.path, self.what.trim_end())
    }
}

/// One run, with all that is known about it.
pub struct Case<'c> {
    /// What was done.
    pub run: &'c Run,
    /// What was permitted.
    pub model: &'c Model,
    /// What was permitted to second sandboxes in the same tree.
    pub others: &'c [Model],
    /// The tree at the beginning.
    pub before: &'c Snapshot,
    /// And at the end.
    pub after: &'c Snapshot,
    /// What should be there.
    pub ledger: &'c Ledger,
    /// What came of it.
    pub outcome: &'c Outcome,
}

impl Case<'_> {
    /// All findings.
    #[must_use]
    pub fn judge(&self) -> Vec<Finding> {
        let mut findings = self.outcome.findings.clone();
        self.secrets(&mut findings);
        self.names(&mut findings);
        self.power(&mut findings);
        self.calls(&mut findings);
        self.end(&mut findings);
        findings
    }

    /// Those about a second sandbox alone: what is on the disk is judged once, for all.
    #[must_use]
    pub fn judge_sight(&self) -> Vec<Finding> {
        let mut findings = self.outcome.findings.clone();
        self.secrets(&mut findings);
        self.end(&mut findings);
        findings
    }

    /// Whether any of the sandboxes may write a name.
    fn may_write(&self, path: &str) -> bool {
        self.model.may_write(path) || self.others.iter().any(|other| other.may_write(path))
    }

    /// Whether the inside may know a canary by any of the names that its file has or had.
    fn is_public(&self, places: &[Place]) -> bool {
        let given = self.run.streams[0].as_deref();
        places.iter().any(|place| self.model.may_read(&place.path) || given == Some(&place.path))
    }

    /// No secret of a denied name was read, and none left.
    fn secrets(&self, findings: &mut Vec<Finding>) {
        let secret = |canary: &Canary| match self.ledger.places.get(canary) {
            Some(places) => (!self.is_public(places)).then_some(places.as_slice()),
            // The host's processes have canaries that are in no file.
            None => (self.outcome.process_canaries.contains(canary)).then_some([].as_slice()),
        };
        let mut told = BTreeSet::new();
        for record in self.outcome.records.iter().filter(|record| record.about == About::Done) {
            for canary in canary::find(&record.data) {
                let Some(places) = secret(&canary) else { continue };
                if places.iter().any(|place| self.is_excused(place, record)) || !told.insert(canary.clone()) {
                    continue;
                }
                let path = places.last().map_or("a process of the host's", |place| place.path.as_str());
                let op = self.op(record).map(ToString::to_string).unwrap_or_default();
                let late = places.last().and_then(|place| place.since).map(|since| {
                    format!(", {:.3} ms after the host put it there", record.since.saturating_sub(since) as f64 / 1e6)
                });
                findings.push(Finding::new(
                    "secret-read",
                    path,
                    &format!("process {} read it{}: {op}", record.actor, late.unwrap_or_default()),
                ));
            }
        }
        // Names are secrets as well, where their folder cannot be read.
        let stayed = |path: &str| !word::upwards(path).any(|above| self.ledger.changes.contains_key(above));
        for (path, _) in self.before.iter().filter(|(path, _)| !self.model.names(path) && stayed(path)) {
            let folder = word::parent(path).unwrap_or(path);
            for canary in canary::find(word::name(path).as_bytes()) {
                let seen = |record: &Record| canary::find(&record.data).contains(&canary);
                if !self.model.may_read(folder) && self.outcome.records.iter().any(seen) {
                    findings.push(Finding::new("secret-read", path, "its name was seen inside"));
                }
            }
        }
        for (where_to, text) in [
            ("output", &self.outcome.stdout),
            ("error output", &self.outcome.stderr),
            ("the report", &self.outcome.report_text),
            ("the network", &self.outcome.network),
        ] {
            for canary in canary::find(text).into_iter().filter(|canary| secret(canary).is_some()) {
                findings.push(Finding::new("secret-left", where_to, canary.text()));
            }
        }
        for (path, entry) in self.after.iter().filter(|(_, entry)| entry.kind == Kind::File) {
            for canary in canary::find(&entry.content) {
                let lies_here = |places: &[Place]| {
                    places.iter().any(|place| place.path == *path)
                        || self.before.get(path).is_some_and(|before| before.content == entry.content)
                };
                if secret(&canary).is_some_and(|places| !lies_here(places)) && !self.is_taken_aside(path) {
                    findings.push(Finding::new("secret-left", path, "a secret was written there"));
                }
            }
        }
    }

    /// What kennel moved aside because it appeared at a denied name.
    fn is_taken_aside(&self, path: &str) -> bool {
        path.contains(".refused-by-kennel-")
    }

    /// What the host puts at a denied name is open until kennel has covered it. That is excused as long as kennel admits it
    /// in its report, for as long as it says, and not longer than a bound: what was opened later is a finding.
    fn is_excused(&self, place: &Place, record: &Record) -> bool {
        place.since.is_some_and(|since| self.is_admitted(&place.path, since, record))
    }

    fn is_admitted(&self, path: &str, since: u64, record: &Record) -> bool {
        let after = |moment: u64| record.since.saturating_sub(moment) as f64 / 1e6;
        let admitted = self.exposure(path).map(|exposed| (exposed + NOTICED_AFTER).min(LONGEST_EXPOSURE));
        let strict = std::env::var_os("KENNEL_ATTACK_STRICT").is_some();
        let started = self.outcome.records.iter().find(|record| record.about == About::Started);
        let young = started.is_some_and(|started| after(started.since) <= WATCHED_AFTER + NOTICED_AFTER);
        admitted.is_some_and(|milliseconds| after(since) <= milliseconds) || young && !strict
    }

    /// For how long the report says that a name, or something above it, was open, in milliseconds.
    fn exposure(&self, path: &str) -> Option<f64> {
        let violations = self.outcome.report.get("violations")?.as_array()?;
        let is_it = |told: &&Value| {
            let about = told.get("path").and_then(Value::as_str).unwrap_or_default();
            let about = self.outcome.relative(about);
            told.get("what").and_then(Value::as_str) == Some("exposed") && word::is_within(path, &about)
        };
        let time = |told: &Value| told.get("longest_us").and_then(Value::as_f64).map(|time| time / 1000.0);
        violations.iter().filter(is_it).filter_map(time).reduce(f64::max)
    }

    fn op(&self, record: &Record) -> Option<&Op> {
        self.run.inside.get(usize::from(record.actor)).and_then(|ops| ops.get(usize::from(record.op)))
    }

    /// Every name that the sandbox must not touch is as the host left it.
    fn names(&self, findings: &mut Vec<Finding>) {
        let names: BTreeSet<&String> =
            self.before.keys().chain(self.after.keys()).chain(self.ledger.names.keys()).collect();
        let free: BTreeSet<(u64, u64)> = self
            .before
            .iter()
            .filter(|(path, entry)| entry.kind != Kind::Folder && self.may_write(path))
            .map(|(_, entry)| entry.identity)
            .collect();
        let report = self.report_paths();
        for path in names {
            let (expected, now) = (self.ledger.names.get(path), self.after.get(path));
            if self.ledger.is_wild(path) || report.contains(path) {
                continue;
            }
            if self.may_write(path) {
                self.roots(path, findings);
                continue;
            }
            let known = findings.len();
            match (expected, now) {
                (None, None) => {}
                (None, Some(_)) if self.is_excused_write(path) => {}
                (None, Some(entry)) => {
                    findings.push(Finding::new("appeared", path, &format!("{:?}, {}", entry.kind, shown(entry))));
                }
                (Some(_), None) => {
                    if !self.ledger.is_made(path) && !self.is_excused_write(path) {
                        findings.push(Finding::new("vanished", path, "it was there"));
                    }
                }
                (Some(expected), Some(now)) => {
                    if free.contains(&expected.entry.identity) && expected.entry.identity == now.identity {
                        continue;
                    }
                    let then = self.tolerant(path, &expected.entry, expected.exact, now, &report);
                    if let Some(difference) = then.difference(now) {
                        if self.ledger.is_made(path) || self.is_excused_write(path) {
                            continue;
                        }
                        findings.push(Finding::new("changed", path, &difference));
                    }
                }
            }
            // What can be written by another name, that of a second mount for one, changes under this one as well.
            if findings.len() > known && other_names(self.before, path).any(|name| self.may_write(&name)) {
                findings.truncate(known);
            }
        }
        self.second_names(findings);
    }

    /// The place of a thing that can be written is not itself for the sandbox to remove, if its folder is not.
    fn roots(&self, path: &str, findings: &mut Vec<Finding>) {
        let held = word::parent(path).is_none_or(|folder| !self.may_write(folder));
        let (before, expected) = (self.before.get(path), self.ledger.names.get(path));
        if let (true, Some(before), Some(expected)) = (held, before, expected)
            && expected.entry.identity == before.identity
        {
            match self.after.get(path) {
                None => findings.push(Finding::new("vanished", path, "a write root is gone")),
                Some(now) if now.identity != before.identity => {
                    findings.push(Finding::new("changed", path, "another thing stands in the place of a write root"));
                }
                Some(_) => {}
            }
        }
    }

    /// What is expected, less what is nobody's fault: the times of what the host or kennel itself changed, and what is
    /// appended to a file that was given as output.
    fn tolerant(&self, path: &str, expected: &Entry, exact: bool, now: &Entry, report: &BTreeSet<String>) -> Entry {
        let mut then = expected.clone();
        let holds_report = report.iter().any(|report| word::parent(report) == Some(path));
        // A folder in which something can be made or removed has another time then.
        let holds_writable = || {
            let inside = |name: &&String| word::parent(name) == Some(path) && self.may_write(name);
            now.kind == Kind::Folder && self.after.keys().chain(self.before.keys()).any(|name| inside(&name))
        };
        if !exact || holds_report || holds_writable() {
            then.identity = now.identity;
            then.modified = now.modified;
        }
        if exact && (holds_report || holds_writable()) {
            then.identity = expected.identity;
        }
        let is_output = self.run.streams[1..].iter().flatten().any(|stream| stream == path);
        if is_output && now.content.starts_with(&expected.content) {
            then.content.clone_from(&now.content);
            then.size = now.size;
            then.modified = now.modified;
        }
        then
    }

    /// A write to a name that the host had just changed, in the time that the report admits, and none after that.
    fn is_excused_write(&self, path: &str) -> bool {
        const LOOKING: [&str; 7] = ["read", "sweep", "poll", "list", "readlink", "sync", "pause"];
        let changed = word::upwards(path).filter_map(|above| self.ledger.changes.get(above)).max();
        let Some(since) = changed else { return false };
        let is_about = |record: &&Record| {
            let names = |word: &String| word::is_within(path, word) || word::is_within(word, path);
            self.op(record).is_some_and(|op| !LOOKING.contains(&op.verb.as_str()) && op.words.iter().any(names))
        };
        let done = self.outcome.records.iter().filter(|record| record.about == About::Done && record.result >= 0);
        let wrote: Vec<&Record> = done.filter(is_about).collect();
        !wrote.is_empty() && wrote.iter().all(|record| self.is_admitted(path, *since, record))
    }

    /// Where kennel itself writes.
    fn report_paths(&self) -> BTreeSet<String> {
        let report = self.run.report.as_deref().into_iter();
        let there = report.clone().flat_map(|report| find(self.before, report, true)).map(|found| found.path);
        there.chain(report.map(str::to_owned)).collect()
    }

    /// What is protected has no second name that it had not before.
    fn second_names(&self, findings: &mut Vec<Finding>) {
        for (path, entry) in self.after.iter().filter(|(_, entry)| entry.kind == Kind::File) {
            // A file that the host removed may have left its number to another one.
            let still = |name: &String| self.after.get(name).is_some_and(|now| now.identity == entry.identity);
            let same = |(name, before): &(&String, &Entry)| before.identity == entry.identity && still(name);
            let mut was = self.before.iter().filter(same).map(|(name, _)| name).peekable();
            let known = self.before.get(path).is_some_and(|before| before.identity == entry.identity)
                || self.ledger.names.contains_key(path);
            // What kennel moved aside from a denied name keeps the names below it.
            let aside = self.outcome.code == Some(123) && self.is_taken_aside(path);
            if was.peek().is_some() && !known && !aside && self.may_write(path) && was.all(|name| !self.may_write(name)) {
                findings.push(Finding::new("appeared", path, "a second name of a protected file"));
            }
        }
    }

    /// No file got a power, whoever's it is.
    fn power(&self, findings: &mut Vec<Finding>) {
        for (path, entry) in self.after {
            let had = self.before.get(path);
            let bits = entry.mode & 0o6000;
            let had_bits = had.map_or(0, |had| had.mode & 0o6000);
            if bits & !had_bits != 0 && entry.kind != Kind::Folder {
                findings.push(Finding::new("power", path, &format!("its mode is {:04o}", entry.mode)));
            }
            let capability = |entry: &Entry| entry.xattrs.iter().any(|(name, _)| name == "security.capability");
            if capability(entry) && !had.is_some_and(capability) {
                findings.push(Finding::new("power", path, "it has a file capability"));
            }
            if entry.kind == Kind::Device && !had.is_some_and(|had| had.kind == Kind::Device) {
                // A node without numbers is an overlay's whiteout, and leads nowhere.
                findings.push(Finding::new("power", path, "it is a device"));
            }
        }
    }

    /// Calls whose success alone is a finding.
    fn calls(&self, findings: &mut Vec<Finding>) {
        for record in self.outcome.records.iter().filter(|record| record.about == About::Done && record.result > 0) {
            match self.op(record).map_or("", |op| op.verb.as_str()) {
                "cgroup" => findings.push(Finding::new("cgroup", "/sys/fs/cgroup", "a process inside left its cgroup")),
                "procwrite" => findings.push(Finding::new("proc", "/proc/sys", "a setting of the kernel was written")),
                _ => {}
            }
        }
    }

    /// How it ended.
    fn end(&self, findings: &mut Vec<Finding>) {
        let outcome = self.outcome;
        let said = String::from_utf8_lossy(&outcome.stderr);
        if said.contains("panicked at") {
            findings.push(Finding::new("exit", "kennel", &format!("it panicked: {said}")));
        }
        if outcome.stderr.len() > MOST_OUTPUT {
            findings.push(Finding::new("exit", "kennel", &format!("it printed {} bytes", outcome.stderr.len())));
        }
        let told = |about: About| outcome.records.iter().any(|record| record.about == about);
        let limited = self.run.flags.iter().any(|(flag, _)| {
            matches!(flag.as_str(), "--memory" | "--pids" | "--timeout" | "--cpu-time" | "--open-files" | "--file-size")
        });
        let violent = self.run.inside.iter().flatten().any(|op| op.verb == "kill");
        let silent = self.run.streams[2].is_some();
        let sensible = match outcome.code {
            None => true,
            Some(super::attacker::DONE) => told(About::Ended),
            // Also when the report could not be written at the end.
            Some(125) => silent || said.contains("kennel: ") && (!told(About::Ended) || said.contains("report")),
            Some(123) => told(About::Started),
            Some(126 | 127) => !told(About::Started),
            Some(_) => limited || violent,
        };
        if !sensible {
            findings.push(Finding::new(
                "exit",
                "kennel",
                &format!("exit code {:?} makes no sense here: {said}", outcome.code),
            ));
        }
    }
}

fn shown(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.content[..entry.content.len().min(60)]).into_owned()
}

/// The folders of a history in which the host may run git, and whether its policy promises that it is safe.
#[must_use]
pub fn promises_git(run: &Run) -> bool {
    let level = run.flag("--git");
    level.is_some_and(|level| level != "off") || (level.is_none() && matches!(run.flag("--profile"), Some("agent" | "build")))
}
