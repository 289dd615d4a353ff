//! A sandbox that is prepared before its command is known, and the command that is started in it later.
//!
//! Preparing does everything but what belongs to the command: namespaces, mounts, network, cgroup, Landlock, capabilities,
//! filter and guard. The streams, the working directory, the arguments and the variables come late, in a further part of the
//! plan. PID 1 is born with /dev/null as its standard streams and none of the caller's descriptors, and gets the command's over
//! the link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_init::child::sys::MOST_FDS;
use kennel_init::plan::{Plan, Planned, Step};
use kennel_policy::policy::{FilePolicy, NetworkMode, Policy, UnixSockets};

use super::ground::Ground;
use super::{
    Arranged, Birth, Error, FindAdditions, Given, Goal, Launcher, Network, NetworkSides, Prepared, Request,
    Staged, Started, Wanted, Watch, additions, around, nothing_thrice, refuse_folder, system,
};
use crate::cgroup::Cgroup;
use crate::link;
use crate::mounts::MountWatch;
use crate::plan::late::{can_be_bound, steps_left};
use crate::plan::{Caller, PlanError, Tier, late_streams, working_directory};
use crate::resolve::created::MissingFolders;
use crate::resolve::{Found, Location, Resolved, locate, resolve};
use crate::supervise::{Running, WaitOptions};

/// A sandbox to be prepared, with all that this takes.
pub struct Preparation<'a> {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// How PID 1 is made.
    pub birth: Birth,
    /// The network, where it is filtered.
    pub network: Option<Network>,
    /// What it gets in the place of secrets.
    pub additions: Option<FindAdditions<'a>>,
    /// Count what is used even if nothing limits it.
    pub count: bool,
}

/// A sandbox that is ready for its command. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Ready {
    pub(super) prepared: Prepared,
    pub(super) running: Running,
    plan: Plan,
    pub(super) tier: Tier,
    pub(super) serves: bool,
    mounts: MountWatch,
    cwd: PathBuf,
    /// What was found where a command starts.
    start: Option<Found>,
    ground: Ground,
    born_in_network: bool,
    /// Where its mounts can still become more: the cgroup that it is to enter.
    halfway: Option<Option<(Cgroup, bool)>>,
}

/// How a job fits a sandbox that is ready. Without a look at the disk, the command starts where the sandbox would start one.
#[derive(Debug, Default)]
pub struct Fit {
    /// Where its command starts.
    workdir: Option<PathBuf>,
    /// What is left to do, in a sandbox whose mounts can still become more.
    rest: Option<(Resolved, Vec<Planned>)>,
}

/// A command, and what comes with it when it is started in a sandbox that is ready.
pub struct Late {
    /// The sandbox's policy, or a copy that says otherwise about variables, time, output and kept descriptors. What else it says
    /// is not looked at.
    pub policy: Arc<Policy>,
    /// What is to run.
    pub wanted: Wanted,
    /// Where it starts, inside; where the sandbox would start one unless said.
    pub workdir: Option<PathBuf>,
    /// Where the standard streams lead.
    pub streams: Given,
    /// Steps to be performed before those of the streams.
    pub first: Vec<Planned>,
    /// Steps to be performed after all others.
    pub last: Vec<Planned>,
    /// What the caller wants to know meanwhile.
    pub watch: Watch,
    /// Tell the outcome as soon as init has reported it ([`WaitOptions::at_report`]).
    pub at_report: bool,
    /// Do not wait until the command runs: a turn tells if it does not ([`Turn::NotStarted`](crate::supervise::Turn)).
    pub silently: bool,
}

impl Ready {
    /// Prepares a sandbox.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub fn prepare(preparation: Preparation) -> Result<Ready, Error> {
        Ready::prepare_for(preparation, Goal::Ready)
    }

    /// Prepares a sandbox as far as to its mounts, for jobs that show or open more than the policy says.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub fn prepare_halfway(preparation: Preparation) -> Result<Ready, Error> {
        Ready::prepare_for(preparation, Goal::Halfway)
    }

    pub(super) fn prepare_for(preparation: Preparation, goal: Goal) -> Result<Ready, Error> {
        let Preparation { policy, cwd, birth, network, additions: find, count } = preparation;
        let mounts = MountWatch::new().map_err(system("watching the mount table"))?;
        let network = NetworkSides::of(network);
        let mut request = Request::new(policy, network.plan, count)?;
        request.borrow_network();
        let nothing = nothing_thrice().map_err(system("opening /dev/null"))?;
        let around = around(Some(&nothing), &[const { None }; 3], false);
        let launcher = Launcher { birth: &birth, around, attached: false, keep: &[] };
        let early = request.launch_early(Tier::Full, &mut |how| launcher.launch(how));
        let (caller, additions) = (Caller::without_streams(), additions(find)?);
        let mut prepared = Prepared::new(request, &cwd, caller, MissingFolders::Create, additions)?;
        // Before anything is mounted on it.
        let ground = Ground::of(prepared.points());
        let Staged { mut running, plan, tier, born_in_network, cgroup } =
            prepared.start(early, goal, |how| launcher.launch(how), None)?;
        running.watch_too(if running.namespaced() { network.outside } else { network.shared });
        let halfway = matches!(goal, Goal::Halfway).then_some(cgroup);
        let start = located(prepared.policy().process.workdir.as_deref().unwrap_or(&cwd));
        Ok(Ready {
            prepared,
            running,
            plan,
            tier,
            serves: network.serves,
            mounts,
            cwd,
            start,
            ground,
            born_in_network,
            halfway,
        })
    }

    /// The policy that it was prepared for.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        self.prepared.policy()
    }

    /// PID 1's pid in this process's namespace.
    #[must_use]
    pub fn init_pid(&self) -> i32 {
        self.running.init_pid()
    }

    /// Looks at the disk again for a caller in `cwd`. `None` if what this was prepared for is not as it was, or PID 1 has ended.
    /// `policy` is that of the sandbox, or a copy that says otherwise about the command; where its mounts can still become more,
    /// one that also shows or opens more.
    ///
    /// # Errors
    /// When the policy does not fit the disk any more.
    pub fn fit(&self, policy: &Policy, cwd: &Path) -> Result<Option<Fit>, Error> {
        if self.mounts.has_changed() || self.running.has_ended() {
            return Ok(None);
        }
        if self.halfway.is_some() {
            return self.fit_halfway(policy, cwd);
        }
        let (then, place) = (self.prepared.policy(), policy.process.workdir.as_deref().unwrap_or(cwd));
        if names_no_files(policy)
            && policy.process.workdir == then.process.workdir
            && (self.cwd == cwd || policy.process.workdir.is_some())
            && self.start.is_some()
            && self.start == located(place)
        {
            return Ok(Some(Fit { workdir: self.prepared.workdir(), rest: None }));
        }
        let now = resolve(policy, cwd, MissingFolders::Create)?;
        let same = self.prepared.resolved_as(&now) && self.ground == Ground::of(&now.points);
        Ok(same.then_some(Fit { workdir: now.workdir, rest: None }))
    }

    fn fit_halfway(&self, policy: &Policy, cwd: &Path) -> Result<Option<Fit>, Error> {
        let now = resolve(policy, cwd, MissingFolders::Create)?;
        let opened = !self.plan.opening.is_empty();
        let job = self.prepared.set_up_of(policy, &now, (opened, self.born_in_network), self.tier)?;
        let held = |planned: &&Planned| matches!(planned.step, Step::HoldHost { .. });
        let own = |planned: &&Planned| {
            !matches!(planned.step, Step::HoldHost { .. } | Step::EnterNetwork | Step::Later)
        };
        let done: Vec<Planned> = self.plan.steps.iter().filter(own).cloned().collect();
        let held: Vec<Planned> = self.plan.steps.iter().filter(held).cloned().collect();
        let anew = done.iter().any(|planned| matches!(planned.step, Step::TmpfsRoot { .. }));
        let left = steps_left(&done, &job).filter(|left| can_be_bound(left, &held, anew));
        let same = self.ground == Ground::of(self.prepared.points());
        Ok(left.filter(|_| same).map(|left| Fit { workdir: None, rest: Some((now, left)) }))
    }

    /// Starts a command in it.
    ///
    /// # Errors
    /// When a late step fails or the command cannot be executed; nothing is left of the sandbox then.
    pub fn start(self, fit: Fit, late: Late) -> Result<Started, Error> {
        let Ready { mut prepared, mut running, mut plan, tier, serves, halfway, .. } = self;
        let Late { policy, wanted, workdir, streams, mut first, last, mut watch, at_report, silently } = late;
        let workdir = workdir.or(fit.workdir);
        let finishes = fit.rest.is_some();
        if let Some((resolved, left)) = fit.rest {
            prepared.become_that_of(Arc::clone(&policy), resolved);
            first.extend(left);
        }
        let arranged = LateStreams::new(&policy, streams)?;
        plan.command = prepared.command(tier, &wanted, &policy, &arranged.caller)?;
        plan.command.starts_silently = silently;
        let steps = arranged.late_part(first, workdir.as_deref(), last)?;
        let before = plan.steps.len();
        plan.steps.extend(steps);
        let steps = &plan.steps[before..];
        if finishes {
            let send = |running: &Running| running.set_up_late(steps);
            let cgroup = halfway.flatten();
            if let Err(error) = prepared.get_going(tier, &mut running, steps, cgroup, send) {
                return Err(running.told_failure(&plan).map_or(error, Error::Start));
            }
        } else {
            running.set_up_late(steps);
        }
        arranged.send(running.link());
        if let Some(show) = watch.show.as_deref_mut() {
            show(&plan, prepared.guarded());
        }
        let signals = arranged.streams.take_signals()?;
        running.command(&plan.command, &policy.limits);
        match silently {
            true => running.leave_to_start(plan),
            false => running.await_start(&plan)?,
        }
        let options = WaitOptions { serves, signals, at_report, ..WaitOptions::default() };
        Ok(arranged.streams.attend(running, watch, options, prepared.not_enforced(tier)))
    }
}

/// Whether nothing in a policy is about files of the host's: then only the mount table, and where the command starts, can look
/// different. The kernel's own files of which a sandbox shows copies (how many processors there are) count as fixed.
fn names_no_files(policy: &Policy) -> bool {
    policy.files == FilePolicy::default()
        && policy.network.mode != NetworkMode::AllowList
        && policy.network.unix_sockets != UnixSockets::Listed
        && policy.secret_files().is_empty()
        && policy.masked_files().is_empty()
}

fn located(path: &Path) -> Option<Found> {
    match locate(path) {
        Ok(Location::Found(found)) => Some(found),
        _ => None,
    }
}

/// Ready to read when PID 1 has ended before its time.
impl AsFd for Ready {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.running.pidfd()
    }
}

/// The streams of a command that comes late, and how they get inside.
pub(super) struct LateStreams {
    pub(super) streams: Arranged,
    pub(super) caller: Caller,
    /// What is sent over the link, and which numbers it gets.
    sent: Vec<(u32, OwnedFd)>,
}

impl LateStreams {
    /// # Errors
    /// When one of them would lead past the rules, or the system has no descriptors left.
    pub(super) fn new(policy: &Policy, streams: Given) -> Result<LateStreams, Error> {
        let mut streams = Arranged::new(policy, streams, true)?;
        let mut caller = std::mem::take(&mut streams.standard.caller);
        let ends = std::mem::take(&mut streams.standard.ends);
        let given = match streams.given.take() {
            Some(given) => given.map(Some),
            None => [const { None }; 3],
        };
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let mut sent = Vec::new();
        for (number, ((end, given), own)) in (0..).zip(ends.into_iter().zip(given).zip(own)) {
            if caller.arranges(number) {
                continue;
            }
            let fd = match end.or(given) {
                Some(fd) => fd,
                None => own.try_clone_to_owned().map_err(system("copying a standard stream"))?,
            };
            sent.push((number, fd));
        }
        for number in &policy.process.keep_fds {
            refuse_folder(*number)?;
            if caller.arranges(*number) {
                continue;
            }
            // SAFETY: it was found open right before; a number that is not any more makes the call fail.
            let kept = unsafe { BorrowedFd::borrow_raw(number.cast_signed()) };
            sent.push((*number, kept.try_clone_to_owned().map_err(system("copying a kept descriptor"))?));
        }
        // PID 1 has the sandbox's own /dev/null there already.
        caller.devices.retain(|(name, _)| *name != "null");
        Ok(LateStreams { streams, caller, sent })
    }

    /// All steps that come late, in their order.
    pub(super) fn late_part(
        &self,
        first: Vec<Planned>,
        workdir: Option<&Path>,
        last: Vec<Planned>,
    ) -> Result<Vec<Planned>, PlanError> {
        let mut steps = first;
        steps.extend(self.steps());
        if let Some(path) = workdir {
            steps.push(working_directory(path)?);
        }
        steps.extend(last);
        Ok(steps)
    }

    /// The steps that put them where they belong.
    fn steps(&self) -> Vec<Planned> {
        let mut steps: Vec<Planned> = Vec::new();
        for some in self.sent.chunks(MOST_FDS) {
            let numbers = some.iter().map(|(number, _)| *number).collect();
            let reason = "the command's streams, and the descriptors that it keeps".to_owned();
            steps.push(Planned { step: Step::TakeDescriptors { numbers }, reason });
        }
        steps.extend(late_streams(&self.caller));
        steps
    }

    /// Sends what [`LateStreams::steps`] take, in the same order.
    pub(super) fn send(&self, link: &OwnedFd) {
        for some in self.sent.chunks(MOST_FDS) {
            let fds: Vec<_> = some.iter().map(|(_, fd)| fd.as_fd()).collect();
            // An init that is gone is noticed where its report is waited for.
            let _ = link::send_descriptors(link, &fds);
        }
    }
}

impl Caller {
    /// What a sandbox is prepared with: its own /dev/null in the place of all three streams.
    fn without_streams() -> Caller {
        Caller { devices: vec![("null", vec![0, 1, 2])], ..Caller::default() }
    }

    /// Whether something of the sandbox's own takes the place of this descriptor.
    fn arranges(&self, number: u32) -> bool {
        let terminal = self.tty.iter().flat_map(|tty| &tty.streams);
        let devices = self.devices.iter().flat_map(|(_, streams)| streams);
        terminal.chain(devices).any(|own| *own == number)
    }
}
