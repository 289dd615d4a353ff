//! What the rules say of the paths of one disk, as far as it is the same on every system.
//!
//! The steps are in modules by their subjects. A system calls them in the order that it needs, between steps of its own.

mod globs;
mod kept;
mod lists;
mod other_names;
mod own_settings;
mod planted;
mod search;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kennel_policy::policy::{FilePolicy, Missing, PathRule, SearchScope};

use crate::disk::{Disk, Found, Location};
use crate::error::{ResolveError, system_error};
use crate::precedence::{self, List, PathAccess, Reason, Tree, Zone};
use crate::walk::{Search, WalkError, Walked};
pub use globs::Glob;
pub use kept::LastHolder;
pub use own_settings::OWN_SETTINGS;
use planted::{Reach, Through};
pub use search::Looked;

/// What the rules say of one path.
pub type PathRules<S> = precedence::PathRules<<S as System>::Zone, Found>;

impl precedence::Found for Found {
    fn is_folder(&self) -> bool {
        self.kind == crate::disk::Kind::Folder
    }
}

/// What differs between systems in the steps that they share.
pub trait System: Sized {
    /// The parts of the tree that the system provides anew.
    type Zone: Zone;

    /// Whether a rule is to be applied to a place, and as a rule of which list. `found` is what stands there.
    ///
    /// # Errors
    /// When the rule cannot mean what it says.
    fn admit(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        rule: &PathRule,
        reason: &str,
        place: &Path,
        found: Option<&Found>,
    ) -> Result<Option<List>, ResolveError>;

    /// The same for something that a glob matched, which nobody has named.
    fn admit_match(resolver: &PathResolver<'_, Self>, list: List, found: &Found) -> Option<List>;

    /// Notes a deny of a path at which nothing stands.
    fn note_absent(
        resolver: &mut PathResolver<'_, Self>,
        list: List,
        path: PathBuf,
        reason: Reason,
        missing: Missing,
    );

    /// Takes note of a deny that leads through links, by the path that was written.
    fn note_written(
        _resolver: &mut PathResolver<'_, Self>,
        _list: List,
        _rule: &PathRule,
        _path: &Path,
        _reason: &str,
    ) {
    }

    /// Takes note of a place to write that a run would make before anything is resolved.
    fn note_unmade(
        _resolver: &mut PathResolver<'_, Self>,
        _rule: &PathRule,
        _path: PathBuf,
        _reason: String,
    ) {
    }

    /// Refuses a glob that cannot mean what it says.
    ///
    /// # Errors
    /// Why it cannot.
    fn admit_glob(_glob: &Glob) -> Result<(), ResolveError> {
        Ok(())
    }

    /// Looks through folders.
    ///
    /// # Errors
    /// When there is too much to look through.
    fn walk(resolver: &PathResolver<'_, Self>, search: &Search) -> Result<Walked, WalkError> {
        crate::walk::walk(resolver.disk, search)
    }
}

/// A deny whose path is not there, or is a link that can be replaced: no rule on a path that stands there keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmountableRule {
    /// The path.
    pub path: PathBuf,
    /// The list that denies it.
    pub list: List,
    /// Why.
    pub rule: Reason,
    /// Whether it is a link, which has to stay in its place.
    pub link: bool,
}

/// A deny that leads through links: where to, changes when they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The path that was written.
    pub path: PathBuf,
    /// The list that denies it.
    pub list: List,
    /// Why.
    pub rule: Reason,
}

/// What the rules say of the paths of a disk.
pub struct PathResolver<'a, S: System> {
    /// What only this system knows.
    pub system: S,
    /// The disk.
    pub disk: &'a dyn Disk,
    /// The policy's part about files.
    pub files: &'a FilePolicy,
    /// Where the caller is.
    pub cwd: &'a Path,
    /// Where the command starts.
    pub workdir: Option<PathBuf>,
    /// What the rules say.
    pub said: Tree<PathRules<S>>,
    /// What `allow_write` names itself, not by a glob, and where repositories are looked for in it.
    pub named: BTreeMap<PathBuf, SearchScope>,
    /// Denies that no rule on a path keeps.
    pub loose: Vec<UnmountableRule>,
    /// Denies that lead through links.
    pub linked: Vec<Linked>,
    /// Whether a path is always hidden.
    pub hides_always: bool,
    /// What rules deny: where they led, and the rule.
    denied: Vec<(List, PathBuf, &'a PathRule)>,
    /// Where links may be the work of an earlier run, once somebody had to know.
    reach: Option<Reach>,
    /// Allows that lead through links.
    through: Vec<Through<'a>>,
}

impl<'a, S: System> PathResolver<'a, S> {
    /// One that knows of no rule yet.
    pub fn new(system: S, disk: &'a dyn Disk, files: &'a FilePolicy, cwd: &'a Path) -> Self {
        PathResolver {
            system,
            disk,
            files,
            cwd,
            workdir: None,
            said: Tree::default(),
            named: BTreeMap::new(),
            loose: Vec::new(),
            linked: Vec::new(),
            hides_always: false,
            denied: Vec::new(),
            reach: None,
            through: Vec::new(),
        }
    }

    /// What is said of a path, made if there is nothing.
    pub fn at(&mut self, path: &Path) -> &mut PathRules<S> {
        self.said.at(path)
    }

    /// Notes what a rule says of something that was found.
    pub fn say(&mut self, list: List, found: Found, reason: impl Into<Reason>) {
        let path = found.path.clone();
        self.said.say(list, &path, found, reason);
    }

    /// What holds at `path`: the first rule on the way up that decides.
    #[must_use]
    pub fn verdict(&self, path: &Path) -> PathAccess<'_, S::Zone> {
        self.said.access(path, self.files.precedence, self.hides_always)
    }

    /// Whether a path can be written.
    #[must_use]
    pub fn writes(&self, path: &Path) -> bool {
        matches!(self.verdict(path), PathAccess::Host { write: true, .. })
    }

    /// Whether a path has already what an allow gives.
    #[must_use]
    pub fn is_open(&self, list: List, path: &Path) -> bool {
        match self.verdict(path) {
            PathAccess::Host { write, .. } => write || list == List::AllowRead,
            _ => false,
        }
    }

    /// Where a path leads that a rule is about.
    ///
    /// # Errors
    /// The disk's.
    pub fn locate(&self, rule: &str, path: &Path) -> Result<Location, ResolveError> {
        self.disk.locate(path).map_err(system_error(rule, path))
    }

    /// Where a path leads without links, if something is there.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        match self.disk.locate(path) {
            Ok(Location::Found(found)) => Some(found.path),
            _ => None,
        }
    }

    /// Keeps a link in its place.
    pub fn hold_link(&mut self, path: PathBuf, list: List, rule: Reason) {
        self.loose.push(UnmountableRule { path, list, rule, link: true });
    }

    /// Keeps the links on the way along a path in their places: one that is replaced would lead around a rule.
    pub fn hold_way(&mut self, path: &Path, list: List, rule: &str) {
        let rule: Reason = rule.to_owned().into();
        for link in self.disk.links_on_the_way(path) {
            self.hold_link(link, list, rule.clone());
        }
    }

    /// Takes note that a rule to which there are no exceptions hides a path.
    pub fn note_hidden(&mut self, rule: &PathRule, path: &Path) {
        if rule.without_exceptions {
            self.at(path).always_hidden = true;
            self.hides_always = true;
        }
    }

    /// Takes note that a rule itself names a place to write.
    pub fn note_named(&mut self, rule: &PathRule, found: &Found) {
        let look = self.named.entry(found.path.clone()).or_insert(rule.look);
        // Of several rules the one that looks most.
        if rule.look == SearchScope::Everywhere {
            *look = SearchScope::Everywhere;
        }
    }
}
