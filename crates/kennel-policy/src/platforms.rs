//! What kennel promises, and how far each system keeps it.
//!
//! One table ([`PROMISES`]) with a column for each system. `kennel doctor` evaluates it for the host that it runs on, and
//! docs/platforms.md is written from it; a test compares the page. A promise that a system does not keep is an error
//! when a policy asks for it, unless it asks for best effort, and is then listed in the outcome.

mod table;

use std::fmt;

use crate::host::{Finding, State};

pub use table::PROMISES;

/// How far a promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The system enforces it.
    Enforced,
    /// Something less is done, if `best_effort` allows it; the outcome lists it.
    BestEffort,
    /// Asking for it is an error.
    NotAvailable,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Support::Enforced => "enforced",
            Support::BestEffort => "best effort",
            Support::NotAvailable => "not available",
        })
    }
}

/// How far a promise is kept, and by what, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptBy {
    /// How far.
    pub support: Support,
    /// The mechanism, or what is missing.
    pub how: &'static str,
}

/// Something that a mechanism of Linux requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// This version of the kernel.
    Kernel(u32, u32),
    /// This version of Landlock's interface.
    Landlock(u32),
    /// User namespaces, for whoever runs kennel, and a `/proc` that is not masked.
    Namespaces,
    /// System call filters.
    Seccomp,
    /// nftables in the kernel.
    Nftables,
    /// A cgroup that kennel may write to, with this controller.
    Cgroup(Controller),
    /// `newuidmap` and `newgidmap`, and subordinate ids.
    SubordinateIds,
}

/// A controller of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Memory and swap.
    Memory,
    /// Processors.
    Cpu,
    /// The number of processes.
    Pids,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Kernel(major, minor) => write!(f, "Linux {major}.{minor}"),
            Need::Landlock(abi) => write!(f, "Landlock ABI {abi} (Linux {})", landlock_kernel(*abi)),
            Need::Namespaces => f.write_str("user namespaces and an unmasked /proc"),
            Need::Seccomp => f.write_str("seccomp filters"),
            Need::Nftables => f.write_str("nftables in the kernel"),
            Need::Cgroup(Controller::Memory) => f.write_str("a memory cgroup"),
            Need::Cgroup(Controller::Cpu) => f.write_str("a cpu cgroup"),
            Need::Cgroup(Controller::Pids) => f.write_str("a pids cgroup"),
            Need::SubordinateIds => f.write_str("newuidmap and subordinate ids"),
        }
    }
}

/// One way in which Linux keeps a promise, if the host has what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxWay {
    /// All of these.
    pub needs: &'static [Need],
    /// What comes of it then.
    pub kept: KeptBy,
}

/// What a Linux host has of what mechanisms need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact about the host by itself")]
pub struct LinuxHost {
    /// The kernel's version.
    pub kernel: (u32, u32),
    /// The version of Landlock's interface; 0 without it.
    pub landlock: u32,
    /// See [`Need::Namespaces`].
    pub namespaces: bool,
    /// See [`Need::Seccomp`].
    pub seccomp: bool,
    /// See [`Need::Nftables`].
    pub nftables: bool,
    /// The memory controller.
    pub memory: bool,
    /// The cpu controller.
    pub cpu: bool,
    /// The pids controller.
    pub pids: bool,
    /// See [`Need::SubordinateIds`].
    pub subordinate_ids: bool,
}

impl LinuxHost {
    /// A host of this kernel that denies and lacks nothing else.
    #[must_use]
    pub const fn complete(kernel: (u32, u32), landlock: u32) -> LinuxHost {
        LinuxHost {
            kernel,
            landlock,
            namespaces: true,
            seccomp: true,
            nftables: true,
            memory: true,
            cpu: true,
            pids: true,
            subordinate_ids: true,
        }
    }

    /// Whether it has what a mechanism needs.
    #[must_use]
    pub fn has(&self, need: Need) -> bool {
        match need {
            Need::Kernel(major, minor) => self.kernel >= (major, minor),
            Need::Landlock(abi) => self.landlock >= abi,
            Need::Namespaces => self.namespaces,
            Need::Seccomp => self.seccomp,
            Need::Nftables => self.nftables,
            Need::Cgroup(Controller::Memory) => self.memory,
            Need::Cgroup(Controller::Cpu) => self.cpu,
            Need::Cgroup(Controller::Pids) => self.pids,
            Need::SubordinateIds => self.subordinate_ids,
        }
    }
}

/// The kernels of the table: those of Debian 11, 12 and 13 and its backports, on which the suites run
/// (`cargo xtask vm-test`).
pub const KERNELS: &[(&str, LinuxHost)] = &[
    ("Linux 5.10", LinuxHost::complete((5, 10), 0)),
    ("Linux 6.1", LinuxHost::complete((6, 1), 2)),
    ("Linux 6.12", LinuxHost::complete((6, 12), 6)),
    ("Linux 7.2", LinuxHost::complete((7, 2), 10)),
];

/// Something that kennel promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What it is about: a heading of the page.
    pub group: &'static str,
    /// What holds inside.
    pub promise: &'static str,
    /// The settings that ask for it, if it does not hold by default.
    pub settings: &'static [&'static str],
    /// The ways of Linux, the best first. The first whose needs are met counts.
    pub linux: &'static [LinuxWay],
    /// macOS (Seatbelt).
    pub macos: KeptBy,
    /// Windows (Job Objects, restricted tokens).
    pub windows: KeptBy,
}

impl Promise {
    /// How far a Linux host keeps it.
    #[must_use]
    pub fn on_linux(&self, host: &LinuxHost) -> KeptBy {
        let way = self.linux.iter().find(|way| way.needs.iter().all(|need| host.has(*need)));
        way.map_or(KeptBy { support: Support::NotAvailable, how: "the host lacks what it needs" }, |way| {
            way.kept
        })
    }

    /// What a Linux host lacks for the best way.
    #[must_use]
    pub fn lacks(&self, host: &LinuxHost) -> Vec<Need> {
        let best = self.linux.first().map_or(&[][..], |way| way.needs);
        best.iter().copied().filter(|need| !host.has(*need)).collect()
    }
}

/// The release that brought a version of Landlock's interface.
#[must_use]
pub fn landlock_kernel(abi: u32) -> &'static str {
    LANDLOCK.iter().find(|level| level.abi == abi).map_or("later", |level| level.kernel)
}

/// What a version of Landlock's interface added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandlockLevel {
    /// The version.
    pub abi: u32,
    /// The release of Linux.
    pub kernel: &'static str,
    /// What it can restrict.
    pub adds: &'static str,
}

/// All that kennel knows.
pub const LANDLOCK: &[LandlockLevel] = &[
    LandlockLevel { abi: 1, kernel: "5.13", adds: "files" },
    LandlockLevel { abi: 2, kernel: "5.19", adds: "moving and linking between folders" },
    LandlockLevel { abi: 3, kernel: "6.2", adds: "truncation" },
    LandlockLevel { abi: 4, kernel: "6.7", adds: "TCP by port" },
    LandlockLevel { abi: 5, kernel: "6.10", adds: "ioctl on devices" },
    LandlockLevel { abi: 6, kernel: "6.12", adds: "scopes for signals and abstract unix sockets" },
    LandlockLevel { abi: 7, kernel: "6.15", adds: "what goes to the audit log" },
    LandlockLevel { abi: 8, kernel: "7.0", adds: "restricting all threads at once" },
    LandlockLevel { abi: 9, kernel: "7.1", adds: "connecting to unix sockets of others by path" },
    LandlockLevel { abi: 10, kernel: "7.2", adds: "UDP by port" },
    LandlockLevel { abi: 11, kernel: "7.3", adds: "forbidding to gain privileges in the same call" },
];

/// What a Linux host keeps, as a finding of `kennel doctor`.
#[must_use]
pub fn finding_on_linux(host: &LinuxHost) -> Finding {
    finding(|promise| (promise.on_linux(host), promise.lacks(host)))
}

/// The same for macOS.
#[must_use]
pub fn finding_on_macos() -> Finding {
    finding(|promise| (promise.macos, Vec::new()))
}

/// The same for Windows.
#[must_use]
pub fn finding_on_windows() -> Finding {
    finding(|promise| (promise.windows, Vec::new()))
}

fn finding(kept: impl Fn(&Promise) -> (KeptBy, Vec<Need>)) -> Finding {
    let mut lines = Vec::new();
    for promise in PROMISES {
        let (kept, lacks) = kept(promise);
        if kept.support == Support::Enforced {
            continue;
        }
        let lacks: Vec<String> = lacks.iter().map(ToString::to_string).collect();
        let why = match (kept.support, lacks.is_empty()) {
            (Support::NotAvailable, false) => format!("requires {}", lacks.join(", ")),
            (_, false) => format!("{}; more requires {}", kept.how, lacks.join(", ")),
            (_, true) => kept.how.to_owned(),
        };
        lines.push(format!("{}: {}: {why}", promise.promise, kept.support));
    }
    let enforced = PROMISES.len() - lines.len();
    let mut detail = format!("{enforced} of {} in docs/platforms.md are enforced here", PROMISES.len());
    for line in &lines {
        detail.push_str("\n                       ");
        detail.push_str(line);
    }
    let state = if lines.is_empty() { State::Good } else { State::Weaker };
    Finding { subject: "promises", state, detail, remedy: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_has_an_answer_on_every_system() {
        for promise in PROMISES {
            assert!(!promise.linux.is_empty(), "{}", promise.promise);
            for (_, kernel) in KERNELS {
                assert!(!promise.on_linux(kernel).how.is_empty(), "{}", promise.promise);
            }
            assert!(!promise.macos.how.is_empty() && !promise.windows.how.is_empty(), "{}", promise.promise);
        }
    }

    #[test]
    fn settings_of_promises_exist() {
        let known: Vec<String> = crate::settings::keys::all().map(|(name, _)| name).collect();
        for setting in PROMISES.iter().flat_map(|promise| promise.settings) {
            assert!(known.iter().any(|key| key == setting), "{setting}");
        }
    }

    #[test]
    fn a_newer_kernel_keeps_no_promise_worse() {
        let rank = |support| match support {
            Support::Enforced => 2,
            Support::BestEffort => 1,
            Support::NotAvailable => 0,
        };
        for promise in PROMISES {
            let ranks: Vec<i32> =
                KERNELS.iter().map(|(_, kernel)| rank(promise.on_linux(kernel).support)).collect();
            assert!(ranks.is_sorted(), "{}: {ranks:?}", promise.promise);
        }
    }

    #[test]
    fn a_host_that_lacks_something_is_told_what() {
        let mut host = LinuxHost::complete((7, 2), 10);
        assert_eq!(finding_on_linux(&host).state, State::Good);
        host.memory = false;
        let finding = finding_on_linux(&host);
        assert_eq!(finding.state, State::Weaker);
        assert!(finding.detail.contains("requires a memory cgroup"), "{}", finding.detail);
    }
}
