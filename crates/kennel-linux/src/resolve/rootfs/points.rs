//! From what is said of the root's files to points, and room in it for what is mounted.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kennel_policy::policy::NetworkMode;
use kennel_resolve::error::{ResolveError, system_error};

use super::{Made, Root, View, join, source};
use crate::resolve::locate::locate_plain;
use crate::resolve::path_rules::Resolver;
use crate::resolve::{Kind, Point, Reason, ResolvedRoot, State, Zone};

/// Files that show other contents, and these.
pub(super) type Covers = Vec<(PathBuf, &'static str)>;

/// As many entries may a folder have that is rebuilt.
const MAX_ENTRIES: usize = 4096;

const BEHIND_A_LINK: &str = "a folder above it is a symlink in the root file system\n\
     help: mount it where that link leads, with `files.mounts`";
const BEHIND_A_FILE: &str = "a folder above it is a file in the root file system\n\
     help: mount it elsewhere, with `files.mounts`";
const BEHIND_A_SHUT_FOLDER: &str = "a folder above it in the root file system belongs to another user and is closed\n\
     help: mount it elsewhere, with `files.mounts`";
const TOO_MANY: &str = "does not exist in the root file system, and its folder has too many entries to be rebuilt\n\
     help: create it there, or use `files.rootfs_write = \"layer\"`";

/// What stands at a path of the host's, which is not followed.
pub(super) enum Standing {
    /// With its permissions, and whether they let this user pass.
    Folder {
        mode: u32,
        passable: bool,
    },
    File {
        empty: bool,
    },
    Link,
    Nothing,
}

pub(super) fn standing(path: &Path) -> Standing {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let mode = found.permissions().mode() & 0o7777;
            // As init will be let through: it has power over what is this user's alone, even if this user is root.
            let passable = match () {
                () if found.uid() == rustix::process::geteuid().as_raw() => true,
                () if found.gid() == rustix::process::getegid().as_raw() => mode & 0o010 != 0,
                () => mode & 0o001 != 0,
            };
            Standing::Folder { mode, passable }
        }
        Ok(found) if found.file_type().is_symlink() => Standing::Link,
        Ok(found) => Standing::File { empty: found.is_file() && found.len() == 0 },
        Err(_) => Standing::Nothing,
    }
}

/// The nearest point at a path or above it.
pub(super) fn nearest<'p>(points: &'p [Point], path: &Path) -> Option<&'p Point> {
    path.ancestors().find_map(|above| points.iter().find(|point| point.path == above))
}

impl Root {
    /// Whether a path inside is the root's own, with the points so far.
    pub(super) fn owns(&self, points: &[Point], inside: &Path) -> bool {
        nearest(points, inside).is_none_or(|point| match &point.state {
            State::Layer(_) | State::Frozen { .. } => true,
            State::Host { source, .. } => source.path.starts_with(&self.found.path),
            _ => false,
        })
    }
}

impl Resolver<'_> {
    /// Puts the root's folder in the place of the empty root, with what the rules say of it. Returns what is made in its layer, and
    /// which files are covered.
    pub(in crate::resolve) fn root_points(
        &mut self,
        points: &mut Vec<Point>,
        root: &mut Root,
        mode: NetworkMode,
    ) -> Result<(ResolvedRoot, Covers), ResolveError> {
        let state = match root.layer {
            true => State::Layer(source(&root.found)),
            false => State::Host { source: source(&root.found), write: false },
        };
        points.retain(|point| point.path != Path::new("/"));
        points.push(Point { path: "/".into(), state, reason: root.reason.clone().into() });
        let wanted: Vec<Wanted> = points.iter().filter_map(Wanted::of).collect();
        self.rules_of_root(points, root);
        let mut made = Vec::new();
        let (covers, more) = super::network::files(root, points, mode, &mut made);
        let wanted = wanted.into_iter().chain(more.iter().filter_map(Wanted::of)).collect::<Vec<_>>();
        points.extend(more);
        for want in &wanted {
            self.room(points, root, want, &mut made)?;
        }
        let lacks = root.lacks.take();
        Ok((ResolvedRoot { made, lacks, view: root.view.clone() }, covers))
    }

    /// What is denied of the root's files, at the paths at which they show.
    fn rules_of_root(&self, points: &mut Vec<Point>, root: &Root) {
        let mut add = |inside: PathBuf, state: State, reason: Reason| {
            // What shows of the host's there has rules of its own, and there is nothing in what is hidden.
            if root.owns(points, &inside) && points.iter().all(|point| point.path != inside) {
                points.push(Point { path: inside, state, reason });
            }
        };
        let mut said: Vec<_> = self.said.below(&root.found.path).collect();
        said.sort_by_key(|(path, _)| *path);
        for (path, said) in said {
            let (Some(inside), Some(found)) = (root.view.inside(path), &said.found) else { continue };
            if inside == Path::new("/") {
                continue;
            }
            match (&said.deny_read, &said.deny_write) {
                (Some(rule), _) => add(inside, State::Hidden { kind: found.kind }, rule.clone()),
                (None, Some(rule)) if root.layer => {
                    add(inside, State::Frozen { kind: found.kind }, rule.clone());
                }
                _ => {}
            }
        }
        for (link, rule) in root.rules.links.iter().filter(|_| root.layer) {
            let reason = format!("holds the link: {rule}").into();
            add(link.clone(), State::Frozen { kind: Kind::Link }, reason);
        }
    }

    /// Sees to it that something has a place to stand on in the root. What is not there is made in the layer; without one, the
    /// nearest folder above it is built anew in memory, with all its entries.
    fn room(
        &mut self,
        points: &mut Vec<Point>,
        root: &Root,
        want: &Wanted,
        made: &mut Vec<Made>,
    ) -> Result<(), ResolveError> {
        let Wanted { path, kind, reason } = want;
        let above = path.parent().and_then(|above| nearest(points, above));
        let is_built = match above.map(|point| &point.state) {
            Some(State::Layer(_) | State::Frozen { .. }) => false,
            Some(State::Host { source, .. }) if source.path.starts_with(&root.found.path) => false,
            Some(State::Fresh(Zone::Root | Zone::Rebuilt)) => true,
            _ => return Ok(()),
        };
        let unfit = |what| ResolveError::Unfit { rule: reason.to_string(), path: path.clone(), what };
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.reverse();
        let (mut last, mut missing) = (Path::new("/"), false);
        for folder in folders.into_iter().skip(1) {
            match standing(&root.view.in_root(folder)) {
                Standing::Folder { passable: false, .. } => return Err(unfit(BEHIND_A_SHUT_FOLDER)),
                Standing::Folder { .. } => last = folder,
                Standing::Link => return Err(unfit(BEHIND_A_LINK)),
                Standing::File { .. } => return Err(unfit(BEHIND_A_FILE)),
                Standing::Nothing => {
                    missing = true;
                    break;
                }
            }
        }
        let fits = matches!(
            (standing(&root.view.in_root(path)), kind),
            (Standing::Folder { .. }, Kind::Folder) | (Standing::File { .. }, Kind::File | Kind::Link)
        );
        if is_built || (fits && !missing) {
            return Ok(());
        }
        if root.layer {
            make(made, &root.view, path, *kind);
            return Ok(());
        }
        self.rebuild(points, root, last, &unfit)
    }

    fn rebuild(
        &mut self,
        points: &mut Vec<Point>,
        root: &Root,
        folder: &Path,
        unfit: &dyn Fn(&'static str) -> ResolveError,
    ) -> Result<(), ResolveError> {
        let place = root.view.in_root(folder);
        let entries = std::fs::read_dir(&place).map_err(system_error(&root.reason, &place))?;
        let zone = if folder == Path::new("/") { Zone::Root } else { Zone::Rebuilt };
        // What is hidden in it needs no hiding where it is not shown.
        let stays = |point: &Point| {
            let hidden = matches!(point.state, State::Hidden { .. }) && point.path.parent() == Some(folder);
            point.path != folder && !hidden
        };
        let mut known: HashMap<OsString, ()> = HashMap::new();
        for point in points.iter().filter(|point| point.path.parent() == Some(folder)) {
            known.extend(point.path.file_name().map(|name| (name.to_owned(), ())));
        }
        points.retain(stays);
        let state = State::Fresh(zone);
        points.push(Point { path: folder.into(), state, reason: Zone::Rebuilt.reason().into() });
        for (index, entry) in entries.flatten().enumerate() {
            if index == MAX_ENTRIES {
                return Err(unfit(TOO_MANY));
            }
            if known.contains_key(&entry.file_name()) {
                continue;
            }
            let (host, inside) = (entry.path(), join(folder, Path::new(&entry.file_name())));
            if let Ok(points_to) = std::fs::read_link(&host) {
                self.links.push((inside, points_to));
            } else if let Ok(Some(found)) = locate_plain(&host) {
                let state = State::Host { source: found.into(), write: false };
                points.push(Point { path: inside, state, reason: root.reason.clone().into() });
            }
        }
        Ok(())
    }

    /// Where the command starts: in the folder that was asked for, else in the caller's own where that shows.
    pub(in crate::resolve) fn workdir_in_root(
        &self,
        points: &[Point],
        root: &Root,
        asked: Option<&Path>,
        cwd: &Path,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let path = root.view.lead(asked.unwrap_or(cwd));
        let point = nearest(points, &path);
        let is_there = match point.map(|point| (point, &point.state)) {
            Some((point, State::Host { source, .. })) => {
                let host = join(&source.path, path.strip_prefix(&point.path).unwrap_or(Path::new("")));
                let found = locate_plain(&host).ok().flatten();
                found.is_some_and(|found| found.kind == Kind::Folder)
            }
            Some((_, State::Layer(_) | State::Frozen { .. })) => {
                matches!(standing(&root.view.in_root(&path)), Standing::Folder { .. })
            }
            Some((point, State::Fresh(_))) => point.path == path,
            _ => false,
        };
        // What the root has at the caller's path has nothing to do with where the caller is.
        let own = root.owns(points, &path) && point.is_none_or(|point| !is_of_host(point, root));
        match asked {
            Some(asked) if !is_there => Err(ResolveError::Unfit {
                rule: "workdir".into(),
                path: asked.to_path_buf(),
                what: "does not exist inside\nhelp: name a folder of the root file system, or of one that is listed",
            }),
            None if own => Ok(None),
            _ => Ok(Some(path).filter(|_| is_there)),
        }
    }
}

fn is_of_host(point: &Point, root: &Root) -> bool {
    matches!(&point.state, State::Host { source, .. } if !source.path.starts_with(&root.found.path))
}

/// Takes note of what has to be made in the layer: `path`, and the folders above it.
pub(super) fn make(made: &mut Vec<Made>, view: &View, path: &Path, kind: Kind) {
    let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|above| *above != Path::new("/")).collect();
    above.reverse();
    for folder in above {
        let mode = match standing(&view.in_root(folder)) {
            Standing::Folder { mode, .. } => mode,
            _ => 0o755,
        };
        if made.iter().all(|made| made.path != folder) {
            made.push(Made { path: folder.into(), kind: Kind::Folder, mode });
        }
    }
    if made.iter().all(|made| made.path != path) {
        made.push(Made { path: path.into(), kind, mode: 0o755 });
    }
}

/// A place that something needs in the root.
struct Wanted {
    path: PathBuf,
    kind: Kind,
    reason: Reason,
}

impl Wanted {
    fn of(point: &Point) -> Option<Wanted> {
        let kind = match &point.state {
            State::Host { source, .. } | State::Device(source) => source.kind,
            State::Fresh(_) | State::Cache { .. } => Kind::Folder,
            State::Hidden { .. } | State::Layer(_) | State::Frozen { .. } | State::Masked { .. } => {
                return None;
            }
        };
        let wanted = Wanted { path: point.path.clone(), kind, reason: point.reason.clone() };
        Some(wanted).filter(|wanted| wanted.path != Path::new("/"))
    }
}
