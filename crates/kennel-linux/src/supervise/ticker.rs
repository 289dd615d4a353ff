//! Telling somebody what a sandbox uses, while it runs.

use std::time::{Duration, Instant};

use crate::cgroup::Usage;

/// Somebody who wants to know what a sandbox uses.
pub trait Audience {
    /// What it uses now. Figures that nothing counts are `None`.
    fn tell(&mut self, usage: &Usage);

    /// The command was stopped, and the terminal is its shell's until the next [`Audience::tell`].
    fn pause(&mut self) {}
}

/// An audience, and how often it is told.
pub struct Ticker<'a> {
    audience: &'a mut (dyn Audience + 'static),
    every: Duration,
    next: Instant,
}

impl<'a> Ticker<'a> {
    /// Tells `audience` for the first time when `every` has passed: what ends sooner is not worth telling.
    pub fn new(audience: &'a mut (dyn Audience + 'static), every: Duration) -> Self {
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
