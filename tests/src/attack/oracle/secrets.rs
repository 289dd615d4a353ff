//! Secrets: what the inside read of what is denied, and what left the sandbox by another way.

use std::collections::BTreeSet;

use super::{Case, Finding};
use crate::attack::canary::{self, Canary};
use crate::attack::ledger::Place;
use crate::attack::model::other_names;
use crate::attack::snapshot::Kind;
use crate::attack::wire::{About, Record};
use crate::attack::word;

impl Case<'_> {
    /// Whether the inside may know a canary by any of the names that its file has or had.
    fn is_public(&self, places: &[Place]) -> bool {
        let given = self.run.streams[0].as_deref();
        let shows =
            |path: &str| self.model.may_read(path) && self.model.may_read(&self.ledger.original(path));
        places.iter().any(|place| shows(&place.path) || given == Some(&place.path))
    }

    /// No secret of a denied name was read, and none left.
    pub(super) fn secrets(&self, findings: &mut Vec<Finding>) {
        let secret = |canary: &Canary| match self.ledger.places.get(canary) {
            Some(places) => (!self.is_public(places)).then_some(places.as_slice()),
            // The host's processes have canaries that are in no file.
            None => (self.outcome.process_canaries.contains(canary)).then_some([].as_slice()),
        };
        let (mut told, mut excused) = (BTreeSet::new(), BTreeSet::new());
        for record in self.outcome.records.iter().filter(|record| record.about == About::Done) {
            for canary in canary::find(&record.data) {
                let Some(places) = secret(&canary) else { continue };
                if places.iter().any(|place| self.is_excused(place, record)) {
                    excused.insert(canary);
                    continue;
                }
                if !told.insert(canary) {
                    continue;
                }
                let path = places.last().map_or("a process of the host's", |place| place.path.as_str());
                let op = self.op(record).map(ToString::to_string).unwrap_or_default();
                let late = places.last().and_then(|place| place.since).map(|since| {
                    format!(
                        ", {:.3} ms after the host put it there",
                        record.since.saturating_sub(since) as f64 / 1e6
                    )
                });
                findings.push(Finding::new(
                    "secret-read",
                    path,
                    &format!("process {} read it{}: {op}", record.actor, late.unwrap_or_default()),
                ));
            }
        }
        // Names are secrets as well, where their folder cannot be read.
        let is_shown = |path: &str| {
            self.model.may_read(path) || other_names(self.before, path).any(|name| self.model.may_read(&name))
        };
        let stayed = |path: &str| !word::upwards(path).any(|above| self.ledger.changes.contains_key(above));
        // Whoever makes a name knows it: in a folder in memory over the denied one, for example.
        let made_inside = |path: &str| {
            let name = word::name(path);
            let mut words = self.run.inside.iter().flatten().flat_map(|op| &op.words);
            words.any(|word| word.contains(name))
        };
        let names = self.before.keys().filter(|path| !self.model.names(path) && stayed(path));
        for path in names.filter(|path| !made_inside(path)) {
            let folder = word::parent(path).unwrap_or(path);
            for canary in canary::find(word::name(path).as_bytes()) {
                let seen = |record: &Record| canary::find(&record.data).contains(&canary);
                if !is_shown(folder) && !is_shown(path) && self.outcome.records.iter().any(seen) {
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
            let left = |canary: &Canary| secret(canary).is_some() && !excused.contains(canary);
            for canary in canary::find(text).into_iter().filter(left) {
                findings.push(Finding::new("secret-left", where_to, canary.text()));
            }
        }
        let known = |path: &str| !self.ledger.is_wild(path);
        for (path, entry) in self.after.iter().filter(|(path, entry)| entry.kind == Kind::File && known(path))
        {
            for canary in canary::find(&entry.content).difference(&excused) {
                let lies_here = |places: &[Place]| {
                    places.iter().any(|place| place.path == *path)
                        || self.before.get(path).is_some_and(|before| before.content == entry.content)
                };
                if secret(canary).is_some_and(|places| !lies_here(places)) && !self.is_taken_aside(path) {
                    findings.push(Finding::new("secret-left", path, "a secret was written there"));
                }
            }
        }
    }

    /// What kennel moved aside because it appeared at a denied name.
    pub(super) fn is_taken_aside(&self, path: &str) -> bool {
        path.contains(".refused-by-kennel-")
    }
}
