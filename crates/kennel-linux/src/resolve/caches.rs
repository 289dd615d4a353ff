//! The caches of package managers and compilers (`files.caches`): where they are, what of the host's shows below each, and the layer
//! that takes what the sandbox writes.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_policy::caches::{CacheEntry, FOLDER, caches};
use kennel_policy::policy::{Missing, MountAccess, Policy};
use kennel_resolve::error::ResolveError;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::created::MissingFolders;
use super::locate::{is_own, locate_plain};
use super::path_rules::{List, PathAccess, Resolver};
use super::private_home::is_systems;
use super::{Kind, Location, Point, Source, State, Zone, links_on_the_way, locate};
use crate::caches::{Layers, PLAIN};
use crate::home::homes;

/// Why the layers do not show.
const LAYERS: &str = "the layers of caches are kennel's own (files.caches)";

/// As many folders of `PATH` are looked in.
const MAX_FOLDERS: usize = 64;
/// Why there is no layer above a cache of the host's, in words of a reason.
const WITHOUT_OVERLAY: &str = "; it starts empty, because there is no overlay on this file system";

/// Where the layers of a run are.
#[derive(Debug)]
pub(super) struct CacheLayers {
    /// The home, as it is named and without links.
    home: (PathBuf, PathBuf),
    /// What the run holds; `None` where a plan is only looked at.
    held: Option<Arc<Layers>>,
    /// Where its layers are.
    folder: PathBuf,
    /// Whether they can lie above the host's caches.
    over: bool,
}

impl CacheLayers {
    /// What the run holds.
    pub(super) fn held(&self) -> Option<Arc<Layers>> {
        self.held.clone()
    }
}

impl Resolver<'_> {
    /// Takes the layers of this project, and hides those of all. `held` are those of the same sandbox, of an earlier look at the disk.
    /// What is not there afterwards is said in the second value: caches are then as the other rules say.
    pub(super) fn cache_layers(
        &mut self,
        policy: &Policy,
        held: Option<Arc<Layers>>,
    ) -> (Option<CacheLayers>, Option<String>) {
        // A root of its own has none of the host's home, and each of several users has a home in memory.
        if !self.files.caches || self.own_root || !policy.process.users.is_empty() {
            return (None, None);
        }
        let home = homes().into_iter().find_map(|home| match locate(&home) {
            Ok(Location::Found(found)) if found.kind == Kind::Folder && !is_systems(&found.path) => {
                Some((home, found.path))
            }
            _ => None,
        });
        // Then there are no caches either.
        let Some(home) = home else { return (None, None) };
        let Some(start) = self.workdir.clone() else { return (None, None) };
        // As root in another user's home, it would leave folders there that this user cannot use.
        if !is_own(&home.1) {
            return (None, Some(format!("{} is somebody else's", home.1.display())));
        }
        let base = home.1.join(FOLDER);
        if self.said.upwards(&base).any(|said| said.allow_write.is_some()) {
            return (None, Some(format!("a rule opens {} to be written", home.1.display())));
        }
        let project = project(&start, &home.1, policy);
        let held = match (held, self.missing_folders) {
            (Some(held), _) => Some(held),
            (None, MissingFolders::Plan) => None,
            (None, MissingFolders::Create) => match Layers::take(&base, &project) {
                Ok(Some(layers)) => Some(Arc::new(layers)),
                Ok(None) => return (None, Some("other runs of this project hold all of them".to_owned())),
                Err(error) => return (None, Some(format!("{}: {error}", base.display()))),
            },
        };
        if let Ok(Location::Found(found)) = locate(&base) {
            self.say(List::DenyRead, found, LAYERS);
        }
        let over = held.as_ref().is_none_or(|held| held.can_be_over());
        let folder =
            held.as_ref().map_or_else(|| Layers::planned(&base, &project), |held| held.path().into());
        (Some(CacheLayers { home, held, folder, over }), None)
    }

    /// Puts the caches where they belong. Rules that people wrote come first.
    pub(super) fn caches(
        &mut self,
        points: &mut Vec<Point>,
        layers: &CacheLayers,
    ) -> Result<(), ResolveError> {
        let (homes, mut commands) = (homes(), Commands::default());
        for entry in caches() {
            let (place, moved) = entry.place(&layers.home.0, |name| std::env::var_os(name));
            if let Some(point) = self.cache(points, (&homes, &mut commands), layers, entry, &place, moved)? {
                // Without the host's there is nothing for rules to be about.
                let over = matches!(point.state, State::Cache { lower: Some(_), .. });
                points.retain(|other| {
                    other.path != point.path && (over || !other.path.starts_with(&point.path))
                });
                points.push(point);
            }
        }
        Ok(())
    }

    /// The point of a cache; `None` if it stays as it is.
    fn cache(
        &mut self,
        points: &[Point],
        (homes, commands): (&[PathBuf], &mut Commands),
        layers: &CacheLayers,
        entry: &CacheEntry,
        place: &Path,
        moved: bool,
    ) -> Result<Option<Point>, ResolveError> {
        let (path, found) = match locate(place) {
            Ok(Location::Found(found)) if found.kind == Kind::Folder => (found.path.clone(), Some(found)),
            Ok(Location::Missing(path)) => (path, None),
            _ => return Ok(None),
        };
        if path != place {
            match self.refuse_planted(&entry.reason(), place, &path) {
                Err(ResolveError::PlantedLink { .. }) => return Ok(None),
                refused => refused?,
            }
        }
        if is_systems(&path) || !self.is_a_caches(&path, homes) || is_mounted_on(points, &path) {
            return Ok(None);
        }
        let (shows, anew) = match self.verdict(&path) {
            PathAccess::Fresh(Zone::Home) => (!moved, true),
            PathAccess::Host { write: false, .. } => (true, false),
            _ => return Ok(None),
        };
        // In the host's tree there is no place to mount on; and what a private home does not have can be written there anyway.
        if found.is_none() && !(anew && commands.hold(entry.command)) {
            return Ok(None);
        }
        let Some(layer) = layers.layer(entry) else { return Ok(None) };
        let lower = found.filter(|found| shows && is_own(&found.path)).map(Source::from);
        let mut reason = entry.reason();
        if lower.is_some() && !layers.over {
            reason.push_str(WITHOUT_OVERLAY);
        }
        let lower = lower.filter(|_| layers.over);
        let layer = match lower {
            Some(_) => Some(layer),
            None => layers.part(&layer),
        };
        let Some(layer) = layer else { return Ok(None) };
        if path != place {
            self.links.extend(links_on_the_way(place));
        }
        Ok(Some(Point { path, state: State::Cache { lower, layer }, reason: reason.into() }))
    }

    /// Whether a folder can be that of a cache: no home is in it, and nothing that can be written, such as the project.
    fn is_a_caches(&self, path: &Path, homes: &[PathBuf]) -> bool {
        let in_it = |other: &Path| other.starts_with(path);
        let homes_place = |home: &PathBuf| {
            locate(home).ok().and_then(|home| match home {
                Location::Found(found) => Some(found.path),
                _ => None,
            })
        };
        !self.is_denied_by_glob(path)
            && !homes.iter().filter_map(homes_place).any(|home| in_it(&home))
            && !self.workdir.as_deref().is_some_and(in_it)
            // A layer can be written as a whole: where something of it is denied, the cache stays the host's.
            && !self.said.upwards(path).any(|said| said.deny_write.is_some())
            && !self.said.below(path).any(|(_, said)| said.deny_write.is_some())
    }
}

/// Which commands there are in the caller's `PATH`.
#[derive(Default)]
struct Commands(HashMap<&'static str, bool>);

impl Commands {
    fn hold(&mut self, command: &'static str) -> bool {
        let is_there = || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut folders =
                std::env::split_paths(&path).filter(|folder| folder.is_absolute()).take(MAX_FOLDERS);
            folders
                .any(|folder| accessat(CWD, folder.join(command), Access::EXEC_OK, AtFlags::EACCESS).is_ok())
        };
        !command.is_empty() && *self.0.entry(command).or_insert_with(is_there)
    }
}

/// Whether something else than the host's own file, or than a home, stands at a path already, or in it.
fn is_mounted_on(points: &[Point], path: &Path) -> bool {
    let elsewhere = |point: &Point| match &point.state {
        State::Host { source, .. } => source.path != point.path,
        State::Fresh(Zone::Memory { .. } | Zone::Rebuilt) | State::Cache { .. } => true,
        _ => false,
    };
    let around = path.ancestors().find_map(|above| points.iter().find(|point| point.path == above));
    let below = points.iter().filter(|point| point.path.starts_with(path));
    around.into_iter().chain(below).any(elsewhere)
}

impl CacheLayers {
    /// The layer of a cache, made if it is missing. One that cannot be used is passed over.
    fn layer(&self, entry: &CacheEntry) -> Option<Source> {
        match &self.held {
            Some(held) => source(&held.layer(entry).ok()?),
            None => Some(planned(self.folder.join(entry.layer()))),
        }
    }

    /// The part of it that is used without an overlay.
    fn part(&self, layer: &Source) -> Option<Source> {
        let path = layer.path.join(PLAIN);
        if self.held.is_some() { source(&path) } else { Some(planned(path)) }
    }
}

fn source(path: &Path) -> Option<Source> {
    locate_plain(path).ok().flatten().map(Source::from)
}

/// A folder that a run would make.
fn planned(path: PathBuf) -> Source {
    Source { path, kind: Kind::Folder, identity: kennel_init::plan::Identity::default() }
}

/// What a project is told from others by: the repository that the command starts in, or the folder; and the states of agents that
/// the sandbox writes. An agent runs what is in its caches beside its login, so those of a build are not for it.
fn project(start: &Path, home: &Path, policy: &Policy) -> Vec<u8> {
    let is_top = |folder: &&Path| {
        **folder != *home
            && !home.starts_with(folder)
            && matches!(locate_plain(&folder.join(".git")), Ok(Some(_)))
    };
    let folder = start.ancestors().find(is_top).unwrap_or(start);
    let mut project = folder.as_os_str().as_bytes().to_vec();
    let states = policy.files.mounts.iter();
    for mount in
        states.filter(|mount| mount.access == MountAccess::ReadWrite && mount.missing == Missing::Create)
    {
        project.push(0);
        project.extend_from_slice(mount.source.as_os_str().as_bytes());
    }
    project
}
