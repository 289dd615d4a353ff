//! What the rules say of each path, and which of them decides.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{
    FilePolicy, Missing, MountAccess, OtherNames, PathRule, Policy, Precedence, ReadModel, SearchScope,
    TmpMode,
};
pub(super) use kennel_policy::precedence::List;
use kennel_policy::precedence::{self, Tree};

use super::created::MissingFolders;
use super::error::{ResolveError, system_error};
use super::guard_rules::Finding;
use super::locate::Way;
use super::planted::{Reach, Through};
use super::special::KernelMounts;
use super::{Found, Kind, Location, Reason, Zone, is_link, locate};

/// What the rules say of one path.
pub(super) type PathRules = precedence::PathRules<Zone, Found>;

/// What holds at a path, and why.
pub(super) type PathAccess<'a> = precedence::PathAccess<'a, Zone>;

impl precedence::Zone for Zone {
    /// Nothing of the kernel's can be written.
    fn is_read_only(self) -> bool {
        self == Zone::Sys
    }
}

impl precedence::Found for Found {
    fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }
}

/// A deny whose path is not there, or is a link that can be replaced.
pub(super) struct UnmountableRule {
    pub(super) path: PathBuf,
    pub(super) list: List,
    pub(super) rule: Reason,
    pub(super) link: bool,
}

/// A deny that leads through links: where to, changes when they do.
pub(super) struct Linked {
    pub(super) path: PathBuf,
    pub(super) list: List,
    pub(super) rule: Reason,
}

pub(super) struct Resolver<'a> {
    pub(super) files: &'a FilePolicy,
    pub(super) said: Tree<PathRules>,
    pub(super) loose: Vec<UnmountableRule>,
    /// Denied paths that are not there, in folders that others share.
    pub(super) shared: Vec<Finding>,
    pub(super) linked: Vec<Linked>,
    /// Files that are kept, and that programs write anew.
    pub(super) rewritten: Vec<Finding>,
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// What `allow_write` names itself, not by a glob, and where repositories are looked for in it.
    pub(super) named: BTreeMap<PathBuf, SearchScope>,
    /// Where the command starts.
    pub(super) workdir: Option<PathBuf>,
    /// Where the caller is.
    pub(super) cwd: &'a Path,
    /// Where links may be the work of an earlier run, once somebody had to know.
    pub(super) reach: Option<Reach>,
    /// Allows that lead through links.
    pub(super) through: Vec<Through<'a>>,
    /// What rules deny: where they led, and the rule.
    pub(super) denied: Vec<(List, PathBuf, &'a PathRule)>,
    /// The mount table, once it has been read.
    pub(super) table: OnceCell<Vec<u8>>,
    pub(super) kernel: KernelMounts,
    /// What is to be shown of the places that the sandbox has anyway, and the rules that say so.
    pub(super) asked_of_own: Vec<(PathBuf, Reason)>,
    /// Files to make, and what they hold.
    pub(super) written: Vec<(PathBuf, Vec<u8>)>,
    /// Whether a path is always hidden.
    pub(super) hides_always: bool,
    /// Whether folders that rules want are made.
    pub(super) missing_folders: MissingFolders,
    /// Those that a run would make.
    pub(super) pending: Vec<PathBuf>,
    /// Whether the root is a folder of its own, and no part of the host's tree.
    pub(super) own_root: bool,
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

pub(super) fn describe(list: List, rule: &PathRule) -> String {
    list.describe(rule)
}

/// Whether a path leads to what was found without a link, by way of `..` alone.
fn goes_round(path: &Path, found: &Found) -> bool {
    let Way { links, end } = locate::way(path);
    links.is_empty() && end == found.path
}

/// How a rule comes to name a path.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Itself,
    /// By what its brackets spell: a glob that denies also denies that, if it is there.
    ByBrackets,
    /// As the folder of `folder/**`, which matches the folder as well: while that is not there, it is kept from being made.
    AsMissingFolder,
}

/// The path that a rule names, and how.
fn name_of(list: List, rule: &PathRule) -> Option<(&PathRule, Cow<'_, Path>, Named)> {
    let pattern = &rule.pattern;
    if !pattern.is_glob() {
        return Some((rule, Cow::Borrowed(pattern.as_path()), Named::Itself));
    }
    if !list.denies() {
        return None;
    }
    if pattern.matches(pattern.literal_prefix()) {
        return Some((rule, Cow::Borrowed(pattern.literal_prefix()), Named::AsMissingFolder));
    }
    let text = pattern.with_brackets_as_text()?;
    let path = Cow::Owned(text.literal_prefix().to_path_buf());
    if !text.is_glob() {
        Some((rule, Cow::Owned(text.as_path().to_path_buf()), Named::ByBrackets))
    } else if text.matches(&path) {
        Some((rule, path, Named::AsMissingFolder))
    } else {
        None
    }
}

fn leads_in_circles(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// A path as it may be printed: a stranger may have chosen it.
pub(super) fn shown(path: &Path) -> String {
    crate::describe::show(path.as_os_str().as_bytes())
}

impl<'a> Resolver<'a> {
    pub(super) fn at(&mut self, path: &Path) -> &mut PathRules {
        self.said.at(path)
    }

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

    pub(super) fn list(&mut self, list: List, rules: &'a [PathRule]) -> Result<(), ResolveError> {
        for (rule, path, named) in rules.iter().filter_map(|rule| name_of(list, rule)) {
            let (path, reason) = (&*path, describe(list, rule));
            if !rule.follow_link && is_link(path) {
                continue;
            }
            let location = match locate(path) {
                // Links in a circle lead to nothing that could be read.
                Err(error) if rule.lenient && list != List::DenyWrite && leads_in_circles(&error) => continue,
                location => location.map_err(system_error(&reason, path))?,
            };
            // Otherwise it is the glob's to match.
            if named == Named::AsMissingFolder && !matches!(location, Location::Missing(_)) {
                continue;
            }
            let straight = match &location {
                Location::Found(Found { path: place, .. }) | Location::Missing(place) => place == path,
                Location::Forbidden => true,
            };
            if !straight && list.denies() {
                self.hold_way(path, list, &reason);
                let (path, rule) = (path.to_path_buf(), reason.clone().into());
                self.linked.push(Linked { path, list, rule });
            }
            // A folder on the way that is a link leads elsewhere just as the last one does.
            if !straight && !rule.follow_link {
                continue;
            }
            let place = match &location {
                Location::Found(found) => Some((&found.path, Some(found.identity.device))),
                Location::Missing(path) => Some((path, None)),
                Location::Forbidden => None,
            };
            if named == Named::ByBrackets && !matches!(location, Location::Found(_)) {
                continue;
            }
            let mut list = list;
            if let Some((place, device)) = place {
                match self.admit(list, rule, &reason, place, device)? {
                    Some(applied) => list = applied,
                    None => continue,
                }
            }
            match location {
                // One that is only written in a roundabout way leads through none.
                Location::Found(found) if !straight && !list.denies() && !goes_round(path, &found) => {
                    self.put_off(list, rule, reason, found)?;
                }
                Location::Found(found) => {
                    if list == List::AllowWrite {
                        self.note_named(rule, &found);
                        self.at(&found.path).shows = self.files.precedence == Precedence::DenyWrite;
                    }
                    if list.denies() {
                        self.denied.push((list, found.path.clone(), rule));
                    }
                    let place = found.path.clone();
                    self.say(list, found, reason);
                    self.note_hidden(rule, &place);
                }
                Location::Missing(path) if list.denies() && rule.missing == Missing::Skip => {
                    self.loose.push(UnmountableRule { path, list, rule: reason.into(), link: false });
                }
                Location::Missing(path) if list.denies() && rule.missing == Missing::Shared => {
                    self.shared.push(Finding { path, rule: reason.into() });
                }
                Location::Forbidden if list.denies() => self.deny_shut_folder(list, rule, reason, path)?,
                _ if rule.missing != Missing::Error => {}
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden => {
                    return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() });
                }
            }
        }
        Ok(())
    }

    /// A denied path lies in a folder that the caller may not look into. In somebody else's the sandbox, which is the same user,
    /// may not either. But it could open one of its own, which an earlier run may have shut: that is denied as a whole.
    pub(super) fn deny_shut_folder(
        &mut self,
        list: List,
        rule: &'a PathRule,
        reason: String,
        path: &Path,
    ) -> Result<(), ResolveError> {
        if let Some(folder) = locate::shut_folder(path).map_err(system_error(&reason, path))? {
            self.denied.push((list, folder.path.clone(), rule));
            let place = folder.path.clone();
            self.say(list, folder, reason);
            self.note_hidden(rule, &place);
        }
        Ok(())
    }

    /// Takes note that a rule to which there are no exceptions hides a path.
    pub(super) fn note_hidden(&mut self, rule: &PathRule, path: &Path) {
        if rule.without_exceptions {
            self.at(path).always_hidden = true;
            self.hides_always = true;
        }
    }

    /// Takes note that a rule itself names a place to write.
    pub(super) fn note_named(&mut self, rule: &PathRule, found: &Found) {
        let look = self.named.entry(found.path.clone()).or_insert(rule.look);
        // Of several rules the one that looks most.
        if rule.look == SearchScope::Everywhere {
            *look = SearchScope::Everywhere;
        }
    }

    /// A link on the way to what is denied that is replaced would lead around the rule.
    pub(super) fn hold_way(&mut self, path: &Path, list: List, rule: &str) {
        let rule: Reason = rule.to_owned().into();
        let links = locate::links_on_the_way(path).into_iter();
        let loose = links.map(|(path, _)| UnmountableRule { path, list, rule: rule.clone(), link: true });
        self.loose.extend(loose);
    }

    pub(super) fn say(&mut self, list: List, found: Found, reason: impl Into<Reason>) {
        let path = found.path.clone();
        self.said.say(list, &path, found, reason);
    }

    /// Whether `path` already has what `list` gives, with no rule of another list in between.
    pub(super) fn covered(&self, list: List, path: &Path) -> bool {
        self.said.covered(list, path)
    }

    /// Whether a rule of the opposite list names this very path.
    pub(super) fn is_opposed(&self, list: List, path: &Path) -> bool {
        self.said.is_opposed(list, path)
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

    /// What holds at `path`: the first rule on the way up that decides.
    pub(super) fn verdict(&self, path: &Path) -> PathAccess<'_> {
        self.said.access(path, self.files.precedence, self.hides_always)
    }

    pub(super) fn writes(&self, path: &Path) -> bool {
        matches!(self.verdict(path), PathAccess::Host { write: true, .. })
    }

    /// A denied file is protected under the names that are denied; another name would lead around the rule.
    pub(super) fn check_hard_links(&self) -> Result<(), ResolveError> {
        if self.files.other_names == OtherNames::Deny {
            return Ok(());
        }
        let writes = self.said.values().any(|said| said.allow_write.is_some())
            || self.files.mounts.iter().any(|mount| mount.access == MountAccess::ReadWrite);
        let rule = |said: &PathRules| said.deny_read.clone().or(said.deny_write.clone().filter(|_| writes));
        for said in self.said.values() {
            let (Some(rule), Some(found)) = (rule(said), &said.found) else { continue };
            if found.kind == Kind::Folder || found.links < 2 {
                continue;
            }
            let same = |other: &&PathRules| {
                // What is hidden is hidden only where reading is denied; what cannot be read cannot be written either.
                !other.second_path
                    && (other.deny_read.is_some() || (said.deny_read.is_none() && other.deny_write.is_some()))
                    && other.found.as_ref().is_some_and(|other| other.identity == found.identity)
            };
            if self.said.values().filter(same).count() < found.links as usize {
                let (path, links) = (found.path.clone(), found.links);
                return Err(ResolveError::HardLinks { rule: rule.into_owned(), path, links });
            }
        }
        Ok(())
    }
}
