//! A sandbox's cgroups in v1 hierarchies: one for each controller, or for each set that is mounted together.
//!
//! v1 lacks what makes v2 pleasant: there is no entering at birth, no kill file, no notice when a cgroup
//! becomes empty, and no group kill by the out-of-memory killer, which takes the one process it chooses.
//! Everything else that v2 promises is kept here with other files.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CgroupLimits;
use super::controller::{Controller, ControllerSet};
use super::dir::{Dir, is_busy};
use super::error::CgroupError;
use super::kill::{DEPTH, hold, kill_listed};
use super::stats::{FinalStats, Usage, keyed, single};

/// The sandbox's directory in one hierarchy.
#[derive(Debug)]
pub(super) struct Leaf {
    pub controllers: ControllerSet,
    pub parent: Dir,
    pub name: String,
    pub dir: Dir,
    /// `tasks`, held open for the sandbox to enter by. The kernel judges by who opened it (since 5.16;
    /// before, by who writes, which for a task that moves itself comes to the same).
    pub tasks: OwnedFd,
}

impl Leaf {
    /// Makes the directory; an `io::Error` because the caller tries several parents.
    pub fn make(parent: Dir, name: &str, controllers: ControllerSet) -> io::Result<Self> {
        let dir = parent.make(name)?;
        match dir.open_to_write("tasks") {
            Ok(tasks) => Ok(Self { controllers, parent, name: name.to_owned(), dir, tasks }),
            Err(error) => {
                let _ = parent.remove_child(name);
                Err(error)
            }
        }
    }
}

/// All of a sandbox's v1 directories.
#[derive(Debug, Default)]
pub(super) struct Leaves(pub Vec<Leaf>);

impl Leaves {
    fn with(&self, controller: Controller) -> Option<&Dir> {
        self.0.iter().find(|leaf| leaf.controllers.contains(controller)).map(|leaf| &leaf.dir)
    }

    pub fn controllers(&self) -> ControllerSet {
        self.0.iter().fold(ControllerSet::EMPTY, |all, leaf| all.union(leaf.controllers))
    }

    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.0.iter().map(|leaf| leaf.tasks.as_fd())
    }

    pub fn set_limits(&self, limits: &CgroupLimits) -> Result<(), CgroupError> {
        if let Some(dir) = self.with(Controller::Memory) {
            set_memory(dir, limits)?;
        }
        if let Some(dir) = self.with(Controller::Cpu)
            && let Some(quota) = limits.cpu_quota_us()
        {
            // A new cgroup has the kernel's default period, whatever its parent's is.
            let file = "cpu.cfs_quota_us";
            dir.write_number(file, quota)
                .map_err(|error| CgroupError::setting("limiting CPU", dir.file(file), &quota, error))?;
        }
        if let Some(dir) = self.with(Controller::Pids)
            && let Some(pids) = limits.pids
        {
            dir.write_number("pids.max", pids.into()).map_err(|error| {
                CgroupError::setting("limiting processes", dir.file("pids.max"), &pids, error)
            })?;
        }
        Ok(())
    }

    pub fn admit(&self, pid: i32) -> Result<(), CgroupError> {
        for leaf in &self.0 {
            leaf.dir.write("cgroup.procs", &pid.to_string()).map_err(|error| {
                CgroupError::system(
                    "putting the sandbox into its cgroup",
                    leaf.dir.file("cgroup.procs"),
                    error,
                )
            })?;
        }
        Ok(())
    }

    pub fn add_usage(&self, usage: &mut Usage) {
        if let Some(dir) = self.with(Controller::Memory) {
            usage.memory = number(dir, "memory.usage_in_bytes");
        }
        if let Some(dir) = self.with(Controller::Pids) {
            usage.processes = number(dir, "pids.current");
        }
        if usage.cpu_user.is_none()
            && let Some(dir) = self.with(Controller::Cpuacct)
        {
            (usage.cpu_user, usage.cpu_system) = cpu_times(dir);
        }
    }

    /// Opens what [`Leaves::add_final`] reads.
    pub fn open_final(&self) {
        let files: [(Controller, &[&str]); 3] = [
            (Controller::Memory, &["memory.max_usage_in_bytes", "memory.oom_control"]),
            (Controller::Pids, &["pids.peak", "pids.events"]),
            (Controller::Cpu, &["cpu.stat"]),
        ];
        for (controller, names) in files {
            if let Some(dir) = self.with(controller) {
                dir.open_ahead(names);
            }
        }
    }

    pub fn add_final(&self, stats: &mut FinalStats) {
        if let Some(dir) = self.with(Controller::Memory) {
            stats.peak_memory = number(dir, "memory.max_usage_in_bytes");
            // The count is in this file since 4.13.
            stats.oom_kills = dir.read("memory.oom_control").ok().and_then(|text| keyed(&text, "oom_kill"));
            stats.memory_exhausted = match stats.oom_kills {
                Some(0) => Some(false),
                _ => stats.peak_memory.zip(number(dir, "memory.limit_in_bytes")).map(reached),
            };
        }
        if let Some(dir) = self.with(Controller::Pids) {
            stats.max_pids_seen = number(dir, "pids.peak");
            stats.pids_max_hits = dir.read("pids.events").ok().and_then(|text| keyed(&text, "max"));
        }
        if let Some(dir) = self.with(Controller::Cpu) {
            let throttled = dir.read("cpu.stat").ok().and_then(|text| keyed(&text, "throttled_time"));
            stats.cpu_throttled = throttled.map(Duration::from_nanos);
        }
        if stats.cpu_user.is_none()
            && let Some(dir) = self.with(Controller::Cpuacct)
        {
            (stats.cpu_user, stats.cpu_system) = cpu_times(dir);
        }
    }

    /// Sends SIGKILL to everything inside. What is inside is first kept from forking past the list: by the
    /// freezer, or else by allowing no further task.
    pub fn kill(&self) -> io::Result<()> {
        let Some(listing) = self.0.first() else { return Ok(()) };
        if let Some(freezer) = self.with(Controller::Freezer) {
            freezer.write("freezer.state", "FROZEN")?;
            // Freezing takes effect task by task. One that the signal reaches before it is frozen dies; one
            // that is frozen keeps its signal until it is thawed. So there is nothing to wait for, except for
            // a fork that was under way, which the second round finds.
            let killed = kill_listed(&listing.dir).and_then(|()| kill_listed(&listing.dir));
            freezer.write("freezer.state", "THAWED")?;
            return killed;
        }
        if let Some(pids) = self.with(Controller::Pids) {
            pids.write("pids.max", "0")?;
        }
        kill_listed(&listing.dir)
    }

    /// Waits until no process is inside; `false` if some still is at the deadline.
    ///
    /// v1 tells nobody when a cgroup becomes empty, but the end of each process can be waited for.
    pub fn wait_until_empty(&self, deadline: Instant) -> io::Result<bool> {
        let Some(leaf) = self.0.first() else { return Ok(true) };
        loop {
            let mut inside = Vec::new();
            hold(&leaf.dir, DEPTH, &mut |process| inside.extend(process.try_clone()))?;
            let left = deadline.saturating_duration_since(Instant::now());
            if inside.is_empty() || left.is_zero() {
                return Ok(inside.is_empty());
            }
            // Killing again with each round catches a child that was born while its parent was being killed.
            kill_listed(&leaf.dir)?;
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            for process in &inside {
                match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Removes what holds no process, and keeps the rest.
    pub fn remove(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        self.0.retain(|leaf| match leaf.parent.remove_tree(&leaf.name, DEPTH) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                if outcome.is_ok() || is_busy(&error) {
                    outcome = Err(error);
                }
                true
            }
        });
        outcome
    }
}

fn set_memory(dir: &Dir, limits: &CgroupLimits) -> Result<(), CgroupError> {
    let set = |doing, file: &'static str, value| {
        dir.write_number(file, value)
            .map_err(|error| CgroupError::setting(doing, dir.file(file), &value, error))
    };
    let Some(memory) = limits.memory else { return Ok(()) };
    set("limiting memory", "memory.limit_in_bytes", memory)?;
    // What TCP holds in its buffers v1 counts apart, and only if it is told to. What UDP holds it does not count.
    match set("limiting memory of TCP", "memory.kmem.tcp.limit_in_bytes", memory) {
        // A kernel without it.
        Err(CgroupError::Setting { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        other => other?,
    }
    // v1 limits memory and swap together, never swap alone; the sum must not be below the memory limit, so it
    // is written second.
    match set("limiting swap", "memory.memsw.limit_in_bytes", memory.saturating_add(limits.swap.unwrap_or(0)))
    {
        // Absent where swap is not accounted for (`swapaccount=0`). No swap at all is still possible, some is
        // not.
        Err(CgroupError::Setting { source, .. })
            if source.kind() == io::ErrorKind::NotFound && limits.swap.is_none() =>
        {
            set("limiting swap", "memory.swappiness", 0)
        }
        other => other,
    }
}

/// Whether a peak is at its limit. v1 has no count of shortages like v2's `oom` event, and `memory.failcnt`
/// stays 0 on recent kernels (seen on 6.18). Memory is charged in batches of up to 64 pages, so the peak can
/// stop that much short.
fn reached((peak, limit): (u64, u64)) -> bool {
    peak.saturating_add(64 * 4096) >= limit
}

/// User and system time. v1 keeps the sum exactly, but the two parts only by looking who runs at each tick,
/// which a sandbox that is throttled at ticks makes wrong by a third. So the parts give the proportion of the
/// exact sum, as the kernel does it for a process's own times.
fn cpu_times(dir: &Dir) -> (Option<Duration>, Option<Duration>) {
    let Some(total) = number(dir, "cpuacct.usage").map(Duration::from_nanos) else { return (None, None) };
    let text = dir.read("cpuacct.stat").unwrap_or_default();
    let ticks = |key| keyed(&text, key).unwrap_or(0) as f64;
    let (user, system) = (ticks("user"), ticks("system"));
    let user = if user + system > 0.0 { total.mul_f64(user / (user + system)) } else { total };
    (Some(user), Some(total.saturating_sub(user)))
}

fn number(dir: &Dir, file: &str) -> Option<u64> {
    single(&dir.read(file).ok()?)
}
