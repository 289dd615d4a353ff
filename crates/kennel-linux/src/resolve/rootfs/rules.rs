//! Deny rules as they are seen inside: which of them are about the host's files, and which about the root's.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kennel_policy::pattern::{PathPattern, PatternSet};
use kennel_policy::policy::{FilePolicy, Missing, PathRule};
use kennel_resolve::error::{ResolveError, system_error};

use super::{View, told};
use crate::resolve::locate::{self, FoundAgain, locate, locate_below};
use crate::resolve::path_rules::{List, UnmountableRule};
use crate::resolve::walk::{self, MAX_BEHIND_LINKS, Search, Seen, WalkError, What};
use crate::resolve::{Found, Location, Reason, is_link};

/// As many folders are gone through behind links.
const MAX_LINKED_FOLDERS: usize = 20_000;

/// Something in the root's folder that a rule denies.
pub(super) struct Denied {
    pub(super) list: List,
    /// By its path on the host.
    pub(super) found: Found,
    pub(super) reason: Reason,
}

/// A denied path that is not there.
pub(super) struct Absent {
    list: List,
    /// On the host, in the root's folder.
    path: PathBuf,
    reason: Reason,
}

impl Absent {
    pub(super) fn as_loose(&self) -> UnmountableRule {
        UnmountableRule { path: self.path.clone(), list: self.list, rule: self.reason.clone(), link: false }
    }
}

/// What the rules say of the root's files, and what is left to say of the host's.
#[derive(Default)]
pub(super) struct RootRules {
    pub(super) denied: Vec<Denied>,
    pub(super) absent: Vec<Absent>,
    /// Links in the root on the way to what is denied, inside: replaced, they would lead around the rule.
    pub(super) links: Vec<(PathBuf, Reason)>,
    pub(super) host_deny_read: Vec<PathRule>,
    pub(super) host_deny_write: Vec<PathRule>,
}

/// A glob in the root's folder, by its path on the host.
struct RootGlob<'a> {
    list: List,
    rule: &'a PathRule,
    pattern: PathPattern,
}

struct Translator<'a> {
    view: &'a View,
    layer: bool,
    rules: RootRules,
    waiting: Vec<RootGlob<'a>>,
    /// Folders behind links, and how much of which rule is left there.
    known: HashSet<(PathBuf, *const PathRule, usize)>,
}

impl RootRules {
    pub(super) fn of(files: &FilePolicy, view: &View, layer: bool) -> Result<RootRules, ResolveError> {
        let (rules, waiting, known) = (RootRules::default(), Vec::new(), HashSet::new());
        let mut translator = Translator { view, layer, rules, waiting, known };
        for (list, rules) in [(List::DenyRead, &files.deny_read), (List::DenyWrite, &files.deny_write)] {
            for rule in rules {
                translator.rule(list, rule)?;
            }
        }
        translator.walk()?;
        Ok(translator.rules)
    }
}

impl<'a> Translator<'a> {
    fn rule(&mut self, list: List, rule: &'a PathRule) -> Result<(), ResolveError> {
        let pattern = &rule.pattern;
        if !pattern.is_glob() {
            return self.name(list, rule, pattern.as_path(), true);
        }
        self.glob(list, rule, pattern);
        // As on the host: who denies `*/[id]` may mean a folder of that name.
        match pattern.with_brackets_as_text() {
            Some(text) if text.is_glob() => self.glob(list, rule, &text),
            Some(text) => self.name(list, rule, text.as_path(), false)?,
            None => {}
        }
        Ok(())
    }

    fn on_host(&mut self, list: List, rule: &PathRule, pattern: PathPattern) {
        let rules = match list {
            List::DenyRead => &mut self.rules.host_deny_read,
            _ => &mut self.rules.host_deny_write,
        };
        rules.push(PathRule { pattern, ..rule.clone() });
    }

    /// A path that a rule names, or that something `named` led to.
    fn name(&mut self, list: List, rule: &'a PathRule, path: &Path, named: bool) -> Result<(), ResolveError> {
        let (end, links) = self.view.way(path);
        let reason = told(list, rule);
        for link in links {
            match self.view.shown_at(&link) {
                // Held there as every such link is.
                Some((host, rest)) => {
                    let place = super::join(host, rest);
                    self.on_host(list, rule, PathPattern::literal(place));
                }
                None => self.rules.links.push((link, reason.clone())),
            }
        }
        if let Some((host, rest)) = self.view.shown_at(&end) {
            self.on_host(list, rule, PathPattern::literal(super::join(host, rest)));
            return Ok(());
        }
        if end == Path::new("/") {
            let what = "is the root file system as a whole\n\
                 help: for one that cannot be written, use `files.rootfs_write = \"none\"`";
            return Err(ResolveError::Unfit { rule: reason.into_owned(), path: end, what });
        }
        let place = self.view.in_root(&end);
        if is_link(&place) {
            // In circles, to nothing that could be read; it is held in its place.
            return Ok(());
        }
        match locate(&place).map_err(system_error(&reason, &place))? {
            Location::Found(found) if found.path == place => self.deny(list, found, reason),
            // Somebody puts links there just now.
            Location::Found(_) => {
                let stale = rustix::io::Errno::STALE.into();
                return Err(system_error(&reason, &place)(stale));
            }
            Location::Forbidden => self.deny_shut(list, &place, reason)?,
            Location::Missing(_) if !named || rule.missing == Missing::Ignore => {}
            Location::Missing(path) if rule.missing == Missing::Error => {
                return Err(ResolveError::Missing { rule: reason.into_owned(), path });
            }
            Location::Missing(_) => self.rules.absent.push(Absent { list, path: place, reason }),
        }
        Ok(())
    }

    fn deny(&mut self, list: List, found: Found, reason: Reason) {
        // Nothing in the root can be written without a layer.
        if list == List::DenyRead || self.layer {
            self.rules.denied.push(Denied { list, found, reason });
        }
    }

    /// The command could open a folder of its user's own, in the layer, that the caller may not look into.
    fn deny_shut(&mut self, list: List, place: &Path, reason: Reason) -> Result<(), ResolveError> {
        let shut = locate::shut_folder(place).map_err(system_error(&reason, place))?;
        if let Some(folder) = shut.filter(|folder| folder.path != self.view.top) {
            self.deny(list, folder, reason);
        }
        Ok(())
    }

    fn glob(&mut self, list: List, rule: &'a PathRule, pattern: &PathPattern) {
        let (end, links) = self.view.way(pattern.literal_prefix());
        for link in links.into_iter().filter(|link| self.view.shown_at(link).is_none()) {
            self.rules.links.push((link, told(list, rule)));
        }
        self.glob_at(list, rule, &pattern.moved_to(&end));
    }

    /// A glob whose first folder has no links in its path.
    fn glob_at(&mut self, list: List, rule: &'a PathRule, pattern: &PathPattern) {
        let first = pattern.literal_prefix();
        if let Some((host, rest)) = self.view.shown_at(first) {
            return self.on_host(list, rule, pattern.moved_to(&super::join(host, rest)));
        }
        // In what shows of the host's below it, with what is left of the pattern there.
        let set = PatternSet::new(&[pattern]);
        let view = self.view;
        for (inside, host) in view.of_host().filter(|(inside, _)| inside.starts_with(first)) {
            let (alive, matched) = set.at(inside);
            if !matched.is_empty() {
                self.on_host(list, rule, PathPattern::literal(host));
            }
            for (_, used) in PatternSet::places(&alive) {
                self.on_host(list, rule, pattern.rest_in(used, host));
            }
        }
        let pattern = pattern.moved_to(&self.view.in_root(first));
        self.waiting.push(RootGlob { list, rule, pattern });
    }

    /// Looks through the root's folder.
    fn walk(&mut self) -> Result<(), ResolveError> {
        let mut left = walk::MAX_ENTRIES;
        while !self.waiting.is_empty() {
            let globs = std::mem::take(&mut self.waiting);
            let patterns: Vec<&PathPattern> = globs.iter().map(|glob| &glob.pattern).collect();
            let denies = (0..patterns.len()).collect();
            let search = Search { denies: &denies, most_entries: left, ..Search::of(&patterns) };
            let walked = walk::walk_within(&search, self.view)?;
            left = left.saturating_sub(walked.entries).min(MAX_BEHIND_LINKS);
            for Seen { path, what } in walked.seen {
                let (What::Match(index) | What::PerhapsBelow(index)) = what else { continue };
                let RootGlob { list, rule, pattern } = &globs[index];
                let Some(inside) = self.view.inside(&path) else { continue };
                if self.view.shown_at(&inside).is_some() {
                    continue;
                }
                let reason = told(*list, rule);
                let below = pattern.literal_prefix();
                let below = if path.starts_with(below) { below } else { &path };
                match locate_below(below, &path).map_err(system_error(&reason, &path))? {
                    FoundAgain::Found(found) if found.path == self.view.top => {
                        self.name(*list, rule, &inside, false)?;
                    }
                    FoundAgain::Found(found) => self.deny(*list, found, reason),
                    FoundAgain::Link(_) => self.name(*list, rule, &inside, false)?,
                    FoundAgain::Forbidden => self.deny_shut(*list, &path, reason)?,
                    FoundAgain::Gone => {}
                }
            }
            for linked in walked.links {
                let Some(link) = self.view.inside(&linked.link) else { continue };
                let folder = self.view.lead(&link);
                for (number, used) in linked.places {
                    let RootGlob { list, rule, pattern } = &globs[number];
                    let known = (folder.clone(), std::ptr::from_ref(*rule), pattern.depth() - used);
                    if !self.known.insert(known) {
                        continue;
                    }
                    if self.known.len() > MAX_LINKED_FOLDERS {
                        return Err(WalkError::TooManyLinks(linked.link).into());
                    }
                    self.rules.links.push((link.clone(), told(*list, rule)));
                    let rest = pattern.rest_in(used, &folder);
                    match rest.is_glob() {
                        true => self.glob_at(*list, rule, &rest),
                        false => self.name(*list, rule, rest.as_path(), false)?,
                    }
                }
            }
        }
        Ok(())
    }
}
