//! Random histories.
//!
//! A history starts as a random tree with a random policy and random operations in it, and then one or two *kinds* add
//! what their attacks need: a file behind standard input, a second run, a repository, operations of the host's. Which
//! paths and operations they take is random as well, and everything ends up in the same plain script, so what a kind had
//! in mind does not matter to anybody afterwards.

mod base;
mod kinds;

use super::rng::Rng;
use super::script::{History, Op, Run};

/// What adds to a history: its name, and how often it is taken.
pub const KINDS: &[(&str, usize)] = &[
    ("plain", 8),
    ("replaced", 12),
    ("report", 6),
    ("race", 4),
    ("planted", 8),
    ("limits", 3),
    ("special", 4),
    ("power", 4),
    ("streams", 6),
    ("binds", 4),
    ("globs", 5),
    ("git", 4),
    ("git-raw", 4),
    ("grabs", 3),
    ("hogs", 3),
    ("network", 3),
    ("secrets", 3),
    ("sockets", 4),
    ("settings", 3),
    ("obstacles", 4),
    ("beside", 4),
    ("moved", 8),
];

/// Which kinds to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(&'static str, usize)>);

impl Mix {
    /// Reads `race,git` (only these), `-race,-git` (all but these) or `race=10,git` (more of one); empty means all.
    ///
    /// # Errors
    /// For a kind that there is not.
    pub fn parse(text: &str) -> Result<Mix, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let is_all = words.iter().all(|word| word.starts_with('-'));
        let mut mix: Vec<(&'static str, usize)> = if is_all { KINDS.to_vec() } else { Vec::new() };
        for word in words {
            let (name, weight) =
                word.split_once('=').map_or((word, None), |(name, weight)| (name, weight.parse().ok()));
            let name = name.trim_start_matches('-');
            let Some((known, usual)) = KINDS.iter().find(|(kind, _)| *kind == name) else {
                let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
                return Err(format!("no kind called {name}; there are {}", known.join(", ")));
            };
            mix.retain(|(kind, _)| kind != known);
            if !word.starts_with('-') {
                mix.push((known, weight.unwrap_or(*usual)));
            }
        }
        if mix.iter().all(|(_, weight)| *weight == 0) {
            return Err("no kind is left".into());
        }
        Ok(Mix(mix))
    }

    fn pick(&self, rng: &mut Rng) -> &'static str {
        let all: usize = self.0.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.below(all.max(1));
        for (kind, weight) in &self.0 {
            if at < *weight {
                return kind;
            }
            at -= weight;
        }
        self.0[0].0
    }
}

/// A history that is being written.
pub(super) struct Draft<'r> {
    rng: &'r mut Rng,
    root: bool,
    tree: Vec<Op>,
    runs: Vec<Run>,
}

/// Makes one. `root` says that second mounts can be made.
pub fn history(rng: &mut Rng, mix: &Mix, root: bool) -> History {
    let mut draft = Draft { rng, root, tree: Vec::new(), runs: Vec::new() };
    draft.base();
    let first = mix.pick(draft.rng);
    draft.add(first);
    let mut kinds = vec![first];
    if draft.rng.chance(35) {
        let second = mix.pick(draft.rng);
        if second != first {
            draft.add(second);
            kinds.push(second);
        }
    }
    draft.finish();
    let notes = vec![format!("kinds: {}", kinds.join(", "))];
    History { notes, tree: draft.tree, runs: draft.runs }
}

impl Draft<'_> {
    fn add(&mut self, kind: &str) {
        match kind {
            "replaced" => self.replaced(),
            "report" => self.report(),
            "race" => self.race(),
            "planted" => self.planted(),
            "limits" => self.limits(),
            "special" => self.special(),
            "power" => self.power(),
            "streams" => self.streams(),
            "binds" => self.binds(),
            "globs" => self.globs(),
            "git" => self.git(),
            "git-raw" => self.git_raw(),
            "grabs" => self.grabs(),
            "hogs" => self.hogs(),
            "network" => self.network(),
            "secrets" => self.secrets(),
            "sockets" => self.sockets(),
            "settings" => self.settings(),
            "obstacles" => self.obstacles(),
            "beside" => self.beside(),
            "moved" => self.moved(),
            _ => {}
        }
    }

    /// The run that kinds add to: the last one.
    fn run(&mut self) -> &mut Run {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        self.runs.last_mut().expect("there is one")
    }

    fn flag(&mut self, name: &str, value: &str) {
        self.run().flags.push((name.into(), value.into()));
    }

    /// Adds lines to a process inside; one that does not exist yet is made.
    fn inside<S: AsRef<str>>(&mut self, actor: usize, lines: &[S]) {
        let run = self.run();
        while run.inside.len() <= actor {
            run.inside.push(Vec::new());
        }
        run.inside[actor].extend(lines.iter().map(|line| Op::of(line.as_ref())));
    }

    fn host<S: AsRef<str>>(&mut self, lines: &[S]) {
        self.run().host.extend(lines.iter().map(|line| Op::of(line.as_ref())));
    }

    fn node(&mut self, line: &str) {
        // A second mount makes the place that it is mounted on.
        let made = |op: &Op| op.word(usize::from(op.verb == "bind")).to_owned();
        let op = Op::of(line);
        if !self.tree.iter().any(|node| made(node) == made(&op)) {
            self.tree.push(op);
        }
    }

    fn pick<'l>(&mut self, list: &[&'l str]) -> &'l str {
        self.rng.pick(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_history_can_be_written_and_read_and_a_seed_gives_it_again() {
        let mix = Mix::parse("").unwrap();
        for index in 0..3000 {
            let made = history(&mut Rng::of(7, index), &mix, true);
            let text = made.to_string();
            assert_eq!(History::parse(&text).as_ref(), Ok(&made), "{text}");
            assert_eq!(history(&mut Rng::of(7, index), &mix, true), made);
        }
    }

    #[test]
    fn a_mix_names_kinds_to_take_or_to_leave() {
        assert_eq!(Mix::parse("race,git=2").unwrap().0, [("race", 4), ("git", 2)]);
        assert!(!Mix::parse("-race").unwrap().0.iter().any(|(kind, _)| *kind == "race"));
        assert!(Mix::parse("rase").unwrap_err().contains("there are plain, replaced"));
    }
}
