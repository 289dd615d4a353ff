//! PID 1 while the command runs: reaps orphans, forwards signals to the command's process group, follows job
//! control, and ends when the command ends, its time is up or the controller is gone.

use super::hold::Hold;
use super::outbound;
use super::session;
use super::sys::{
    self, AT_FDCWD, CLD_DUMPED, CLD_EXITED, CLD_KILLED, CLD_STOPPED, ChildState, Errno, Fd, POLLIN, PollFd,
    Usage, open,
};
use super::terminal::Terminal;
use crate::report::{LENGTH, Order, Report, Used};

pub(super) const SIGKILL: i32 = 9;
const SIGCHLD: i32 = 17;
pub(super) const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// What PID 1 knows while the command runs.
pub(super) struct Reaper {
    /// The command's process.
    pub(super) command: i32,
    /// Its terminal, if it has one.
    pub(super) terminal: Option<Terminal>,
    /// When everything has to end, by [`sys::now`]. The controller keeps the same time; but it may have been stopped.
    pub(super) deadline: Option<u64>,
    pub(super) hold: Hold,
    /// The command had stopped itself when everything was held, and the controller has not been told.
    pub(super) owes_stop: bool,
    /// Whether only signals from outside are forwarded: with several users, those inside may not all signal each other.
    pub(super) outside_only: bool,
    /// The socket to the controller.
    pub(super) link: i32,
    /// Whether the network is the sandbox's own.
    pub(super) own_network: bool,
    /// Whether this is the leader of a command of a session: what the command leaves goes on without it.
    pub(super) leads: bool,
    /// What those that ended have used. Counted here, because the kernel's own count of this process's children has
    /// whoever made the network in it.
    pub(super) used: Usage,
}

impl Reaper {
    /// Serves until the end of the command, which is the end of this process.
    pub(super) fn serve(mut self) -> ! {
        // The command has its own copies. Holding these open would keep pipes from ending, and PID 1 is to hold nothing
        // that is worth taking over.
        (0..3).for_each(sys::close);
        let Ok(signals) = sys::signalfd(u64::MAX) else { end(1) };
        let mut ready = [
            PollFd { fd: signals.raw(), events: POLLIN, revents: 0 },
            PollFd { fd: self.link, events: POLLIN, revents: 0 },
        ];
        // A child that ended before the signal descriptor existed is found without a signal.
        self.reap();
        loop {
            match self.wait(&mut ready) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => end(1),
            }
            if ready[1].revents != 0 {
                self.obey();
            }
            if ready[0].revents != 0 {
                self.take_signals(&signals);
            }
        }
    }

    fn wait(&mut self, ready: &mut [PollFd]) -> sys::Result<usize> {
        let Some(deadline) = self.deadline else { return sys::poll(ready) };
        let now = sys::now();
        if now >= deadline {
            self.finish(|used| Report::TimedOut { used });
        }
        sys::poll_for(ready, deadline - now)
    }

    /// Reads the order that waits on the link. No controller, no sandbox.
    fn obey(&mut self) {
        let mut message = [0; LENGTH];
        match sys::recv(self.link, &mut message) {
            Ok(0) => end(1),
            Ok(n) => self.follow(Order::decode(&message[..n])),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => end(1),
        }
    }

    fn follow(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Continue { foreground }) => {
                match &mut self.terminal {
                    Some(terminal) if foreground => terminal.enter_foreground(self.command),
                    Some(terminal) => terminal.enter_background(),
                    None => {}
                }
                self.owes_stop = false;
                self.hold.end(self.command);
                let _ = sys::kill(-self.command, SIGCONT);
                let _ = sys::send(self.link, &Report::Continued.encode());
            }
            Some(Order::Hold) => {
                self.hold.begin(self.command);
                let _ = sys::send(self.link, &Report::Held.encode());
            }
            Some(Order::Release) => {
                self.hold.end(self.command);
                if core::mem::take(&mut self.owes_stop) {
                    let _ = sys::send(self.link, &Report::Stopped { signal: SIGSTOP }.encode());
                }
            }
            Some(Order::End) => self.finish(|used| Report::Ended { used }),
            Some(Order::Go | Order::Enter | Order::Command) | None => {}
        }
    }

    fn take_signals(&mut self, signals: &Fd) {
        // struct signalfd_siginfo is 128 bytes; the signal's number comes first.
        let mut info = [0u8; 128];
        while let Ok(128) = sys::read(signals.raw(), &mut info) {
            match i32::from_ne_bytes([info[0], info[1], info[2], info[3]]) {
                SIGCHLD => self.reap(),
                // The sender's number; one that is not in this PID namespace has none.
                _ if self.outside_only && info[12..16] != [0; 4] => {}
                signal => drop(sys::kill(-self.command, signal)),
            }
        }
    }

    /// Takes every child that changed state; if the command ended, so does everything.
    fn reap(&mut self) {
        take_children(|child| self.look_at(child));
    }

    fn look_at(&mut self, child: &ChildState) {
        if child.code != CLD_STOPPED {
            self.used.add(&child.usage);
        }
        if child.pid != self.command {
            return;
        }
        if self.leads && child.code != CLD_STOPPED {
            // By itself: what it started in the background goes on, as PID 1's.
            self.command = 0;
        }
        match child.code {
            CLD_EXITED => self.finish(|used| Report::Exited { code: child.status, used }),
            CLD_KILLED | CLD_DUMPED => {
                let cpu = child.usage.milliseconds();
                self.finish(|used| Report::Killed { signal: child.status, cpu, used })
            }
            // It is told of what it did itself, not of what it ordered.
            CLD_STOPPED if child.status == SIGSTOP && self.hold.is_active() => {
                self.owes_stop = self.hold.found_stopped(self.command);
            }
            CLD_STOPPED => {
                let _ = sys::send(self.link, &Report::Stopped { signal: child.status }.encode());
            }
            _ => {}
        }
    }

    /// Ends what is left inside, so that what it has used is counted too, and reports. Of what dies with PID 1 the kernel
    /// keeps no count.
    fn finish(&mut self, report: impl FnOnce(Used) -> Report) -> ! {
        let mut code = 0;
        if sys::getpid() == 1 {
            self.end_all();
        } else {
            let left_alone = self.leads && self.command == 0;
            if !left_alone && !kill_descendants(|usage| self.used.add(usage)) {
                code = session::LEFT_SOMETHING;
            }
        }
        let report = report(self.used.report());
        // Whatever the code: behind a shell or a pipe a failure of that kind is easily lost. In a session it may be another command's.
        let asks = !self.leads || !matches!(report, Report::Exited { code: 0, .. });
        if asks && self.own_network && outbound::tried() {
            let _ = sys::send(self.link, &Report::TriedNetwork.encode());
        }
        let _ = sys::send(self.link, &report.encode());
        sys::exit(code)
    }

    /// In a PID namespace, whose processes are all children of this one or of theirs.
    fn end_all(&mut self) {
        // Mostly nobody is left, and the kernel looks for those to kill among all processes of the host.
        let mut left = sys::wait_any();
        if !matches!(left, Err(Errno::ECHILD)) {
            let _ = sys::kill(-1, SIGKILL);
        }
        loop {
            match left {
                Ok(Some(child)) if child.code != CLD_STOPPED => self.used.add(&child.usage),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
            left = sys::wait_next();
        }
    }
}

impl Usage {
    pub(super) fn add(&mut self, other: &Usage) {
        self.user += other.user;
        self.system += other.system;
        self.peak = self.peak.max(other.peak);
    }

    /// All CPU time, in milliseconds.
    fn milliseconds(&self) -> u32 {
        ((self.user + self.system) / 1000) as u32
    }

    pub(super) fn report(&self) -> Used {
        Used {
            cpu_user: (self.user / 1000) as u32,
            cpu_system: (self.system / 1000) as u32,
            peak: self.peak as u32,
        }
    }
}

/// Takes every child that changed state, without waiting.
pub(super) fn take_children(mut look: impl FnMut(&ChildState)) {
    loop {
        match sys::wait_any() {
            Ok(Some(child)) => look(&child),
            Err(Errno::EINTR) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// The end. In a PID namespace the kernel kills whatever is left as PID 1 goes; elsewhere it is done by hand.
fn end(code: i32) -> ! {
    if sys::getpid() != 1 && !kill_descendants(|_| {}) {
        sys::exit(session::LEFT_SOMETHING);
    }
    sys::exit(code)
}

/// Without a PID namespace orphans come to this process only if it asks for them, and it must have asked before there
/// is a command that could leave one.
pub(super) fn adopt_orphans() {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    if sys::getpid() != 1 {
        let _ = sys::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Without a PID namespace, for a subreaper with SIGCHLD blocked: kills children until none is left. Their orphans
/// become children of this subreaper, so each round reaches one generation further down, and whoever forks in the
/// meantime is found in the next. `count` is told what each has used. Returns whether none is left, as far as that can be known.
pub fn kill_descendants(mut count: impl FnMut(&Usage)) -> bool {
    loop {
        let mut list = [0u8; 4096];
        let read = sys::openat(AT_FDCWD, c"/proc/thread-self/children", open::RDONLY)
            .and_then(|file| sys::read(file.raw(), &mut list));
        // Without a /proc nothing can be found; the command at least dies with this process.
        let Ok(length) = read else { return matches!(sys::wait_any(), Err(Errno::ECHILD)) };
        for pid in list[..length].split(|byte| *byte == b' ') {
            let pid = pid.iter().fold(0i32, |pid, digit| pid.wrapping_mul(10) + i32::from(digit & 15));
            if pid > 1 {
                let _ = sys::kill(pid, SIGKILL);
            }
        }
        loop {
            match sys::wait_any() {
                Err(Errno::ECHILD) => return true,
                Ok(Some(child)) if child.code != CLD_STOPPED => count(&child.usage),
                Ok(Some(_)) | Err(Errno::EINTR) => {}
                // Nobody has ended yet: wait for the signal that says so, then look again.
                Ok(None) | Err(_) => break,
            }
        }
        // An empty list and a child all the same: it came in between.
        if length != 0 {
            wait_for_child();
        }
    }
}

fn wait_for_child() {
    let Ok(signals) = sys::signalfd(1 << (SIGCHLD - 1)) else { return };
    let _ = sys::poll(&mut [PollFd { fd: signals.raw(), events: POLLIN, revents: 0 }]);
    let mut info = [0u8; 128];
    let _ = sys::read(signals.raw(), &mut info);
}
