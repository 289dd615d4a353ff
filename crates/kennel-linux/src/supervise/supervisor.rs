//! Attending to a sandbox: one turn after the other, until it has ended.
//!
//! A turn looks at what is ready, does what that asks for, and never waits. Whoever has nothing else to do waits for the
//! next one in `poll` ([`Supervisor::wait`]); whoever has more, such as the event loop of a program with a thousand
//! sandboxes, watches one descriptor ([`Supervisor::descriptor`]) and takes a turn when it is ready.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::carry::Carried;
use super::idle::Idle;
use super::listening::Listening;
use super::readiness::{Interest, Readiness};
use super::streams::Streams;
use super::terminal::{Questions, Terminal};
use super::ticker::Ticker;
use super::{Remains, Running, StartError};
use crate::clock::timespec;
use crate::handback::Hurry;
use crate::network::TaggedSockets;
use crate::reap::reap;
use crate::signals::{PipeSignalHeld, Signals, WritesFailQuietly};
use crate::sys::processes::no_usage;
use kennel_policy::outcome::Outcome;

/// What the controller takes part in meanwhile.
#[derive(Default)]
pub struct WaitOptions {
    /// Signals to forward.
    pub signals: Option<Signals>,
    /// The caller's terminal, to be carried to and from the sandbox's.
    pub terminal: Option<Terminal>,
    /// Output to capture and input to feed.
    pub streams: Option<Streams>,
    /// Streams to carry to and from the caller's own.
    pub carried: Option<Carried>,
    /// Questions to put to the user.
    pub questions: Option<Questions>,
    /// Whether somebody is there to serve the sockets inside, when the first client knocks.
    pub serves: bool,
    /// Who is told what is used meanwhile.
    pub ticker: Option<Ticker>,
    /// Who is told which ports something inside listens on.
    pub listening: Option<Listening>,
    /// Ready to read when everything inside is to be ended.
    pub end: Option<OwnedFd>,
    /// Whether this process inherits what an init without a PID namespace leaves.
    pub adopts_orphans: bool,
    /// Keeps failing writes from killing this process.
    pub quietly: Option<WritesFailQuietly>,
    /// Tell the outcome as soon as init has reported the end, rather than when init has ended too. Everything else inside has
    /// by then. [`Supervisor::into_remains`] is what is left to be seen to.
    pub at_report: bool,
    /// Of a session: how long nothing may go on in it.
    pub idle: Option<Idle>,
}

/// What came of a turn.
#[derive(Debug)]
pub enum Turn {
    /// Nothing that the caller has to know.
    GoesOn,
    /// The first client knocks at one of these sockets, which the caller has to serve from now on.
    Knocked(TaggedSockets),
    /// A command that was to start silently could not be started, and nothing is left.
    NotStarted(StartError),
    /// Everything has ended.
    Ended(Box<Outcome>),
}

/// A running sandbox, and what its controller takes part in. Dropping it ends the sandbox and waits until nothing is left.
pub struct Supervisor {
    running: Running,
    options: WaitOptions,
    begun: bool,
    /// What the kernel counted for PID 1, once it has ended, or reported the end of everything else.
    reaped: Option<libc::rusage>,
    readiness: Option<Readiness>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("init", &self.running.init_pid()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Attends to `running`.
    #[must_use]
    pub fn new(running: Running, options: WaitOptions) -> Supervisor {
        Supervisor { running, options, begun: false, reaped: None, readiness: None }
    }

    /// The sandbox.
    #[must_use]
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Takes part in `end` too: when it is ready to read, everything inside is ended.
    pub fn end_by(&mut self, end: OwnedFd) {
        self.options.end = Some(end);
    }

    /// Ends everything inside. The next turns tell when it is done.
    pub fn end(&mut self) {
        self.running.end_as_ordered();
    }

    /// What is left when the outcome has been told. Before that, dropping it ends the sandbox.
    #[must_use]
    pub fn into_remains(self) -> Remains {
        Remains(self.running)
    }

    /// What was captured of the command's output; to be taken at the end.
    pub fn take_streams(&mut self) -> Option<Streams> {
        self.options.streams.take()
    }

    /// Waits for the next thing to happen, and does what it asks for.
    ///
    /// # Errors
    /// Only when the system fails this process itself; the sandbox is ended then.
    pub fn wait(&mut self) -> io::Result<Turn> {
        self.turn(true)
    }

    /// Does what there is to do, without waiting. To be called when [`Supervisor::descriptor`] is ready; calling it too
    /// often does no harm.
    ///
    /// # Errors
    /// As [`Supervisor::wait`].
    pub fn on_ready(&mut self) -> io::Result<Turn> {
        let turn = self.turn(false)?;
        if !matches!(turn, Turn::Ended(_) | Turn::NotStarted(_))
            && let Err(error) = self.update_readiness()
        {
            // Nobody would be told of what happens next.
            self.running.end();
            return Err(error);
        }
        Ok(turn)
    }

    /// A descriptor that is ready to read when there is something to do. It is the same for as long as this value lives.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn descriptor(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.readiness.is_none() {
            self.begin()?;
            self.readiness = Some(Readiness::new()?);
            self.update_readiness()?;
        }
        self.readiness.as_ref().map(Readiness::fd).ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn update_readiness(&mut self) -> io::Result<()> {
        let Some(mut readiness) = self.readiness.take() else { return Ok(()) };
        let interests = self.interests();
        let updated = readiness.update(&interests.fds, interests.next);
        self.readiness = Some(readiness);
        updated
    }

    fn turn(&mut self, wait: bool) -> io::Result<Turn> {
        // Of a caller's own threads; a command line ignores the signal as long as it runs.
        let writes =
            self.options.streams.as_ref().is_some_and(Streams::feeds) || self.options.carried.is_some();
        let held = (self.options.signals.is_none() && writes).then(PipeSignalHeld::new);
        let result = self.begin().and_then(|()| self.take_turn(wait));
        drop(held);
        if result.is_err() {
            self.running.end();
        }
        if !matches!(result, Ok(Turn::GoesOn | Turn::Knocked(_))) {
            self.finish_carrying();
        }
        match result {
            Ok(Turn::Ended(mut outcome)) => {
                let failure = self.options.carried.as_mut().and_then(Carried::failure);
                outcome.stream_failure = failure.map(|(doing, source)| format!("{doing}: {source}"));
                if !self.running.namespaced() {
                    if self.options.adopts_orphans {
                        // What init left because it was killed itself.
                        kennel_init::child::reaper::kill_descendants(|_| {});
                    }
                    self.running.finish_without_namespace(&mut outcome);
                }
                Ok(Turn::Ended(outcome))
            }
            other => other,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.running.begin_carrying(&mut self.options)?;
            if let Some(last_look) = &mut self.running.last_look {
                let signals = self.options.signals.as_ref().and_then(|signals| signals.watch().ok());
                let end = self.options.end.as_ref().and_then(|end| end.try_clone().ok());
                last_look.heed(signals.map(Hurry::Signals).into_iter().chain(end.map(Hurry::End)));
            }
            self.running.meter.sweep();
        }
        Ok(())
    }

    fn finish_carrying(&mut self) {
        if let Some(carried) = &mut self.options.carried {
            carried.finish();
        }
        if let Some(terminal) = &mut self.options.terminal {
            terminal.finish();
        }
        // Whoever still waits for an answer is told that there is none.
        self.options.questions = None;
    }

    fn take_turn(&mut self, wait: bool) -> io::Result<Turn> {
        let ready = self.poll(wait)?;
        let Supervisor { running, options, reaped, .. } = self;
        if ready.link {
            while let Some(report) = running.receive_now()? {
                running.hear(report, options)?;
            }
            if let Some(error) = running.not_started.take() {
                running.end();
                return Ok(Turn::NotStarted(error));
            }
        }
        match ready.guard {
            flags if flags.contains(PollFlags::IN) => running.start_guard(),
            flags if !flags.is_empty() => running.guard_state.hung_up(),
            _ => {}
        }
        if running.guard_state.begin().is_some_and(|begin| Instant::now() >= begin) {
            running.start_guard();
        }
        if ready.signals
            && let Some(signals) = &options.signals
        {
            let mut taken = Vec::new();
            signals.each(|signal| taken.push(signal));
            for signal in taken {
                running.take_signal(signal, options)?;
            }
        }
        if ready.end {
            options.end = None;
            running.end_as_ordered();
        }
        if let Some(ticker) = options.ticker.as_mut().filter(|_| !running.job.is_asking()) {
            ticker.tick(|| running.meter.usage().unwrap_or_default());
        }
        if let Some(listening) = &mut options.listening {
            listening.look(running.init_pid());
        }
        if ready.pressed && running.pressure.as_ref().is_some_and(|pressure| pressure.relieve().is_err()) {
            running.pressure = None;
        }
        if let Some(streams) = &mut options.streams {
            streams.carry();
        }
        running.carry(&ready, options)?;
        if ready.gone && reaped.is_none() {
            *reaped = Some(reap(running.init.pidfd.as_fd())?);
            running.reaped = true;
            running.inside_ended(options);
        }
        if options.at_report && reaped.is_none() && running.has_reported_end() {
            // What init itself used is not asked for, because it has reported what all others did.
            *reaped = Some(no_usage());
            // A leader is waited for by the PID 1 of its session.
            running.reaped |= running.leads;
            running.inside_ended(options);
        }
        if let Some(usage) = reaped.as_ref().filter(|_| !running.still_carries(options)) {
            let truncated = options.streams.as_ref().is_some_and(Streams::truncated)
                || options.carried.as_ref().is_some_and(Carried::truncated);
            return Ok(Turn::Ended(Box::new(running.outcome(usage, truncated))));
        }
        if reaped.is_none() && running.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            running.deadline = None;
            running.time_is_up();
        }
        if reaped.is_none() && options.idle.as_ref().is_some_and(Idle::is_over) {
            options.idle = None;
            running.time_is_up();
        }
        running.mind_times(options)?;
        // Last, because the caller has it now: whatever else was ready has been seen to.
        if ready.knocked && std::mem::take(&mut options.serves) {
            return Ok(Turn::Knocked(running.take_doors()));
        }
        Ok(Turn::GoesOn)
    }

    /// The descriptors that something may happen on, by whose they are.
    fn interests(&self) -> Interests<'_> {
        let Supervisor { running, options, .. } = self;
        let mut fds = Vec::with_capacity(16);
        // Once it has been reaped it would keep the loop spinning while the rest is carried.
        if !running.inside_gone {
            fds.push(Interest::new(&running.init.pidfd, PollFlags::IN));
        }
        let link = fds.len();
        // A link that has ended is always ready, and would keep the loop spinning while init exits.
        if !running.link_ended && !running.inside_gone {
            fds.push(Interest::new(&running.init.link, PollFlags::IN));
        }
        let signals = fds.len();
        fds.extend(options.signals.as_ref().map(|signals| Interest::new(signals, PollFlags::IN)));
        let end = fds.len();
        fds.extend(options.end.as_ref().map(|end| Interest::new(end, PollFlags::IN)));
        let doors = fds.len();
        if options.serves {
            fds.extend(running.doors.iter().map(|(_, door)| Interest::new(door, PollFlags::IN)));
        }
        let guard = fds.len();
        fds.extend(running.guard_state.listener().map(|listener| Interest::new(listener, PollFlags::IN)));
        let pressure = fds.len();
        let pressed = running.pressure.as_ref();
        fds.extend(pressed.map(|pressure| Interest::from_borrowed(pressure.fd(), PollFlags::PRI)));
        let streams = fds.len();
        if let Some(streams) = &options.streams {
            streams.register(&mut fds);
        }
        let carried = fds.len();
        let asking = running.job.is_asking();
        if let Some(carried) = options.carried.as_ref().filter(|_| !asking) {
            carried.register(&mut fds);
        }
        let terminal = fds.len();
        if let Some(terminal) = &options.terminal {
            terminal.register(&mut fds, asking);
        }
        let questions = fds.len();
        if let Some(questions) = &options.questions {
            questions.register(&mut fds, options.terminal.as_ref());
        }
        let from =
            Starts { link, signals, end, doors, guard, pressure, streams, carried, terminal, questions };
        let of_questions = options.questions.as_ref().and_then(Questions::next);
        let of_terminal = options.terminal.as_ref().filter(|_| !asking).and_then(Terminal::next);
        let of_ticker = options.ticker.as_ref().filter(|_| !asking).map(Ticker::next);
        let times = [
            running.deadline,
            running.guard_state.begin(),
            running.job.next(),
            of_questions,
            of_terminal,
            of_ticker,
            options.listening.as_ref().and_then(Listening::next),
            options.idle.as_ref().map(Idle::next),
        ];
        Interests { fds, from, next: times.into_iter().flatten().min() }
    }

    fn poll(&self, wait: bool) -> io::Result<Ready> {
        let Interests { fds, from, next } = self.interests();
        let mut fds: Vec<PollFd> = fds.into_iter().map(Interest::poll_fd).collect();
        let now = Instant::now();
        let next = if wait { next } else { Some(now) };
        let timeout = next.map(|next| timespec(next.saturating_duration_since(now)));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let hit = |fd: &PollFd| !fd.revents().is_empty();
        let any = |from: usize, to: usize| fds[from..to].iter().any(hit);
        let all = |from: usize, to: usize| fds[from..to].iter().map(PollFd::revents).collect();
        Ok(Ready {
            gone: any(0, from.link),
            link: any(from.link, from.signals),
            signals: any(from.signals, from.end),
            end: any(from.end, from.doors),
            knocked: any(from.doors, from.guard),
            guard: fds[from.guard..from.pressure].iter().map(PollFd::revents).collect(),
            pressed: any(from.pressure, from.streams),
            carried: all(from.carried, from.terminal),
            terminal: all(from.terminal, from.questions),
            questions: all(from.questions, fds.len()),
        })
    }
}

/// What may happen next.
struct Interests<'a> {
    fds: Vec<Interest<'a>>,
    from: Starts,
    /// When something is due, whatever happens.
    next: Option<Instant>,
}

/// Where the descriptors of each kind start; PID 1's pidfd comes before all.
struct Starts {
    link: usize,
    signals: usize,
    end: usize,
    doors: usize,
    guard: usize,
    pressure: usize,
    streams: usize,
    carried: usize,
    terminal: usize,
    questions: usize,
}

/// What has happened.
pub(super) struct Ready {
    gone: bool,
    link: bool,
    signals: bool,
    end: bool,
    knocked: bool,
    guard: PollFlags,
    pressed: bool,
    pub(super) carried: Vec<PollFlags>,
    pub(super) terminal: Vec<PollFlags>,
    pub(super) questions: Vec<PollFlags>,
}
