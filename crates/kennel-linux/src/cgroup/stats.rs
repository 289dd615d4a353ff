//! What a sandbox used, and the kernel's text files that say so.

use std::path::PathBuf;
use std::time::Duration;

pub use kennel_policy::outcome::Usage;

/// What a sandbox used over its life, read before its cgroup was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalStats {
    /// The most memory that was in use at one time, in bytes.
    pub peak_memory: Option<u64>,
    /// CPU time spent in the programs.
    pub cpu_user: Option<Duration>,
    /// CPU time spent in the kernel for them.
    pub cpu_system: Option<Duration>,
    /// How long the CPU limit made tasks wait, added up over them.
    pub cpu_throttled: Option<Duration>,
    /// The most tasks at one time. Where the kernel keeps no such figure (6.1 does), the most that
    /// [`Cgroup::usage`](super::Cgroup::usage) happened to see.
    pub max_pids_seen: Option<u64>,
    /// How often a new process or thread was refused because of the limit.
    pub pids_max_hits: Option<u64>,
    /// How many processes the kernel's out-of-memory killer took, whoever's memory had run out.
    pub oom_kills: Option<u64>,
    /// Whether it was this sandbox's own limit that was reached when the out-of-memory killer came.
    pub memory_exhausted: Option<bool>,
    /// Directories that could not be removed, because something in them could not be killed (a process in an
    /// uninterruptible wait, say). A later run removes them.
    pub left_behind: Vec<PathBuf>,
}

impl FinalStats {
    /// Whether the out-of-memory killer took a process because this sandbox was at its own limit, and not
    /// because the host or a cgroup around the sandbox had run out.
    pub fn killed_by_own_memory_limit(&self) -> bool {
        self.oom_kills.is_some_and(|kills| kills > 0) && self.memory_exhausted != Some(false)
    }
}

impl FinalStats {
    /// These figures, and those of `earlier` where there is none.
    pub(super) fn or(self, earlier: &Self) -> Self {
        Self {
            peak_memory: self.peak_memory.or(earlier.peak_memory),
            cpu_user: self.cpu_user.or(earlier.cpu_user),
            cpu_system: self.cpu_system.or(earlier.cpu_system),
            cpu_throttled: self.cpu_throttled.or(earlier.cpu_throttled),
            max_pids_seen: self.max_pids_seen.or(earlier.max_pids_seen),
            pids_max_hits: self.pids_max_hits.or(earlier.pids_max_hits),
            oom_kills: self.oom_kills.or(earlier.oom_kills),
            memory_exhausted: self.memory_exhausted.or(earlier.memory_exhausted),
            left_behind: self.left_behind,
        }
    }
}

/// The number after `key` in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim_end().parse().ok())
}

/// The number that a file consists of.
pub(super) fn single(text: &str) -> Option<u64> {
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_matched_whole() {
        let events = "low 0\nhigh 12\nmax 34\noom 1\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(keyed(events, "oom"), Some(1));
        assert_eq!(keyed(events, "oom_kill"), Some(2));
        assert_eq!(keyed(events, "oom_k"), None);
        assert_eq!(keyed("max max\n", "max"), None);
        assert_eq!(single("123\n"), Some(123));
        assert_eq!(single("max\n"), None);
    }

    #[test]
    fn a_kill_below_the_limit_was_somebody_elses_shortage() {
        let stats =
            |oom_kills, memory_exhausted| FinalStats { oom_kills, memory_exhausted, ..FinalStats::default() };
        assert!(stats(Some(1), Some(true)).killed_by_own_memory_limit());
        assert!(stats(Some(1), None).killed_by_own_memory_limit());
        assert!(!stats(Some(1), Some(false)).killed_by_own_memory_limit());
        assert!(!stats(Some(0), Some(true)).killed_by_own_memory_limit());
        assert!(!stats(None, None).killed_by_own_memory_limit());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,200}", key in ".{0,10}") {
            let _ = keyed(&text, &key);
            let _ = single(&text);
        }
    }
}
