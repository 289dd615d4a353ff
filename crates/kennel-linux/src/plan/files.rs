//! The file rules as mounts, and as Landlock rules.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

use kennel_init::plan::{Access, Step};
use kennel_policy::policy::UNSAID_TMP_BYTES;

use super::{Basis, PlanError, Steps, c_path, devices, procfs, users};
use crate::additions::{OwnFile, own_folder};
use crate::landlock::{Abi, Place, Right};
use crate::resolve::{Kind, OWN_DEVICES, Point, Resolved, Source, State, WrittenFile, Zone};

/// How many files the private /tmp and /dev/shm hold.
const SCRATCH_INODES: u64 = 256 << 10;
/// A tree that only holds mount points.
const SKELETON_BYTES: u64 = 16 << 20;

/// Adds the mount steps; returns what Landlock is to allow on top.
pub(super) fn mounts(steps: &mut Steps, basis: &Basis) -> Result<Vec<Place>, PlanError> {
    let Basis { policy, resolved, caller, .. } = *basis;
    let points = &resolved.points;
    let scratch = policy.limits.tmp_size.unwrap_or(UNSAID_TMP_BYTES);
    steps.add(Step::PrivateMounts, "every sandbox");
    users::root_owns(steps, basis);
    let own_root = root(steps, resolved, scratch)?;
    let mut places = vec![place(Path::new("/"), Kind::Folder, Right::Read)?];
    let mut sealed = Vec::new();
    let mut above: Vec<&Point> = Vec::new();
    let anew = points.first().is_some_and(|point| point.path == Path::new("/") && point.is_made_anew());
    let covering = covering(points, own_root);
    // First, because what hides other things waits below /dev until that is mounted over it, or hidden.
    if anew {
        steps.add(Step::MakeDir { path: c"/dev".into(), mode: 0o755 }, Zone::Dev.reason());
    }
    devices::store(steps, caller, scratch, SCRATCH_INODES)?;
    match points.iter().any(|point| point.state == State::Fresh(Zone::Dev)) {
        true => devices::make(steps, caller, !own_root),
        false => devices::streams_only(steps, caller, !own_root),
    }
    if !resolved.guard.covered.is_empty() {
        steps.add(Step::HandOverStore, "what the host replaces is hidden again");
    }
    if !resolved.guard.in_root.is_empty() {
        steps.add(Step::HandOverRoot, "denied paths stay absent in the writable layer too");
    }
    let mut hidden_last = None;
    for (index, point) in points.iter().enumerate() {
        while above.pop_if(|last| !point.path.starts_with(&last.path)).is_some() {}
        if point.path == Path::new("/") {
            if let State::Host { write: true, .. } | State::Layer(_) = point.state {
                places.push(place(&point.path, Kind::Folder, Right::Write)?);
            }
            above.push(point);
            continue;
        }
        let made_anew = above.last().is_some_and(|last| last.is_made_anew());
        let on_host = above.last().is_some_and(|last| {
            matches!(last.state, State::Host { .. } | State::Cache { lower: Some(_), .. })
        });
        let target = c_path(&point.path)?;
        let stand = |kind: Kind, steps: &mut Steps| {
            if made_anew {
                let path = target.clone();
                let step = match kind {
                    Kind::Folder => Step::MakeDir { path, mode: 0o755 },
                    Kind::File | Kind::Link => Step::MakeFile { path },
                };
                steps.add(step, &point.reason);
            }
        };
        match &point.state {
            State::Host { source, write } => {
                stand(source.kind, steps);
                let access = if *write { Access::Write } else { Access::Read };
                // A root made anew lies over the host's, which is to be seen all the same.
                let early = covered(&covering, source) || (own_root && source.path == Path::new("/"));
                bind(steps, source, target, access, early, &point.reason)?;
                // What lies in a writable place has its rights from there: Landlock looks at all folders above.
                let inherits = above
                    .iter()
                    .any(|above| matches!(above.state, State::Host { write: true, .. } | State::Layer(_)));
                if *write && !inherits {
                    places.push(place(&point.path, source.kind, right_to_write(resolved, source))?);
                }
            }
            State::Device(source) => {
                let reason = &point.reason;
                if source.kind == Kind::Folder {
                    stand(Kind::Folder, steps);
                    bind(steps, source, target, Access::Device, !own_root, reason)?;
                } else {
                    devices::device(steps, c_path(&source.path)?, target, source.identity, !own_root, reason);
                }
            }
            State::Cache { lower, layer } => {
                stand(Kind::Folder, steps);
                match lower {
                    Some(lower) => {
                        let step = Step::LayeredFolder {
                            target,
                            source: c_path(&lower.path)?,
                            identity: lower.identity,
                            layer: c_path(&layer.path)?,
                            layer_identity: layer.identity,
                        };
                        steps.add(step, &point.reason);
                    }
                    None => bind(steps, layer, target, Access::Write, true, &point.reason)?,
                }
                places.push(place(&point.path, Kind::Folder, Right::Write)?);
            }
            State::Frozen { .. } => steps.add(Step::Freeze { target }, &point.reason),
            State::Masked { file } => {
                stand(Kind::File, steps);
                let step = match basis.additions.masked(file) {
                    Some(contents) => Step::CoverFile { target, contents: contents.to_vec() },
                    None => Step::MaskFile { target },
                };
                steps.add(step, &point.reason);
            }
            // Only the root itself is one.
            State::Layer(_) => continue,
            // Until all mounts are made, init looks them up there.
            State::Hidden { .. } if point.path == Path::new("/proc") => {
                stand(Kind::Folder, steps);
                procfs::make(steps, basis, Zone::Proc.reason());
                hidden_last = Some((target, &point.reason));
            }
            State::Hidden { kind: Kind::File } if on_host || !absent_from_dev(point) => {
                steps.add(Step::MaskFile { target }, &point.reason);
            }
            State::Hidden { kind: Kind::Folder } if shows_something(points, index) => {
                let inodes = SCRATCH_INODES;
                let tmpfs = Step::Tmpfs { target: target.clone(), size: SKELETON_BYTES, inodes, mode: 0o755 };
                steps.add(tmpfs, &point.reason);
                sealed.push((target, &point.reason));
            }
            State::Hidden { kind: Kind::Folder } if on_host || !absent_from_dev(point) => {
                steps.add(Step::MaskDir { target }, &point.reason);
            }
            State::Hidden { .. } => continue,
            State::Fresh(zone) => {
                if *zone != Zone::Dev {
                    stand(Kind::Folder, steps);
                }
                let (size, mode) = match zone {
                    Zone::Proc => {
                        procfs::make(steps, basis, &point.reason);
                        if procfs::can_be_written(basis) {
                            places.push(place(&point.path, Kind::Folder, Right::Write)?);
                        }
                        above.push(point);
                        continue;
                    }
                    Zone::Dev => {
                        places.push(place(&point.path, Kind::Folder, Right::Devices)?);
                        sealed.push((target, &point.reason));
                        above.push(point);
                        continue;
                    }
                    Zone::Tmp => {
                        steps.add(Step::Private { target, name: c"tmp".into(), mode: 0o1777 }, &point.reason);
                        places.push(place(&point.path, Kind::Folder, Right::Write)?);
                        above.push(point);
                        continue;
                    }
                    Zone::Run | Zone::Sys => {
                        let name = if *zone == Zone::Run { c"run" } else { c"sys" };
                        let step = Step::Private { target: target.clone(), name: name.into(), mode: 0o755 };
                        steps.add(step, &point.reason);
                        sealed.push((target, &point.reason));
                        above.push(point);
                        continue;
                    }
                    Zone::Home | Zone::Closed { .. } => {
                        let closed = *zone != Zone::Home;
                        if closed && !shows_something(points, index) {
                            steps.add(Step::MaskDir { target }, &point.reason);
                        } else {
                            let name = super::c_string(format!("home-{index}").as_ref(), "a folder")?;
                            let mode = if closed { 0o755 } else { 0o700 };
                            steps.add(Step::Private { target: target.clone(), name, mode }, &point.reason);
                            match closed {
                                true => sealed.push((target, &point.reason)),
                                false => places.push(place(&point.path, Kind::Folder, Right::Write)?),
                            }
                        }
                        above.push(point);
                        continue;
                    }
                    Zone::Memory { size } => (size.unwrap_or(scratch), 0o1777),
                    Zone::Rebuilt | Zone::Root => (SKELETON_BYTES, 0o755),
                };
                steps.add(
                    Step::Tmpfs { target: target.clone(), size, inodes: SCRATCH_INODES, mode },
                    &point.reason,
                );
                if mode == 0o1777 {
                    places.push(place(&point.path, Kind::Folder, Right::Write)?);
                } else {
                    sealed.push((target, &point.reason));
                }
            }
        }
        above.push(point);
    }
    for (path, contents) in &resolved.covers {
        let (target, contents) = (c_path(path)?, contents.as_bytes().to_vec());
        steps.add(Step::CoverFile { target, contents }, "the network gate resolves names");
    }
    for WrittenFile { path, contents, mode, reason } in &resolved.written {
        let (path, contents) = (c_path(path)?, contents.clone());
        steps.add(Step::WriteFile { path, contents, mode: *mode }, reason);
    }
    own_files(steps, basis)?;
    users::files(steps, basis, &mut places)?;
    links(steps, resolved)?;
    if anew {
        sealed.push((c"/".into(), &points[0].reason));
    }
    for (target, reason) in sealed {
        steps.add(Step::ReadOnly { target }, reason);
    }
    if own_root {
        steps.add(Step::PivotRoot, "only listed paths exist: the host's tree is gone");
    }
    steps.add(Step::SealMounts, "every sandbox");
    if let Some((target, reason)) = hidden_last {
        steps.add(Step::MaskDir { target }, reason);
    }
    Ok(places)
}

impl Point {
    /// Whether what stands here is a tree of kennel's own, in which places to mount on have to be made.
    pub(super) fn is_made_anew(&self) -> bool {
        matches!(self.state, State::Hidden { .. } | State::Fresh(_))
    }
}

/// Adds the steps that make the root. Whether it is another than the host's.
fn root(steps: &mut Steps, resolved: &Resolved, scratch: u64) -> Result<bool, PlanError> {
    let points = &resolved.points;
    match points.first().filter(|point| point.path == Path::new("/")) {
        Some(Point { state: State::Host { write: true, .. }, reason, .. }) => {
            steps.add(Step::HostRoot { access: Access::Write }, reason);
            Ok(false)
        }
        Some(Point { state: State::Layer(folder), reason, .. }) => {
            steps.add(Step::Layer { size: scratch, inodes: SCRATCH_INODES }, reason);
            for made in resolved.root.iter().flat_map(|root| &root.made) {
                let path = c_path(&made.path)?;
                let step = match made.kind {
                    Kind::Folder => Step::MakeDir { path, mode: made.mode },
                    Kind::File | Kind::Link => Step::MakeFile { path },
                };
                steps.add(step, "a place to mount on, which the root file system does not have");
            }
            let (source, identity) = (c_path(&folder.path)?, folder.identity);
            steps.add(Step::LayeredRoot { source, identity }, reason);
            Ok(true)
        }
        Some(Point { state: State::Host { source: folder, .. }, reason, .. })
            if folder.path != Path::new("/") =>
        {
            let (source, identity) = (c_path(&folder.path)?, folder.identity);
            steps.add(Step::BoundRoot { source, identity }, reason);
            Ok(true)
        }
        Some(point) if point.is_made_anew() => {
            steps.add(Step::TmpfsRoot { size: SKELETON_BYTES }, &point.reason);
            Ok(true)
        }
        _ => {
            steps.add(Step::HostRoot { access: Access::Read }, "everything is readable by default");
            Ok(false)
        }
    }
}

/// Files of kennel's own, in a folder that nobody inside can write.
fn own_files(steps: &mut Steps, basis: &Basis) -> Result<(), PlanError> {
    if basis.additions.files.is_empty() {
        return Ok(());
    }
    let folder = own_folder(basis.policy);
    let above = folder.parent().unwrap_or(folder);
    let zone = |point: &Point| matches!(point.state, State::Fresh(Zone::Run | Zone::Dev));
    if !basis.resolved.points.iter().any(|point| point.path == above && zone(point)) {
        return Err(PlanError::NoFolder { folder: folder.to_path_buf() });
    }
    for OwnFile { name, contents, reason } in &basis.additions.files {
        let (path, contents) = (c_path(&folder.join(name))?, contents.clone());
        steps.add(Step::WriteFile { path, contents, mode: 0o444 }, reason);
    }
    Ok(())
}

fn bind(
    steps: &mut Steps,
    source: &Source,
    target: std::ffi::CString,
    access: Access,
    early: bool,
    reason: &str,
) -> Result<(), PlanError> {
    let step = Step::Bind { source: c_path(&source.path)?, identity: source.identity, target, access, early };
    steps.add(step, reason);
    Ok(())
}

/// The points that mount something else over the host's own path. Under a root made anew none does: sources are taken
/// from the old one.
fn covering(points: &[Point], own_root: bool) -> HashSet<&OsStr> {
    let other = |point: &&Point| match &point.state {
        State::Host { source, .. } => source.path != point.path,
        _ => true,
    };
    points.iter().filter(|_| !own_root).filter(other).map(|point| point.path.as_os_str()).collect()
}

/// Whether one of these stands over a source.
fn covered(covering: &HashSet<&OsStr>, source: &Source) -> bool {
    source.path.ancestors().any(|above| covering.contains(above.as_os_str()))
}

/// Whether something below a hidden folder is shown after all.
fn shows_something(points: &[Point], index: usize) -> bool {
    let top = &points[index].path;
    points[index + 1..]
        .iter()
        .take_while(|point| point.path.starts_with(top))
        .any(|point| !matches!(point.state, State::Hidden { .. }))
}

/// A denied path below /dev or /proc that the fresh one does not have needs no mask.
fn absent_from_dev(point: &Point) -> bool {
    let of_a_process = point.path.strip_prefix("/proc").is_ok_and(|name| {
        let first = name.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned());
        first.is_some_and(|first| first.starts_with(|c: char| c.is_ascii_digit()) || first.ends_with("self"))
    });
    let mut in_dev = point.path.strip_prefix("/dev").into_iter().filter(|name| *name != Path::new(""));
    of_a_process || in_dev.any(|name| !OWN_DEVICES.iter().any(|own| Path::new(own) == name))
}

/// Symlinks on the way to what is shown, wherever the tree is made anew.
fn links(steps: &mut Steps, resolved: &Resolved) -> Result<(), PlanError> {
    let mut made = std::collections::BTreeSet::new();
    for (path, points_to) in &resolved.links {
        let nearest = path
            .ancestors()
            .skip(1)
            .find_map(|above| resolved.points.binary_search_by(|point| point.path.as_path().cmp(above)).ok());
        let anew = nearest.is_some_and(|index| match resolved.points[index].state {
            // In one that shows nothing there is no place for a link, and nothing that it could lead to.
            State::Hidden { .. } => shows_something(&resolved.points, index),
            State::Fresh(_) => true,
            _ => false,
        });
        if anew && made.insert(path) {
            let step = Step::Symlink { path: c_path(path)?, points_to: c_path(points_to)? };
            steps.add(step, "a link on the way to what is listed");
        }
    }
    Ok(())
}

fn place(path: &Path, kind: Kind, right: Right) -> Result<Place, PlanError> {
    Ok(Place { path: c_path(path)?, folder: kind == Kind::Folder, right })
}

/// What may be done in a place that can be written.
fn right_to_write(resolved: &Resolved, source: &Source) -> Right {
    if resolved.without_links.contains(&source.path) { Right::Files } else { Right::Write }
}

/// Without namespaces: what Landlock alone can express, or an error for what it cannot. It only ever adds rights
/// below a path, so nothing can be carved out of what is allowed.
pub(super) fn landlock_only(basis: &Basis) -> Result<Vec<Place>, PlanError> {
    let Basis { resolved, abi, .. } = *basis;
    if abi == Abi::None {
        return Err(PlanError::NothingToEnforceWith);
    }
    if !basis.additions.is_empty() {
        let rule = "secrets that the command does not hold, rules about requests, and a gateway to models";
        return Err(PlanError::NotWithLandlock { rule: rule.into() });
    }
    let listed = resolved.points.iter().any(|point| point.state == State::Fresh(Zone::Root));
    let mut places = Vec::new();
    if !listed {
        places.push(place(Path::new("/"), Kind::Folder, Right::Read)?);
    }
    for node in devices::NODES {
        places.push(place(Path::new(&format!("/dev/{node}")), Kind::File, Right::Devices)?);
    }
    for point in &resolved.points {
        let cannot = || Err(PlanError::NotWithLandlock { rule: point.reason.clone().into_owned() });
        let in_writable = || {
            let above = resolved.points.iter().filter(|other| point.path.starts_with(&other.path));
            above.into_iter().any(|other| matches!(other.state, State::Host { write: true, .. }))
        };
        match &point.state {
            // It shows here, as all of the host's processes do; but nobody may write to it.
            State::Hidden { .. } if point.hides_the_kernel() && !in_writable() => {}
            State::Fresh(Zone::Proc | Zone::Sys) if in_writable() => {
                let rule = format!("a {} that stays read-only in a writable folder", point.path.display());
                return Err(PlanError::NotWithLandlock { rule });
            }
            State::Host { source, .. } if source.path != point.path => return cannot(),
            State::Layer(_) | State::Cache { .. } | State::Frozen { .. } | State::Masked { .. } => {
                return cannot();
            }
            State::Host { source, write } => {
                let right = if *write { right_to_write(resolved, source) } else { Right::Read };
                let above = resolved.points.iter().any(|other| {
                    point.path != other.path
                        && point.path.starts_with(&other.path)
                        && matches!(other.state, State::Host { write: true, .. })
                });
                if !*write && above {
                    return cannot();
                }
                places.push(place(&point.path, source.kind, right)?);
            }
            State::Hidden { .. } if !listed => return cannot(),
            State::Hidden { .. } => {
                let shown = resolved.points.iter().any(|other| {
                    point.path.starts_with(&other.path) && matches!(other.state, State::Host { .. })
                });
                if shown {
                    return cannot();
                }
            }
            State::Device(source) => places.push(place(&point.path, source.kind, Right::Devices)?),
            State::Fresh(Zone::Memory { .. } | Zone::Rebuilt | Zone::Home | Zone::Closed { .. }) => {
                return cannot();
            }
            State::Fresh(_) => {}
        }
    }
    Ok(places)
}
