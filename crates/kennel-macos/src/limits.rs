//! How each limit of a policy is kept on macOS.
//!
//! There are three ways. A limit is *enforced* where the kernel has one that fits (`setrlimit`). It is *watched* where the
//! kernel has none: kennel looks at what is used ten times a second and kills everything when it is too much, so that a
//! limit can be exceeded for that long. That is best effort: without it such a limit is an error, and with it an entry in the
//! outcome. And it is *missing* where nothing could be done about it: an error too, or an entry.

use std::time::Duration;

use kennel_policy::policy::Limits;

/// How often is looked.
pub const EVERY: Duration = Duration::from_millis(100);

/// A limit of the kernel's, for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Open descriptors.
    OpenFiles,
    /// Bytes of a file.
    FileSize,
    /// Bytes of a core file.
    Core,
    /// Seconds of CPU time. The process gets one SIGXCPU; macOS does not kill it when it goes on.
    CpuTime,
    /// Processes of the *user*, whoever started them.
    Processes,
}

/// How limits are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitPlan {
    /// Set before the command starts: soft and hard alike.
    pub kernel: Vec<(Resource, u64)>,
    /// Looked after while it runs.
    pub watched: Watched,
    /// What the kernel does not keep, with the reason: watched limits, and those that nothing keeps.
    pub missing: Vec<&'static str>,
}

/// Limits that are kept by looking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Bytes of memory of everything together.
    pub memory: Option<u64>,
    /// CPU time of each process.
    pub cpu_time: Option<Duration>,
    /// Processes and threads of everything together.
    pub tasks: Option<u64>,
}

impl Watched {
    /// Whether there is anything to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Watched::default()
    }
}

/// What is used, for [`exceeded`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of memory of everything together.
    pub memory: u64,
    /// CPU time of the process that has used most.
    pub cpu_time: Duration,
    /// Processes and threads.
    pub tasks: u64,
}

/// Which watched limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Memory.
    Memory,
    /// CPU time.
    CpuTime,
    /// Processes and threads.
    Tasks,
}

/// How the limits of a policy are kept. `processes` is how many processes the user has now.
#[must_use]
pub fn limit_plan(limits: &Limits, processes: u64) -> LimitPlan {
    /// A process that deals with SIGXCPU has so long to end by itself.
    const TO_END: Duration = Duration::from_secs(1);
    // Without a rest: a new limit does not compile before it is kept or missing here.
    let Limits {
        memory,
        swap,
        cpus,
        cpu_time,
        pids,
        open_files,
        file_size,
        tmp_size,
        // Kept by kennel's own clock and by what reads the output, on every system.
        wall_time: _,
        output: _,
    } = *limits;
    // Core files would leave what a command held in memory on the disk.
    let mut kernel = vec![(Resource::Core, 0)];
    kernel.extend(
        open_files.filter(|count| *count != u32::MAX).map(|count| (Resource::OpenFiles, u64::from(count))),
    );
    kernel.extend(file_size.map(|bytes| (Resource::FileSize, bytes)));
    kernel.extend(cpu_time.map(|time| (Resource::CpuTime, whole_seconds(time))));
    // A brake for fork bombs between two looks. The kernel counts all processes of the user, so this is the user's number
    // now and as many more as the policy has; what counts is the look.
    let brake = |count: u32| processes.saturating_add(u64::from(count)).saturating_add(1);
    kernel.extend(pids.map(|count| (Resource::Processes, brake(count))));
    let mut missing = Vec::new();
    let mut lacks = |set: bool, what| {
        if set {
            missing.push(what);
        }
    };
    lacks(memory.is_some(), "limits.memory: macOS has no such limit; it is looked at ten times a second");
    lacks(pids.is_some(), "limits.pids: macOS has no such limit; it is looked at ten times a second");
    lacks(
        cpu_time.is_some(),
        "limits.cpu_time: macOS only warns a process; the rest is looked at ten times a second",
    );
    lacks(swap.is_some_and(|bytes| bytes > 0), "limits.swap: macOS does not limit swap");
    lacks(cpus.is_some(), "limits.cpus: macOS does not limit how many CPUs a group of processes uses");
    lacks(tmp_size.is_some(), "limits.tmp_size: macOS does not limit the size of a folder");
    LimitPlan {
        kernel,
        watched: Watched { memory, cpu_time: cpu_time.map(|time| time + TO_END), tasks: pids.map(u64::from) },
        missing,
    }
}

/// The kernel counts seconds: at least one, and none too few.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// The watched limit that is exceeded, if one is.
#[must_use]
pub fn exceeded(limits: &Watched, used: &Used) -> Option<Exceeded> {
    let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
    if over(limits.memory, used.memory) {
        Some(Exceeded::Memory)
    } else if limits.cpu_time.is_some_and(|limit| used.cpu_time > limit) {
        Some(Exceeded::CpuTime)
    } else if over(limits.tasks, used.tasks) {
        Some(Exceeded::Tasks)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[kennel_claim::claim("macos/limits-by-looking")]
    fn each_limit_has_its_way() {
        let limits = Limits {
            memory: Some(1 << 30),
            swap: Some(0),
            wall_time: Some(Duration::from_secs(5)),
            cpu_time: Some(Duration::from_millis(1500)),
            pids: Some(64),
            open_files: Some(256),
            file_size: Some(1 << 20),
            ..Limits::default()
        };
        let plan = limit_plan(&limits, 300);
        let kernel = [
            (Resource::Core, 0),
            (Resource::OpenFiles, 256),
            (Resource::FileSize, 1 << 20),
            (Resource::CpuTime, 2),
            (Resource::Processes, 365),
        ];
        assert_eq!(plan.kernel, kernel);
        let cpu_time = Some(Duration::from_millis(2500));
        assert_eq!(plan.watched, Watched { memory: Some(1 << 30), cpu_time, tasks: Some(64) });
        // No swap on top of memory is what there is.
        let keys: Vec<_> = plan.missing.iter().map(|text| text.split(':').next().unwrap_or("")).collect();
        assert_eq!(keys, ["limits.memory", "limits.pids", "limits.cpu_time"]);
    }

    #[test]
    #[kennel_claim::claim("macos/all-or-an-error")]
    fn what_nothing_keeps_is_named_by_its_setting() {
        let limits = Limits { swap: Some(1), cpus: Some(1.5), tmp_size: Some(1), ..Limits::default() };
        let missing = limit_plan(&limits, 0).missing;
        let keys: Vec<_> = missing.iter().map(|text| text.split(':').next().unwrap_or("")).collect();
        assert_eq!(keys, ["limits.swap", "limits.cpus", "limits.tmp_size"]);
    }

    #[test]
    fn without_limits_only_core_files_are_held_back_and_nobody_looks() {
        let plan = limit_plan(&Limits::default(), 300);
        assert_eq!(plan.kernel, [(Resource::Core, 0)]);
        assert!(plan.watched.is_empty() && plan.missing.is_empty());
    }

    #[test]
    #[kennel_claim::claim("macos/limits-by-looking")]
    fn a_limit_is_exceeded_by_more_and_not_by_as_much() {
        let limits = Watched { memory: Some(100), cpu_time: Some(Duration::from_secs(1)), tasks: Some(3) };
        let used = |memory, seconds, tasks| Used { memory, cpu_time: Duration::from_secs(seconds), tasks };
        assert_eq!(exceeded(&limits, &used(100, 1, 3)), None);
        assert_eq!(exceeded(&limits, &used(101, 1, 3)), Some(Exceeded::Memory));
        assert_eq!(exceeded(&limits, &used(100, 2, 3)), Some(Exceeded::CpuTime));
        assert_eq!(exceeded(&limits, &used(100, 1, 4)), Some(Exceeded::Tasks));
        assert_eq!(exceeded(&Watched::default(), &used(u64::MAX, 9, 9)), None);
    }
}
