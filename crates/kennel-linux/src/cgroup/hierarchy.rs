//! Which cgroup hierarchies this host has mounted, and where the caller is in each.
//!
//! Two files tell: `/proc/self/mountinfo` (which file system shows which hierarchy, from which of its
//! directories down) and `/proc/self/cgroup` (the caller's place, from the top of each hierarchy). In a
//! container the two are often cut differently, so that the caller's directory is the second minus the
//! first's root.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::controller::{Controller, ControllerSet};
use crate::mounts;
use crate::read::read_whole;

/// How this host lays out its hierarchies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One cgroup v2 hierarchy with all controllers.
    Unified,
    /// Controllers on cgroup v1, with a cgroup v2 hierarchy beside them.
    Hybrid,
    /// cgroup v1 only.
    Legacy,
    /// No cgroup file system is mounted where the caller can see it.
    None,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unified => "cgroup v2 (unified)",
            Self::Hybrid => "cgroup v1 controllers beside cgroup v2 (hybrid)",
            Self::Legacy => "cgroup v1 (legacy)",
            Self::None => "no cgroup file system",
        })
    }
}

/// The caller's place in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// Where the hierarchy is mounted.
    pub top: PathBuf,
    /// The caller's own cgroup, `top` or below it.
    pub own: PathBuf,
}

impl Seat {
    /// The caller's own cgroup and those above it, up to the mount point.
    pub fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take_while(|dir| dir.starts_with(&self.top))
    }
}

/// The hierarchies that matter to kennel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    /// The cgroup v2 hierarchy.
    pub unified: Option<Seat>,
    /// The cgroup v1 hierarchies, each with the controllers that are mounted together in it.
    pub legacy: Vec<(ControllerSet, Seat)>,
}

impl Hierarchies {
    /// Reads the two files; `/proc/self/mountinfo`, the long one, only if the caller's place is not the one
    /// of the last time.
    pub fn of_caller() -> io::Result<Arc<Self>> {
        static KNOWN: Mutex<Option<(Vec<u8>, Arc<Hierarchies>)>> = Mutex::new(None);
        let places = read_whole("/proc/self/cgroup")?;
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*known {
            Some((then, hierarchies)) if *then == places => Ok(hierarchies.clone()),
            _ => {
                let hierarchies = Arc::new(Self::from_files(&mounts::table()?, &places));
                *known = Some((places, hierarchies.clone()));
                Ok(hierarchies)
            }
        }
    }

    fn from_files(mountinfo: &[u8], places: &[u8]) -> Self {
        let places = parse_places(places);
        let mut found = Self::default();
        let mut mounts = parse_mounts(mountinfo);
        // A later mount on the same directory hides an earlier one.
        for at in (0..mounts.len()).rev() {
            if mounts[at + 1..].iter().any(|later| later.point == mounts[at].point) {
                mounts.remove(at);
            }
        }
        for mount in mounts {
            let place = places.iter().find(|place| match mount.controllers {
                None => place.unified,
                Some(controllers) => !controllers.intersection(place.controllers).is_empty(),
            });
            let Some(seat) = place.and_then(|place| mount.seat(&place.path)) else { continue };
            match mount.controllers {
                None => found.unified = found.unified.or(Some(seat)),
                Some(controllers) => {
                    // A hierarchy may be mounted twice; the first mount that shows the caller's place will
                    // do.
                    if found.legacy.iter().all(|(taken, _)| taken.intersection(controllers).is_empty()) {
                        found.legacy.push((controllers, seat));
                    }
                }
            }
        }
        found
    }

    /// The v1 hierarchy that `controller` is in.
    pub fn legacy_seat(&self, controller: Controller) -> Option<&Seat> {
        self.legacy.iter().find(|(controllers, _)| controllers.contains(controller)).map(|(_, seat)| seat)
    }

    /// The controllers that are on v1.
    pub fn on_v1(&self) -> ControllerSet {
        self.legacy.iter().fold(ControllerSet::EMPTY, |all, (set, _)| all.union(*set))
    }

    pub fn layout(&self) -> Layout {
        let limits_on_v1 = Controller::LIMITING.into_iter().any(|c| self.legacy_seat(c).is_some());
        match (&self.unified, limits_on_v1) {
            (Some(_), false) => Layout::Unified,
            (Some(_), true) => Layout::Hybrid,
            (None, true) => Layout::Legacy,
            (None, false) => Layout::None,
        }
    }
}

/// One line of `/proc/self/cgroup`.
struct Place {
    unified: bool,
    controllers: ControllerSet,
    path: PathBuf,
}

/// One cgroup mount of `/proc/self/mountinfo`.
struct Mount {
    /// `None` for cgroup v2.
    controllers: Option<ControllerSet>,
    /// Which of the hierarchy's directories is shown at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn seat(&self, place: &Path) -> Option<Seat> {
        let below = place.strip_prefix(&self.root).ok()?;
        // `/..` is how the kernel shows a place outside of the caller's cgroup namespace.
        if below.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return None;
        }
        let own = if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) };
        Some(Seat { top: self.point.clone(), own })
    }
}

fn parse_places(text: &[u8]) -> Vec<Place> {
    lines(text)
        .filter_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let (id, names, path) = (parts.next()?, std::str::from_utf8(parts.next()?).ok()?, parts.next()?);
            Some(Place {
                unified: id == b"0" && names.is_empty(),
                controllers: ControllerSet::from_names(names),
                path: path_of(path),
            })
        })
        .collect()
}

fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    mounts::mounts(text)
        .filter_map(|mount| {
            let controllers = match mount.kind {
                b"cgroup2" => None,
                b"cgroup" => {
                    let options = std::str::from_utf8(mount.options).ok()?;
                    Some(ControllerSet::from_names(options)).filter(|set| !set.is_empty())?.into()
                }
                _ => return None,
            };
            Some(Mount { controllers, root: mount.root(), point: mount.point() })
        })
        .collect()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIFIED: &str = "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
        34 25 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        37 31 0:34 / /sys/fs/cgroup/net_cls rw,relatime - cgroup cgroup rw,net_cls\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn read(mounts: &str, places: &str) -> Hierarchies {
        Hierarchies::from_files(mounts.as_bytes(), places.as_bytes())
    }

    #[test]
    fn a_unified_host_has_one_seat() {
        let host = read(UNIFIED, "0::/user.slice/user-1000.slice/session-2.scope\n");
        assert_eq!(host.layout(), Layout::Unified);
        let seat = host.unified.unwrap();
        assert_eq!(seat.own, Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
        let upwards: Vec<_> = seat.upwards().map(|dir| dir.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(upwards, ["session-2.scope", "user-1000.slice", "user.slice", "cgroup"]);
    }

    #[test]
    fn a_hybrid_host_has_a_seat_in_each_hierarchy() {
        let host = read(HYBRID, "5:net_cls:/\n4:memory:/a b\n1:cpu,cpuacct:/\n9:name=systemd:/x\n0::/\n");
        assert_eq!(host.layout(), Layout::Hybrid);
        assert_eq!(host.legacy.len(), 2);
        assert_eq!(host.legacy_seat(Controller::Memory).unwrap().own, Path::new("/sys/fs/cgroup/memory/a b"));
        assert_eq!(host.legacy_seat(Controller::Cpu), host.legacy_seat(Controller::Cpuacct));
        assert_eq!(host.legacy_seat(Controller::Pids), None);
        assert_eq!(host.unified.unwrap().own, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_container_that_sees_only_its_own_subtree_sits_at_the_top_of_it() {
        let mounts = "9 8 0:9 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let seat = read(mounts, "0::/docker/abc\n").unified.unwrap();
        assert_eq!(seat.own, seat.top);
        assert_eq!(read(mounts, "0::/docker/abc/x\n").unified.unwrap().own, Path::new("/sys/fs/cgroup/x"));
    }

    #[test]
    fn a_mount_that_another_one_covers_is_not_used() {
        let mounts = "34 25 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
            50 34 0:29 /container /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let seat = read(mounts, "0::/container\n").unified.unwrap();
        assert_eq!((seat.own, seat.top), ("/sys/fs/cgroup".into(), "/sys/fs/cgroup".into()));
        assert_eq!(read(mounts, "0::/elsewhere\n").unified, None);
    }

    #[test]
    fn a_place_outside_of_the_mount_or_of_the_namespace_is_no_seat() {
        let mounts = "9 8 0:9 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(read(mounts, "0::/docker/abcd\n").unified, None);
        assert_eq!(read(mounts, "0::/\n").unified, None);
        assert_eq!(read(UNIFIED, "0::/../other\n").unified, None);
        assert_eq!(read("", "0::/\n").layout(), Layout::None);
    }

    #[test]
    fn escaped_mount_points_are_read() {
        let mounts = "9 8 0:9 / /mnt/with\\040space\\134x rw - cgroup2 cgroup rw\n";
        assert_eq!(read(mounts, "0::/\n").unified.unwrap().top, Path::new("/mnt/with space\\x"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mounts in proptest::collection::vec(any::<u8>(), 0..400),
            places in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = Hierarchies::from_files(&mounts, &places);
        }

        #[test]
        fn damaged_files_are_read_without_panic(cut in 0usize..600, flip in 0usize..600, byte in any::<u8>()) {
            let mut mounts = HYBRID.as_bytes().to_vec();
            let at = flip % mounts.len();
            mounts[at] = byte;
            mounts.truncate(cut);
            let host = Hierarchies::from_files(&mounts, b"4:memory:/a\n1:cpu,cpuacct:/\n0::/\n");
            for (_, seat) in &host.legacy {
                prop_assert!(seat.own.starts_with(&seat.top));
            }
        }
    }
}
