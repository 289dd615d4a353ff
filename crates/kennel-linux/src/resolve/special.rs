//! Places that kennel provides itself, and file systems by which the host's kernel is looked at and steered.
//!
//! `/proc`, `/dev`, `/sys`, `/run` and `/tmp` inside are the sandbox's own. A rule on one of them is about the sandbox's own,
//! or it is an error that says what to write instead; it never brings back the host's. The same holds for every other
//! mount of such a file system, wherever the host has it: a chroot's `/proc` shows all processes, and whoever can write to
//! a cgroup file system lifts the limits that it is held to. They are told by their type, from the mount table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{FilePolicy, ReadModel, TmpMode};
use kennel_resolve::error::{ResolveError, system_error};

use super::locate::locate_plain;
use super::path_rules::{Linux, List, PathAccess, Resolver};
use super::sys::shown_in_sys;
use super::{Reason, Zone};
use crate::mounts::{self, Mount};

/// All that can be named in the sandbox's own /dev.
pub const OWN_DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "shm", "pts"];

/// File systems that are the kernel's own: its processes, devices, switches and counters.
const KERNEL: &[&[u8]] = &[
    b"proc",
    b"sysfs",
    b"cgroup",
    b"cgroup2",
    b"cpuset",
    b"debugfs",
    b"tracefs",
    b"securityfs",
    b"selinuxfs",
    b"smackfs",
    b"bpf",
    b"configfs",
    b"efivarfs",
    b"pstore",
    b"fusectl",
    b"binfmt_misc",
    b"mqueue",
    b"devtmpfs",
    b"devpts",
    b"resctrl",
    b"rpc_pipefs",
    b"nfsd",
    b"functionfs",
    b"xenfs",
    b"openpromfs",
    b"s390_hypfs",
    b"dlmfs",
    b"ocfs2_dlmfs",
    b"usbfs",
];

/// Why such a mount is hidden.
pub(super) static HOSTS_KERNEL: Reason =
    Reason::Borrowed("sandboxes may not see the host's processes, devices and kernel");

/// A mount of one of these file systems.
pub(super) struct KernelMount {
    pub(super) point: PathBuf,
    device: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct KernelMounts(Vec<KernelMount>);

impl KernelMounts {
    pub(super) fn of(table: &[u8]) -> KernelMounts {
        let own = mounts::mounts(table).filter(|mount| KERNEL.contains(&mount.kind));
        KernelMounts(own.map(|mount| KernelMount { point: mount.point(), device: number(&mount) }).collect())
    }

    /// Where they are, as far as they are hidden: not where the sandbox has its own.
    pub(super) fn hidden(&self) -> BTreeSet<PathBuf> {
        let points = self.0.iter().map(|mount| &mount.point);
        points.filter(|point| kernel_zone(point).is_none()).cloned().collect()
    }

    /// Whether a file of this device is on one of them.
    fn hold(&self, device: u64) -> bool {
        self.0.iter().any(|mount| mount.device == device)
    }
}

pub(super) fn number(mount: &Mount) -> u64 {
    let (major, minor) = mount.device;
    u64::from(major) << 32 | u64::from(minor)
}

/// What a rule on some place means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What it says.
    Ordinary,
    /// Nothing has to be done: the sandbox's own is so already.
    Own,
    /// The sandbox's own is to be hidden.
    Hide,
    /// It cannot be kept, for this reason.
    Refused(&'static str),
}

const READ_ONLY: &str = "is the sandbox's own, and read-only in every sandbox\nhelp: drop the rule";
pub(super) const OF_A_PROCESS: &str =
    "names a process of the host, but the sandbox has its own /proc\nhelp: deny /proc as a whole";
const NO_DEVICE_OF_ITS_OWN: &str =
    "is not in the sandbox's own /dev\nhelp: add a device of the host's with `files.devices`";
const OWN_DEVICE: &str =
    "is a device that every sandbox has, and everybody may write to it\nhelp: drop the rule";
const ON_THE_KERNELS: &str = "is on a file system of the host's kernel, which no sandbox can see\nhelp: drop the rule; \
     every sandbox has a /proc, a /dev and a /sys of its own";
const ROOTS_SYS: &str = "is not in the sandbox's own /sys, and as root it could show what only root may read\nhelp: drop the \
     rule, or run as an ordinary user";
const PART_OF_HIDDEN: &str = "is hidden by another rule, and a part of the sandbox's own file systems cannot be shown alone\nhelp: drop one of the two rules";
const OWN_LINK: &str = "is a link to the sandbox's own terminals\nhelp: deny /dev/pts, which it leads to";
const PRIVATE_TMP: &str = "is the sandbox's own: it is writable, and removed at exit\nhelp: drop the rule, or use `files.tmp = \"host\"` to apply the rule to the host's";
const HIDDEN_RUN: &str = "is the sandbox's own, and empty\nhelp: drop the rule, or use `files.host_run = true` to show the \
     host's, or `files.tmpfs = [\"/run\"]` for one that can be written";

/// The zone of the sandbox's own that a path is in or at, of those that stand for something of the kernel's.
fn kernel_zone(path: &Path) -> Option<(Zone, &Path)> {
    let zones = [("/proc", Zone::Proc), ("/dev", Zone::Dev), ("/sys", Zone::Sys)];
    zones.into_iter().find_map(|(top, zone)| Some((zone, path.strip_prefix(top).ok()?)))
}

/// The same, without what is the host's by the policy.
fn zone_of<'p>(files: &FilePolicy, place: &'p Path) -> Option<(Zone, &'p Path)> {
    kernel_zone(place).filter(|_| !is_shared_memory(files, place))
}

/// Whether a path is in shared memory that is the host's where a rule is about it.
pub(super) fn is_shared_memory(files: &FilePolicy, path: &Path) -> bool {
    files.host_shm && path.starts_with("/dev/shm")
}

impl Linux {
    /// What a rule means that leads to `place`, a path without links. `device` is what was found there.
    pub(super) fn meaning(
        &self,
        files: &FilePolicy,
        list: List,
        place: &Path,
        device: Option<u64>,
    ) -> Meaning {
        use List::{AllowRead, AllowWrite, DenyRead, DenyWrite};
        let tmp = files.tmp == TmpMode::Private && place == Path::new("/tmp");
        let run = !files.host_run && place == Path::new("/run");
        match (zone_of(files, place), list) {
            (Some((Zone::Proc, below)), list) => match list {
                AllowWrite => Meaning::Refused(READ_ONLY),
                DenyRead | AllowRead if of_a_process(below) => Meaning::Refused(OF_A_PROCESS),
                DenyRead => Meaning::Ordinary,
                AllowRead | DenyWrite => Meaning::Own,
            },
            (Some((Zone::Dev, below)), list) => {
                let own =
                    below.as_os_str().is_empty() || OWN_DEVICES.iter().any(|own| below == Path::new(own));
                let is_shm = below == Path::new("shm");
                match list {
                    DenyRead | DenyWrite if below == Path::new("ptmx") => Meaning::Refused(OWN_LINK),
                    DenyRead if own => Meaning::Ordinary,
                    DenyWrite if is_shm => Meaning::Hide,
                    DenyWrite if own && below != Path::new("") => Meaning::Refused(OWN_DEVICE),
                    DenyRead | DenyWrite => Meaning::Own,
                    AllowWrite if below == Path::new("") => Meaning::Refused(READ_ONLY),
                    AllowRead | AllowWrite if own => Meaning::Own,
                    AllowRead | AllowWrite => Meaning::Refused(NO_DEVICE_OF_ITS_OWN),
                }
            }
            (Some((_, below)), list) => match list {
                DenyRead => Meaning::Ordinary,
                DenyWrite => Meaning::Own,
                AllowWrite => Meaning::Refused(READ_ONLY),
                AllowRead if below == Path::new("") || shown_in_sys(below) => Meaning::Own,
                AllowRead if rustix::process::geteuid().is_root() => Meaning::Refused(ROOTS_SYS),
                AllowRead => Meaning::Ordinary,
            },
            (None, AllowRead | AllowWrite) if tmp => Meaning::Refused(PRIVATE_TMP),
            (None, AllowRead | AllowWrite) if run => Meaning::Refused(HIDDEN_RUN),
            // An empty folder that nobody can write.
            (None, DenyWrite) if tmp => Meaning::Hide,
            (None, AllowRead | AllowWrite) if device.is_some_and(|device| self.kernel.hold(device)) => {
                Meaning::Refused(ON_THE_KERNELS)
            }
            (None, _) => Meaning::Ordinary,
        }
    }
}

impl Resolver<'_> {
    /// The same for something that is to be mounted elsewhere.
    pub(super) fn admit_source(&self, reason: &str, place: &Path, device: u64) -> Result<(), ResolveError> {
        if kernel_zone(place).is_some() || self.system.kernel.hold(device) {
            return Err(unfit(reason, place, ON_THE_KERNELS));
        }
        Ok(())
    }

    /// The same for a place at which something is to be mounted.
    pub(super) fn admit_target(&self, reason: &str, place: &Path) -> Result<(), ResolveError> {
        const TAKEN: &str =
            "is the sandbox's own, and nothing can be mounted there\nhelp: choose another path";
        match kernel_zone(place) {
            // Below /dev there is room.
            Some((Zone::Dev, below)) if below != Path::new("") => Ok(()),
            Some(_) => Err(unfit(reason, place, TAKEN)),
            None => Ok(()),
        }
    }

    /// Whether the folder that the command starts in is one of the sandbox's own.
    pub(super) fn is_own(&self, place: &Path) -> bool {
        let tmp = self.files.tmp == TmpMode::Private && place == Path::new("/tmp");
        let run = !self.files.host_run && place == Path::new("/run");
        let home = self
            .said
            .get(place)
            .is_some_and(|said| matches!(said.zone, Some(Zone::Home | Zone::Closed { .. })));
        tmp || run || home || zone_of(self.files, place).is_some()
    }

    /// Hides the mounts of the kernel's file systems, wherever the host has them, and gives the sandbox a /sys of its own
    /// where one shows. To be called when all rules have been said.
    pub(super) fn own_places(&mut self, hosts_network: bool) -> Result<(), ResolveError> {
        let asked = self.system.asked_of_own.iter().any(|(place, _)| place.starts_with("/sys"));
        let shown = matches!(self.verdict(Path::new("/sys")), PathAccess::Host { .. });
        if asked || shown || self.own_root || self.files.reads == ReadModel::Open {
            self.at(Path::new("/sys")).zone = Some(Zone::Sys);
            self.fill_sys(hosts_network);
        }
        let mounts = std::mem::take(&mut self.system.kernel.0);
        for mount in &mounts {
            let own = mount.point.ancestors().any(|above| {
                let zone = self.said.get(above).and_then(|said| said.zone);
                matches!(zone, Some(Zone::Proc | Zone::Dev | Zone::Sys))
            });
            // Where another mount lies over it, it is not to be seen.
            let found = if own { None } else { locate_plain(&mount.point).unwrap_or_default() };
            if let Some(found) = found.filter(|found| found.identity.device == mount.device) {
                let said = self.at(&mount.point);
                // Whatever else is said of it.
                (said.deny_read, said.allow_read) = (Some(HOSTS_KERNEL.clone()), None);
                said.found = Some(found);
            }
        }
        self.system.kernel.0 = mounts;
        // What is hidden as a whole has no part that could be shown.
        for (place, reason) in &self.system.asked_of_own {
            if let PathAccess::Hidden(_) = self.verdict(place) {
                return Err(unfit(reason, place, PART_OF_HIDDEN));
            }
        }
        Ok(())
    }

    /// The mount table, read once.
    pub(super) fn mount_table(&self) -> Result<&[u8], ResolveError> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let path = Path::new("/proc/self/mountinfo");
        let table = mounts::table().map_err(system_error("the mounts of the host", path))?;
        Ok(self.table.get_or_init(|| table))
    }
}

pub(super) fn unfit(rule: &str, path: &Path, what: &'static str) -> ResolveError {
    ResolveError::Unfit { rule: rule.to_owned(), path: path.to_path_buf(), what }
}

/// Whether what follows `/proc` is of one process, or of whoever asks.
fn of_a_process(below: &Path) -> bool {
    let first = below.iter().next().map(std::ffi::OsStr::as_encoded_bytes);
    first.is_some_and(|first| {
        first == b"self" || first == b"thread-self" || first.iter().all(u8::is_ascii_digit)
    })
}
