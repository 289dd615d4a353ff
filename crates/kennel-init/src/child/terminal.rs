//! The sandbox's own terminal: a pseudo-terminal whose session is init's.
//!
//! Init leads the session, as the monitor of a terminal does, and the command is a process group in it. That keeps job
//! control alive: in a session that the command led itself its group would be orphaned, and the kernel discards stops of
//! orphaned groups. Whoever is in the foreground is init's group, which means that the command is in the background and is
//! stopped when it wants the terminal; or a group of the command's.

use super::sys::{self, AT_FDCWD, Fd, Result, open};
use super::wire::Reader;
use crate::report::Report;
use crate::role::DescriptorRole;

const TCSETS: usize = 0x5402;
const TIOCSCTTY: usize = 0x540e;
const TIOCGPGRP: usize = 0x540f;
const TIOCSPGRP: usize = 0x5410;
const TIOCSWINSZ: usize = 0x5414;
const TIOCSPTLCK: usize = 0x4004_5431;
/// Linux 4.13.
const TIOCGPTPEER: usize = 0x5441;

/// The size of the kernel's `struct termios`.
const MODES: usize = 36;

/// The side of it that programs use.
pub(super) struct Terminal {
    fd: Fd,
    /// The group that was in the foreground when the command was put into the background.
    before: i32,
}

impl Terminal {
    /// Opens one, makes it this session's, puts it in the place of the caller's, and hands its other side over.
    ///
    /// Before Landlock: what is opened later could not be given commands on every kernel.
    pub(super) fn open(fields: &mut Reader, link: i32) -> Result<Terminal> {
        let modes = fields.bytes()?;
        let mut size = [0u16; 4];
        for number in &mut size {
            *number = fields.u32()? as u16;
        }
        // As late as this: the scheduler takes each session for a group of its own (autogroup), and on a busy machine a new
        // group waits for its turn each time. What was sent to the caller's group until now comes from the controller too.
        sys::setsid()?;
        sys::drop_signals();
        // Only this open file is not to wait: the controller's carrying is one loop.
        let flags = open::RDWR | open::NOCTTY | open::NONBLOCK;
        let other_side = sys::openat(AT_FDCWD, c"/dev/ptmx", flags)?;
        let unlocked = 0i32;
        sys::ioctl_with(other_side.raw(), TIOCSPTLCK, &unlocked)?;
        let flags = open::RDWR | open::NOCTTY | open::CLOEXEC;
        let fd = sys::ioctl(other_side.raw(), TIOCGPTPEER, flags as usize).map(|fd| Fd(fd as i32))?;
        if modes.len() == MODES {
            sys::ioctl_with(fd.raw(), TCSETS, modes)?;
        }
        sys::ioctl_with(fd.raw(), TIOCSWINSZ, &size)?;
        sys::ioctl(fd.raw(), TIOCSCTTY, 0)?;
        for _ in 0..fields.count()? {
            sys::dup3(fd.raw(), fields.u32()?.cast_signed(), false)?;
        }
        let report = Report::Descriptor { role: DescriptorRole::Terminal };
        sys::send_with_fd(link, &report.encode(), other_side.raw())?;
        Ok(Terminal { fd, before: 0 })
    }

    pub(super) fn raw(&self) -> i32 {
        self.fd.raw()
    }

    /// Its number, for whoever gives it another.
    pub(super) fn number(&mut self) -> &mut i32 {
        &mut self.fd.0
    }

    /// Puts the group that had the foreground back there, or the command's.
    pub(super) fn enter_foreground(&mut self, command: i32) {
        if self.group() == Some(own_group()) {
            let before = core::mem::take(&mut self.before);
            if before == 0 || set_group(self.fd.raw(), before).is_err() {
                give(self.fd.raw(), command);
            }
        }
    }

    /// Takes the foreground for init's own group, which wants nothing of the terminal.
    pub(super) fn enter_background(&mut self) {
        if let Some(group) = self.group().filter(|group| *group != own_group()) {
            self.before = group;
            give(self.fd.raw(), own_group());
        }
    }

    fn group(&self) -> Option<i32> {
        sys::ioctl_number(self.fd.raw(), TIOCGPGRP).ok()
    }
}

/// Init leads its session, and so its group.
fn own_group() -> i32 {
    sys::getpid()
}

fn set_group(tty: i32, group: i32) -> Result<()> {
    sys::ioctl_with(tty, TIOCSPGRP, &group)
}

/// Makes `group` the foreground process group. SIGTTOU is blocked here, so this works from the background too.
pub(super) fn give(tty: i32, group: i32) {
    let _ = set_group(tty, group);
}
