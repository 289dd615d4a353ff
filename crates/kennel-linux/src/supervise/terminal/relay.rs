//! Carrying: what is typed goes in, what is shown comes out, and neither waits for the other.

use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::modes::{Modes, Output};
use super::outer::Read;
use super::{Terminal, returns};
use crate::supervise::readiness::Interest;

/// How often one round reads from inside, so that a flood does not starve the clock.
const TURNS: usize = 16;

impl Terminal {
    /// While `asking`, the caller's terminal belongs to a question.
    pub(in crate::supervise) fn register<'a>(&'a self, fds: &mut Vec<Interest<'a>>, asking: bool) {
        let mut inner_wants = PollFlags::empty();
        if !self.to_inside.is_empty() && !self.keys_wait {
            inner_wants |= PollFlags::OUT;
        }
        if self.to_outside.room() > 0 && !asking {
            inner_wants |= PollFlags::IN;
        }
        if let Some(inner) = self.inner.as_ref().filter(|_| !inner_wants.is_empty()) {
            fds.push(Interest::new(inner, inner_wants));
        }
        if asking || self.gone {
            return;
        }
        let mut outer_wants = PollFlags::empty();
        if self.attached && !self.deaf && self.to_inside.room() > 0 {
            outer_wants |= PollFlags::IN;
        }
        if !self.to_outside.is_empty() {
            outer_wants |= PollFlags::OUT;
        }
        fds.push(Interest::new(&self.outer, outer_wants));
    }

    /// Carries what can be carried. `ready` are the answers to what was registered. Returns whether the caller's terminal
    /// has gone.
    pub(in crate::supervise) fn carry(&mut self, ready: &[PollFlags], asking: bool) -> bool {
        let outer = ready.last().copied().filter(|_| !asking && !self.gone).unwrap_or(PollFlags::empty());
        if outer.contains(PollFlags::IN) && self.attached && !self.deaf {
            let outer = &mut self.outer;
            let read = self.to_inside.fill(|buffer| match outer.read(buffer) {
                Read::Bytes(count) => (outer.take_reply(&mut buffer[..count]), Read::Bytes(count)),
                other => (0, other),
            });
            match read {
                Read::Bytes(_) | Read::Nothing => {}
                // Whoever took the foreground has taken the keyboard with it.
                Read::NotOurs => self.attached = false,
                Read::Gone => return true,
            }
        } else if outer.intersects(PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
        if let Some(at) = self.attach_at.filter(|_| !asking)
            && (Instant::now() >= at || self.uses_terminal(&[]))
            && !self.attach()
        {
            self.attach_at = None;
        }
        self.type_inside();
        if asking {
            return false;
        }
        let mut may_show = self.outer.never_waits() || outer.contains(PollFlags::OUT);
        for _ in 0..TURNS {
            let more = self.read_inside();
            if !self.to_outside.is_empty() && std::mem::replace(&mut may_show, self.outer.never_waits()) {
                self.show();
            }
            if !more {
                break;
            }
        }
        false
    }

    /// Shows what has been read from inside, and nothing more; whether all of it has been.
    pub(super) fn show_rest(&mut self, ready: PollFlags) -> bool {
        if !self.to_outside.is_empty() && (self.outer.never_waits() || ready.contains(PollFlags::OUT)) {
            self.show();
        }
        self.to_outside.is_empty()
    }

    fn type_inside(&mut self) {
        if let Some(inner) = self.inner.as_ref().filter(|_| !self.keys_wait)
            && self.to_inside.drain(|bytes| rustix::io::write(inner, bytes)).is_err()
        {
            self.to_inside.clear();
        }
    }

    /// Reads what there is room for; whether there may be more.
    pub(super) fn read_inside(&mut self) -> bool {
        let Some(inner) = self.inner.as_ref().filter(|_| self.to_outside.room() > 0) else { return false };
        let read = self.to_outside.fill(|buffer| match rustix::io::read(inner, buffer) {
            Ok(count) => (count, Ok(count)),
            Err(error) => (0, Err(error)),
        });
        match read {
            Ok(count) if count > 0 => {
                let waiting = self.to_outside.waiting();
                if self.gone {
                    // For nobody; but read, so that a command that outlives its terminal goes on.
                    self.to_outside.clear();
                } else if (self.attach_at.is_some() || self.shows_last_words())
                    && self.uses_terminal(&waiting[waiting.len() - count..])
                {
                    match self.attach_at {
                        Some(_) => drop(self.attach()),
                        // The keyboard is the shell's by now; but what was written is shown as it would have been.
                        None => self.outer.change(|before| before.processing(Output::Raw)),
                    }
                }
                true
            }
            Err(Errno::AGAIN | Errno::INTR) if !self.ended => false,
            // Nobody inside has it open any more.
            Ok(_) | Err(_) => {
                self.inner = None;
                false
            }
        }
    }

    /// Whether the command has ended before what it wrote was read, and without ever having had the keyboard.
    fn shows_last_words(&self) -> bool {
        self.deaf && !self.attached && !self.shared && self.begun.is_some()
    }

    pub(super) fn show(&mut self) {
        if self.shared && self.attached {
            let output = self.output_inside();
            self.outer.change(|before| before.raw(output));
        }
        let (outer, twice) = (&self.outer, self.returns_twice());
        let write = |bytes: &[u8]| match twice {
            true => returns::write_without(bytes, |bytes| outer.write(bytes)),
            false => outer.write(bytes),
        };
        let shown = match outer.never_waits() {
            true => self.to_outside.drain(write),
            false => self.to_outside.drain_once(write),
        };
        if shown.is_err() {
            // That it has gone shows when it is polled.
            self.to_outside.clear();
        }
    }

    /// Whether the command, which has just written `shown`, does what programs do that use a terminal.
    fn uses_terminal(&self, shown: &[u8]) -> bool {
        const ESCAPE: u8 = 0x1b;
        const ENQUIRY: u8 = 5;
        let modes = self.inner.as_ref().and_then(|inner| Modes::of(inner).ok());
        let returns = modes.is_some_and(|modes| modes.adds_returns());
        // A line feed without a return: the modes had been others, and have been set back.
        let bare = |pair: &[u8]| returns && pair[1] == b'\n' && pair[0] != b'\r';
        modes != self.begun
            || shown.iter().any(|byte| matches!(*byte, ESCAPE | ENQUIRY))
            || shown.windows(2).any(bare)
    }

    /// Whether both terminals turn a line feed into a carriage return and a line feed, so that one of them has to be undone.
    fn returns_twice(&self) -> bool {
        if self.attached && !self.shared {
            return false;
        }
        let inner = self.inner.as_ref().and_then(|inner| Modes::of(inner).ok());
        let adds = |modes: Option<Modes>| modes.is_some_and(|modes| modes.adds_returns());
        adds(inner) && adds(self.outer.modes())
    }

    /// Whoever shares the caller's terminal relies on it for what a line feed does; and so does a program that draws the
    /// whole screen, in the other way. The one inside knows which of them is at work.
    pub(super) fn output_inside(&self) -> Output {
        let modes = self.inner.as_ref().and_then(|inner| Modes::of(inner).ok());
        modes.map_or(Output::Processed, |modes| modes.output())
    }

    /// Everything inside has ended. Whoever has no patience with a terminal that does not show the rest can say so by
    /// Ctrl-C.
    pub(in crate::supervise) fn inside_ended(&mut self) {
        self.ended = true;
        self.to_inside.clear();
        self.carry(&[], false);
        if self.attached && self.is_busy() {
            self.outer.change(|before| before.raw(Output::Raw).with_signals());
        }
    }

    /// Whether something is still to be shown.
    pub(in crate::supervise) fn is_busy(&self) -> bool {
        !self.gone && (self.inner.is_some() || !self.to_outside.is_empty())
    }
}
