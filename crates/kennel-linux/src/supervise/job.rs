//! The job as a whole: it is stopped and continued, carried, held for questions, and sees its terminal go.
//!
//! Stopping means everything inside. The command, or Ctrl-Z, stops the command's process group; then init stops the rest,
//! and only then does this process stop, so that the shell shows a stopped job in which nothing runs. (The clock is kept by
//! init meanwhile.)

use std::io;
use std::time::{Duration, Instant};

use kennel_init::report::Order;
use kennel_init::role::DescriptorRole;
use rustix::event::PollFlags;
use rustix::process::Signal;

use super::Running;
use super::supervisor::{Ready, WaitOptions};
use super::terminal::Stop;
use super::ticker::Ticker;
use crate::link;
use crate::signals;

/// How long a command that was asked to stop has to do so by itself, before it is stopped.
const TO_STOP: Duration = Duration::from_millis(250);
/// How long init has to stop everything.
const TO_HOLD: Duration = Duration::from_secs(2);
/// How long the inside has to end when the terminal has gone.
const TO_END: Duration = Duration::from_secs(3);
/// How long init has to end everything and to count what it has used.
const TO_COUNT: Duration = Duration::from_secs(1);
/// How long the caller's streams have to take the rest, when the time of the sandbox is up.
const TO_TAKE: Duration = Duration::from_secs(1);

/// What is going on with the job as a whole.
#[derive(Debug, Default)]
pub(super) struct JobState {
    hold: Hold,
    /// When a command that was asked to stop is stopped.
    stop_at: Option<Instant>,
    /// When everything is killed, because the terminal has gone, or because it should have ended before.
    end_at: Option<Instant>,
    /// When what is left to carry is given up, once everything inside has ended.
    give_up_at: Option<Instant>,
    given_up: bool,
    /// Whether an init that is not PID 1 of a namespace has been told to end everything.
    told_to_end: bool,
    /// Whether the caller has ordered the end, and does not want to wait for streams that nobody reads.
    ordered: bool,
    /// A stop that has to wait for a question.
    later: Option<i32>,
}

/// What everything inside is held for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    None,
    /// To be stopped by a signal, and by when that is done without init.
    Stop(i32, Instant),
    Question,
}

impl JobState {
    /// Whether the caller's terminal belongs to a question.
    pub(super) fn is_asking(&self) -> bool {
        self.hold == Hold::Question
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let hold = match self.hold {
            Hold::Stop(_, until) => Some(until),
            Hold::None | Hold::Question => None,
        };
        [hold, self.stop_at, self.end_at, self.give_up_at].into_iter().flatten().min()
    }
}

impl Running {
    /// Takes over what init has handed to the controller.
    pub(super) fn begin_carrying(&mut self, options: &mut WaitOptions) -> io::Result<()> {
        if let (Some(terminal), Some(inner)) = (&mut options.terminal, self.terminal.take()) {
            terminal.begin(inner);
        }
        if let (Some(carried), Some((role, fd))) = (&mut options.carried, self.input.take()) {
            if role == DescriptorRole::InputFile {
                carried.follow(fd);
            } else {
                carried.feed(rustix::io::dup(rustix::stdio::stdin())?, fd, true)?;
            }
        }
        Ok(())
    }

    fn order(&self, order: Order) {
        // An init that is gone is noticed elsewhere.
        let _ = link::order(&self.init.link, order, &[]);
    }

    pub(super) fn carry(&mut self, ready: &Ready, options: &mut WaitOptions) -> io::Result<()> {
        let asking = self.job.is_asking();
        if let Some(carried) = options.carried.as_mut().filter(|_| !asking) {
            carried.carry(&ready.carried);
        }
        if let Some(terminal) = &mut options.terminal
            && terminal.carry(&ready.terminal, asking)
        {
            self.terminal_gone(options);
        }
        if let Some(questions) = &mut options.questions {
            let of_terminal = ready.questions.get(1).copied().unwrap_or(PollFlags::empty());
            let woken = ready.questions.first().is_some_and(|flags| !flags.is_empty());
            if questions.go_on(of_terminal, options.terminal.as_mut()) {
                self.job.hold = Hold::None;
                if let Some(terminal) = &mut options.terminal {
                    terminal.after_question(&questions.take_typed());
                }
                self.order(Order::Release);
            }
            if self.job.hold == Hold::None && !self.inside_gone {
                match self.job.later.take() {
                    Some(signal) => self.stop(signal),
                    None if questions.begin(woken, options.terminal.as_ref()) => {
                        self.job.hold = Hold::Question;
                        self.order(Order::Hold);
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// What a signal to this process means for the inside.
    pub(super) fn take_signal(&mut self, signal: Signal, options: &mut WaitOptions) -> io::Result<()> {
        let terminal = options.terminal.as_mut();
        match signal {
            _ if self.inside_gone => {
                // There is nobody to forward it to: whoever sends it does not want to wait for the rest.
                let ends = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
                self.job.given_up |= ends.contains(&signal);
            }
            // The kernel tells those who have the terminal inside. To others it goes as it came.
            Signal::WINCH if terminal.is_some_and(|terminal| terminal.resize()) => {}
            Signal::TSTP if options.terminal.is_some() => {
                // By itself, if it will: programs that draw the whole screen put it in order first.
                self.signal(Signal::TSTP);
                self.job.stop_at.get_or_insert(Instant::now() + TO_STOP);
            }
            Signal::TSTP => self.stop(libc::SIGTSTP),
            Signal::CONT => {
                let place = options.terminal.as_mut().filter(|_| !self.job.is_asking());
                if let Some(foreground) = place.and_then(|terminal| terminal.continued()) {
                    self.continue_command(foreground, options);
                }
            }
            Signal::HUP if options.terminal.as_ref().is_some_and(|terminal| terminal.is_gone()) => {
                self.terminal_gone(options);
            }
            other => self.signal(other),
        }
        Ok(())
    }

    /// The command has stopped. Without a terminal there is nobody to continue it but whoever stopped it.
    pub(super) fn command_stopped(&mut self, signal: i32, options: &mut WaitOptions) -> io::Result<()> {
        let Some(terminal) = &mut options.terminal else { return Ok(()) };
        self.job.stop_at = None;
        if self.job.is_asking() {
            self.job.later = Some(signal);
            return Ok(());
        }
        match terminal.stopped(signal) {
            Stop::LetIn => self.continue_command(true, options),
            Stop::Job => self.stop(signal),
        }
        Ok(())
    }

    /// Has everything inside stopped, to stop this process when that is done.
    fn stop(&mut self, signal: i32) {
        match self.job.hold {
            Hold::None => {
                self.job.hold = Hold::Stop(signal, Instant::now() + TO_HOLD);
                self.order(Order::Hold);
            }
            Hold::Question => self.job.later = Some(signal),
            Hold::Stop(..) => {}
        }
    }

    /// Init has stopped everything inside.
    pub(super) fn held(&mut self, options: &mut WaitOptions) -> io::Result<()> {
        match self.job.hold {
            Hold::Stop(signal, _) => self.stop_this_process(signal, options),
            Hold::Question => {
                if let Some(questions) = &mut options.questions {
                    questions.held();
                }
            }
            Hold::None => {}
        }
        Ok(())
    }

    /// Stops this process with its job; returns when somebody has continued it.
    fn stop_this_process(&mut self, signal: i32, options: &mut WaitOptions) {
        (self.job.hold, self.job.stop_at) = (Hold::None, None);
        options.ticker.iter_mut().for_each(Ticker::pause);
        if let Some(terminal) = &mut options.terminal {
            terminal.leave();
        }
        let by = if matches!(signal, libc::SIGTTIN | libc::SIGTTOU) { signal } else { libc::SIGTSTP };
        let stopped = signals::stop_this_job(by);
        match &mut options.terminal {
            Some(terminal) => {
                let foreground = terminal.come_back(signal, stopped);
                self.continue_command(foreground, options);
            }
            // A command that had stopped by itself stays so.
            None => self.order(Order::Release),
        }
    }

    fn continue_command(&self, foreground: bool, options: &mut WaitOptions) {
        if let Some(terminal) = &mut options.terminal {
            terminal.continues_command();
        }
        self.order(Order::Continue { foreground });
    }

    /// The caller's terminal has gone, and with it the one inside; unless the caller wants to outlive it (`nohup`).
    fn terminal_gone(&mut self, options: &mut WaitOptions) {
        let outlives = options.signals.as_ref().is_some_and(|signals| !signals.takes(Signal::HUP));
        if let Some(terminal) = &mut options.terminal {
            terminal.hang_up(!outlives);
        }
        if !outlives {
            self.job.end_at.get_or_insert(Instant::now() + TO_END);
        }
    }

    /// The time is up.
    pub(super) fn time_is_up(&mut self) {
        self.timed_out = true;
        self.end_by_init();
    }

    /// Has init end everything inside, because only init can count what it has used. An init that does not do so in a
    /// moment is killed.
    pub(super) fn end_by_init(&mut self) {
        if link::order_now(&self.init.link, Order::End).is_err() {
            self.kill();
        }
        self.job.told_to_end = !self.init.namespaced;
        self.job.end_at = Some(Instant::now() + TO_COUNT);
    }

    /// The caller has ordered the end.
    pub(super) fn end_as_ordered(&mut self) {
        self.job.ordered = true;
        if self.inside_gone {
            self.job.give_up_at.get_or_insert(Instant::now() + TO_TAKE);
        } else {
            self.end_by_init();
        }
    }

    /// Everything inside has ended; what it has written may still be on its way.
    pub(super) fn inside_ended(&mut self, options: &mut WaitOptions) {
        self.inside_gone = true;
        self.busy = None;
        if let Some(streams) = &mut options.streams {
            streams.drain();
        }
        self.job.hold = Hold::None;
        options.questions = None;
        if let Some(terminal) = &mut options.terminal {
            terminal.inside_ended();
        }
        let now = Instant::now();
        self.job.give_up_at = match self.deadline.take() {
            _ if self.timed_out || self.job.ordered => Some(now + TO_TAKE),
            deadline => deadline.map(|deadline| deadline.max(now + TO_TAKE)),
        };
    }

    /// Whether something that was written inside is still to be carried.
    pub(super) fn still_carries(&self, options: &WaitOptions) -> bool {
        let terminal = options.terminal.as_ref().is_some_and(|terminal| terminal.is_busy());
        let carried = options.carried.as_ref().is_some_and(|carried| carried.is_busy());
        (terminal || carried) && !self.job.given_up
    }

    /// Does what is due.
    pub(super) fn mind_times(&mut self, options: &mut WaitOptions) -> io::Result<()> {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if due(self.job.stop_at) {
            self.job.stop_at = None;
            self.stop(libc::SIGTSTP);
        }
        if let Hold::Stop(signal, until) = self.job.hold
            && now >= until
        {
            self.stop_this_process(signal, options);
        }
        if due(self.job.end_at) {
            self.job.end_at = None;
            self.kill();
            if !self.init.namespaced {
                // An init that is only a process may have been stopped from inside, and does not end the rest then. That
                // is left to this process, which inherits it.
                self.job.end_at = Some(now + TO_END);
                if std::mem::replace(&mut self.job.told_to_end, true) {
                    self.signal(Signal::KILL);
                }
            }
        }
        if due(self.job.give_up_at) {
            self.job.given_up = true;
        }
        Ok(())
    }
}
