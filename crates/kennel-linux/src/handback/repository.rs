//! Whether what git takes for a repository could make it run something, and what is done about it.
//!
//! *A repository's own folder* is what git takes for one: a folder called `.git`, and any folder with `HEAD` and either
//! `objects` and `refs` or a `commondir`, wherever it is: a bare repository, a submodule's folder in `.git/modules`, a
//! worktree's in `.git/worktrees`, or none of these and made to look like one. Each is judged for itself, so a pointer
//! to one within what is looked through leads to nothing that was not judged.
//!
//! In a repository that was there before the run, what is as it was is its owner's. All else has to be harmless.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use kennel_init::plan::Identity;
use kennel_policy::policy::GitLevel;

use super::aside;
use super::config::{self, Judgement};
use super::place::{Beneath, Entry, beneath, is_part_of, may_exist, meant};
use super::{Held, SetAside, What, identity_of, open_folder};
use crate::resolve::folder::OpenFolders;
use crate::resolve::git::config::Named;
use crate::resolve::git::{names, pointer};
use crate::resolve::known::{Handback, Known, KnownFolder};

/// As many entries of a folder of hooks are looked at; one with more is nobody's.
const MOST_HOOKS: usize = 1024;
/// The longest file of attributes that is read.
const MOST_ATTRIBUTES: usize = 256 << 10;
/// Where git's own template of a repository is, which may hold hooks of the administrator's.
const TEMPLATES: &[&str] = &["/usr/share/git-core/templates", "/usr/local/share/git-core/templates"];

/// What there is in a folder that makes git take it for a repository, or look for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    dot_git: Option<FileType>,
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
    config: bool,
    own_config: bool,
    hooks: bool,
    info: bool,
    /// Whether the folder has to be asked for these names: it holds one that may stand for another, or not all of its
    /// names were read.
    ask: bool,
}

const NAMES: [&CStr; 9] =
    [c".git", c"HEAD", c"objects", c"refs", c"commondir", c"config", c"config.worktree", c"hooks", c"info"];

impl Signs {
    /// Notes a name.
    pub fn note(&mut self, name: &[u8], kind: FileType) {
        match name {
            b".git" => self.dot_git = Some(kind),
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            b"config" => self.config = true,
            b"config.worktree" => self.own_config = true,
            b"hooks" => self.hooks = true,
            b"info" => self.info = true,
            // `.GIT` is `.git` to some file systems, and so are odder spellings.
            name => {
                let folded = || NAMES.iter().any(|own| own.to_bytes().eq_ignore_ascii_case(name));
                self.ask |= !name.is_ascii() || name.contains(&b'~') || folded();
            }
        }
    }

    /// Those of a folder that is asked for them.
    fn of(folder: BorrowedFd) -> Signs {
        Signs { ask: true, ..Signs::default() }.sure(folder)
    }

    /// Has the folder be asked.
    pub fn ask(&mut self) {
        self.ask = true;
    }

    fn of_a_repository(self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }

    /// The same, with the folder asked where it has to be.
    fn sure(self, folder: BorrowedFd) -> Signs {
        if !self.ask {
            return self;
        }
        let [_, head, objects, refs, commondir, config, own_config, hooks, info] =
            NAMES.map(|name| kind(folder, name).is_some());
        let dot_git = kind(folder, c".git");
        Signs { dot_git, head, objects, refs, commondir, config, own_config, hooks, info, ask: false }
    }
}

/// What a name in a folder is; `None` where there is nothing, or it cannot be told.
fn kind(folder: BorrowedFd, name: &CStr) -> Option<FileType> {
    kind_and_identity(folder, name).map(|(kind, _)| kind)
}

fn kind_and_identity(folder: BorrowedFd, name: &CStr) -> Option<(FileType, Identity)> {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(folder, name, quiet, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    Some((FileType::from_raw_mode(stat.stx_mode.into()), identity_of(&stat)))
}

/// What is known, to judge by.
pub struct Judge<'a> {
    pub handback: &'a Handback,
    pub roots: &'a [Held],
}

/// A repository's own folder that is judged.
struct Repository<'a> {
    folder: BorrowedFd<'a>,
    path: &'a Path,
    /// What is in it.
    signs: Signs,
    known: Option<&'a KnownFolder>,
    /// Whether its parts are git's own without a doubt. Elsewhere a folder `hooks` may be a project's, and what made a
    /// repository of it is its `HEAD`.
    of_git: bool,
}

impl Judge<'_> {
    fn known(&self, path: &Path) -> Option<&Known> {
        // No longer path was resolved, and to hash one of any length for each folder would take its time.
        if path.as_os_str().len() > 4096 { None } else { self.handback.known.get(path) }
    }

    /// Whether nothing in a folder could be changed, or it is not to be looked at.
    pub fn is_closed(&self, path: &Path) -> bool {
        match self.known(path) {
            Some(Known::Whole | Known::Opened | Known::Unanswering) => true,
            Some(Known::Folder(_)) => self.handback.level == GitLevel::MetadataReadOnly,
            _ => false,
        }
    }

    /// Whether a held folder is in a repository's own folder.
    pub fn is_in_repository(&self, path: &Path) -> bool {
        let is_one = |above: &Path| {
            above.file_name().is_some_and(|name| name == ".git")
                || matches!(self.known(above), Some(Known::Folder(_) | Known::Whole))
        };
        path.ancestors().skip(1).any(is_one)
    }

    /// Judges a folder by what was seen in it. Returns whether what is in it is in a repository's own folder.
    pub fn folder(
        &self,
        folder: BorrowedFd,
        path: &Path,
        in_git: bool,
        signs: Signs,
        told: &mut Vec<SetAside>,
    ) -> bool {
        let signs = signs.sure(folder);
        let called_so = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        let mut inside = in_git || called_so;
        if called_so || signs.of_a_repository() {
            let known = match self.known(path) {
                Some(Known::Whole | Known::Opened | Known::Unanswering) => return true,
                Some(Known::Folder(known)) => Some(&**known),
                _ => None,
            };
            let ends_so = path.as_os_str().as_bytes().ends_with(b".git");
            let of_git = known.is_some() || inside || ends_so;
            inside |= self.repository(&Repository { folder, path, signs, known, of_git }, told);
            if called_so && in_git && known.is_none() && signs.head {
                told.push(set_aside(folder, path, c"HEAD", What::InRepository));
            }
            if !called_so && inside && !in_git && known.is_none() {
                // A bare repository is where its programs are looked for.
                self.programs(path, self.handback.personal.named.iter().cloned(), None, told);
            }
        }
        if let Some(kind) = signs.dot_git {
            self.dot_git(folder, path, inside, kind, told);
        }
        inside
    }

    /// Judges what is called `.git` in a folder. A folder of that name is judged by what is in it, when it is entered.
    fn dot_git(
        &self,
        folder: BorrowedFd,
        path: &Path,
        in_git: bool,
        entry: FileType,
        told: &mut Vec<SetAside>,
    ) {
        let entry = if entry == FileType::Unknown { kind(folder, c".git") } else { Some(entry) };
        let place = path.join(".git");
        let known = self.known(&place);
        let away = |what, told: &mut Vec<SetAside>| told.push(set_aside(folder, path, c".git", what));
        match (entry, known) {
            (_, Some(Known::Opened | Known::Unanswering | Known::Whole)) => {}
            (Some(FileType::Directory), Some(Known::Folder(_))) => {}
            (Some(FileType::Symlink), Some(Known::Link)) => {}
            // In a repository's own folder it would make that the work tree, and git would write hooks there itself. (A
            // folder loses its `HEAD` when it is entered.)
            (Some(FileType::RegularFile | FileType::Symlink), None) if in_git => {
                away(What::InRepository, told);
            }
            (Some(FileType::Symlink), _) => away(What::Pointer, told),
            (Some(FileType::RegularFile), known) => {
                let text = read(folder, c".git", pointer::MOST_BYTES);
                let mut same = false;
                if let (Some(Known::Pointer { text: before, leads_to_one }), Read::Text(text)) =
                    (known, &text)
                {
                    same = before == text;
                    if same && *leads_to_one {
                        return;
                    }
                }
                match self.pointer(path, &text) {
                    // It leads where it led.
                    Target::Elsewhere if same => {}
                    Target::Elsewhere => away(What::Pointer, told),
                    Target::Nowhere => {}
                    Target::Repository(target) => self.new_work_tree(path, Some(&target), told),
                }
            }
            (Some(FileType::Directory), _) => self.new_work_tree(path, None, told),
            // Git passes over all else.
            _ => {}
        }
    }

    /// Where a pointer leads.
    fn pointer(&self, top: &Path, text: &Read) -> Target {
        let Read::Text(text) = text else { return Target::Elsewhere };
        // Git reads up to the first NUL, and takes what it finds.
        let Some(target) = pointer::gitdir(text) else {
            let odd = text.starts_with(b"gitdir: ") || text.contains(&0);
            return if odd { Target::Elsewhere } else { Target::Nowhere };
        };
        let Some(target) = meant(top, target.as_os_str().as_bytes()) else { return Target::Elsewhere };
        match beneath(self.roots, &target) {
            Beneath::Found(_) => Target::Repository(target),
            Beneath::Missing => Target::Nowhere,
            // A path of the inside's, where a folder is mounted at another place.
            Beneath::Outside if !may_exist(&target) => Target::Nowhere,
            Beneath::Link(_) | Beneath::Outside | Beneath::Failed => Target::Elsewhere,
        }
    }

    /// Looks for programs in a work tree that was not there before, or has another repository now: those that the
    /// caller's own configuration names in every work tree, and those that the repository's does, where it is trusted.
    fn new_work_tree(&self, top: &Path, repository: Option<&Path>, told: &mut Vec<SetAside>) {
        let mut named: Vec<Named> = self.handback.personal.named.clone();
        let mut reference = None;
        if let Some(target) = repository {
            let whole = match target.parent() {
                Some(above) if above.ends_with("worktrees") => above.parent().unwrap_or(target),
                _ => target,
            };
            if let Some(Known::Folder(known)) = self.known(whole) {
                reference = Some(known.top.as_path());
                if let Some(text) = &known.config {
                    let all = names(&OpenFolders::default(), &whole.join("config"), text, top);
                    named.extend(all.into_iter().map(|(named, path, _)| Named { path, ..named }));
                }
            }
        }
        self.programs(top, named.into_iter(), reference, told);
    }

    /// Sets aside what `named` names in the work tree at `top`, unless it is what stands in the work tree `reference`.
    fn programs(
        &self,
        top: &Path,
        named: impl Iterator<Item = Named>,
        reference: Option<&Path>,
        told: &mut Vec<SetAside>,
    ) {
        for named in named.filter(|named| !named.is_include()) {
            // A path that is the same in every work tree was kept.
            let relative = named.path.strip_prefix(top).unwrap_or(&named.path);
            if relative.is_absolute() {
                continue;
            }
            let Some(path) = meant(top, without_dots(relative).as_os_str().as_bytes()) else { continue };
            let entry = match beneath(self.roots, &path) {
                Beneath::Found(entry) | Beneath::Link(entry) => entry,
                Beneath::Missing | Beneath::Outside | Beneath::Failed => continue,
            };
            if named.only_a_file && entry.kind == FileType::Directory {
                continue;
            }
            let original = reference.map(|reference| reference.join(relative));
            let same = original.is_some_and(|original| match beneath(self.roots, &original) {
                Beneath::Found(original) => is_part_of(&entry, &original),
                _ => false,
            });
            if same || (entry.kind == FileType::Directory && is_empty(&entry)) {
                continue;
            }
            told.extend(move_entry(&entry, What::Program(named.key)));
        }
    }

    /// Judges the parts of a repository's own folder. Returns whether it is one still.
    fn repository(&self, repository: &Repository, told: &mut Vec<SetAside>) -> bool {
        let Repository { folder, path, signs, known, of_git } = *repository;
        let mut found: Vec<(&CStr, What, Option<Vec<u8>>)> = Vec::new();
        if let Some(what) = self.leads_on(repository) {
            found.push((c"commondir", what, None));
        }
        let configs = [
            (c"config", signs.config, known.map(|known| &known.config)),
            (c"config.worktree", signs.own_config, known.map(|known| &known.own_config)),
        ];
        for (name, _, before) in configs.into_iter().filter(|(_, there, _)| *there) {
            let is_open = known.is_some_and(|known| known.is_open(&name.to_string_lossy()));
            if let Some((what, rest)) = self.config(repository, name, before).filter(|_| !is_open) {
                found.push((name, what, rest));
            }
        }
        if let Some(hook) = self.hooks(repository) {
            found.push((c"hooks", What::Hooks(hook), None));
        }
        if !of_git {
            if attributes(repository).is_some() {
                found.push((c"info", What::Attributes, None));
            }
            // Of a folder that only looks like a repository nothing is touched but what makes it look so.
            let Some((_, what, _)) = found.into_iter().next() else { return true };
            let done = set_aside(folder, path, c"HEAD", What::Head(Box::new(what)));
            let still = done.error.is_some();
            told.push(done);
            return still;
        }
        for (name, what, rest) in found {
            told.push(part_aside(folder, path, name, rest.as_deref(), what));
        }
        if let Some((info, name, what)) = attributes(repository) {
            told.push(match info {
                Some(info) => set_aside(info.as_fd(), &path.join("info"), name, what),
                None => part_aside(folder, path, name, None, what),
            });
        }
        self.work_tree(repository, told);
        true
    }

    /// A `commondir` says that hooks and configuration are elsewhere. Only a worktree's own folder has one, in its
    /// place in the repository that it belongs to, which is judged for itself.
    fn leads_on(&self, repository: &Repository) -> Option<What> {
        let Repository { folder, path, signs, known, .. } = *repository;
        if !signs.commondir {
            return None;
        }
        match read(folder, c"commondir", pointer::MOST_BYTES) {
            Read::Missing => return None,
            _ if known.is_some_and(|known| known.leads_on || known.is_open("commondir")) => return None,
            Read::Text(text) if pointer::bare_path(&text) == Some(Path::new("../..")) => {}
            _ => return Some(What::CommonDir),
        }
        let is_judged = || {
            let above = open_folder(folder, c"../..").ok()?;
            let name = path.parent()?.parent()?.file_name()?;
            Some(name == ".git" || Signs::of(above.as_fd()).of_a_repository())
        };
        let in_its_place = path.parent().is_some_and(|above| above.ends_with("worktrees"));
        if in_its_place && is_judged() == Some(true) { None } else { Some(What::CommonDir) }
    }

    /// Judges a configuration. With what is harmless in it, where that can be told.
    fn config(
        &self,
        repository: &Repository,
        name: &CStr,
        before: Option<&Option<Vec<u8>>>,
    ) -> Option<(What, Option<Vec<u8>>)> {
        let text = match read(repository.folder, name, config::MOST_BYTES) {
            Read::Missing => return None,
            Read::Text(text) => text,
            Read::Odd if before.is_some_and(Option::is_some) => {
                return Some((What::Configuration, before.cloned().flatten()));
            }
            Read::Odd => return Some((What::Configuration, None)),
        };
        let before = before.and_then(Option::as_deref);
        let is_work_tree = |value: &[u8]| self.is_its_work_tree(repository.path, value);
        match config::judge(&text, before, is_work_tree) {
            Judgement::Harmless => None,
            Judgement::Names { settings, rest } => Some((What::Settings(settings), Some(rest))),
            Judgement::Unreadable => Some((What::Configuration, before.map(<[u8]>::to_vec))),
        }
    }

    /// Whether a value of `core.worktree` in a submodule's own folder leads to the submodule: to the folder that points
    /// back, or to an empty one, or to none. Elsewhere it has git write where nobody expects it, hooks of another
    /// repository for one.
    fn is_its_work_tree(&self, repository: &Path, value: &[u8]) -> bool {
        let Some(tree) = meant(repository, value).filter(|_| is_module(repository)) else { return false };
        if self.is_in_any_repository(&tree) {
            return false;
        }
        match beneath(self.roots, &tree) {
            Beneath::Missing => true,
            Beneath::Found(entry) if entry.kind == FileType::Directory => {
                match read(entry.itself.as_fd(), c".git", pointer::MOST_BYTES) {
                    Read::Missing => is_empty(&entry),
                    text => {
                        matches!(self.pointer(&tree, &text), Target::Repository(back) if back == repository)
                    }
                }
            }
            _ => false,
        }
    }

    /// Whether a path is in a repository's own folder, or is one.
    fn is_in_any_repository(&self, path: &Path) -> bool {
        let is_one = |above: &Path| {
            let called_so = above.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
            let looks_so = || match beneath(self.roots, above) {
                Beneath::Found(entry) if entry.kind == FileType::Directory => {
                    Signs::of(entry.itself.as_fd()).of_a_repository()
                }
                Beneath::Failed => true,
                _ => false,
            };
            called_so || looks_so()
        };
        path.ancestors().any(is_one)
    }

    /// Of a repository that was there before, the work tree has to be where it was: a link in its place leads elsewhere.
    fn work_tree(&self, repository: &Repository, told: &mut Vec<SetAside>) {
        let Some(text) = repository.known.and_then(|known| known.config.as_deref()) else { return };
        // Most have none; the word is looked for first.
        if !text.to_ascii_lowercase().windows(8).any(|word| word == b"worktree") {
            return;
        }
        let settings = config::settings(text).unwrap_or_default();
        let moves = |setting: &&config::Setting| setting.key() == "core.worktree";
        for value in settings.iter().filter(moves).filter_map(|setting| setting.value.as_deref()) {
            let Some(tree) = meant(repository.path, value) else { continue };
            match beneath(self.roots, &tree) {
                Beneath::Link(link) => told.extend(move_entry(&link, What::WorkTree)),
                // What it calls so became another repository's own folder.
                Beneath::Found(_) if is_module(repository.path) && self.is_in_any_repository(&tree) => {
                    let known = config::Setting {
                        section: "core".into(),
                        subsection: None,
                        name: "worktree".into(),
                        value: Some(value.to_vec()),
                    };
                    let what = What::Settings(vec![known.key()]);
                    let rest = config::without(text, &known);
                    told.push(part_aside(
                        repository.folder,
                        repository.path,
                        c"config",
                        rest.as_deref(),
                        what,
                    ));
                }
                _ => {}
            }
        }
    }

    /// The first hook in a repository's own folder that git would run and nobody vouches for.
    fn hooks(&self, repository: &Repository) -> Option<String> {
        let Repository { folder, signs, known, .. } = *repository;
        if !signs.hooks || known.is_some_and(|known| known.is_open("hooks")) {
            return None;
        }
        let before = known.and_then(|known| known.hooks);
        let (entry, itself) = kind_and_identity(folder, c"hooks")?;
        match entry {
            FileType::Symlink if before.is_some_and(|(_, link)| link) => return None,
            FileType::Symlink => return Some("(hooks is a link)".to_owned()),
            FileType::Directory if before.is_some_and(|(before, _)| before == itself) => return None,
            FileType::Directory => {}
            _ => return None,
        }
        let Ok(hooks) = open_folder(folder, c"hooks") else {
            return Some("(hooks cannot be read)".to_owned());
        };
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(&hooks, buffer.spare_capacity_mut());
        let mut left = MOST_HOOKS;
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { return Some("(hooks cannot be read)".to_owned()) };
            let hook = entry.file_name();
            let text = hook.to_bytes();
            // What git itself puts there, as an example, and does not run.
            if matches!(text, b"." | b"..") || text.ends_with(b".sample") {
                continue;
            }
            left = left.saturating_sub(1);
            if left == 0 || (runs(hooks.as_fd(), hook) && !self.is_a_template(hooks.as_fd(), hook)) {
                return Some(name(text));
            }
        }
        None
    }

    /// Whether a hook is one that the caller's own git copies into every new repository.
    fn is_a_template(&self, hooks: BorrowedFd, hook: &CStr) -> bool {
        const MOST_BYTES: usize = 1 << 20;
        let Read::Text(text) = read(hooks, hook, MOST_BYTES) else { return false };
        let personal = self.handback.personal.templates.as_deref();
        let folders = TEMPLATES.iter().map(Path::new).chain(personal);
        // One that the sandbox could write is nobody's.
        let mut own = folders.filter(|folder| !self.roots.iter().any(|root| folder.starts_with(&root.path)));
        own.any(|folder| {
            let path = folder.join("hooks").join(name(hook.to_bytes()));
            let template = crate::resolve::folder::read(rustix::fs::CWD, &path, MOST_BYTES);
            template.is_some_and(|template| template == text)
        })
    }

    /// Compares the configurations that a level leaves open, where nothing else can have changed.
    pub fn configurations(&self, tell: &mut impl FnMut(SetAside)) {
        for (path, known) in &self.handback.known {
            let Known::Folder(known) = known else { continue };
            let Beneath::Found(entry) = beneath(self.roots, path) else { continue };
            let signs = Signs::default();
            let repository =
                Repository { folder: entry.itself.as_fd(), path, signs, known: Some(known), of_git: true };
            for (name, before) in [(c"config", &known.config), (c"config.worktree", &known.own_config)] {
                if known.is_open(&name.to_string_lossy()) {
                    continue;
                }
                if let Some((what, rest)) = self.config(&repository, name, Some(before)) {
                    tell(part_aside(entry.itself.as_fd(), path, name, rest.as_deref(), what));
                }
            }
        }
    }
}

/// Whether a repository's own folder is where those of submodules are.
fn is_module(repository: &Path) -> bool {
    repository.ancestors().skip(1).any(|above| above.ends_with("modules"))
}

/// Where a pointer leads.
enum Target {
    /// To a folder within what is looked through, which is judged for itself.
    Repository(PathBuf),
    /// To nothing: git says so and stops.
    Nowhere,
    /// Elsewhere, or it cannot be told.
    Elsewhere,
}

/// The attributes of a repository that name a driver: the folder that they are in, where it is not the repository's own,
/// and the name there.
fn attributes(repository: &Repository) -> Option<(Option<rustix::fd::OwnedFd>, &'static CStr, What)> {
    let Repository { folder, signs, known, .. } = *repository;
    if !signs.info || known.is_some_and(|known| known.attributes || known.is_open("info/attributes")) {
        return None;
    }
    // In most there is none, and then it does not matter by which way there is none.
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    if matches!(rustix::fs::statat(folder, c"info/attributes", quiet), Err(Errno::NOENT)) {
        return None;
    }
    match kind(folder, c"info")? {
        FileType::Directory => {}
        FileType::Symlink => return Some((None, c"info", What::Attributes)),
        _ => return None,
    }
    let info = open_folder(folder, c"info").ok()?;
    let harmless = match read(info.as_fd(), c"attributes", MOST_ATTRIBUTES) {
        Read::Missing => true,
        Read::Odd => false,
        Read::Text(text) => !names_a_driver(&text),
    };
    (!harmless).then_some((Some(info), c"attributes", What::Attributes))
}

/// Whether attributes name a filter, or a driver that is not git's own.
fn names_a_driver(text: &[u8]) -> bool {
    const OWN: &[&[u8]] = &[b"diff=astextplain", b"merge=union", b"merge=binary", b"merge=text"];
    let named = |word: &[u8]| {
        let driver = [&b"filter="[..], b"diff=", b"merge="].iter().any(|start| word.starts_with(start));
        driver && !OWN.contains(&word)
    };
    text.split(u8::is_ascii_whitespace).any(named)
}

/// Whether git would run a hook: it can be executed, by anybody.
fn runs(hooks: BorrowedFd, hook: &CStr) -> bool {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let Ok(stat) = rustix::fs::statx(hooks, hook, quiet, StatxFlags::TYPE | StatxFlags::MODE) else {
        return true;
    };
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => u32::from(stat.stx_mode) & 0o111 != 0,
        FileType::Symlink => true,
        _ => false,
    }
}

/// What a file in a repository's own folder holds.
#[derive(Debug)]
enum Read {
    Missing,
    Text(Vec<u8>),
    /// A link, no regular file, too long, or it cannot be read.
    Odd,
}

fn read(folder: BorrowedFd, name: &CStr, most: usize) -> Read {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Read::Missing,
        Err(_) => return Read::Odd,
    };
    match crate::resolve::folder::read_open(&file, most) {
        Some(text) if text.len() <= most => Read::Text(text),
        _ => Read::Odd,
    }
}

fn is_empty(entry: &Entry) -> bool {
    let Ok(folder) = open_folder(entry.itself.as_fd(), c".") else { return false };
    let mut buffer = Vec::with_capacity(1 << 10);
    let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return false;
        }
    }
    true
}

/// A path without the `.` that people write in front of programs.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}

fn set_aside(folder: BorrowedFd, at: &Path, name: &CStr, what: What) -> SetAside {
    let path = at.join(OsStr::from_bytes(name.to_bytes()));
    match aside::set_aside(folder, name) {
        Ok(moved) => SetAside { path, what, moved_to: Some(at.join(moved)), error: None },
        Err(error) => SetAside { path, what, moved_to: None, error: Some(error.raw_os_error()) },
    }
}

/// Sets a part of a repository's own folder aside, with `rest` in its place.
fn part_aside(folder: BorrowedFd, at: &Path, name: &CStr, rest: Option<&[u8]>, what: What) -> SetAside {
    let replaced = rest.and_then(|rest| aside::replace(folder, name, rest).ok());
    if let Some(moved) = replaced {
        let path = at.join(OsStr::from_bytes(name.to_bytes()));
        return SetAside { path, what, moved_to: Some(at.join(moved)), error: None };
    }
    // On a full disk there is no room for another file; without its configuration a repository is harmless too.
    let done = set_aside(folder, at, name, what.clone());
    if done.error.is_none() {
        return done;
    }
    // And where there is no room for a longer name, `HEAD` changes places with a folder, which takes none: git takes this
    // for no repository then. (With a file it might, if the sandbox has written one that reads as the other.)
    let swapped = [c"objects", c"refs", c"hooks"].into_iter().find(|name| {
        kind(folder, name) == Some(FileType::Directory) && aside::exchange(folder, name, c"HEAD").is_ok()
    });
    match swapped {
        Some(place) => SetAside {
            path: at.join("HEAD"),
            what: What::Head(Box::new(what)),
            moved_to: Some(at.join(OsStr::from_bytes(place.to_bytes()))),
            error: None,
        },
        None => done,
    }
}

fn move_entry(entry: &Entry, what: What) -> Option<SetAside> {
    let (name, at) = (entry.name.as_ref()?, entry.path.parent()?);
    Some(set_aside(entry.folder.as_fd(), at, name, what))
}

/// A name as it is kept in what is told.
fn name(name: impl AsRef<[u8]>) -> String {
    OsStr::from_bytes(name.as_ref()).to_string_lossy().into_owned()
}
