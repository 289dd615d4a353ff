//! From a PID 1 that was born to a command that runs.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_init::child::session::NO_LEADER;
use kennel_init::encode::{encode_late, encode_opening};
use kennel_init::plan::{Command, Plan, Planned, Step};
use kennel_init::report::{ID_MAPS, Order, Report};
use kennel_policy::policy::Limits;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::RecvFlags;
use rustix::process::Pid;

use super::Running;
use super::idle::Busy;
use super::owners::Owners;
use crate::caches::Layers;
use crate::cgroup::{Cgroup, CgroupError};
use crate::clock::timespec;
use crate::describe::{describe_step, show};
use crate::guard::{Asks, GuardAssumptions, GuardError, Namespaces, Rules};
use crate::handback::LastLook;
use crate::launch::Init;
use crate::link::{self, Received};
use crate::plan::need::{Need, need};
use crate::resolve::Source;
use crate::resolve::known::Handback;

/// Why a sandbox did not get as far as its command.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no room for what kennel itself makes.
    #[error(
        "{step}: {source}\n\
         reason: {reason}\n\
         help: what kennel makes for the sandbox counts towards `limits.tmp_size`; let it be 1M or more"
    )]
    NoRoom {
        /// What was being done, and on what.
        step: String,
        /// The rule behind it.
        reason: String,
        /// What the system said.
        source: io::Error,
    },
    /// A step of the plan failed.
    #[error("{step}: {source}\nreason: {reason}")]
    Step {
        /// What was being done, and on what.
        step: String,
        /// The rule behind it.
        reason: String,
        /// What it needs of the host.
        need: Need,
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
         help: inside a guarded sandbox there is no second guard, because the kernel allows one listener per process: \
         deny the paths that do not exist in the outer sandbox too, or create them; list unix sockets only there"
    )]
    Nested(#[source] io::Error),
    /// There is no guard.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// There is no leader for a command of a session.
    #[error(
        "starting a process to look after the command: {0}\n\
         help: a session runs up to 256 commands at a time, and each counts as one more process against `limits.pids`"
    )]
    NoLeader(#[source] io::Error),
    /// There is no session any more.
    #[error("starting a command: the session has ended")]
    SessionEnded,
    /// Talking to init failed.
    #[error("waiting for the sandbox: {0}")]
    Link(#[source] io::Error),
}

impl Running {
    /// Sends the opening of a plan. Should init be gone, [`Running::await_start`] tells why.
    pub fn open(&self, opening: &[Planned]) {
        let _ = link::send_part(&self.init.link, &encode_opening(opening));
    }

    /// Lets init run, so that the two work at the same time: a kernel that keeps a newborn process on its parent's processor
    /// does not run it before the parent gives way. Where it has a processor of its own, this process goes on at once.
    pub fn let_it_open(&self, opening: &[Planned]) {
        if !opening.is_empty() {
            rustix::thread::sched_yield();
        }
    }

    /// Sends the set-up.
    pub fn set_up(&self, plan: &Plan) {
        let _ = link::send_part(&self.init.link, &plan.encode_steps());
    }

    /// Sends the command, and starts the clock. Everything that a step of the set-up waits for has to be sent before.
    pub fn command(&mut self, command: &Command, limits: &Limits) {
        self.started = Instant::now();
        self.guard_state.command_starts();
        self.deadline = limits.wall_time.and_then(|limit| self.started.checked_add(limit));
        self.cpu_time = limits.cpu_time;
        let _ = link::send_part(&self.init.link, &command.encode());
    }

    /// Has the clock run since `begun`, when the start began.
    pub fn counts_from(&mut self, begun: Instant, limits: &Limits) {
        self.deadline = limits.wall_time.and_then(|limit| begun.checked_add(limit));
    }

    /// Has `rules` guarded.
    ///
    /// Init, which waits for that before it starts the command, is told that the paths are held; by then it has mostly
    /// not come so far.
    ///
    /// # Errors
    /// When a path is not what it was when the rules were made; nothing is left of the sandbox then.
    pub fn guard(
        &mut self,
        rules: &Rules,
        assumptions: GuardAssumptions,
        asks: bool,
    ) -> Result<(), StartError> {
        if rules.is_empty() && !asks {
            return Ok(());
        }
        if let Err(error) = self.guard_state.guard(rules, assumptions, asks) {
            self.end();
            return Err(error.into());
        }
        if asks && rules.asks() != Asks::No {
            // One that has gone meanwhile is noticed elsewhere.
            let _ = self.go();
        }
        Ok(())
    }

    /// Takes hold of the namespaces of PID 1, which must not have come far: when it has given up its capabilities, it
    /// lets nobody look at it any more.
    pub fn hold_namespaces(&mut self) -> io::Result<()> {
        self.guard_state.hold(Namespaces::of(self.init.pid)?);
        Ok(())
    }

    /// Has what other users make in these places be the caller's, when nothing inside is left. To be called before the plan is
    /// sent.
    ///
    /// # Errors
    /// When one is not what it was, or there is no helper to be had.
    pub fn give_back_to_caller(&mut self, roots: &[&Source]) -> io::Result<()> {
        let (owners, calls) = Owners::start(&self.init, roots)?;
        self.owners = Some(owners);
        self.guard_state.hold_helper(calls);
        Ok(())
    }

    /// Takes hold of the folders that have to be looked through for repositories when nothing inside is left. To be called
    /// before the plan is sent: the command may run right after.
    ///
    /// # Errors
    /// When a folder is not what it was; nothing is left of the sandbox then.
    pub fn hold(&mut self, handback: Option<&Arc<Handback>>) -> Result<(), StartError> {
        match handback.map(LastLook::new).transpose() {
            Ok(last_look) => self.last_look = last_look,
            Err((path, source)) => {
                self.end();
                return Err(GuardError::Changed { path, source }.into());
            }
        }
        Ok(())
    }

    /// Keeps the layers of caches locked until this value is given up.
    pub fn hold_layers(&mut self, layers: Option<Arc<Layers>>) {
        self.layers = layers;
    }

    /// Puts PID 1, which waits for it, into a cgroup, and lets it go on. `newborn` says that it was born in it.
    ///
    /// # Errors
    /// When the kernel or systemd refuses; it still waits then.
    pub fn enter(&mut self, mut cgroup: Cgroup, newborn: bool) -> Result<(), CgroupError> {
        let moved = cgroup.must_be_admitted() || (!newborn && cgroup.birth_fd().is_some());
        if moved {
            cgroup.admit(Pid::from_raw(self.init.pid).unwrap_or(Pid::INIT))?;
        }
        self.pressure = cgroup.watch_pressure()?;
        let entrances: Vec<_> = if moved { Vec::new() } else { cgroup.entrances().collect() };
        let handed = link::order(&self.init.link, Order::Enter, &entrances);
        handed.map_err(|error| CgroupError::System {
            doing: "handing a cgroup over to init",
            path: "the link".into(),
            source: error,
        })?;
        self.meter.count_by(cgroup);
        Ok(())
    }

    /// Lets init go on past [`kennel_init::plan::Step::AwaitController`].
    pub fn go(&self) -> io::Result<()> {
        link::order(&self.init.link, Order::Go, &[])
    }

    /// Waits for a report until time is up; whether one came. Without a PID namespace the command can stop init before init
    /// has said that it runs.
    fn hears_in_time(&self) -> bool {
        let Some(deadline) = self.deadline else { return true };
        let left = timespec(deadline.saturating_duration_since(Instant::now()));
        let mut link = [PollFd::new(&self.init.link, PollFlags::IN)];
        retry_on_intr(|| poll(&mut link, Some(&left))) != Ok(0)
    }

    /// Why init has given up, if it has told so already: the reason behind whatever could not be done with it since.
    pub fn told_failure(&mut self, plan: &Plan) -> Option<StartError> {
        while let Ok(Some(report)) = self.receive_now() {
            if let Report::Failed { step, errno } = report {
                return Some(step_error(plan, step, io::Error::from_raw_os_error(errno)));
            }
        }
        None
    }

    /// Sends the steps that come late.
    pub fn set_up_late(&self, steps: &[Planned]) {
        let _ = link::send_part(&self.init.link, &encode_late(steps));
    }

    /// Waits until init is ready for the steps that come late, and for the command.
    ///
    /// # Errors
    /// When a step failed; nothing is left of the sandbox then.
    pub fn await_ready(&mut self, plan: &Plan) -> Result<(), StartError> {
        let error = loop {
            match self.receive() {
                Ok(Some(Report::Ready)) => return Ok(()),
                Ok(Some(Report::Failed { step, errno })) => {
                    break step_error(plan, step, io::Error::from_raw_os_error(errno));
                }
                Ok(Some(_)) => {}
                Ok(None) => break StartError::Gone,
                Err(error) => break StartError::Link(error),
            }
        };
        self.end();
        Err(error)
    }

    /// Goes on without waiting until the command runs, which starts silently: should it not start, a later turn tells why.
    pub fn leave_to_start(&mut self, plan: Plan) {
        self.silent = Some(Box::new(plan));
    }

    /// Waits until the command runs.
    ///
    /// # Errors
    /// When a step failed or the command could not be executed; nothing is left of the sandbox then.
    pub fn await_start(&mut self, plan: &Plan) -> Result<(), StartError> {
        let mut starting = false;
        loop {
            if starting && !self.namespaced() && !self.hears_in_time() {
                return Ok(());
            }
            match self.receive() {
                Ok(Some(Report::Starting)) => starting = true,
                Ok(Some(Report::Started)) => return Ok(()),
                // Killed right after: the command may have run, so this is an end, not a failure to start.
                Ok(None) if starting => return Ok(()),
                Ok(Some(report)) => {
                    if let Some(error) = start_error(plan, report) {
                        self.end();
                        return Err(error);
                    }
                }
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
}

/// What a report says of a command that does not run; `None` for reports of other things.
pub(super) fn start_error(plan: &Plan, report: Report) -> Option<StartError> {
    match report {
        Report::Failed { step, errno } => Some(step_error(plan, step, io::Error::from_raw_os_error(errno))),
        Report::NotExecuted { candidate, errno } => Some(not_executed(&plan.command, candidate, errno)),
        _ => None,
    }
}

impl Running {
    /// Ends it after so long.
    pub fn lasts(&mut self, limit: Option<Duration>) {
        self.started = Instant::now();
        self.deadline = limit.and_then(|limit| self.started.checked_add(limit));
    }

    /// Waits until the leader that has the other end of `link` has started the command of `plan`. What the two need was sent at
    /// `started`.
    ///
    /// # Errors
    /// When a step failed or the command could not be executed; nothing is left of it then.
    pub(crate) fn of_leader(
        link: OwnedFd,
        plan: &Plan,
        started: Instant,
        limits: &Limits,
        busy: Busy,
    ) -> Result<Running, StartError> {
        let mut terminal = None;
        loop {
            match link::receive(&link, RecvFlags::empty()).map_err(StartError::Link)? {
                Received::Report(Some(Report::Started), mut fds) => {
                    let Some(pidfd) = fds.pop() else { return Err(StartError::SessionEnded) };
                    let mut running =
                        Running::new(Init { pid: 0, pidfd, link, namespaced: false, network: None });
                    running.started = started;
                    running.deadline = limits.wall_time.and_then(|limit| started.checked_add(limit));
                    running.cpu_time = limits.cpu_time;
                    (running.terminal, running.busy, running.leads) = (terminal, Some(busy), true);
                    return Ok(running);
                }
                Received::Report(Some(Report::Descriptor { .. }), mut fds) => terminal = fds.pop(),
                Received::Report(Some(Report::Failed { step, errno }), _) => {
                    return Err(step_error(plan, step, io::Error::from_raw_os_error(errno)));
                }
                Received::Report(Some(Report::NotExecuted { candidate, errno }), _) => {
                    return Err(not_executed(&plan.command, candidate, errno));
                }
                Received::Report(..) => {}
                Received::End => return Err(StartError::SessionEnded),
            }
        }
    }
}

fn not_executed(command: &Command, candidate: u32, errno: i32) -> StartError {
    let tried = command.candidates.get(candidate as usize);
    let name = command.arguments.first();
    let not_found = errno == libc::ENOENT;
    let command = if not_found { name } else { tried.or(name) };
    let command = command.map(|name| show(name.as_bytes())).unwrap_or_default();
    let source = match errno {
        libc::ELIBACC => io::Error::other("the interpreter that it names does not exist inside"),
        errno => io::Error::from_raw_os_error(errno),
    };
    StartError::NotExecuted { command, source }
}

fn step_error(plan: &Plan, index: u32, source: io::Error) -> StartError {
    if index == ID_MAPS {
        return StartError::IdMaps(source);
    }
    if index == NO_LEADER {
        return StartError::NoLeader(source);
    }
    let step = plan.step(index).map(|planned| &planned.step);
    if let (Some(Step::Filter { listener: true, .. }), Some(libc::EBUSY)) = (step, source.raw_os_error()) {
        return StartError::Nested(source);
    }
    match plan.step(index) {
        Some(Planned {
            step:
                step @ (Step::WriteFile { .. }
                | Step::MakeDir { .. }
                | Step::MakeFile { .. }
                | Step::Symlink { .. }
                | Step::Store { .. }
                | Step::Private { .. }
                | Step::MaskDir { .. }
                | Step::MaskFile { .. }
                | Step::CoverFile { .. }
                | Step::Home { .. }
                | Step::InputFile { .. }),
            reason,
        }) if source.raw_os_error() == Some(libc::ENOSPC) => {
            StartError::NoRoom { step: describe_step(step), reason: reason.clone(), source }
        }
        Some(planned) => StartError::Step {
            step: describe_step(&planned.step),
            reason: planned.reason.clone(),
            need: need(&planned.step),
            source,
        },
        None => StartError::Step {
            step: "starting the command".into(),
            reason: "the command itself".into(),
            need: Need::Nothing,
            source,
        },
    }
}
