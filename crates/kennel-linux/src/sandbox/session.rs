//! A sandbox in which any number of commands run, one after the other and at the same time.
//!
//! PID 1 starts a leader for each command (`kennel-init/src/child/session.rs`), and to this process a leader is an init: it has a
//! link of its own, takes a late part and a command, and reports. So a command of a session is supervised like a sandbox.
//! Everything that is said to it is on its way before its leader exists, and nothing is waited for but the word that it runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use kennel_init::encode::encode_late;
use kennel_init::plan::Plan;
use kennel_init::report::Order;

use super::late::{Late, LateStreams};
use super::prepared::Prepared;
use super::{Error, Started, system};
use crate::launch;
use crate::link;
use crate::plan::cpu_limit;
use crate::supervise::idle::{Activity, Idle};
use crate::supervise::{Running, StartError, Supervisor, WaitOptions};

/// The most that is sent before anybody is there to read it.
const FITS: usize = 64 << 10;

/// How long a session lasts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lasting {
    /// At most so long.
    pub timeout: Option<Duration>,
    /// Until no command has run for so long.
    pub idle: Option<Duration>,
}

/// A session, for those who start commands in it, from any thread. What attends to its sandbox is its [`Supervisor`]; when that
/// ends it, no command starts any more.
#[derive(Debug)]
pub struct Session {
    prepared: Prepared,
    link: OwnedFd,
    /// How much a socket holds before somebody reads.
    room: usize,
    activity: Activity,
}

impl Session {
    /// A session in a sandbox that is ready for commands, and what attends to it.
    pub(super) fn new(
        prepared: Prepared,
        mut running: Running,
        serves: bool,
        lasting: Lasting,
    ) -> Result<(Session, Started), Error> {
        let link = running.link().try_clone().map_err(system("copying the link of a session"))?;
        running.lasts(lasting.timeout);
        let activity = Activity::new();
        let idle = lasting.idle.map(|limit| Idle::new(activity.clone(), limit));
        let options = WaitOptions { serves, idle, ..WaitOptions::default() };
        let mut not_enforced = prepared.not_enforced();
        not_enforced.extend(prepared.not_enforced_in_session());
        let supervisor = Supervisor::new(running, options);
        let room = rustix::net::sockopt::socket_send_buffer_size(&link).unwrap_or(0);
        let session = Session { prepared, link, room, activity };
        Ok((session, Started { supervisor, not_enforced, terminal: None }))
    }

    /// Starts a command. Its outcome comes with its leader's report, and what it leaves in the background goes on until the
    /// session ends; dropping what attends to it ends all that it started.
    ///
    /// # Errors
    /// When a late step fails, the command cannot be executed, or the session has ended.
    pub fn command(&self, late: Late) -> Result<Started, Error> {
        let Late { policy, wanted, workdir, streams, watch, .. } = late;
        let busy = self.activity.begin();
        let arranged = LateStreams::new(&policy, streams)?;
        let command = self.prepared.command(&wanted, &policy, &arranged.caller)?;
        let steps = arranged.late_part(cpu_limit(&policy).into_iter().collect(), workdir.as_deref())?;
        let plan = Plan { opening: Vec::new(), steps, command };
        let (ours, theirs) = launch::link().map_err(system("making a link for a command"))?;
        let started = Instant::now();
        let parts = [encode_late(&plan.steps), plan.command.encode()];
        // What does not fit waits until the leader reads. The kernel counts what it needs for itself too, and some hosts
        // give sockets little room.
        let length = parts.iter().map(Vec::len).sum::<usize>();
        let fits = length < FITS && self.room > 2 * length + (8 << 10);
        let send = || {
            let _ = link::send_part(&ours, &parts[0]);
            arranged.send(&ours);
            let _ = link::send_part(&ours, &parts[1]);
        };
        if fits {
            send();
        }
        link::order(&self.link, Order::Command, &[theirs.as_fd()]).map_err(ended)?;
        drop(theirs);
        if !fits {
            send();
        }
        let running = Running::of_leader(ours, &plan, started, &policy.limits, busy)?;
        let signals = arranged.streams.take_signals()?;
        let options = WaitOptions { signals, at_report: true, ..WaitOptions::default() };
        Ok(arranged.streams.attend(running, watch, options, Vec::new()))
    }
}

/// An order that does not arrive finds no PID 1.
fn ended(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
            Error::Start(StartError::SessionEnded)
        }
        _ => system("ordering a command")(error),
    }
}
