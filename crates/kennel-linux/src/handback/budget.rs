//! How long the last look may take, and how much it may find: a sandbox can leave more than anybody wants to look at.
//! When it is used up, what has not been looked at is locked away ([`super::lock`]).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::signals::Signals;

/// As long as a search at the start may take. An honest tree of two million files takes a few seconds.
const MAX_TIME: Duration = Duration::from_secs(60);
/// As long when somebody waits for the end: the run has timed out, or kennel was told to end.
const SHORT: Duration = Duration::from_secs(5);
/// As often is it asked whether somebody does.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// As much may be set aside by one thread; an honest run leaves nothing, or one or two things.
pub const MAX_FOUND: usize = 1024;

/// What tells the look to hurry.
#[derive(Debug)]
pub enum Hurry {
    /// Signals to this process.
    Signals(OwnedFd),
    /// Ready to read when the sandbox is to end.
    End(OwnedFd),
}

/// The time that is left.
#[derive(Debug)]
pub struct Budget {
    began: Instant,
    /// When it is over, in milliseconds since it began.
    until: AtomicU64,
    asked: AtomicU64,
    over: AtomicBool,
    hurry: Vec<Hurry>,
    large: Mutex<Vec<u8>>,
}

impl Budget {
    /// Begins. `deadline` is when the run has to be over, and `late` says that it is.
    pub fn new(hurry: Vec<Hurry>, deadline: Option<Instant>, late: bool) -> Budget {
        let began = Instant::now();
        let left = deadline.map_or(MAX_TIME, |deadline| deadline.saturating_duration_since(began));
        let most = if late { SHORT } else { left.clamp(SHORT, MAX_TIME) };
        Budget::of(hurry, most, began)
    }

    fn of(hurry: Vec<Hurry>, most: Duration, began: Instant) -> Budget {
        Budget {
            began,
            until: AtomicU64::new(milliseconds(most)),
            asked: AtomicU64::new(0),
            over: AtomicBool::new(false),
            hurry,
            large: Mutex::default(),
        }
    }

    /// One for tests.
    #[cfg(test)]
    pub fn of_time(most: Duration) -> Budget {
        Budget::of(Vec::new(), most, Instant::now())
    }

    /// The one buffer for what may be large: an index has up to 128 MiB, and every thread may come upon one at the same time.
    pub fn large(&self) -> MutexGuard<'_, Vec<u8>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is used up.
    pub fn is_over(&self) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return true;
        }
        let now = milliseconds(self.began.elapsed());
        let asked = self.asked.load(Ordering::Relaxed);
        if now >= asked + milliseconds(ASK_EVERY) {
            self.asked.store(now, Ordering::Relaxed);
            if self.hurry.iter().any(Hurry::is_told) {
                self.until.fetch_min(now + milliseconds(SHORT), Ordering::Relaxed);
            }
        }
        let over = now >= self.until.load(Ordering::Relaxed);
        if over {
            self.stop();
        }
        over
    }

    /// Uses it up.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether so much was found by one thread that nobody goes on.
    pub fn is_over_with(&self, found: usize) -> bool {
        if found >= MAX_FOUND {
            self.stop();
        }
        self.is_over()
    }
}

impl Hurry {
    fn is_told(&self) -> bool {
        match self {
            Hurry::Signals(signals) => Signals::ask_to_end(signals.as_fd()),
            Hurry::End(end) => {
                let mut ready = [PollFd::new(end, PollFlags::IN)];
                poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(budget: &Budget) -> u64 {
        budget.until.load(Ordering::Relaxed)
    }

    #[test]
    fn one_that_is_told_to_hurry_has_five_seconds_left() {
        let (told, teller) = std::io::pipe().unwrap();
        let budget = Budget::new(vec![Hurry::End(told.into())], None, false);
        assert_eq!(left(&budget), milliseconds(MAX_TIME));
        while milliseconds(budget.began.elapsed()) <= 2 * milliseconds(ASK_EVERY) {
            assert!(!budget.is_over());
        }
        assert_eq!(left(&budget), milliseconds(MAX_TIME), "nobody has told it yet");
        std::io::Write::write_all(&mut { teller }, b"x").unwrap();
        while left(&budget) == milliseconds(MAX_TIME) {
            assert!(!budget.is_over());
        }
        assert!(left(&budget) <= milliseconds(budget.began.elapsed() + SHORT));
    }

    #[test]
    fn a_run_that_is_late_leaves_five_seconds_and_another_what_is_left_of_its_time() {
        let of = |deadline, late| left(&Budget::new(Vec::new(), deadline, late));
        let now = Instant::now();
        assert_eq!(of(None, false), 60_000);
        assert_eq!(of(Some(now + Duration::from_secs(9)), true), 5_000);
        assert_eq!(of(Some(now), false), 5_000);
        assert_eq!(of(Some(now + Duration::from_secs(3600)), false), 60_000);
        let some = of(Some(now + Duration::from_secs(50)), false);
        assert!((5_000..=50_000).contains(&some), "{some}");
    }
}
