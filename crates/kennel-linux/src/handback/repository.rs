//! Whether what git takes for a repository could make it run something, and what is done about it.
//!
//! *A repository's own folder* is what git takes for one: a folder called `.git`, and any folder with `HEAD` and either
//! `objects` and `refs` or a `commondir`, wherever it is: a bare repository, a submodule's folder in `.git/modules`, a
//! worktree's in `.git/worktrees`, or none of these and made to look like one. Each is judged for itself, so a pointer
//! to one within what is looked through leads to nothing that was not judged.
//!
//! In a repository that was there before the run, what is as it was is its owner's. All else has to be harmless.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::policy::GitLevel;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::aside::{part_aside, set_aside};
use super::before::Before;
use super::budget::Budget;
use super::config::{self, Judgement};
use super::lock::lock_away;
use super::place::{Beneath, beneath};
use super::shape::Shaper;
use super::signs::{Signs, kind};
use super::{Held, SetAside, What, open_folder};
use crate::resolve::git::pointer;
use crate::resolve::known::{Handback, Known, KnownFolder};

/// The longest file of attributes that is read.
const MAX_ATTRIBUTES: usize = 256 << 10;

/// What is known, to judge by.
pub struct Judge<'a> {
    pub handback: &'a Handback,
    pub(super) roots: &'a [Held],
    /// What stood in the repositories before the run.
    pub before: &'a HashMap<PathBuf, Before>,
    /// A point of time before the run.
    pub since: Option<Duration>,
    /// How much there may be to it.
    pub budget: &'a Budget,
}

/// What there is to go on with in a folder.
pub struct Judged {
    /// Whether it is in a repository's own folder, or one.
    pub inside: bool,
    /// The folders in it that have to be gone through, where these are not all.
    pub only: Option<Vec<CString>>,
}

/// A repository's own folder that is judged.
pub(super) struct Repository<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) path: &'a Path,
    /// What is in it.
    pub(super) signs: Signs,
    pub(super) known: Option<&'a KnownFolder>,
    /// Whether its parts are git's own without a doubt. Elsewhere a folder `hooks` may be a project's, and what made a
    /// repository of it is its `HEAD`.
    pub(super) of_git: bool,
}

impl Judge<'_> {
    pub(super) fn known(&self, path: &Path) -> Option<&Known> {
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
    ) -> Judged {
        if self.handback.level == GitLevel::Off {
            return Judged { inside: false, only: None };
        }
        let signs = signs.sure(folder);
        let mut only = None;
        let called_so = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        let mut inside = in_git || called_so;
        if called_so || signs.of_a_repository() {
            let known = match self.known(path) {
                Some(Known::Whole | Known::Opened | Known::Unanswering) => {
                    return Judged { inside: true, only };
                }
                Some(Known::Folder(known)) => Some(&**known),
                _ => None,
            };
            let ends_so = path.as_os_str().as_bytes().ends_with(b".git");
            let of_git = known.is_some() || inside || ends_so;
            let (still, further) = self.repository(&Repository { folder, path, signs, known, of_git }, told);
            inside |= still;
            only = further;
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
        Judged { inside, only }
    }

    /// Judges the parts of a repository's own folder. Returns whether it is one still, and the folders in it that have to
    /// be gone through.
    fn repository(&self, repository: &Repository, told: &mut Vec<SetAside>) -> (bool, Option<Vec<CString>>) {
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
            let first = found.into_iter().next().map(|(_, what, _)| what).or_else(|| {
                let mut shaper = Shaper::new(self, repository, told);
                let judged = shaper.judge();
                shaper.doubt.or_else(|| judged.err().map(|_| What::Unseen))
            });
            // Of a folder that only looks like a repository nothing is touched but what makes it look so.
            let Some(what) = first else { return (true, None) };
            let done = set_aside(folder, path, c"HEAD", What::Head(Box::new(what)));
            let still = done.error.is_some();
            told.push(done);
            return (still, None);
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
        let mut shaper = Shaper::new(self, repository, told);
        let judged = shaper.judge();
        let further = shaper.further;
        if judged.is_err() {
            let is_root = self.roots.iter().any(|root| root.path == path);
            told.push(lock_away(folder, path, is_root));
            return (true, Some(Vec::new()));
        }
        (true, Some(further))
    }

    /// A `commondir` says that hooks and configuration are elsewhere. Only a worktree's own folder has one, in its
    /// place in the repository that it belongs to, which is judged for itself.
    fn leads_on(&self, repository: &Repository) -> Option<What> {
        let Repository { folder, path, signs, known, .. } = *repository;
        if !signs.commondir {
            return None;
        }
        match read(folder, c"commondir", pointer::MAX_BYTES) {
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
        let text = match read(repository.folder, name, config::MAX_BYTES) {
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

    /// Judges what can have changed in the repositories that were there without a new name: what was written in place.
    pub fn in_place(&self, told: &mut Vec<SetAside>) {
        for (path, known) in &self.handback.known {
            let Known::Folder(known) = known else { continue };
            if self.handback.level == GitLevel::MetadataReadOnly || self.handback.level == GitLevel::Off {
                return;
            }
            let Beneath::Found(entry) = beneath(self.roots, path) else { continue };
            let folder = entry.itself.as_fd();
            let signs = Signs::of_known(known.leads_on);
            let repository = Repository { folder, path, signs, known: Some(known), of_git: true };
            Shaper::new(self, &repository, told).in_place();
        }
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
    let harmless = match read(info.as_fd(), c"attributes", MAX_ATTRIBUTES) {
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

/// What a file in a repository's own folder holds.
#[derive(Debug)]
pub(super) enum Read<T = Vec<u8>> {
    Missing,
    Text(T),
    /// A link, no regular file, too long, or it cannot be read.
    Odd,
}

pub(super) fn read(folder: BorrowedFd, name: &CStr, most: usize) -> Read {
    let mut text = Vec::new();
    match read_into(folder, name, most, &mut text) {
        Read::Text(()) => Read::Text(text),
        Read::Missing => Read::Missing,
        Read::Odd => Read::Odd,
    }
}

/// The same into a buffer.
pub(super) fn read_into(folder: BorrowedFd, name: &CStr, most: usize, text: &mut Vec<u8>) -> Read<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Read::Missing,
        Err(_) => return Read::Odd,
    };
    match crate::resolve::folder::read_open_into(&file, most, text) {
        Some(()) if text.len() <= most => Read::Text(()),
        _ => Read::Odd,
    }
}

/// A name as it is kept in what is told.
pub(super) fn name(name: impl AsRef<[u8]>) -> String {
    OsStr::from_bytes(name.as_ref()).to_string_lossy().into_owned()
}
