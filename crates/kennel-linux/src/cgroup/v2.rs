//! A sandbox's cgroup in the v2 hierarchy: its limits, its figures, its end.
//!
//! It is entered at birth, ends everything inside with one write, tells when it is empty, and counts CPU time
//! whether or not a controller is on.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::controller::{Controller, ControllerSet};
use super::dir::{Dir, read_from_start};
use super::error::CgroupError;
use super::kill::kill_listed;
use super::stats::{FinalStats, Usage, keyed, single};
use super::{CgroupLimits, OomScope, PERIOD_US};

#[derive(Debug)]
pub(super) struct Leaf {
    pub parent: Dir,
    pub name: String,
    pub dir: Dir,
    /// The controllers that the parent passes on to this cgroup.
    pub controllers: ControllerSet,
}

impl Leaf {
    pub fn make(parent: Dir, name: &str, controllers: ControllerSet) -> Result<Self, CgroupError> {
        let dir = parent
            .make(name)
            .map_err(|error| CgroupError::system("making the sandbox's cgroup", parent.file(name), error))?;
        Ok(Self { parent, name: name.to_owned(), dir, controllers })
    }

    pub fn set_limits(&self, limits: &CgroupLimits) -> Result<(), CgroupError> {
        let set = |doing, file: &'static str, value: &str| {
            self.dir
                .write(file, value)
                .map_err(|error| CgroupError::setting(doing, self.dir.file(file), &value, error))
        };
        if self.controllers.contains(Controller::Memory) {
            if let Some(memory) = limits.memory {
                set("limiting memory", "memory.max", &memory.to_string())?;
                if limits.oom == OomScope::Everything {
                    set("limiting memory", "memory.oom.group", "1")?;
                }
            }
            if let Some(swap) = limits.swap.or(limits.memory.map(|_| 0)) {
                match set("limiting swap", "memory.swap.max", &swap.to_string()) {
                    // The file is absent from kernels that cannot swap.
                    Err(CgroupError::Setting { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                    other => other?,
                }
            }
        }
        if self.controllers.contains(Controller::Cpu)
            && let Some(quota) = limits.cpu_quota_us()
        {
            set("limiting CPU", "cpu.max", &format!("{quota} {PERIOD_US}"))?;
        }
        if self.controllers.contains(Controller::Pids)
            && let Some(pids) = limits.pids
        {
            set("limiting processes", "pids.max", &pids.to_string())?;
        }
        Ok(())
    }

    pub fn admit(&self, pid: i32) -> Result<(), CgroupError> {
        self.dir.write("cgroup.procs", &pid.to_string()).map_err(|error| {
            CgroupError::system("putting the sandbox into its cgroup", self.dir.file("cgroup.procs"), error)
        })
    }

    pub fn add_usage(&self, usage: &mut Usage) {
        if self.controllers.contains(Controller::Memory) {
            usage.memory = self.number("memory.current");
        }
        if self.controllers.contains(Controller::Pids) {
            usage.processes = self.number("pids.current");
        }
        // The kernel counts CPU time in every v2 cgroup, whether or not the controller is on (since 4.20).
        if let Ok(text) = self.dir.read("cpu.stat") {
            usage.cpu_user = keyed(&text, "user_usec").map(Duration::from_micros);
            usage.cpu_system = keyed(&text, "system_usec").map(Duration::from_micros);
        }
    }

    /// Opens what [`Leaf::add_final`] reads.
    pub fn open_final(&self) {
        self.dir.open_ahead(&["memory.peak", "memory.events", "pids.peak", "pids.events", "cpu.stat"]);
    }

    pub fn add_final(&self, stats: &mut FinalStats) {
        if self.controllers.contains(Controller::Memory) {
            // Since 5.19; before that the caller's own samples have to do.
            stats.peak_memory = self.number("memory.peak");
            if let Ok(text) = self.dir.read("memory.events") {
                stats.oom_kills = keyed(&text, "oom_kill");
                stats.memory_exhausted = keyed(&text, "oom").map(|times| times > 0);
            }
        }
        if self.controllers.contains(Controller::Pids) {
            stats.max_pids_seen = self.number("pids.peak");
            stats.pids_max_hits = self.dir.read("pids.events").ok().and_then(|text| keyed(&text, "max"));
        }
        if let Ok(text) = self.dir.read("cpu.stat") {
            stats.cpu_user = keyed(&text, "user_usec").map(Duration::from_micros);
            stats.cpu_system = keyed(&text, "system_usec").map(Duration::from_micros);
            stats.cpu_throttled = keyed(&text, "throttled_usec").map(Duration::from_micros);
        }
    }

    /// Sends SIGKILL to everything inside, at once. `cgroup.kill` exists since 5.14; before that everything
    /// is frozen first, so that no process can fork past the list of those to kill.
    pub fn kill(&self) -> io::Result<()> {
        match self.dir.write("cgroup.kill", "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let frozen = self.dir.write("cgroup.freeze", "1").is_ok();
        if frozen {
            self.wait_for_event("frozen", 1, Instant::now() + Duration::from_millis(500))?;
        }
        // A frozen v2 task dies of SIGKILL without being thawed.
        let killed = kill_listed(&self.dir);
        if frozen {
            self.dir.write("cgroup.freeze", "0")?;
        }
        killed
    }

    /// Waits until no process is inside; `false` if some still is at the deadline.
    pub fn wait_until_empty(&self, deadline: Instant) -> io::Result<bool> {
        self.wait_for_event("populated", 0, deadline)
    }

    /// Waits until a key of `cgroup.events` has a value. The kernel wakes pollers of the file at each change.
    fn wait_for_event(&self, key: &str, value: u64, deadline: Instant) -> io::Result<bool> {
        let file = self.dir.open_to_read("cgroup.events")?;
        loop {
            // The read comes before the wait: it also tells the kernel which changes this reader has seen.
            if keyed(&read_from_start(file.as_fd())?, key) == Some(value) {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn number(&self, file: &str) -> Option<u64> {
        single(&self.dir.read(file).ok()?)
    }
}
