//! What appears inside at another place than on the host: mounts, file systems in memory, devices.

use std::path::Path;

use kennel_policy::policy::{Missing, MountAccess, MountPoint, Precedence};
use kennel_resolve::error::{ResolveError, system_error};

use super::created::{describe_mount, describe_tmpfs};
use super::locate::locate_plain;
use super::path_rules::{PathAccess, Resolver, shown};
use super::{Kind, Location, Point, State, Zone, locate};

/// Folders of /dev that are no devices: terminals, shared memory and message queues.
const OWN_FOLDERS: &[&str] = &["/dev/pts", "/dev/ptmx", "/dev/shm", "/dev/mqueue"];

/// Why a folder is not mounted in itself.
const INTO_ITSELF: &str = "is in a mounted folder that a rule partly denies; mount it outside that folder";

impl Resolver<'_> {
    /// Host folders that appear at other places, and file systems in memory: outer ones first, so that one that is
    /// nested finds its place in the one around it.
    pub(super) fn mounts(&mut self, points: &mut Vec<Point>) -> Result<(), ResolveError> {
        let files = self.files;
        let mounts = files.mounts.iter().map(|mount| (&mount.target, Some(mount), None));
        let tmpfs = files.tmpfs.iter().map(|tmpfs| (&tmpfs.target, None, Some(tmpfs)));
        let mut all: Vec<_> = mounts.chain(tmpfs).collect();
        all.sort_by_key(|(target, ..)| *target);
        for (target, mount, tmpfs) in all {
            if let Some(mount) = mount {
                self.mount(points, mount)?;
            }
            if let Some(tmpfs) = tmpfs {
                let reason = describe_tmpfs(tmpfs);
                self.admit_target(&reason, target)?;
                let target = if tmpfs.create { self.created_target(tmpfs, &reason)? } else { target.clone() };
                self.make_room(points, &target, &reason)?;
                points.retain(|point| point.path != target);
                let state = State::Fresh(Zone::Memory { size: tmpfs.size });
                points.push(Point { path: target, state, reason: reason.into() });
            }
        }
        Ok(())
    }

    /// A host folder that appears at another place, with the denies that hold for it.
    pub(super) fn mount(&mut self, points: &mut Vec<Point>, mount: &MountPoint) -> Result<(), ResolveError> {
        let reason = describe_mount(mount);
        let found = match locate(&mount.source).map_err(system_error(&reason, &mount.source))? {
            Location::Found(found) => found,
            Location::Missing(_) if mount.missing == Missing::Skip => return Ok(()),
            // The run makes it before this.
            Location::Missing(path) if self.pending.contains(&path) => return Ok(()),
            Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
            Location::Forbidden => {
                return Err(ResolveError::Forbidden { rule: reason, path: mount.source.clone() });
            }
        };
        if found.path != mount.source
            && let Err(error) = self.refuse_planted(&reason, &mount.source, &found.path)
        {
            return if mount.missing == Missing::Skip { Ok(()) } else { Err(error) };
        }
        self.admit_source(&reason, &found.path, found.identity.device)?;
        self.admit_target(&reason, &mount.target)?;
        let target = &self.place_of_own(&mount.target, &reason)?;
        if let PathAccess::Hidden(rule) = self.verdict(&found.path) {
            return Err(ResolveError::HiddenSource { mount: reason, rule: rule.clone().into_owned() });
        }
        // It would show in itself, and what is covered only where it is known to show.
        if target.starts_with(&found.path)
            && self
                .said
                .below(&found.path)
                .any(|(_, said)| said.deny_read.is_some() || said.deny_write.is_some())
            && matches!(locate(target), Ok(Location::Found(_)))
        {
            let (path, what) = (target.clone(), INTO_ITSELF);
            return Err(ResolveError::Unfit { rule: reason, path, what });
        }
        // The nearest rule about writing decides, as it does without the mount; where there is none, the mount.
        let denied = {
            let mut denied = self
                .said
                .upwards(&found.path)
                .filter(|said| said.deny_write.is_some() || said.allow_write.is_some())
                .map(|said| said.deny_write.is_some());
            match self.files.precedence {
                Precedence::Specific => denied.next().unwrap_or(false),
                Precedence::DenyWrite => denied.any(|denied| denied),
            }
        };
        let write = mount.access == MountAccess::ReadWrite && !denied;
        self.make_room(points, target, &reason)?;
        points.retain(|point| point.path != *target);
        let mut hidden: Option<&Path> = None;
        for (path, said) in self.said.below(&found.path) {
            let Ok(below) = path.strip_prefix(&found.path) else { continue };
            // There is nothing in what is hidden already.
            if hidden.is_some_and(|hidden| path.starts_with(hidden)) {
                continue;
            }
            let inside = target.join(below);
            // What the sandbox has of its own does not come along with a folder around it.
            if let (Some(zone), Ok(Some(found))) = (said.zone, locate_plain(path))
                && found.kind == Kind::Folder
            {
                let (state, reason) = (State::Hidden { kind: Kind::Folder }, zone.reason().into());
                points.push(Point { path: inside, state, reason });
                hidden = Some(path);
            } else if let (Some(rule), Some(found)) = (&said.deny_read, &said.found) {
                let state = State::Hidden { kind: found.kind };
                points.push(Point { path: inside, state, reason: rule.clone() });
                hidden = Some(path);
            } else if let (Some(rule), Some(found), true) = (&said.deny_write, &said.found, write) {
                let state = State::Host { source: found.clone().into(), write: false };
                points.push(Point { path: inside, state, reason: rule.clone() });
            }
        }
        points.push(Point {
            path: target.clone(),
            state: State::Host { source: found.into(), write },
            reason: reason.into(),
        });
        Ok(())
    }

    /// Sees to it that a mount at `target` has a place to stand on. One that does not exist on the host cannot be
    /// made in a read-only tree, and must not be made in a writable one: the nearest folder above it is built anew,
    /// with all its entries, in memory.
    pub(super) fn make_room(
        &mut self,
        points: &mut Vec<Point>,
        target: &Path,
        rule: &str,
    ) -> Result<(), ResolveError> {
        let unfit = |what| ResolveError::Unfit { rule: rule.into(), path: target.to_path_buf(), what };
        if target == Path::new("/") {
            return Err(unfit("the root itself cannot be mounted over"));
        }
        // The run makes it before this.
        if self.pending.iter().any(|folder| target == folder) {
            return Ok(());
        }
        let nearest =
            target.ancestors().skip(1).find_map(|above| points.iter().find(|point| point.path == above));
        let writable = match nearest.map(|point| (point, &point.state)) {
            None => false,
            Some((outer, State::Host { source, .. })) if source.path != outer.path => {
                let rest = target.strip_prefix(&outer.path).unwrap_or(target);
                let place = source.path.join(rest);
                return match locate(&place).map_err(system_error(rule, &place))? {
                    Location::Found(found) if found.path == place => Ok(()),
                    Location::Found(_) => Err(unfit("leads through a symlink; name the path it points to")),
                    _ => {
                        Err(unfit("does not exist in the folder that is mounted around it; create it first"))
                    }
                };
            }
            Some((_, State::Host { write, .. })) => *write,
            Some(_) => return Ok(()),
        };
        match locate(target).map_err(system_error(rule, target))? {
            Location::Found(found) if found.path == target => return Ok(()),
            Location::Found(_) => return Err(unfit("leads through a symlink; name the path it points to")),
            _ if writable => {
                return Err(unfit(
                    "does not exist, and creating it would leave it on the host; create it first",
                ));
            }
            _ => {}
        }
        let mut folder = target.parent();
        while let Some(path) = folder.filter(|path| !path.is_dir()) {
            folder = path.parent();
        }
        let folder = folder.unwrap_or(Path::new("/")).to_path_buf();
        let entries = std::fs::read_dir(&folder).map_err(system_error(rule, &folder))?;
        let zone = if folder == Path::new("/") { Zone::Root } else { Zone::Rebuilt };
        points.retain(|point| point.path != folder);
        points.push(Point {
            path: folder.clone(),
            state: State::Fresh(zone),
            reason: rule.to_owned().into(),
        });
        for (index, entry) in entries.flatten().enumerate() {
            if index == 4096 {
                return Err(unfit("does not exist, and its folder has too many entries to be rebuilt"));
            }
            let path = entry.path();
            if let Ok(points_to) = std::fs::read_link(&path) {
                self.links.push((path, points_to));
            } else if points.iter().all(|point| point.path != path)
                && let Ok(Location::Found(found)) = locate(&path)
            {
                let state = State::Host { source: found.into(), write: false };
                points.push(Point { path, state, reason: "everything is readable by default".into() });
            }
        }
        Ok(())
    }

    pub(super) fn devices(&mut self, points: &mut Vec<Point>) -> Result<(), ResolveError> {
        for rule in &self.files.devices {
            let path = rule.pattern.as_path();
            let reason = format!("device {} ({})", shown(path), rule.origin);
            let location = locate(path).map_err(system_error(&reason, path))?;
            if let Location::Found(found) = &location
                && found.path != path
                && let Err(error) = self.refuse_planted(&reason, path, &found.path)
            {
                if rule.lenient {
                    continue;
                }
                return Err(error);
            }
            match location {
                Location::Found(found) if found.path == Path::new("/dev") => {
                    let (path, what) = (found.path, "all devices at once; name those that are needed");
                    return Err(ResolveError::Unfit { rule: reason, path, what });
                }
                Location::Found(found) if OWN_FOLDERS.iter().any(|own| found.path.starts_with(own)) => {
                    let (path, what) =
                        (found.path, "is the sandbox's own, not a device\nhelp: drop the rule");
                    return Err(ResolveError::Unfit { rule: reason, path, what });
                }
                Location::Found(found) if found.path.starts_with("/dev") => points.push(Point {
                    path: path.to_path_buf(),
                    state: State::Device(found.into()),
                    reason: reason.into(),
                }),
                Location::Found(found) if rule.missing == Missing::Error => {
                    return Err(ResolveError::Unfit {
                        rule: reason,
                        path: found.path,
                        what: "not below /dev",
                    });
                }
                _ if rule.missing != Missing::Error => {}
                _ => return Err(ResolveError::Missing { rule: reason, path: path.to_path_buf() }),
            }
        }
        Ok(())
    }
}
