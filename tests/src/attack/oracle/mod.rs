//! Whether a run kept what its policy says: the books of the host against what is there, and what was seen.
//!
//! - `secrets`: what was read, and what left
//! - `names`: what is on the disk
//! - `grace`: what is excused, and for how long

mod grace;
mod names;
mod secrets;
#[cfg(test)]
mod tests;

use std::fmt;

use super::ledger::Ledger;
use super::model::Model;
use super::perform::Outcome;
use super::script::{Op, Run};
use super::snapshot::Snapshot;
use super::wire::{About, Record};

/// More than this on standard error is a flood.
const MAX_OUTPUT: usize = 1 << 20;

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

    fn op(&self, record: &Record) -> Option<&Op> {
        self.run.inside.get(usize::from(record.actor)).and_then(|ops| ops.get(usize::from(record.op)))
    }

    /// Calls whose success alone is a finding.
    fn calls(&self, findings: &mut Vec<Finding>) {
        for record in
            self.outcome.records.iter().filter(|record| record.about == About::Done && record.result > 0)
        {
            findings.push(match self.op(record).map_or("", |op| op.verb.as_str()) {
                "cgroup" => Finding::new("cgroup", "/sys/fs/cgroup", "a process inside left its cgroup"),
                "hog" => {
                    let what = self.op(record).map_or("", |op| op.word(0));
                    let most = match crate::hog::RESOURCES.iter().find(|(name, _)| *name == what) {
                        Some((_, crate::hog::Share::UpTo(most))) => *most,
                        _ => 0,
                    };
                    if usize::try_from(record.result).unwrap_or(0) <= most {
                        continue;
                    }
                    let text = format!("{} were taken of what one sandbox has {most} of", record.result);
                    Finding::new("share", what, &text)
                }
                "procwrite" => Finding::new("proc", "/proc/sys", "a setting of the kernel was written"),
                _ => continue,
            });
        }
    }

    /// How it ended.
    fn end(&self, findings: &mut Vec<Finding>) {
        let outcome = self.outcome;
        let said = String::from_utf8_lossy(&outcome.stderr);
        if said.contains("panicked at") {
            findings.push(Finding::new("exit", "kennel", &format!("it panicked: {said}")));
        }
        if outcome.stderr.len() > MAX_OUTPUT {
            findings.push(Finding::new(
                "exit",
                "kennel",
                &format!("it printed {} bytes", outcome.stderr.len()),
            ));
        }
        let told = |about: About| outcome.records.iter().any(|record| record.about == about);
        let limited = self.run.flags.iter().any(|(flag, _)| {
            matches!(
                flag.as_str(),
                "--memory" | "--pids" | "--timeout" | "--cpu-time" | "--open-files" | "--file-size"
            )
        });
        let violent = self.run.inside.iter().flatten().any(|op| op.verb == "kill");
        let silent = self.run.streams[2].is_some();
        let sensible = match outcome.code {
            None => true,
            Some(super::attacker::DONE) => told(About::Ended),
            // Also when the report could not be written at the end.
            Some(125) => {
                silent || said.contains("kennel: ") && (!told(About::Ended) || said.contains("report"))
            }
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

/// Whether the policy of a run promises that the host's git runs nothing that the sandbox wrote.
#[must_use]
pub fn promises_git(run: &Run) -> bool {
    let level = run.flag("--git");
    level.is_some_and(|level| level != "off")
        || (level.is_none() && matches!(run.flag("--profile"), Some("agent" | "build")))
}
