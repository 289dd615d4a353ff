//! Names that stay hidden or kept for the whole run, whatever the host puts there meanwhile.
//!
//! A mount covers the file that was found, and the kernel takes it off when the host replaces that file. So the guard
//! watches the names; this is where it learns which.

use std::path::Path;

use kennel_init::plan::{Cover, Identity};
use kennel_policy::policy::ReadModel;
use kennel_resolve::resolver::Linked;

use super::guard_rules::{CoveredName, Finding};
use super::locate::{self, locate};
use super::path_rules::{List, Resolver, UnmountableRule};
use super::{Found, Kind, Location, Point, State, Zone};

/// The names that mounts cover.
#[derive(Default)]
pub(super) struct Names {
    /// All of them, parents before children.
    pub(super) covered: Vec<CoveredName>,
    /// Those in what can be written.
    pub(super) standing: Vec<Finding>,
}

impl Resolver<'_> {
    /// What mounts cover of the host's own tree. What stands in a tree that kennel makes itself shows the file that was
    /// mounted, whatever becomes of its name. `points` has parents before children.
    pub(super) fn names(&self, points: &[Point]) -> Names {
        let mut names = Names::default();
        let mut above: Vec<&Point> = Vec::new();
        for point in points {
            while above.pop_if(|last| !point.path.starts_with(&last.path)).is_some() {}
            if let Some((cover, writable)) = self.cover(point, above.last().copied()) {
                let shows = |point: &&&Point| matches!(point.state, State::Host { .. } | State::Layer(_));
                let mounted = above.iter().rev().find(shows).and_then(|above| moved(above));
                self.add_name(&mut names, point, cover, writable, mounted);
            }
            above.push(point);
        }
        let writes = points.iter().any(|point| matches!(point.state, State::Host { write: true, .. }));
        let matter = self.linked.iter().filter(|rule| writes || rule.list == List::DenyRead);
        // The same path may lead to something else in a root of its own.
        let matter = matter.filter(|rule| !self.own_root || leads_to_shown(points, &rule.path));
        names.covered.extend(matter.map(|rule| linked(rule, points, self.files.reads)));
        names
    }

    /// How a point covers a name of the host's, and whether the folder around it can be written.
    fn cover(&self, point: &Point, around: Option<&Point>) -> Option<(Cover, bool)> {
        let writable = match around.map(|around| &around.state) {
            None if self.files.reads == ReadModel::Open => false,
            Some(State::Host { write, .. }) => *write,
            _ => return None,
        };
        match &point.state {
            // No rule hides it, and a mount point cannot be replaced.
            State::Hidden { .. } if point.hides_the_kernel() => None,
            State::Hidden { .. } => Some((Cover::Hide, writable)),
            // The other text is of the file that was there; a new one is not shown.
            State::Masked { .. } => Some((Cover::Hide, writable)),
            // What the host puts there would show instead.
            State::Fresh(Zone::Memory { .. } | Zone::Home | Zone::Closed { .. }) => {
                Some((Cover::Hide, writable))
            }
            State::Host { write: false, .. } if writable => Some((Cover::Keep, writable)),
            State::Host { write: true, .. } if writable => Some((Cover::Hold, writable)),
            _ => None,
        }
    }

    fn add_name(
        &self,
        names: &mut Names,
        point: &Point,
        cover: Cover,
        writable: bool,
        mounted: Option<(&Path, &Path)>,
    ) {
        let path = match mounted {
            None => point.path.clone(),
            Some((source, target)) => source.join(point.path.strip_prefix(target).unwrap_or(Path::new(""))),
        };
        let follow = match &point.state {
            // Something of the host's that is mounted there, and is not what the name leads to.
            State::Host { source, .. } if source.path != path => return,
            // What holds a link in its place is on the link itself.
            State::Host { source, .. } => source.kind != Kind::Link,
            _ => true,
        };
        if writable && cover != Cover::Hold {
            names.standing.push(Finding { path: path.clone(), rule: point.reason.clone() });
        }
        let mounted = mounted.map(|(source, target)| (source.to_path_buf(), target.to_path_buf()));
        let (planned, rule) = (planned(point), point.reason.clone());
        names.covered.push(CoveredName {
            path,
            follow,
            mounted,
            cover,
            planned,
            leads: false,
            shown: None,
            rule,
        });
    }

    /// Denied paths that are not there, and that the host may make: those that would show inside, at each place where they
    /// would.
    pub(super) fn absent_names<'a>(
        &'a self,
        points: &'a [Point],
        absent: &[&'a UnmountableRule],
    ) -> impl Iterator<Item = CoveredName> {
        let mut names = Vec::new();
        let moved: Vec<(&Path, &Path)> = points.iter().filter_map(moved).collect();
        for loose in absent.iter().filter(|loose| loose.list == List::DenyRead) {
            let path = &loose.path;
            let elsewhere = moved.iter().filter_map(|(source, target)| {
                let rest = path.strip_prefix(source).ok()?;
                Some((target.join(rest), Some((source.to_path_buf(), target.to_path_buf()))))
            });
            for (inside, mounted) in std::iter::once((path.clone(), None)).chain(elsewhere) {
                if shows_host(points, path, &inside, self.files.reads) {
                    let (path, rule) = (path.clone(), loose.rule.clone());
                    let (cover, planned) = (Cover::Hide, None);
                    let (follow, leads, shown) = (true, false, None);
                    names.push(CoveredName { path, follow, mounted, cover, planned, leads, shown, rule });
                }
            }
        }
        names.into_iter()
    }
}

/// A rule that leads through links, by the path that was written.
fn linked(Linked { path, list, rule }: &Linked, points: &[Point], reads: ReadModel) -> CoveredName {
    let cover = if *list == List::DenyRead { Cover::Hide } else { Cover::Keep };
    let found = match locate(path) {
        Ok(Location::Found(found)) => Some(found),
        _ => None,
    };
    // Another rule may have decided about what it leads to.
    let planned = found.as_ref().and_then(|found| point_at(points, &found.path)).and_then(planned);
    let is_shown =
        |found: &&Found| cover == Cover::Hide && shows_host(points, &found.path, &found.path, reads);
    let shown = found.as_ref().filter(is_shown).map(locate::identity);
    let (path, rule) = (path.clone(), rule.clone());
    CoveredName { path, follow: true, mounted: None, cover, planned, leads: true, shown, rule }
}

/// The file that a mount shows at a point.
fn planned(point: &Point) -> Option<Identity> {
    match &point.state {
        State::Host { source, .. } => Some(source.identity),
        _ => None,
    }
}

fn point_at<'a>(points: &'a [Point], path: &Path) -> Option<&'a Point> {
    let found = points.binary_search_by(|point| {
        kennel_resolve::precedence::key(&point.path).cmp(&kennel_resolve::precedence::key(path))
    });
    found.ok().map(|at| &points[at])
}

/// Where a folder of the host's shows, if that is not its own path.
fn moved(point: &Point) -> Option<(&Path, &Path)> {
    match &point.state {
        State::Host { source, .. } | State::Layer(source) if source.path != point.path => {
            Some((&source.path, &point.path))
        }
        _ => None,
    }
}

/// Whether a path of the host's leads to what shows at the host's own path.
fn leads_to_shown(points: &[Point], path: &Path) -> bool {
    let place = match locate(path) {
        Ok(Location::Found(Found { path, .. }) | Location::Missing(path)) => path,
        _ => return false,
    };
    shows_host(points, &place, &place, ReadModel::Listed)
}

/// Whether what the host makes at `path` would show at `inside`.
fn shows_host(points: &[Point], path: &Path, inside: &Path, reads: ReadModel) -> bool {
    match inside.ancestors().find_map(|above| Some((above, &point_at(points, above)?.state))) {
        None => reads == ReadModel::Open && inside == path,
        Some((above, State::Host { source, .. } | State::Layer(source))) => {
            inside.strip_prefix(above).is_ok_and(|rest| source.path.join(rest) == path)
        }
        Some(_) => false,
    }
}
