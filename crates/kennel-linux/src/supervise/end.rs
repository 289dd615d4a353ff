//! How a sandbox ended, from what init told, what the kernel counted and what the guard saw.

use std::time::Duration;

use super::Running;
use super::owners::Owners;
use crate::handback::HandedBack;
use kennel_policy::outcome::{Ended, NetworkUse, Outcome};

impl Running {
    /// What a signal that ended the command means: at the limit of CPU time the kernel sends SIGXCPU, and SIGKILL a
    /// second later to whoever ignores that. Others can send the same, to a command that has used little.
    pub(super) fn killed(&self, signal: i32, cpu_milliseconds: u32) -> Ended {
        let used = Duration::from_millis(cpu_milliseconds.into());
        // The kernel judges by ticks, and tells by the clock; for a command that is held back by a CPU limit the two
        // may be far apart.
        let used_up = self.cpu_time.is_some_and(|limit| match signal {
            libc::SIGXCPU => used >= limit / 2,
            libc::SIGKILL => used >= limit,
            _ => false,
        });
        if used_up { Ended::CpuTimeUsedUp } else { Ended::Signalled(signal) }
    }

    pub(super) fn outcome(&mut self, usage: &libc::rusage, output_truncated: bool) -> Outcome {
        self.pressure = None;
        // As long as init is in the cgroup, it cannot be removed.
        let stats = if self.reaped { self.meter.finish() } else { self.meter.last_stats() };
        // Nothing inside is left that could make anything more.
        let made_names = self.guard_state.made_names();
        if let Some(network) = &mut self.init.network
            && self.reaped
            && self.guard_state.heard_nothing()
        {
            network.nobody_touched_it();
        }
        let (violations, denials) = std::mem::take(&mut self.guard_state).finish();
        // Without a PID namespace something may be left that init did not come to; whoever waits has to see to it first.
        let handed_back =
            if self.init.namespaced { self.look_at_repositories(made_names) } else { HandedBack::default() };
        let by_sigkill = matches!(self.ended, None | Some(Ended::Signalled(libc::SIGKILL)));
        let ended = match self.ended {
            _ if violations.broken() || handed_back.unsafe_left => Ended::RuleBroken,
            // What init could still tell came before the clock struck.
            None if self.timed_out => Ended::TimedOut,
            _ if by_sigkill && stats.killed_by_own_memory_limit() => Ended::OutOfMemory,
            Some(ended) => ended,
            None => Ended::Killed,
        };
        // An init that was killed could not tell; then the kernel's count of it has to do, whose peak of memory starts
        // at that of the process that cloned it.
        let (user, system, peak) = match self.used {
            Some(used) => {
                let time = |milliseconds: u32| Duration::from_millis(milliseconds.into());
                (time(used.cpu_user), time(used.cpu_system), u64::from(used.peak))
            }
            None => {
                let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0);
                (duration(usage.ru_utime), duration(usage.ru_stime), peak)
            }
        };
        Outcome {
            ended,
            wall_time: self.started.elapsed(),
            cpu_user: stats.cpu_user.unwrap_or(user),
            cpu_system: stats.cpu_system.unwrap_or(system),
            cpu_throttled: stats.cpu_throttled,
            memory_counted: stats.peak_memory.is_some(),
            peak_memory: stats.peak_memory.unwrap_or(peak * 1024),
            max_pids_seen: stats.max_pids_seen,
            oom_kills: stats.oom_kills.unwrap_or(0),
            pids_refused: stats.pids_max_hits.unwrap_or(0),
            output_truncated,
            violations,
            denials,
            tried_network: self.tried_network,
            handed_back,
            not_enforced: self.left_to_others.take().into_iter().collect(),
            warnings: Vec::new(),
            network: NetworkUse::default(),
            gateway: Default::default(),
            stream_failure: None,
        }
    }
}

impl Running {
    /// Takes away what git on the host would run, once. `made_names` is false if the sandbox made no name at all.
    pub(super) fn look_at_repositories(&mut self, made_names: bool) -> HandedBack {
        // First, or repositories of other users could not be looked into.
        self.left_to_others = self.owners.take().and_then(Owners::finish).or(self.left_to_others.take());
        let (deadline, late) = (self.deadline, self.timed_out);
        self.last_look.take().map(|last| last.look(made_names, deadline, late)).unwrap_or_default()
    }

    /// The same for a sandbox without a PID namespace, when everything that was in it has ended.
    pub fn finish_without_namespace(&mut self, outcome: &mut Outcome) {
        if self.last_look.is_some() {
            outcome.handed_back = self.look_at_repositories(true);
            if outcome.handed_back.unsafe_left {
                outcome.ended = Ended::RuleBroken;
            }
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_usec).unwrap_or(0) * 1000)
}
