//! When a run began, by the clock that the kernel stamps files with: what was not changed since is as it was.
//!
//! That holds as long as nobody sets the clock. The kernel tells whether somebody did: a timer on it is cancelled then.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Stamps may be late by a tick of the kernel, and old file systems keep whole seconds.
const SLACK: Duration = Duration::from_secs(2);
/// A timer that does not go off.
const FAR: i64 = 1 << 40;

/// The beginning of a run.
#[derive(Debug)]
pub struct Clock {
    began: Duration,
    /// Cancelled when somebody sets the clock; `None` where the kernel gives no such timer.
    timer: Option<OwnedFd>,
}

impl Clock {
    /// Now.
    pub fn start() -> Clock {
        let timer = timer().ok();
        let now = clock_gettime(ClockId::Realtime);
        let began =
            Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
        Clock { began, timer }
    }

    /// A point of time at which the run had not begun, and all stamps of which are older than any of the run's; `None`
    /// if the clock was set meanwhile.
    pub fn before_the_start(&self) -> Option<Duration> {
        let timer = self.timer.as_ref()?;
        let mut count = [0; 8];
        match rustix::io::read(timer, &mut count) {
            Err(Errno::AGAIN) => self.began.checked_sub(SLACK),
            _ => None,
        }
    }
}

fn timer() -> Result<OwnedFd, Errno> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let far = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: FAR, tv_nsec: 0 } };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &far)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_now_is_younger_than_the_start() {
        let clock = Clock::start();
        let before = clock.before_the_start().expect("nobody sets the clock meanwhile");
        let path = std::env::temp_dir().join(format!("kennel-clock-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let changed = std::os::unix::fs::MetadataExt::ctime(&path.metadata().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(Duration::from_secs(changed.unsigned_abs()) >= before, "{changed} {before:?}");
    }
}
