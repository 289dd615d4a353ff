//! Asking someone about a host that no rule speaks of.
//!
//! The callback may wait for a person, so it runs on a thread of its own, one question at a time. While it waits,
//! the same question from other connections is the same question; an answer holds until the rules change.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kennel_policy::domain::Host;
use tokio::sync::watch;

use crate::gate::Target;
use crate::record::Door;

/// Whom to ask.
pub type Ask = Arc<dyn Fn(&Question) -> Answer + Send + Sync>;

/// A host that no rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The host that is wanted.
    pub host: Host,
    /// The port that is wanted.
    pub port: u16,
    /// How it came.
    pub door: Door,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This host and port may be reached from now on.
    Allow,
    /// This time.
    AllowOnce,
    /// It may not.
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Denied,
    NoAnswer,
}

/// The most questions that wait for their turn; the ones beyond are answered with no.
const MOST_WAITING: usize = 64;
const MOST_REMEMBERED: usize = 1024;

type Job = (Question, watch::Sender<Option<Answer>>);

pub(crate) struct Asker {
    ask: Ask,
    thread: OnceLock<Option<SyncSender<Job>>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Answers that hold.
    answers: HashMap<Target, Answer>,
    /// Questions that are being asked.
    open: HashMap<Target, watch::Receiver<Option<Answer>>>,
    /// Counts the times that the answers were forgotten, so that one from before is not kept after.
    generation: u64,
}

impl Asker {
    pub(crate) fn new(ask: Ask) -> Self {
        Asker { ask, thread: OnceLock::new(), state: Arc::default() }
    }

    pub(crate) fn forget(&self) {
        let mut state = lock(&self.state);
        state.answers.clear();
        state.generation += 1;
    }

    pub(crate) async fn ask(&self, target: &Target, door: Door, patience: Duration) -> Verdict {
        let mut answer = match self.begin(target, door) {
            Ok(answer) => answer,
            Err(known) => return known,
        };
        let told = tokio::time::timeout(patience, answer.wait_for(Option::is_some)).await;
        match told {
            Ok(Ok(answer)) if matches!(*answer, Some(Answer::Allow | Answer::AllowOnce)) => Verdict::Allowed,
            Ok(Ok(_)) => Verdict::Denied,
            _ => Verdict::NoAnswer,
        }
    }

    /// The question that is open about this target, perhaps opened just now; or what is known without asking.
    fn begin(&self, target: &Target, door: Door) -> Result<watch::Receiver<Option<Answer>>, Verdict> {
        let mut state = lock(&self.state);
        match state.answers.get(target) {
            Some(Answer::Deny) => return Err(Verdict::Denied),
            Some(_) => return Err(Verdict::Allowed),
            None => {}
        }
        if let Some(open) = state.open.get(target) {
            return Ok(open.clone());
        }
        let thread = self.thread.get_or_init(|| self.start());
        let (sender, receiver) = watch::channel(None);
        let question = Question { host: target.host.clone(), port: target.port, door };
        match thread.as_ref().map(|thread| thread.try_send((question, sender))) {
            Some(Ok(())) => {
                state.open.insert(target.clone(), receiver.clone());
                Ok(receiver)
            }
            None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => Err(Verdict::NoAnswer),
        }
    }

    fn start(&self) -> Option<SyncSender<Job>> {
        let (sender, jobs) = sync_channel::<Job>(MOST_WAITING);
        let (ask, state) = (Arc::clone(&self.ask), Arc::clone(&self.state));
        let work = move || {
            for (question, sender) in jobs {
                let generation = lock(&state).generation;
                let answer = ask(&question);
                let target = Target { host: question.host, port: question.port };
                let mut state = lock(&state);
                state.open.remove(&target);
                let holds = answer != Answer::AllowOnce && state.generation == generation;
                if holds && state.answers.len() < MOST_REMEMBERED {
                    state.answers.insert(target, answer);
                }
                drop(state);
                let _ = sender.send(Some(answer));
            }
        };
        std::thread::Builder::new().name("kennel-ask".into()).spawn(work).ok().map(|_| sender)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
