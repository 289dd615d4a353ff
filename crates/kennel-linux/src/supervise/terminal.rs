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

use kennel_init::plan::{self, Identity};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::Pid;

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
        return (Caller { terminal: plan::Terminal::Detached, tty }, None);
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

    /// The command was stopped by `signal`. Returns when it is to go on, and whether with the terminal.
    pub(super) fn stopped(&mut self, signal: i32) -> bool {
        let wants_terminal = signal == libc::SIGTTIN || signal == libc::SIGTTOU;
        if !(wants_terminal && !self.given && self.is_ours()) {
            self.take_back();
            stop_this_job();
        }
        self.given = self.is_ours();
        self.given
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
