//! The part of a run that systems without namespaces share: the streams, the clock, the limits that are watched, the
//! outcome. What differs, a process with all that it starts, is behind [`Process`].
//!
//! There is no `poll` for pipes and processes that works everywhere, so each stream that is carried has a thread
//! ([`streams`]), and [`Portable::turn`] waits for the process alone, until the next thing that the clock says. Killing
//! needs nobody's turn: [`Process::killer`] works from any thread, and the turn sees the process end.

pub(crate) mod streams;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kennel_policy::outcome::{Ended, HandedBack, NetworkUse, Outcome, UsageSink, Violations};
use kennel_policy::policy::Limits;

use super::{Attend, Backend, Native, Signaller};
use crate::network::Published;
use crate::stdio::{Handle, Pipes};
use crate::{NetworkControl, Result, Usage};
use streams::Carried;

/// How long output is waited for when everything that could write it is dead. What is in a pipe then is read at once; only a
/// process that got away from its system's ledger could hold the pipe open longer.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// One command and all that it starts, as a system runs it. It was started before it comes here.
pub(crate) trait Process: fmt::Debug + Send + 'static {
    /// Waits for the command's own process to end, no longer than until `until`; `None` if it goes on.
    ///
    /// # Errors
    /// When the command turns out not to have been started, or the system fails this process.
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<Exit>>;

    /// Kills what the command has left behind, and returns when it is gone. Comes after [`Process::wait`] has returned the
    /// command's end; says what could not be ended, if anything.
    fn end_rest(&mut self) -> Option<String>;

    /// Kills everything, from any thread. It must do nothing once the processes have ended: their numbers may be other
    /// processes' by then.
    fn killer(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Sends a signal to the command's process group, or does what comes nearest. As [`Process::killer`] it does nothing
    /// later than the end but report that.
    fn signaller(&self) -> Signaller;

    /// Tells what is used, from any thread.
    fn meter(&self) -> Arc<dyn Fn() -> Usage + Send + Sync>;

    /// The command's process.
    fn pid(&self) -> u32;

    /// How often [`Process::watch`] has to look, where limits are kept by looking.
    fn watch_every(&self) -> Option<Duration> {
        None
    }

    /// Looks at what is used; how the sandbox has ended, if a limit was exceeded. Everything is killed then.
    fn watch(&mut self) -> Option<Ended> {
        None
    }

    /// Adds what only the system knows: violations, what the gate decided. Comes last.
    fn complete(&mut self, outcome: &mut Outcome) {
        let _ = outcome;
    }

    /// Handle to change the network rules.
    fn network(&self) -> Option<NetworkControl> {
        None
    }

    /// Where the published ports are found.
    fn published(&self) -> &[Published] {
        &[]
    }

    /// Ready to read when [`Process::wait`] would return something, and at the time of the last [`Process::wake_at`].
    #[cfg(unix)]
    fn descriptor(&mut self) -> std::io::Result<std::os::fd::BorrowedFd<'_>>;

    /// Has the descriptor become ready at this time.
    #[cfg(unix)]
    fn wake_at(&mut self, at: Option<Instant>) -> std::io::Result<()>;

    /// Refers to the command's process.
    #[cfg(windows)]
    fn handle(&self) -> std::io::Result<Handle>;
}

/// How the command's own process ended, and what was used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// By itself, or by the kernel where it enforces a limit. What kennel did itself is noted here already.
    pub(crate) ended: Ended,
    pub(crate) cpu_user: Duration,
    pub(crate) cpu_system: Duration,
    /// Bytes.
    pub(crate) peak_memory: u64,
    /// Whether `peak_memory` is of everything together, and not of the largest process.
    pub(crate) memory_counted: bool,
    pub(crate) max_pids_seen: Option<u64>,
    pub(crate) oom_kills: u64,
    pub(crate) pids_refused: u64,
}

/// What a run needs to know beside its process.
pub(crate) struct RunOptions<'p> {
    pub(crate) limits: &'p Limits,
    /// Who is told what is used, and how often.
    pub(crate) audience: Option<(Box<dyn UsageSink>, Duration)>,
    /// What is not enforced; empty unless the policy is content with best effort.
    pub(crate) not_enforced: Vec<String>,
    pub(crate) carried: Carried,
    pub(crate) pipes: Pipes,
}

/// A command that runs on a system without namespaces.
pub(crate) struct Portable<P: Process> {
    process: P,
    kill: Arc<dyn Fn() + Send + Sync>,
    /// Set by whoever kills everything, before.
    killed: Arc<AtomicBool>,
    started: Instant,
    deadline: Option<Instant>,
    /// Why kennel ended it.
    cause: Option<Ended>,
    audience: Option<Ticker>,
    next_watch: Option<Instant>,
    carried: Carried,
    output: [Vec<u8>; 2],
    pipes: Pipes,
    not_enforced: Vec<String>,
    /// Whether [`Process::wait`] has returned the end.
    ended: bool,
    #[cfg(unix)]
    end: EndMark,
}

/// An audience, and when it is told next.
struct Ticker {
    audience: Box<dyn UsageSink>,
    every: Duration,
    next: Instant,
}

impl<P: Process> fmt::Debug for Portable<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Portable").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<P: Process> Portable<P> {
    /// Takes over a command that has just been started.
    pub(crate) fn new(process: P, options: RunOptions) -> Result<Portable<P>> {
        let RunOptions { limits, audience, not_enforced, carried, pipes } = options;
        let started = Instant::now();
        // Neither all the time, nor at a time that no clock knows.
        let year = Duration::from_secs(365 * 24 * 3600);
        let audience = audience.map(|(audience, every)| {
            let every = every.clamp(Duration::from_millis(10), year);
            Ticker { audience, every, next: started + every }
        });
        Ok(Portable {
            kill: process.killer(),
            killed: Arc::default(),
            started,
            deadline: limits.wall_time.map(|limit| started + limit.min(year)),
            cause: None,
            audience,
            next_watch: process.watch_every().map(|every| started + every),
            carried,
            output: Default::default(),
            pipes,
            not_enforced,
            ended: false,
            #[cfg(unix)]
            end: EndMark::new()?,
            process,
        })
    }

    /// The caller's ends of pipes, where they are known only now.
    #[cfg_attr(
        any(target_os = "linux", windows),
        expect(dead_code, reason = "for systems with terminals of their own")
    )]
    pub(crate) fn set_pipes(&mut self, pipes: Pipes) {
        self.pipes = pipes;
    }

    /// When the clock has something to say.
    fn next(&self) -> Option<Instant> {
        let clock = self.deadline.filter(|_| self.cause.is_none());
        let audience = self.audience.as_ref().map(|ticker| ticker.next);
        [clock, audience, self.next_watch].into_iter().flatten().min()
    }

    /// Waits until `until` for something to happen, and does what it asks for.
    fn step(&mut self, until: Option<Instant>) -> Result<Option<Outcome>> {
        if let Some(exit) = self.process.wait(until)? {
            return Ok(Some(self.outcome(exit)));
        }
        let now = Instant::now();
        if self.cause.is_none() && self.deadline.is_some_and(|deadline| now >= deadline) {
            self.end_because(Ended::TimedOut);
        }
        if self.next_watch.is_some_and(|next| now >= next) {
            self.next_watch = self.process.watch_every().map(|every| now + every);
            if let (Some(cause), None) = (self.process.watch(), self.cause) {
                self.end_because(cause);
            }
        }
        if let Some(ticker) = &mut self.audience
            && now >= ticker.next
        {
            ticker.next = now + ticker.every;
            ticker.audience.tell(&self.process.meter()());
        }
        Ok(None)
    }

    fn end_because(&mut self, cause: Ended) {
        self.cause = Some(cause);
        (self.kill)();
    }

    /// Everything that is left of the sandbox ends, and becomes the outcome.
    fn outcome(&mut self, exit: Exit) -> Outcome {
        self.ended = true;
        let left = self.process.end_rest();
        let wall_time = self.started.elapsed();
        let streams::Finished { output, truncated, failure } = self.carried.finish(LAST_OUTPUT);
        self.output = output;
        let cause = self.cause.or(self.killed.load(Ordering::Acquire).then_some(Ended::Killed));
        let mut not_enforced = std::mem::take(&mut self.not_enforced);
        not_enforced.extend(left);
        let mut outcome = Outcome {
            // What had ended by itself when it was killed was not killed.
            ended: match (cause, exit.ended) {
                (Some(_), Ended::Exited(code)) if !exit_is_of_a_kill(code) => exit.ended,
                (Some(cause), _) => cause,
                (None, ended) => ended,
            },
            wall_time,
            cpu_user: exit.cpu_user,
            cpu_system: exit.cpu_system,
            cpu_throttled: None,
            peak_memory: exit.peak_memory,
            memory_counted: exit.memory_counted,
            max_pids_seen: exit.max_pids_seen,
            oom_kills: exit.oom_kills + u64::from(cause == Some(Ended::OutOfMemory)),
            pids_refused: exit.pids_refused,
            output_truncated: truncated,
            violations: Violations::default(),
            denials: Default::default(),
            tried_network: false,
            handed_back: HandedBack::default(),
            not_enforced,
            warnings: Vec::new(),
            network: NetworkUse::default(),
            gateway: Default::default(),
            stream_failure: failure,
        };
        self.process.complete(&mut outcome);
        #[cfg(unix)]
        self.end.mark();
        outcome
    }
}

/// The exit code that Windows gives to processes which kennel terminates. Elsewhere a kill is a signal.
#[cfg(windows)]
pub(crate) const KILLED: i32 = 137;

#[cfg(windows)]
fn exit_is_of_a_kill(code: i32) -> bool {
    code == KILLED
}

#[cfg(not(windows))]
fn exit_is_of_a_kill(_: i32) -> bool {
    false
}

impl<P: Process> Attend for Portable<P> {
    fn turn(&mut self) -> Result<Option<Outcome>> {
        self.step(self.next())
    }

    fn on_ready(&mut self) -> Result<Option<Outcome>> {
        let outcome = self.step(Some(Instant::now()))?;
        #[cfg(unix)]
        if outcome.is_none() {
            let next = self.next();
            self.process.wake_at(next)?;
        }
        Ok(outcome)
    }

    #[cfg(unix)]
    fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>> {
        let next = self.next();
        self.process.wake_at(next)?;
        Ok(self.process.descriptor()?)
    }

    fn end_by(&mut self, end: Handle) {
        let (killed, kill) = (Arc::clone(&self.killed), Arc::clone(&self.kill));
        let wait = move || {
            Native::block_signals();
            // Nothing is ever sent: it returns when the bell is rung or given up.
            let _ = std::io::Read::read(&mut std::fs::File::from(end), &mut [0]);
            killed.store(true, Ordering::Release);
            kill();
        };
        if std::thread::Builder::new().name("kennel-end".into()).spawn(wait).is_err() {
            // Nobody could end it later.
            self.kill();
        }
    }

    #[cfg(unix)]
    fn process(&self) -> Result<Handle> {
        Ok(self.end.watcher()?)
    }

    #[cfg(windows)]
    fn process(&self) -> Result<Handle> {
        Ok(self.process.handle()?)
    }

    fn signaller(&self) -> Result<Signaller> {
        Ok(self.process.signaller())
    }

    fn init_pid(&self) -> u32 {
        self.process.pid()
    }

    fn kill(&mut self) {
        self.killed.store(true, Ordering::Release);
        (self.kill)();
    }

    fn killer(&self) -> Option<Handle> {
        None
    }

    fn meter(&self) -> Box<dyn Fn() -> Usage + Send + Sync> {
        let meter = self.process.meter();
        Box::new(move || meter())
    }

    fn network(&self) -> Option<NetworkControl> {
        self.process.network()
    }

    fn published(&self) -> &[Published] {
        self.process.published()
    }

    fn take_pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    fn take_output(&mut self) -> [Vec<u8>; 2] {
        std::mem::take(&mut self.output)
    }
}

/// Dropping kills everything and waits until nothing is left.
impl<P: Process> Drop for Portable<P> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        (self.kill)();
        // An error says that there is no process to wait for.
        while let Ok(None) = self.process.wait(None) {}
        let _ = self.process.end_rest();
        #[cfg(unix)]
        self.end.mark();
    }
}

/// Becomes ready to read, for everybody who has a descriptor of it, when everything has ended.
#[cfg(unix)]
#[derive(Debug)]
struct EndMark {
    ours: std::os::unix::net::UnixStream,
    watched: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl EndMark {
    fn new() -> std::io::Result<EndMark> {
        let (ours, watched) = std::os::unix::net::UnixStream::pair()?;
        Ok(EndMark { ours, watched })
    }

    fn watcher(&self) -> std::io::Result<Handle> {
        Ok(self.watched.try_clone()?.into())
    }

    /// Not by closing it: where the program has forked, a copy stays open.
    fn mark(&self) {
        let _ = self.ours.shutdown(std::net::Shutdown::Both);
    }
}
