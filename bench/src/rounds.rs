//! Taking turns: one round runs each of the ways once.

use std::mem::MaybeUninit;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;

/// What one run cost.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From before the start to after the end.
    pub time: Duration,
    /// The most memory at once, in bytes, where it was measured.
    pub peak_memory: Option<u64>,
}

/// One of the things that are compared, and what it cost so far.
pub struct Way<'a> {
    /// How the table calls it.
    pub name: String,
    run: Box<dyn FnMut() -> Result<Sample, Failure> + 'a>,
    samples: Vec<Sample>,
}

impl<'a> Way<'a> {
    /// Something that measures itself.
    pub fn new(name: &str, run: impl FnMut() -> Result<Sample, Failure> + 'a) -> Way<'a> {
        Way { name: name.to_owned(), run: Box::new(run), samples: Vec::new() }
    }

    /// A command, measured from outside.
    #[must_use]
    pub fn command(name: &str, mut command: Command) -> Way<'a> {
        Way::new(name, move || measure(&mut command))
    }

    /// The middle of all times.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The time that so many of a hundred do not exceed.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut times: Vec<Duration> = self.samples.iter().map(|sample| sample.time).collect();
        times.sort_unstable();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    }

    /// The shortest time.
    #[must_use]
    pub fn shortest(&self) -> Duration {
        self.samples.iter().map(|sample| sample.time).min().unwrap_or_default()
    }

    /// The most memory that any of the runs had.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        self.samples.iter().filter_map(|sample| sample.peak_memory).max()
    }
}

/// Runs all ways in turn, so many times, each time in another order: the kernel is still busy with the namespaces of
/// one when the next starts, and nobody is always to follow the same. A first round, in which caches fill, is not
/// counted.
///
/// # Errors
/// When one of them fails.
pub fn take_turns(ways: &mut [Way], rounds: usize) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..ways.len()).collect();
    let mut chance = Chance(0x5eed);
    for round in 0..=rounds {
        chance.shuffle(&mut order);
        for at in &order {
            let way = &mut ways[*at];
            let sample = (way.run)().map_err(|error| format!("{}: {error}", way.name))?;
            if round > 0 {
                way.samples.push(sample);
            }
        }
    }
    Ok(())
}

/// Numbers that follow no pattern, the same ones in every run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        for at in (1..order.len()).rev() {
            order.swap(at, self.below(at + 1));
        }
    }
}

/// Runs a command to its end.
///
/// The peak of its memory is the kernel's: of the command and all that it waited for, and no less than what this
/// process had when it started it, because the new process is that size until its exec.
fn measure(command: &mut Command) -> Result<Sample, Failure> {
    let started = Instant::now();
    let child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills both in; the child is ours and nobody else waits for it.
    let (waited, usage) = unsafe {
        let waited = libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr());
        if waited != pid {
            return Err(std::io::Error::last_os_error().into());
        }
        (started.elapsed(), usage.assume_init())
    };
    if status != 0 {
        return Err(format!("{command:?} ended with wait status {status}").into());
    }
    Ok(Sample { time: waited, peak_memory: Some(u64::try_from(usage.ru_maxrss)? * 1024) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_runs_once_per_round_and_the_first_round_does_not_count() {
        let runs = std::cell::Cell::new(0);
        let counted = || {
            runs.set(runs.get() + 1);
            Ok(Sample { time: Duration::from_millis(runs.get()), peak_memory: None })
        };
        let mut ways = [Way::new("one", counted), Way::new("other", counted)];
        take_turns(&mut ways, 3).unwrap();
        assert_eq!(runs.get(), 8);
        assert_eq!(ways[0].shortest(), Duration::from_millis(3));
        assert_eq!(ways[1].median(), Duration::from_millis(6));
    }

    #[test]
    fn a_command_that_fails_is_not_measured() {
        assert!(measure(&mut Command::new("/bin/false")).is_err());
        assert!(measure(&mut Command::new("/bin/true")).is_ok());
    }
}
