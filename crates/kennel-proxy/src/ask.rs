//! Asking someone about a host that no rule speaks of.
//!
//! The callback may wait for a person, so it runs on a thread of its own, one question at a time. While it waits,
//! the same question from other connections is the same question. An answer holds until the rules change; one that is
//! for one connection is taken by one, and the others ask again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kennel_policy::domain::Host;
use tokio::sync::watch;

use crate::record::Door;
use crate::route::Target;

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
    /// By one connection, this time.
    AllowOnce,
    /// It may not.
    Deny,
    /// Nobody said anything in time. It may not, and the next connection asks again.
    NoAnswer,
    /// Nobody was asked. It may not.
    NotAsked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskResult {
    Allowed,
    Denied,
    NoAnswer,
    NotAsked,
}

/// The most questions that wait for their turn; the ones beyond are answered with no.
const MAX_WAITING: usize = 64;
const MAX_REMEMBERED: usize = 1024;

/// How far a question has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Others are asked before it.
    InLine,
    /// Someone has it before them.
    Put,
    Answered(Answer),
}

/// A question that is being asked, as those see it who wait for the answer.
#[derive(Clone)]
struct OpenQuestion {
    stage: watch::Receiver<Stage>,
    /// How many are asked before it.
    ahead: u32,
    /// An answer for one connection has been taken.
    taken: Arc<AtomicBool>,
}

type Job = (Question, watch::Sender<Stage>);

pub(crate) struct Asker {
    ask: Ask,
    thread: OnceLock<Option<SyncSender<Job>>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Answers that hold.
    answers: HashMap<Target, Answer>,
    open: HashMap<Target, OpenQuestion>,
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

    /// Asks, and waits for `patience` from when someone has the question before them.
    pub(crate) async fn ask(&self, target: &Target, door: Door, patience: Duration) -> AskResult {
        loop {
            let question = match self.begin(target, door) {
                Ok(question) => question,
                Err(known) => return known,
            };
            match question.answer(patience).await {
                Some(Answer::Allow) => return AskResult::Allowed,
                Some(Answer::AllowOnce) if !question.taken.swap(true, Ordering::Relaxed) => {
                    return AskResult::Allowed;
                }
                Some(Answer::AllowOnce) => {}
                Some(Answer::Deny) => return AskResult::Denied,
                Some(Answer::NotAsked) => return AskResult::NotAsked,
                Some(Answer::NoAnswer) | None => return AskResult::NoAnswer,
            }
        }
    }

    /// The question that is open about this target, perhaps opened just now; or what is known without asking.
    fn begin(&self, target: &Target, door: Door) -> Result<OpenQuestion, AskResult> {
        let mut state = lock(&self.state);
        match state.answers.get(target) {
            Some(Answer::Deny) => return Err(AskResult::Denied),
            Some(_) => return Err(AskResult::Allowed),
            None => {}
        }
        if let Some(open) = state.open.get(target) {
            return Ok(open.clone());
        }
        let thread = self.thread.get_or_init(|| self.start());
        let (sender, stage) = watch::channel(Stage::InLine);
        let question = Question { host: target.host.clone(), port: target.port, door };
        match thread.as_ref().map(|thread| thread.try_send((question, sender))) {
            Some(Ok(())) => {
                let ahead = u32::try_from(state.open.len()).unwrap_or(u32::MAX);
                let open = OpenQuestion { stage, ahead, taken: Arc::default() };
                state.open.insert(target.clone(), open.clone());
                Ok(open)
            }
            None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                Err(AskResult::NotAsked)
            }
        }
    }

    fn start(&self) -> Option<SyncSender<Job>> {
        let (sender, jobs) = sync_channel::<Job>(MAX_WAITING);
        let (ask, state) = (Arc::clone(&self.ask), Arc::clone(&self.state));
        let work = move || {
            for (question, sender) in jobs {
                let generation = lock(&state).generation;
                let _ = sender.send(Stage::Put);
                let answer = ask(&question);
                let target = Target { host: question.host, port: question.port };
                let mut state = lock(&state);
                state.open.remove(&target);
                let holds = matches!(answer, Answer::Allow | Answer::Deny) && state.generation == generation;
                if holds && state.answers.len() < MAX_REMEMBERED {
                    state.answers.insert(target, answer);
                }
                drop(state);
                let _ = sender.send(Stage::Answered(answer));
            }
        };
        std::thread::Builder::new().name("kennel-ask".into()).spawn(work).ok().map(|_| sender)
    }
}

impl OpenQuestion {
    /// The answer, if it comes in time. Whoever is asked before has as long.
    async fn answer(&self, patience: Duration) -> Option<Answer> {
        let mut stage = self.stage.clone();
        let turn = patience.saturating_mul(self.ahead.saturating_add(1));
        let put = stage.wait_for(|stage| *stage != Stage::InLine);
        tokio::time::timeout(turn, put).await.ok()?.ok()?;
        let answered = stage.wait_for(|stage| matches!(stage, Stage::Answered(_)));
        match *tokio::time::timeout(patience, answered).await.ok()?.ok()? {
            Stage::Answered(answer) => Some(answer),
            Stage::InLine | Stage::Put => None,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
