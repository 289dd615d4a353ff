//! Numbers as macOS counts them, and as kennel tells them.

use std::time::Duration;

/// How mach's ticks become nanoseconds: 1/1 on Intel, 125/3 on Apple's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timebase {
    /// Nanoseconds.
    pub numerator: u32,
    /// Ticks.
    pub denominator: u32,
}

impl Timebase {
    /// The time of so many ticks. What `proc_pid_rusage` calls time is counted in these, also where its documentation says
    /// nanoseconds.
    #[must_use]
    pub fn time(self, ticks: u64) -> Duration {
        let nanoseconds =
            u128::from(ticks) * u128::from(self.numerator) / u128::from(self.denominator.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// A `timeval`, as in `rusage`. Nothing is negative there, and what is out of bounds counts as nothing.
#[must_use]
pub fn timeval(seconds: i64, microseconds: i64) -> Duration {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}

/// The peak of a process and those that it waited for, as `ru_maxrss` has it: bytes here, kilobytes elsewhere.
#[must_use]
pub fn peak_memory(ru_maxrss: i64) -> u64 {
    u64::try_from(ru_maxrss).unwrap_or(0)
}

/// The peak of a sandbox: of everything together where that was watched, and never less than that of its largest process.
#[must_use]
pub fn peak_of_all(watched: Option<u64>, largest: u64) -> (u64, bool) {
    match watched {
        Some(watched) => (watched.max(largest), true),
        None => (largest, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_nanoseconds_on_intel_and_24_megahertz_on_apples_own() {
        let intel = Timebase { numerator: 1, denominator: 1 };
        let apple = Timebase { numerator: 125, denominator: 3 };
        assert_eq!(intel.time(1_500_000_000), Duration::from_millis(1500));
        assert_eq!(apple.time(24_000_000), Duration::from_secs(1));
        // A year of ticks does not overflow.
        assert_eq!(apple.time(24_000_000 * 31_536_000), Duration::from_secs(31_536_000));
        assert_eq!(Timebase { numerator: 1, denominator: 0 }.time(7), Duration::from_nanos(7));
    }

    #[test]
    fn memory_is_bytes_and_nothing_is_negative() {
        assert_eq!(peak_memory(1 << 30), 1 << 30);
        assert_eq!(peak_memory(-1), 0);
        assert_eq!(timeval(2, 500_000), Duration::from_millis(2500));
        assert_eq!(timeval(-2, -1), Duration::ZERO);
    }

    #[test]
    fn the_peak_is_of_all_where_all_were_watched() {
        assert_eq!(peak_of_all(None, 5), (5, false));
        assert_eq!(peak_of_all(Some(9), 5), (9, true));
        // It lived and died between two looks.
        assert_eq!(peak_of_all(Some(3), 5), (5, true));
    }
}
