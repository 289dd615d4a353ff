//! Rules that no mount keeps: links that could be replaced, denied paths that do not exist, unix sockets by path.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_init::plan::Identity;
use kennel_policy::policy::{Missing, PathRule, Policy, UnixSockets};
use kennel_resolve::error::{ResolveError, system_error};
use rustix::fs::FileType;

use super::guard_rules::{AllowedSocket, Anchor, Finding, Rules, ShownInside, Sockets};
use super::locate::{self, FoundAgain, locate, locate_below, locate_link};
use super::names::Names;
use super::path_rules::{List, Resolver, UnmountableRule};
use super::special::number;
use super::walk::{self, Search, Seen, What};
use super::{Found, Kind, Location, Point, Source, State, is_link};
use crate::mounts;

/// A listed socket, found or not.
pub(super) struct Listed {
    path: PathBuf,
    identity: Option<Identity>,
    rule: String,
}

impl<'a> Resolver<'a> {
    /// A denied link that the sandbox could replace is held in its place by a mount on the link itself: it leads where
    /// it leads, and cannot be removed.
    pub(super) fn hold_links(&self, points: &mut Vec<Point>) -> Result<(), ResolveError> {
        let mut held = BTreeSet::new();
        for UnmountableRule { path, rule, .. } in self.loose.iter().filter(|loose| loose.link) {
            let Some(folder) = path.parent() else { continue };
            if !self.writes(folder) || !held.insert(path) {
                continue;
            }
            let found = locate_link(path).map_err(system_error(rule, path))?;
            let source = Source { path: path.clone(), kind: Kind::Link, identity: locate::identity(&found) };
            let state = State::Host { source, write: false };
            points.push(Point {
                path: path.clone(),
                state,
                reason: format!("holds the link: {rule}").into(),
            });
        }
        Ok(())
    }

    /// Looks for the listed sockets, and has each show inside where it would be hidden: the host's /run and /tmp are.
    pub(super) fn sockets(&mut self, policy: &'a Policy) -> Result<Option<Vec<Listed>>, ResolveError> {
        if policy.network.unix_sockets != UnixSockets::Listed {
            return Ok(None);
        }
        let (globs, names): (Vec<&PathRule>, Vec<&PathRule>) =
            policy.network.allow_unix_sockets.iter().partition(|rule| rule.pattern.is_glob());
        let mut listed = Vec::new();
        for rule in names {
            let (path, reason) = (rule.pattern.as_path(), describe(rule));
            if !rule.follow_link && is_link(path) {
                continue;
            }
            let location = locate(path).map_err(system_error(&reason, path))?;
            if let Location::Found(Found { path: place, .. }) | Location::Missing(place) = &location
                && place != path
                && let Err(error) = self.refuse_planted(&reason, path, place)
            {
                if rule.lenient {
                    continue;
                }
                return Err(error);
            }
            match location {
                Location::Found(found) => {
                    if !is_socket(&found.path) {
                        let path = found.path;
                        return Err(ResolveError::Unfit { rule: reason, path, what: "not a socket" });
                    }
                    self.links.extend(locate::links_on_the_way(path));
                    listed.push(self.shown(found, reason));
                }
                // A daemon that starts later.
                Location::Missing(path) if rule.missing == Missing::Skip => {
                    listed.push(Listed { path, identity: None, rule: reason });
                }
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden if rule.missing == Missing::Skip => {}
                Location::Forbidden => {
                    return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() });
                }
            }
        }
        if !globs.is_empty() {
            let (mut placed, mut folders) = (Vec::new(), HashMap::new());
            for rule in globs {
                let pattern =
                    self.placed(rule, Cow::Borrowed(&rule.pattern), false, || describe(rule), &mut folders)?;
                placed.extend(pattern.map(|pattern| (rule, pattern)));
            }
            let patterns: Vec<_> = placed.iter().map(|(_, pattern)| &**pattern).collect();
            for Seen { path, what } in walk::walk(&Search::of(&patterns))?.seen {
                let What::Match(index) = what else { continue };
                let ((rule, pattern), path) = (&placed[index], path);
                let reason = describe(rule);
                let found = locate_below(pattern.literal_prefix(), &path);
                if let FoundAgain::Found(found) = found.map_err(system_error(&reason, &path))?
                    && is_socket(&found.path)
                {
                    listed.push(self.shown(found, reason));
                }
            }
        }
        Ok(Some(listed))
    }

    fn shown(&mut self, found: Found, rule: String) -> Listed {
        let (path, identity) = (found.path.clone(), Some(locate::identity(&found)));
        self.say(List::AllowRead, found, rule.clone());
        Listed { path, identity, rule }
    }

    /// Denied paths that are not there, in a root that can be written, as they are seen inside.
    fn absent_in_root(&self, points: &[Point], absent: &[&UnmountableRule]) -> Vec<Finding> {
        let root = points.first().filter(|point| point.path == Path::new("/")).map(|point| &point.state);
        let Some(State::Layer(Source { path: top, .. })) = root else { return Vec::new() };
        let states: HashMap<&OsStr, &State> =
            points.iter().map(|point| (point.path.as_os_str(), &point.state)).collect();
        let mut findings = Vec::new();
        for loose in absent {
            let Ok(rest) = loose.path.strip_prefix(top) else { continue };
            let path = Path::new("/").join(rest);
            let nearest = path.ancestors().skip(1).find_map(|above| states.get(above.as_os_str()));
            if matches!(nearest, Some(State::Layer(_))) {
                findings.push(Finding { path, rule: loose.rule.clone() });
            }
        }
        findings
    }

    /// What the guard is to keep. A denied path that is not there has nothing to mount on, wherever the sandbox could
    /// make it; and no mount keeps a program from connecting to a socket.
    pub(super) fn guarded(
        &self,
        points: &[Point],
        listed: Option<Vec<Listed>>,
    ) -> Result<Rules, ResolveError> {
        let absent: Vec<&UnmountableRule> = self.loose.iter().filter(|loose| !loose.link).collect();
        let Names { mut covered, mut standing } = self.names(points);
        if absent.is_empty()
            && self.system.shared.is_empty()
            && covered.is_empty()
            && self.rewritten.is_empty()
            && self.shared_repositories.is_empty()
            && listed.is_none()
        {
            return Ok(Rules::default());
        }
        let host_devices = match &listed {
            None => Vec::new(),
            Some(_) => devices(self.mount_table()?),
        };
        let writable = Writable::of(points);
        let mut last = None;
        covered.extend(self.absent_names(points, &absent));
        let in_root = self.absent_in_root(points, &absent);
        let findings: Vec<Finding> = absent
            .into_iter()
            .filter(|loose| writable.can_be_made_in(&loose.path, &mut last))
            .map(|loose| Finding { path: loose.path.clone(), rule: loose.rule.clone() })
            .collect();
        // As where a mount is gone for the moment: nothing is to be made, and what others make ends nothing.
        standing
            .extend(self.system.shared.iter().filter(|shared| writable.can_be_made(&shared.path)).cloned());
        let rewritten: Vec<Finding> =
            self.rewritten.iter().filter(|file| writable.keeps(&file.path)).cloned().collect();
        let anchors = writable.anchors();
        let mut rules = Rules::new(&findings, &anchors)
            .with_rewritten(&rewritten, &anchors)
            .with_standing(&standing, &anchors);
        if covered.iter().any(|name| name.leads) {
            rules.shown = shown_inside(points);
        }
        (rules.covered, rules.on_replace) = (covered, self.files.on_replace);
        rules.in_root = in_root;
        let is_shared = |shared: &&Anchor| !writable.can_be_made(&shared.path.join("packed-refs"));
        rules.repositories = self.shared_repositories.iter().filter(is_shared).cloned().collect();
        rules.sockets = listed.map(|listed| Sockets {
            allowed: listed
                .into_iter()
                .map(|Listed { path, identity, rule }| {
                    let replaceable = writable.can_be_made(&path);
                    AllowedSocket { path, identity, replaceable, rule }
                })
                .collect(),
            host_devices,
        });
        Ok(rules)
    }
}

/// What shows inside at the host's own paths.
fn shown_inside(points: &[Point]) -> ShownInside {
    let writable = |point: &Point| match &point.state {
        State::Host { source, write } if source.path == point.path => Some(*write),
        _ => None,
    };
    ShownInside(points.iter().map(|point| (point.path.clone(), writable(point))).collect())
}

/// The folders of the host's that show writable inside.
struct Writable<'a> {
    states: HashMap<&'a OsStr, &'a State>,
    /// Where each shows, by its path on the host.
    shown: HashMap<&'a OsStr, (&'a Source, Vec<&'a Path>)>,
}

impl<'a> Writable<'a> {
    fn of(points: &'a [Point]) -> Writable<'a> {
        let mut shown: HashMap<&OsStr, (&Source, Vec<&Path>)> = HashMap::new();
        for point in points {
            if let State::Host { source, write: true } = &point.state
                && source.kind == Kind::Folder
            {
                shown.entry(source.path.as_os_str()).or_insert((source, Vec::new())).1.push(&point.path);
            }
        }
        let states = points.iter().map(|point| (point.path.as_os_str(), &point.state)).collect();
        Writable { states, shown }
    }

    /// Whether the folder that holds `path`, a path of the host's, can be written at one of the places where it shows.
    fn can_be_made(&self, path: &Path) -> bool {
        let sources =
            path.ancestors().skip(1).filter_map(|above| Some((above, self.shown.get(above.as_os_str())?)));
        sources.flat_map(|(above, (_, places))| places.iter().map(move |place| (above, *place))).any(
            |(above, place)| {
                let inside = place.join(path.strip_prefix(above).unwrap_or(path));
                let nearest = inside.ancestors().skip(1).find_map(|above| self.states.get(above.as_os_str()));
                matches!(nearest, Some(State::Host { write: true, .. }))
            },
        )
    }

    /// Whether `path` itself is kept by a mount, in a folder that can be written.
    fn keeps(&self, path: &Path) -> bool {
        let kept = self.states.get(path.as_os_str()).is_some_and(
            |state| matches!(state, State::Host { source, write: false } if source.kind == Kind::File),
        );
        kept && self.can_be_made(path)
    }

    /// The same, with the folder of the last question and its answer: many paths are in the same folder, one after the
    /// other, and the answer is the folder's.
    fn can_be_made_in<'p>(&self, path: &'p Path, last: &mut Option<(&'p Path, bool)>) -> bool {
        let folder = path.parent().unwrap_or(path);
        match *last {
            Some((last, answer)) if last.as_os_str() == folder.as_os_str() => answer,
            _ => last.insert((folder, self.can_be_made(path))).1,
        }
    }

    fn anchors(&self) -> Vec<Arc<Anchor>> {
        let sources = self.shown.values().map(|(source, _)| source);
        let anchor = |source: &&Source| Anchor { path: source.path.clone(), identity: source.identity };
        sources.map(|source| Arc::new(anchor(source))).collect()
    }
}

fn describe(rule: &PathRule) -> String {
    format!("allow_unix_sockets {} ({})", rule.pattern, rule.origin)
}

/// The devices of everything that the host has mounted now. A file system in memory that shows inside and is none of these
/// is the sandbox's own. By their type alone they could not be told apart: a devtmpfs is one in memory as well, and so may
/// the host's root be.
pub(super) fn devices(table: &[u8]) -> Vec<u64> {
    let mut devices: Vec<u64> = mounts::mounts(table).map(|mount| number(&mount)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

fn is_socket(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}
