//! From what the rules say to points: the paths at which what the sandbox may do changes.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use kennel_resolve::precedence::PathAccess;

use super::{Access, Denial, DeniedPattern, PathRules, Point, Resolver, Zone};

fn access_of(verdict: &PathAccess<'_, Zone>) -> Access {
    match verdict {
        PathAccess::Hidden(_) | PathAccess::Fresh(_) => Access::None,
        PathAccess::Host { write: false, .. } => Access::Read,
        PathAccess::Host { write: true, .. } => Access::Write,
    }
}

/// What a rule says of a device: all that is denied below /dev is denied by its name, and nothing else is said.
fn device(path: &Path, said: &PathRules) -> Option<Point> {
    let (access, reason) = match (&said.deny_read, &said.deny_write) {
        _ if !path.starts_with("/dev") || path == Path::new("/dev") => return None,
        (Some(reason), _) => (Access::None, reason),
        (None, Some(reason)) => (Access::Read, reason),
        (None, None) => return None,
    };
    Some(Point { path: path.to_path_buf(), access, nearest: None, reason: reason.clone() })
}

impl Resolver<'_> {
    /// One point for each path at which the verdict differs from that of the folder above.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (path, said) in self.said.iter() {
            if let Some(point) = device(path, said) {
                points.push(point);
                continue;
            }
            let verdict = self.verdict(path);
            let access = access_of(&verdict);
            let above = path.parent().map(|above| access_of(&self.verdict(above)));
            // What a glob denies by its name is opened by its name.
            let glob = |glob: &DeniedPattern| path.ancestors().any(|above| glob.pattern.matches(above));
            let opens = access != Access::None && self.patterns.iter().any(glob);
            if above == Some(access) && !opens {
                continue;
            }
            let reason = match verdict {
                PathAccess::Hidden(rule) => rule.clone(),
                PathAccess::Fresh(zone) => zone.reason().into(),
                PathAccess::Host { reason, .. } => reason.clone(),
            };
            let there = said.found.is_some() || said.zone.is_some();
            let nearest = if there { None } else { Some(self.nearest(path)).filter(|there| there != path) };
            points.push(Point { path: path.to_path_buf(), access, nearest, reason });
        }
        points
    }

    /// A link on the way to something denied that the command could replace stays as it is.
    pub(super) fn hold_links(&self, points: &mut Vec<Point>) {
        let mut held = HashSet::new();
        for link in self.loose.iter().filter(|loose| loose.link) {
            let Some(folder) = link.path.parent() else { continue };
            if self.writes(folder) && held.insert(&link.path) {
                points.push(Point {
                    path: link.path.clone(),
                    access: Access::Read,
                    nearest: None,
                    reason: format!("holds the link: {}", link.rule).into(),
                });
            }
        }
    }

    /// The first folder that does not exist on the way to each denied name that the command could otherwise make: a prepared
    /// one could be moved there, with the denied name in it, and Seatbelt sees the folder's name alone.
    pub(super) fn missing_ancestors(&self, points: &[Point]) -> BTreeSet<PathBuf> {
        let names = points.iter().filter_map(|point| Some((&point.path, point.nearest.as_ref()?)));
        let globs = self.patterns.iter().filter(|glob| glob.denies != Denial::Reading);
        let names = names.chain(globs.map(|glob| (&glob.inside, &glob.nearest)));
        let first = names.filter_map(|(path, nearest)| {
            let first = nearest.join(path.strip_prefix(nearest).ok()?.iter().next()?);
            (first != *path && self.writes(&first)).then_some(first)
        });
        first.collect()
    }
}
