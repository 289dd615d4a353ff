//! Names: what the sandbox must not touch is as the host left it, and nothing has got a power.

use std::collections::BTreeSet;

use super::{Case, Finding};
use crate::attack::model::{Found, find, other_names};
use crate::attack::snapshot::{Entry, Kind};
use crate::attack::word::{self, is_within};

/// Where kennel keeps what is its own: layers of caches, for one.
const STATE: &str = "home/.local/state/kennel";

impl Case<'_> {
    /// Every name that the sandbox must not touch is as the host left it.
    pub(super) fn names(&self, findings: &mut Vec<Finding>) {
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
            if self.ledger.is_wild(path) || report.contains(path) || is_within(path, STATE) {
                continue;
            }
            if self.may_write(path) {
                self.roots(path, findings);
                continue;
            }
            let known = findings.len();
            match (expected, now) {
                (None, None) => {}
                (None, Some(entry)) if entry.kind == Kind::Folder && is_within(STATE, path) => {}
                (None, Some(_)) if self.is_excused_write(path) || self.is_hosts_and_set_aside(path) => {}
                (None, Some(entry)) => {
                    findings.push(Finding::new(
                        "appeared",
                        path,
                        &format!("{:?}, {}", entry.kind, shown(entry)),
                    ));
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
                    if let Some(difference) = then.difference(now)
                        && !self.is_excused_write(path)
                    {
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

    /// What the host puts where git would run it, in a workspace, is judged like what the sandbox makes: nobody can tell the
    /// two apart.
    fn is_hosts_and_set_aside(&self, path: &str) -> bool {
        let original = path.split_once(".set-aside-by-kennel-").map(|(original, _)| original);
        original.is_some_and(|original| {
            word::upwards(original).any(|above| self.ledger.changes.contains_key(above))
        })
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
                    findings.push(Finding::new(
                        "changed",
                        path,
                        "another thing stands in the place of a write root",
                    ));
                }
                Some(_) => {}
            }
        }
    }

    /// What is expected, less what is nobody's fault: the times of what the host or kennel itself changed, and what is
    /// appended to a file that was given as output.
    fn tolerant(
        &self,
        path: &str,
        expected: &Entry,
        exact: bool,
        now: &Entry,
        report: &BTreeSet<String>,
    ) -> Entry {
        let mut then = expected.clone();
        let folders: Vec<&str> = report.iter().filter_map(|report| word::parent(report)).collect();
        let holds_report = folders.contains(&path)
            || other_names(self.before, path).any(|name| folders.contains(&name.as_str()));
        // A folder in which something can be made or removed has another time then.
        let holds_writable = || {
            let inside = |name: &&String| word::parent(name) == Some(path) && self.may_write(name);
            now.kind == Kind::Folder && self.after.keys().chain(self.before.keys()).any(|name| inside(&name))
        };
        if now.kind == Kind::Folder && is_within(STATE, path) {
            then.modified = now.modified;
        }
        if !exact || holds_report || holds_writable() {
            then.identity = now.identity;
            then.modified = now.modified;
        }
        if exact && (holds_report || holds_writable()) {
            then.identity = expected.identity;
        }
        // By another name it is the same file.
        let identity = |path: &str| self.before.get(path).map(|entry| entry.identity);
        let is_same = |found: Found| found.path == path || identity(&found.path) == Some(expected.identity);
        let mut outputs = self.run.streams[1..].iter().flatten();
        let is_output = outputs.any(|stream| find(self.before, stream, true).into_iter().any(is_same));
        if is_output && now.content.starts_with(&expected.content) {
            then.content.clone_from(&now.content);
            then.size = now.size;
            then.modified = now.modified;
        }
        then
    }

    /// Where kennel itself writes.
    fn report_paths(&self) -> BTreeSet<String> {
        let Some(report) = self.run.report.as_deref() else { return BTreeSet::new() };
        let found = find(self.before, report, true).into_iter().map(|found| found.path);
        let mut paths: BTreeSet<String> = found.chain([report.to_owned()]).collect();
        // It is written in the folder that was there, wherever the host has moved that meanwhile.
        let identity =
            |path: &str| word::parent(path).and_then(|folder| self.before.get(folder)).map(|it| it.identity);
        let folders: Vec<(u64, u64)> = paths.iter().filter_map(|path| identity(path)).collect();
        let moved = self.after.iter().filter(|(_, entry)| folders.contains(&entry.identity));
        paths.extend(moved.map(|(folder, _)| word::join(folder, word::name(report))));
        paths
    }

    /// What is protected has no second name that it had not before.
    fn second_names(&self, findings: &mut Vec<Finding>) {
        for (path, entry) in self.after.iter().filter(|(_, entry)| entry.kind == Kind::File) {
            let was: Vec<&String> = self
                .before
                .iter()
                .filter(|(_, before)| before.identity == entry.identity)
                .map(|(name, _)| name)
                .collect();
            // A file that the host removed may have left its number to another one.
            let still =
                |name: &&String| self.after.get(*name).is_some_and(|now| now.identity == entry.identity);
            let known = self.before.get(path).is_some_and(|before| before.identity == entry.identity)
                || self.ledger.names.contains_key(path);
            // What kennel moved aside from a denied name keeps the names below it.
            let aside = self.outcome.code == Some(123) && self.is_taken_aside(path);
            if was.iter().any(still)
                && !known
                && !aside
                && self.may_write(path)
                && was.iter().all(|name| !self.may_write(name))
            {
                findings.push(Finding::new("appeared", path, "a second name of a protected file"));
            }
        }
    }

    /// No file got a power, whoever's it is.
    pub(super) fn power(&self, findings: &mut Vec<Finding>) {
        for (path, entry) in self.after {
            let had = self.before.get(path);
            let bits = entry.mode & 0o6000;
            let had_bits = had.map_or(0, |had| had.mode & 0o6000);
            if bits & !had_bits != 0 && entry.kind != Kind::Folder {
                findings.push(Finding::new("power", path, &format!("its mode is {:04o}", entry.mode)));
            }
            let capability =
                |entry: &Entry| entry.xattrs.iter().any(|(name, _)| name == "security.capability");
            if capability(entry) && !had.is_some_and(capability) {
                findings.push(Finding::new("power", path, "it has a file capability"));
            }
            if entry.kind == Kind::Device && !had.is_some_and(|had| had.kind == Kind::Device) {
                // A node without numbers is an overlay's whiteout, and leads nowhere.
                findings.push(Finding::new("power", path, "it is a device"));
            }
        }
    }
}

fn shown(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.content[..entry.content.len().min(60)]).into_owned()
}
