//! Git repositories in what a sandbox can write: what they are, and what of them has to stay as it is.
//!
//! Git on the host runs what a repository says: its hooks, and the programs that its configuration names. A sandbox
//! that can write these has the host run things for it later, without a sandbox. So these are kept read-only, whatever
//! `.git` is: a folder, a file that points elsewhere (a worktree, a submodule), a link, or a folder that is a repository
//! itself (a bare one).
//!
//! All that is read here may have been written by an earlier run of a sandbox. It only ever adds denies, with one
//! exception: of the repository that a *worktree* points to, [`shared`] names what may be written, so that commits work
//! there. That repository has to point back, which a sandbox cannot forge without being able to write it already.

//! Pure: a system shows its disk through [`GitDisk`].

mod disk;
mod known;
mod personal;
pub mod pointer;
pub mod shared;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

pub use kennel_policy::git_config as config;
use kennel_policy::policy::GitLevel;

use crate::precedence::Reason;
use config::{Named, RelativeTo};
pub use disk::{EntryKind, GitDisk, Seen, Standing};
pub use known::{Known, KnownFolder};
pub use personal::{Personal, personal};
pub use shared::SharedRepository;

/// As many folders below `.git/modules` and `.git/worktrees` are looked at.
const MAX_PARTS: usize = 4096;
/// Why a configuration stays as it is, and which level leaves it open.
pub const CONFIGURATION: &str = "git: git runs programs that its configuration names (`files.git = \"hooks-read-only\"` leaves it writable)";
/// Submodules of submodules of submodules.
const MAX_NESTED: usize = 8;
/// As many files are read that a configuration includes, and as deep as git does.
const MAX_INCLUDED: usize = 32;
const MAX_INCLUDES_DEEP: usize = 10;

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Something called `.git`.
    DotGit(PathBuf),
    /// A folder that is a repository itself.
    Bare(PathBuf),
    /// A file system that does not answer: there may be repositories in it.
    Unknown(PathBuf),
    /// A `.git` above what can be written: its repository cannot be changed, but may name programs that can.
    Above(PathBuf),
}

impl Place {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Place::DotGit(path) | Place::Bare(path) | Place::Unknown(path) | Place::Above(path) => path,
        }
    }
}

/// A question about a place.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which.
    pub place: &'a Place,
    /// Whether a rule names the folder it is in.
    pub is_root: bool,
    /// Whether no rule speaks of anything in the repository's folder: what holds for the folder holds for all of it.
    pub as_one: bool,
}

/// What repositories ask for.
#[derive(Debug)]
pub struct RepoProtection<D: GitDisk> {
    /// Paths that have to stay as they are, existing or not.
    pub keep: Vec<Keep<D::Lookup>>,
    /// Of these the files that git itself writes anew, often with what they say already; and why they are kept.
    pub rewritten: Vec<(PathBuf, Reason)>,
    /// Links that have to stay where they are. What they lead to is another matter.
    pub hold: Vec<PathBuf>,
    /// Repositories of worktrees that commits write to, although no rule opens them.
    pub shared: Vec<SharedRepository>,
    /// Settings that may have git run files which cannot be told from them, in words.
    pub not_understood: BTreeSet<String>,
    /// What was found at each place, to compare with at the end.
    pub known: Vec<(PathBuf, Known<D::Identity>)>,
    /// A folder that is kept as one.
    whole: Option<PathBuf>,
    /// Repositories whose worktrees and submodules were gone through.
    gone_through: HashSet<PathBuf>,
    folders: D,
}

/// A path that has to stay as it is.
/// One path may be told more than once.
#[derive(Debug)]
pub struct Keep<L> {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: Reason,
    /// What stands there.
    pub looked: io::Result<L>,
}

/// Why a folder is kept that an earlier run may have shut, to open it in the next.
const SHUT: &str = "git: nobody may look into it";

impl<D: GitDisk> RepoProtection<D> {
    fn new(folders: D) -> Self {
        RepoProtection {
            keep: Vec::new(),
            rewritten: Vec::new(),
            hold: Vec::new(),
            shared: Vec::new(),
            not_understood: BTreeSet::new(),
            known: Vec::new(),
            whole: None,
            gone_through: HashSet::new(),
            folders,
        }
    }

    /// Returns what stands there, if there is something, and whether a link leads to it.
    fn keep(&mut self, path: PathBuf, why: impl Into<Reason>) -> Option<(D::Identity, bool)> {
        let looked = self.folders.look(&path);
        let seen = looked.as_ref().ok().map(D::seen);
        if !self.is_kept_with_its_folder(&path) || needs_itself(seen.as_ref()) {
            self.keep.push(Keep { path, why: why.into(), looked });
        }
        let Seen { standing, link } = seen?;
        standing.map(|standing| (standing.identity, link))
    }

    /// Keeps a folder as a whole: nothing in it is looked at, now or when the run is over.
    fn keep_shut(&mut self, folder: PathBuf) {
        self.known.push((folder.clone(), Known::Whole));
        self.keep(folder, SHUT);
    }

    /// A repository without a configuration is one that is being made, by the host or in another sandbox: it may get its
    /// first one, which is judged when the run is over.
    fn keep_first_configuration(&mut self, path: PathBuf) {
        // By the names in its folder, which are known already.
        if self.folders.may_hold(&path) {
            self.keep_configuration(path);
        }
    }

    fn keep_configuration(&mut self, path: PathBuf) {
        if !self.is_kept_with_its_folder(&path) {
            self.rewritten.push((path.clone(), CONFIGURATION.into()));
        }
        self.keep(path, CONFIGURATION);
    }

    /// Keeps what a command names, and what it may name if there is such a file.
    fn keep_named(&mut self, path: PathBuf, named: &Named, why: String) {
        let is_file = |looked: io::Result<D::Lookup>| {
            looked.is_ok_and(|looked| D::seen(&looked).standing.is_some_and(|standing| standing.is_file))
        };
        if !named.only_a_file || is_file(self.folders.look(&path)) {
            self.keep(path, why);
        }
    }

    fn is_kept_with_its_folder(&self, path: &Path) -> bool {
        let inside = |whole: &PathBuf| path.starts_with(whole) && path.as_os_str() != whole.as_os_str();
        // `.git/../x` is not in `.git`.
        let goes_up = || path.components().any(|part| part == Component::ParentDir);
        self.whole.as_ref().is_some_and(inside) && !goes_up()
    }
}

/// Whether something in a folder that is kept as one has to be kept by its own name: a file that has other names too, or
/// one that could not be looked at.
fn needs_itself<I>(seen: Option<&Seen<I>>) -> bool {
    match seen {
        Some(Seen { standing: Some(standing), link }) => *link || standing.links > 1,
        Some(Seen { standing: None, link }) => *link,
        None => true,
    }
}

/// What repositories ask for under `level`. `personal` is what [`personal()`] read.
pub fn wishes<D: GitDisk>(
    level: GitLevel,
    requests: &[Request],
    personal: &Personal,
    disk: D,
) -> RepoProtection<D> {
    let mut wishes = RepoProtection::new(disk);
    for request in requests.iter().filter(|_| level != GitLevel::Off) {
        let top = match request.place {
            Place::DotGit(path) | Place::Above(path) => path.parent(),
            Place::Bare(path) => Some(path.as_path()),
            Place::Unknown(_) => None,
        };
        for (top, named) in top.iter().flat_map(|top| personal.named.iter().map(move |named| (top, named))) {
            let why = format!("git: {} of your own git configuration names it", named.key);
            wishes.keep_named(top.join(&named.path), named, why);
        }
        match request.place {
            Place::Bare(folder) => bare(&mut wishes, level, folder, request.is_root),
            Place::DotGit(path) => dot_git(&mut wishes, level, path, request),
            Place::Unknown(path) => {
                wishes.keep(path.clone(), "git: it cannot be looked through");
                wishes.known.push((path.clone(), Known::Unanswering));
            }
            Place::Above(path) => above(&mut wishes, path),
        }
        wishes.whole = None;
    }
    wishes
}

fn bare(wishes: &mut RepoProtection<impl GitDisk>, level: GitLevel, folder: &Path, is_root: bool) {
    if level == GitLevel::MetadataReadOnly {
        if !is_root {
            wishes.keep(folder.to_path_buf(), "git: a repository");
            return wishes.known.push((folder.to_path_buf(), Known::Whole));
        }
        for name in ["HEAD", "objects", "refs", "packed-refs", "index", "logs", "info"] {
            wishes.keep(folder.join(name), "git: a repository's data");
        }
    }
    repository(wishes, level, folder, folder);
}

fn dot_git(wishes: &mut RepoProtection<impl GitDisk>, level: GitLevel, path: &Path, request: &Request) {
    let Some(top) = path.parent() else { return };
    let metadata = level == GitLevel::MetadataReadOnly;
    if wishes.folders.list(path) {
        if metadata {
            wishes.keep(path.to_path_buf(), "git: a repository's data");
            wishes.whole = Some(path.to_path_buf()).filter(|_| request.as_one);
        }
        return repository(wishes, level, path, top);
    }
    let own = match wishes.folders.kind(path) {
        Ok(own) => own,
        // The folder that holds it has been shut. What the sandbox can open, it finds kept as a whole.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            wishes.keep(path.to_path_buf(), SHUT);
            return;
        }
        Err(_) => return,
    };
    let link = own == EntryKind::Link;
    if own == EntryKind::Folder || (link && wishes.folders.is_folder(path)) {
        if metadata {
            wishes.keep(path.to_path_buf(), "git: a repository's data");
        }
        if !link {
            return repository(wishes, level, path, top);
        }
        // A link is held in its place, and what it leads to is protected where it is.
        wishes.hold.push(path.to_path_buf());
        wishes.known.push((path.to_path_buf(), Known::Link));
        let folder = wishes.folders.canonical(path).unwrap_or_else(|| path.to_path_buf());
        return repository(wishes, level, &folder, top);
    }
    wishes.keep(path.to_path_buf(), "git: the pointer to a repository");
    let pointer = wishes.folders.read(path, pointer::MAX_BYTES);
    let folder = pointer.as_deref().and_then(|text| Some(top.join(pointer::gitdir(text)?)));
    let folder = folder.and_then(|folder| wishes.folders.canonical(&folder));
    let leads_to_one = folder.as_ref().is_some_and(|folder| is_repository(&mut wishes.folders, folder));
    let text = pointer.unwrap_or_default();
    let known = if link { Known::Link } else { Known::Pointer { text, leads_to_one } };
    wishes.known.push((path.to_path_buf(), known));
    let Some(folder) = folder else { return };
    if metadata {
        wishes.keep(folder.clone(), "git: what the pointer leads to");
    }
    repository(wishes, level, &folder, top);
    if request.is_root && !metadata {
        open_worktree(wishes, path, &folder);
    }
}

/// Whether git would take a folder that is listed for a repository's own: without a `HEAD` it does not.
fn is_repository(folders: &mut impl GitDisk, folder: &Path) -> bool {
    folders.list(folder) && folders.may_hold(&folder.join("HEAD"))
}

/// A repository's own folder, whose work tree is at `top`.
fn repository(wishes: &mut RepoProtection<impl GitDisk>, level: GitLevel, folder: &Path, top: &Path) {
    // To git this is none. It is being made, by the host or in another sandbox, which must not be hindered; or somebody
    // took its HEAD away. When the run is over it is judged like a new one: an earlier run may have left it so.
    if level != GitLevel::MetadataReadOnly && !is_repository(&mut wishes.folders, folder) {
        return;
    }
    let common = common(&mut wishes.folders, folder);
    if let Some(common) = &common
        && level == GitLevel::MetadataReadOnly
    {
        wishes.keep(common.clone(), "git: the repository that a worktree belongs to");
    }
    let whole = common.as_deref().unwrap_or(folder);
    keep_settings(wishes, level, folder, whole, top);
    if wishes.gone_through.insert(whole.to_path_buf()) {
        parts(wishes, level, whole, &mut { MAX_PARTS }, MAX_NESTED);
    }
}

/// The repository that a worktree's folder belongs to, if it is one.
fn common(folders: &mut impl GitDisk, folder: &Path) -> Option<PathBuf> {
    folders.list(folder);
    let text = folders.read(&folder.join("commondir"), pointer::MAX_BYTES)?;
    folders.canonical(&folder.join(pointer::bare_path(&text)?))
}

/// What git takes programs from. `folder` is the worktree's own, `whole` the repository's; mostly they are the same.
fn keep_settings(
    wishes: &mut RepoProtection<impl GitDisk>,
    level: GitLevel,
    folder: &Path,
    whole: &Path,
    top: &Path,
) {
    wishes.folders.list(whole);
    let configuration = level != GitLevel::HooksReadOnly;
    let hooks = wishes.keep(whole.join("hooks"), "git: git runs its hooks");
    // With this file all the rest is read from elsewhere.
    let leads_on = wishes
        .keep(folder.join("commondir"), "git: it says where the hooks and the configuration are")
        .is_some();
    let (shared, own) = (whole.join("config"), folder.join("config.worktree"));
    if configuration {
        wishes.keep_first_configuration(shared.clone());
        wishes.keep_configuration(own.clone());
    }
    if folder != whole {
        wishes.keep(folder.join("gitdir"), "git: it says which worktree this is");
    }
    let [config, own_config] = [shared, own].map(|file| {
        let text = wishes.folders.read(&file, config::MAX_BYTES)?;
        keep_what_is_named(wishes, &file, &text, top);
        Some(text)
    });
    // Attributes name filters, and a filter of the user's own configuration may be a program.
    let attributes =
        wishes.keep(whole.join("info/attributes"), "git: git runs filters that attributes name").is_some();
    let mut remember = |place: &Path, parts| wishes.known.push((place.to_path_buf(), Known::Folder(parts)));
    let parts = KnownFolder { top: top.to_path_buf(), ..KnownFolder::default() };
    if folder == whole {
        let parts = KnownFolder { config, own_config, hooks, leads_on, attributes, ..parts };
        return remember(folder, Box::new(parts));
    }
    remember(folder, Box::new(KnownFolder { own_config, leads_on, ..parts.clone() }));
    let top = whole.parent().unwrap_or(whole).to_path_buf();
    // The first work tree has one of its own as well.
    let own_config = wishes.folders.read(&whole.join("config.worktree"), config::MAX_BYTES);
    let parts = KnownFolder { config, own_config, hooks, attributes, top, ..parts };
    wishes.known.push((whole.to_path_buf(), Known::Folder(Box::new(parts))));
}

/// Keeps what a configuration names, and what the files name that it includes.
fn keep_what_is_named(wishes: &mut RepoProtection<impl GitDisk>, file: &Path, text: &[u8], top: &Path) {
    for key in config::not_understood(text) {
        wishes.not_understood.insert(format!(
            "git: {key} of {} is a command line that may run files which it does not name plainly; \
             the files that kennel found in it are protected",
            file.display()
        ));
    }
    for (named, path, file) in names(&wishes.folders, file, text, top) {
        let why = format!("git: {} of {} names it", named.key, file.display());
        wishes.keep_named(path, &named, why);
    }
}

/// What a configuration names, by itself and by way of what it includes: each with its path, and the file that says it.
pub fn names(folders: &impl GitDisk, file: &Path, text: &[u8], top: &Path) -> Vec<(Named, PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let home = folders.home();
    let in_home = |path: &Path| personal::in_home(home.as_deref(), path);
    let mut left = MAX_INCLUDED;
    let mut files = vec![(file.to_path_buf(), None::<Vec<u8>>, 0)];
    while let Some((file, included, depth)) = files.pop() {
        let at = file.parent().unwrap_or(top).to_path_buf();
        for named in config::named(included.as_deref().unwrap_or(text)) {
            let start = if named.relative_to == RelativeTo::File { &at } else { top };
            let path = start.join(in_home(&named.path).as_deref().unwrap_or(&named.path));
            if named.is_include() && depth < MAX_INCLUDES_DEEP && left > 0 {
                left -= 1;
                if let Some(text) = folders.read(&path, config::MAX_BYTES) {
                    files.push((path.clone(), Some(text), depth + 1));
                }
            }
            // husky's folder `_` holds one line for each hook, which runs the script of that name beside it.
            let husky = named.key == "core.hookspath" && path.ends_with("_");
            let path = if husky { path.parent().unwrap_or(&path).to_path_buf() } else { path };
            found.push((named, path, file.clone()));
        }
    }
    found
}

/// A repository above what can be written: what it names is kept where that can be written.
fn above(wishes: &mut RepoProtection<impl GitDisk>, path: &Path) {
    let Some(top) = path.parent() else { return };
    let folder = if wishes.folders.is_folder(path) {
        Some(path.to_path_buf())
    } else {
        let pointer = wishes.folders.read(path, pointer::MAX_BYTES);
        pointer.and_then(|text| wishes.folders.canonical(&top.join(pointer::gitdir(&text)?)))
    };
    let Some(folder) = folder else { return };
    let whole = common(&mut wishes.folders, &folder).unwrap_or_else(|| folder.clone());
    for file in [whole.join("config"), folder.join("config.worktree")] {
        if let Some(text) = wishes.folders.read(&file, config::MAX_BYTES) {
            keep_what_is_named(wishes, &file, &text, top);
        }
    }
}

/// The worktrees and submodules that live in a repository's folder.
fn parts(
    wishes: &mut RepoProtection<impl GitDisk>,
    level: GitLevel,
    whole: &Path,
    left: &mut usize,
    nested: usize,
) {
    if level == GitLevel::MetadataReadOnly {
        return;
    }
    for folder in folders(wishes, &whole.join("worktrees"), left) {
        if !is_repository(&mut wishes.folders, &folder) {
            continue;
        }
        wishes.keep(folder.join("commondir"), "git: it says where a worktree's hooks and configuration are");
        wishes.keep(folder.join("gitdir"), "git: it says which worktree this is");
        let own_config = folder.join("config.worktree");
        let own = wishes.folders.read(&own_config, config::MAX_BYTES);
        if level == GitLevel::HooksAndConfigReadOnly {
            wishes.keep_configuration(own_config);
        }
        let parts =
            KnownFolder { own_config: own, leads_on: true, top: folder.clone(), ..KnownFolder::default() };
        wishes.known.push((folder.clone(), Known::Folder(Box::new(parts))));
        // A worktree's submodules are in its own folder.
        modules(wishes, level, &folder.join("modules"), left, nested);
    }
    modules(wishes, level, &whole.join("modules"), left, nested);
}

/// A submodule's name may hold slashes, so its folder may be further down.
fn modules(
    wishes: &mut RepoProtection<impl GitDisk>,
    level: GitLevel,
    folder: &Path,
    left: &mut usize,
    nested: usize,
) {
    if nested == 0 {
        return;
    }
    for module in folders(wishes, folder, left) {
        match wishes.folders.exists(&module.join("HEAD")) {
            Ok(true) => {}
            Ok(false) => {
                modules(wishes, level, &module, left, nested - 1);
                continue;
            }
            Err(_) => {
                wishes.keep_shut(module);
                continue;
            }
        }
        keep_settings(wishes, level, &module, &module, &module);
        parts(wishes, level, &module, left, nested - 1);
    }
}

fn folders(wishes: &mut RepoProtection<impl GitDisk>, folder: &Path, left: &mut usize) -> Vec<PathBuf> {
    if !wishes.folders.may_hold(folder) {
        return Vec::new();
    }
    let listed = wishes.folders.folders_in(folder, *left);
    if listed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        wishes.keep_shut(folder.to_path_buf());
    }
    let found: BTreeSet<OsString> = listed.into_iter().flatten().collect();
    *left -= found.len().min(*left);
    found.into_iter().map(|name| folder.join(name)).collect()
}

/// What a commit in a worktree writes, if the folder that its pointer leads to points back: `git worktree add` has made
/// both, and whoever could forge the second needs no help of ours to write there.
fn open_worktree(wishes: &mut RepoProtection<impl GitDisk>, pointer: &Path, folder: &Path) {
    let back = wishes.folders.read(&folder.join("gitdir"), pointer::MAX_BYTES);
    let back = back.and_then(|text| wishes.folders.canonical(&folder.join(pointer::bare_path(&text)?)));
    let Some(common) = common(&mut wishes.folders, folder) else { return };
    let in_its_place = folder.parent() == Some(common.join("worktrees").as_path());
    let mutual = back.is_some_and(|back| wishes.folders.canonical(pointer) == Some(back));
    if !in_its_place || !mutual || !wishes.folders.is_file(&common.join("HEAD")) {
        return;
    }
    // All else of the repository's folder belongs to its own work tree, or to other worktrees: nothing of it can be
    // written, and no name can be made there but by the guard, which makes those of `shared::FILES`.
    let parts = if wishes.folders.is_folder(&common.join("reftable")) {
        shared::WITH_REFTABLE
    } else {
        shared::WITH_FILES
    };
    let open = parts.iter().map(|part| common.join(part)).chain([folder.to_path_buf()]).collect();
    wishes.shared.push(SharedRepository { folder: common, open });
}
