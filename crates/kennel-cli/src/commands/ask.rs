//! `--ask`: a question on the terminal about what no rule speaks of, unless it has been answered for good.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kennel::terminal::{Asker, Reply};
use kennel::{AskAboutHosts, HostAnswer, HostQuestion};

use super::answers::{Answers, Asked, Holds};
use super::say;

/// After as many questions in a row to which nobody said yes, nothing more is asked: a program that asks for everything would have
/// the user's attention for itself.
const MAX_IN_VAIN: u32 = 8;
/// Nor after as many in one run.
const MAX_QUESTIONS: u32 = 200;

/// What came of the questions, to be told at the end.
#[derive(Default)]
pub struct Told(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: u32,
    in_vain: u32,
    not_asked: u64,
    /// What was kept, or why not.
    kept: Vec<String>,
}

impl State {
    fn is_over(&self) -> bool {
        self.in_vain >= MAX_IN_VAIN || self.asked >= MAX_QUESTIONS
    }
}

impl Told {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says it.
    pub fn tell(&self) {
        let state = self.state();
        state.kept.iter().for_each(|line| say(line));
        if state.not_asked > 0 {
            let why = match state.in_vain >= MAX_IN_VAIN {
                true => format!("the {MAX_IN_VAIN} before in a row had no yes"),
                false => format!("there were {MAX_QUESTIONS} in this run"),
            };
            let count = state.not_asked;
            say(&format!("kennel: {count} more connections were refused without a question: {why}"));
        }
    }
}

/// Asks on the terminal. A question without a terminal, or without an answer in `limit`, is answered no. Without `answers` none are
/// kept, and none hold.
pub fn on_terminal(asker: Asker, limit: Option<Duration>, answers: Option<Answers>) -> (AskAboutHosts, Told) {
    let told = Told::default();
    let notes = Told(Arc::clone(&told.0));
    let ask = AskAboutHosts::new(move |HostQuestion { host, port, .. }| {
        let asked = Asked::Connect { host: host.clone(), port: *port };
        if answers.as_ref().is_some_and(|answers| answers.holds(&asked)) {
            return HostAnswer::Allow;
        }
        let is_last = {
            let mut state = notes.state();
            if state.is_over() {
                state.not_asked += 1;
                return HostAnswer::NotAsked;
            }
            state.asked += 1;
            state.in_vain += 1;
            state.is_over()
        };
        let words = if answers.is_some() { "yes/once/here/always/No" } else { "yes/once/No" };
        let last = if is_last { "; No to this and to all that follow" } else { "" };
        let prompt = format!("kennel: {asked}{}? [{words}{last}] ", asked.caution());
        let (answer, holds) = match asker.ask(&prompt, limit) {
            Reply::Line(line) => match (line.trim(), &answers) {
                ("y" | "yes", _) => (HostAnswer::Allow, None),
                ("o" | "once", _) => (HostAnswer::AllowOnce, None),
                ("here", Some(answers)) => (HostAnswer::Allow, Some((answers, answers.here()))),
                ("always", Some(answers)) => (HostAnswer::Allow, Some((answers, Holds::Everywhere))),
                _ => (HostAnswer::Deny, None),
            },
            Reply::Refused => (HostAnswer::Deny, None),
            Reply::Silence => (HostAnswer::NoAnswer, None),
        };
        let mut state = notes.state();
        if matches!(answer, HostAnswer::Allow | HostAnswer::AllowOnce) {
            state.in_vain = 0;
        }
        if let Some((answers, holds)) = holds {
            state.kept.push(match answers.keep(&asked, &holds) {
                Ok(()) => format!("kennel: kept: {asked}, {holds}; `kennel answers` lists what is kept"),
                Err(error) => format!("kennel: {asked} held for this run and is not kept: {error}"),
            });
        }
        answer
    });
    (ask, told)
}
