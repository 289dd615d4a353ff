//! What is found by looking around: what globs match, behind links too for those that deny, the git repositories in what can
//! be written, and names that are kept.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use kennel_policy::git::Place;
use kennel_policy::pattern::{PathPattern, PatternSet};
use kennel_policy::policy::{GitLevel, Missing, PathRule, Precedence, SearchScope};
use kennel_policy::precedence::List;

use super::locate::{Found, Location, found, is_link};
use super::walk::{self, LinkedFolder, Search, What};
use super::{Denial, DeniedPattern, HeldLink, Resolver};
use crate::profile::disk::Kind;
use crate::profile::error::{ResolveError, system_error};

/// As many globs a policy may have.
const MOST_GLOBS: usize = 4096;
/// As many folders are gone through behind links.
const MOST_LINKED_FOLDERS: usize = 20_000;

/// What a walk found that is to stay as it is.
#[derive(Default)]
pub(super) struct Looked {
    pub repositories: Vec<Place>,
    pub kept: Vec<PathBuf>,
}

/// A glob of a list, and where it looks: the same with the links in front of its first star followed.
struct Glob<'a> {
    list: List,
    rule: &'a PathRule,
    pattern: Cow<'a, PathPattern>,
}

/// What globs of the allow lists match.
type Allowed = HashSet<(List, PathBuf)>;

/// What a glob matches behind a link: the glob, the path without links, a folder above it.
type BehindLink = (usize, PathBuf);

impl<'a> Resolver<'a> {
    /// Expands the globs and finds the repositories in what can be written, in one walk.
    pub(super) fn search(&mut self) -> Result<Looked, ResolveError> {
        let globs = self.globs()?;
        let git = self.files.git != GitLevel::Off;
        let repositories = if git { self.writable_folders() } else { BTreeSet::new() };
        let kept = self.kept_names();
        if globs.is_empty() && repositories.is_empty() && kept.is_none() {
            return Ok(Looked::default());
        }
        let mut held = HashSet::new();
        for Glob { list, rule, .. } in globs.iter().filter(|glob| glob.list.denies()) {
            if held.insert(rule.pattern.literal_prefix()) {
                self.hold_way(rule.pattern.literal_prefix(), &list.describe(rule));
            }
        }
        for Glob { list, rule, pattern } in globs.iter().filter(|glob| glob.list.denies()) {
            let denies = match list {
                List::DenyWrite => Denial::Writing,
                // What is not there yet can be made.
                _ if rule.missing == Missing::Ignore => Denial::Reading,
                _ => Denial::Everything,
            };
            let (pattern, reason) = (pattern.clone().into_owned(), list.describe(rule).into());
            let pattern: PathPattern = pattern;
            let inside = pattern.literal_prefix().join("*");
            let nearest = self.nearest(pattern.literal_prefix());
            self.patterns.push(DeniedPattern { pattern, inside, nearest, denies, reason });
        }
        let patterns: Vec<&PathPattern> = globs.iter().map(|glob| &*glob.pattern).collect();
        let chosen = |choose: &dyn Fn(&Glob) -> bool| -> BTreeSet<usize> {
            globs.iter().enumerate().filter(|(_, glob)| choose(glob)).map(|(index, _)| index).collect()
        };
        let writable =
            |glob: &Glob| git && glob.list == List::AllowWrite && glob.rule.look != SearchScope::Nowhere;
        let search = Search {
            patterns: &patterns,
            denies: chosen(&|glob| glob.list.denies()),
            repositories,
            repositories_in: chosen(&writable),
            kept: kept.as_ref(),
            most_entries: walk::MOST_ENTRIES,
        };
        let walked = walk::walk(self.disk, &search)?;
        let (mut matches, mut looked) = (Vec::new(), Looked::default());
        for (path, what) in walked.seen {
            match what {
                What::Match(index) => matches.push((index, path)),
                // Who is to be kept out of what lies below is kept out of all of it.
                What::PerhapsBelow(index) if globs[index].list.denies() => matches.push((index, path)),
                What::PerhapsBelow(_) => {}
                What::PerhapsGitBelow => looked.repositories.push(Place::Unknown(path)),
                What::DotGit => looked.repositories.push(Place::DotGit(path)),
                What::Bare => looked.repositories.push(Place::Bare(path)),
                What::Kept => looked.kept.push(path),
            }
        }
        let (behind_links, links) = self.behind_links(&globs, walked.links)?;
        let allows = |(index, path): &(usize, PathBuf)| {
            let list = globs[*index].list;
            (!list.denies()).then(|| (list, path.clone()))
        };
        let allowed: Allowed = matches.iter().filter_map(allows).collect();
        let mut denied = BTreeSet::new();
        for (index, path) in matches.into_iter().chain(behind_links) {
            denied.extend(self.matched(&globs[index], &path, &allowed)?);
        }
        // Links stay in their places behind which something is denied.
        for (link, folder, glob) in links {
            if denied
                .range::<Path, _>((Bound::Included(folder.as_path()), Bound::Unbounded))
                .next()
                .is_some_and(|first| first.starts_with(&folder))
            {
                let Glob { list, rule, .. } = &globs[glob];
                self.held.push(HeldLink { path: link, rule: list.describe(rule).into() });
            }
        }
        Ok(looked)
    }

    /// The globs of all lists.
    fn globs(&mut self) -> Result<Vec<Glob<'a>>, ResolveError> {
        let files = self.files;
        let lists = [
            (List::DenyRead, &files.deny_read),
            (List::AllowRead, &files.allow_read),
            (List::AllowWrite, &files.allow_write),
            (List::DenyWrite, &files.deny_write),
        ];
        let all = lists.iter().flat_map(|(list, rules)| rules.iter().map(|rule| (*list, rule)));
        let all: Vec<(List, &PathRule)> = all.filter(|(_, rule)| rule.pattern.is_glob()).collect();
        // Those of other programs' settings count only as far as there is something to match.
        let counted = all.iter().filter(|(_, rule)| rule.missing != Missing::Ignore).count();
        if counted > MOST_GLOBS {
            return Err(ResolveError::TooManyGlobs { count: counted, most: MOST_GLOBS });
        }
        let known: HashSet<(List, &PathPattern)> =
            all.iter().map(|(list, rule)| (*list, &rule.pattern)).collect();
        let mut patterns: Vec<(List, &PathRule, Cow<'a, PathPattern>)> =
            all.iter().map(|(list, rule)| (*list, *rule, Cow::Borrowed(&rule.pattern))).collect();
        // Who denies `*/[id]` may mean a folder of that name: a deny that matches nothing for its spelling protects nobody.
        for (list, rule) in all.iter().filter(|(list, _)| list.denies()) {
            if let Some(text) = rule.pattern.with_brackets_as_text()
                && text.is_glob()
                && !known.contains(&(*list, &text))
            {
                patterns.push((*list, rule, Cow::Owned(text)));
            }
        }
        let (mut globs, mut folders) = (Vec::new(), HashMap::new());
        for (list, rule, pattern) in patterns {
            let reason = list.describe(rule);
            let Some(pattern) = self.placed(rule, pattern, list.denies(), &reason, &mut folders)? else {
                continue;
            };
            // Nothing is there to be matched, and nobody asked for what comes later.
            if rule.missing == Missing::Ignore && folders.get(pattern.literal_prefix()) == Some(&None) {
                continue;
            }
            globs.push(Glob { list, rule, pattern });
        }
        // Each deny may stand for two.
        if globs.len() > 2 * MOST_GLOBS {
            return Err(ResolveError::TooManyGlobs { count: globs.len(), most: MOST_GLOBS });
        }
        Ok(globs)
    }

    /// A glob where its first folder really is; `None` where an allow is not to be followed there.
    pub(super) fn placed(
        &mut self,
        rule: &'a PathRule,
        pattern: Cow<'a, PathPattern>,
        denies: bool,
        reason: &str,
        folders: &mut HashMap<PathBuf, Option<PathBuf>>,
    ) -> Result<Option<Cow<'a, PathPattern>>, ResolveError> {
        let prefix = pattern.literal_prefix();
        if !folders.contains_key(prefix) {
            let place = match self.locate(reason, prefix)? {
                Location::Found(found) => Some(found.path),
                // The command could open a folder of its user's own, in which nobody can look for matches now.
                Location::Forbidden(Some(_)) if denies => {
                    return Err(ResolveError::Forbidden {
                        rule: reason.to_owned(),
                        path: prefix.to_path_buf(),
                    });
                }
                // By name it holds all the same, where it would be.
                Location::Missing(place) if place != prefix => {
                    return Ok(Some(Cow::Owned(pattern.moved_to(&place))));
                }
                Location::Missing(_) | Location::Forbidden(_) | Location::Loop => None,
            };
            folders.insert(prefix.to_path_buf(), place);
        }
        let place = folders.get(prefix).and_then(Option::as_deref);
        let Some(place) = place.filter(|place| *place != prefix) else { return Ok(Some(pattern)) };
        if !denies && let Err(error) = self.refuse_planted(reason, prefix, place) {
            return if rule.lenient { Ok(None) } else { Err(error) };
        }
        Ok(Some(Cow::Owned(pattern.moved_to(place))))
    }

    /// Goes on behind links with what is left of the globs. Returns what they match there, and the links.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn behind_links(
        &self,
        globs: &[Glob],
        first: Vec<LinkedFolder>,
    ) -> Result<(Vec<BehindLink>, Vec<(PathBuf, PathBuf, usize)>), ResolveError> {
        let (mut matches, mut links, mut known) = (Vec::new(), Vec::new(), HashSet::new());
        // A link, and for each place in it the glob and what is left of it.
        let mut waiting: Vec<(PathBuf, PathBuf, usize, usize)> = Vec::new();
        let add = |waiting: &mut Vec<_>,
                   links: &mut Vec<_>,
                   link: LinkedFolder,
                   glob_of: &dyn Fn(usize) -> (usize, usize)| {
            for (pattern, used) in link.places {
                let (glob, before) = glob_of(pattern);
                links.push((link.link.clone(), link.folder.clone(), glob));
                waiting.push((link.link.clone(), link.folder.clone(), glob, before + used));
            }
        };
        for link in first {
            add(&mut waiting, &mut links, link, &|pattern| (pattern, 0));
        }
        let mut left = walk::MOST_BEHIND_LINKS;
        while let Some((link, folder, glob, used)) = waiting.pop() {
            let pattern = &globs[glob].pattern;
            // The walk itself comes by.
            let (alive, _) = PatternSet::new(&[&**pattern]).at(&folder);
            if PatternSet::places(&alive).any(|(_, there)| there == used)
                || !known.insert((folder.clone(), glob, used))
            {
                continue;
            }
            if known.len() > MOST_LINKED_FOLDERS {
                return Err(ResolveError::TooWide { path: link, what: "too many symlinks to folders" });
            }
            let rest = pattern.rest_in(used, &folder);
            if !rest.is_glob() {
                match self.locate("a glob behind a symlink", rest.as_path())? {
                    Location::Found(found) | Location::Forbidden(Some(found)) => {
                        matches.push((glob, found.path));
                    }
                    Location::Missing(_) | Location::Forbidden(None) | Location::Loop => {}
                }
                continue;
            }
            let patterns = [&rest];
            let search = Search {
                patterns: &patterns,
                denies: BTreeSet::from([0]),
                repositories: BTreeSet::new(),
                repositories_in: BTreeSet::new(),
                kept: None,
                most_entries: left,
            };
            let walked = walk::walk(self.disk, &search).map_err(|error| match error {
                ResolveError::TooWide { .. } => {
                    ResolveError::TooWide { path: link, what: "too many files behind this symlink" }
                }
                error => error,
            })?;
            left = left.saturating_sub(walked.entries);
            let matched = walked
                .seen
                .into_iter()
                .filter(|(_, what)| matches!(what, What::Match(_) | What::PerhapsBelow(_)));
            matches.extend(matched.map(|(path, _)| (glob, path)));
            // The rest has the folder's names in the place of those that are used.
            let moved = rest.depth() - (pattern.depth() - used);
            for link in walked.links {
                let places = link.places.into_iter().map(|(at, there)| (at, there - moved + used)).collect();
                add(&mut waiting, &mut links, LinkedFolder { places, ..link }, &|_| (glob, 0));
            }
        }
        Ok((matches, links))
    }

    /// Says what a glob says of something that it matches. Returns what is denied.
    fn matched(
        &mut self,
        glob: &Glob<'a>,
        path: &Path,
        allowed: &Allowed,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let (list, rule) = (glob.list, glob.rule);
        let denied = list.denies().then(|| path.to_path_buf());
        let is_opposed = |path: &Path| {
            self.said.is_opposed(list, path) || allowed.contains(&(list.opposite(), path.to_path_buf()))
        };
        // Where a tie shows what both lists name, a folder that covers this may be shown again.
        let reopened = || {
            let mut above = path.ancestors().skip(1);
            self.files.precedence == Precedence::DenyWrite && list == List::DenyRead && above.any(is_opposed)
        };
        // Nor is all said about a link: what it leads to is denied as well. A glob that is about whole folders means these.
        let leads_on =
            || list.denies() && !rule.pattern.as_path().ends_with("**") && is_link(self.disk, path);
        let meant = |found: &Found| !glob.pattern.is_of_folders() || found.kind == Kind::Folder;
        if path.parent().is_some_and(|above| self.said.covered(list, above))
            && !is_opposed(path)
            && !leads_on()
            && !reopened()
            && !rule.without_exceptions
        {
            return Ok(denied);
        }
        let reason = list.describe(rule);
        let here = match found(self.disk, path) {
            Ok(here) => here,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                if let Location::Forbidden(folder) = self.locate(&reason, path)?
                    && list.denies()
                {
                    self.deny_shut_folder(list, rule, reason, folder);
                }
                return Ok(denied);
            }
            Err(error) => return Err(system_error(&reason, path)(error)),
        };
        match here {
            Some(found) if !meant(&found) => return Ok(None),
            Some(found) => self.say_match(list, rule, found, reason),
            // An earlier run may have made it: what an allow list matches is never a link.
            None if !list.denies() => {}
            None => {
                let location = self.locate(&reason, path)?;
                if matches!(&location, Location::Found(found) if !meant(found)) {
                    return Ok(None);
                }
                if is_link(self.disk, path) {
                    self.held.push(HeldLink { path: path.to_path_buf(), rule: reason.clone().into() });
                }
                if let Location::Found(found) = location {
                    self.say_match(list, rule, found, reason);
                }
            }
        }
        Ok(denied)
    }

    fn say_match(&mut self, list: List, rule: &'a PathRule, found: Found, reason: String) {
        // What is provided for every sandbox is not what a glob means.
        if !list.denies() && (found.path.starts_with("/dev") || self.is_zone(&found.path)) {
            return;
        }
        let place = found.path.clone();
        if list.denies() {
            self.denied.push((list, place.clone(), rule));
        }
        self.say(list, found, reason);
        self.note_hidden(rule, &place);
    }

    /// The folders that rules open for writing, as far as repositories are looked for there.
    pub(super) fn writable_folders(&self) -> BTreeSet<PathBuf> {
        let rules = self.said.values().filter(|said| said.allow_write.is_some());
        rules.filter_map(|said| self.looked_through(said.found.as_ref()?)).collect()
    }

    /// The part of a writable folder in which repositories are looked for.
    fn looked_through(&self, found: &Found) -> Option<PathBuf> {
        let (path, workdir) = (&found.path, self.workdir.as_ref());
        match self.named.get(path) {
            _ if found.kind != Kind::Folder => None,
            None | Some(SearchScope::Everywhere) => Some(path.clone()),
            Some(SearchScope::InWorkdir) if workdir.is_some_and(|workdir| path.starts_with(workdir)) => {
                Some(path.clone())
            }
            Some(SearchScope::InWorkdir) => workdir.filter(|workdir| workdir.starts_with(path)).cloned(),
            Some(SearchScope::Nowhere) => None,
        }
    }
}
