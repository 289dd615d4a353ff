//! What is excused: a name that the host changes is open until kennel has covered it again.

use serde_json::Value;

use super::Case;
use crate::attack::ledger::Place;
use crate::attack::wire::{About, Record};
use crate::attack::word;

/// How long it may take, in milliseconds, until a guard on a busy machine notices what the host did. The report says how
/// long it took from then on.
const NOTICED_AFTER: f64 = 50.0;
/// The longest time in all for which something that the host puts at a denied name may be open, whatever the report admits.
const LONGEST_EXPOSURE: f64 = 250.0;
/// Names are watched when a command has run for so long: what the host changes before is covered only then, and in a run
/// that is over by then never. `KENNEL_ATTACK_STRICT=1` takes this allowance away.
const WATCHED_AFTER: f64 = 100.0;
/// What a report says about a name that was open for a moment.
const ADMISSIONS: [&str; 4] = ["exposed", "removed", "moved-aside", "gone-again"];

impl Case<'_> {
    /// What the host puts at a denied name is open until kennel has covered it. That is excused as long as kennel admits it
    /// in its report, for as long as it says, and not longer than a bound: what was opened later is a finding.
    ///
    /// What was there before shows for a moment as well: the kernel takes the mount off before it takes the file away.
    pub(super) fn is_excused(&self, place: &Place, record: &Record) -> bool {
        let changed = || word::upwards(&place.path).filter_map(|above| self.ledger.changes.get(above)).max();
        match (place.since, changed()) {
            (Some(since), _) => self.is_admitted(&place.path, since, record),
            (None, Some(since)) => {
                let moment = record.since.abs_diff(*since) as f64 / 1e6;
                moment <= NOTICED_AFTER || self.is_admitted(&place.path, *since, record)
            }
            (None, None) => false,
        }
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
        // A report is text: of a name that is none it has only what can be shown.
        let shown = |path: &str| word::place(&self.outcome.top, path).to_string_lossy().into_owned();
        let original = self.ledger.original(path);
        let names: Vec<String> = word::upwards(path).chain(word::upwards(&original)).map(shown).collect();
        let is_it = |told: &&Value| {
            let about = told.get("path").and_then(Value::as_str).unwrap_or_default();
            let what = told.get("what").and_then(Value::as_str).unwrap_or_default();
            ADMISSIONS.contains(&what) && names.iter().any(|name| name == about)
        };
        // What was taken away at once has no time.
        let time =
            |told: &Value| Some(told.get("longest_us").and_then(Value::as_f64).unwrap_or(0.0) / 1000.0);
        violations.iter().filter(is_it).filter_map(time).reduce(f64::max)
    }

    /// A write to a name that the host had just changed, in the time that the report admits, and none after that.
    pub(super) fn is_excused_write(&self, path: &str) -> bool {
        const LOOKING: [&str; 7] = ["read", "sweep", "poll", "list", "readlink", "sync", "pause"];
        let changed = word::upwards(path).filter_map(|above| self.ledger.changes.get(above)).max();
        let Some(since) = changed else { return false };
        let is_about = |record: &&Record| {
            let names = |word: &String| word::is_within(path, word) || word::is_within(word, path);
            self.op(record)
                .is_some_and(|op| !LOOKING.contains(&op.verb.as_str()) && op.words.iter().any(names))
        };
        let done =
            self.outcome.records.iter().filter(|record| record.about == About::Done && record.result >= 0);
        let wrote: Vec<&Record> = done.filter(is_about).collect();
        !wrote.is_empty() && wrote.iter().all(|record| self.is_admitted(path, *since, record))
    }
}
