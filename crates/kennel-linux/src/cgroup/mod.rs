//! Limits on what a whole sandbox uses, and the account of what it used: cgroups.
//!
//! One cgroup holds all processes of a sandbox, however often they fork. [`Cgroup::create`] makes it with its
//! limits, the sandbox's first process enters it before the command starts, and [`Cgroup::finish`] ends what
//! is still inside, reads the statistics and removes it. On a unified host it is one directory of the v2
//! hierarchy; on a v1 or hybrid host it is a directory in each controller's hierarchy.
//! `hierarchy` finds out which, `delegate` where the caller may make one, `v2` and `v1` know the files.
//!
//! A limit that cannot be enforced is an error. The controller of the sandbox owns the cgroup; nothing inside
//! the sandbox may hold one of its descriptors or a writable view of the cgroup file system, or it could
//! leave.

mod controller;
mod dbus;
mod delegate;
mod dir;
mod error;
mod hierarchy;
mod keeper;
mod kill;
mod name;
mod pressure;
mod probe;
mod scope;
pub mod stale;
mod stats;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kennel_policy::quantity::CPUS;
use rustix::process::Pid;

pub use controller::{Controller, ControllerSet};
pub use error::{CgroupError, Lack};
pub use hierarchy::Layout;
pub use pressure::Pressure;
pub use probe::{Availability, Host, Route};
pub use stats::{FinalStats, Usage};

use delegate::Base;
use dir::Dir;
use hierarchy::{Hierarchies, Seat};
use keeper::Keeper;
use name::Owner;

/// The flag of `clone3` that goes with [`Cgroup::birth_fd`]. It does not fit into the `int` that the `libc`
/// crate gives its constant on glibc, which is 0 for that reason.
pub const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The period over which the CPU limit holds: the kernel's own default, which v1 directories keep. A sandbox
/// of half a CPU may run for 50 ms of every 100.
const PERIOD_US: u64 = 100_000;

/// The controllers that statistics need.
const COUNTING: ControllerSet = ControllerSet::EMPTY.with(Controller::Memory).with(Controller::Pids);

/// The cgroup of the keeper, beside that of the sandbox.
const KEEPERS_PLACE: &str = "keeper";

/// How long the end of a sandbox's processes is waited for after SIGKILL. One that is in an uninterruptible
/// wait in the kernel takes as long as the device or file server that it waits for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a whole sandbox may use. `None` sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CgroupLimits {
    /// Memory in bytes, tmpfs and page cache included.
    pub memory: Option<u64>,
    /// Swap in bytes, beside the memory; with a memory limit and without this one, none.
    pub swap: Option<u64>,
    /// CPUs: 0.5 is half of one, 2 is all of two.
    pub cpus: Option<f64>,
    /// Tasks, which are processes and their threads. kennel's init inside the sandbox counts as one.
    pub pids: Option<u32>,
    /// Whom the out-of-memory killer takes.
    pub oom: OomScope,
}

/// Whom the kernel's out-of-memory killer takes when a sandbox is at its memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OomScope {
    /// The whole sandbox, so that nothing goes on with a part of it missing. cgroup v1 cannot do this: there
    /// it is [`OomScope::OneProcess`] always.
    #[default]
    Everything,
    /// The process that the kernel finds best, as a rule the largest. The others go on.
    OneProcess,
}

impl CgroupLimits {
    /// The controllers without which these limits cannot be enforced.
    pub fn controllers(&self) -> ControllerSet {
        let needed = [
            (self.memory.is_some() || self.swap.is_some(), Controller::Memory),
            (self.cpus.is_some(), Controller::Cpu),
            (self.pids.is_some(), Controller::Pids),
        ];
        needed.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, controller)| controller).collect()
    }

    fn check(&self) -> Result<(), CgroupError> {
        let invalid = |limit, value: String, why: &str| {
            Err(CgroupError::InvalidLimit { limit, value, why: why.to_owned() })
        };
        match self {
            Self { memory: Some(bytes @ ..4096), .. } => {
                invalid("memory", bytes.to_string(), "must be at least one page")
            }
            Self { swap: Some(bytes), memory: None, .. } => {
                invalid("swap", bytes.to_string(), "requires a memory limit")
            }
            // Not a range: NaN has to be caught as well.
            Self { cpus: Some(cpus), .. } if !CPUS.contains(cpus) => {
                let why = format!("not between {} and {}", CPUS.start(), CPUS.end());
                invalid("cpus", cpus.to_string(), &why)
            }
            Self { pids: Some(0), .. } => invalid("pids", "0".to_owned(), "must be greater than 0"),
            _ => Ok(()),
        }
    }

    /// CPU time for each [`PERIOD_US`]. The kernel accepts no less than 1 ms, which [`Self::check`] sees to.
    fn cpu_quota_us(&self) -> Option<u64> {
        self.cpus.map(|cpus| (cpus * PERIOD_US as f64).round() as u64)
    }
}

/// The cgroup of one sandbox. Dropping it ends what is inside and removes it, like [`Cgroup::finish`] without
/// the statistics.
#[derive(Debug)]
pub struct Cgroup {
    unified: Option<v2::Leaf>,
    legacy: v1::Leaves,
    pending: Option<Pending>,
    /// Keeps a scope in place; ended after everything else.
    keeper: Option<Keeper>,
    limits: CgroupLimits,
    /// The most that [`Cgroup::usage`] has seen, for kernels that keep no peak.
    seen_memory: AtomicU64,
    seen_tasks: AtomicU64,
}

/// A cgroup that the user's systemd makes once there is a process to put into it.
#[derive(Debug)]
struct Pending {
    manager: scope::Manager,
    seat: Seat,
    name: String,
    controllers: ControllerSet,
}

impl Cgroup {
    /// Makes a cgroup with these limits. It counts memory and processes whether or not they are limited, where
    /// the host offers that, and CPU time on v2 or with `want_stats`; what it does not count is `None` later.
    ///
    /// # Errors
    ///
    /// A limit that this host, or this user on it, cannot enforce; see [`CgroupError::missing`].
    pub fn create(limits: &CgroupLimits, want_stats: bool) -> Result<Self, CgroupError> {
        limits.check()?;
        let hierarchies = Hierarchies::of_caller()
            .map_err(|error| CgroupError::system("finding the cgroup hierarchies", "/proc/self", error))?;
        let name = Owner::current()
            .map_err(|error| CgroupError::system("naming the sandbox's cgroup", "/proc/self", error))?
            .fresh_name();
        let required = limits.controllers();
        let wanted = required.union(COUNTING);
        let on_v1 = hierarchies.on_v1();

        // Whatever fails below, what has been made so far goes with this value.
        let mut cgroup = Self::nowhere(limits);
        cgroup.make_unified(&hierarchies, &name, required.without(on_v1), wanted.without(on_v1))?;
        cgroup.make_legacy(&hierarchies, &name, required, wanted, want_stats)?;
        cgroup.legacy.set_limits(limits)?;
        if cgroup.unified.is_none() && cgroup.pending.is_none() && cgroup.legacy.0.is_empty() {
            return Err(CgroupError::NoPlace {
                place: hierarchies.layout().to_string(),
                why: "no directory that the caller may write to".to_owned(),
                help: "see docs/limits.md for how to get one".to_owned(),
            });
        }
        Ok(cgroup)
    }

    /// Makes a cgroup without limits, for its statistics, if that takes no more than making directories: nothing
    /// is moved or turned on for it, and nobody is asked. A figure that this host does not give that way is
    /// `None` later.
    pub fn to_count() -> Option<Self> {
        let hierarchies = Hierarchies::of_caller().ok()?;
        let name = Owner::current().ok()?.fresh_name();
        let mut cgroup = Self::nowhere(&CgroupLimits::default());
        if hierarchies.layout() == Layout::Unified
            && let Some(seat) = &hierarchies.unified
        {
            cgroup.unified = delegate::find_as_it_is(seat, COUNTING)
                .and_then(|(parent, controllers)| v2::Leaf::make(parent, &name, controllers).ok());
        }
        cgroup.make_legacy(&hierarchies, &name, ControllerSet::EMPTY, COUNTING, true).ok()?;
        (cgroup.unified.is_some() || !cgroup.legacy.0.is_empty()).then_some(cgroup)
    }

    fn nowhere(limits: &CgroupLimits) -> Self {
        Self {
            unified: None,
            legacy: v1::Leaves::default(),
            pending: None,
            keeper: None,
            limits: *limits,
            seen_memory: AtomicU64::new(0),
            seen_tasks: AtomicU64::new(0),
        }
    }

    fn make_unified(
        &mut self,
        hierarchies: &Hierarchies,
        name: &str,
        required: ControllerSet,
        wanted: ControllerSet,
    ) -> Result<(), CgroupError> {
        let Some(seat) = &hierarchies.unified else {
            let absent: Vec<_> = required.iter().map(|controller| (controller, None)).collect();
            let lacks = delegate::legacy_lacks(hierarchies, &absent);
            return if lacks.is_empty() { Ok(()) } else { Err(CgroupError::Missing(lacks)) };
        };
        if required.is_empty() && hierarchies.layout() == Layout::Hybrid {
            // It would be a convenience: everything ended at once, CPU time counted. But to be born in it costs
            // 0.3 ms more than to be born at all (6.18), which is all that limits may cost.
            return Ok(());
        }
        match delegate::prepare(delegate::find_unified(seat, required, wanted)?)? {
            Base::Directory(parent, controllers) => {
                self.unified.insert(v2::Leaf::make(parent, name, controllers)?).set_limits(&self.limits)
            }
            Base::Systemd(manager, controllers) => {
                let (seat, name) = (seat.clone(), name.to_owned());
                self.pending = Some(Pending { manager, seat, name, controllers });
                Ok(())
            }
        }
    }

    fn make_legacy(
        &mut self,
        hierarchies: &Hierarchies,
        name: &str,
        required: ControllerSet,
        wanted: ControllerSet,
        want_stats: bool,
    ) -> Result<(), CgroupError> {
        let wanted =
            if want_stats && self.unified.is_none() { wanted.with(Controller::Cpuacct) } else { wanted };
        let mut missing = Vec::new();
        for (controllers, seat) in &hierarchies.legacy {
            if controllers.intersection(wanted).is_empty() {
                continue;
            }
            match make_legacy_leaf(seat, name, *controllers) {
                Ok(leaf) => self.legacy.0.push(leaf),
                Err(error) => {
                    let kind = error.raw_os_error();
                    for controller in controllers.intersection(required).iter() {
                        missing.push((controller, kind.map(io::Error::from_raw_os_error)));
                    }
                }
            }
        }
        if !missing.is_empty() {
            return Err(CgroupError::Missing(delegate::legacy_lacks(hierarchies, &missing)));
        }
        if self.unified.is_none()
            && self.pending.is_none()
            && !self.legacy.controllers().contains(Controller::Pids)
        {
            // Then this is what keeps those that are to be killed from forking meanwhile.
            let seat = hierarchies.legacy.iter().find(|(set, _)| set.contains(Controller::Freezer));
            let leaf = seat.and_then(|(set, seat)| make_legacy_leaf(seat, name, *set).ok());
            self.legacy.0.extend(leaf);
        }
        Ok(())
    }

    /// The controllers that this cgroup has.
    pub fn controllers(&self) -> ControllerSet {
        let unified = self.unified.as_ref().map_or(ControllerSet::EMPTY, |leaf| leaf.controllers);
        let pending = self.pending.as_ref().map_or(ControllerSet::EMPTY, |pending| pending.controllers);
        unified.union(pending).union(self.legacy.controllers())
    }

    /// The directory that the sandbox's first process can be born in, by [`CLONE_INTO_CGROUP`] (Linux 5.7):
    /// no moment outside, and none of the global locks that moving a process takes. Such a process still
    /// needs the [`Cgroup::entrances`].
    ///
    /// The descriptor must not stay open inside the sandbox.
    pub fn birth_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|leaf| leaf.dir.fd())
    }

    /// The `tasks` files of the v1 directories: a single-threaded process that writes `0` to each enters them
    /// by itself, which is cheaper than being moved, because the kernel need not hold up the forks and exits
    /// of everybody else. A process that was born in [`Cgroup::birth_fd`] (or a host without it) and that has
    /// written to all of these is entirely inside, except where [`Cgroup::must_be_admitted`].
    ///
    /// The descriptors must not stay open inside the sandbox.
    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.legacy.entrances()
    }

    /// Whether only [`Cgroup::admit`] leads in, because the directory does not exist before that.
    pub fn must_be_admitted(&self) -> bool {
        self.pending.is_some()
    }

    /// Moves the sandbox's first process into the cgroup while it waits, before the command starts. What the
    /// process forks later is inside as well; what it used before is not counted.
    pub fn admit(&mut self, pid: Pid) -> Result<(), CgroupError> {
        if let Some(pending) = self.pending.take() {
            return self.start_scope(pending, pid);
        }
        if let Some(leaf) = &self.unified {
            leaf.admit(raw(pid))?;
        }
        self.legacy.admit(raw(pid))
    }

    fn start_scope(&mut self, mut pending: Pending, pid: Pid) -> Result<(), CgroupError> {
        let failed = |error| CgroupError::system("keeping a scope for the sandbox", "a process", error);
        let keeper = raw(self.keeper.insert(Keeper::start().map_err(failed)?).pid());
        let scope = pending.manager.start_scope(&pending.name, raw(pid), keeper, &pending.seat)?;
        scope
            .make(KEEPERS_PLACE)
            .and_then(|place| place.write("cgroup.procs", &keeper.to_string()))
            .map_err(|error| CgroupError::system("keeping the scope", scope.file(KEEPERS_PLACE), error))?;
        // The processes have to be below the scope before the scope can pass controllers on.
        let leaf = self.unified.insert(v2::Leaf::make(scope, &pending.name, pending.controllers)?);
        leaf.admit(raw(pid))?;
        delegate::turn_on(&leaf.parent, pending.controllers).map_err(|error| {
            CgroupError::system("enabling controllers", leaf.parent.file("cgroup.subtree_control"), error)
        })?;
        leaf.set_limits(&self.limits)
    }

    /// What the sandbox uses now.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        if let Some(leaf) = &self.unified {
            leaf.add_usage(&mut usage);
        }
        self.legacy.add_usage(&mut usage);
        self.seen_memory.fetch_max(usage.memory.unwrap_or(0), Ordering::Relaxed);
        self.seen_tasks.fetch_max(usage.processes.unwrap_or(0), Ordering::Relaxed);
        usage
    }

    /// Has the kernel reclaim from 90 % of the memory limit on, and tell when that is reached; `None` without
    /// a memory limit and on cgroup v1, which has no such mark. Only for a caller that polls: above the mark
    /// the sandbox is slowed down until [`Pressure::relieve`] is called.
    pub fn watch_pressure(&self) -> Result<Option<Pressure>, CgroupError> {
        match (&self.unified, self.limits.memory) {
            (Some(leaf), Some(limit)) if leaf.controllers.contains(Controller::Memory) => {
                Pressure::set(&leaf.dir, limit).map(Some).map_err(|error| {
                    CgroupError::system("watching memory", leaf.dir.file("memory.high"), error)
                })
            }
            _ => Ok(None),
        }
    }

    /// How many processes the out-of-memory killer has taken so far.
    pub fn oom_kills(&self) -> Option<u64> {
        self.read_stats().oom_kills
    }

    /// Sends SIGKILL to every process inside, so that none can escape by forking. Does not wait for their
    /// end.
    pub fn kill(&self) -> Result<(), CgroupError> {
        let (killed, path) = match &self.unified {
            Some(leaf) => (leaf.kill(), leaf.dir.path()),
            None => match self.legacy.0.first() {
                Some(leaf) => (self.legacy.kill(), leaf.dir.path()),
                None => return Ok(()),
            },
        };
        killed.map_err(|error| CgroupError::system("ending the sandbox's processes", path, error))
    }

    /// Opens the files that [`Cgroup::finish`] reads, while there is time.
    pub fn prepare_end(&self) {
        if let Some(leaf) = &self.unified {
            leaf.open_final();
        }
        self.legacy.open_final();
    }

    /// Ends what is still inside, reads the statistics and removes the cgroup.
    pub fn finish(mut self) -> FinalStats {
        let mut stats = self.read_stats();
        if !self.remove() {
            self.end();
            stats = self.read_stats().or(&stats);
            self.remove();
        }
        let unified = self.unified.take().map(|leaf| leaf.dir.path().to_owned());
        let legacy = std::mem::take(&mut self.legacy).0.into_iter().map(|leaf| leaf.dir.path().to_owned());
        stats.left_behind = unified.into_iter().chain(legacy).collect();
        stats
    }

    /// What was used so far.
    #[must_use]
    pub fn read_stats(&self) -> FinalStats {
        let mut stats = FinalStats::default();
        if let Some(leaf) = &self.unified {
            leaf.add_final(&mut stats);
        }
        self.legacy.add_final(&mut stats);
        let seen = |most: &AtomicU64| Some(most.load(Ordering::Relaxed)).filter(|most| *most > 0);
        stats.peak_memory = stats.peak_memory.or(seen(&self.seen_memory));
        stats.max_pids_seen = stats.max_pids_seen.or(seen(&self.seen_tasks));
        stats
    }

    /// Kills what is inside and waits until it has ended.
    fn end(&self) {
        let deadline = Instant::now() + PATIENCE;
        // What fails here shows as a directory that cannot be removed.
        let _ = self.kill();
        if let Some(leaf) = &self.unified {
            let _ = leaf.wait_until_empty(deadline);
        }
        let _ = self.legacy.wait_until_empty(deadline);
    }

    /// Removes the directories that hold no process; `false` if one is left.
    fn remove(&mut self) -> bool {
        if let Some(leaf) = &self.unified {
            match leaf.parent.remove_tree(&leaf.name, kill::DEPTH) {
                Ok(()) => self.unified = None,
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.unified = None,
                // The v1 directories hold the same processes.
                Err(_) => return false,
            }
        }
        self.legacy.remove().is_ok()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.remove() {
            self.end();
            self.remove();
        }
    }
}

fn make_legacy_leaf(seat: &Seat, name: &str, controllers: ControllerSet) -> io::Result<v1::Leaf> {
    let mut refusal = None;
    for parent in delegate::legacy_parents(seat) {
        match Dir::open(&parent).and_then(|parent| v1::Leaf::make(parent, name, controllers)) {
            Ok(leaf) => return Ok(leaf),
            // What the caller's own cgroup said is what the user is told.
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    Err(refusal.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
