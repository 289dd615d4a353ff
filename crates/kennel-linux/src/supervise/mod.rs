//! The controller's side while a sandbox runs: it waits, keeps the clock, forwards signals, carries the output, and
//! sees that nothing is left.
//!
//! One loop of poll over descriptors: the link to init, init's pidfd, and where wanted the signals, the standard
//! streams and the terminal. There is no thread that could die, and no sleep.

pub mod attendant;
pub mod meter;
mod sentry;
pub mod signals;
pub mod streams;
pub mod terminal;
pub mod ticker;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_init::child::orders::CHUNK;
use kennel_init::child::sys::MOST_FDS;
use kennel_init::encode::encode_opening;
use kennel_init::plan::{Plan, Planned, Step};
use kennel_init::report::{self, Order, Report, Used};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::Signal;

use crate::cgroup::CgroupError;
use crate::cgroup::{Cgroup, Pressure};
use crate::describe::describe_step;
use crate::guard::{self, GuardError, Rules};
use crate::launch::{Init, copy::ID_MAPS};
use crate::network::Doors;
use crate::outcome::{Ended, Outcome};
use kennel_policy::policy::Limits;
use meter::Meter;
use sentry::Sentry;
use signals::Signals;
use streams::Streams;
use terminal::Terminal;
use ticker::Ticker;

/// Why a sandbox did not get as far as its command.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A step of the plan failed.
    #[error("{step}: {source}\nreason: {reason}")]
    Step {
        /// What was being done, and on what.
        step: String,
        /// The rule behind it.
        reason: String,
        /// Whether it is one that some hosts refuse, and which.
        refused: Option<Refused>,
        /// What the system said.
        source: io::Error,
    },
    /// The user could not be mapped.
    #[error("mapping the user into the new user namespace: {0}")]
    IdMaps(#[source] io::Error),
    /// The command could not be executed.
    #[error("executing {command}: {source}")]
    NotExecuted {
        /// Which path.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// PID 1 ended without a word.
    #[error("setting up the sandbox: init was killed before the command started")]
    Gone,
    /// Its filter has a listener already, that of an outer sandbox.
    #[error(
        "filtering system calls: {0}\n\
         help: a guarded sandbox cannot run inside a guarded one, because the kernel takes one listener per process: \
         create the denied paths that do not exist, in one of the two"
    )]
    Nested(#[source] io::Error),
    /// There is no guard.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Talking to init failed.
    #[error("waiting for the sandbox: {0}")]
    Link(#[source] io::Error),
}

/// A step that some hosts refuse and that there is a way around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A fresh /proc, in containers that mask parts of it.
    Proc,
    /// A netlink batch, on kernels without nftables.
    Netlink,
}

/// How long init gets to end what is inside before it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// A sandbox with a PID 1.
#[derive(Debug)]
pub struct Running {
    init: Init,
    started: Instant,
    deadline: Option<Instant>,
    ended: Option<Ended>,
    /// CPU time after which a killed command counts as having used it up.
    cpu_time: Option<Duration>,
    meter: Meter,
    pressure: Option<Pressure>,
    /// Sockets that init made inside the sandbox's network.
    doors: Doors,
    sentry: Sentry,
    /// What init counted.
    used: Option<Used>,
    /// Init has closed its end of the link and is on its way out.
    link_ended: bool,
    timed_out: bool,
    reaped: bool,
}

/// What the controller takes part in while it waits.
#[derive(Default)]
pub struct Attended<'a> {
    /// Signals to forward.
    pub signals: Option<&'a Signals>,
    /// The terminal to share.
    pub terminal: Option<&'a mut Terminal>,
    /// Output to capture and input to feed.
    pub streams: Option<&'a mut Streams>,
    /// Called once, with the sockets made inside and PID 1's pid out here, when the first client knocks.
    pub open_doors: Option<&'a mut (dyn FnMut(Doors, i32) + 'a)>,
    /// Who is told what is used meanwhile.
    pub ticker: Option<Ticker<'a>>,
}

impl Running {
    /// Takes over a PID 1 that has just been launched.
    #[must_use]
    pub fn new(init: Init) -> Running {
        Running {
            init,
            started: Instant::now(),
            deadline: None,
            ended: None,
            cpu_time: None,
            meter: Meter::default(),
            pressure: None,
            doors: Vec::new(),
            sentry: Sentry::default(),
            used: None,
            link_ended: false,
            timed_out: false,
            reaped: false,
        }
    }

    /// Has `rules` guarded. `own_network` says that the sandbox does not share the host's network.
    ///
    /// Init, which waits for that before it starts the command, is told that the paths are held; by then it has mostly
    /// not come so far.
    ///
    /// # Errors
    /// When a path is not what it was when the rules were made; nothing is left of the sandbox then.
    pub fn guard(&mut self, rules: &Rules, own_network: bool) -> Result<(), StartError> {
        if rules.is_empty() {
            return Ok(());
        }
        match Sentry::new(rules, own_network) {
            Ok(sentry) => self.sentry = sentry,
            Err(error) => {
                self.end();
                return Err(error.into());
            }
        }
        // One that has gone meanwhile is noticed elsewhere.
        let _ = self.go();
        Ok(())
    }

    /// The sockets that init made inside the sandbox's network, to be served by the caller.
    pub fn take_doors(&mut self) -> Doors {
        std::mem::take(&mut self.doors)
    }

    /// Watches sockets of this side with those from inside: a client of one of them opens the doors too.
    pub fn watch_too(&mut self, sockets: Doors) {
        self.doors.extend(sockets);
    }

    /// Puts PID 1, which waits for it, into a cgroup, and lets it go on. `newborn` says that it was born in it.
    ///
    /// # Errors
    /// When the kernel or systemd refuses; it still waits then.
    pub fn enter(&mut self, mut cgroup: Cgroup, newborn: bool) -> Result<(), CgroupError> {
        let moved = cgroup.must_be_admitted() || (!newborn && cgroup.birth_fd().is_some());
        if moved {
            cgroup
                .admit(rustix::process::Pid::from_raw(self.init.pid).unwrap_or(rustix::process::Pid::INIT))?;
        }
        self.pressure = cgroup.watch_pressure()?;
        let entrances: Vec<_> = if moved { Vec::new() } else { cgroup.entrances().collect() };
        self.hand_over(&entrances).map_err(|error| CgroupError::System {
            doing: "handing a cgroup over to init",
            path: "the link".into(),
            source: error,
        })?;
        self.meter.count_by(cgroup);
        Ok(())
    }

    fn hand_over(&self, entrances: &[BorrowedFd]) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !entrances.is_empty() && !control.push(SendAncillaryMessage::ScmRights(entrances)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let order = Order::Enter.encode();
        rustix::net::sendmsg(
            &self.init.link,
            &[io::IoSlice::new(&order)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Tells what the sandbox uses, where a cgroup counts it, also while somebody waits for its end.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Whether the kernel ends everything inside when init dies.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.init.namespaced
    }

    /// PID 1's pid in this process's namespace.
    #[must_use]
    pub fn init_pid(&self) -> i32 {
        self.init.pid
    }

    /// Sends the opening of a plan. Should init be gone, [`Running::await_start`] tells why.
    pub fn open(&self, opening: &[Planned]) {
        let _ = self.send_part(&encode_opening(opening));
    }

    /// Sends the rest of the plan, and starts the clock.
    pub fn begin(&mut self, plan: &Plan, limits: &Limits) {
        self.started = Instant::now();
        self.deadline = limits.wall_time.and_then(|limit| self.started.checked_add(limit));
        self.cpu_time = limits.cpu_time;
        let _ = self.send_part(&plan.encode());
    }

    /// The first message starts with the length of the whole part.
    fn send_part(&self, part: &[u8]) -> io::Result<()> {
        let length = (part.len() as u64).to_le_bytes();
        let (first, rest) = part.split_at(part.len().min(CHUNK));
        let parts = [io::IoSlice::new(&length), io::IoSlice::new(first)];
        let link = &self.init.link;
        let none = &mut SendAncillaryBuffer::new(&mut []);
        rustix::io::retry_on_intr(|| rustix::net::sendmsg(link, &parts, none, SendFlags::NOSIGNAL))?;
        for chunk in rest.chunks(CHUNK) {
            rustix::io::retry_on_intr(|| rustix::net::send(link, chunk, SendFlags::NOSIGNAL))?;
        }
        Ok(())
    }

    /// Lets init go on past [`kennel_init::plan::Step::AwaitController`].
    pub fn go(&self) -> io::Result<()> {
        self.order(Order::Go)
    }

    /// Waits until the command runs.
    ///
    /// # Errors
    /// When a step failed or the command could not be executed; nothing is left of the sandbox then.
    pub fn await_start(&mut self, plan: &Plan) -> Result<(), StartError> {
        let mut starting = false;
        loop {
            match self.receive() {
                Ok(Some(Report::Starting)) => starting = true,
                Ok(Some(Report::Started)) => return Ok(()),
                // Killed right after: the command may have run, so this is an end, not a failure to start.
                Ok(None) if starting => return Ok(()),
                Ok(Some(Report::Failed { step, errno })) => {
                    self.end();
                    return Err(step_error(plan, step, io::Error::from_raw_os_error(errno)));
                }
                Ok(Some(Report::NotExecuted { candidate, errno })) => {
                    self.end();
                    let tried = plan.command.candidates.get(candidate as usize);
                    let name = plan.command.arguments.first();
                    let not_found = errno == libc::ENOENT;
                    let command = if not_found { name } else { tried.or(name) };
                    let command =
                        command.map(|name| crate::describe::show(name.as_bytes())).unwrap_or_default();
                    let source = match errno {
                        libc::ELIBACC => {
                            io::Error::other("the interpreter that it names does not exist inside")
                        }
                        errno => io::Error::from_raw_os_error(errno),
                    };
                    return Err(StartError::NotExecuted { command, source });
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.end();
                    return Err(StartError::Gone);
                }
                Err(error) => {
                    self.end();
                    return Err(StartError::Link(error));
                }
            }
        }
    }

    /// Waits for the end, taking part in what `attended` names.
    ///
    /// # Errors
    /// Only when the system fails this process itself; the sandbox is ended then.
    pub fn wait(&mut self, mut attended: Attended) -> io::Result<Outcome> {
        let result = self.watch(&mut attended);
        if result.is_err() {
            self.end();
        }
        if let Some(terminal) = attended.terminal {
            terminal.take_back();
        }
        result
    }

    fn watch(&mut self, attended: &mut Attended) -> io::Result<Outcome> {
        self.meter.sweep();
        loop {
            let ready = self.poll(attended)?;
            if ready.link {
                while let Some(report) = self.receive_now()? {
                    self.hear(report, attended)?;
                }
            }
            match ready.guard {
                flags if flags.contains(PollFlags::IN) => self.call_guard(),
                flags if !flags.is_empty() => self.sentry.hung_up(),
                _ => {}
            }
            if ready.signals
                && let Some(signals) = attended.signals
            {
                signals.each(|signal| self.signal(signal));
            }
            if ready.knocked
                && let Some(open) = attended.open_doors.take()
            {
                open(self.take_doors(), self.init.pid);
            }
            if let Some(ticker) = &mut attended.ticker {
                ticker.tick(|| self.meter.usage().unwrap_or_default());
            }
            if ready.pressed && self.pressure.as_ref().is_some_and(|pressure| pressure.relieve().is_err()) {
                self.pressure = None;
            }
            if let Some(streams) = &mut attended.streams {
                streams.carry();
            }
            if ready.gone {
                let usage = reap(self.init.pidfd.as_fd())?;
                self.reaped = true;
                if let Some(streams) = &mut attended.streams {
                    streams.drain();
                }
                let truncated = attended.streams.as_ref().is_some_and(|streams| streams.truncated());
                return Ok(self.outcome(&usage, truncated));
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.deadline = None;
                self.timed_out = true;
                self.kill();
            }
        }
    }

    fn call_guard(&mut self) {
        let handles = (self.init.pidfd.try_clone(), self.init.link.try_clone());
        let (Ok(pidfd), Ok(link)) = handles else {
            // Without descriptors there is no guard, and what it would have to judge waits until the end.
            return self.kill();
        };
        let (handles, namespaced) = (Arc::new((pidfd, link)), self.init.namespaced);
        self.sentry.called(move || kill(&handles.0, &handles.1, namespaced));
    }

    fn hear(&mut self, report: Report, attended: &mut Attended) -> io::Result<()> {
        match report {
            Report::Exited { code, used } => {
                self.meter.prepare_end();
                (self.ended, self.used) = (Some(Ended::Exited(code)), Some(used));
            }
            Report::Killed { signal, cpu, used } => {
                self.meter.prepare_end();
                (self.ended, self.used) = (Some(self.killed(signal, cpu)), Some(used));
            }
            Report::Stopped { signal } => {
                // Without a terminal there is nobody to continue it but whoever stopped it.
                if let Some(terminal) = &mut attended.terminal {
                    attended.ticker.iter_mut().for_each(Ticker::pause);
                    if let Some(foreground) = terminal.stopped(signal) {
                        self.order(Order::Continue { foreground })?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What a signal that ended the command means: at the limit of CPU time the kernel sends SIGXCPU, and SIGKILL a
    /// second later to whoever ignores that. Others can send the same, to a command that has used little.
    fn killed(&self, signal: i32, cpu_milliseconds: u32) -> Ended {
        let used = Duration::from_millis(cpu_milliseconds.into());
        // The kernel judges by ticks, and tells by the clock; for a command that is held back by a CPU limit the two
        // may be far apart.
        let used_up = self.cpu_time.is_some_and(|limit| match signal {
            libc::SIGXCPU => used >= limit / 2,
            libc::SIGKILL => used >= limit,
            _ => false,
        });
        if used_up { Ended::CpuTimeUsedUp } else { Ended::Signalled(signal) }
    }

    fn outcome(&mut self, usage: &libc::rusage, output_truncated: bool) -> Outcome {
        self.pressure = None;
        let stats = self.meter.finish();
        // Nothing inside is left that could make anything more.
        let violations = std::mem::take(&mut self.sentry).finish();
        let by_sigkill = matches!(self.ended, None | Some(Ended::Signalled(libc::SIGKILL)));
        let ended = match self.ended {
            _ if violations.broken() => Ended::RuleBroken,
            // What init could still tell came before the clock struck.
            None if self.timed_out => Ended::TimedOut,
            _ if by_sigkill && stats.killed_by_own_memory_limit() => Ended::OutOfMemory,
            Some(ended) => ended,
            None => Ended::Killed,
        };
        // An init that was killed could not tell; then the kernel's count of it has to do, whose peak of memory starts
        // at that of the process that cloned it.
        let (user, system, peak) = match self.used {
            Some(used) => {
                let time = |milliseconds: u32| Duration::from_millis(milliseconds.into());
                (time(used.cpu_user), time(used.cpu_system), u64::from(used.peak))
            }
            None => {
                let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0);
                (duration(usage.ru_utime), duration(usage.ru_stime), peak)
            }
        };
        Outcome {
            ended,
            wall_time: self.started.elapsed(),
            cpu_user: stats.cpu_user.unwrap_or(user),
            cpu_system: stats.cpu_system.unwrap_or(system),
            cpu_throttled: stats.cpu_throttled,
            memory_counted: stats.peak_memory.is_some(),
            peak_memory: stats.peak_memory.unwrap_or(peak * 1024),
            max_pids_seen: stats.max_pids_seen,
            oom_kills: stats.oom_kills.unwrap_or(0),
            pids_refused: stats.pids_max_hits.unwrap_or(0),
            output_truncated,
            violations,
            not_enforced: Vec::new(),
        }
    }

    /// Sends a signal to the command's process group, through PID 1.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.init.pidfd, signal);
    }

    /// Kills everything inside.
    pub fn kill(&self) {
        kill(&self.init.pidfd, &self.init.link, self.init.namespaced);
    }

    /// Kills and waits until nothing is left.
    fn end(&mut self) {
        if !self.reaped {
            self.kill();
            // An init that does not come to its end (it may be stopped) is made to.
            let mut gone = [PollFd::new(&self.init.pidfd, PollFlags::IN)];
            if rustix::event::poll(&mut gone, Some(&timespec(PATIENCE))) != Ok(1) {
                self.signal(Signal::KILL);
            }
            let _ = reap(self.init.pidfd.as_fd());
            // What is still in the cgroup has no PID 1 any more.
            self.meter.finish();
            self.reaped = true;
            self.sentry = Sentry::default();
        }
    }

    fn order(&self, order: Order) -> io::Result<()> {
        rustix::net::send(&self.init.link, &order.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Option<Report>> {
        self.receive_with(rustix::net::RecvFlags::empty())
    }

    fn receive_now(&mut self) -> io::Result<Option<Report>> {
        match self.receive_with(rustix::net::RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other,
        }
    }

    /// The next report; `None` at the end of the link. A peer that ended with a message of ours unread resets it.
    fn receive_with(&mut self, flags: rustix::net::RecvFlags) -> io::Result<Option<Report>> {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
        let mut message = [0u8; report::LENGTH];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        loop {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut message)];
            let flags = flags | RecvFlags::CMSG_CLOEXEC;
            let length = match rustix::net::recvmsg(&self.init.link, &mut parts, &mut control, flags) {
                Ok(received) => received.bytes,
                // Told once; what the peer said before is still to be read.
                Err(Errno::CONNRESET | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if length == 0 {
                self.link_ended = true;
                return Ok(None);
            }
            let doors = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            });
            let doors: Vec<_> = doors.flatten().collect();
            match Report::decode(&message[..length.min(report::LENGTH)]) {
                Some(Report::Descriptor { tag: guard::LISTENER }) => {
                    doors.into_iter().for_each(|listener| self.sentry.listen(listener));
                }
                Some(Report::Descriptor { tag }) => {
                    self.doors.extend(doors.into_iter().map(|door| (tag, door)));
                }
                Some(report) => return Ok(Some(report)),
                None => {}
            }
        }
    }

    fn poll(&self, attended: &Attended) -> io::Result<Ready> {
        let mut fds = vec![PollFd::new(&self.init.pidfd, PollFlags::IN)];
        // A link that has ended is always ready, and would keep this loop spinning while init exits.
        if !self.link_ended {
            fds.push(PollFd::new(&self.init.link, PollFlags::IN));
        }
        let signals_at = fds.len();
        if let Some(signals) = attended.signals {
            fds.push(PollFd::new(signals, PollFlags::IN));
        }
        let doors_at = fds.len();
        if attended.open_doors.is_some() {
            fds.extend(self.doors.iter().map(|(_, door)| PollFd::new(door, PollFlags::IN)));
        }
        let guard_at = fds.len();
        fds.extend(self.sentry.listener().map(|listener| PollFd::new(listener, PollFlags::IN)));
        let pressure_at = fds.len();
        if let Some(pressure) = &self.pressure {
            fds.push(PollFd::from_borrowed_fd(pressure.fd(), PollFlags::PRI));
        }
        if let Some(streams) = &attended.streams {
            streams.register(&mut fds);
        }
        let next = self.deadline.into_iter().chain(attended.ticker.as_ref().map(Ticker::next)).min();
        let timeout = next.map(|next| timespec(next.saturating_duration_since(Instant::now())));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let hit = |fd: &PollFd| !fd.revents().is_empty();
        Ok(Ready {
            gone: hit(&fds[0]),
            link: fds[1..signals_at].iter().any(hit),
            signals: fds[signals_at..doors_at].iter().any(hit),
            knocked: fds[doors_at..guard_at].iter().any(hit),
            guard: fds[guard_at..pressure_at].iter().map(PollFd::revents).collect(),
            pressed: self.pressure.is_some() && hit(&fds[pressure_at]),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

struct Ready {
    gone: bool,
    link: bool,
    signals: bool,
    knocked: bool,
    guard: PollFlags,
    pressed: bool,
}

/// Kills everything inside: with PID 1 gone the kernel leaves nothing. Without a PID namespace init has to do it: the
/// end of the link tells it to.
fn kill(pidfd: &OwnedFd, link: &OwnedFd, namespaced: bool) {
    if namespaced {
        let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
    } else {
        let _ = rustix::net::shutdown(link, rustix::net::Shutdown::Both);
    }
}

fn step_error(plan: &Plan, index: u32, source: io::Error) -> StartError {
    if index == ID_MAPS {
        return StartError::IdMaps(source);
    }
    let step = plan.step(index).map(|planned| &planned.step);
    if let (Some(Step::Filter { listener: Some(_), .. }), Some(libc::EBUSY)) = (step, source.raw_os_error()) {
        return StartError::Nested(source);
    }
    match plan.step(index) {
        Some(planned) => StartError::Step {
            step: describe_step(&planned.step),
            reason: planned.reason.clone(),
            refused: match planned.step {
                Step::Proc { .. } => Some(Refused::Proc),
                Step::Netlink { .. } => Some(Refused::Netlink),
                _ => None,
            },
            source,
        },
        None => StartError::Step {
            step: "starting the command".into(),
            reason: "the command itself".into(),
            refused: None,
            source,
        },
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) as _ }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_usec).unwrap_or(0) * 1000)
}

/// Waits for the process behind `pidfd` and takes what it and its descendants used. `__WALL`, because it was cloned
/// without an exit signal.
pub(crate) fn reap(pidfd: BorrowedFd) -> io::Result<libc::rusage> {
    use std::os::fd::AsRawFd;
    const P_PIDFD: libc::c_int = 3;
    loop {
        // SAFETY: both are plain memory of the right size that the kernel fills in.
        let (result, usage) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let mut usage: libc::rusage = std::mem::zeroed();
            let result = libc::syscall(
                libc::SYS_waitid,
                P_PIDFD,
                pidfd.as_raw_fd(),
                &raw mut info,
                libc::WEXITED | libc::__WALL,
                &raw mut usage,
            );
            (result, usage)
        };
        if result == 0 {
            return Ok(usage);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // A wait loop of the caller's own took it; that it has ended is all that is needed.
            Some(libc::ECHILD) => return Ok(usage),
            _ => return Err(error),
        }
    }
}
