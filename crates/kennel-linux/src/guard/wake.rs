//! When something happened that a thread was woken for, at the earliest.
//!
//! inotify does not tell when. A thread that slept was woken by the event itself, and how long it then waited for a processor
//! the scheduler counts; a thread that was busy only knows when it looked last. What is told of how long a name was uncovered
//! starts there, and is never less than it was.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What the scheduler says of this thread.
#[derive(Debug)]
pub struct WakeClock {
    /// There where the kernel counts (CONFIG_SCHED_INFO), and /proc shows it.
    schedstat: Option<File>,
    /// Before this moment nothing had happened that was not seen.
    last: Mark,
}

/// A moment, and how long the thread had waited for a processor by then.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    time: Instant,
    waited: Option<Duration>,
}

impl WakeClock {
    /// For the calling thread.
    pub fn of_this_thread() -> WakeClock {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let waited = schedstat.as_ref().and_then(waited);
        WakeClock { schedstat, last: Mark { time: Instant::now(), waited } }
    }

    /// This moment. To be taken before a look, for [`WakeClock::nothing_until`].
    pub fn mark(&self) -> Mark {
        Mark { time: Instant::now(), waited: self.schedstat.as_ref().and_then(waited) }
    }

    /// A look found nothing that had happened before this moment.
    pub fn nothing_until(&mut self, mark: Mark) {
        self.last = mark;
    }

    /// When that happened for which the thread was woken, at the earliest. To be asked at once.
    pub fn since(&self) -> Instant {
        let Mark { time, waited } = self.mark();
        let (Some(before), Some(now)) = (self.last.waited, waited) else { return self.last.time };
        let woken = time.checked_sub(now.saturating_sub(before));
        woken.map_or(self.last.time, |woken| woken.max(self.last.time))
    }
}

/// The second number is the time on a run queue, in nanoseconds.
fn waited(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 96];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn what_woke_a_thread_did_not_happen_after_it_is_said_to_have() {
        let (tell, told) = sync_channel::<Instant>(1);
        let (ready, is_ready) = sync_channel(1);
        let waiter = std::thread::spawn(move || {
            let mut clock = WakeClock::of_this_thread();
            clock.nothing_until(clock.mark());
            ready.send(()).expect("somebody waits");
            let happened = told.recv().expect("somebody tells");
            (clock.since(), happened)
        });
        is_ready.recv().expect("the thread is there");
        // The clock of the scheduler is another one.
        const APART: Duration = Duration::from_millis(1);
        tell.send(Instant::now() + APART).expect("the thread waits");
        let (since, happened) = waiter.join().expect("it does not panic");
        assert!(since <= happened, "{:?} late", since - happened);
    }
}
