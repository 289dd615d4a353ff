//! The start of a sandbox, in its phases.

use std::path::PathBuf;
use std::sync::Arc;

use kennel_init::plan::Plan;
use kennel_policy::outcome::Explain;
use kennel_policy::policy::Policy;

use super::late::Ready;
use super::launcher::{Birth, Launcher};
use super::prepared::{Goal, Prepared, Staged, Wanted};
use super::request::{EarlyInit, Request};
use super::session::{Lasting, Session};
use super::streams::{Arranged, Given, nothing_thrice, refuse_folder, refuse_uncounted};
use super::{Error, Network, Show, Started, Watch, ground::Ground, system};
use crate::additions::Additions;
use crate::guard::Rules;
use crate::mounts::MountWatch;
use crate::network::{NetworkPlan, TaggedSockets};
use crate::plan::Caller;
use crate::resolve::created::MissingFolders;
use crate::signals::Signals;
use crate::supervise::WaitOptions;

/// What a sandbox begins with.
pub struct Beginning {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// How PID 1 is made.
    pub birth: Birth,
    /// What it is for.
    pub purpose: Purpose,
    /// The network, where it is filtered.
    pub network: Option<Network>,
    /// Count what is used even if nothing limits it.
    pub count: bool,
    /// Which calls that fail are to be explained.
    pub explain: Explain,
}

/// What a sandbox is begun for.
pub enum Purpose {
    /// A command whose standard streams lead there.
    Command(Given),
    /// Commands that come later, with streams of their own.
    Later,
    /// To be planned: nothing is made.
    Plan,
}

/// A sandbox whose PID 1 is there and makes its network, while this process finds out the rest. Dropping it leaves nothing
/// behind.
pub struct Begun {
    request: Request,
    cwd: PathBuf,
    /// `None` for a plan.
    early: Option<Result<EarlyInit, Error>>,
    launcher: Launcher,
    /// `None` for commands that come later.
    arranged: Option<Arranged>,
    caller: Caller,
    network: NetworkSides,
    signals: Option<Signals>,
    /// The mount table as it was before.
    mounts: Option<MountWatch>,
}

/// A sandbox whose policy has been looked at on this disk.
pub struct Looked {
    prepared: Prepared,
    cwd: PathBuf,
    early: Option<Result<EarlyInit, Error>>,
    launcher: Launcher,
    arranged: Option<Arranged>,
    network: NetworkSides,
    signals: Option<Signals>,
    mounts: Option<MountWatch>,
}

/// Has PID 1 born for a sandbox.
///
/// # Errors
/// When the policy asks for what nothing would enforce, or a stream leads to what would bypass it. What the host refuses, the
/// phases that follow tell.
pub fn begin(beginning: Beginning) -> Result<Begun, Error> {
    let Beginning { policy, cwd, birth, purpose, network, count, explain } = beginning;
    let later = matches!(purpose, Purpose::Later);
    let mounts = later.then(MountWatch::new).transpose().map_err(system("watching the mount table"))?;
    let (mut arranged, planned) = match purpose {
        Purpose::Command(streams) => (Some(Arranged::new(&policy, streams, false)?), false),
        Purpose::Plan => (Some(Arranged::new(&policy, Given::Callers, false)?), true),
        Purpose::Later => (None, false),
    };
    let keep = match later {
        true => Vec::new(),
        false => kept(&policy)?,
    };
    let caller = match &mut arranged {
        Some(arranged) => std::mem::take(&mut arranged.standard.caller),
        None => Caller::without_streams(),
    };
    let (network, inside) = NetworkSides::of(network);
    let launcher = match &mut arranged {
        Some(arranged) => Launcher {
            birth,
            attached: arranged.attached,
            ends: std::mem::take(&mut arranged.standard.ends),
            given: arranged.given.take(),
            session: caller.tty.is_some(),
            keep,
        },
        None => {
            let given = Some(nothing_thrice().map_err(system("opening /dev/null"))?);
            Launcher { birth, attached: false, ends: [const { None }; 3], given, session: false, keep }
        }
    };
    let mut request = Request::new(policy, inside, count)?;
    request.explain(explain);
    if launcher.can_be_a_zygotes() {
        request.borrow_network();
    }
    let (mut signals, mut early) = (None, None);
    if !planned {
        // Before the clone: a signal that comes meanwhile is forwarded once the command runs.
        signals = arranged.as_ref().map(Arranged::take_signals).transpose()?.flatten();
        early = Some(request.launch_early(&request.first_attempt(), &launcher));
    }
    Ok(Begun { request, cwd, early, launcher, arranged, caller, network, signals, mounts })
}

impl Begun {
    /// Looks at the disk. What was found out since PID 1 was born is in no memory of its own.
    ///
    /// # Errors
    /// When the policy does not fit this disk; nothing is left of the sandbox then.
    pub fn look(self, additions: Additions) -> Result<Looked, Error> {
        let Begun { request, cwd, early, launcher, arranged, caller, network, signals, mounts } = self;
        let missing = if early.is_some() { MissingFolders::Create } else { MissingFolders::Plan };
        let prepared = Prepared::new(request, &cwd, caller, missing, additions)?;
        Ok(Looked { prepared, cwd, early, launcher, arranged, network, signals, mounts })
    }
}

impl Looked {
    /// The plan of a command, and what would be guarded.
    ///
    /// # Errors
    /// When the policy cannot be planned.
    pub fn plan(self, wanted: &Wanted) -> Result<(Plan, Rules), Error> {
        Ok((self.prepared.plan(wanted)?, self.prepared.into_guarded()))
    }

    /// Starts a command.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub fn run(mut self, wanted: &Wanted, mut watch: Watch) -> Result<Started, Error> {
        let arranged = self.arranged.take().ok_or_else(begun_otherwise)?;
        let Staged { running, .. } = self.reach(Goal::Command(wanted), watch.show.as_deref_mut())?;
        let options = WaitOptions {
            serves: self.network.serves,
            adopts_orphans: self.launcher.adopts_orphans(),
            signals: self.signals.take(),
            ..WaitOptions::default()
        };
        Ok(arranged.attend(running, watch, options, self.prepared.not_enforced()))
    }

    /// Makes it ready for a command that comes later: as far as to its mounts if it is to be `open`, for jobs that show or
    /// open more than the policy says.
    ///
    /// # Errors
    /// As [`Looked::run`].
    pub fn wait(mut self, open: bool) -> Result<Ready, Error> {
        // Before anything is mounted on it.
        let ground = Ground::of(self.prepared.points());
        let goal = if open { Goal::Halfway } else { Goal::Ready };
        let staged = self.reach(goal, None)?;
        let mounts = self.mounts.ok_or_else(begun_otherwise)?;
        Ok(Ready::new(self.prepared, staged, mounts, self.cwd, ground, self.network.serves, open))
    }

    /// Makes it ready for any number of commands, and what attends to it.
    ///
    /// # Errors
    /// As [`Looked::run`].
    pub fn serve(mut self, lasting: Lasting) -> Result<(Session, Started), Error> {
        let Staged { running, .. } = self.reach(Goal::Session, None)?;
        Session::new(self.prepared, running, self.network.serves, lasting)
    }

    fn reach(&mut self, goal: Goal, show: Option<&mut Show>) -> Result<Staged, Error> {
        let early = self.early.take().ok_or_else(begun_otherwise)?;
        let mut staged = self.prepared.start(early, goal, &self.launcher, show)?;
        let NetworkSides { outside, shared, .. } = &mut self.network;
        let sockets = if staged.running.namespaced() { outside } else { shared };
        staged.running.watch_too(std::mem::take(sockets));
        Ok(staged)
    }
}

fn begun_otherwise() -> Error {
    Error::NotEnforced("a sandbox was begun for something else".into())
}

/// The descriptors that the command is to keep.
fn kept(policy: &Policy) -> Result<Vec<i32>, Error> {
    policy.process.keep_fds.iter().try_for_each(|fd| refuse_folder(*fd))?;
    policy.process.keep_fds.iter().try_for_each(|fd| refuse_uncounted(policy, *fd, false))?;
    Ok(policy.process.keep_fds.iter().filter_map(|fd| i32::try_from(*fd).ok()).collect())
}

/// This side of a network, where it is filtered.
struct NetworkSides {
    outside: TaggedSockets,
    shared: TaggedSockets,
    serves: bool,
}

impl NetworkSides {
    /// The inside with it.
    fn of(network: Option<Network>) -> (NetworkSides, Option<NetworkPlan>) {
        let serves = network.is_some();
        let (plan, outside, shared) = match network {
            Some(network) => (Some(network.plan), network.outside, network.shared),
            None => (None, TaggedSockets::new(), TaggedSockets::new()),
        };
        (NetworkSides { outside, shared, serves }, plan)
    }
}
