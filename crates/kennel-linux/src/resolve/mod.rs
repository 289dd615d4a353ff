//! What a policy means on this disk, now: the only room that looks at the live file system.
//!
//! Every rule becomes a *point*: a path free of symlinks, what stands there, and what the sandbox may do from there
//! down. The most specific rule wins, at a tie the deny, and a write rule never undoes a deny of reading.

pub mod git;
mod guarded;
mod locate;
mod repositories;
mod tree;
mod walk;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_init::plan::Identity;
use kennel_policy::policy::{
    FilePolicy, Look, Missing, MountAccess, MountPoint, NetworkMode, PathRule, Policy, Precedence, ReadModel,
    TmpMode,
};

use crate::guard::Rules;
pub use locate::{Found, Kind, Location, is_link, locate};
use tree::Tree;
pub use walk::{MOST_ENTRIES, WalkError};
use walk::{Search, Seen};

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
    /// Where the command starts; `None` when its folder does not exist inside.
    pub workdir: Option<PathBuf>,
}

/// A path at which what the sandbox may do changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The path inside.
    pub path: PathBuf,
    /// What stands there from here on down.
    pub state: State,
    /// The rule behind it, in the user's words.
    pub reason: String,
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
    /// `/tmp`.
    Tmp,
    /// `/run`.
    Run,
    /// A folder of the host's whose entries all show, and in which a mount needs a place that does not exist.
    Rebuilt,
    /// A file system in memory that the user asked for.
    Memory {
        /// The most bytes it holds.
        size: Option<u64>,
    },
}

/// Why a policy has no meaning here.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// A listed path is not there.
    #[error(
        "resolving {rule}: {}: no such file or directory\nhelp: create it first, or mark the entry `missing = \"skip\"`",
        shown(.path)
    )]
    Missing {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
    },
    /// The caller may not look at a listed path.
    #[error("resolving {rule}: {}: permission denied", shown(.path))]
    Forbidden {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
    },
    /// A denied file can be reached under another name.
    #[error(
        "resolving {rule}: {} has {links} hard links, and not all of them are denied\n\
         help: deny its other names too (find them with `find / -samefile`), or give the file a copy of its own",
        shown(.path)
    )]
    HardLinks {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// How many.
        links: u32,
    },
    /// A mount would show what a rule hides.
    #[error("resolving {mount}: its source is hidden by {rule}\nhelp: drop one of the two rules")]
    HiddenSource {
        /// The mount.
        mount: String,
        /// The deny.
        rule: String,
    },
    /// Something is not what a rule needs it to be.
    #[error("resolving {rule}: {}: {what}", shown(.path))]
    Unfit {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is too much to look through.
    #[error(
        "looking for what globs match and for git repositories: {0}\n\
         help: start the pattern at a deeper folder, allow writing to a smaller one, or say `git = \"off\"`"
    )]
    Walk(#[from] WalkError),
    /// The system failed.
    #[error("resolving {rule}: {}: {source}", shown(.path))]
    System {
        /// The rule.
        rule: String,
        /// The path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// The four lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    DenyRead,
    AllowRead,
    AllowWrite,
    DenyWrite,
}

impl List {
    fn name(self) -> &'static str {
        match self {
            List::DenyRead => "deny_read",
            List::AllowRead => "allow_read",
            List::AllowWrite => "allow_write",
            List::DenyWrite => "deny_write",
        }
    }

    fn denies(self) -> bool {
        matches!(self, List::DenyRead | List::DenyWrite)
    }
}

/// What the rules say of one path.
#[derive(Clone, Debug, Default)]
struct Said {
    deny_read: Option<String>,
    allow_read: Option<String>,
    allow_write: Option<String>,
    deny_write: Option<String>,
    /// Shown inside because the command starts there.
    workdir: bool,
    zone: Option<Zone>,
    found: Option<Found>,
}

/// What holds at a path, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict<'a> {
    Hidden(&'a str),
    Fresh(Zone),
    Host { write: bool, reason: &'a str },
}

/// A deny whose path is not there, or is a link that can be replaced.
struct Loose {
    path: PathBuf,
    rule: String,
    link: bool,
}

struct Resolver<'a> {
    files: &'a FilePolicy,
    said: Tree<Said>,
    loose: Vec<Loose>,
    links: Vec<(PathBuf, PathBuf)>,
    /// What `allow_write` names itself, not by a glob, and where repositories are looked for in it.
    named: BTreeMap<PathBuf, Look>,
    /// Where the command starts.
    workdir: Option<PathBuf>,
}

/// Finds out what `policy` means on this disk for a caller whose working directory is `cwd`.
pub fn resolve(policy: &Policy, cwd: &Path) -> Result<Resolved, ResolveError> {
    let files = &policy.files;
    let mut resolver = Resolver {
        files,
        said: Tree::default(),
        loose: Vec::new(),
        links: Vec::new(),
        named: BTreeMap::new(),
        workdir: None,
    };
    if let Ok(Location::Found(found)) = locate(policy.process.workdir.as_deref().unwrap_or(cwd)) {
        resolver.workdir = Some(found.path);
    }
    resolver.zones();
    resolver.list(List::DenyRead, &files.deny_read)?;
    resolver.list(List::AllowRead, &files.allow_read)?;
    resolver.list(List::AllowWrite, &files.allow_write)?;
    resolver.list(List::DenyWrite, &files.deny_write)?;
    let looked = resolver.search()?;
    resolver.keep_repositories(&looked.repositories)?;
    resolver.keep_names(&looked.kept)?;
    let sockets = resolver.sockets(policy)?;
    let workdir = resolver.workdir(policy, cwd)?;
    if files.reads == ReadModel::Listed && files.system {
        resolver.system();
    }
    if policy.network.mode != NetworkMode::None {
        resolver.name_servers();
    }
    let mut points = resolver.points();
    resolver.mounts(&mut points)?;
    resolver.devices(&mut points)?;
    resolver.hold_links(&mut points)?;
    resolver.check_hard_links()?;
    pin(&mut points)?;
    let guard = resolver.guarded(&points, sockets)?;
    points.sort_by_cached_key(|point| tree::key(&point.path));
    if let (Some(path), Some(_)) = (&workdir, &policy.process.workdir)
        && !visible(&points, path)
    {
        let (rule, path) = ("workdir".into(), path.clone());
        return Err(ResolveError::Unfit { rule, path, what: "does not exist inside: a rule hides it" });
    }
    let workdir = workdir.filter(|path| visible(&points, path));
    let covers = if policy.network.mode == NetworkMode::Whitelist { covers(&points) } else { Vec::new() };
    Ok(Resolved { points, links: resolver.links, covers, guard, workdir })
}

/// The minimal system set of listed reads: what a dynamically linked program, a shell and an interpreter need.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java-17-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/sys/devices/system/cpu",
];

fn system_error(rule: &str, path: &Path) -> impl FnOnce(io::Error) -> ResolveError {
    let (rule, path) = (rule.to_owned(), path.to_path_buf());
    move |source| ResolveError::System { rule, path, source }
}

fn describe(list: List, rule: &PathRule) -> String {
    format!("{} {} ({})", list.name(), shown(rule.pattern.as_path()), rule.origin)
}

/// A path as it may be printed: a stranger may have chosen it.
fn shown(path: &Path) -> String {
    crate::describe::show(path.as_os_str().as_bytes())
}

impl Resolver<'_> {
    fn at(&mut self, path: &Path) -> &mut Said {
        self.said.at(path)
    }

    fn zones(&mut self) {
        let mut zones = vec![("/dev", Zone::Dev), ("/proc", Zone::Proc)];
        if self.files.tmp == TmpMode::Private {
            zones.push(("/tmp", Zone::Tmp));
        }
        if !self.files.host_run {
            zones.push(("/run", Zone::Run));
        }
        if self.files.reads == ReadModel::Listed {
            zones.push(("/", Zone::Root));
        }
        for (path, zone) in zones {
            self.at(Path::new(path)).zone = Some(zone);
        }
    }

    fn list(&mut self, list: List, rules: &[PathRule]) -> Result<(), ResolveError> {
        for rule in rules.iter().filter(|rule| !rule.pattern.is_glob()) {
            let (path, reason) = (rule.pattern.as_path(), describe(list, rule));
            if !rule.follow_link && is_link(path) {
                continue;
            }
            let location = locate(path).map_err(system_error(&reason, path))?;
            let straight = match &location {
                Location::Found(Found { path: place, .. }) | Location::Missing(place) => place == path,
                Location::Forbidden => true,
            };
            if !straight && list.denies() {
                self.hold_way(path, &reason);
            }
            // A folder on the way that is a link leads elsewhere just as the last one does.
            if !straight && !rule.follow_link {
                continue;
            }
            match location {
                Location::Found(found) => {
                    if list == List::AllowWrite {
                        let look = self.named.entry(found.path.clone()).or_insert(rule.look);
                        // Of several rules the one that looks most.
                        if rule.look == Look::Everywhere {
                            *look = Look::Everywhere;
                        }
                    }
                    if !straight && !list.denies() {
                        self.links.extend(locate::links_on_the_way(path));
                    }
                    self.say(list, found, &reason);
                }
                Location::Missing(path) if list.denies() && rule.missing == Missing::Skip => {
                    self.loose.push(Loose { path, rule: reason, link: false });
                }
                // What the caller may not look at, the sandbox, which is the same user, may not either.
                Location::Forbidden if list.denies() => {}
                _ if rule.missing != Missing::Error => {}
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden => {
                    return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() });
                }
            }
        }
        Ok(())
    }

    /// A link on the way to what is denied that is replaced would lead around the rule.
    fn hold_way(&mut self, path: &Path, rule: &str) {
        let links = locate::links_on_the_way(path).into_iter();
        self.loose.extend(links.map(|(path, _)| Loose { path, rule: rule.to_owned(), link: true }));
    }

    fn say(&mut self, list: List, found: Found, reason: &str) {
        let said = self.at(&found.path);
        let slot = match list {
            List::DenyRead => &mut said.deny_read,
            List::AllowRead => &mut said.allow_read,
            List::AllowWrite => &mut said.allow_write,
            List::DenyWrite => &mut said.deny_write,
        };
        slot.get_or_insert_with(|| reason.to_owned());
        said.found = Some(found);
    }

    /// Whether `path` already has what `list` gives, with no rule of another list in between.
    fn covered(&self, list: List, path: &Path) -> bool {
        self.said.upwards(path).next().is_some_and(|said| match list {
            List::DenyRead => said.deny_read.is_some(),
            List::AllowRead => said.allow_read.is_some() && said.deny_read.is_none(),
            List::AllowWrite => said.allow_write.is_some() && said.deny_write.is_none(),
            List::DenyWrite => said.deny_write.is_some(),
        })
    }

    /// The command's folder shows inside, if only to be read, even where a fresh zone would cover it.
    fn workdir(&mut self, policy: &Policy, cwd: &Path) -> Result<Option<PathBuf>, ResolveError> {
        let asked = policy.process.workdir.as_deref();
        let path = asked.unwrap_or(cwd);
        match locate(path).map_err(system_error("workdir", path))? {
            Location::Found(found) if found.kind == Kind::Folder => {
                let place = found.path.clone();
                if self.files.reads == ReadModel::Open {
                    let said = self.at(&place);
                    said.workdir = true;
                    said.found = Some(found);
                }
                Ok(Some(place))
            }
            // A target of a mount, or a folder of a fresh zone, exists only inside.
            Location::Missing(place) if asked.is_some() => Ok(Some(place)),
            Location::Found(_) => Err(ResolveError::Unfit {
                rule: "workdir".into(),
                path: path.to_path_buf(),
                what: "not a directory",
            }),
            _ => Ok(None),
        }
    }

    fn system(&mut self) {
        for path in SYSTEM.iter().map(Path::new) {
            if let Ok(Location::Found(found)) = locate(path) {
                self.links.extend(locate::links_on_the_way(path));
                self.say(List::AllowRead, found, "the minimal system set");
            }
        }
    }

    /// On many hosts /etc/resolv.conf is a link into /run, which is hidden: that one file shows through.
    fn name_servers(&mut self) {
        if let Ok(Location::Found(found)) = locate(Path::new("/etc/resolv.conf"))
            && found.path.starts_with("/run")
        {
            self.say(List::AllowRead, found, "the network needs /etc/resolv.conf");
        }
    }

    /// What holds at `path`: the first rule on the way up that decides.
    fn verdict(&self, path: &Path) -> Verdict<'_> {
        let mut opened = false;
        let mut read = None;
        for said in self.said.upwards(path) {
            let tie = self.files.precedence == Precedence::DenyWrite && said.allow_read.is_some();
            if let Some(rule) = said.deny_read.as_ref().filter(|_| !tie) {
                return Verdict::Hidden(rule);
            }
            if let Some(rule) = &said.allow_read {
                read = Some(rule.as_str());
                break;
            }
            opened |= said.allow_write.is_some() || said.workdir;
            if let Some(zone) = said.zone.filter(|_| !opened) {
                return Verdict::Fresh(zone);
            }
        }
        let mut allowed = None;
        for said in self.said.upwards(path) {
            if let Some(rule) = &said.deny_write {
                return Verdict::Host { write: false, reason: rule };
            }
            if let (None, Some(rule)) = (&allowed, &said.allow_write) {
                allowed = Some(rule);
                if self.files.precedence == Precedence::Specific {
                    break;
                }
            }
        }
        if let Some(rule) = allowed {
            return Verdict::Host { write: true, reason: rule };
        }
        let reason = read.unwrap_or_else(|| {
            let workdir = self.said.get(path).is_some_and(|said| said.workdir);
            if workdir { "the working directory" } else { "everything is readable by default" }
        });
        Verdict::Host { write: false, reason }
    }

    fn writes(&self, path: &Path) -> bool {
        matches!(self.verdict(path), Verdict::Host { write: true, .. })
    }

    /// One point for each path at which the verdict differs from that of the folder above.
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (path, said) in self.said.iter() {
            let verdict = self.verdict(path);
            let above = path.parent().map(|above| self.verdict(above));
            let same = match (&verdict, &above) {
                (Verdict::Hidden(_), Some(Verdict::Hidden(_))) => true,
                // What a fresh zone does not have needs no hiding; /dev and /proc have some of it.
                (Verdict::Hidden(_), Some(Verdict::Fresh(zone))) => !matches!(zone, Zone::Dev | Zone::Proc),
                (Verdict::Host { write: a, .. }, Some(Verdict::Host { write: b, .. })) => a == b,
                (Verdict::Fresh(a), Some(Verdict::Fresh(b))) => a == b,
                _ => false,
            };
            let under = path.parent().and_then(|above| self.said.upwards(above).find_map(|said| said.zone));
            let made_up = matches!(under, Some(Zone::Dev | Zone::Proc));
            if (same && said.zone.is_none()) || (made_up && !matches!(verdict, Verdict::Hidden(_))) {
                continue;
            }
            let (state, reason) = match (verdict, &said.found) {
                (Verdict::Fresh(zone), _) => (State::Fresh(zone), zone.reason().into()),
                (Verdict::Hidden(rule), Some(found)) => (State::Hidden { kind: found.kind }, rule.to_owned()),
                (Verdict::Host { write, reason }, Some(found)) => {
                    (State::Host { source: found.clone().into(), write }, reason.to_owned())
                }
                // A zone that a rule above opened again: it simply stays what the rule makes of it.
                (_, None) => continue,
            };
            points.push(Point { path: path.to_path_buf(), state, reason });
        }
        points
    }

    /// Host folders that appear at other places, and file systems in memory: outer ones first, so that one that is
    /// nested finds its place in the one around it.
    fn mounts(&mut self, points: &mut Vec<Point>) -> Result<(), ResolveError> {
        let files = self.files;
        let mounts = files.mounts.iter().map(|mount| (&mount.target, Some(mount), None));
        let tmpfs = files.tmpfs.iter().map(|tmpfs| (&tmpfs.target, None, Some(tmpfs)));
        let mut all: Vec<_> = mounts.chain(tmpfs).collect();
        all.sort_by_key(|(target, ..)| *target);
        for (target, mount, tmpfs) in all {
            if let Some(mount) = mount {
                self.mount(points, mount)?;
            }
            if let Some(tmpfs) = tmpfs {
                let reason = format!("tmpfs {} ({})", shown(target), tmpfs.origin);
                self.make_room(points, target, &reason)?;
                points.retain(|point| point.path != *target);
                let state = State::Fresh(Zone::Memory { size: tmpfs.size });
                points.push(Point { path: target.clone(), state, reason });
            }
        }
        Ok(())
    }

    /// A host folder that appears at another place, with the denies that hold for it.
    fn mount(&mut self, points: &mut Vec<Point>, mount: &MountPoint) -> Result<(), ResolveError> {
        let reason = format!("mount {} at {} ({})", shown(&mount.source), shown(&mount.target), mount.origin);
        let found = match locate(&mount.source).map_err(system_error(&reason, &mount.source))? {
            Location::Found(found) => found,
            Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
            Location::Forbidden => {
                return Err(ResolveError::Forbidden { rule: reason, path: mount.source.clone() });
            }
        };
        if let Verdict::Hidden(rule) = self.verdict(&found.path) {
            return Err(ResolveError::HiddenSource { mount: reason, rule: rule.to_owned() });
        }
        // The nearest rule about writing decides, as it does without the mount; where there is none, the mount.
        let denied = {
            let mut denied = self
                .said
                .upwards(&found.path)
                .filter(|said| said.deny_write.is_some() || said.allow_write.is_some())
                .map(|said| said.deny_write.is_some());
            match self.files.precedence {
                Precedence::Specific => denied.next().unwrap_or(false),
                Precedence::DenyWrite => denied.any(|denied| denied),
            }
        };
        let write = mount.access == MountAccess::ReadWrite && !denied;
        self.make_room(points, &mount.target, &reason)?;
        points.retain(|point| point.path != mount.target);
        for (path, said) in self.said.below(&found.path) {
            let Ok(below) = path.strip_prefix(&found.path) else { continue };
            let inside = mount.target.join(below);
            if let (Some(rule), Some(found)) = (&said.deny_read, &said.found) {
                let state = State::Hidden { kind: found.kind };
                points.push(Point { path: inside, state, reason: rule.clone() });
            } else if let (Some(rule), Some(found), true) = (&said.deny_write, &said.found, write) {
                let state = State::Host { source: found.clone().into(), write: false };
                points.push(Point { path: inside, state, reason: rule.clone() });
            }
        }
        points.push(Point {
            path: mount.target.clone(),
            state: State::Host { source: found.into(), write },
            reason,
        });
        Ok(())
    }

    /// Sees to it that a mount at `target` has a place to stand on. One that does not exist on the host cannot be
    /// made in a read-only tree, and must not be made in a writable one: the nearest folder above it is built anew,
    /// with all its entries, in memory.
    fn make_room(&mut self, points: &mut Vec<Point>, target: &Path, rule: &str) -> Result<(), ResolveError> {
        let unfit = |what| ResolveError::Unfit { rule: rule.into(), path: target.to_path_buf(), what };
        if target == Path::new("/") {
            return Err(unfit("the root itself cannot be mounted over"));
        }
        let nearest =
            target.ancestors().skip(1).find_map(|above| points.iter().find(|point| point.path == above));
        let writable = match nearest.map(|point| (point, &point.state)) {
            None => false,
            Some((outer, State::Host { source, .. })) if source.path != outer.path => {
                let rest = target.strip_prefix(&outer.path).unwrap_or(target);
                let place = source.path.join(rest);
                return match locate(&place).map_err(system_error(rule, &place))? {
                    Location::Found(found) if found.path == place => Ok(()),
                    Location::Found(_) => Err(unfit("leads through a symlink; name the place it points to")),
                    _ => {
                        Err(unfit("does not exist in the folder that is mounted around it; create it first"))
                    }
                };
            }
            Some((_, State::Host { write, .. })) => *write,
            Some(_) => return Ok(()),
        };
        match locate(target).map_err(system_error(rule, target))? {
            Location::Found(found) if found.path == target => return Ok(()),
            Location::Found(_) => return Err(unfit("leads through a symlink; name the place it points to")),
            _ if writable => {
                return Err(unfit(
                    "does not exist, and making it would leave it on the host; create it first",
                ));
            }
            _ => {}
        }
        let mut folder = target.parent();
        while let Some(path) = folder.filter(|path| !path.is_dir()) {
            folder = path.parent();
        }
        let folder = folder.unwrap_or(Path::new("/")).to_path_buf();
        let entries = std::fs::read_dir(&folder).map_err(system_error(rule, &folder))?;
        let zone = if folder == Path::new("/") { Zone::Root } else { Zone::Rebuilt };
        points.retain(|point| point.path != folder);
        points.push(Point { path: folder.clone(), state: State::Fresh(zone), reason: rule.to_owned() });
        for (index, entry) in entries.flatten().enumerate() {
            if index == 4096 {
                return Err(unfit("does not exist, and its folder has too many entries to be built anew"));
            }
            let path = entry.path();
            if let Ok(points_to) = std::fs::read_link(&path) {
                self.links.push((path, points_to));
            } else if points.iter().all(|point| point.path != path)
                && let Ok(Location::Found(found)) = locate(&path)
            {
                let state = State::Host { source: found.into(), write: false };
                points.push(Point { path, state, reason: "everything is readable by default".into() });
            }
        }
        Ok(())
    }

    fn devices(&mut self, points: &mut Vec<Point>) -> Result<(), ResolveError> {
        for rule in &self.files.devices {
            let path = rule.pattern.as_path();
            let reason = format!("device {} ({})", shown(path), rule.origin);
            match locate(path).map_err(system_error(&reason, path))? {
                Location::Found(found) if found.path.starts_with("/dev") => points.push(Point {
                    path: path.to_path_buf(),
                    state: State::Device(found.into()),
                    reason,
                }),
                Location::Found(found) => {
                    return Err(ResolveError::Unfit {
                        rule: reason,
                        path: found.path,
                        what: "not below /dev",
                    });
                }
                _ if rule.missing != Missing::Error => {}
                _ => return Err(ResolveError::Missing { rule: reason, path: path.to_path_buf() }),
            }
        }
        Ok(())
    }

    /// A denied file is protected under the names that are denied; another name would lead around the rule.
    fn check_hard_links(&self) -> Result<(), ResolveError> {
        let writes = self.said.values().any(|said| said.allow_write.is_some())
            || self.files.mounts.iter().any(|mount| mount.access == MountAccess::ReadWrite);
        let rule = |said: &Said| said.deny_read.clone().or(said.deny_write.clone().filter(|_| writes));
        for said in self.said.values() {
            let (Some(rule), Some(found)) = (rule(said), &said.found) else { continue };
            if found.kind == Kind::Folder || found.links < 2 {
                continue;
            }
            let same = |other: &&Said| {
                (other.deny_read.is_some() || other.deny_write.is_some())
                    && other.found.as_ref().is_some_and(|other| other.identity == found.identity)
            };
            if self.said.values().filter(same).count() < found.links as usize {
                let (path, links) = (found.path.clone(), found.links);
                return Err(ResolveError::HardLinks { rule, path, links });
            }
        }
        Ok(())
    }
}

impl Zone {
    /// Why it is there.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Zone::Root => "only what is listed exists",
            Zone::Dev => "every sandbox has a minimal /dev of its own",
            Zone::Proc => "every sandbox has a /proc of its own",
            Zone::Tmp => "/tmp is private by default",
            Zone::Run => "/run is hidden by default",
            Zone::Rebuilt => "makes room for a mount at a place that does not exist on the host",
            Zone::Memory { .. } => "a file system in memory",
        }
    }
}

impl From<Found> for Source {
    fn from(found: Found) -> Source {
        Source { path: found.path, kind: found.kind, identity: found.identity }
    }
}

/// Keeps the folders between a writable place and what is protected below it from being moved away: a mount point
/// cannot be renamed. Otherwise `mv .git x; mkdir .git` would leave the protected path free to be made anew.
fn pin(points: &mut Vec<Point>) -> Result<(), ResolveError> {
    // By their text, which is quicker to compare than components.
    let writable: HashMap<&OsStr, (&Path, bool)> = points
        .iter()
        .filter_map(|point| match &point.state {
            State::Host { source, write } => Some((point.path.as_os_str(), (source.path.as_path(), *write))),
            _ => None,
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
        if !protected {
            continue;
        }
        let mut above = point.path.ancestors().skip(1);
        let Some((top, (host_top, true))) =
            above.find_map(|above| Some((above, *writable.get(above.as_os_str())?)))
        else {
            continue;
        };
        for between in point.path.ancestors().skip(1) {
            if between.as_os_str() == top.as_os_str() {
                break;
            }
            if taken.contains(between.as_os_str()) || !pinned.insert(between.as_os_str()) {
                continue;
            }
            let host = host_top.join(between.strip_prefix(top).unwrap_or(between));
            let reason = format!("keeps it in its place: {}", point.reason);
            let Some(found) = locate::locate_plain(&host).map_err(system_error(&reason, &host))? else {
                continue;
            };
            let state = State::Host { source: found.into(), write: true };
            pins.push(Point { path: between.to_path_buf(), state, reason });
        }
    }
    points.extend(pins);
    Ok(())
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

/// Whether a path exists inside, going by the nearest point at or above it.
fn visible(points: &[Point], path: &Path) -> bool {
    let nearest = path.ancestors().find_map(|above| points.iter().find(|point| point.path == above));
    match nearest {
        None => true,
        Some(point) => match point.state {
            State::Host { .. } | State::Device(_) => true,
            State::Hidden { .. } => false,
            State::Fresh(_) => point.path == path,
        },
    }
}
