//! A repository that leaves a run has a known shape: in its own folder there are the names that git makes, each of its
//! kind (`names`), and what git takes at its word (the index, refs, lists of what it does next) is what git writes.
//!
//! Git writes to many of these names without asking what stands there: through a link it writes elsewhere, and a second
//! name of a file may be anywhere. So there is no link in a repository's folder, and outside of the objects no file with
//! two names. What does not fit is moved aside.
//!
//! What was there before the run and has not changed is its owner's. By the kernel's time of the last change (`ctime`),
//! which renaming sets too, an entry of a folder is as it was if the folder itself is known to stand where it did.

pub mod index;
mod names;
mod paths;
mod refs;
mod state;

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, FileType, RawDir, Statx, StatxFlags};
use rustix::io::Errno;

use super::aside::{part_aside, set_aside};
use super::before::{Before, Was, stands};
use super::place::{Beneath, beneath, may_exist, meant};
use super::repository::{Judge, Read, Repository, read, read_into};
use super::{SetAside, What, config, open_folder};
use crate::resolve::git::pointer;
use crate::resolve::known::Known;
use index::{Embedded, Flaw};
use names::{Row, Shape};

/// More names than this no repository's own folder has, nor one of git's folders of state.
const MAX_NAMES: usize = 1 << 18;
/// Folders of refs in each other.
const MAX_DEEP: usize = 64;
/// The longest text that is read of a file with contents to judge.
const MAX_TEXT: usize = 1 << 20;
/// The longest file that is copied because it has other names; git does without one of those that are longer.
const MAX_COPIED: usize = 16 << 20;
/// Bad names of one folder of objects that are moved one by one.
const MAX_BAD: usize = 256;

/// A folder inside a repository's own folder, or that itself.
struct Inside {
    fd: OwnedFd,
    path: PathBuf,
    /// Whether it stands where it stood before the run.
    stayed: bool,
    /// Whether no name in it changed since.
    quiet: bool,
}

/// One repository's own folder.
pub(super) struct Shaper<'a> {
    judge: &'a Judge<'a>,
    repository: &'a Repository<'a>,
    /// A point of time before the run, where the file system's times can be trusted.
    since: Option<Duration>,
    before: Option<&'a Before>,
    worktree: bool,
    told: &'a mut Vec<SetAside>,
    /// Of a folder whose parts are not git's own without a doubt: the first reason to take its `HEAD` away.
    pub doubt: Option<What>,
    /// Folders in it that have to be gone through like any other.
    pub further: Vec<CString>,
    /// The time was over before all of it was judged.
    stop: bool,
}

impl<'a> Shaper<'a> {
    pub(super) fn new(
        judge: &'a Judge<'a>,
        repository: &'a Repository<'a>,
        told: &'a mut Vec<SetAside>,
    ) -> Shaper<'a> {
        let since = judge.since.filter(|_| notes_changes(repository.folder));
        let before = judge.before.get(repository.path).filter(|before| before.is_of(repository.folder));
        // Its own folder has no objects, and stands in its place in the repository that it belongs to.
        let worktree = repository.path.parent().is_some_and(|above| above.ends_with("worktrees"))
            && repository.signs.commondir;
        Shaper {
            judge,
            repository,
            since,
            before,
            worktree,
            told,
            doubt: None,
            further: Vec::new(),
            stop: false,
        }
    }

    /// Judges everything in it.
    pub fn judge(&mut self) -> Result<(), Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(self.repository.folder, 3)?;
        let fd = open_folder(fd.as_fd(), c".")?;
        let stayed = self.before.is_some() && self.since.is_some();
        let quiet = stayed && self.is_old(&stat(fd.as_fd(), c"")?);
        let top = Inside { fd, path: self.repository.path.to_path_buf(), stayed, quiet };
        let mut listed = list(&top)?;
        // What was set aside a moment ago has a name that git does not make either.
        let at = self.repository.path;
        let set_aside = |name: &CStr| {
            let is_it = |to: &PathBuf| to.file_name().is_some_and(|last| last.as_bytes() == name.to_bytes());
            let mut moved = self.told.iter().rev().filter_map(|done| done.moved_to.as_ref());
            moved.any(|to| is_it(to) && to.parent() == Some(at))
        };
        listed.retain(|(name, ..)| !set_aside(name));
        // The index goes by the shared one.
        listed.sort_by_key(|(name, ..)| !name.as_bytes().starts_with(b"sharedindex."));
        for (name, kind, number) in listed {
            self.go_on()?;
            if !self.repository.of_git && kind != FileType::RegularFile {
                self.further.push(name.clone());
            }
            let was = self.before.and_then(|before| before.was(&name)).cloned();
            match names::of_repository(name.as_bytes(), self.worktree) {
                Some(shape) => self.entry(&top, &name, kind, number, shape, was.as_ref(), 0),
                None => self.unknown(&top, &name, kind, number, was.as_ref()),
            }
        }
        if self.stop { Err(Errno::TIMEDOUT) } else { Ok(()) }
    }

    /// Judges what may have been written in place, where no name is new.
    pub(super) fn in_place(&mut self) {
        const NAMES: [&CStr; 7] =
            [c"index", c"HEAD", c"packed-refs", c"MERGE_RR", c"rebase-merge", c"rebase-apply", c"sequencer"];
        let Ok(fd) = rustix::io::fcntl_dupfd_cloexec(self.repository.folder, 3) else { return };
        let stayed = self.before.is_some() && self.since.is_some();
        let top = Inside { fd, path: self.repository.path.to_path_buf(), stayed, quiet: stayed };
        for name in NAMES {
            let shape = names::of_repository(name.to_bytes(), self.worktree);
            if let (Some(kind), Some(shape)) = (super::signs::kind(top.fd.as_fd(), name), shape) {
                let was = self.before.and_then(|before| before.was(name)).cloned();
                self.entry(&top, name, kind, 0, shape, was.as_ref(), 0);
            }
        }
    }

    /// A name that git does not make: its owner's, if it was there before.
    fn unknown(&mut self, top: &Inside, name: &CStr, kind: FileType, number: u64, was: Option<&Was>) {
        // A project's folder may look like a repository.
        if !self.repository.of_git {
            return;
        }
        match (stands(top.fd.as_fd(), name, kind, number), was) {
            (Was::Folder(_), Some(Was::Folder(_))) => self.further.push(name.to_owned()),
            (Was::File, Some(Was::File)) => self.file(top, name, Shape::Plain),
            (now, Some(was)) if now == *was => {}
            // It is judged where what is called so is.
            _ if name.to_bytes().eq_ignore_ascii_case(b".git") => {
                if kind != FileType::RegularFile {
                    self.further.push(name.to_owned());
                }
            }
            _ => self.away(top, name, What::Unknown, None),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn entry(
        &mut self,
        at: &Inside,
        name: &CStr,
        kind: FileType,
        number: u64,
        shape: Shape,
        was: Option<&Was>,
        depth: usize,
    ) {
        let kind = if kind == FileType::Unknown {
            super::signs::kind(at.fd.as_fd(), name).unwrap_or(FileType::Unknown)
        } else {
            kind
        };
        let is_folder = shape.is_folder();
        // Refs and logs are files and folders, told apart by what they are.
        let either = depth > 0 && matches!(shape, Shape::Refs | Shape::Logs | Shape::Data);
        match kind {
            FileType::Directory if is_folder => {
                let same = matches!(was, Some(Was::Folder(before)) if *before == number);
                self.folder(at, name, shape, same, depth);
            }
            FileType::RegularFile if !is_folder || either => self.file(at, name, shape),
            FileType::Symlink if was.is_some_and(|was| stands(at.fd.as_fd(), name, kind, number) == *was) => {
            }
            FileType::Symlink if matches!(shape, Shape::JudgedApart) => {}
            kind => {
                let same = at.stayed && stat(at.fd.as_fd(), name).is_ok_and(|stat| self.is_old(&stat));
                // Folders stay themselves when what is in them changes.
                let apart = matches!(shape, Shape::JudgedApart) && kind != FileType::Directory;
                if !same && !apart {
                    self.away(at, name, What::NotPlain(word(kind)), None);
                }
            }
        }
    }

    fn folder(&mut self, at: &Inside, name: &CStr, shape: Shape, same: bool, depth: usize) {
        // Of a project's folder that looks like a repository, all folders are.
        if matches!(shape, Shape::GoneThrough | Shape::Modules | Shape::Worktrees)
            && depth == 0
            && self.repository.of_git
        {
            self.further.push(name.to_owned());
        }
        if matches!(shape, Shape::GoneThrough) {
            return;
        }
        let Ok(stat) = stat(at.fd.as_fd(), name) else { return };
        let old = self.is_old(&stat);
        let stayed = at.stayed && (same || old);
        let quiet = stayed && old;
        // Nothing in it is another than it was; two links are a folder without folders in it where folders are counted.
        if quiet && matches!(shape, Shape::LooseObjects) {
            return;
        }
        let fd = match open_folder(at.fd.as_fd(), name) {
            Ok(fd) => fd,
            Err(Errno::ACCESS) => match super::walk::unlock(at.fd.as_fd(), name) {
                Ok(fd) => fd,
                Err(_) => return self.away(at, name, What::Unseen, None),
            },
            Err(Errno::NOENT) => return,
            Err(_) => return self.away(at, name, What::Unseen, None),
        };
        let inside = Inside { fd, path: at.path.join(OsStr::from_bytes(name.to_bytes())), stayed, quiet };
        if depth >= MAX_DEEP || self.inside(&inside, shape, depth + 1).is_err() {
            self.stop |= self.judge.budget.is_over();
            if !self.stop {
                self.away(at, name, What::Unseen, None);
            }
        }
    }

    /// Judges what is in a folder.
    fn inside(&mut self, at: &Inside, shape: Shape, depth: usize) -> Result<(), Errno> {
        let mut signs = super::signs::Signs::default();
        let mut bad = Vec::new();
        let mut each = |shaper: &mut Self, name: &CStr, kind: FileType, number: u64| {
            let text = name.to_bytes();
            signs.note(text, kind);
            let found = match shape {
                Shape::Folder(rows) => find(rows, text),
                Shape::Objects => names::of_objects(text),
                // Nothing is written to those, so second names do no harm, and to look at each would take its time.
                Shape::LooseObjects => {
                    if !names::is_loose_object(text)
                        || !matches!(kind, FileType::RegularFile | FileType::Unknown)
                    {
                        bad.push(name.to_owned());
                    }
                    return bad.len() < MAX_BAD;
                }
                Shape::Refs | Shape::Logs => refs::is_component(text).then_some(shape),
                Shape::Data => (!is_of_git(text)).then_some(shape),
                Shape::Worktrees if kind == FileType::Directory => return true,
                Shape::Modules if kind == FileType::Directory => {
                    if shaper.judge.is_closed(&at.path.join(OsStr::from_bytes(text))) {
                        return true;
                    }
                    // In one that nobody may enter no HEAD would be found.
                    let enters = rustix::fs::accessat(&at.fd, name, Access::EXEC_OK, AtFlags::EACCESS);
                    if enters.is_err() {
                        let _ = super::walk::unlock(at.fd.as_fd(), name);
                    }
                    // One with a HEAD is judged for itself.
                    let head = CString::new([text, b"/HEAD"].concat()).unwrap_or_default();
                    let is_one = super::signs::kind(at.fd.as_fd(), &head).is_some();
                    (!is_one).then(|| shaper.folder(at, name, shape, false, depth));
                    return true;
                }
                _ => None,
            };
            match found {
                Some(inner) => shaper.entry(at, name, kind, number, inner, None, depth),
                None if shaper.was_here(at, name) => {}
                None if shaper.repository.of_git => bad.push(name.to_owned()),
                None => {}
            }
            bad.len() < MAX_BAD
        };
        if matches!(shape, Shape::LooseObjects) {
            let mut seen = 0;
            stream(at, |name, kind, number| {
                seen += 1;
                (seen % 256 != 0 || self.go_on().is_ok()) && each(self, name, kind, number)
            })?;
            self.go_on()?;
        } else {
            for (name, kind, number) in list(at)? {
                self.go_on()?;
                if !each(self, &name, kind, number) {
                    break;
                }
            }
        }
        let many = bad.len() >= MAX_BAD;
        for name in bad {
            self.away(at, &name, What::Unknown, None);
        }
        // Among refs and logs git makes no repository.
        if matches!(shape, Shape::Refs | Shape::Logs) && signs.of_a_repository() {
            self.away(at, c"HEAD", What::InRepository, None);
        }
        if many { Err(Errno::NFILE) } else { Ok(()) }
    }

    /// Whether there is time left.
    fn go_on(&self) -> Result<(), Errno> {
        let over = self.stop || self.judge.budget.is_over_with(self.told.len());
        if over { Err(Errno::TIMEDOUT) } else { Ok(()) }
    }

    /// Whether an entry of a folder in the repository's own was there before the run.
    fn was_here(&self, at: &Inside, name: &CStr) -> bool {
        at.stayed && stat(at.fd.as_fd(), name).is_ok_and(|stat| self.is_old(&stat))
    }

    /// Judges a file.
    fn file(&mut self, at: &Inside, name: &CStr, shape: Shape) {
        let judged =
            matches!(shape, Shape::Text(_) | Shape::Todo | Shape::Index | Shape::Gitdir | Shape::JudgedApart);
        if at.quiet && !judged {
            return;
        }
        let Ok(stat) = stat(at.fd.as_fd(), name) else { return };
        if at.stayed && self.is_old(&stat) {
            return;
        }
        let objects = in_objects(self.repository.path, &at.path);
        let second = stat.stx_nlink > 1 && !objects;
        let (what, rest) = match shape {
            Shape::JudgedApart => {
                if second {
                    self.copy(at, name);
                }
                return;
            }
            // May be large, too.
            Shape::Text(fits) if name == c"packed-refs" => {
                let mut text = self.judge.budget.large();
                match read_into(at.fd.as_fd(), name, refs::MAX_PACKED, &mut text) {
                    Read::Missing => return,
                    Read::Text(()) if fits(&text) => (None, None),
                    _ => (Some(What::Contents), None),
                }
            }
            Shape::Text(fits) => match read(at.fd.as_fd(), name, MAX_TEXT) {
                Read::Missing => return,
                Read::Text(text) if fits(&text) => (None, None),
                _ => (Some(What::Contents), None),
            },
            Shape::Refs => match read(at.fd.as_fd(), name, MAX_TEXT) {
                Read::Missing => return,
                Read::Text(text) if refs::is_ref(&text) || name.to_bytes().ends_with(b".lock") => {
                    (None, None)
                }
                _ => (Some(What::Contents), None),
            },
            Shape::Todo => match read(at.fd.as_fd(), name, state::MAX_BYTES) {
                Read::Missing => return,
                Read::Text(text) => match state::without_commands(&text) {
                    None => (None, None),
                    Some(rest) => (Some(What::Commands), Some(rest)),
                },
                Read::Odd => (Some(What::Contents), None),
            },
            Shape::Gitdir => (self.leads_elsewhere(at, name).then_some(What::Pointer), None),
            Shape::Index => (self.index(at, name), None),
            _ => (None, None),
        };
        match what {
            Some(what) => self.away(at, name, what, rest.as_deref()),
            None if second => self.copy(at, name),
            None => {}
        }
    }

    /// Puts a copy in the place of a file with other names.
    fn copy(&mut self, at: &Inside, name: &CStr) {
        let text = match read(at.fd.as_fd(), name, MAX_COPIED) {
            Read::Text(text) => Some(text),
            _ => None,
        };
        self.away(at, name, What::SecondName, text.as_deref());
    }

    /// Judges an index.
    fn index(&mut self, at: &Inside, name: &CStr) -> Option<What> {
        let mut text = self.judge.budget.large();
        match read_into(at.fd.as_fd(), name, index::MAX_BYTES, &mut text) {
            Read::Missing => return None,
            Read::Text(()) => {}
            Read::Odd => return Some(What::Index("it cannot be read".into())),
        }
        match index::read(&text, self.hash_size()) {
            Err(Flaw::Form(expected)) => Some(What::Index(format!("expected {expected}"))),
            Err(Flaw::Path(path)) => Some(What::Index(format!("it names {}", shown(&path)))),
            Err(Flaw::Below(path)) => {
                Some(What::Index(format!("it names {}, below something that is no folder", shown(&path))))
            }
            Ok(index) => {
                let gone = |shared: &Vec<u8>| {
                    let name =
                        CString::new([b"sharedindex.", shared.as_slice()].concat()).unwrap_or_default();
                    super::signs::kind(at.fd.as_fd(), &name) != Some(FileType::RegularFile)
                };
                if index.shared.as_ref().is_some_and(gone) {
                    return Some(What::Index("the shared index that it goes by is not there".into()));
                }
                let bad = index.embedded.into_iter().find(|embedded| !self.is_its_owners(embedded));
                bad.map(|embedded| What::Embedded(shown(&embedded.folder)))
            }
        }
    }

    /// Whether a repository in the tree names no program, or is one that was there before the run, as it was.
    fn is_its_owners(&self, embedded: &Embedded) -> bool {
        let harmless = embedded.config.is_none() && !embedded.hooks && !embedded.links;
        let top = match self.repository.known {
            Some(known) => Some(known.top.as_path()),
            None => self.repository.path.parent(),
        };
        let known = top.and_then(|top| self.judge.known(&top.join(OsStr::from_bytes(&embedded.folder))));
        let same = match (known, &embedded.config) {
            (Some(Known::Folder(known)), Some(object)) => {
                known.config.as_ref().is_some_and(|config| object_name(config) == object.as_slice())
            }
            _ => false,
        };
        harmless || (same && !embedded.hooks && !embedded.links)
    }

    /// How long the names of objects are, in bytes: the configuration says so, and a worktree has its repository's.
    fn hash_size(&self) -> usize {
        let text = |folder: BorrowedFd| match read(folder, c"config", config::MAX_BYTES) {
            Read::Text(text) => text,
            _ => Vec::new(),
        };
        let text = if self.worktree {
            open_folder(self.repository.folder, c"../..").map(|above| text(above.as_fd())).unwrap_or_default()
        } else {
            text(self.repository.folder)
        };
        let sha256 = match config::settings(&text) {
            Some(settings) => {
                // The last one counts.
                let mut settings = settings.iter().rev();
                let format = settings.find(|setting| setting.key() == "extensions.objectformat");
                format.is_some_and(|format| format.value.as_deref() == Some(b"sha256"))
            }
            // One that its owner writes in a way of his own.
            None => text.to_ascii_lowercase().windows(6).any(|word| word == b"sha256"),
        };
        if sha256 { 32 } else { 20 }
    }

    /// Whether a worktree's place is somewhere that the sandbox could not write: git makes files there (`repair`).
    fn leads_elsewhere(&self, at: &Inside, name: &CStr) -> bool {
        let Read::Text(text) = read(at.fd.as_fd(), name, pointer::MAX_BYTES) else { return true };
        let Some(target) = pointer::bare_path(&text) else { return true };
        let Some(target) = meant(self.repository.path, target.as_os_str().as_bytes()) else { return true };
        if !target.ends_with(".git") {
            return true;
        }
        match beneath(self.judge.roots, &target) {
            Beneath::Found(_) | Beneath::Missing => false,
            // A worktree of the sandbox's own, in a folder that is not on the host.
            Beneath::Outside => target.parent().is_none_or(may_exist),
            Beneath::Link(_) | Beneath::Failed => true,
        }
    }

    fn away(&mut self, at: &Inside, name: &CStr, what: What, rest: Option<&[u8]>) {
        if !self.repository.of_git {
            self.doubt.get_or_insert(what);
            return;
        }
        if super::signs::kind(at.fd.as_fd(), name).is_none() {
            // The host's own git works here too, and its files come and go.
            return;
        }
        let done = if at.path == self.repository.path || rest.is_some() {
            part_aside(at.fd.as_fd(), &at.path, name, rest, what)
        } else {
            set_aside(at.fd.as_fd(), &at.path, name, what)
        };
        self.told.push(done);
    }

    /// Whether something has not changed since before the run: not its contents, nor its name, nor how many it has.
    fn is_old(&self, stat: &Statx) -> bool {
        let changed =
            Duration::new(u64::try_from(stat.stx_ctime.tv_sec).unwrap_or(0), stat.stx_ctime.tv_nsec);
        self.since.is_some_and(|since| changed < since)
    }
}

fn find(rows: &[Row], name: &[u8]) -> Option<Shape> {
    names::find(rows, name)
}

/// Names that make git take a folder for a repository, which a folder of data does not have.
fn is_of_git(name: &[u8]) -> bool {
    [&b".git"[..], b"HEAD", b"commondir"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a folder is among a repository's objects, or those of git-lfs: files there are not written again.
fn in_objects(repository: &Path, folder: &Path) -> bool {
    let inner = folder.strip_prefix(repository).unwrap_or(folder);
    inner.starts_with("objects") || inner.starts_with("lfs/objects")
}

/// All names of a folder of git's, which are few.
fn list(at: &Inside) -> Result<Vec<(CString, FileType, u64)>, Errno> {
    let mut names = Vec::new();
    stream(at, |name, kind, number| {
        names.push((name.to_owned(), kind, number));
        names.len() <= MAX_NAMES
    })?;
    if names.len() > MAX_NAMES { Err(Errno::NFILE) } else { Ok(names) }
}

fn stream(at: &Inside, mut each: impl FnMut(&CStr, FileType, u64) -> bool) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(16 << 10);
    let mut entries = RawDir::new(&at.fd, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && !each(name, entry.file_type(), entry.ino()) {
            break;
        }
    }
    Ok(())
}

fn stat(folder: BorrowedFd, name: &CStr) -> Result<Statx, Errno> {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let quiet = if name.is_empty() { quiet | AtFlags::EMPTY_PATH } else { quiet };
    rustix::fs::statx(folder, name, quiet, StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::CTIME)
}

/// Whether the file system of a folder notes a change of contents, of names and of links by a time that nobody can set.
pub(super) fn notes_changes(folder: BorrowedFd) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const TMPFS: u64 = 0x0102_1994;
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    const OVERLAY: u64 = 0x794c_7630;
    rustix::fs::fstatfs(folder).is_ok_and(|stat| {
        [EXT, XFS, TMPFS, BTRFS, F2FS, OVERLAY].contains(&(stat.f_type as u64 & 0xffff_ffff))
    })
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a link",
        FileType::Directory => "a folder",
        FileType::RegularFile => "a file",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "something else than a file",
    }
}

fn shown(path: &[u8]) -> String {
    OsStr::from_bytes(&path[..path.len().min(200)]).to_string_lossy().into_owned()
}

/// The name that git gives to a file's contents, by SHA-1.
fn object_name(text: &[u8]) -> [u8; 20] {
    sha1::of(&[format!("blob {}\0", text.len()).as_bytes(), text])
}

mod sha1;
