//! From what the rules say to points: the paths at which what the sandbox may do changes.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use kennel_resolve::error::{ResolveError, system_error};

use super::path_rules::{PathAccess, Resolver};
use super::special::is_shared_memory;
use super::{Point, Reason, State, Zone, locate};

impl Resolver<'_> {
    /// One point for each path at which the verdict differs from that of the folder above.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (path, said) in self.said.iter() {
            let verdict = self.verdict(path);
            let above = path.parent().map(|above| self.verdict(above));
            let same = match (&verdict, &above) {
                (PathAccess::Hidden(_), Some(PathAccess::Hidden(_))) => true,
                // What a fresh zone does not have needs no hiding; /dev and /proc have some of it.
                (PathAccess::Hidden(_), Some(PathAccess::Fresh(zone))) => {
                    !matches!(zone, Zone::Dev | Zone::Proc)
                }
                (PathAccess::Host { write: a, .. }, Some(PathAccess::Host { write: b, .. })) => a == b,
                (PathAccess::Fresh(a), Some(PathAccess::Fresh(b))) => a == b,
                _ => false,
            };
            let under = path.parent().and_then(|above| self.said.upwards(above).find_map(|said| said.zone));
            let made_up =
                matches!(under, Some(Zone::Dev | Zone::Proc)) && !is_shared_memory(self.files, path);
            // These two are made whatever hides them: one holds what hides the rest, the other tells of mounts.
            let needed = matches!(said.zone, Some(Zone::Dev | Zone::Proc));
            let gone =
                matches!((&verdict, &above), (PathAccess::Hidden(_), Some(PathAccess::Fresh(_)))) && !needed;
            if (same && (said.zone.is_none() || gone))
                || (made_up && !matches!(verdict, PathAccess::Hidden(_)))
            {
                continue;
            }
            let (state, reason) = match (verdict, &said.found) {
                (PathAccess::Fresh(zone), _) => (State::Fresh(zone), zone.reason().into()),
                (PathAccess::Hidden(rule), Some(found)) => (State::Hidden { kind: found.kind }, rule.clone()),
                (PathAccess::Host { write, reason }, Some(found)) => {
                    (State::Host { source: found.clone().into(), write }, reason.clone())
                }
                // A zone that a rule above opened again: it simply stays what the rule makes of it.
                (_, None) => continue,
            };
            points.push(Point { path: path.to_path_buf(), state, reason });
        }
        points
    }
}

/// Keeps the folders between a writable place and what is protected below it from being moved away: a mount point
/// cannot be renamed. Otherwise `mv .git x; mkdir .git` would leave the protected path free to be made anew.
pub(super) fn pin(points: &mut Vec<Point>) -> Result<(), ResolveError> {
    // By their text, which is quicker to compare than components.
    let writable: HashMap<&OsStr, (&Path, bool)> = points
        .iter()
        .map(|point| match &point.state {
            State::Host { source, write } => (point.path.as_os_str(), (source.path.as_path(), *write)),
            // What is made anew has nothing of the host's that could be moved, whatever is around it.
            _ => (point.path.as_os_str(), (point.path.as_path(), false)),
        })
        .collect();
    let taken: HashSet<&OsStr> = points.iter().map(|point| point.path.as_os_str()).collect();
    let mut pins = Vec::new();
    let mut pinned: HashSet<&OsStr> = HashSet::new();
    for point in points.iter() {
        let protected = match &point.state {
            State::Hidden { .. } => true,
            State::Host { write, .. } => !write,
            _ => false,
        };
        // What is in a folder that is pinned is held by the same pins.
        let held = point.path.parent().is_some_and(|above| pinned.contains(above.as_os_str()));
        if !protected || held {
            continue;
        }
        let mut above = point.path.ancestors().skip(1);
        let Some((top, (host_top, true))) =
            above.find_map(|above| Some((above, *writable.get(above.as_os_str())?)))
        else {
            continue;
        };
        for between in point.path.ancestors().skip(1) {
            if between.as_os_str() == top.as_os_str() || pinned.contains(between.as_os_str()) {
                break;
            }
            if taken.contains(between.as_os_str()) {
                continue;
            }
            pinned.insert(between.as_os_str());
            let host = host_top.join(between.strip_prefix(top).unwrap_or(between));
            let found = locate::locate_plain(&host)
                .map_err(|error| system_error(&pin_reason(point), &host)(error))?;
            let Some(found) = found else { continue };
            let state = State::Host { source: found.into(), write: true };
            pins.push(Point { path: between.to_path_buf(), state, reason: pin_reason(point) });
        }
    }
    points.extend(pins);
    Ok(())
}

fn pin_reason(point: &Point) -> Reason {
    format!("keeps it in its place: {}", point.reason).into()
}
