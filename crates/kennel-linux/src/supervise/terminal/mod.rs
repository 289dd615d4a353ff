//! The sandbox's terminal and the caller's, and what goes from one to the other.
//!
//! Nothing inside holds the caller's terminal. Init opens a pseudo-terminal inside and hands its other side to the
//! controller, which carries what is typed and what is shown, as sudo and ssh do. While the command is in the foreground
//! the caller's terminal is in raw mode: keys get their meaning from the terminal inside, where Ctrl-C, Ctrl-Z and Ctrl-D
//! are typed as anywhere.
//!
//! The command is in the foreground at once when all standard streams are terminals or files. Where kennel is one member of
//! a pipeline, other members may want the keyboard: then the command starts in the background of its terminal, the caller's
//! terminal stays as it is, and only when the command asks for it, which stops it (SIGTTIN, SIGTTOU), is it let in. The same
//! when kennel itself runs in the background.
//!
//! What was typed and carried inside cannot be taken back for the shell that comes next. So the keyboard goes inside only
//! when the command has lived for a moment, or does something that programs do which use a terminal: commands that are
//! quickly done leave what was typed ahead, and the caller's terminal, alone.
//!
//! Carrying never waits: what the caller's terminal does not take stays in a queue, and when that is full the inside waits,
//! not the controller.

mod dialogue;
mod modes;
mod outer;
mod question;
mod queue;
mod relay;
mod returns;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use self::modes::{Modes, Output};
pub(crate) use self::outer::CallerTerminal;
use self::outer::Read;
pub use self::question::{Asker, Questions, Reply, questions};
pub(crate) use self::queue::Queue;
use crate::plan::TerminalStreams;

/// What waits to be shown at most.
const TO_OUTSIDE: usize = 64 * 1024;
/// What was typed and not yet taken at most.
const TO_INSIDE: usize = 4096;
/// For how long a command in the foreground does without the keyboard if it shows no sign of wanting it; and how often it is
/// looked at whether it has set other modes, which is one: a password that is typed must not be shown.
const WITHOUT_KEYBOARD: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);
/// How long a stop waits for the terminal to show what was written before.
const PATIENCE: Duration = Duration::from_millis(300);

/// The two terminals.
#[derive(Debug)]
pub struct Terminal {
    outer: CallerTerminal,
    /// The controller's side of the one inside, until that has gone.
    inner: Option<OwnedFd>,
    /// Whether the command is to have the keyboard whenever this job is in the foreground: from the start, or since it
    /// asked.
    wanted: bool,
    /// Whether others may write to the caller's terminal meanwhile: members of a pipeline, and kennel's own streams.
    shared: bool,
    /// Whether what is typed goes inside.
    attached: bool,
    /// Nothing more is read from the caller's terminal.
    deaf: bool,
    /// What was typed waits until init has continued the command.
    keys_wait: bool,
    /// When it does, if nothing has it done sooner.
    attach_at: Option<Instant>,
    /// The modes that the terminal inside began with, if those are the caller's terminal's.
    begun: Option<Modes>,
    to_inside: Queue,
    to_outside: Queue,
    /// The caller's terminal has gone.
    gone: bool,
    /// Everything inside has ended, and writes nothing more.
    ended: bool,
}

/// What a stop of the command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It wanted the terminal, and has it now.
    LetIn,
    /// The whole job is to stop.
    Job,
}

impl Terminal {
    /// The terminal behind `stream`, and with what the one inside begins. In a `pipeline` the command waits for it until it
    /// asks; and where it is `shared`, others write to it as well.
    pub(super) fn new(
        stream: BorrowedFd,
        streams: Vec<u32>,
        pipeline: bool,
        shared: bool,
    ) -> io::Result<(Terminal, TerminalStreams)> {
        let outer = CallerTerminal::behind(stream)?;
        let eager = !pipeline && outer.is_foreground();
        let modes = Modes::of(&outer)?;
        // In the background these may be the modes in which a shell edits its line.
        let begin = if eager { modes } else { modes.sane() };
        let size = outer.size().unwrap_or_default();
        let (to_inside, to_outside) = (Queue::new(TO_INSIDE), Queue::new(TO_OUTSIDE));
        let terminal = Terminal {
            outer,
            inner: None,
            wanted: eager,
            shared,
            attached: false,
            deaf: false,
            keys_wait: false,
            attach_at: None,
            begun: eager.then_some(modes),
            to_inside,
            to_outside,
            gone: false,
            ended: false,
        };
        Ok((terminal, TerminalStreams { modes: begin.bytes(), size, streams }))
    }

    /// Whether the command has it from the start.
    #[must_use]
    pub fn is_eager(&self) -> bool {
        self.wanted
    }

    /// Takes the controller's side of the terminal inside, and begins.
    pub(super) fn begin(&mut self, inner: OwnedFd) {
        self.inner = Some(inner);
        // The window may have changed since the plan was made, before anybody listened for that.
        self.resize();
        self.attach_at = self.wanted.then(|| Instant::now() + WITHOUT_KEYBOARD);
    }

    /// When [`Terminal::carry`] is due in any case.
    pub(super) fn next(&self) -> Option<Instant> {
        self.attach_at.map(|at| at.min(Instant::now() + LOOK))
    }

    /// Lets what is typed go inside, if this job is in the foreground.
    fn attach(&mut self) -> bool {
        let Some(inner) = self.inner.as_ref().filter(|_| !self.gone && self.outer.is_foreground()) else {
            return false;
        };
        if self.begun.is_none()
            && let Some(modes) = self.outer.modes()
        {
            // The first time: the modes are those of whoever had the terminal before, a shell that runs a job.
            let _ = modes.set(inner);
            self.begun = Some(modes);
        }
        (self.attached, self.wanted, self.attach_at) = (true, true, None);
        self.resize();
        let echoed = self.outer.modes().is_some_and(|modes| modes.echoes());
        self.take_typed();
        self.set_raw();
        if echoed {
            self.feed_unshown();
        }
        true
    }

    /// Feeds what was typed until now without showing it: the caller's terminal has shown it already. For that moment the
    /// terminal inside does not echo.
    fn feed_unshown(&mut self) {
        // A line that was begun can be read since the caller's terminal makes no lines any more.
        let outer = &self.outer;
        if outer.never_waits() && self.to_inside.room() > 0 {
            self.to_inside.fill(|buffer| match outer.read(buffer) {
                Read::Bytes(count) => (count, ()),
                Read::Nothing | Read::NotOurs | Read::Gone => (0, ()),
            });
        }
        if let Some(inner) = self.inner.as_ref().filter(|_| !self.to_inside.is_empty())
            && let Some(inside) = Modes::of(inner).ok().filter(Modes::echoes)
            && inside.without_echo().set(inner).is_ok()
        {
            let _ = self.to_inside.drain(|bytes| rustix::io::write(inner, bytes));
            modes::await_input(inner);
            let _ = inside.set(inner);
        }
    }

    /// Keeps the keyboard out of the inside; the caller's terminal is as it was.
    fn detach(&mut self) {
        self.attached = false;
        self.outer.restore();
        let Some((inner, outside)) = self.inner.as_ref().zip(self.outer.modes()) else { return };
        if let Ok(inside) = Modes::of(inner) {
            // `stty tostop`: output of background jobs stops them.
            let stop = outside.stops_background_output();
            let _ = inside.stopping_background_output(stop).set(inner);
        }
    }

    /// Takes what was typed while the caller's terminal still made lines of it. An end of the input would be lost later.
    fn take_typed(&mut self) {
        let Some(modes) = self.outer.modes().filter(|_| self.outer.never_waits()) else { return };
        let Some(end) = modes.end_of_input() else { return };
        while self.to_inside.room() > 0 {
            let outer = &self.outer;
            let more = self.to_inside.fill(|buffer| match outer.read(buffer) {
                Read::Bytes(count) => (count, true),
                Read::Gone if !outer.is_gone() => {
                    buffer[0] = end;
                    (1, true)
                }
                Read::Nothing | Read::NotOurs | Read::Gone => (0, false),
            });
            if !more {
                break;
            }
        }
    }

    fn set_raw(&mut self) {
        let output = if self.shared { self.output_inside() } else { Output::Raw };
        self.outer.change(|before| before.raw(output));
    }

    /// Makes the terminal inside as large as the caller's. Says whether that was a change, of which the kernel tells the
    /// foreground group inside.
    pub(super) fn resize(&self) -> bool {
        let (Some(inner), Some(size)) = (&self.inner, self.outer.size()) else { return false };
        let changed = modes::size(inner).is_ok_and(|before| before != size);
        if changed {
            modes::set_size(inner, size);
        }
        changed
    }

    /// Has the program in the foreground inside draw its screen anew: it is told of a new size, by a size in pixels that is
    /// there for a moment.
    fn redraw(&self) {
        if let Some((inner, size)) =
            self.inner.as_ref().and_then(|inner| Some((inner, modes::size(inner).ok()?)))
        {
            let [rows, columns, wide, high] = size;
            modes::set_size(inner, [rows, columns, wide ^ 1, high]);
            modes::set_size(inner, size);
        }
    }

    /// The command was stopped by `signal`.
    pub(super) fn stopped(&mut self, signal: i32) -> Stop {
        let wants_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        if wants_terminal && !self.attached && self.attach() { Stop::LetIn } else { Stop::Job }
    }

    /// Makes ready for a stop of this process: what was written before is shown, as far as the terminal takes it, and the
    /// terminal is the shell's.
    pub(super) fn leave(&mut self) {
        let until = Instant::now() + PATIENCE;
        self.read_inside();
        while !self.gone && !self.to_outside.is_empty() && Instant::now() < until {
            let mut fds = [PollFd::new(&self.outer, PollFlags::OUT)];
            let time = super::timespec(until.saturating_duration_since(Instant::now()));
            if rustix::event::poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0) {
                self.show();
            }
        }
        self.outer.restore();
    }

    /// The job was continued after a stop by `signal`. Returns whether the command is in the foreground now. A stop that
    /// the kernel has discarded because no shell watches this job was none: `stopped` says so.
    pub(super) fn come_back(&mut self, signal: i32, stopped: bool) -> bool {
        let wants_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        if (self.wanted || wants_terminal) && self.attach() {
            return true;
        }
        self.detach();
        if wants_terminal && !stopped {
            // It would ask for ever, for a keyboard that it cannot have: there is nothing to read.
            let end = self.inner.as_ref().and_then(|inner| Modes::of(inner).ok()?.end_of_input());
            if let Some(key) = end.filter(|_| signal == libc::SIGTTIN && self.to_inside.room() > 0) {
                self.to_inside.fill(|buffer| {
                    buffer[0] = key;
                    (1, ())
                });
            }
            return true;
        }
        false
    }

    /// Somebody has continued this process, which may have been stopped without a chance to prepare for it. Returns whether
    /// the command's place has changed: whether it is now in the foreground.
    pub(super) fn continued(&mut self) -> Option<bool> {
        let foreground = self.outer.is_foreground();
        match (self.attached, foreground) {
            // The shell may have set its own modes meanwhile.
            (true, true) => {
                self.resize();
                self.set_raw();
                None
            }
            (true, false) => {
                self.detach();
                Some(false)
            }
            (false, true) if self.wanted => self.attach().then_some(true),
            (false, _) => None,
        }
    }

    /// Init is told to continue the command.
    pub(super) fn continues_command(&mut self) {
        self.keys_wait = true;
    }

    /// Init has done so.
    pub(super) fn command_continued(&mut self) {
        self.keys_wait = false;
    }

    /// Whether the caller's terminal has gone, which is found out now.
    pub(super) fn is_gone(&self) -> bool {
        self.gone || self.outer.is_gone()
    }

    /// The caller's terminal has gone. With `inside` so does the one inside: its session is told by SIGHUP.
    pub(super) fn hang_up(&mut self, inside: bool) {
        self.gone = true;
        self.attached = false;
        self.to_outside.clear();
        if inside {
            self.inner = None;
        }
    }

    /// A question has been answered: the terminal is the command's again, if it was. What was typed after the answer is for
    /// the inside.
    pub(super) fn after_question(&mut self, typed: &[u8]) {
        if !self.attached || !self.outer.is_foreground() {
            self.outer.restore();
        } else {
            self.set_raw();
            let mut typed = typed;
            while !typed.is_empty() && self.to_inside.room() > 0 {
                self.to_inside.fill(|buffer| {
                    let (now, later) = typed.split_at(typed.len().min(buffer.len()));
                    buffer[..now.len()].copy_from_slice(now);
                    typed = later;
                    (now.len(), ())
                });
            }
        }
        self.redraw();
    }

    /// The command has ended. What is typed from now on is for the shell that comes next.
    pub(super) fn command_ended(&mut self) {
        (self.wanted, self.attach_at) = (false, None);
        self.deaf = true;
    }

    /// The caller's terminal is as it was.
    pub(super) fn finish(&mut self) {
        self.attached = false;
        self.outer.restore();
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outer.as_fd()
    }
}
