//! The guard against real processes: each test starts this test program again as a probe, which puts the guard's
//! filter on itself, hands the listener over and tries things.

mod creation;
mod death;
mod probe;
mod race;
mod view;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;
use crate::seccomp::bpf::{FilterAction, Table, bytes};

/// A folder of its own for a test, removed in the end.
struct Yard(PathBuf);

impl Yard {
    fn new() -> Yard {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kennel-guard-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a scratch folder can be made");
        Yard(path.canonicalize().expect("the scratch folder is there"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn anchor(&self) -> Anchor {
        let folder = std::fs::File::open(&self.0).expect("the scratch folder can be opened");
        let identity = walk::identity(folder.as_fd()).expect("a folder has an identity");
        Anchor { path: self.0.clone(), identity }
    }

    /// Rules that protect these paths, which do not exist.
    fn absent(&self, paths: &[&str]) -> Rules {
        let finding =
            |path: &&str| Finding { path: self.path(path), rule: format!("deny_write {path}").into() };
        Rules::new(&paths.iter().map(finding).collect::<Vec<_>>(), &[self.anchor().into()])
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A probe can change its root.
const PREMISES: GuardAssumptions = GuardAssumptions { own_network: true, one_root: false, own_mounts: true };

/// A probe under a guard.
struct Guarded {
    child: Child,
    link: BufReader<UnixStream>,
    handle: Option<GuardHandle>,
    ended: Arc<AtomicBool>,
}

/// What a probe told: each attempt with its error number, 0 for success.
#[derive(Debug)]
struct Told {
    attempts: Vec<(String, i32)>,
    violations: Vec<Violation>,
    ended: bool,
}

impl Guarded {
    /// Starts the probe `scenario` in `yard`. Without `rules` it runs free.
    fn start(scenario: &str, yard: &Path, rules: Option<Rules>) -> Guarded {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair can be made");
        // SAFETY: clears one flag of a descriptor that this function owns.
        unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
        let me = std::env::current_exe().expect("a test knows its own path");
        let mut command = Command::new(me);
        command
            .args(["guard::tests::probe::does_as_it_is_told", "--exact", "--nocapture", "--test-threads=1"])
            .env("KENNEL_GUARD_PROBE", scenario)
            .env("KENNEL_GUARD_YARD", yard)
            .env("KENNEL_GUARD_LINK", theirs.as_raw_fd().to_string())
            .current_dir(yard)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if scenario == "view" {
            view::unshare(&mut command, yard);
        } else {
            without_capabilities(&mut command);
        }
        let child = command.spawn().expect("the probe can be started");
        drop(theirs);
        let program = rules.as_ref().map(program).unwrap_or_default();
        let mut link = ours;
        link.write_all(&(program.len() as u32).to_ne_bytes()).expect("the probe listens");
        link.write_all(&program).expect("the probe listens");
        let ended = Arc::new(AtomicBool::new(false));
        let handle = rules.map(|rules| {
            let listener = receive_fd(&link);
            let (pid, ended) = (child.id().cast_signed(), ended.clone());
            let end = move || {
                // SAFETY: a plain call. The child is waited for only after the guard was stopped.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                ended.store(true, Ordering::SeqCst);
            };
            let guard = Guard::new(&rules, PREMISES).expect("the paths are there");
            guard.serve(Some(listener), end).expect("the guard can be started")
        });
        link.write_all(b"g").expect("the probe waits to be told to go");
        Guarded { child, link: BufReader::new(link), handle, ended }
    }

    /// Hears the probe to its end.
    fn finish(mut self) -> Told {
        let mut attempts = Vec::new();
        let mut line = String::new();
        while self.link.read_line(&mut line).is_ok_and(|length| length > 0) {
            let (name, errno) = line.trim_end().rsplit_once('=').expect("name=errno");
            attempts.push((name.to_owned(), errno.parse().expect("a number")));
            line.clear();
        }
        let violations = self.handle.take().map(|handle| handle.finish().list).unwrap_or_default();
        let status = self.child.wait().expect("the probe can be waited for");
        let ended = self.ended.load(Ordering::SeqCst);
        assert!(ended || status.success(), "the probe failed: {status}");
        Told { attempts, violations, ended }
    }
}

impl Told {
    fn of(scenario: &str, yard: &Yard, rules: Option<Rules>) -> Told {
        Guarded::start(scenario, &yard.0, rules).finish()
    }

    #[track_caller]
    fn errno(&self, name: &str) -> i32 {
        let found = self.attempts.iter().find(|(attempt, _)| attempt == name);
        found.unwrap_or_else(|| panic!("{name} was not tried: {:?}", self.attempts)).1
    }
}

/// Starts a command of root's without capabilities, as a sandbox does: the guard has none either, and may not look into a
/// process of its own user namespace that has more than it.
fn without_capabilities(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    const SECBIT_NOROOT: libc::c_ulong = 1;
    let enter = || {
        // SAFETY: a plain call. It fails for an ordinary user, who has no capabilities to lose.
        unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(enter) };
}

fn program(rules: &Rules) -> Vec<u8> {
    let mut table = Table::new(FilterAction::Allow);
    filter_rules(rules).apply(&mut table);
    bytes(&table.compile())
}

fn receive_fd(link: &UnixStream) -> OwnedFd {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let mut byte = [0u8];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(link, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).expect("the probe answers");
    let fds = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fds.expect("the probe sends its listener")
}

/// The descriptor that a variable of the environment names.
fn inherited(name: &str) -> OwnedFd {
    let number = std::env::var(name).ok().and_then(|text| text.parse().ok()).expect("a descriptor's number");
    // SAFETY: whoever set the variable passed the descriptor on for this.
    unsafe { OwnedFd::from_raw_fd(number) }
}
