//! What the user's own programs do while a sandbox runs, and what the ledger learns of it.
//!
//! The host is careful: it follows no link on the way to a name, because a sandbox may have put it there and what a user
//! writes through it would be the user's own doing. Every change is one system call, or that of a real program (`sed -i`,
//! `git config`), and is entered into the books only if it succeeded.

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::canary::Canaries;
use super::ledger::Ledger;
use super::model::Model;
use super::oracle::Finding;
use super::perform::Outcome;
use super::script::{Op, Run};
use super::snapshot::{self, Entry, Kind};
use super::tree::{Area, git};
use super::wire::now;
use super::word;

/// The host's hands.
pub struct Host<'h> {
    /// Where it works.
    pub area: &'h Area,
    /// What it knows about the policy of the run: only to keep books.
    pub model: &'h Model,
    /// The books.
    pub ledger: Ledger,
    /// New secrets.
    pub canaries: &'h mut Canaries,
    /// What it was hindered in.
    pub findings: Vec<Finding>,
    /// Second sandboxes that ran meanwhile, and what came of them.
    pub also: Vec<(Run, Outcome)>,
    /// What it did, for a person to read.
    pub log: Vec<String>,
    /// Mounts that it made, to be undone.
    pub mounts: Vec<PathBuf>,
    top: OwnedFd,
    staged: usize,
}

/// Whether an operation leaves the shape of the tree as it is, so that it can be done while kennel still looks at it.
#[must_use]
pub fn keeps_shape(op: &Op) -> bool {
    matches!(op.verb.as_str(), "replace" | "rewrite" | "touch" | "chmod" | "open" | "flock" | "sed" | "pause")
}

impl<'h> Host<'h> {
    /// Whether a link stands at a name: what replaces one is no link.
    #[must_use]
    pub fn is_link(&self, path: &str) -> bool {
        std::fs::symlink_metadata(word::place(&self.area.top(), path)).is_ok_and(|it| it.is_symlink())
    }

    /// A host at the beginning of a run.
    ///
    /// # Errors
    /// When the scratch area is not there.
    pub fn new(
        area: &'h Area,
        model: &'h Model,
        ledger: Ledger,
        canaries: &'h mut Canaries,
    ) -> std::io::Result<Host<'h>> {
        let top =
            rustix::fs::open(area.top(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Host {
            area,
            model,
            ledger,
            canaries,
            findings: Vec::new(),
            also: Vec::new(),
            log: Vec::new(),
            mounts: Vec::new(),
            top,
            staged: 0,
        })
    }

    /// Does one thing. What does not succeed has not happened.
    pub fn perform(&mut self, op: &Op) {
        // A host that cannot do something is no finding; where it is hindered, that is noted on its own.
        let done = self.attempt(op);
        self.log.push(format!("{op}: {}", done.map_or_else(|error| error.to_string(), |()| "done".into())));
    }

    fn attempt(&mut self, op: &Op) -> Result<(), Errno> {
        let path = op.word(0);
        match op.verb.as_str() {
            "replace" => self.replace(path),
            "rewrite" => self.rewrite(path),
            "make" => self.make(path),
            "mkdir" => {
                let (folder, name) = self.folder_of(path)?;
                rustix::fs::mkdirat(&folder, &name, Mode::from_raw_mode(0o755))?;
                self.enter(path);
                Ok(())
            }
            "remove" => {
                let (folder, name) = self.folder_of(path)?;
                rustix::fs::unlinkat(&folder, &name, AtFlags::empty())
                    .or_else(|_| rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR))?;
                self.ledger.remove(path, now());
                Ok(())
            }
            "rename" => {
                let ((from, name), (to, new)) = (self.folder_of(path)?, self.folder_of(op.word(1))?);
                rustix::fs::renameat_with(&from, &name, &to, &new, RenameFlags::NOREPLACE)?;
                let writable = self.writable_below(path);
                self.ledger.rename(path, op.word(1), &writable, now());
                Ok(())
            }
            "over" => {
                let ((from, name), (to, new)) = (self.folder_of(path)?, self.folder_of(op.word(1))?);
                rustix::fs::renameat(&from, &name, &to, &new)?;
                let writable = self.writable_below(path);
                self.ledger.remove(op.word(1), now());
                self.ledger.rename(path, op.word(1), &writable, now());
                Ok(())
            }
            "move" => {
                let ((from, name), (to, new)) = (self.folder_of(path)?, self.folder_of(op.word(1))?);
                rustix::fs::renameat_with(&from, &name, &to, &new, RenameFlags::NOREPLACE)?;
                let writable = self.writable_below(path);
                self.ledger.rename(path, op.word(1), &writable, now());
                self.ledger.moved.push((path.to_owned(), op.word(1).to_owned()));
                Ok(())
            }
            "swap" => {
                let ((one, name), (two, other)) = (self.folder_of(path)?, self.folder_of(op.word(1))?);
                rustix::fs::renameat_with(&one, &name, &two, &other, RenameFlags::EXCHANGE)?;
                let writable = [self.writable_below(path), self.writable_below(op.word(1))].concat();
                self.ledger.swap(path, op.word(1), &writable, now());
                Ok(())
            }
            "linkto" => {
                let text = word::unescape(&path.replace(snapshot::TOP, &self.area.top().to_string_lossy()));
                let stage = self.stage();
                let text = CString::new(text).unwrap_or_default();
                rustix::fs::symlink(&text, &stage)?;
                let (folder, name) = self.folder_of(op.word(1))?;
                rustix::fs::renameat(rustix::fs::CWD, &stage, &folder, &name)?;
                self.enter(op.word(1));
                Ok(())
            }
            "gitlook" => {
                self.git_look(path);
                Ok(())
            }
            "chmod" => {
                let mode = u32::from_str_radix(op.word(1), 8).unwrap_or(0o600);
                let file = self.open(path, OFlags::RDONLY)?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
                self.ledger.change(path, |entry| entry.mode = mode);
                Ok(())
            }
            "touch" => {
                let (folder, name) = self.folder_of(path)?;
                let time = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
                let times = Timestamps { last_access: time, last_modification: time };
                rustix::fs::utimensat(&folder, &name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                self.ledger.change(path, |_| {});
                Ok(())
            }
            "bind" => {
                let (from, onto) = (self.open(path, OFlags::PATH)?, self.open(op.word(1), OFlags::PATH)?);
                let way = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
                rustix::mount::mount_bind(way(&from), way(&onto))?;
                self.mounts.push(word::place(&self.area.top(), op.word(1)));
                Ok(())
            }
            "sed" => self.sed(path),
            "gitconfig" => self.git_config(path),
            "gitinit" => {
                let folder = self.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
                let folder = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
                let _ = git(&folder).args(["init", "-q", "--template="]).status();
                self.ledger.wild.insert(word::join(path, ".git"));
                self.ledger.change(path, |_| {});
                Ok(())
            }
            "open" => self.probe(path),
            "flock" => self.probe_lock(path),
            "needs" => {
                self.needs(path);
                Ok(())
            }
            "neighbour" => {
                self.neighbour();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What the sandbox can write of a name and what is below: wherever it is moved, it can still be written.
    fn writable_below(&self, path: &str) -> Vec<String> {
        let below = self.ledger.names.keys().filter(|name| word::is_within(name, path)).cloned();
        // The name itself may be one that the sandbox made, and that is in no books.
        below.chain([path.to_owned()]).filter(|name| self.model.may_write(name)).collect()
    }

    /// The folder that holds a name, reached without following a link, and the name.
    fn folder_of(&self, path: &str) -> Result<(OwnedFd, CString), Errno> {
        let name = CString::new(word::unescape(word::name(path))).map_err(|_| Errno::INVAL)?;
        let folder = word::parent(path).ok_or(Errno::INVAL)?;
        Ok((self.open(folder, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let name = CString::new(word::unescape(path)).map_err(|_| Errno::INVAL)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // A FIFO must not hold the host up; with O_PATH nothing is opened, and openat2 takes no other flag.
        let flags =
            OFlags::CLOEXEC | if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        rustix::fs::openat2(&self.top, &name, flags, Mode::empty(), resolve)
    }

    fn stage(&mut self) -> PathBuf {
        self.staged += 1;
        self.area.at("stage").join(format!("{}", self.staged))
    }

    /// Enters a name as it stands now: what the host just put there.
    fn enter(&mut self, path: &str) {
        if let Some(entry) = snapshot::look(&word::place(&self.area.top(), path)) {
            let text = |entry: &Entry| self.relative(&entry.content);
            let entry =
                if entry.kind == Kind::Link { Entry { content: text(&entry), ..entry } } else { entry };
            self.ledger.set(path, entry, now());
        }
    }

    fn relative(&self, text: &[u8]) -> Vec<u8> {
        let top = self.area.top();
        match text.strip_prefix(top.as_os_str().as_bytes()) {
            Some(rest) => [snapshot::TOP.as_bytes(), rest].concat(),
            None => text.to_vec(),
        }
    }

    /// A new file with a new secret, prepared where no sandbox looks.
    fn fresh(&mut self, mode: u32) -> Result<(PathBuf, Entry), Errno> {
        let (place, content) = (self.stage(), self.canaries.make().content());
        let written = fs::write(&place, &content);
        written.map_err(|_| Errno::IO)?;
        rustix::fs::chmod(&place, Mode::from_raw_mode(mode))?;
        let entry = snapshot::look(&place).ok_or(Errno::NOENT)?;
        Ok((place, entry))
    }

    fn replace(&mut self, path: &str) -> Result<(), Errno> {
        let mode = self.ledger.names.get(path).filter(|name| name.entry.kind == Kind::File);
        let mode = mode.map_or(0o644, |name| name.entry.mode & 0o777);
        let (folder, name) = self.folder_of(path)?;
        let (staged, entry) = self.fresh(mode)?;
        rustix::fs::renameat(rustix::fs::CWD, &staged, &folder, &name)?;
        self.ledger.set(path, entry, now());
        Ok(())
    }

    fn make(&mut self, path: &str) -> Result<(), Errno> {
        let (folder, name) = self.folder_of(path)?;
        let (staged, entry) = self.fresh(0o644)?;
        rustix::fs::renameat_with(rustix::fs::CWD, &staged, &folder, &name, RenameFlags::NOREPLACE)?;
        self.ledger.set(path, entry, now());
        Ok(())
    }

    fn rewrite(&mut self, path: &str) -> Result<(), Errno> {
        let file = self.open(path, OFlags::WRONLY)?;
        if rustix::fs::fstat(&file)?.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Errno::INVAL);
        }
        let content = self.canaries.make().content();
        rustix::fs::ftruncate(&file, 0)?;
        fs::File::from(file).write_all(&content).map_err(|_| Errno::IO)?;
        self.ledger.rewrite(path, &content, now());
        Ok(())
    }

    /// `sed -i` makes its new file beside the old one. Whoever can read that folder can read it there for a moment.
    fn sed(&mut self, path: &str) -> Result<(), Errno> {
        let (folder, name) = self.folder_of(path)?;
        let known = self
            .ledger
            .names
            .get(path)
            .filter(|name| name.entry.kind == Kind::File && !self.model.may_write(path));
        let Some(content) = known.map(|name| name.entry.content.clone()) else { return Err(Errno::INVAL) };
        let place = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), name.to_string_lossy());
        let done =
            Command::new("sed").args(["-i", "s/this is/this was/", &place]).stderr(Stdio::null()).status();
        if done.is_ok_and(|status| status.success()) {
            let text = String::from_utf8_lossy(&content).replace("this is", "this was");
            let beside = word::join(word::parent(path).unwrap_or("."), "sedXXXXXX");
            let entry = snapshot::look(&word::place(&self.area.top(), path)).ok_or(Errno::NOENT)?;
            let entry = Entry { content: text.into_bytes(), ..entry };
            self.ledger.set(&beside, entry.clone(), now());
            self.ledger.remove(&beside, now());
            self.ledger.set(path, entry, now());
        }
        Ok(())
    }

    /// Looks at a repository as any prompt of a shell does.
    fn git_look(&mut self, path: &str) {
        let marks = self.area.at("marks");
        for words in [&["status"][..], &["log", "-1"], &["branch", "-a"]] {
            let place = word::place(&self.area.top(), path);
            let _ = git(&place).arg("--no-optional-locks").args(words).status();
        }
        if std::fs::read_dir(&marks).is_ok_and(|mut marks| marks.next().is_some()) {
            let what = "`git status` on the host ran a program that the sandbox wrote, while that ran";
            self.findings.push(Finding::new("executed", path, what));
            snapshot::clear(&marks);
        }
    }

    fn git_config(&mut self, path: &str) -> Result<(), Errno> {
        let folder = self.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
        let place = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let _ = git(&place).args(["config", "--local", "kennel.test", "1"]).status();
        let config = word::join(path, ".git/config");
        self.enter(&config);
        Ok(())
    }

    /// Opens a file as any program of the user's would. A lease would hold it up.
    fn probe(&mut self, path: &str) -> Result<(), Errno> {
        match self.open(path, OFlags::WRONLY) {
            Err(Errno::WOULDBLOCK) => {
                self.findings.push(Finding::new("hindered", path, "a lease holds up the host's open"));
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// A lock on a file that the sandbox can only read must not keep the host waiting.
    fn probe_lock(&mut self, path: &str) -> Result<(), Errno> {
        let file = self.open(path, OFlags::RDONLY)?;
        let locked = rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) && !self.model.may_write(path) {
            self.findings.push(Finding::new(
                "hindered",
                path,
                "a lock from inside holds up the host's flock",
            ));
        }
        Ok(())
    }

    /// What an ordinary program needs one of, where it could be had before, and another sandbox.
    fn needs(&mut self, what: &str) {
        let could = crate::hog::HOST_HAS.contains(&what);
        if let Err(said) = if could { crate::hog::need(what) } else { Ok(()) } {
            self.findings.push(Finding::new(
                "hindered",
                what,
                &format!("the host's own program failed: {said}"),
            ));
        }
        self.neighbour();
    }

    /// Another sandbox of the same user's, with a guard, which must start whatever the first one does.
    fn neighbour(&mut self) {
        let folder = self.area.at("stage");
        let mut command = Command::new(crate::kennel_bin());
        command
            .args(["run", "--no-settings", "--allow-write"])
            .arg(&folder)
            .arg("--deny-write")
            .arg(folder.join("absent"));
        command.args(["--", "touch", "made"]).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(output) = command.stderr(Stdio::piped()).output() else { return };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            self.findings.push(Finding::new(
                "hindered",
                "neighbour",
                &format!("another sandbox failed: {said}"),
            ));
        }
        let _ = fs::remove_file(folder.join("made"));
    }

    /// Undoes what the host mounted.
    pub fn unmount(&mut self) {
        for mount in self.mounts.drain(..).rev() {
            let _ = rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}
