//! From a history that found something to a small one that finds the same: leave out whatever is not needed.
//!
//! Histories race, so each try is played several times before it counts as one that finds nothing.

use std::time::{Duration, Instant};

use super::oracle::Finding;
use super::perform::Session;
use super::script::{History, Op, Run};
use super::tree::Area;

/// What shrinking needs.
pub struct Shrinker<'s> {
    /// Plays histories.
    pub session: &'s Session,
    /// Where.
    pub area: &'s mut Area,
    /// The kind of finding that has to stay.
    pub kind: &'static str,
    /// For secrets.
    pub nonce: u64,
    /// When to stop.
    pub deadline: Instant,
    /// What the smallest history so far finds.
    pub last: Option<Finding>,
    tries: usize,
}

impl<'s> Shrinker<'s> {
    /// Gets ready. Takes some time to see how often the history finds it.
    pub fn new(
        session: &'s Session,
        area: &'s mut Area,
        kind: &'static str,
        history: &History,
        limit: Duration,
    ) -> Option<Shrinker<'s>> {
        let deadline = Instant::now() + limit;
        let mut shrinker = Shrinker { session, area, kind, nonce: 0, deadline, last: None, tries: 1 };
        // Somebody who waits for a hang does not want to wait for six.
        let looks = if kind == "hang" { 1 } else { 6 };
        let seen = (0..looks).filter(|_| shrinker.finds(history)).count();
        shrinker.tries = match seen {
            _ if seen == looks => 1,
            4..=5 => 2,
            2..=3 => 4,
            1 => 9,
            // Seldom: everything takes long from here on.
            _ if looks > 1 && (0..40).any(|_| shrinker.finds(history)) => 25,
            _ => return None,
        };
        Some(shrinker)
    }

    fn finds(&mut self, history: &History) -> bool {
        (0..self.tries).any(|_| {
            self.nonce += 1;
            let played = self.session.play(history, self.area, self.nonce ^ 0x5eed);
            let findings = played.map(|played| played.findings).unwrap_or_default();
            let found = findings.into_iter().find(|finding| finding.kind == self.kind);
            let is_found = found.is_some();
            self.last = found.or(self.last.take());
            is_found
        })
    }

    /// Takes a smaller history if it finds the same.
    fn take(&mut self, history: &mut History, smaller: History) -> bool {
        if smaller == *history || Instant::now() > self.deadline || !self.finds(&smaller) {
            return false;
        }
        *history = smaller;
        true
    }

    /// Makes it as small as it gets.
    pub fn shrink(&mut self, history: &mut History) {
        loop {
            let before = history.clone();
            for index in (0..history.runs.len()).rev() {
                let mut smaller = history.clone();
                smaller.runs.remove(index);
                self.take(history, smaller);
            }
            // First what makes a history quick to play.
            self.list(history, &|history| &mut history.tree);
            for run in 0..history.runs.len() {
                for actor in (0..history.runs[run].inside.len()).rev() {
                    let mut smaller = history.clone();
                    smaller.runs[run].inside.remove(actor);
                    self.take(history, smaller);
                }
                for actor in 0..history.runs[run].inside.len() {
                    self.list(history, &|history| &mut history.runs[run].inside[actor]);
                }
                self.list(history, &|history| &mut history.runs[run].host);
                self.list(history, &|history| &mut history.runs[run].before);
                self.list(history, &|history| &mut history.runs[run].flags);
                self.rest(history, run);
            }
            self.words(history);
            if *history == before || Instant::now() > self.deadline {
                return;
            }
        }
    }

    /// Leaves out parts of a list: halves first, then less and less.
    fn list<T: Clone>(&mut self, history: &mut History, of: &dyn Fn(&mut History) -> &mut Vec<T>) {
        let mut size = of(history).len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < of(history).len() {
                let mut smaller = history.clone();
                let list = of(&mut smaller);
                list.drain(at..(at + size).min(list.len()));
                if !self.take(history, smaller) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// What a run has only once.
    fn rest(&mut self, history: &mut History, run: usize) {
        let changes: [&dyn Fn(&mut Run); 5] = [
            &|run| run.report = None,
            &|run| run.streams[0] = None,
            &|run| run.streams[1] = None,
            &|run| run.streams[2] = None,
            &|run| run.cwd = String::new(),
        ];
        for change in changes {
            let mut smaller = history.clone();
            change(&mut smaller.runs[run]);
            self.take(history, smaller);
        }
    }

    /// Simpler words: a path as it is, and shorter pauses.
    fn words(&mut self, history: &mut History) {
        for run in 0..history.runs.len() {
            for actor in 0..history.runs[run].inside.len() {
                for index in 0..history.runs[run].inside[actor].len() {
                    let mut smaller = history.clone();
                    simplify(&mut smaller.runs[run].inside[actor][index]);
                    self.take(history, smaller);
                }
            }
        }
    }
}

fn simplify(op: &mut Op) {
    if op.words.last().is_some_and(|word| word.starts_with('@')) {
        op.words.pop();
    }
}
