//! One walk for all globs of a policy, for the names it keeps, and for the git repositories in what it lets be written: what is
//! looked for and what is found, and a plain walk over a [`Disk`] that asks one name after the other.
//!
//! A walk follows no links. It tells of those to folders in which a deny could match something, and whoever asked goes on
//! behind them with what is left of the patterns.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kennel_policy::dotfiles::{self, Hold};
use kennel_policy::pattern::{Alive, PathPattern, PatternMatches, PatternSet};
use kennel_policy::policy::{Origin, Reach};
use kennel_policy::printed::show;

use crate::disk::{Disk, Kind, Location, is_missing};
use crate::precedence::key;

/// More entries than this and the pattern is too wide to be meant.
pub const MAX_ENTRIES: usize = 2_000_000;

/// Behind links there is less that anybody means: one link that a command made, to the root, is a whole disk.
pub const MAX_BEHIND_LINKS: usize = 200_000;

/// How long a walk may take. A file system that is that slow is better not walked at every start.
pub const MAX_TIME: Duration = Duration::from_secs(60);

/// As deep as paths get.
const MAX_DEEP: usize = 512;

fn shown(path: &Path) -> String {
    show(path.as_os_str().as_encoded_bytes())
}

/// Why a walk was given up.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// Too much to look at.
    #[error("more than {} files below {}", .1, shown(.0))]
    TooWide(PathBuf, usize),
    /// The same, or too long, behind a link.
    #[error("too many files behind the symlink {}, which leads to {}", shown(.0), shown(.1))]
    BehindLink(PathBuf, PathBuf),
    /// Too many links.
    #[error("too many symlinks to folders, such as {}", shown(.0))]
    TooManyLinks(PathBuf),
    /// Too many patterns for so many files.
    #[error("too many patterns with a `*` inside a name for the files below {}", shown(.0))]
    TooMuchWork(PathBuf),
    /// It took too long.
    #[error("searching {} took longer than {} s", shown(.0), .1.as_secs_f64())]
    TooLong(PathBuf, Duration),
    /// Too many folders in each other.
    #[error("too many folders in each other below {}", shown(.0))]
    TooDeep(PathBuf),
    /// A folder that is there could not be opened.
    #[error("searching {}: {}", shown(.0), .1)]
    Open(PathBuf, #[source] io::Error),
    /// The mount table could not be read.
    #[error("reading the mount table: {0}")]
    Mounts(#[source] io::Error),
}

/// Names that are kept in folders and below them, as far down as the policy says.
#[derive(Debug)]
pub struct Kept {
    /// The folders, by their paths without links.
    pub folders: BTreeSet<PathBuf>,
    /// The names, or paths of two names.
    pub names: &'static [&'static str],
    /// How far down.
    pub reach: Reach,
    /// Where the rule came from.
    pub origin: Origin,
}

impl Kept {
    /// What becomes of the entry `name` of the folder `at`, which is one of the folders or below one.
    #[must_use]
    pub fn hold(&self, at: &Path, name: &[u8], link: bool) -> Option<Hold> {
        if self.reach == Reach::Everywhere {
            // A link in the place of a folder that holds such names: what it leads to is kept as a whole.
            if link && dotfiles::is_first_part(name) {
                return Some(Hold::Keep);
            }
            // What a rule opens by its name is open, whatever it is called.
            let above =
                at.file_name().filter(|_| !self.folders.contains(at)).map_or(&b""[..], OsStr::as_bytes);
            return match dotfiles::look(above, name)?.hold {
                // What was a link before may stay one.
                Hold::NoLink => link.then_some(Hold::Tell),
                hold => Some(hold),
            };
        }
        let may_be = self.names.iter().any(|kept| kept.as_bytes().ends_with(name));
        (may_be && self.is_kept(&at.join(OsStr::from_bytes(name)))).then_some(Hold::Keep)
    }

    /// Whether what stands at `path`, below one of the folders, is kept. In the folder itself it is kept in any case.
    fn is_kept(&self, path: &Path) -> bool {
        let below = |name: &&&str| {
            // How far the folder that has the name is from `above`, if it has the name.
            let folder =
                path.ends_with(name).then(|| path.ancestors().nth(Path::new(name).components().count()));
            let way = |above: &Path| Some(folder??.strip_prefix(above).ok()?.components().count());
            path.ancestors().filter(|above| self.folders.contains(*above)).any(|above| {
                way(above).is_some_and(|levels| (1..self.reach.levels() as usize).contains(&levels))
            })
        };
        self.names.iter().any(|name| below(&name))
    }

    /// The folders below `root`, and it.
    pub fn folders(&self, root: &Path) -> impl Iterator<Item = &Path> {
        let from = self.folders.range::<Path, _>((Bound::Included(root), Bound::Unbounded));
        from.map(PathBuf::as_path).take_while(move |folder| folder.starts_with(root))
    }
}

/// What to look for in one walk.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Paths that match these are told.
    pub patterns: &'a [&'a PathPattern],
    /// Names that are told wherever they stand below a folder, as far down as the policy says.
    pub kept: Option<&'a Kept>,
    /// Below these folders, and not in the many packages of a `node_modules`, git repositories are told.
    pub repositories: &'a BTreeSet<PathBuf>,
    /// Patterns below whose matches repositories are told too.
    pub repositories_in: &'a BTreeSet<usize>,
    /// Patterns that go on behind links to folders: those that deny something.
    pub denies: &'a BTreeSet<usize>,
    /// Folders that are not entered: what is mounted there does not show inside.
    pub closed: &'a BTreeSet<PathBuf>,
    /// As many entries are looked at.
    pub most_entries: usize,
    /// For as long.
    pub most_time: Duration,
}

impl<'a> Search<'a> {
    /// A search for what patterns match, and nothing else.
    #[must_use]
    pub fn of(patterns: &'a [&'a PathPattern]) -> Search<'a> {
        const NO_FOLDERS: &BTreeSet<PathBuf> = &BTreeSet::new();
        const NONE: &BTreeSet<usize> = &BTreeSet::new();
        Search {
            patterns,
            kept: None,
            repositories: NO_FOLDERS,
            repositories_in: NONE,
            denies: NONE,
            closed: NO_FOLDERS,
            most_entries: MAX_ENTRIES,
            most_time: MAX_TIME,
        }
    }

    /// Where walks have to begin. A folder below another is reached from it.
    #[must_use]
    pub fn roots(&self) -> Vec<&'a Path> {
        let prefixes = self.patterns.iter().map(|pattern| pattern.literal_prefix());
        let kept = self.kept.iter().flat_map(|kept| &kept.folders).map(PathBuf::as_path);
        let repositories = self.repositories.iter().map(PathBuf::as_path);
        let mut roots: Vec<&Path> = prefixes.chain(repositories).chain(kept).collect();
        roots.sort_unstable();
        roots.dedup_by(|below, above| below.starts_with(*above));
        roots
    }

    /// The folders below `root` in which something is looked for.
    #[must_use]
    pub fn inner_roots(&self, root: &Path) -> BTreeSet<&'a Path> {
        let below = self.repositories.range::<Path, _>((Bound::Excluded(root), Bound::Unbounded));
        let below = below.map(PathBuf::as_path).take_while(|inner| inner.starts_with(root));
        let kept = self.kept.into_iter().flat_map(|kept| kept.folders(root));
        below.chain(kept.filter(|folder| *folder != root)).collect()
    }

    /// The level of a folder from which names are kept, if it is the first of these.
    #[must_use]
    pub fn level_of(&self, path: &Path) -> Option<u32> {
        self.kept.filter(|kept| kept.folders.contains(path)).map(|_| 0)
    }

    /// The level of the folder `name` in one of this level, as long as names are looked for in it.
    #[must_use]
    pub fn next_level(&self, level: u32, name: &[u8]) -> Option<u32> {
        let kept = self.kept?;
        // The second half of a name of two is one further down than the rest.
        let half = |kept: &&str| kept.split_once('/').is_some_and(|(first, _)| first.as_bytes() == name);
        let levels = kept.reach.levels();
        let deep_enough = level + 1 < levels || (level < levels && kept.names.iter().any(half));
        // A repository's own folder has rules of its own.
        let passed = name == b"node_modules" || (name == b".git" && kept.reach == Reach::Everywhere);
        (deep_enough && !passed).then_some(level + 1)
    }
}

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub what: What,
}

/// What a walk finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The pattern with this index matches.
    Match(usize),
    /// The pattern with this index may match something below: the file system that starts here does not answer.
    PerhapsBelow(usize),
    /// The same for repositories.
    PerhapsGitBelow,
    /// The same for kept names.
    PerhapsKeptBelow,
    /// A name that is kept.
    Kept,
    /// A name of which the caller is told how it changed.
    Told,
    /// Something called `.git`.
    DotGit,
    /// A folder that git takes for a repository although it is not called `.git`.
    Bare,
}

/// A link to a folder in which a deny could match something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFolder {
    /// The link's own path, which has no other link in it.
    pub link: PathBuf,
    /// The folder, by its path without links.
    pub folder: PathBuf,
    /// One of the patterns that go on there.
    pub pattern: usize,
    /// All of them, and with how many of their segments used; none where the walk comes by the folder itself.
    pub places: Vec<(usize, usize)>,
}

/// What a walk came back with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// In the order of paths, parents before children, whoever found it.
    pub seen: Vec<Seen>,
    /// In the same order.
    pub links: Vec<LinkedFolder>,
    /// How many entries were looked at.
    pub entries: usize,
}

/// Whether repositories are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Not here.
    Nothing,
    /// In all folders.
    Everywhere,
    /// In a `node_modules`, which holds packages, or a folder of packages.
    Packages,
    /// One of these: only whether it is a repository itself.
    Package,
}

impl Seek {
    /// The same in an entry of a folder.
    #[must_use]
    pub fn below(self, name: &[u8]) -> Seek {
        match (self, name) {
            (Seek::Nothing | Seek::Package, _) | (_, b".git") => Seek::Nothing,
            (Seek::Packages, name) if name.starts_with(b"@") => Seek::Packages,
            (Seek::Packages, _) => Seek::Package,
            (Seek::Everywhere, b"node_modules") => Seek::Packages,
            (Seek::Everywhere, _) => Seek::Everywhere,
        }
    }

    /// The same below a match of a pattern.
    #[must_use]
    pub fn below_match(self, search: &Search, index: usize) -> Seek {
        if search.repositories_in.contains(&index) { Seek::Everywhere } else { self }
    }
}

/// What git looks for when it asks whether a folder is a repository's own: `HEAD`, `objects` and `refs`, or instead of
/// these two a `commondir` that says where they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signs {
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl Signs {
    /// Takes note of a name in the folder.
    pub fn note(&mut self, name: &[u8]) {
        match name {
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            _ => {}
        }
    }

    /// Whether it is one.
    #[must_use]
    pub fn of_a_repository(&self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }
}

struct Walk<'a> {
    disk: &'a dyn Disk,
    search: &'a Search<'a>,
    patterns: &'a PatternSet<'a>,
    walked: Walked,
    root: &'a Path,
    inner_roots: BTreeSet<&'a Path>,
}

/// Everything that is searched for, found in one walk that asks a disk about one name after the other.
///
/// # Errors
/// When there is too much to look through.
pub fn walk(disk: &dyn Disk, search: &Search) -> Result<Walked, WalkError> {
    let patterns = PatternSet::new(search.patterns);
    let mut walk = Walk {
        disk,
        search,
        patterns: &patterns,
        walked: Walked::default(),
        root: Path::new("/"),
        inner_roots: BTreeSet::new(),
    };
    for root in search.roots() {
        (walk.root, walk.inner_roots) = (root, search.inner_roots(root));
        let (alive, matched) = patterns.at(root);
        let mut seek = if search.repositories.contains(root) { Seek::Everywhere } else { Seek::Nothing };
        let there = disk.look(root).is_ok_and(|entry| entry.kind != Kind::Link);
        for index in matched.into_iter().filter(|_| there) {
            walk.tell(root, What::Match(index));
            seek = seek.below_match(search, index);
        }
        walk.folder(root, &alive, seek, None, 0)?;
    }
    let mut walked = walk.walked;
    walked.seen.sort_by_cached_key(|seen| (key(&seen.path), seen.what));
    walked.links.sort_by_cached_key(|link| key(&link.link));
    Ok(walked)
}

impl Walk<'_> {
    fn tell(&mut self, path: &Path, what: What) {
        self.walked.seen.push(Seen { path: path.to_path_buf(), what });
    }

    /// Looks through a folder, if there is a reason to.
    fn folder(
        &mut self,
        path: &Path,
        alive: &Arc<Alive>,
        seek: Seek,
        level: Option<u32>,
        depth: usize,
    ) -> Result<(), WalkError> {
        let seek = if self.search.repositories.contains(path) { Seek::Everywhere } else { seek };
        let level = level.or_else(|| self.search.level_of(path));
        let leads_to_a_root = self
            .inner_roots
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .next()
            .is_some_and(|root| root.starts_with(path));
        if alive.is_empty() && seek == Seek::Nothing && level.is_none() && !leads_to_a_root {
            return Ok(());
        }
        if self.search.closed.contains(path) {
            return Ok(());
        }
        if depth > MAX_DEEP {
            return Err(WalkError::TooDeep(self.root.to_path_buf()));
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
            Err(source) => return Err(WalkError::Open(path.to_path_buf(), source)),
        };
        self.walked.entries += names.len();
        if self.walked.entries > self.search.most_entries {
            return Err(WalkError::TooWide(self.root.to_path_buf(), self.search.most_entries));
        }
        let mut signs = Signs::default();
        names.iter().for_each(|name| signs.note(name.as_bytes()));
        if matches!(seek, Seek::Everywhere | Seek::Package) && signs.of_a_repository() {
            self.tell(path, What::Bare);
        }
        if seek == Seek::Package && names.iter().any(|name| name == ".git") {
            self.tell(&path.join(".git"), What::DotGit);
        }
        for name in names {
            let inner = path.join(&name);
            let bytes = name.as_bytes();
            let looked =
                if alive.is_empty() { PatternMatches::default() } else { self.patterns.look(alive, bytes) };
            let mut below = seek.below(bytes);
            if bytes == b".git" && matches!(seek, Seek::Everywhere | Seek::Packages) {
                self.tell(&inner, What::DotGit);
            }
            for &index in &looked.matched {
                self.tell(&inner, What::Match(index));
                below = below.below_match(self.search, index);
            }
            let Ok(entry) = self.disk.look(&inner) else { continue };
            let link = entry.kind == Kind::Link;
            let held = level.and(self.search.kept).and_then(|kept| kept.hold(path, bytes, link));
            match held {
                Some(Hold::Keep) => self.tell(&inner, What::Kept),
                Some(Hold::Tell) => self.tell(&inner, What::Told),
                Some(Hold::NoLink) | None => {}
            }
            let inner_alive =
                if alive.is_empty() { Arc::clone(alive) } else { self.patterns.below(alive, &looked) };
            match entry.kind {
                Kind::Folder => {
                    // What is kept is kept with all below it.
                    let level = level.filter(|_| held != Some(Hold::Keep));
                    let level = level.and_then(|level| self.search.next_level(level, bytes));
                    self.folder(&inner, &inner_alive, below, level, depth + 1)?;
                }
                Kind::Link => self.note_link(inner, &inner_alive, &looked.matched),
                Kind::File => {}
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
            self.tell(path, What::PerhapsKeptBelow);
        }
    }

    /// Takes note of a link, if it leads to a folder and a deny goes on behind it. Patterns that have `matched` the link itself
    /// deny the whole folder.
    fn note_link(&mut self, link: PathBuf, alive: &Alive, matched: &[usize]) {
        let goes_on = |(pattern, _): &(usize, usize)| {
            self.search.denies.contains(pattern) && !matched.contains(pattern)
        };
        let places: Vec<(usize, usize)> = PatternSet::places(alive).filter(goes_on).collect();
        if let Some((pattern, _)) = places.first()
            && let Ok(Location::Found(found)) = self.disk.locate(&link)
            && found.kind == Kind::Folder
        {
            let pattern = *pattern;
            self.walked.links.push(LinkedFolder { link, folder: found.path, pattern, places });
        }
    }
}
