//! A folder of the host's as the sandbox's root.
//!
//! Allow rules are about the host's files, which show at the same paths. Deny rules are about paths as the command sees them: in
//! a folder of the host's that shows they are the host's, elsewhere they are the root's. Links in the root are followed as the
//! command's kernel will follow them: an absolute one starts again at the sandbox's root, and `..` stops there.

mod network;
mod points;
mod rules;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{FilePolicy, Policy, ReadModel, RootFs, RootFsWrite, TmpMode};
use kennel_resolve::error::{ResolveError, system_error};

use super::locate::{along, locate_plain};
use super::path_rules::{Resolver, shown};
use super::{Found, Kind, List, Location, Reason, Source, locate};
use crate::mounts;

/// Why the folder does not show inside a second time.
static NOT_TWICE: Reason = Reason::Borrowed("the folder of the root file system shows as the root alone");

/// Something that is made in the layer, for a later step to mount on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Where, inside.
    pub path: PathBuf,
    /// Folder or file.
    pub kind: Kind,
    /// Permissions.
    pub mode: u32,
}

/// What a root file system means on this disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRoot {
    /// What is made in the layer.
    pub made: Vec<Made>,
    /// What was asked for and is not there, because of best effort.
    pub lacks: Option<String>,
    view: View,
}

impl ResolvedRoot {
    /// The file that a path inside leads to, if it is a regular one: its path inside, and on the host.
    pub(super) fn file(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let inside = self.view.lead(path);
        let host = self.view.host_path(&inside);
        let found = locate_plain(&host).ok().flatten()?;
        (found.kind == Kind::File).then_some((inside, host))
    }
}

/// The tree as it will be seen inside: the root's folder, and what shows in it at the host's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The root's folder.
    top: PathBuf,
    /// What else shows: where, and the host's path of it. The sandbox's own folders are among them, under their own paths.
    shown: Vec<(PathBuf, PathBuf)>,
}

impl View {
    fn new(top: &Path, policy: &Policy) -> View {
        let files = &policy.files;
        let mut shown: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut own = vec!["/proc", "/dev", "/sys"];
        if files.tmp == TmpMode::Private {
            own.push("/tmp");
        }
        shown.extend(own.into_iter().map(|path| (path.into(), path.into())));
        let allowed = files.allow_read.iter().chain(&files.allow_write);
        for rule in allowed.filter(|rule| !rule.pattern.is_glob()) {
            match locate(rule.pattern.as_path()) {
                Ok(Location::Found(Found { path, .. })) => shown.push((path.clone(), path)),
                Ok(Location::Missing(path)) if rule.missing.creates() => shown.push((path.clone(), path)),
                _ => {}
            }
        }
        for mount in &files.mounts {
            if let Ok(Location::Found(found)) = locate(&mount.source) {
                shown.push((mount.target.clone(), found.path));
            }
        }
        shown.extend(files.tmpfs.iter().map(|tmpfs| (tmpfs.target.clone(), tmpfs.target.clone())));
        View { top: top.to_path_buf(), shown }
    }

    /// The host's files and folders that show, without the sandbox's own.
    fn of_host(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let is_own = |path: &Path| ["/proc", "/dev", "/sys", "/tmp"].iter().any(|own| Path::new(own) == path);
        let shown = self.shown.iter().map(|(inside, host)| (inside.as_path(), host.as_path()));
        shown.filter(move |(inside, host)| inside != host || !is_own(inside))
    }

    /// What of the host's shows at a path inside, and what of the path is left below it.
    fn shown_at<'p>(&self, inside: &'p Path) -> Option<(&Path, &'p Path)> {
        let above = self.shown.iter().filter_map(|(at, host)| Some((host, inside.strip_prefix(at).ok()?)));
        above.min_by_key(|(_, rest)| rest.components().count()).map(|(host, rest)| (host.as_path(), rest))
    }

    /// The host's path of what a path inside names, which has no links.
    fn host_path(&self, inside: &Path) -> PathBuf {
        match self.shown_at(inside) {
            Some((host, rest)) => join(host, rest),
            None => self.in_root(inside),
        }
    }

    /// The same in the root's folder, whatever shows there.
    fn in_root(&self, inside: &Path) -> PathBuf {
        join(&self.top, inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Where a host's path in the root's folder is inside.
    fn inside(&self, host: &Path) -> Option<PathBuf> {
        host.strip_prefix(&self.top).ok().map(|rest| join(Path::new("/"), rest))
    }

    /// Where a path leads, as the command sees it, and the links on the way.
    fn way(&self, path: &Path) -> (PathBuf, Vec<PathBuf>) {
        let mut links = Vec::new();
        let end = along::<Infallible>(path, |here| {
            let target = std::fs::read_link(self.host_path(here)).ok();
            links.extend(target.iter().map(|_| here.to_path_buf()));
            ControlFlow::Continue(target)
        });
        match end {
            ControlFlow::Continue(end) => (end, links),
            ControlFlow::Break(never) => match never {},
        }
    }

    fn lead(&self, path: &Path) -> PathBuf {
        self.way(path).0
    }

    /// The host's path of the folder that a link in the root's folder leads to.
    pub(super) fn folder_behind(&self, link: &Path) -> Option<PathBuf> {
        let place = self.host_path(&self.lead(&self.inside(link)?));
        let found = locate_plain(&place).ok().flatten()?;
        (found.kind == Kind::Folder).then_some(found.path)
    }

    /// Whether a path leads to a folder inside.
    fn is_folder(&self, path: &Path) -> bool {
        let found = locate_plain(&self.host_path(&self.lead(path)));
        found.is_ok_and(|found| found.is_some_and(|found| found.kind == Kind::Folder))
    }
}

fn join(folder: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { folder.to_path_buf() } else { folder.join(rest) }
}

/// A root file system that was looked at, and what the rules say of what is in it.
pub(super) struct Root {
    found: Found,
    /// The path that was named.
    named: PathBuf,
    reason: String,
    layer: bool,
    lacks: Option<String>,
    view: View,
    rules: rules::RootRules,
}

/// Looks at the root's folder, and turns the rules of `policy` into those of a sandbox in which nothing of the host's exists but
/// what is listed, and those of the root.
pub(super) fn translate(policy: &Policy, rootfs: &RootFs) -> Result<(Policy, Root), ResolveError> {
    let (path, reason) = (&rootfs.path, format!("rootfs {} ({})", shown(&rootfs.path), rootfs.origin));
    let unfit = |path: &Path, what| ResolveError::Unfit { rule: reason.clone(), path: path.into(), what };
    let found = match locate(path).map_err(system_error(&reason, path))? {
        Location::Found(found) if found.path == Path::new("/") => {
            return Err(unfit(path, "is the host's own root\nhelp: drop `files.rootfs`"));
        }
        Location::Found(found) if found.kind == Kind::Folder => found,
        Location::Found(_) => return Err(unfit(path, "not a directory")),
        Location::Missing(path) => return Err(unfit(&path, "no such file or directory")),
        Location::Forbidden => return Err(ResolveError::Forbidden { rule: reason, path: path.clone() }),
    };
    let mut layer = rootfs.write == RootFsWrite::Layer;
    let mut lacks = None;
    if let (true, Some(mount)) = (layer, mounted_below(&found.path, &reason)?) {
        let error = ResolveError::MountedInRoot { rule: reason.clone(), mount };
        if !policy.best_effort {
            return Err(error);
        }
        layer = false;
        let text = error.to_string();
        lacks = Some(format!("a writable root: {}", text.lines().next().unwrap_or_default()));
    }
    let view = View::new(&found.path, policy);
    if let Some((inside, _)) = view.of_host().find(|(_, host)| host.starts_with(&found.path)) {
        const IN_ITSELF: &str = "is in the folder of the root file system\n\
             help: paths in rules are those inside; the folder's files show there already";
        return Err(unfit(inside, IN_ITSELF));
    }
    let rules = rules::RootRules::of(&policy.files, &view, layer)?;
    let files = FilePolicy {
        rootfs: None,
        reads: ReadModel::Listed,
        system: false,
        // The root has one of its own.
        host_run: true,
        deny_read: rules.host_deny_read.clone(),
        deny_write: rules.host_deny_write.clone(),
        ..policy.files.clone()
    };
    let named = path.clone();
    Ok((Policy { files, ..policy.clone() }, Root { found, named, reason, layer, lacks, view, rules }))
}

/// A mount of the host's below the folder: the kernel lays nothing over a tree that hides something by a mount, and does not
/// say why.
fn mounted_below(top: &Path, reason: &str) -> Result<Option<PathBuf>, ResolveError> {
    let table = mounts::table().map_err(system_error(reason, top))?;
    let points = mounts::mounts(&table).map(|mount| mount.point());
    Ok(points.into_iter().find(|point| point != top && point.starts_with(top)))
}

impl Resolver<'_> {
    /// Says what the rules say of the root's own files, by their paths on the host.
    pub(super) fn say_root(&mut self, root: &Root) -> Result<(), ResolveError> {
        if root.named != root.found.path {
            self.refuse_planted(&root.reason, &root.named, &root.found.path)?;
        }
        self.admit_source(&root.reason, &root.found.path, root.found.identity.device)?;
        // Under a path of the host's it would show without the rules that are about the root, and could be written.
        let top = root.found.path.clone();
        self.say(List::DenyRead, root.found.clone(), NOT_TWICE.clone());
        self.at(&top).always_hidden = true;
        self.hides_always = true;
        for rules::Denied { list, found, reason } in &root.rules.denied {
            self.say(*list, found.clone(), reason.clone());
        }
        self.loose.extend(root.rules.absent.iter().map(rules::Absent::as_loose));
        Ok(())
    }
}

impl ResolvedRoot {
    /// The variables of a command in this root: its home is one that exists inside, and its search path has the folders that
    /// every distribution has.
    pub fn settle_variables(
        &self,
        variables: &mut Vec<(std::ffi::OsString, std::ffi::OsString)>,
        is_set: impl Fn(&str) -> bool,
    ) {
        use std::os::unix::ffi::OsStrExt;
        const FOLDERS: [&str; 6] =
            ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        if !is_set("HOME")
            && let Some((_, home)) = variables.iter_mut().find(|(name, _)| name == "HOME")
            && !self.view.is_folder(Path::new(&*home))
        {
            *home = "/tmp".into();
        }
        if is_set("PATH") {
            return;
        }
        if variables.iter().all(|(name, _)| name != "PATH") {
            variables.push(("PATH".into(), "".into()));
        }
        let Some((_, path)) = variables.iter_mut().find(|(name, _)| name == "PATH") else { return };
        for folder in FOLDERS {
            if path.as_bytes().split(|byte| *byte == b':').any(|known| known == folder.as_bytes()) {
                continue;
            }
            if !path.is_empty() {
                path.push(":");
            }
            path.push(folder);
        }
    }
}

fn source(found: &Found) -> Source {
    found.clone().into()
}

fn told(list: List, rule: &kennel_policy::policy::PathRule) -> Reason {
    list.describe(rule).into()
}
