//! Network control while a sandbox runs: changing the rules, and asking about hosts.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use kennel_policy::domain::{HostRule, ListKind, without_password};
use kennel_policy::settings::{Base, Format, Provenance, parse};

use crate::network::GateHandle;
use crate::stdio::Handle;
use crate::{Result, SandboxError};

#[cfg(target_os = "linux")]
mod reachable;

/// Handle to change the network rules of a running sandbox. Clones refer to the same rules.
///
/// ```no_run
/// use kennel::{NetworkMode, Sandbox};
///
/// let sandbox = Sandbox::builder().network_mode(NetworkMode::AllowList).allow_domain("example.com").build()?;
/// let child = sandbox.spawn("my-agent", &[])?;
/// let network = child.network().expect("it has an allow list");
/// network.update(&["example.com", "*.example.org"], &["secret.example.org"])?;
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NetworkControl(GateHandle);

impl NetworkControl {
    pub(crate) fn new(rules: GateHandle) -> NetworkControl {
        NetworkControl(rules)
    }

    /// Replaces the current lists. The new ones apply to the next connection; allowed connections continue, and
    /// answers to questions are forgotten.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when an entry is not a host; the rules then stay as they were.
    pub fn update(&self, allow: &[&str], deny: &[&str]) -> Result<()> {
        let parsed = |list: &[&str], kind| {
            let wrong = |entry: &str, error| {
                SandboxError::ConfigValidation(format!("{}: {error}", without_password(entry)).into())
            };
            let rule = |entry: &&str| HostRule::parse(entry, kind).map_err(|error| wrong(entry, error));
            list.iter().map(rule).collect::<Result<Vec<_>>>()
        };
        self.replace(parsed(allow, ListKind::Allow)?, parsed(deny, ListKind::Deny)?);
        Ok(())
    }

    fn replace(&self, allow: Vec<HostRule>, deny: Vec<HostRule>) {
        self.0.replace(allow, deny);
    }
}

/// A host that no rule covers, and that a program inside wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostQuestion {
    /// The host, normalized.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostAnswer {
    /// It may be reached from now on, on this port.
    Allow,
    /// It may be reached by one connection, this time. Others that wait for the same answer ask again.
    AllowOnce,
    /// It may not.
    Deny,
    /// No answer in time. It may not be reached, and the next connection asks again.
    NoAnswer,
    /// Nobody was asked. It may not be reached.
    NotAsked,
}

/// Function to ask about hosts that no rule covers. It is called on its own thread, one question at a time; an answer
/// that takes longer than [`ask_timeout`](crate::SandboxBuilder::ask_timeout) means no.
#[derive(Clone)]
pub struct AskAboutHosts(Arc<dyn Fn(&HostQuestion) -> HostAnswer + Send + Sync>);

impl AskAboutHosts {
    /// Whom to ask.
    pub fn new(ask: impl Fn(&HostQuestion) -> HostAnswer + Send + Sync + 'static) -> AskAboutHosts {
        AskAboutHosts(Arc::new(ask))
    }

    /// Asks.
    pub(crate) fn ask(&self, question: &HostQuestion) -> HostAnswer {
        (self.0)(question)
    }
}

impl fmt::Debug for AskAboutHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskAboutHosts")
    }
}

/// The most bytes of one line: same limit as for a settings file.
const MAX_LINE: u64 = 1 << 20;

/// Settings that come while a sandbox runs: each line is a complete JSON object, whose two network lists replace the
/// current ones. Other settings in it are ignored, because mounts and limits are fixed by then.
pub struct ControlLines {
    from: Handle,
    complain: Complain,
    read: ReadLists,
}

type Complain = Box<dyn Fn(&ControlFault) + Send>;

/// Reads the two network lists, what is allowed and what is denied, out of a line.
pub type ReadLists = Box<dyn Fn(&[u8]) -> std::result::Result<(Vec<HostRule>, Vec<HostRule>), String> + Send>;

/// Why new rules did not come into effect. The old ones still apply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlFault {
    /// A line is no valid settings.
    #[error("new rules, line {number}: {error}; the old rules still apply")]
    Line {
        /// Which line, from 1.
        number: usize,
        /// What is wrong with it.
        error: String,
    },
    /// Nothing more can be read.
    #[error("reading new rules: {0}")]
    Read(io::Error),
    /// Nobody could read on.
    #[error("following new rules: starting a thread: {0}")]
    Thread(io::Error),
}

impl fmt::Debug for ControlLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlLines").field("from", &self.from).finish_non_exhaustive()
    }
}

impl ControlLines {
    /// Lines from this descriptor. `complain` is called for invalid lines, which change nothing; from a thread of its own.
    #[must_use]
    pub fn new(from: Handle, complain: impl Fn(&ControlFault) + Send + 'static) -> ControlLines {
        ControlLines { from, complain: Box::new(complain), read: Box::new(lists) }
    }

    /// The same in another language than kennel's own settings.
    #[must_use]
    pub fn reading(self, read: ReadLists) -> ControlLines {
        ControlLines { read, ..self }
    }

    /// Why a sandbox with this policy must not trust them: it could write them itself.
    #[cfg(target_os = "linux")]
    pub(crate) fn reachable(&self, policy: &crate::Policy) -> Option<String> {
        reachable::reachable(&self.from, policy)
    }

    /// Why a sandbox with this policy must not trust them: it could write them itself.
    #[cfg(windows)]
    pub(crate) fn reachable(&self, policy: &crate::Policy) -> Option<String> {
        use kennel_windows::verdict::{TokenKind, token_kind};
        let can_be_written = token_kind(policy) == TokenKind::UserWrites;
        let is_file = kennel_windows::host::is_disk_file(&self.from);
        let why = "the lines that change the network rules come from a file, which the command could write\n\
                   help: pass a pipe";
        (can_be_written && is_file).then(|| why.to_owned())
    }

    /// Why a sandbox must not trust them: what has a name may be opened by it. Where that is cannot be asked here, so
    /// everything that has one is refused.
    #[cfg(target_os = "macos")]
    pub(crate) fn reachable(&self) -> Option<String> {
        use rustix::fs::FileType;
        let status = rustix::fs::fstat(&self.from).ok()?;
        let kind = FileType::from_raw_mode(status.st_mode);
        let named = status.st_nlink > 0 && matches!(kind, FileType::Fifo | FileType::RegularFile);
        named.then(|| {
            "the control lines come from a file or a FIFO with a name, which the sandbox might open itself\nhelp: use an unnamed pipe or a socket".to_owned()
        })
    }

    /// Follows them on its own thread. Lines that arrived before this call apply when it returns.
    pub(crate) fn follow(self, control: NetworkControl) {
        let ControlLines { from, complain, read } = self;
        let mut lines = LineReader { reader: BufReader::new(File::from(from)), number: 0, read };
        while lines.is_waiting() {
            if lines.next(&control, &complain).is_none() {
                return;
            }
        }
        // Handed over when the thread is there, so that somebody can complain if it is not.
        let (hand, take) = std::sync::mpsc::sync_channel::<(LineReader, Complain)>(1);
        let work = move || {
            let Ok((mut lines, complain)) = take.recv() else { return };
            while lines.next(&control, &complain).is_some() {}
        };
        match std::thread::Builder::new().name("kennel-control".into()).spawn(work) {
            Ok(_) => drop(hand.send((lines, complain))),
            Err(error) => complain(&ControlFault::Thread(error)),
        }
    }
}

struct LineReader {
    reader: BufReader<File>,
    number: usize,
    read: ReadLists,
}

impl LineReader {
    /// Whether something can be read without waiting.
    #[cfg(target_os = "linux")]
    fn is_waiting(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(self.reader.get_ref(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !self.reader.buffer().is_empty() || poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Nothing runs here that would have to wait for it.
    #[cfg(not(target_os = "linux"))]
    fn is_waiting(&self) -> bool {
        false
    }

    /// Reads a line and does what it says; `None` at the end.
    fn next(&mut self, control: &NetworkControl, complain: &Complain) -> Option<()> {
        let mut line = Vec::new();
        self.number += 1;
        match self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Some(()),
            Err(error) => {
                complain(&ControlFault::Read(error));
                return None;
            }
        }
        if line.trim_ascii().is_empty() {
            return Some(());
        }
        match (self.read)(&line) {
            Ok((allow, deny)) => control.replace(allow, deny),
            Err(error) => {
                complain(&ControlFault::Line { number: self.number, error });
            }
        }
        Some(())
    }
}

fn lists(line: &[u8]) -> std::result::Result<(Vec<HostRule>, Vec<HostRule>), String> {
    let base = Base::new("/", None);
    let settings = parse(line, Format::Json, Provenance::File("control line"), &base);
    let network = settings.map_err(|error| error.to_string())?.network;
    if let Some(rule) = network.http.first() {
        return Err(format!("`{rule}`: rules about requests cannot be changed while the command runs"));
    }
    Ok((network.allow, network.deny))
}
