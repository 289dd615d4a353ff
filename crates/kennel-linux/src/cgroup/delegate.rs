//! Where the caller may make cgroups.
//!
//! In the v2 hierarchy three rules of the kernel decide. A cgroup passes controllers on to those below it
//! only if it holds no process itself (the root excepted). A process is moved only by somebody who may write
//! to the `cgroup.procs` of the closest cgroup above both its old and its new place. And what is above a
//! delegated subtree cannot be written. So a sandbox's cgroup goes below the closest cgroup from the caller's
//! own upwards that is writable and that passes on, or can be told to pass on, the controllers that are
//! needed; that is usually the parent of the caller's own.
//!
//! One custom is added: where systemd runs, a cgroup belongs to systemd unless it is marked as delegated,
//! whatever its permissions. v1 has none of these rules: any directory that the caller can write to will do.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::controller::{Controller, ControllerSet};
use super::dir::{Dir, is_refusal};
use super::error::{CgroupError, Lack};
use super::hierarchy::{Hierarchies, Seat};
use super::scope::Manager;

/// Where the processes go that were in a cgroup when kennel had to make it pass controllers on.
const NEIGHBOURS: &str = "kennel-neighbours";

/// What an administrator makes below a v1 cgroup for a user who may not write to that one.
pub(super) const GRANTED: &str = "kennel";

/// A place in the v2 hierarchy for sandboxes' cgroups.
#[derive(Debug)]
pub(super) enum Base {
    /// A directory, and the controllers that it passes on among those that were asked for.
    Directory(Dir, ControllerSet),
    /// The user's systemd, which makes a directory when there is a process to put into it.
    Systemd(Manager, ControllerSet),
}

/// What a cgroup is good for as a parent of sandboxes'.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It passes on `controllers`, once `enable` are turned on.
    Ready { controllers: ControllerSet, enable: ControllerSet },
    /// It would pass on `controllers`, but for the processes in it.
    Crowded { controllers: ControllerSet },
    /// These controllers do not reach it.
    Lacking(ControllerSet),
    /// The caller may not write to it.
    Closed,
}

/// Judges a v2 cgroup without changing anything.
pub(super) fn judge(dir: &Dir, required: ControllerSet, wanted: ControllerSet) -> io::Result<Standing> {
    if !dir.allows_writing(".") || !dir.allows_writing("cgroup.procs") {
        return Ok(Standing::Closed);
    }
    let offered = ControllerSet::from_names(&dir.read("cgroup.controllers")?);
    if !offered.covers(required) {
        return Ok(Standing::Lacking(required.without(offered)));
    }
    let passed_on = ControllerSet::from_names(&dir.read("cgroup.subtree_control")?);
    let need = required.union(wanted.intersection(offered));
    if passed_on.covers(need) {
        return Ok(Standing::Ready { controllers: need, enable: ControllerSet::EMPTY });
    }
    if dir.allows_writing("cgroup.subtree_control") && (is_root(dir) || dir.processes()?.is_empty()) {
        return Ok(Standing::Ready { controllers: need, enable: need.without(passed_on) });
    }
    if passed_on.covers(required) {
        return Ok(Standing::Ready {
            controllers: need.intersection(passed_on),
            enable: ControllerSet::EMPTY,
        });
    }
    Ok(if dir.allows_writing("cgroup.subtree_control") {
        Standing::Crowded { controllers: need }
    } else {
        Standing::Closed
    })
}

/// The root of a hierarchy is the one cgroup without this file.
fn is_root(dir: &Dir) -> bool {
    !dir.has("cgroup.type")
}

/// The cgroups that kennel may consider as parents, closest first.
pub(super) fn candidates(seat: &Seat) -> Vec<&Path> {
    if !systemd_runs() {
        return seat.upwards().collect();
    }
    let mut within = Vec::new();
    for path in seat.upwards() {
        within.push(path);
        // `user@1000.service` is delegated too, but to the user's systemd; one asks that for a scope.
        let to_systemd = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("user@"));
        if is_marked_delegated(path) && !to_systemd {
            return within;
        }
    }
    // An administrator's own top level, as container engines use it too.
    if rustix::process::geteuid().is_root() { vec![&seat.top] } else { Vec::new() }
}

fn systemd_runs() -> bool {
    rustix::fs::access("/run/systemd/system", rustix::fs::Access::EXISTS).is_ok()
}

/// systemd marks what it delegates by an extended attribute: `trusted.delegate` (since 244), which only root
/// can read, and `user.delegate` (since 251).
fn is_marked_delegated(path: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].into_iter().any(|name| {
        let mut value = [0u8; 4];
        rustix::fs::getxattr(path, name, &mut value).is_ok_and(|length| value[..length].starts_with(b"1"))
    })
}

/// A place in the v2 hierarchy as it was found, before anything is changed.
#[derive(Debug)]
pub(super) enum Place {
    /// A directory that passes on `controllers`, once `enable` are turned on.
    Directory { dir: Dir, controllers: ControllerSet, enable: ControllerSet },
    /// The caller's own cgroup, which passes on `controllers` once the processes in it are elsewhere.
    Crowded { dir: Dir, controllers: ControllerSet },
    /// The user's systemd, which has `controllers` to give.
    Systemd { manager: Manager, controllers: ControllerSet },
}

/// Finds a place in the v2 hierarchy from which all `required` controllers can reach a new cgroup, and those
/// of `wanted` that can be had.
pub(super) fn find_unified(
    seat: &Seat,
    required: ControllerSet,
    wanted: ControllerSet,
) -> Result<Place, CgroupError> {
    let mut crowded = None;
    let mut obstacles = Vec::new();
    for path in candidates(seat) {
        let failed = |error| CgroupError::system("looking for a cgroup to use", path, error);
        let dir = Dir::open(path).map_err(failed)?;
        match judge(&dir, required, wanted).map_err(failed)? {
            Standing::Ready { controllers, enable } => {
                return Ok(Place::Directory { dir, controllers, enable });
            }
            // Only the caller's own cgroup is ever cleared: what is in one above it is not the caller's
            // business.
            Standing::Crowded { controllers } if path == seat.own => {
                crowded = Some(Place::Crowded { dir, controllers });
            }
            Standing::Crowded { .. } => {}
            standing @ Standing::Lacking(_) => obstacles.push((path, standing)),
            Standing::Closed => {
                obstacles.push((path, Standing::Closed));
                // Nothing above a closed door is the caller's either.
                break;
            }
        }
    }
    if let Some(place) = crowded {
        return Ok(place);
    }
    if !systemd_runs() || rustix::process::geteuid().is_root() {
        return Err(no_unified_place(seat, required, &obstacles));
    }
    let manager = Manager::connect().map_err(|error| out_of_reach(required, error))?;
    let offered = manager.controllers(seat).map_err(|error| out_of_reach(required, error))?;
    let missing = required.without(offered);
    if missing.is_empty() {
        return Ok(Place::Systemd { manager, controllers: required.union(wanted.intersection(offered)) });
    }
    Err(CgroupError::Missing(missing.iter().map(|c| not_delegated_to_systemd(c, manager.bus())).collect()))
}

/// The writable v2 cgroup that passes on most of `wanted` as it is, closest first, and what it passes on.
pub(super) fn find_as_it_is(seat: &Seat, wanted: ControllerSet) -> Option<(Dir, ControllerSet)> {
    let mut best: Option<(Dir, ControllerSet)> = None;
    for path in candidates(seat) {
        let dir = Dir::open(path).ok()?;
        let Ok(Standing::Ready { controllers, enable }) = judge(&dir, ControllerSet::EMPTY, wanted) else {
            // Nothing above a closed door is the caller's either.
            break;
        };
        let passed_on = controllers.without(enable);
        if passed_on.covers(wanted) {
            return Some((dir, passed_on));
        }
        if best.as_ref().is_none_or(|(_, found)| !found.covers(passed_on)) {
            best = Some((dir, passed_on));
        }
    }
    best
}

/// Makes a place ready for sandboxes' cgroups.
pub(super) fn prepare(place: Place) -> Result<Base, CgroupError> {
    match place {
        Place::Systemd { manager, controllers } => Ok(Base::Systemd(manager, controllers)),
        Place::Crowded { dir, controllers } => {
            clear(&dir, controllers)?;
            Ok(Base::Directory(dir, controllers))
        }
        Place::Directory { dir, controllers, enable } => {
            turn_on(&dir, enable).map_err(|error| {
                CgroupError::system("enabling controllers", dir.file("cgroup.subtree_control"), error)
            })?;
            Ok(Base::Directory(dir, controllers))
        }
    }
}

pub(super) fn turn_on(dir: &Dir, controllers: ControllerSet) -> io::Result<()> {
    if controllers.is_empty() {
        return Ok(());
    }
    let request: Vec<String> = controllers.iter().map(|controller| format!("+{controller}")).collect();
    dir.write("cgroup.subtree_control", &request.join(" "))
}

/// Moves all processes of a cgroup that was delegated to the caller, itself among them, into one below it, so
/// that the cgroup can pass controllers on. In a container this is its own cgroup, with everything that runs
/// in it.
fn clear(dir: &Dir, controllers: ControllerSet) -> Result<(), CgroupError> {
    let failed =
        |error| CgroupError::system("making room for the sandbox's cgroup", dir.file(NEIGHBOURS), error);
    let neighbours = match dir.make(NEIGHBOURS) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.child(NEIGHBOURS),
        other => other,
    }
    .map_err(failed)?;
    // Each round moves what was there at its start; a fork in the middle of one needs another.
    for _ in 0..16 {
        for pid in dir.processes().map_err(failed)? {
            match neighbours.write("cgroup.procs", &pid.to_string()) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                other => other.map_err(failed)?,
            }
        }
        match turn_on(dir, controllers) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {}
            other => {
                return other.map_err(|error| {
                    CgroupError::system("enabling controllers", dir.file("cgroup.subtree_control"), error)
                });
            }
        }
    }
    Err(failed(io::ErrorKind::ResourceBusy.into()))
}

/// A systemd that cannot be asked, told as the lack of what it would have been asked for.
fn out_of_reach(required: ControllerSet, error: CgroupError) -> CgroupError {
    if required.is_empty() {
        return error;
    }
    let (why, remedy) = (error.to_string(), error.help());
    let lack = |controller| Lack { controller, why: why.clone(), remedy: remedy.clone() };
    CgroupError::Missing(required.iter().map(lack).collect())
}

fn not_delegated_to_systemd(controller: Controller, bus: &str) -> Lack {
    Lack {
        controller,
        why: format!("not delegated to the user's systemd at {bus}"),
        remedy: "as root, put `[Service]` and `Delegate=cpu memory pids` into \
                 /etc/systemd/system/user@.service.d/delegate.conf, run `systemctl daemon-reload`, and log in again"
            .to_owned(),
    }
}

fn no_unified_place(seat: &Seat, required: ControllerSet, obstacles: &[(&Path, Standing)]) -> CgroupError {
    let closed = obstacles.iter().find(|(_, standing)| *standing == Standing::Closed).map(|(path, _)| *path);
    let at = closed.unwrap_or(&seat.own).display();
    if required.is_empty() {
        return CgroupError::NoPlace {
            place: at.to_string(),
            why: "not writable".to_owned(),
            help: open_a_unified_place(&seat.own),
        };
    }
    let lacks = required.iter().map(|controller| {
        let absent = obstacles.iter().find_map(|(path, standing)| match standing {
            Standing::Lacking(missing) if missing.contains(controller) => Some(*path),
            _ => None,
        });
        match (closed, absent) {
            (None, Some(path)) => Lack {
                controller,
                why: format!("{}: not in cgroup.controllers", path.display()),
                remedy: format!(
                    "enable it in the parent cgroup (`echo +{controller} > {}/cgroup.subtree_control`, as root), or boot with it \
                     (some systems need the kernel parameter `cgroup_enable={controller}`)",
                    seat.top.display()
                ),
            },
            _ => Lack { controller, why: format!("{at}: not writable"), remedy: open_a_unified_place(&seat.own) },
        }
    });
    CgroupError::Missing(lacks.collect())
}

fn open_a_unified_place(own: &Path) -> String {
    let uid = rustix::process::geteuid().as_raw();
    format!(
        "start kennel in a cgroup that is delegated to user {uid} (`systemd-run --user --scope -p Delegate=yes …`; in a \
         container, {} has to be writable)",
        own.display()
    )
}

/// The parents to try in a v1 hierarchy, best first: the caller's own cgroup, so that limits around it keep
/// holding, then what an administrator has made for the caller.
pub(super) fn legacy_parents(seat: &Seat) -> impl Iterator<Item = PathBuf> {
    let granted = [seat.own.join(GRANTED), seat.top.join(GRANTED)];
    let distinct = granted[0] != granted[1];
    let [near, far] = granted;
    [Some(seat.own.clone()), Some(near), distinct.then_some(far)].into_iter().flatten()
}

/// What is missing on v1, with one remedy for all of it.
pub(super) fn legacy_lacks(
    hierarchies: &Hierarchies,
    missing: &[(Controller, Option<io::Error>)],
) -> Vec<Lack> {
    let refused: Vec<String> = missing
        .iter()
        .filter(|(_, error)| error.as_ref().is_some_and(is_refusal))
        .filter_map(|(controller, _)| hierarchies.legacy_seat(*controller))
        .map(|seat| seat.own.join(GRANTED).display().to_string())
        .collect();
    let uid = rustix::process::geteuid().as_raw();
    let grant = format!("as root: install -d -o {uid} {}", refused.join(" "));
    missing
        .iter()
        .map(|(controller, error)| match (hierarchies.legacy_seat(*controller), error) {
            (Some(seat), Some(error)) => Lack {
                controller: *controller,
                why: format!("{}: {error}", seat.own.display()),
                remedy: if is_refusal(error) {
                    grant.clone()
                } else {
                    "see docs/limits.md for what limits require from the host".to_owned()
                },
            },
            _ => Lack {
                controller: *controller,
                why: "not mounted on this host".to_owned(),
                remedy: format!(
                    "as root: mkdir -p /sys/fs/cgroup/{controller} && mount -t cgroup -o {controller} cgroup \
                     /sys/fs/cgroup/{controller}; or boot with the unified hierarchy"
                ),
            },
        })
        .collect()
}
