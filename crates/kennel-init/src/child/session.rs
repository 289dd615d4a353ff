//! A session: PID 1 of a sandbox in which any number of commands run, one after the other and at the same time.
//!
//! Each command has a leader, a child of PID 1 that does for it what PID 1 does for the only command of an ordinary sandbox: it
//! takes the late part and the command from a link of its own, starts the command and looks after it. To the controller a leader
//! is an init. It shares PID 1's memory, which makes it cheap and as unreadable as PID 1; it has descriptors of its own. It is a
//! subreaper, so that whatever the command starts stays below it, in sessions of their own or not, and can be ended without
//! touching anybody else's.
//!
//! Every command gets a Landlock domain of its own, so that commands cannot trace each other nor open each other's descriptors in
//! /proc. Signals pass between them, as between the jobs of a user: a command is expected to be able to stop a server that an
//! earlier one started. So a command can kill a leader too. Nobody would look after that leader's command then, and the session
//! ends. PID 1 itself cannot be killed from inside.

use super::clone::Room;
use super::reaper::{self, SIGCONT, SIGKILL};
use super::sys::memory::Memory;
use super::sys::{self, CLD_EXITED, CLD_STOPPED, ChildState, Errno, Fd, POLLIN, PollFd, Result, Usage};
use super::wire::Reader;
use super::{Leading, Setup, fail, receive};
use crate::report::{LENGTH, Order, Report};

/// The most commands that run at the same time.
const MAX_LEADERS: usize = 256;
/// What a leader exits with that could not end everything that its command started, because there is no /proc to find it by.
pub(super) const LEFT_SOMETHING: i32 = 3;

/// The Landlock layer of each command: all that it handles is allowed everywhere.
pub(super) fn layer(fields: &mut Reader, root: &Fd) -> Result<Option<Fd>> {
    let rights = fields.u64()?;
    if rights == 0 {
        return Ok(None);
    }
    let rules = sys::landlock_create(&[rights])?;
    sys::landlock_allow_path(&rules, root.raw(), rights)?;
    Ok(Some(rules))
}

/// What a leader is started with.
#[derive(Clone, Copy)]
struct Start {
    link: i32,
    /// The Landlock layer, or -1.
    layer: i32,
    umask: u32,
    /// Whether PID 1 leads a POSIX session, without a terminal: commands that have none stay in it.
    stays: bool,
}

/// PID 1 of a session.
struct Session {
    link: i32,
    /// What each leader is started with, but for its link.
    start: Start,
    /// Places for leaders.
    rooms: [Room; MAX_LEADERS],
    /// What all that ended have used. Leaders count with what they waited for.
    used: Usage,
}

/// Serves until the controller ends the session or is gone.
pub(super) fn serve(link: i32, layer: Option<&Fd>, umask: u32) -> ! {
    // Away from the caller's, whose terminal /dev/tty would be.
    let stays = sys::setsid().is_ok();
    let start = Start { link: -1, layer: layer.map_or(-1, Fd::raw), umask, stays };
    let rooms = [Room::EMPTY; MAX_LEADERS];
    let mut session = Session { link, start, rooms, used: Usage::default() };
    let Ok(signals) = sys::signalfd(u64::MAX) else { sys::exit(1) };
    if sys::send(link, &Report::Ready.encode()).is_err() {
        sys::exit(1);
    }
    let mut ready = [
        PollFd { fd: signals.raw(), events: POLLIN, revents: 0 },
        PollFd { fd: link, events: POLLIN, revents: 0 },
    ];
    loop {
        match sys::poll(&mut ready) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => sys::exit(1),
        }
        if ready[0].revents != 0 {
            // struct signalfd_siginfo is 128 bytes. Of other signals than the one about children nothing is wanted.
            let mut info = [0u8; 128];
            while let Ok(128) = sys::read(signals.raw(), &mut info) {}
            session.reap();
        }
        if ready[1].revents != 0 {
            session.obey();
        }
    }
}

impl Session {
    /// Reads the order that waits on the link. No controller, no session.
    fn obey(&mut self) {
        let mut message = [0; LENGTH];
        let (length, fds) = match sys::recv_with_fds(self.link, &mut message) {
            Ok((0, _)) => sys::exit(1),
            Ok(received) => received,
            Err(Errno::EINTR | Errno::EAGAIN) => return,
            Err(_) => sys::exit(1),
        };
        match Order::decode(&message[..length]) {
            Some(Order::Command) => {
                if let Some(link) = fds.into_iter().flatten().next() {
                    self.start_leader(&link);
                }
            }
            Some(Order::End) => self.end(),
            _ => {}
        }
    }

    /// Starts a leader on this link, or says why there is none. This process's copy of the link is closed afterwards.
    fn start_leader(&mut self, link: &Fd) {
        if let Err(Errno(errno)) = self.try_start_leader(link) {
            let _ = sys::send(link.raw(), &Report::Failed { step: NO_LEADER, errno }.encode());
        }
    }

    fn try_start_leader(&mut self, link: &Fd) -> Result<()> {
        if !self.rooms.iter().any(|room| room.is_free() && room.is_mapped()) {
            // One that reported a moment ago may have ended.
            self.reap();
        }
        // Those at the front come first: they are the ones that have memory.
        let free = self.rooms.iter_mut().find(|room| room.is_free()).ok_or(Errno::EAGAIN)?;
        free.start(Start { link: link.raw(), ..self.start }, lead)
    }

    /// Takes every child that changed state.
    fn reap(&mut self) {
        reaper::take_children(|child| self.look_at(child));
    }

    fn look_at(&mut self, child: &ChildState) {
        if child.code == CLD_STOPPED {
            // A leader that stands still would neither keep the clock nor report. Somebody inside wants that.
            if self.rooms.iter().any(|room| room.is_of(child.pid)) {
                let _ = sys::kill(child.pid, SIGCONT);
            }
            return;
        }
        self.used.add(&child.usage);
        if !self.rooms.iter_mut().any(|room| room.is_left_by(child)) {
            return;
        }
        // 1 is what it exits with that has started no command, or ended everything before.
        if child.code != CLD_EXITED || child.status > 1 {
            // Its command may run on, and nobody looks after it.
            sys::exit(1);
        }
    }

    /// Ends everything inside, and reports what it has used.
    fn end(&mut self) -> ! {
        let _ = sys::kill(-1, SIGKILL);
        loop {
            match sys::wait_next() {
                Ok(Some(child)) => self.used.add(&child.usage),
                Ok(None) | Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        let _ = sys::send(self.link, &Report::Ended { used: self.used.report() }.encode());
        sys::exit(0)
    }
}

/// The step number under which PID 1 reports that there is no leader for a command.
pub const NO_LEADER: u32 = u32::MAX - 1;

/// A leader.
fn lead(Start { link, layer, umask, stays }: Start, stretch: &'static mut [u8]) -> ! {
    if layer >= 0
        && let Err(errno) = sys::landlock_restrict(layer)
    {
        fail(link, NO_LEADER, errno);
    }
    reaper::adopt_orphans();
    let memory = Memory::of_leader(stretch);
    let late = receive(link, 0, &memory);
    let performed = sys::openat(sys::AT_FDCWD, c"/", sys::open::PATH | sys::open::DIRECTORY)
        .map_err(|errno| (0, errno))
        .and_then(|root| {
            let mut setup = Setup::new(link, root, late.reader(), 0);
            let past = setup.perform_late(late.reader(), 0)?;
            Ok((past, setup.link, setup.terminal))
        });
    let (past, link, terminal) = match performed {
        Ok(performed) => performed,
        Err((step, errno)) => fail(link, step, errno),
    };
    let leading = Leading { link, past, terminal, umask, own_network: false, leads: true, stays };
    let reaper = leading.start(&memory, [Some(late), None, None]);
    drop(memory);
    reaper.serve()
}
