//! One walk for all globs of a policy, for the names it keeps, and for the git repositories in what it lets be written:
//! pruned where nothing below can matter, and bounded in entries. It follows no links; it tells of those to folders in which
//! a deny could match something.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_policy::pattern::{Alive, PathPattern, PatternMatches, PatternSet};
use kennel_policy::policy::Origin;
use kennel_policy::precedence::key;

use super::locate::{Location, is_missing, locate};
use crate::profile::disk::{Disk, Kind};
use crate::profile::error::ResolveError;

/// More entries than this and the pattern is too wide to be meant.
pub const MOST_ENTRIES: usize = 2_000_000;
/// Behind links there is less that anybody means: one link that a command made, to the root, is a whole disk.
pub const MOST_BEHIND_LINKS: usize = 50_000;
/// As deep as paths get.
const MOST_DEEP: usize = 512;

/// Names that are kept in folders and below them.
pub struct Kept {
    /// The folders, by their paths without links.
    pub folders: BTreeSet<PathBuf>,
    /// The names, or paths of two names.
    pub names: &'static [&'static str],
    /// How many levels of folders are looked through.
    pub depth: u32,
    /// Where the rule came from.
    pub origin: Origin,
}

/// What to look for in one walk.
pub struct Search<'a> {
    /// Paths that match these are told.
    pub patterns: &'a [&'a PathPattern],
    /// Patterns that go on behind links to folders: those that deny something.
    pub denies: BTreeSet<usize>,
    /// Below these folders, and not in the many packages of a `node_modules`, git repositories are told.
    pub repositories: BTreeSet<PathBuf>,
    /// Patterns below whose matches repositories are told too.
    pub repositories_in: BTreeSet<usize>,
    /// Names that are told wherever they stand below a folder, as far down as the policy says.
    pub kept: Option<&'a Kept>,
    /// As many entries are looked at.
    pub most_entries: usize,
}

/// What a walk finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The pattern with this index matches.
    Match(usize),
    /// The pattern with this index may match something below: nobody can look there now.
    PerhapsBelow(usize),
    /// The same for repositories.
    PerhapsGitBelow,
    /// A name that is kept, or a folder in which one may be.
    Kept,
    /// Something called `.git`.
    DotGit,
    /// A folder that git takes for a repository although it is not called `.git`.
    Bare,
}

/// A link to a folder in which a deny could match something: the link, the folder without links, and the patterns that go on
/// there with how many of their segments used.
pub struct LinkedFolder {
    pub link: PathBuf,
    pub folder: PathBuf,
    pub places: Vec<(usize, usize)>,
}

/// What a walk came back with.
#[derive(Default)]
pub struct Walked {
    /// In the order of paths, parents before children.
    pub seen: Vec<(PathBuf, What)>,
    pub links: Vec<LinkedFolder>,
    /// How many entries were looked at.
    pub entries: usize,
}

/// Whether repositories are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seek {
    Nothing,
    Everywhere,
    /// In a `node_modules`, which holds packages, or a folder of packages.
    Packages,
    /// One of these: only whether it is a repository itself.
    Package,
}

struct Walk<'a> {
    disk: &'a dyn Disk,
    search: &'a Search<'a>,
    patterns: PatternSet<'a>,
    walked: Walked,
    entries: usize,
    root: &'a Path,
    roots: BTreeSet<&'a Path>,
}

/// Everything that is searched for, found in one walk.
pub fn walk(disk: &dyn Disk, search: &Search) -> Result<Walked, ResolveError> {
    let kept = search.kept.iter().flat_map(|kept| &kept.folders).map(PathBuf::as_path);
    let folders = search.repositories.iter().map(PathBuf::as_path).chain(kept);
    let prefixes = search.patterns.iter().map(|pattern| pattern.literal_prefix());
    let all: BTreeSet<&Path> = folders.chain(prefixes).collect();
    let mut tops: Vec<&Path> = all.iter().copied().collect();
    // A folder below another is reached from it.
    tops.dedup_by(|below, above| below.starts_with(*above));
    let mut walk = Walk {
        disk,
        search,
        patterns: PatternSet::new(search.patterns),
        walked: Walked::default(),
        entries: 0,
        root: Path::new("/"),
        roots: all,
    };
    for root in tops {
        walk.root = root;
        let (alive, matched) = walk.patterns.at(root);
        let there = disk.look(root).is_ok_and(|entry| entry.kind != Kind::Link);
        for index in matched.iter().filter(|_| there) {
            walk.tell(root, What::Match(*index));
        }
        let git = matched.iter().any(|index| search.repositories_in.contains(index));
        let seek = if git { Seek::Everywhere } else { Seek::Nothing };
        walk.folder(root, &alive, seek, None, 0)?;
    }
    walk.walked.seen.sort_by_cached_key(|(path, what)| (key(path), *what));
    walk.walked.links.sort_by_cached_key(|link| key(&link.link));
    walk.walked.entries = walk.entries;
    Ok(walk.walked)
}

impl Walk<'_> {
    fn tell(&mut self, path: &Path, what: What) {
        self.walked.seen.push((path.to_path_buf(), what));
    }

    /// Looks through a folder, if there is a reason to.
    fn folder(
        &mut self,
        path: &Path,
        alive: &Arc<Alive>,
        seek: Seek,
        level: Option<u32>,
        depth: usize,
    ) -> Result<(), ResolveError> {
        let seek = if self.search.repositories.contains(path) { Seek::Everywhere } else { seek };
        let first = self.search.kept.is_some_and(|kept| kept.folders.contains(path));
        let level = level.or(first.then_some(0));
        let leads_to_a_root = self
            .roots
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .next()
            .is_some_and(|root| root.starts_with(path));
        if alive.is_empty() && seek == Seek::Nothing && level.is_none() && !leads_to_a_root {
            return Ok(());
        }
        let too_much = |what| ResolveError::TooWide { path: self.root.to_path_buf(), what };
        if depth > MOST_DEEP {
            return Err(too_much("too many folders in each other"));
        }
        let names = match self.disk.list(path) {
            Ok(names) => names,
            Err(error) if is_missing(&error) => return Ok(()),
            // The command could open a folder of its user's own.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if self.disk.look(path).map_or(true, |entry| entry.own) {
                    self.passed_over(path, alive, seek, level);
                }
                return Ok(());
            }
            Err(source) => {
                let (rule, path) = ("the lists of paths".to_owned(), path.to_path_buf());
                return Err(ResolveError::System { rule, path, source });
            }
        };
        self.entries += names.len();
        if self.entries > self.search.most_entries {
            return Err(too_much("too many entries"));
        }
        let has = |name: &str| names.iter().any(|own| own == name);
        let is_repository = has("HEAD") && (has("commondir") || (has("objects") && has("refs")));
        if seek == Seek::Everywhere && is_repository {
            self.tell(path, What::Bare);
        }
        if seek == Seek::Package {
            if has(".git") {
                self.tell(&path.join(".git"), What::DotGit);
            }
            if is_repository {
                self.tell(path, What::Bare);
            }
        }
        for name in names {
            let inner = path.join(&name);
            let bytes = name.as_bytes();
            let looked =
                if alive.is_empty() { PatternMatches::default() } else { self.patterns.look(alive, bytes) };
            let mut below = match (seek, bytes) {
                (Seek::Nothing | Seek::Package, _) | (_, b".git") => Seek::Nothing,
                (Seek::Packages, name) if name.starts_with(b"@") => Seek::Packages,
                (Seek::Packages, _) => Seek::Package,
                (Seek::Everywhere, b"node_modules") => Seek::Packages,
                (Seek::Everywhere, _) => Seek::Everywhere,
            };
            if bytes == b".git" && matches!(seek, Seek::Everywhere | Seek::Packages) {
                self.tell(&inner, What::DotGit);
            }
            for &index in &looked.matched {
                self.tell(&inner, What::Match(index));
                if self.search.repositories_in.contains(&index) {
                    below = Seek::Everywhere;
                }
            }
            if level.is_some() && self.search.kept.is_some_and(|kept| is_kept(kept, &inner)) {
                self.tell(&inner, What::Kept);
            }
            let kind = match self.disk.look(&inner) {
                Ok(entry) => entry.kind,
                Err(_) => continue,
            };
            let inner_alive =
                if alive.is_empty() { Arc::clone(alive) } else { self.patterns.below(alive, &looked) };
            match kind {
                Kind::Folder => {
                    let level = level.and_then(|level| next_level(self.search.kept?, level, bytes));
                    self.folder(&inner, &inner_alive, below, level, depth + 1)?;
                }
                Kind::Link => self.note_link(inner, &inner_alive, &looked.matched),
                Kind::Socket | Kind::File => {}
            }
        }
        Ok(())
    }

    /// What cannot be looked through may hold anything.
    fn passed_over(&mut self, path: &Path, alive: &Alive, seek: Seek, level: Option<u32>) {
        for index in alive.patterns() {
            self.tell(path, What::PerhapsBelow(index));
        }
        if seek != Seek::Nothing {
            self.tell(path, What::PerhapsGitBelow);
        }
        if level.is_some() {
            self.tell(path, What::Kept);
        }
    }

    /// Takes note of a link, if it leads to a folder and a deny goes on behind it. Patterns that have `matched` the link itself
    /// deny the whole folder.
    fn note_link(&mut self, link: PathBuf, alive: &Alive, matched: &[usize]) {
        let goes_on = |(pattern, _): &(usize, usize)| {
            self.search.denies.contains(pattern) && !matched.contains(pattern)
        };
        let places: Vec<(usize, usize)> = PatternSet::places(alive).filter(goes_on).collect();
        if !places.is_empty()
            && let Ok(Location::Found(found)) = locate(self.disk, &link)
            && found.kind == Kind::Folder
        {
            self.walked.links.push(LinkedFolder { link, folder: found.path, places });
        }
    }
}

/// The level of the folder `name` in one of this level, as long as names are looked for in it.
fn next_level(kept: &Kept, level: u32, name: &[u8]) -> Option<u32> {
    // The second half of a name of two is one further down than the rest.
    let half = |kept: &&str| kept.split_once('/').is_some_and(|(first, _)| first.as_bytes() == name);
    let deep_enough = level + 1 < kept.depth || (level < kept.depth && kept.names.iter().any(half));
    (deep_enough && name != b"node_modules").then_some(level + 1)
}

/// Whether what stands at `path`, below one of the folders, is kept. In the folder itself it is kept in any case.
fn is_kept(kept: &Kept, path: &Path) -> bool {
    kept.names.iter().filter(|name| path.ends_with(name)).any(|name| {
        let Some(folder) = path.ancestors().nth(Path::new(name).components().count()) else { return false };
        let way = |above: &PathBuf| Some(folder.strip_prefix(above).ok()?.components().count());
        kept.folders.iter().filter_map(way).any(|levels| (1..kept.depth as usize).contains(&levels))
    })
}
