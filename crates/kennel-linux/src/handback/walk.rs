//! Through all folders that the sandbox could write, by descriptors alone.
//!
//! The sandbox made what is gone through here, and may have made it to be hard: folders a hundred thousand deep, millions
//! beside each other, without rights for their owner. So as few are open at a time as there are processors and
//! some; one that is left behind on the way down is found again as the `..` of the one below, and known by its
//! identity. Of the names in a folder some are held at a time, the rest is read when these are done. What cannot be
//! looked through all the same is told.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kennel_init::plan::Identity;
use kennel_policy::policy::GitLevel;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::aside::Unlocked;
use super::linked::Links;
use super::lock::lock_away;
use super::names::{Names, Suspects};
use super::place::{Beneath, beneath};
use super::repository::{Judge, Judged};
use super::signs::Signs;
use super::{SetAside, What, identity, open_folder};
use crate::resolve::crew;
use crate::resolve::walk::{Counted, Leaf, answers, remote_mounts};

/// Folders down to this level are shared out among threads; what is below one is gone through by the thread that has it.
const SHARED_LEVELS: u32 = 4;
/// As many names are handed on together.
const BATCH: usize = 16;
/// As many names of a folder are held at a time, near the top and far below it.
const MAX_NAMES: usize = 2048;
const MAX_NAMES_DEEP: usize = 16;
const DEEP: usize = 64;
/// As many folders on the way down stay open.
const MAX_OPEN: usize = 32;
/// Folders further down are locked away, and so are those with longer paths: no system call takes them.
const MAX_LEVELS: usize = 8192;
const MAX_PATH: usize = 16 << 10;
/// A folder's entries are asked for in pieces of this size; most fit into one.
const BUFFER: usize = 32 << 10;

/// As often are folders gone through that were set aside in the time before. Each time may find one repository in the
/// hooks of another, and has to find its way there from the top, so a sandbox could make this take as long as it likes.
const MAX_ROUNDS: usize = 256;

/// Goes through everything, and tells what was set aside.
pub fn look_through(judge: &Judge, names: Option<&Names>) -> Vec<SetAside> {
    let since = judge.since;
    let remote = match remote_mounts() {
        Ok(remote) => remote,
        Err(error) => {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            return judge.roots.iter().map(|root| unseen(root.path.clone(), error)).collect();
        }
    };
    let mut told = Vec::new();
    let links = Links::default();
    for root in judge.roots {
        let opened = root.open().and_then(|fd| Folder::open(fd.as_fd(), c".", 0));
        walk(&Walk::new(judge, names, &links, &remote, since, &opened), opened, &root.path, &mut told);
    }
    // A folder that was set aside may have been so before it was gone through, and may hold others.
    let mut seen = 0;
    for round in 0.. {
        let open = told[seen..].iter().filter(|found| !matches!(found.what, What::Locked(_)));
        let moved: Vec<PathBuf> = open.filter_map(|found| found.moved_to.clone()).collect();
        if moved.is_empty() {
            break;
        }
        seen = told.len();
        for path in moved {
            match beneath(judge.roots, &path) {
                Beneath::Found(entry) if entry.kind == FileType::Directory => {
                    if round == MAX_ROUNDS || judge.budget.is_over_with(told.len()) {
                        told.push(lock_away(entry.itself.as_fd(), &path, false));
                        continue;
                    }
                    let opened = Folder::open(entry.itself.as_fd(), c".", 0);
                    walk(&Walk::new(judge, names, &links, &remote, None, &opened), opened, &path, &mut told);
                }
                Beneath::Failed => told.push(unseen(path, Errno::IO)),
                // A file or a link; nothing is in it.
                _ => {}
            }
        }
    }
    links.judge(judge, &mut told);
    follow(&mut told);
    told
}

/// What was told of in a folder that was set aside afterwards is where that is now.
fn follow(told: &mut [SetAside]) {
    let moves: BTreeMap<PathBuf, PathBuf> =
        told.iter().filter_map(|found| Some((found.path.clone(), found.moved_to.clone()?))).collect();
    for found in told {
        let now = found.moved_to.as_ref().unwrap_or(&found.path);
        let moved = now.ancestors().skip(1).find_map(|above| Some((above, moves.get(above)?)));
        if let Some((above, to)) = moved
            && let Ok(rest) = now.strip_prefix(above)
        {
            found.moved_to = Some(to.join(rest));
        }
    }
}

/// Goes through one folder and everything below it.
fn walk(walk: &Walk, folder: Result<Folder, Errno>, path: &Path, told: &mut Vec<SetAside>) {
    let folder = match folder {
        Ok(folder) => folder,
        // One that nobody can enter is closed to git as well.
        Err(Errno::NOENT) => return,
        Err(error) => return told.push(unseen(path.to_path_buf(), error)),
    };
    let within = Within {
        a_repository: walk.judge.is_in_repository(path),
        packages: path.iter().any(|name| name == "node_modules"),
    };
    let first = Task::List(Arc::new(Shared { folder, path: path.to_path_buf(), within, level: 0 }));
    told.extend(crew::work(vec![first], |task, further, told| walk.perform(task, further, told)));
}

fn unseen(path: PathBuf, error: Errno) -> SetAside {
    SetAside { path, what: What::Unseen, moved_to: None, error: Some(error.raw_os_error()) }
}

struct Walk<'a> {
    judge: &'a Judge<'a>,
    /// What programs obey, where that is looked for.
    names: Option<&'a Names<'a>>,
    /// Links that lead out.
    links: &'a Links,
    /// Mount points of file systems that may not answer.
    remote: &'a BTreeMap<PathBuf, bool>,
    /// The file system that the walk began on.
    counted: Counted,
    since: Option<Duration>,
}

/// What a folder is in.
#[derive(Clone, Copy)]
struct Within {
    /// A repository's own folder.
    a_repository: bool,
    /// A `node_modules`, which was not looked through at the start.
    packages: bool,
}

impl Within {
    /// What the folder `name` in it is in.
    fn and(self, name: &[u8]) -> Within {
        Within { packages: self.packages || name == b"node_modules", ..self }
    }
}

/// A folder that is open to be listed.
struct Folder {
    fd: OwnedFd,
    /// Rights that its owner had lost.
    unlocked: Option<Unlocked>,
}

/// A folder near the top, which several threads may have to do with.
struct Shared {
    folder: Folder,
    path: PathBuf,
    within: Within,
    level: u32,
}

/// What is looked for in a folder besides repositories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seeks {
    Nothing,
    /// Names that programs obey.
    Names,
    /// All names, in a folder of which a program obeys most.
    All,
}

enum Task {
    /// List the folder from its beginning.
    List(Arc<Shared>),
    /// List it from where its names go on.
    GoOn(Arc<Shared>, u64, Within),
    /// Look through these folders in it.
    Names(Arc<Shared>, std::vec::IntoIter<CString>, Within),
}

/// Some of the folders in a folder.
struct Listed {
    names: Vec<CString>,
    /// Where the names go on, if there are more.
    next: Option<u64>,
    signs: Signs,
    suspects: Suspects,
    links: Vec<CString>,
}

impl Listed {
    /// Leaves what was judged already out. Returns whether the rest is in a repository's own folder.
    fn go_on_with(&mut self, judged: Judged) -> bool {
        if let Some(only) = judged.only {
            (self.names, self.next) = (only, None);
        }
        judged.inside
    }
}

/// Opens a folder of its owner's that nobody may list, and leaves it open.
pub fn unlock(above: BorrowedFd, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    Folder::unlock(above, name, MAX_OPEN).map(|folder| folder.fd)
}

impl Folder {
    fn open(above: BorrowedFd, name: &std::ffi::CStr, depth: usize) -> Result<Folder, Errno> {
        match open_folder(above, name) {
            Ok(fd) => Ok(Folder { fd, unlocked: None }),
            Err(Errno::ACCESS) => Folder::unlock(above, name, depth),
            Err(error) => Err(error),
        }
    }

    /// Opens a folder that its owner may not list, or not enter: it takes its owner one command to change that.
    fn unlock(above: BorrowedFd, name: &std::ffi::CStr, depth: usize) -> Result<Folder, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(above, name, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        let enters = rustix::fs::accessat(&folder, c".", rustix::fs::Access::EXEC_OK, AtFlags::EACCESS);
        let Some(unlocked) = Unlocked::new(folder.as_fd())? else {
            // Another's: who cannot enter it has made nothing in it.
            return Err(if enters.is_err() && !mode.contains(Mode::XUSR) {
                Errno::NOENT
            } else {
                Errno::ACCESS
            });
        };
        let fd = open_folder(folder.as_fd(), c".")?;
        // Far down it stays so: for each of these a descriptor would have to be kept.
        let unlocked = if depth < MAX_OPEN {
            Some(unlocked)
        } else {
            unlocked.stay();
            None
        };
        Ok(Folder { fd, unlocked })
    }

    /// Reads names, no more folders' than `most`.
    fn list(&self, most: usize, seeks: Seeks) -> Result<Listed, Errno> {
        let (signs, suspects) = (Signs::default(), Suspects::default());
        let mut listed = Listed { names: Vec::new(), next: None, signs, suspects, links: Vec::new() };
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&self.fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            listed.signs.note(name.to_bytes(), entry.file_type());
            if seeks != Seeks::Nothing {
                listed.suspects.note(name, seeks == Seeks::All);
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                listed.names.push(name.to_owned());
            }
            if matches!(entry.file_type(), FileType::Symlink | FileType::Unknown) {
                listed.links.push(name.to_owned());
            }
            if [listed.names.len(), listed.suspects.len(), listed.links.len()]
                .into_iter()
                .any(|count| count >= most)
            {
                listed.next = Some(entry.next_entry_cookie());
                // The rest of the names has not been seen.
                listed.signs.ask();
                break;
            }
        }
        Ok(listed)
    }

    fn go_on(&self, next: u64, most: usize, seeks: Seeks) -> Result<Listed, Errno> {
        rustix::fs::seek(&self.fd, SeekFrom::Start(next))?;
        self.list(most, seeks)
    }
}

impl<'a> Walk<'a> {
    fn new(
        judge: &'a Judge,
        names: Option<&'a Names>,
        links: &'a Links,
        remote: &'a BTreeMap<PathBuf, bool>,
        since: Option<Duration>,
        folder: &Result<Folder, Errno>,
    ) -> Walk<'a> {
        let counted = folder.as_ref().map(|folder| Counted::at(&folder.fd)).unwrap_or_default();
        Walk { judge, names, links, remote, counted, since }
    }

    /// Whether names that programs obey are looked for in a folder. What is in packages is run by who uses these, whatever
    /// its name, and a repository's own folder has its rules.
    fn seeks(&self, path: &Path, within: Within) -> Seeks {
        match self.names {
            Some(_) if within.packages || within.a_repository => Seeks::Nothing,
            Some(names) if names.are_own(path) => Seeks::Nothing,
            Some(names) if names.all_of(path) => Seeks::All,
            Some(_) => Seeks::Names,
            None => Seeks::Nothing,
        }
    }

    /// What was listed of a folder besides folders.
    fn entries(
        &self,
        folder: BorrowedFd,
        path: &Path,
        within: Within,
        listed: &Listed,
        told: &mut Vec<SetAside>,
    ) {
        if let Some(names) = self.names {
            names.judge(folder, path, &listed.suspects, told);
        }
        if self.judge.handback.level != GitLevel::Off && !within.a_repository {
            self.links.note(self.judge, folder, path, &listed.links, told);
        }
    }

    fn perform(&self, task: Task, further: &mut Vec<Task>, told: &mut Vec<SetAside>) {
        if self.judge.budget.is_over_with(told.len()) {
            return self.lock_rest(task, told);
        }
        match task {
            Task::List(shared) => {
                let listed = shared.folder.list(MAX_NAMES, self.seeks(&shared.path, shared.within));
                self.listed_first(&shared, listed, further, told);
            }
            Task::GoOn(shared, next, within) => {
                match shared.folder.go_on(next, MAX_NAMES, self.seeks(&shared.path, within)) {
                    Ok(listed) => {
                        self.entries(shared.folder.fd.as_fd(), &shared.path, within, &listed, told);
                        hand_on(&shared, listed, within, further);
                    }
                    Err(error) => told.push(unseen(shared.path.clone(), error)),
                }
            }
            Task::Names(shared, names, within) => self.names(shared, names, within, further, told),
        }
    }

    /// Locks away what a task would have looked through.
    fn lock_rest(&self, task: Task, told: &mut Vec<SetAside>) {
        match task {
            // The folder itself is looked at all the same: one that can be written by rule should keep its place.
            Task::List(shared) => {
                let listed = shared.folder.list(MAX_NAMES, self.seeks(&shared.path, shared.within));
                let mut inside = Vec::new();
                self.listed_first(&shared, listed, &mut inside, told);
                inside.into_iter().for_each(|task| self.lock_rest(task, told));
            }
            Task::GoOn(shared, ..) => {
                let is_root = self.judge.roots.iter().any(|root| root.path == shared.path);
                told.push(lock_away(shared.folder.fd.as_fd(), &shared.path, is_root));
            }
            Task::Names(above, names, _) => {
                for name in names {
                    let path = above.path.join(OsStr::from_bytes(name.to_bytes()));
                    self.lock(above.folder.fd.as_fd(), &name, &path, told);
                }
            }
        }
    }

    /// Locks one folder away, unless nothing in it can have changed.
    fn lock(&self, above: BorrowedFd, name: &CString, path: &Path, told: &mut Vec<SetAside>) {
        if self.judge.is_closed(path) || self.remote.contains_key(path) {
            return;
        }
        let name_text = OsStr::from_bytes(name.to_bytes());
        let looked = self.counted.look_since(above, name_text, self.since);
        let is_dot_git = name.to_bytes().eq_ignore_ascii_case(b".git");
        if !is_dot_git && looked == Leaf::Unchanged {
            return;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(above, name, flags, Mode::empty()) {
            Ok(folder) => told.push(lock_away(folder.as_fd(), path, false)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => told.push(unseen(path.to_path_buf(), error)),
        }
    }

    /// Judges a folder near the top, and hands the folders in it on.
    fn listed_first(
        &self,
        shared: &Arc<Shared>,
        listed: Result<Listed, Errno>,
        further: &mut Vec<Task>,
        told: &mut Vec<SetAside>,
    ) {
        match listed {
            Ok(mut listed) => {
                let fd = shared.folder.fd.as_fd();
                let in_git = shared.within.a_repository;
                self.entries(fd, &shared.path, shared.within, &listed, told);
                let judged = self.judge.folder(fd, &shared.path, in_git, listed.signs, told);
                let a_repository = listed.go_on_with(judged);
                if !self.judge.is_closed(&shared.path) {
                    hand_on(shared, listed, Within { a_repository, ..shared.within }, further);
                }
            }
            Err(error) => told.push(unseen(shared.path.clone(), error)),
        }
    }

    fn names(
        &self,
        above: Arc<Shared>,
        mut names: std::vec::IntoIter<CString>,
        within: Within,
        further: &mut Vec<Task>,
        told: &mut Vec<SetAside>,
    ) {
        let level = above.level + 1;
        while let Some(name) = names.next() {
            let path = above.path.join(OsStr::from_bytes(name.to_bytes()));
            if self.judge.budget.is_over_with(told.len()) {
                self.lock(above.folder.fd.as_fd(), &name, &path, told);
                continue;
            }
            let entered = self.enter(above.folder.fd.as_fd(), &name, &path, within, 0, told);
            let Some(folder) = entered else { continue };
            let inner = within.and(name.to_bytes());
            if level >= SHARED_LEVELS {
                self.below(folder, path, inner, told);
                continue;
            }
            let below = Arc::new(Shared { folder, path, within: inner, level });
            let mut inside = Vec::new();
            let listed = below.folder.list(MAX_NAMES, self.seeks(&below.path, inner));
            self.listed_first(&below, listed, &mut inside, told);
            if !inside.is_empty() {
                if names.len() > 0 {
                    further.push(Task::Names(above, names, within));
                }
                return further.append(&mut inside);
            }
        }
    }

    /// Opens a folder, if it has to be looked at.
    fn enter(
        &self,
        above: BorrowedFd,
        name: &CString,
        path: &Path,
        within: Within,
        depth: usize,
        told: &mut Vec<SetAside>,
    ) -> Option<Folder> {
        if !self.remote.is_empty() && self.remote.contains_key(path) && !answers(self.remote, path) {
            if !self.judge.is_closed(path) {
                told.push(unseen(path.to_path_buf(), Errno::TIMEDOUT));
            }
            return None;
        }
        let is_dot_git = name.to_bytes().eq_ignore_ascii_case(b".git");
        // Where everything was seen at the start, a folder without a new name holds no new repository. A worktree's own
        // folder may hold no folder, and be one.
        let worktree = within.a_repository && path.parent().is_some_and(|above| above.ends_with("worktrees"));
        let since = self.since.filter(|_| !within.packages && !worktree);
        let name_text = OsStr::from_bytes(name.to_bytes());
        let looked = self.counted.look_since(above, name_text, since);
        // Whether there is another name in it, or a link, only its list tells. What is in packages was not looked through
        // at the start.
        let same = || {
            let is_packages = within.packages && self.since.is_some();
            is_packages && self.counted.look_since(above, name_text, self.since) == Leaf::Unchanged
        };
        let seeks = self.seeks(path, within.and(name.to_bytes())) != Seeks::Nothing;
        if !is_dot_git && (looked == Leaf::Unchanged || (looked == Leaf::Plain && !seeks && same())) {
            return None;
        }
        match Folder::open(above, name, depth) {
            Ok(folder) => Some(folder),
            // Gone, or no folder.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(error) => {
                told.push(unseen(path.to_path_buf(), error));
                None
            }
        }
    }

    /// Goes through everything below a folder, alone and with few folders open.
    fn below(&self, folder: Folder, path: PathBuf, within: Within, told: &mut Vec<SetAside>) {
        let top = path.clone();
        let mut path = path;
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.level(folder, &path, within, 0, told));
        while let Some(depth) = levels.len().checked_sub(1) {
            if self.judge.budget.is_over_with(told.len()) {
                // What is left of it is anywhere in it.
                if let Some(folder) = &levels[0].folder {
                    told.push(lock_away(folder.fd.as_fd(), &top, false));
                }
                return;
            }
            let level = &mut levels[depth];
            let Some(folder) = &level.folder else { break };
            if let Some(name) = level.names.next() {
                path.push(OsStr::from_bytes(name.to_bytes()));
                let within = level.within;
                if depth >= MAX_LEVELS || path.as_os_str().len() > MAX_PATH {
                    self.lock(folder.fd.as_fd(), &name, &path, told);
                    path.pop();
                    continue;
                }
                let entered = self.enter(folder.fd.as_fd(), &name, &path, within, depth, told);
                let inner = within.and(name.to_bytes());
                match entered.and_then(|folder| self.level(folder, &path, inner, depth + 1, told)) {
                    Some(below) => {
                        levels.push(below);
                        // The first stays, to be locked away.
                        if let Some(left @ 1..) = levels.len().checked_sub(MAX_OPEN + 1) {
                            levels[left].folder = None;
                        }
                    }
                    None => drop(path.pop()),
                }
                continue;
            }
            if let Some(next) = level.next.take() {
                match folder.go_on(next, most_names(depth), self.seeks(&path, level.within)) {
                    Ok(listed) => {
                        self.entries(folder.fd.as_fd(), &path, level.within, &listed, told);
                        (level.names, level.next) = (listed.names.into_iter(), listed.next);
                    }
                    Err(error) => told.push(unseen(path.clone(), error)),
                }
                continue;
            }
            let done = levels.pop().and_then(|level| level.folder);
            path.pop();
            if let (Some(above), Some(done)) = (levels.last_mut(), done)
                && above.folder.is_none()
            {
                match above.find_again(&done) {
                    Ok(folder) => above.folder = Some(folder),
                    // Something outside moved it: nothing of the sandbox is left to do that.
                    Err(error) => {
                        told.push(unseen(path.clone(), error));
                        return;
                    }
                }
            }
        }
    }

    /// Judges a folder, and reads the first of the names in it; `None` if there is none.
    fn level(
        &self,
        mut folder: Folder,
        path: &Path,
        within: Within,
        depth: usize,
        told: &mut Vec<SetAside>,
    ) -> Option<Level> {
        let mut listed = match folder.list(most_names(depth), self.seeks(path, within)) {
            Ok(listed) => listed,
            Err(error) => {
                told.push(unseen(path.to_path_buf(), error));
                return None;
            }
        };
        self.entries(folder.fd.as_fd(), path, within, &listed, told);
        let judged = self.judge.folder(folder.fd.as_fd(), path, within.a_repository, listed.signs, told);
        let a_repository = listed.go_on_with(judged);
        let within = Within { a_repository, ..within };
        if listed.names.is_empty() || self.judge.is_closed(path) {
            return None;
        }
        let itself = match identity(folder.fd.as_fd()) {
            Ok(itself) => itself,
            Err(error) => {
                told.push(unseen(path.to_path_buf(), error));
                return None;
            }
        };
        let (names, next, _unlocked) = (listed.names.into_iter(), listed.next, folder.unlocked.take());
        Some(Level { itself, folder: Some(folder), names, next, within, _unlocked })
    }
}

/// Hands some of the folders in a folder on. What comes last is done first: the rest of the names is read when these
/// are done.
fn hand_on(shared: &Arc<Shared>, listed: Listed, within: Within, further: &mut Vec<Task>) {
    further.extend(listed.next.map(|next| Task::GoOn(Arc::clone(shared), next, within)));
    // A repository's own folder comes before all others: it is what is left when the time is over.
    let (first, rest): (Vec<_>, Vec<_>) =
        listed.names.into_iter().partition(|name| name.as_bytes() == b".git");
    let mut names = rest.into_iter();
    loop {
        let batch: Vec<CString> = names.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        further.push(Task::Names(Arc::clone(shared), batch.into_iter(), within));
    }
    if !first.is_empty() {
        further.push(Task::Names(Arc::clone(shared), first.into_iter(), within));
    }
}

fn most_names(depth: usize) -> usize {
    if depth < DEEP { MAX_NAMES } else { MAX_NAMES_DEEP }
}

/// A folder on the way down.
struct Level {
    itself: Identity,
    /// `None` while it is left behind.
    folder: Option<Folder>,
    names: std::vec::IntoIter<CString>,
    /// Where the names go on, if there are more.
    next: Option<u64>,
    within: Within,
    _unlocked: Option<Unlocked>,
}

impl Level {
    /// Opens the folder again from one that is in it.
    fn find_again(&self, below: &Folder) -> Result<Folder, Errno> {
        let fd = open_folder(below.fd.as_fd(), c"..")?;
        if identity(fd.as_fd())? != self.itself {
            return Err(Errno::STALE);
        }
        Ok(Folder { fd, unlocked: None })
    }
}
