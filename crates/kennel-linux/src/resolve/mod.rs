//! What a policy means on this disk, now: the only room that looks at the live file system.
//!
//! Every rule becomes a *point*: a path free of symlinks, what stands there, and what the sandbox may do from there
//! down. The most specific rule wins, at a tie the deny, and a write rule never undoes a deny of reading.

mod caches;
pub mod created;
pub(crate) mod crew;
mod disk;
pub(crate) mod folder;
pub mod git;
pub mod gpus;
pub mod guard_rules;
mod guarded;
mod kept;
pub mod known;
mod locate;
mod names;
mod path_rules;
mod placed;
mod points;
mod private_home;
mod rootfs;
mod second_mounts;
mod special;
mod stand_ins;
mod sys;
pub(crate) mod told;
mod too_many;
pub(crate) mod walk;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use kennel_init::plan::Identity;
use kennel_policy::policy::{NestedNamespaces, NetworkMode, Policy, Precedence, ReadModel};
use kennel_policy::users::User;
pub use kennel_resolve::error::ResolveError;
pub use kennel_resolve::precedence::Reason;
use kennel_resolve::precedence::key;
pub use kennel_resolve::resolver::OWN_SETTINGS;
use kennel_resolve::resolver::PathResolver;

use crate::caches::Layers;
use crate::home::homes;
use crate::users::files;
use created::MissingFolders;
pub(crate) use created::unmake;
use disk::HostDisk;
use guard_rules::Rules;
use known::Handback;
pub(crate) use locate::open_strictly;
pub use locate::{Found, Kind, Location, is_link, links_on_the_way, locate};
pub use path_rules::SYSTEM;
use path_rules::{Linux, List, Resolver};
use points::pin;
pub use rootfs::{Made, ResolvedRoot};
use special::KernelMounts;
pub use special::OWN_DEVICES;
pub use walk::{MAX_ENTRIES, WalkError};

/// With more entries of folders than this among what can be written, the guard is there to tell whether the sandbox
/// made any name: without one, all of it is looked through when the run is over.
const MANY_ENTRIES: usize = 2000;

/// What a policy means on this disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Where the answer changes, parents before children.
    pub points: Vec<Point>,
    /// Symlinks to make inside, where the tree is made anew.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Files that show other contents than the host's: the path without symlinks, and the contents.
    pub covers: Vec<(PathBuf, &'static str)>,
    /// Rules with nothing to mount on: denied paths that do not exist and could be made, and unix sockets by path.
    pub guard: Rules,
    /// Folders that can be written in which no links are to be made: what a worktree shares with the host's.
    pub without_links: BTreeSet<PathBuf>,
    /// Settings of git's that may run files which cannot be told from them, in words.
    pub not_understood: Vec<String>,
    /// What has to be looked through for repositories when the run is over.
    pub handback: Option<Arc<Handback>>,
    /// Where the command starts; `None` when its folder does not exist inside.
    pub workdir: Option<PathBuf>,
    /// Files that hold a copy of the host's, where its own could not be shown without more.
    pub written: Vec<WrittenFile>,
    /// Whether the caller is the owner of what is the kernel's own in /proc, as root is: permissions keep nobody else from it.
    pub owns_kernel: bool,
    /// What is made for a root file system of its own, if it has one.
    pub root: Option<ResolvedRoot>,
    /// Whether the command makes namespaces of its own, whose maps it writes in /proc.
    pub nested: bool,
    /// The files that name several users.
    pub user_files: Vec<UserFile>,
    /// The layers of caches that the run holds until it is over.
    pub layers: Option<Arc<Layers>>,
    /// Why there are none, though the policy asks for them.
    pub without_layers: Option<String>,
    /// What was made on the disk because rules ask for it, in that order.
    pub made: Vec<(PathBuf, Kind)>,
}

/// A file that is made inside with a copy of the host's, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its path inside, without symlinks.
    pub path: PathBuf,
    /// What it holds.
    pub contents: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Why it is there.
    pub reason: Reason,
}

/// A file that names the users of a sandbox with several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFile {
    /// Its path inside, without symlinks.
    pub path: PathBuf,
    /// What it holds.
    pub contents: String,
    /// Whether the host's would show there.
    pub exists: bool,
}

/// A path at which what the sandbox may do changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The path inside.
    pub path: PathBuf,
    /// What stands there from here on down.
    pub state: State,
    /// The rule behind it, in the user's words.
    pub reason: Reason,
}

impl Point {
    /// Whether something of the host's kernel is hidden here, which no rule has to say.
    #[must_use]
    pub fn hides_the_kernel(&self) -> bool {
        self.reason == special::HOSTS_KERNEL
    }
}

/// What stands at a point and below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The host's files.
    Host {
        /// Which.
        source: Source,
        /// Whether they can be written.
        write: bool,
    },
    /// The host's files are hidden.
    Hidden {
        /// Folder or file.
        kind: Kind,
    },
    /// Something that kennel makes.
    Fresh(Zone),
    /// A device of the host's.
    Device(Source),
    /// A folder of the host's with a layer above it, which takes what is written: the root.
    Layer(Source),
    /// The cache of a tool, with a layer that takes what is written.
    Cache {
        /// The host's, which shows below the layer.
        lower: Option<Source>,
        /// The layer; without the host's the part of it that stands there alone.
        layer: Source,
    },
    /// A part of the layered root that stays as it is.
    Frozen {
        /// Folder, file or link.
        kind: Kind,
    },
    /// A file that shows something else than the host's.
    Masked {
        /// The file, as the policy names it.
        file: PathBuf,
    },
}

/// A place on the host to mount from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path without symlinks.
    pub path: PathBuf,
    /// Folder or file.
    pub kind: Kind,
    /// Which file it is.
    pub identity: Identity,
}

/// A part of the tree that kennel makes anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// `/` when only what is listed exists.
    Root,
    /// `/dev`.
    Dev,
    /// `/proc`.
    Proc,
    /// `/sys`.
    Sys,
    /// `/tmp`.
    Tmp,
    /// `/run`.
    Run,
    /// The caller's home, or a part of it elsewhere.
    Home,
    /// A place of users' data that is not the caller's home.
    Closed {
        /// What is there.
        why: &'static str,
    },
    /// A folder of the host's whose entries all show, and in which a mount needs a place that does not exist.
    Rebuilt,
    /// A file system in memory that the user asked for.
    Memory {
        /// The most bytes it holds.
        size: Option<u64>,
    },
}

/// Finds out what `policy` means on this disk for a caller whose working directory is `cwd`. `layers` are those of caches that an
/// earlier look took for the same sandbox.
pub fn resolve(
    policy: &Policy,
    cwd: &Path,
    missing_folders: MissingFolders,
    layers: Option<Arc<Layers>>,
) -> Result<Resolved, ResolveError> {
    let hiding_secrets = stand_ins::hiding_secrets(policy);
    let policy = hiding_secrets.as_ref().unwrap_or(policy);
    let with_gpus = gpus::with_gpus(policy)?;
    let policy = with_gpus.as_ref().unwrap_or(policy);
    let made = Rc::default();
    let resolved = match &policy.files.rootfs {
        None => resolve_in(policy, cwd, missing_folders, layers, None, &made),
        Some(rootfs) => {
            let (policy, root) = rootfs::translate(policy, rootfs)?;
            resolve_in(&policy, cwd, missing_folders, layers, Some(root), &made)
        }
    };
    let made = made.take();
    match resolved {
        Ok(resolved) => Ok(Resolved { made, ..resolved }),
        Err(error) => {
            unmake(&made);
            Err(error)
        }
    }
}

/// As many settings of git's are told of.
const MAX_TOLD: usize = 16;

/// The same in a root file system, if there is one: `policy` is what is left to say of the host's files then.
fn resolve_in(
    policy: &Policy,
    cwd: &Path,
    missing_folders: MissingFolders,
    layers: Option<Arc<Layers>>,
    mut root: Option<rootfs::Root>,
    made: &Rc<RefCell<Vec<(PathBuf, Kind)>>>,
) -> Result<Resolved, ResolveError> {
    let files = &policy.files;
    let system = Linux { wall_time: policy.limits.wall_time, ..Linux::default() };
    let mut resolver = Resolver {
        paths: PathResolver::new(system, &HostDisk, files, cwd),
        rewritten: Vec::new(),
        without_links: BTreeSet::new(),
        not_understood: BTreeSet::new(),
        shared_repositories: Vec::new(),
        links: Vec::new(),
        table: OnceCell::new(),
        written: Vec::new(),
        missing_folders,
        made: Rc::clone(made),
        pending: Vec::new(),
        own_root: root.is_some(),
    };
    resolver.paths.system.kernel = KernelMounts::of(resolver.mount_table()?);
    let start = locate(policy.process.workdir.as_deref().unwrap_or(cwd));
    if let Ok(Location::Found(found)) = &start {
        resolver.workdir = Some(found.path.clone());
    }
    resolver.create_missing(policy)?;
    resolver.zones();
    resolver.list(List::DenyRead, &files.deny_read)?;
    resolver.list(List::AllowRead, &files.allow_read)?;
    resolver.list(List::AllowWrite, &files.allow_write)?;
    resolver.list(List::DenyWrite, &files.deny_write)?;
    let (caches, without_layers) = resolver.cache_layers(policy, layers);
    let several_users = !policy.process.users.is_empty();
    let closed = resolver.close_homes(several_users)?;
    resolver.say_through_links()?;
    resolver.show_home(&closed, several_users)?;
    if let Some(root) = &root {
        resolver.say_root(root)?;
    }
    let globs = resolver.globs()?;
    let kept = resolver.kept_names();
    let looked = resolver.search(&globs, kept.as_ref())?;
    too_many::found(&looked)?;
    let homes = if resolver.writes_anything() { homes() } else { Vec::new() };
    resolver.refuse_homes(&homes)?;
    let handback = resolver.keep_repositories(&looked.repositories)?;
    let names = resolver.keep_names(&looked.kept, &looked.told)?;
    let obeyed = names.as_ref().map(|names| resolver.guarded_names(names)).transpose()?;
    let handback = resolver.with_names(handback, names)?;
    resolver.keep_own_settings(&homes, git::absolute("XDG_CONFIG_HOME"))?;
    resolver.deny_other_names()?;
    resolver.deny_at_second_mounts()?;
    let sockets = resolver.sockets(policy)?;
    let workdir = if root.is_some() { None } else { resolver.workdir(policy, cwd, start)? };
    if files.reads == ReadModel::Listed && files.system {
        resolver.system();
    }
    if policy.network.mode != NetworkMode::None && root.is_none() {
        resolver.name_servers();
    }
    resolver.check_effects()?;
    for path in resolver.check_links_to_denied()? {
        resolver.links.extend(links_on_the_way(&path));
    }
    resolver.own_places(policy.network.mode == NetworkMode::Host)?;
    let mut points = resolver.points();
    resolver.mounts(&mut points)?;
    resolver.devices(&mut points)?;
    if let Some(caches) = &caches {
        resolver.caches(&mut points, caches)?;
    }
    let in_root = match &mut root {
        Some(root) => Some(resolver.root_points(&mut points, root, policy.network.mode)?),
        None => None,
    };
    resolver.hold_links(&mut points)?;
    resolver.check_hard_links()?;
    pin(&mut points)?;
    too_many::planned(&points)?;
    points.sort_by_cached_key(|point| key(&point.path));
    let mut guard = resolver.guarded(&points, sockets)?;
    // To look through a large tree when the run is over takes longer than to hear of each name that is made in it.
    guard.obeyed = obeyed;
    guard.hears_names = handback.is_some() && looked.entries > MANY_ENTRIES;
    let workdir = match &root {
        Some(root) => resolver.workdir_in_root(&points, root, policy.process.workdir.as_deref(), cwd)?,
        None => workdir,
    };
    if let (Some(path), Some(_), None) = (&workdir, &policy.process.workdir, &root)
        && !visible(&points, path)
    {
        let (rule, path): (_, PathBuf) = ("workdir".into(), path.clone());
        return Err(ResolveError::Unfit { rule, path, what: "does not exist inside: a rule hides it" });
    }
    // A hidden folder is there all the same, empty or with what is shown in it, and srt's commands start in it.
    let is_there = |path: &Path| {
        files.precedence == Precedence::DenyWrite
            && points.iter().any(|point| match point.state {
                State::Hidden { kind } => kind == Kind::Folder && point.path == path,
                State::Host { .. } => point.path.starts_with(path),
                _ => false,
            })
    };
    let is_seen = |path: &PathBuf| root.is_some() || visible(&points, path) || is_there(path);
    let workdir = workdir.filter(is_seen).or_else(|| {
        let instead = policy.process.start_instead.iter().filter_map(|path| match locate(path) {
            Ok(Location::Found(found)) if found.kind == Kind::Folder => Some(found.path),
            _ => None,
        });
        instead.into_iter().find(|path| visible(&points, path))
    });
    let (root, covers) = match in_root {
        Some((root, covers)) => (Some(root), covers),
        None if policy.network.mode.is_gated() => (None, covers(&points)),
        None => (None, Vec::new()),
    };
    // Root could write what is the whole kernel's in /proc; and since Linux 5.12 nobody without CAP_SETFCAP maps user 0.
    let nested = match (policy.process.nested, rustix::process::geteuid().is_root()) {
        _ if !policy.process.users.is_empty() => false,
        (NestedNamespaces::Denied, _) | (NestedNamespaces::AllowedIfPossible, true) => false,
        (NestedNamespaces::Allowed, true) => return Err(ResolveError::NestedAsRoot),
        (_, false) => true,
    };
    let (links, written, without_links) = (resolver.links, resolver.written, resolver.without_links);
    let handback = handback.map(Arc::new);
    let user_files = user_files(&policy.process.users, &points, root.as_ref());
    // Last: until here they are hidden like any other denied file, and stay so where the host replaces them.
    stand_ins::show(&mut points, policy, root.as_ref());
    Ok(Resolved {
        points,
        links,
        without_links,
        not_understood: resolver.not_understood.into_iter().take(MAX_TOLD).collect(),
        covers,
        guard,
        handback,
        workdir,
        written,
        owns_kernel: rustix::process::geteuid().is_root(),
        root,
        nested,
        user_files,
        layers: caches.and_then(|caches| caches.held()),
        without_layers,
        made: Vec::new(),
    })
}

impl Resolved {
    /// What can be written of the host's, none of it in another.
    #[must_use]
    pub fn write_roots(&self) -> Vec<&Source> {
        let written = self.points.iter().filter_map(|point| match &point.state {
            State::Host { source, write: true } => Some(source),
            _ => None,
        });
        let mut roots: Vec<&Source> = written.collect();
        roots.sort_by(|one, other| one.path.cmp(&other.path));
        roots.dedup_by(|later, earlier| later.path.starts_with(&earlier.path));
        roots
    }

    /// Whether some of the host's files can be written.
    #[must_use]
    pub fn writes_host(&self) -> bool {
        self.points.iter().any(|point| matches!(point.state, State::Host { write: true, .. }))
    }
}

impl Zone {
    /// Why it is there.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Zone::Root => "only listed paths exist",
            Zone::Dev => "every sandbox has a minimal /dev of its own",
            Zone::Proc => "every sandbox has a /proc of its own",
            Zone::Sys => "every sandbox has a /sys of its own",
            Zone::Tmp => "/tmp is private by default",
            Zone::Run => "/run is hidden by default",
            Zone::Home => "the home is private (files.home)",
            Zone::Closed { why } => why,
            Zone::Rebuilt => "makes room for a mount at a path that does not exist on the host",
            Zone::Memory { .. } => "an in-memory file system",
        }
    }
}

impl From<Found> for Source {
    fn from(found: Found) -> Source {
        Source { identity: locate::identity(&found), path: found.path, kind: found.kind }
    }
}

/// Where the files of a filtered network are. One that the host does not have, or that is hidden inside, needs none:
/// without it a C library asks 127.0.0.1 as well.
fn covers(points: &[Point]) -> Vec<(PathBuf, &'static str)> {
    let mut covers = Vec::new();
    for (path, contents) in crate::network::FILES {
        if let Ok(Location::Found(found)) = locate(Path::new(path))
            && found.kind == Kind::File
            && visible(points, &found.path)
            && !(*path == crate::network::SERVICES && crate::network::asks_only_dns(&found.path))
        {
            covers.push((found.path, *contents));
        }
    }
    covers
}

/// The longest list of users that is taken over.
const MAX_USER_FILE: usize = 1 << 20;

/// `/etc/passwd` and `/etc/group` with several users. Where a rule hides one, it stays hidden.
fn user_files(users: &[User], points: &[Point], root: Option<&ResolvedRoot>) -> Vec<UserFile> {
    let mut made = Vec::new();
    if users.is_empty() {
        return made;
    }
    type Make = fn(&[User], &str) -> String;
    let both: [(&str, Make); 2] = [("/etc/passwd", files::passwd), ("/etc/group", files::group)];
    for (name, make) in both {
        // The path inside, and where that is on the host.
        let found = match root {
            Some(root) => root.file(Path::new(name)),
            None => match locate(Path::new(name)) {
                Ok(Location::Found(found)) if found.kind == Kind::File => {
                    Some((found.path.clone(), found.path))
                }
                _ => None,
            },
        };
        let text = found.as_ref().and_then(|(_, host)| folder::read(rustix::fs::CWD, host, MAX_USER_FILE));
        let found = found.map(|(inside, _)| inside);
        let contents = make(users, &String::from_utf8_lossy(&text.unwrap_or_default()));
        let nearest =
            Path::new(name).ancestors().find_map(|above| points.iter().find(|point| point.path == above));
        let anew =
            nearest.is_some_and(|point| matches!(point.state, State::Fresh(Zone::Root | Zone::Rebuilt)));
        match found {
            Some(path) if visible(points, &path) => made.push(UserFile { path, contents, exists: true }),
            _ if anew => made.push(UserFile { path: name.into(), contents, exists: false }),
            _ => {}
        }
    }
    made
}

/// Whether a path exists inside, going by the nearest point at or above it.
fn visible(points: &[Point], path: &Path) -> bool {
    let nearest = path.ancestors().find_map(|above| points.iter().find(|point| point.path == above));
    match nearest {
        None => true,
        Some(point) => match point.state {
            State::Host { .. }
            | State::Device(_)
            | State::Layer(_)
            | State::Cache { .. }
            | State::Frozen { .. }
            | State::Masked { .. } => true,
            State::Hidden { .. } => false,
            State::Fresh(_) => point.path == path,
        },
    }
}
