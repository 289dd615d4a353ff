//! The modes of a terminal, as the kernel lays them out, and its size.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};

use crate::sys::files as sys;
pub(super) use crate::sys::files::Modes;

/// The kernel's `struct winsize`: rows, columns, and both in pixels.
pub(super) type Size = [u16; 4];

/// How output is treated on its way to the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// As the modes say: a line feed becomes a carriage return and a line feed.
    Processed,
    /// As it comes.
    Raw,
}

impl Modes {
    pub(super) fn of(terminal: impl AsFd) -> io::Result<Modes> {
        Ok(sys::modes(terminal)?)
    }

    /// Sets them at once. Not after what has been written was shown: that could take for ever. What was written has been
    /// processed by the old modes.
    pub(super) fn set(&self, terminal: impl AsFd) -> io::Result<()> {
        Ok(sys::set_modes(terminal, *self)?)
    }

    /// The same with every key passed on as it is typed, nothing shown by the terminal itself and no keys with a meaning.
    pub(super) fn raw(&self, output: Output) -> Modes {
        let mut raw = *self;
        raw.input &= !(libc::IGNBRK
            | libc::BRKINT
            | libc::PARMRK
            | libc::ISTRIP
            | libc::INLCR
            | libc::IGNCR
            | libc::ICRNL
            | libc::IUCLC
            | libc::IXON);
        raw.local &= !(libc::ECHO | libc::ECHONL | libc::ICANON | libc::ISIG | libc::IEXTEN);
        raw.keys[libc::VMIN] = 1;
        raw.keys[libc::VTIME] = 0;
        raw.processing(output)
    }

    /// The same with the keys that send signals.
    pub(super) fn with_signals(&self) -> Modes {
        Modes { local: self.local | libc::ISIG, ..*self }
    }

    /// What a terminal should have that nobody has set up: a shell that edits its line has its own modes in force.
    pub(super) fn sane(&self) -> Modes {
        let mut sane = *self;
        sane.input |= libc::ICRNL;
        sane.input &= !(libc::INLCR | libc::IGNCR);
        sane.output |= libc::OPOST | libc::ONLCR;
        sane.local |= libc::ICANON | libc::ECHO | libc::ECHOE | libc::ECHOK | libc::ISIG | libc::IEXTEN;
        sane
    }

    pub(super) fn processing(mut self, output: Output) -> Modes {
        match output {
            Output::Processed => self.output |= libc::OPOST,
            Output::Raw => self.output &= !libc::OPOST,
        }
        self
    }

    /// Whether a line feed becomes a carriage return and a line feed.
    pub(super) fn adds_returns(&self) -> bool {
        self.output & (libc::OPOST | libc::ONLCR) == libc::OPOST | libc::ONLCR
    }

    pub(super) fn output(&self) -> Output {
        if self.output & libc::OPOST == 0 { Output::Raw } else { Output::Processed }
    }

    /// Whether background output stops whoever writes it.
    pub(super) fn stops_background_output(&self) -> bool {
        self.local & libc::TOSTOP != 0
    }

    pub(super) fn stopping_background_output(mut self, stop: bool) -> Modes {
        self.local = self.local & !libc::TOSTOP | if stop { libc::TOSTOP } else { 0 };
        self
    }

    /// Whether what is typed is shown.
    pub(super) fn echoes(&self) -> bool {
        self.local & libc::ECHO != 0
    }

    pub(super) fn without_echo(&self) -> Modes {
        Modes { local: self.local & !(libc::ECHO | libc::ECHONL), ..*self }
    }

    /// The key that means the end of the input, where there is one at the moment.
    pub(super) fn end_of_input(&self) -> Option<u8> {
        (self.local & libc::ICANON != 0).then_some(self.keys[libc::VEOF]).filter(|key| *key != 0)
    }

    /// As the plan carries them. The line discipline is the pseudo-terminal's own.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<Modes>());
        for flags in [self.input, self.output, self.control, self.local] {
            bytes.extend_from_slice(&flags.to_ne_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&self.keys);
        bytes
    }
}

pub(super) fn size(terminal: impl AsFd) -> io::Result<Size> {
    let size = tcgetwinsize(terminal)?;
    Ok([size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel])
}

/// Sets the size. The kernel tells the foreground group, if it has changed.
pub(super) fn set_size(terminal: impl AsFd, size: Size) {
    let [ws_row, ws_col, ws_xpixel, ws_ypixel] = size;
    let _ = tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel, ws_ypixel });
}

/// Waits until what was written to this side of a pseudo-terminal has been dealt with on the other, which happens a moment
/// later. Whoever polls the other side has the kernel do it now.
pub(super) fn await_input(other_side: impl AsFd) {
    if let Ok(side) = sys::side_of_programs(other_side) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&side, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Modes = Modes {
        input: libc::ICRNL | libc::IXON,
        output: libc::OPOST | libc::ONLCR,
        control: libc::CS8,
        local: libc::ISIG | libc::ICANON | libc::ECHO | libc::IEXTEN,
        line: 3,
        keys: [7; 19],
    };

    #[test]
    fn raw_passes_everything_on_and_keeps_output_as_asked() {
        let raw = PLAIN.raw(Output::Processed);
        assert_eq!((raw.input, raw.local, raw.output), (0, 0, PLAIN.output));
        assert_eq!(PLAIN.raw(Output::Raw).output(), Output::Raw);
        assert_eq!(raw.with_signals().local, libc::ISIG);
    }

    #[test]
    fn what_a_line_editor_has_set_is_made_sane() {
        let editing = Modes { input: 0, local: libc::TOSTOP, ..PLAIN };
        let sane = editing.sane();
        assert!(sane.local & libc::ICANON != 0 && sane.input & libc::ICRNL != 0);
        assert!(sane.stops_background_output());
    }

    #[test]
    fn the_bytes_are_the_kernels_structure_with_its_own_discipline() {
        let bytes = PLAIN.bytes();
        assert_eq!((bytes.len(), bytes[16], bytes[17]), (36, 0, 7));
        assert_eq!(size_of::<Modes>(), 36);
    }
}
