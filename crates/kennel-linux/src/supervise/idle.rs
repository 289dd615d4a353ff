//! Whether anything goes on in a session, and since when nothing does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The commands of a session that run.
#[derive(Clone, Debug)]
pub struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    commands: usize,
    /// When the last one ended.
    since: Instant,
}

/// A command that runs; dropped when it has ended.
#[derive(Debug)]
pub struct Busy(Activity);

impl Activity {
    /// Nothing goes on, from now on.
    #[must_use]
    pub fn new() -> Activity {
        Activity(Arc::new(Mutex::new(State { commands: 0, since: Instant::now() })))
    }

    /// A command begins.
    #[must_use]
    pub fn begin(&self) -> Busy {
        self.state().commands += 1;
        Busy(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is ever half-done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Activity {
    fn default() -> Activity {
        Activity::new()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.commands -= 1;
        state.since = Instant::now();
    }
}

/// How long nothing may go on.
#[derive(Debug)]
pub struct Idle {
    activity: Activity,
    limit: Duration,
}

impl Idle {
    /// At most `limit`.
    #[must_use]
    pub fn new(activity: Activity, limit: Duration) -> Idle {
        Idle { activity, limit }
    }

    /// When to look again. While something goes on that is as late as it could be over at the earliest.
    pub(super) fn next(&self) -> Instant {
        let state = self.activity.state();
        if state.commands > 0 { Instant::now() + self.limit } else { state.since + self.limit }
    }

    /// Whether nothing has gone on for so long.
    pub(super) fn is_over(&self) -> bool {
        let state = self.activity.state();
        state.commands == 0 && state.since.elapsed() >= self.limit
    }
}
