//! What a policy means on a disk: the paths at which the answer changes, and names that hold whether they exist or not.
//!
//! The steps are kennel's on every system ([`kennel_resolve`]); this room adds what only a Mac has. A test compares what comes
//! of it with what Linux makes of the same policies, on thousands of them.

mod created;
mod kept;
mod points;
mod private_home;
mod repositories;
mod sockets;
mod special;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::{Component, Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{Missing, NetworkMode, PathRule, Policy, Precedence, ReadModel, TmpMode};
use kennel_resolve::disk::{FileIdentity, Found, Kind, Location};
use kennel_resolve::precedence::{self, List, PathAccess, Reason};
use kennel_resolve::resolver::{self, Glob, PathResolver, System};

use super::disk::MacDisk;
use super::error::{ResolveError, system_error};
pub use sockets::{SocketPath, Sockets};
pub use special::{SYSTEM, SystemPath};

/// What a policy depends on besides the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// The folders that may be the caller's home, the one that `HOME` says first.
    pub homes: Vec<PathBuf>,
    /// What `XDG_CONFIG_HOME` says, if it is absolute.
    pub config: Option<PathBuf>,
    /// The fresh folder that the command has for temporary files (`TMPDIR`), where the policy wants a private one.
    pub tmp: Option<PathBuf>,
    /// The user's own folder for temporary files: `confstr(_CS_DARWIN_USER_TEMP_DIR)`.
    pub user_temp: Option<PathBuf>,
    /// The folders of the command's `PATH`.
    pub path: Vec<PathBuf>,
    /// The folder of the developer tools that git, cc and python3 lead to: `xcode-select -p`.
    pub developer: Option<PathBuf>,
}

/// Whether missing folders are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFolders {
    /// They are.
    Create,
    /// The profile is only looked at: nothing is made on the disk.
    Plan,
}

/// What can be done at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// A path at which what the sandbox may do changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The path, without links.
    pub path: PathBuf,
    /// What can be done from here on down.
    pub access: Access,
    /// The nearest folder that exists, where nothing stands here now. A denied name holds all the same.
    pub nearest: Option<PathBuf>,
    /// The rule behind it.
    pub reason: Reason,
}

/// A glob that denies: what matches it later is denied too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedPattern {
    /// The glob, with the links in front of its first star followed.
    pub pattern: PathPattern,
    /// A path that it could match first: the folder in front of its first star, and something in it.
    pub inside: PathBuf,
    /// The nearest folder that exists on the way there.
    pub nearest: PathBuf,
    /// What it takes away.
    pub denies: Denial,
    /// The rule behind it.
    pub reason: Reason,
}

/// What a glob takes away from what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Reading and writing.
    Everything,
    /// Reading alone: what comes later can be made.
    Reading,
    /// Writing.
    Writing,
}

/// What a policy means on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Where the answer changes, parents before children.
    pub points: Vec<Point>,
    /// Globs that deny.
    pub patterns: Vec<DeniedPattern>,
    /// Which reads are allowed where no point says otherwise.
    pub reads: ReadModel,
    /// Whether names that differ in case or in the form of their accents are the same here.
    pub folds_names: bool,
    /// Folders that do not exist on the way to denied names: they cannot be made, since a prepared one could be moved there.
    pub missing_folders: BTreeSet<PathBuf>,
    /// Folders whose names can be asked for, if nothing denies it, though not read: those of `PATH`.
    pub metadata: Vec<PathBuf>,
    /// Devices besides those that every sandbox has.
    pub devices: Vec<PathBuf>,
    /// The user's own folder for temporary files, which the developer tools keep a database in.
    pub user_temp: Option<PathBuf>,
    /// The command's own folder for temporary files.
    pub tmp: Option<PathBuf>,
    /// Which unix sockets can be reached or made.
    pub sockets: Sockets,
    /// Mach services that the policy adds.
    pub mach_services: Vec<String>,
    /// Where the command starts; `None` when the caller's folder is not there or hidden.
    pub workdir: Option<PathBuf>,
}

impl Resolved {
    /// What can be done at a path without links, by the nearest point at or above it; globs that deny are not asked.
    #[must_use]
    pub fn access(&self, path: &Path) -> Access {
        let at = |above: &Path| {
            let found = self
                .points
                .binary_search_by(|point| precedence::key(&point.path).cmp(&precedence::key(above)));
            found.ok().map(|at| self.points[at].access)
        };
        path.ancestors().find_map(at).unwrap_or(match self.reads {
            ReadModel::Open => Access::Read,
            ReadModel::Listed => Access::None,
        })
    }

    /// The folders that can be written, none of them in another.
    #[must_use]
    pub fn write_roots(&self) -> Vec<&Path> {
        let written = self.points.iter().filter(|point| point.access == Access::Write);
        let mut roots: Vec<&Path> = written.map(|point| point.path.as_path()).collect();
        roots.dedup_by(|later, earlier| later.starts_with(*earlier));
        roots
    }
}

/// A part of the tree that is not the host's as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    /// `/` when only what is listed exists.
    Root,
    /// The shared folders for temporary files.
    Tmp,
    /// `/var/run`, where the host's daemons listen.
    Run,
    /// `/dev`, of which every sandbox has a few.
    Dev,
    /// A home of the caller's or of others.
    Home,
}

impl precedence::Zone for Zone {
    fn is_read_only(self) -> bool {
        false
    }
}

impl Zone {
    fn reason(self) -> &'static str {
        match self {
            Zone::Root => "only listed paths exist",
            Zone::Tmp => "/tmp is private by default",
            Zone::Run => "/var/run is hidden by default",
            Zone::Dev => "every sandbox has a minimal set of devices",
            Zone::Home => "the home is private (files.home)",
        }
    }
}

type PathRules = resolver::PathRules<Seatbelt>;

/// What macOS adds to the steps that all systems share.
struct Seatbelt;

impl System for Seatbelt {
    type Zone = Zone;

    fn admit(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        rule: &PathRule,
        reason: &str,
        place: &Path,
        _found: Option<&Found>,
    ) -> Result<Option<List>, ResolveError> {
        special::admit(resolver, list, rule, reason, place)
    }

    fn admit_match(resolver: &PathResolver<'_, Self>, list: List, found: &Found) -> Option<List> {
        // What is provided for every sandbox is not what a glob means.
        (list.denies() || !special::is_zone(resolver, &found.path)).then_some(list)
    }

    /// A name that is denied holds by its text, whether something stands there or not.
    fn note_absent(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        path: PathBuf,
        reason: Reason,
        _missing: Missing,
    ) {
        let said = resolver.at(&path);
        let slot = match list {
            List::DenyRead => &mut said.deny_read,
            List::DenyWrite => &mut said.deny_write,
            List::AllowRead | List::AllowWrite => return,
        };
        slot.get_or_insert(reason);
    }

    /// By the name that was written too: should a link on the way become a folder, the rule is about what is in it. What is only
    /// written in a roundabout way has no other name.
    fn note_written(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        rule: &PathRule,
        path: &Path,
        reason: &str,
    ) {
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        if is_plain && rule.missing != Missing::Ignore && !resolver.disk.links_on_the_way(path).is_empty() {
            Self::note_absent(resolver, list, path.to_path_buf(), reason.to_owned().into(), rule.missing);
        }
    }

    fn note_unmade(resolver: &mut PathResolver<'_, Self>, rule: &PathRule, path: PathBuf, reason: String) {
        let kind = if rule.missing == Missing::CreateFile { Kind::File } else { Kind::Folder };
        let found = Found { path, kind, identity: FileIdentity::default(), links: 1 };
        resolver.note_named(rule, &found);
        resolver.say(List::AllowWrite, found, reason);
    }
}

struct Resolver<'a> {
    paths: PathResolver<'a, Seatbelt>,
    /// The disk, with what only a Mac's is asked.
    mac: &'a dyn MacDisk,
    around: &'a Surroundings,
    /// Globs that deny.
    patterns: Vec<DeniedPattern>,
    devices: Vec<PathBuf>,
    missing_folders: MissingFolders,
}

impl<'a> Deref for Resolver<'a> {
    type Target = PathResolver<'a, Seatbelt>;

    fn deref(&self) -> &Self::Target {
        &self.paths
    }
}

impl DerefMut for Resolver<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.paths
    }
}

/// Finds out what `policy` means on `disk`.
///
/// # Errors
/// When a rule cannot be kept, or the disk cannot be looked at.
pub fn resolve(
    policy: &Policy,
    around: &Surroundings,
    disk: &dyn MacDisk,
    missing_folders: MissingFolders,
) -> Result<Resolved, ResolveError> {
    let files = &policy.files;
    special::refuse_what_needs_mounts(files)?;
    let mut resolver = Resolver {
        paths: PathResolver::new(Seatbelt, disk, files, &around.cwd),
        mac: disk,
        around,
        patterns: Vec::new(),
        devices: Vec::new(),
        missing_folders,
    };
    let asked = policy.process.workdir.as_deref();
    let start = disk.locate(asked.unwrap_or(&around.cwd));
    if let Ok(Location::Found(found)) = &start {
        resolver.workdir = Some(found.path.clone());
    }
    resolver.create_missing()?;
    resolver.zones()?;
    resolver.list(List::DenyRead, &files.deny_read)?;
    resolver.list(List::AllowRead, &files.allow_read)?;
    resolver.list(List::AllowWrite, &files.allow_write)?;
    resolver.list(List::DenyWrite, &files.deny_write)?;
    resolver.mounts()?;
    resolver.say_through_links()?;
    resolver.private_home()?;
    let globs = resolver.globs()?;
    resolver.deny_patterns(&globs);
    let kept = resolver.kept_names();
    let looked = resolver.search(&globs, kept.as_ref())?;
    resolver.refuse_homes(&around.homes)?;
    resolver.keep_repositories(&looked.repositories)?;
    resolver.keep_names(&looked.kept)?;
    resolver.keep_own_settings(&around.homes, around.config.clone())?;
    resolver.deny_other_names()?;
    let sockets = resolver.sockets(policy)?;
    let workdir = resolver.workdir(asked, start)?;
    resolver.private_tmp()?;
    if files.reads == ReadModel::Listed && files.system {
        resolver.system()?;
    }
    if policy.network.mode != NetworkMode::None {
        resolver.name_servers()?;
    }
    resolver.check_effects()?;
    resolver.check_links_to_denied()?;
    resolver.devices()?;
    let mut points = resolver.points();
    resolver.hold_links(&mut points);
    resolver.check_hard_links()?;
    points.sort_by_cached_key(|point| precedence::key(&point.path));
    points.dedup_by(|later, earlier| {
        let same = later.path == earlier.path;
        if same && later.access < earlier.access {
            std::mem::swap(later, earlier);
        }
        same
    });
    if let (Some(path), Some(_)) = (&workdir, asked)
        && !resolver.is_visible(path)
    {
        let (rule, path): (_, PathBuf) = ("workdir".into(), path.clone());
        return Err(ResolveError::Unfit { rule, path, what: "does not exist inside: a rule hides it" });
    }
    let workdir = workdir.filter(|path| resolver.is_visible(path) || resolver.is_there(&points, path));
    let workdir = match workdir {
        Some(path) => Some(path),
        None => resolver.start_instead(&policy.process.start_instead)?,
    };
    let missing_folders = resolver.missing_ancestors(&points);
    let metadata = resolver.metadata()?;
    let user_temp = resolver.canonical(around.user_temp.as_deref())?;
    let tmp = resolver.canonical(around.tmp.as_deref())?;
    Ok(Resolved {
        tmp,
        mach_services: policy.process.mach_services.clone(),
        patterns: resolver.patterns,
        reads: files.reads,
        folds_names: resolver.paths.said.iter().any(|(path, _)| disk.folds_names(path)),
        missing_folders,
        metadata,
        devices: resolver.devices,
        user_temp,
        sockets,
        workdir,
        points,
    })
}

impl Resolver<'_> {
    /// Where a folder of the surroundings is, if it is there.
    fn canonical(&self, path: Option<&Path>) -> Result<Option<PathBuf>, ResolveError> {
        let Some(path) = path else { return Ok(None) };
        Ok(match self.locate("the caller's folders", path)? {
            Location::Found(found) => Some(found.path),
            _ => None,
        })
    }

    /// Takes note of the globs that deny: what matches one later is denied too.
    fn deny_patterns(&mut self, globs: &[Glob]) {
        for Glob { list, rule, pattern } in globs.iter().filter(|glob| glob.list.denies()) {
            let denies = match list {
                List::DenyWrite => Denial::Writing,
                // What is not there yet can be made.
                _ if rule.missing == Missing::Ignore => Denial::Reading,
                _ => Denial::Everything,
            };
            let (inside, nearest) =
                (pattern.literal_prefix().join("*"), self.nearest(pattern.literal_prefix()));
            let (pattern, reason) = (PathPattern::clone(pattern), list.describe(rule).into());
            self.patterns.push(DeniedPattern { pattern, inside, nearest, denies, reason });
        }
    }

    /// The nearest folder at or above a path without links that exists.
    fn nearest(&self, path: &Path) -> PathBuf {
        let there = path.ancestors().find(|above| self.disk.look(above).is_ok());
        there.unwrap_or(Path::new("/")).to_path_buf()
    }

    /// Whether a path shows.
    fn is_visible(&self, path: &Path) -> bool {
        matches!(self.verdict(path), PathAccess::Host { .. })
    }

    /// A hidden folder in which something shows is there all the same, and srt's commands start in it.
    fn is_there(&self, points: &[Point], path: &Path) -> bool {
        self.files.precedence == Precedence::DenyWrite
            && points.iter().any(|point| match point.access {
                Access::None => point.nearest.is_none() && point.path == path,
                Access::Read | Access::Write => point.path.starts_with(path),
            })
    }

    fn start_instead(&self, folders: &[PathBuf]) -> Result<Option<PathBuf>, ResolveError> {
        for folder in folders {
            if let Location::Found(found) = self.locate("start_instead", folder)?
                && found.kind == Kind::Folder
                && self.is_visible(&found.path)
            {
                return Ok(Some(found.path));
            }
        }
        Ok(None)
    }

    /// The command's folder shows, if only to be read, even where a zone would hide it.
    fn workdir(
        &mut self,
        asked: Option<&Path>,
        start: std::io::Result<Location>,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let path = asked.unwrap_or(&self.around.cwd);
        if let (Some(asked), Ok(Location::Found(found))) = (asked, &start)
            && found.path != asked
            && !self.is_open(List::AllowRead, &found.path)
        {
            self.refuse_planted("workdir", asked, &found.path)?;
        }
        match start.map_err(system_error("workdir", path))? {
            Location::Found(found) if found.kind == Kind::Folder => {
                let place = found.path.clone();
                if self.files.reads == ReadModel::Open && !special::is_zone(self, &place) {
                    let said = self.at(&place);
                    said.workdir = true;
                    said.found = Some(found);
                }
                Ok(Some(place))
            }
            Location::Found(_) => Err(ResolveError::Unfit {
                rule: "workdir".into(),
                path: path.to_path_buf(),
                what: "not a directory",
            }),
            Location::Missing(path) if asked.is_some() => {
                Err(ResolveError::Missing { rule: "workdir".into(), path })
            }
            _ => Ok(None),
        }
    }

    fn zones(&mut self) -> Result<(), ResolveError> {
        let mut zones = vec![(Some(Path::new("/dev")), Zone::Dev)];
        if self.files.tmp == TmpMode::Private {
            zones.extend([
                (Some(Path::new("/tmp")), Zone::Tmp),
                (self.around.user_temp.as_deref(), Zone::Tmp),
            ]);
        }
        if !self.files.host_run {
            zones.push((Some(Path::new("/var/run")), Zone::Run));
        }
        if self.files.reads == ReadModel::Listed {
            zones.push((Some(Path::new("/")), Zone::Root));
        }
        for (path, zone) in zones {
            if let Some(path) = self.canonical(path)? {
                self.at(&path).zone = Some(zone);
            }
        }
        Ok(())
    }
}
