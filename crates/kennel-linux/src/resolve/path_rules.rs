//! What the rules say of each path, and which of them decides.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use kennel_policy::policy::{Missing, PathRule, Policy, ReadModel, TmpMode};
pub(super) use kennel_resolve::error::shown;
use kennel_resolve::error::{ResolveError, system_error};
use kennel_resolve::precedence;
pub(super) use kennel_resolve::precedence::List;
pub(super) use kennel_resolve::resolver::UnmountableRule;
use kennel_resolve::resolver::{Glob, PathResolver, System};
use kennel_resolve::walk::{Search, Walked};

use super::created::MissingFolders;
use super::guard_rules::{Anchor, Finding};
use super::special::{KernelMounts, Meaning, OF_A_PROCESS, unfit};
use super::{Found, Kind, Location, Reason, WrittenFile, Zone, locate, walk};

/// What holds at a path, and why.
pub(super) type PathAccess<'a> = precedence::PathAccess<'a, Zone>;

impl precedence::Zone for Zone {
    /// Nothing of the kernel's can be written.
    fn is_read_only(self) -> bool {
        self == Zone::Sys
    }
}

/// What Linux adds to the steps that all systems share.
#[derive(Default)]
pub(super) struct Linux {
    pub(super) kernel: KernelMounts,
    /// What is to be shown of the places that the sandbox has anyway, and the rules that say so.
    pub(super) asked_of_own: Vec<(PathBuf, Reason)>,
    /// Denied paths that are not there, in folders that others share.
    pub(super) shared: Vec<Finding>,
    /// How long all may take.
    pub(super) wall_time: Option<Duration>,
}

impl System for Linux {
    type Zone = Zone;

    fn admit(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        rule: &PathRule,
        reason: &str,
        place: &Path,
        found: Option<&Found>,
    ) -> Result<Option<List>, ResolveError> {
        let device = found.map(|found| found.identity.device);
        match resolver.system.meaning(resolver.files, list, place, device) {
            Meaning::Ordinary => Ok(Some(list)),
            Meaning::Hide => Ok(Some(List::DenyRead)),
            Meaning::Own => {
                if list == List::AllowRead {
                    resolver.system.asked_of_own.push((place.to_path_buf(), reason.to_owned().into()));
                }
                Ok(None)
            }
            // The lists of others name such places for systems that are not this one.
            Meaning::Refused(_) if rule.lenient && !list.denies() => Ok(None),
            Meaning::Refused(what) => Err(unfit(reason, place, what)),
        }
    }

    fn admit_match(resolver: &PathResolver<'_, Self>, list: List, found: &Found) -> Option<List> {
        let device = Some(found.identity.device);
        match resolver.system.meaning(resolver.files, list, &found.path, device) {
            Meaning::Ordinary => Some(list),
            Meaning::Hide => Some(List::DenyRead),
            Meaning::Own | Meaning::Refused(_) => None,
        }
    }

    fn note_absent(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        path: PathBuf,
        rule: Reason,
        missing: Missing,
    ) {
        match missing {
            Missing::Shared => resolver.system.shared.push(Finding { path, rule }),
            _ => resolver.loose.push(UnmountableRule { path, list, rule, link: false }),
        }
    }

    fn admit_glob(Glob { list, rule, pattern }: &Glob) -> Result<(), ResolveError> {
        let (prefix, process) = (pattern.literal_prefix(), Path::new("/proc/1"));
        if list.denies()
            && prefix.starts_with("/proc")
            && !pattern.matches(Path::new("/proc"))
            && (pattern.matches(process) || pattern.could_match_below(process))
        {
            return Err(unfit(&list.describe(rule), rule.pattern.as_path(), OF_A_PROCESS));
        }
        Ok(())
    }

    fn walk(resolver: &PathResolver<'_, Self>, search: &Search) -> Result<Walked, walk::WalkError> {
        let Linux { kernel, wall_time, .. } = &resolver.system;
        let most_time = search.most_time.min(wall_time.unwrap_or(search.most_time));
        walk::walk(&Search { closed: &kernel.hidden(), most_time, ..*search })
    }
}

pub(super) struct Resolver<'a> {
    pub(super) paths: PathResolver<'a, Linux>,
    /// Files that are kept, and that programs write anew.
    pub(super) rewritten: Vec<Finding>,
    /// Folders that can be written in which no links are made.
    pub(super) without_links: BTreeSet<PathBuf>,
    /// Settings of git's that may run files which cannot be told from them, in words.
    pub(super) not_understood: BTreeSet<String>,
    /// Repositories of worktrees that commits write to.
    pub(super) shared_repositories: Vec<Anchor>,
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// The mount table, once it has been read.
    pub(super) table: OnceCell<Vec<u8>>,
    /// Files to make, and what they hold.
    pub(super) written: Vec<WrittenFile>,
    /// Whether folders that rules want are made.
    pub(super) missing_folders: MissingFolders,
    /// What was made so far.
    pub(super) made: Rc<RefCell<Vec<(PathBuf, Kind)>>>,
    /// Those that a run would make.
    pub(super) pending: Vec<PathBuf>,
    /// Whether the root is a folder of its own, and no part of the host's tree.
    pub(super) own_root: bool,
}

impl<'a> Deref for Resolver<'a> {
    type Target = PathResolver<'a, Linux>;

    fn deref(&self) -> &Self::Target {
        &self.paths
    }
}

impl DerefMut for Resolver<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.paths
    }
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

impl Resolver<'_> {
    pub(super) fn zones(&mut self) {
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

    /// The command's folder shows inside, if only to be read, even where a fresh zone would cover it. `start` is what was
    /// found there.
    pub(super) fn workdir(
        &mut self,
        policy: &Policy,
        cwd: &Path,
        start: std::io::Result<Location>,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let asked = policy.process.workdir.as_deref();
        let path = asked.unwrap_or(cwd);
        if let (Some(asked), Ok(Location::Found(found))) = (asked, &start)
            && found.path != asked
            && !self.is_open(List::AllowRead, &found.path)
        {
            self.refuse_planted("workdir", asked, &found.path)?;
        }
        match start.map_err(system_error("workdir", path))? {
            Location::Found(found) if found.kind == Kind::Folder => {
                let place = found.path.clone();
                if self.files.reads == ReadModel::Open && !self.is_own(&place) {
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

    pub(super) fn system(&mut self) {
        let root = rustix::process::geteuid().is_root();
        if root {
            self.copy_processors();
        }
        for path in SYSTEM.iter().map(Path::new).filter(|path| !(root && path.starts_with("/sys"))) {
            if let Ok(Location::Found(found)) = locate(path)
                // Nobody wrote this list; what somebody denied stays denied.
                && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
            {
                self.links.extend(locate::links_on_the_way(path));
                self.say(List::AllowRead, found, "the minimal system set");
            }
        }
    }

    /// On many hosts /etc/resolv.conf is a link into /run, which is hidden: that one file shows through.
    pub(super) fn name_servers(&mut self) {
        if let Ok(Location::Found(found)) = locate(Path::new("/etc/resolv.conf"))
            && found.path.starts_with("/run")
        {
            self.say(List::AllowRead, found, "the network needs /etc/resolv.conf");
        }
    }
}
