//! What globs match: expanded in one walk with all else that is looked for, and behind links for those that deny.
//!
//! A path that is denied is denied as the thing that it leads to, and a glob is no different: links in front of its first
//! star are followed, and so are links to folders that a walk comes by, with what is left of the pattern. A command may have
//! made such links in an earlier run, in a circle or to the root of the disk, so each folder is gone through once for each
//! place in a pattern, and what lies behind links is bounded.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use kennel_policy::pattern::{PathPattern, PatternSet};
use kennel_policy::policy::{Missing, PathRule};

use super::{PathResolver, System};
use crate::disk::Location;
use crate::error::{ResolveError, system_error};
use crate::precedence::List;
use crate::walk::{LinkedFolder, MAX_BEHIND_LINKS, Search, Seen, WalkError, What};

/// As many globs a policy may have. Nobody writes so many by hand.
const MAX_GLOBS: usize = 4096;
/// As many folders are gone through behind links.
const MAX_LINKED_FOLDERS: usize = 20_000;
/// As many of them in one walk.
const TOGETHER: usize = 256;

/// A glob of a list, and where it looks: the same with the links in front of its first star followed.
pub struct Glob<'a> {
    /// The list.
    pub list: List,
    /// The rule.
    pub rule: &'a PathRule,
    /// The glob.
    pub pattern: Cow<'a, PathPattern>,
}

/// What is left of a glob behind a link.
struct Rest {
    glob: usize,
    pattern: PathPattern,
    /// The link that led here, and the folder that it leads to.
    link: PathBuf,
    folder: PathBuf,
}

/// Something that a glob matches behind a link.
pub(super) struct BehindLink {
    pub(super) glob: usize,
    /// Its path without links, and a folder above it that a look may start from.
    pub(super) path: PathBuf,
    pub(super) below: PathBuf,
    /// Its path by the link.
    pub(super) by_link: PathBuf,
}

/// The links that walks came by, and what has been looked at behind them.
#[derive(Default)]
pub(super) struct Links {
    /// Each with the folder that it leads to and the glob that goes on there.
    all: Vec<(PathBuf, PathBuf, usize)>,
    /// A folder, a glob, and how much of it is left.
    known: HashSet<(PathBuf, usize, usize)>,
}

impl<'a, S: System> PathResolver<'a, S> {
    /// The globs of all lists.
    ///
    /// # Errors
    /// When there are too many, or one cannot be kept.
    pub fn globs(&mut self) -> Result<Vec<Glob<'a>>, ResolveError> {
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
        if counted > MAX_GLOBS {
            return Err(ResolveError::TooManyGlobs { count: counted, most: MAX_GLOBS });
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
            let reason = || list.describe(rule);
            let Some(pattern) = self.placed(rule, pattern, list.denies(), reason, &mut folders)? else {
                continue;
            };
            // Nothing is there to be matched, and nobody asked for what comes later.
            if rule.missing == Missing::Ignore && folders.get(pattern.literal_prefix()) == Some(&None) {
                continue;
            }
            let glob = Glob { list, rule, pattern };
            S::admit_glob(&glob)?;
            globs.push(glob);
        }
        // Each deny may stand for two.
        if globs.len() > 2 * MAX_GLOBS {
            return Err(ResolveError::TooManyGlobs { count: globs.len(), most: MAX_GLOBS });
        }
        Ok(globs)
    }

    /// A glob where its first folder really is; `None` where an allow is not to be followed there. `folders` remembers
    /// where they are.
    ///
    /// # Errors
    /// When it cannot be looked there.
    pub fn placed(
        &mut self,
        rule: &'a PathRule,
        pattern: Cow<'a, PathPattern>,
        denies: bool,
        reason: impl Fn() -> String,
        folders: &mut HashMap<PathBuf, Option<PathBuf>>,
    ) -> Result<Option<Cow<'a, PathPattern>>, ResolveError> {
        let prefix = pattern.literal_prefix();
        if !folders.contains_key(prefix) {
            let failed = |error| system_error(&reason(), prefix)(error);
            let place = match self.disk.locate(prefix).map_err(failed)? {
                Location::Found(found) => Some(found.path),
                // The command could open a folder of its user's own, in which nobody can look for matches now.
                Location::Forbidden if denies && self.disk.shut_folder(prefix).map_err(failed)?.is_some() => {
                    return Err(ResolveError::Forbidden { rule: reason(), path: prefix.to_path_buf() });
                }
                // By its name it holds all the same, where it would be.
                Location::Missing(place) if place != prefix => {
                    return Ok(Some(Cow::Owned(pattern.moved_to(&place))));
                }
                // Nothing is found there then.
                Location::Missing(_) | Location::Forbidden => None,
            };
            folders.insert(prefix.to_path_buf(), place);
        }
        let place = folders.get(prefix).and_then(Option::as_deref);
        let Some(place) = place.filter(|place| *place != prefix) else { return Ok(Some(pattern)) };
        if !denies && let Err(error) = self.refuse_planted(&reason(), prefix, place) {
            return if rule.lenient { Ok(None) } else { Err(error) };
        }
        Ok(Some(Cow::Owned(pattern.moved_to(place))))
    }

    /// Keeps links in their places behind which globs match something that is denied: replaced, they would lead around it.
    pub(super) fn hold_links_to(&mut self, globs: &[Glob<'a>], links: &Links, matches: &BTreeSet<PathBuf>) {
        let mut held = HashSet::new();
        for (link, folder, glob) in &links.all {
            let first =
                matches.range::<Path, _>((Bound::Included(folder.as_path()), Bound::Unbounded)).next();
            if first.is_some_and(|first| first.starts_with(folder)) && held.insert(link) {
                let Glob { list, rule, .. } = &globs[*glob];
                self.hold_link(link.clone(), *list, list.describe(rule).into());
            }
        }
    }
}

impl Links {
    /// Goes on behind the links that a walk for `globs` came by. Returns what they match there.
    pub(super) fn follow<S: System>(
        &mut self,
        resolver: &PathResolver<'_, S>,
        globs: &[Glob],
        first: Vec<LinkedFolder>,
    ) -> Result<Vec<BehindLink>, ResolveError> {
        let mut matches = Vec::new();
        let patterns: Vec<(usize, &PathPattern)> =
            globs.iter().enumerate().map(|(number, glob)| (number, &*glob.pattern)).collect();
        let mut waiting = self.rests(globs, &patterns, first)?;
        let mut left = MAX_BEHIND_LINKS;
        while !waiting.is_empty() {
            let part = waiting.split_off(waiting.len().saturating_sub(TOGETHER));
            let (part, named): (Vec<Rest>, Vec<Rest>) =
                part.into_iter().partition(|rest| rest.pattern.is_glob());
            for rest in named {
                let path = rest.pattern.as_path();
                let Glob { list, rule, .. } = &globs[rest.glob];
                let failed = |error| system_error(&list.describe(rule), path)(error);
                let found = match resolver.disk.locate(path).map_err(failed)? {
                    Location::Found(found) => Some(found),
                    Location::Forbidden => resolver.disk.shut_folder(path).map_err(failed)?,
                    Location::Missing(_) => None,
                };
                matches.extend(found.map(|found| rest.found(found.path.clone(), found.path)));
            }
            let patterns: Vec<(usize, &PathPattern)> =
                part.iter().map(|rest| (rest.glob, &rest.pattern)).collect();
            let asked: Vec<&PathPattern> = patterns.iter().map(|(_, pattern)| *pattern).collect();
            let denies = (0..asked.len()).collect();
            let search = Search { denies: &denies, most_entries: left, ..Search::of(&asked) };
            let walked = S::walk(resolver, &search).map_err(|error| behind(error, &part))?;
            left = left.saturating_sub(walked.entries);
            for Seen { path, what } in walked.seen {
                if let What::Match(number) | What::PerhapsBelow(number) = what {
                    let below = part[number].pattern.literal_prefix().to_path_buf();
                    let below = if path.starts_with(&below) { below } else { path.clone() };
                    matches.push(part[number].found(path, below));
                }
            }
            waiting.extend(self.rests(globs, &patterns, walked.links)?);
        }
        Ok(matches)
    }

    /// What is left of the patterns in the folders that links lead to, as far as nobody looks there anyway.
    fn rests(
        &mut self,
        globs: &[Glob],
        patterns: &[(usize, &PathPattern)],
        links: Vec<LinkedFolder>,
    ) -> Result<Vec<Rest>, ResolveError> {
        let mut rests = Vec::new();
        for LinkedFolder { link, folder, pattern, places } in links {
            self.all.push((link.clone(), folder.clone(), patterns[pattern].0));
            for (number, used) in places {
                let (glob, pattern) = patterns[number];
                let left = pattern.depth() - used;
                if comes_by(&globs[glob].pattern, &folder, left)
                    || !self.known.insert((folder.clone(), glob, left))
                {
                    continue;
                }
                if self.known.len() > MAX_LINKED_FOLDERS {
                    return Err(WalkError::TooManyLinks(link).into());
                }
                let pattern = pattern.rest_in(used, &folder);
                rests.push(Rest { glob, pattern, link: link.clone(), folder: folder.clone() });
            }
        }
        Ok(rests)
    }
}

impl Rest {
    fn found(&self, path: PathBuf, below: PathBuf) -> BehindLink {
        let rest = path.strip_prefix(&self.folder).unwrap_or(Path::new(""));
        BehindLink { glob: self.glob, by_link: self.link.join(rest), path, below }
    }
}

/// Whether a walk for the pattern itself comes by a folder with so much of it left.
fn comes_by(pattern: &PathPattern, folder: &Path, left: usize) -> bool {
    let (alive, _) = PatternSet::new(&[pattern]).at(folder);
    PatternSet::places(&alive).any(|(_, used)| pattern.depth() - used == left)
}

/// Says which link led to where a walk was given up.
fn behind(error: WalkError, rests: &[Rest]) -> ResolveError {
    let place = match &error {
        WalkError::TooWide(place, _) | WalkError::TooMuchWork(place) | WalkError::TooLong(place, _) => {
            place.clone()
        }
        _ => return error.into(),
    };
    let rest = rests.iter().find(|rest| rest.pattern.literal_prefix() == place);
    match rest {
        Some(Rest { link, folder, .. }) => WalkError::BehindLink(link.clone(), folder.clone()).into(),
        None => error.into(),
    }
}
