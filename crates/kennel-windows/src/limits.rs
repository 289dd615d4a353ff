//! The limits of a policy as a Job Object has them: plain numbers, decided before Windows is asked for anything.

use std::time::Duration;

use kennel_policy::policy::Limits;

/// What is set on a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobLimits {
    /// Bytes of committed memory of all processes together.
    pub job_memory: Option<u64>,
    /// The same of each process. With the limit on all it says nothing new, but Windows tells which process hit it.
    pub process_memory: Option<u64>,
    /// Processes at once.
    pub processes: Option<u32>,
    /// User CPU time of each process, in units of 100 ns.
    pub process_time: Option<i64>,
    /// Hundredths of a per cent of all processors.
    pub cpu_rate: Option<u32>,
}

/// The whole machine, in `cpu_rate`.
const WHOLE: f64 = 10_000.0;

/// The limits of a job on a machine with this many processors.
#[must_use]
pub fn job_limits(limits: &Limits, processors: u32) -> JobLimits {
    // A job has one limit, on what its processes have committed, wherever that lies: memory and swap together.
    let memory = limits.memory.map(|memory| memory.saturating_add(limits.swap.unwrap_or(0)));
    JobLimits {
        job_memory: memory,
        process_memory: memory,
        processes: limits.pids.map(|pids| pids.max(1)),
        process_time: limits.cpu_time.map(hundreds_of_nanoseconds),
        cpu_rate: limits.cpus.and_then(|cpus| cpu_rate(cpus, processors)),
    }
}

/// `None` when it is as much as there is, which needs no limit.
fn cpu_rate(cpus: f64, processors: u32) -> Option<u32> {
    let rate = cpus / f64::from(processors.max(1)) * WHOLE;
    // Zero is refused by Windows, and would be none at all.
    (rate < WHOLE).then(|| rate.max(1.0) as u32)
}

fn hundreds_of_nanoseconds(time: Duration) -> i64 {
    // Zero would mean none.
    i64::try_from(time.as_nanos() / 100).unwrap_or(i64::MAX).max(1)
}

/// A time of Windows.
#[must_use]
pub fn duration(hundreds_of_nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(hundreds_of_nanoseconds).unwrap_or(0).saturating_mul(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_without_limits_sets_none() {
        assert_eq!(job_limits(&Limits::default(), 4), JobLimits::default());
    }

    #[test]
    fn memory_and_swap_are_one_limit_on_commit() {
        let limits = Limits { memory: Some(100), swap: Some(20), ..Limits::default() };
        let set = job_limits(&limits, 4);
        assert_eq!((set.job_memory, set.process_memory), (Some(120), Some(120)));
        let limits = Limits { memory: Some(u64::MAX), swap: Some(20), ..Limits::default() };
        assert_eq!(job_limits(&limits, 4).job_memory, Some(u64::MAX));
    }

    #[test]
    fn cpus_become_a_share_of_the_machine() {
        let rate = |cpus, processors| {
            job_limits(&Limits { cpus: Some(cpus), ..Limits::default() }, processors).cpu_rate
        };
        assert_eq!(rate(1.0, 4), Some(2_500));
        assert_eq!(rate(1.5, 2), Some(7_500));
        assert_eq!(rate(0.000_001, 64), Some(1));
        assert_eq!(rate(4.0, 4), None);
        assert_eq!(rate(8.0, 4), None);
        assert_eq!(rate(0.5, 0), Some(5_000));
    }

    #[test]
    fn times_are_in_units_of_a_hundred_nanoseconds() {
        let limits = Limits { cpu_time: Some(Duration::from_secs(2)), ..Limits::default() };
        assert_eq!(job_limits(&limits, 1).process_time, Some(20_000_000));
        let limits = Limits { cpu_time: Some(Duration::ZERO), ..Limits::default() };
        assert_eq!(job_limits(&limits, 1).process_time, Some(1));
        assert_eq!(duration(20_000_000), Duration::from_secs(2));
        assert_eq!(duration(-1), Duration::ZERO);
    }
}
