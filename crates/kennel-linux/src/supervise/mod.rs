//! The controller's side while a sandbox runs: it waits, keeps the clock, forwards signals, carries the output, and
//! sees that nothing is left.
//!
//! One loop of poll over descriptors: the link to init, init's pidfd, and where wanted the signals, the standard
//! streams and the terminal. There is no sleep, and no thread but the guard's, which starts with the first call that it
//! has to answer; without it such a call waits, and is never let through.

pub mod carry;
mod end;
mod guard_state;
pub mod idle;
mod job;
pub mod listening;
pub mod meter;
mod owners;
mod readiness;
pub mod standard;
mod start;
pub mod streams;
mod supervisor;
pub mod terminal;
pub mod ticker;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_init::plan::Plan;
use kennel_init::report::{Report, Used};
use kennel_init::role::DescriptorRole;
use rustix::event::{PollFd, PollFlags};
use rustix::net::RecvFlags;
use rustix::process::Signal;

use crate::caches::Layers;
use crate::cgroup::Pressure;
use crate::clock::timespec;
use crate::handback::LastLook;
use crate::launch::Init;
use crate::link::{self, Received};
use crate::network::{SocketRole, TaggedSockets};
use crate::reap::reap;
use guard_state::GuardState;
use idle::Busy;
use job::JobState;
use kennel_policy::outcome::Ended;
use meter::Meter;
use owners::Owners;
pub use start::StartError;
pub use supervisor::{Supervisor, Turn, WaitOptions};

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
    doors: TaggedSockets,
    guard_state: GuardState,
    /// The controller's side of the sandbox's terminal, until somebody carries it.
    terminal: Option<OwnedFd>,
    /// What init made of the file behind standard input, until somebody takes care of it: its role, and the descriptor.
    input: Option<(DescriptorRole, OwnedFd)>,
    /// Whether the job is being stopped, or held for a question.
    job: JobState,
    /// The look at repositories that is due when nothing inside is left.
    last_look: Option<LastLook>,
    /// The layers of caches that nobody else uses until nothing inside is left.
    layers: Option<Arc<Layers>>,
    /// Gives the caller what other users have left, when nothing inside is left.
    owners: Option<Owners>,
    /// What it could not do.
    left_to_others: Option<String>,
    /// What init counted.
    used: Option<Used>,
    /// Something inside tried to reach a network that is not there.
    tried_network: bool,
    /// The plan of a command that starts silently, to tell what went wrong by.
    silent: Option<Box<Plan>>,
    /// Why such a command does not run.
    not_started: Option<StartError>,
    /// Init has closed its end of the link and is on its way out.
    link_ended: bool,
    timed_out: bool,
    /// Everything inside has ended, but for an init that has reported it and is on its way out.
    inside_gone: bool,
    reaped: bool,
    /// Whether this is a command of a session, and init its leader: a child of the session's PID 1, not of this process.
    leads: bool,
    /// Keeps the session from counting as idle.
    busy: Option<Busy>,
}

/// What is left of a sandbox whose outcome was told as soon as init had reported it: init's last moments, and the cgroup.
/// Dropping it waits for the one and removes the other. Its descriptor is ready to read when that takes no waiting.
#[derive(Debug)]
pub struct Remains(Running);

impl AsFd for Remains {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.pidfd()
    }
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
            guard_state: GuardState::default(),
            terminal: None,
            input: None,
            job: JobState::default(),
            last_look: None,
            layers: None,
            owners: None,
            left_to_others: None,
            used: None,
            tried_network: false,
            silent: None,
            not_started: None,
            link_ended: false,
            timed_out: false,
            inside_gone: false,
            reaped: false,
            leads: false,
            busy: None,
        }
    }

    /// The sockets that init made inside the sandbox's network, to be served by the caller.
    pub fn take_doors(&mut self) -> TaggedSockets {
        std::mem::take(&mut self.doors)
    }

    /// The other side of the sandbox's terminal, where nobody carries it.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Watches sockets of this side with those from inside: a client of one of them opens the doors too.
    pub fn watch_too(&mut self, sockets: TaggedSockets) {
        self.doors.extend(sockets);
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

    /// PID 1's pid in this process's namespace; a leader's, of which only its descriptor came; 0 if it has ended.
    #[must_use]
    pub fn init_pid(&self) -> i32 {
        if self.leads { pid_behind(&self.init.pidfd) } else { self.init.pid }
    }

    fn start_guard(&mut self) {
        let handles = (self.init.pidfd.try_clone(), self.init.link.try_clone());
        let (Ok(pidfd), Ok(link)) = handles else {
            // Without descriptors there is no guard, and what it would have to judge waits until the end.
            return self.kill();
        };
        let (handles, namespaced) = (Arc::new((pidfd, link)), self.init.namespaced);
        self.guard_state.start(move || kill(&handles.0, &handles.1, namespaced));
    }

    fn hear(&mut self, report: Report, options: &mut WaitOptions) -> io::Result<()> {
        match report {
            Report::Exited { code, used } => self.note_end(Ended::Exited(code), used, options),
            Report::Killed { signal, cpu, used } => self.note_end(self.killed(signal, cpu), used, options),
            Report::TriedNetwork => self.tried_network = true,
            Report::Stopped { signal } => self.command_stopped(signal, options)?,
            Report::Held => self.held(options)?,
            Report::Continued => {
                options.terminal.iter_mut().for_each(|terminal| terminal.command_continued());
            }
            Report::TimedOut { used } => {
                self.timed_out = true;
                self.used = Some(used);
            }
            Report::Ended { used } => self.used = Some(used),
            report => {
                let error = self.silent.as_ref().and_then(|plan| start::start_error(plan, report));
                self.not_started = error.or(self.not_started.take());
            }
        }
        Ok(())
    }

    /// The command has ended, and PID 1 takes its leave. What has to be cleared away here is, meanwhile.
    fn note_end(&mut self, ended: Ended, used: Used, options: &mut WaitOptions) {
        (self.ended, self.used) = (Some(ended), Some(used));
        if let Some(terminal) = &mut options.terminal {
            terminal.command_ended();
        }
        self.meter.prepare_end();
        self.doors.clear();
    }

    /// Kills everything inside at once, also from elsewhere; does nothing where init has to see to it.
    #[must_use]
    pub fn killer(&self) -> Option<OwnedFd> {
        self.init.namespaced.then(|| self.init.pidfd.try_clone().ok()).flatten()
    }

    pub(crate) fn link(&self) -> &OwnedFd {
        &self.init.link
    }

    /// Refers to PID 1; ready to read when everything inside has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.init.pidfd.as_fd()
    }

    /// Sends a signal to the command's process group, through PID 1.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.init.pidfd, signal);
    }

    /// Whether PID 1 has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut gone = [PollFd::new(&self.init.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut gone, Some(&timespec(Duration::ZERO))) != Ok(0)
    }

    /// Kills everything inside.
    pub fn kill(&self) {
        kill(&self.init.pidfd, &self.init.link, self.init.namespaced);
    }

    /// Whether init has told how it ended, which is the last that it does: nothing else inside is left then.
    fn has_reported_end(&self) -> bool {
        self.used.is_some()
    }

    /// Kills and waits until nothing is left.
    fn end(&mut self) {
        if !self.reaped {
            self.kill();
            if self.leads {
                // Somebody inside may have stopped it.
                self.signal(Signal::CONT);
            }
            // An init that does not come to its end (it may be stopped) is made to.
            let mut gone = [PollFd::new(&self.init.pidfd, PollFlags::IN)];
            let until = Instant::now() + PATIENCE;
            let ended = loop {
                let left = timespec(until.saturating_duration_since(Instant::now()));
                match rustix::event::poll(&mut gone, Some(&left)) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other == Ok(1),
                }
            };
            if !ended {
                self.signal(Signal::KILL);
            }
            let _ = reap(self.init.pidfd.as_fd());
            // What is still in the cgroup has no PID 1 any more.
            self.meter.finish();
            self.reaped = true;
            let made = self.guard_state.made_names();
            self.guard_state = GuardState::default();
            self.look_at_repositories(made);
        }
    }

    fn receive(&mut self) -> io::Result<Option<Report>> {
        self.receive_with(RecvFlags::empty())
    }

    fn receive_now(&mut self) -> io::Result<Option<Report>> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other,
        }
    }

    /// The next report; `None` at the end of the link. Descriptors are put away on the way.
    fn receive_with(&mut self, flags: RecvFlags) -> io::Result<Option<Report>> {
        loop {
            match link::receive(&self.init.link, flags)? {
                Received::Report(Some(Report::Descriptor { role }), fds) => {
                    fds.into_iter().for_each(|fd| self.take_descriptor(role, fd));
                }
                Received::Report(Some(report), _) => return Ok(Some(report)),
                Received::Report(None, _) => {}
                Received::End => {
                    self.link_ended = true;
                    return Ok(None);
                }
            }
        }
    }

    fn take_descriptor(&mut self, role: DescriptorRole, fd: OwnedFd) {
        match role {
            DescriptorRole::Notifications => {
                self.guard_state.listen(fd);
                // The start of the command is one of the calls that are looked at, and it is waited for.
                if self.guard_state.traces() {
                    self.start_guard();
                }
            }
            DescriptorRole::Store => self.guard_state.keep_store(fd),
            DescriptorRole::Root => self.guard_state.keep_root(fd),
            DescriptorRole::Terminal => self.terminal = Some(fd),
            DescriptorRole::InputFile | DescriptorRole::InputPipe => self.input = Some((role, fd)),
            DescriptorRole::Socket(number) => {
                self.doors.extend(SocketRole::decode(number).map(|role| (role, fd)));
            }
            // A helper of the guard's sends it, and never init.
            DescriptorRole::Pair => {}
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The process that a pidfd refers to, as /proc shows it.
fn pid_behind(pidfd: &OwnedFd) -> i32 {
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap_or_default();
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.filter(|pid| *pid > 0).unwrap_or(0)
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
