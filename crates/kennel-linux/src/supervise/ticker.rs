//! Telling somebody what a sandbox uses, while it runs.

use std::time::{Duration, Instant};

use kennel_policy::outcome::{Usage, UsageSink};

/// An audience, and how often it is told.
pub struct Ticker {
    audience: Box<dyn UsageSink>,
    every: Duration,
    next: Instant,
}

impl Ticker {
    /// Tells `audience` for the first time when `every` has passed: what ends sooner is not worth telling.
    pub fn new(audience: Box<dyn UsageSink>, every: Duration) -> Self {
        // Neither all the time, nor at a time that no clock knows.
        let every = every.clamp(Duration::from_millis(10), Duration::from_secs(365 * 24 * 3600));
        Ticker { audience, every, next: Instant::now() + every }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Tells, if it is time to.
    pub(super) fn tick(&mut self, usage: impl FnOnce() -> Usage) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + self.every;
            self.audience.tell(&usage());
        }
    }

    pub(super) fn pause(&mut self) {
        self.audience.pause();
    }
}
