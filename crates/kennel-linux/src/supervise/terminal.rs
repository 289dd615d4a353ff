//! Sharing the caller's terminal, with job control.
//!
//! The command is a process group of its own in the caller's session: in the caller's group, `kill 0` from inside
//! would reach the caller. So kennel does what a shell does. The command gets the terminal at once when all standard
//! streams are terminals or files, and otherwise, where kennel is one member of a pipeline whose other members may
//! want the terminal, when it asks for it by being stopped (SIGTTIN, SIGTTOU). When the command stops, kennel stops
//! with it, so that the shell shows a stopped job; and continues it when the shell continues kennel.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kennel_init::plan::{self, Identity};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios};

use crate::plan::Caller;

/// The caller's controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    tty: OwnedFd,
    group: Pid,
    given: bool,
}

/// What the plan must know of the caller's terminal, and the terminal if there is one to share.
#[must_use]
pub fn caller() -> (Caller, Option<Terminal>) {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let Some(stream) = streams.iter().find(|fd| rustix::termios::isatty(fd)) else {
        return (Caller::default(), None);
    };
    let tty = tty_device(stream);
    let open = rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
    let Ok(control) = open else {
        // A terminal, but not the controlling one: nothing to share but its device.
        return (Caller { tty, ..Caller::default() }, None);
    };
    let group = rustix::process::getpgrp();
    let foreground = rustix::termios::tcgetpgrp(&control).ok() == Some(group);
    let in_pipeline = streams[..2].iter().any(is_pipe);
    let eager = foreground && !in_pipeline;
    let terminal = if eager { plan::Terminal::Foreground } else { plan::Terminal::Background };
    (Caller { terminal, tty }, Some(Terminal { tty: control, group, given: eager }))
}

fn is_pipe(fd: &impl AsFd) -> bool {
    rustix::fs::fstat(fd)
        .is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}

/// The path and identity of the terminal device behind `fd`.
fn tty_device(fd: &impl AsFd) -> Option<(PathBuf, Identity)> {
    let name = rustix::termios::ttyname(fd, Vec::new()).ok()?;
    let stat = rustix::fs::fstat(fd).ok()?;
    let device = u64::from(rustix::fs::major(stat.st_dev)) << 32 | u64::from(rustix::fs::minor(stat.st_dev));
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    Some((path, Identity { device, inode: stat.st_ino }))
}

impl Terminal {
    fn is_ours(&self) -> bool {
        rustix::termios::tcgetpgrp(&self.tty).ok() == Some(self.group)
    }

    /// The command was stopped by `signal`. Returns when it is to go on, and whether with the terminal; `None` when
    /// somebody else sees to that.
    pub(super) fn stopped(&mut self, signal: i32) -> Option<bool> {
        let wants_terminal = signal == libc::SIGTTIN || signal == libc::SIGTTOU;
        if (wants_terminal || signal == libc::SIGSTOP) && self.given {
            match conversation() {
                Conversation::Stands(_) => return None,
                // It wanted the terminal while kennel had it, and may have it now.
                Conversation::Ended(_) if !self.is_ours() => return Some(true),
                Conversation::Ended(_) | Conversation::None => {}
            }
        }
        if !(wants_terminal && !self.given && self.is_ours()) {
            self.take_back();
            stop_this_job();
        }
        self.given = self.is_ours();
        Some(self.given)
    }

    /// Makes this process's group the foreground one again, if it had given the terminal away.
    pub(super) fn take_back(&mut self) {
        if std::mem::take(&mut self.given) {
            // From the background, unless SIGTTOU is blocked, this would stop the process.
            with_mask(libc::SIG_BLOCK, libc::SIGTTOU, || {
                let _ = rustix::termios::tcsetpgrp(&self.tty, self.group);
            });
        }
    }
}

/// However a run ends, and also when the command never started.
impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Kennel's own use of the terminal.
#[derive(Clone)]
enum Conversation {
    None,
    /// With how the terminal was before.
    Stands(Termios),
    Ended(Instant),
}

static CONVERSATION: Mutex<Conversation> = Mutex::new(Conversation::None);

/// For so long a stop may still be one that a conversation caused: it is told by way of init.
const MOMENT: Duration = Duration::from_secs(5);

fn conversation() -> Conversation {
    match &*CONVERSATION.lock().unwrap_or_else(PoisonError::into_inner) {
        Conversation::Ended(when) if when.elapsed() > MOMENT => Conversation::None,
        now => now.clone(),
    }
}

/// Sets the terminal back if a question still stands, because the command has ended in the meantime.
pub(crate) fn end_conversation() {
    if let Conversation::Stands(modes) = conversation()
        && let Ok(tty) =
            rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    {
        with_mask(libc::SIG_BLOCK, libc::SIGTTOU, || {
            let _ = rustix::termios::tcsetattr(&tty, OptionalActions::Now, &modes);
        });
    }
}

fn conversation_is(now: Conversation) {
    *CONVERSATION.lock().unwrap_or_else(PoisonError::into_inner) = now;
}

/// Takes the controlling terminal from the command for as long as `talk` takes, with lines, echo, and no keys that send
/// signals; `None` where there is no terminal, or it is somebody else's at the moment.
///
/// The command is stopped meanwhile: a read that it has begun would get what is typed as an answer. That is not done to
/// a job of a shell inside, because that shell would take it for suspended.
///
/// One at a time, and while a sandbox that shares the terminal runs.
pub fn converse<T>(talk: impl FnOnce(&OwnedFd) -> T) -> Option<T> {
    use rustix::termios::{LocalModes, QueueSelector, SpecialCodeIndex};
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let tty = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let before = rustix::termios::tcgetpgrp(&tty).ok()?;
    let own = rustix::process::getpgrp();
    let below = if before == own { 0 } else { generations(before)? };
    let is_command = below == 2;
    let modes = rustix::termios::tcgetattr(&tty).ok()?;
    let mut plain = modes.clone();
    plain.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE);
    plain.local_modes.remove(LocalModes::ISIG);
    plain.input_modes.insert(rustix::termios::InputModes::ICRNL);
    // Ctrl-C ends the line, and is no answer.
    plain.special_codes[SpecialCodeIndex::VEOL] = 3;
    conversation_is(Conversation::Stands(modes.clone()));
    let mut said = None;
    if is_command {
        let _ = rustix::process::kill_process_group(before, rustix::process::Signal::STOP);
    }
    with_mask(libc::SIG_BLOCK, libc::SIGTTOU, || {
        if rustix::termios::tcsetpgrp(&tty, own).is_ok() {
            let _ = rustix::termios::tcsetattr(&tty, OptionalActions::Now, &plain);
            // What was typed before the question was not meant as an answer.
            let _ = rustix::termios::tcflush(&tty, QueueSelector::IFlush);
            said = Some(talk(&tty));
            let _ = rustix::termios::tcsetattr(&tty, OptionalActions::Drain, &modes);
            let _ = rustix::termios::tcsetpgrp(&tty, before);
        }
    });
    conversation_is(Conversation::Ended(Instant::now()));
    if before != own {
        // Also one that the kernel has stopped because it wanted the terminal.
        let _ = rustix::process::kill_process_group(before, rustix::process::Signal::CONT);
    }
    said
}

/// How many generations the leader of a process group is below this process: PID 1 is one, the command two; `None`
/// for a stranger.
fn generations(group: Pid) -> Option<usize> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut pid = group.as_raw_nonzero().get();
    // Far more than anybody nests shells.
    for below in 1..64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold anything; behind it come the state and the parent.
        pid = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())?;
        if pid == own {
            return Some(below);
        }
    }
    None
}

/// Runs `act` with one signal blocked or unblocked.
fn with_mask(how: i32, signal: i32, act: impl FnOnce()) {
    // SAFETY: the sets are plain memory that these calls fill in.
    unsafe {
        let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(how, &raw const set, &raw mut before);
        act();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// Stops this process's group as Ctrl-Z would; returns when somebody continues it. In a group that no shell watches
/// the kernel discards the stop, and the command simply goes on.
fn stop_this_job() {
    with_mask(libc::SIG_UNBLOCK, libc::SIGTSTP, || {
        // SAFETY: a plain call.
        unsafe { libc::kill(0, libc::SIGTSTP) };
    });
}

impl AsRawFd for Terminal {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.tty.as_raw_fd()
    }
}
