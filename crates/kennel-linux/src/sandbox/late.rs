//! A sandbox that is prepared before its command is known, and the command that is started in it later.
//!
//! Preparing does everything but what belongs to the command: namespaces, mounts, network, cgroup, Landlock, capabilities,
//! filter and guard. The streams, the working directory, the arguments and the variables come late, in a further part of the
//! plan. PID 1 is born with /dev/null as its standard streams and none of the caller's descriptors, and gets the command's over
//! the link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_init::child::sys::MAX_FDS;
use kennel_init::plan::{Plan, Planned};
use kennel_policy::policy::{FilePolicy, Policy, UnixSockets};

use super::ground::Ground;
use super::prepared::{Prepared, Staged, Wanted};
use super::streams::{Arranged, Given, refuse_folder, refuse_uncounted};
use super::{Error, Started, Watch, system};
use crate::cgroup::Cgroup;
use crate::link;
use crate::mounts::MountWatch;
use crate::plan::late::{late_part, left_of_job};
use crate::plan::{Caller, PlanError};
use crate::resolve::created::MissingFolders;
use crate::resolve::{Found, Location, Resolved, locate, resolve};
use crate::supervise::{Running, WaitOptions};
use crate::sys::files::numbered;

/// A sandbox that is ready for its command. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Ready {
    pub(super) prepared: Prepared,
    pub(super) running: Running,
    plan: Plan,
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
    /// What the caller wants to know meanwhile.
    pub watch: Watch,
    /// Tell the outcome as soon as init has reported it ([`WaitOptions::at_report`]).
    pub at_report: bool,
    /// Do not wait until the command runs: a turn tells if it does not ([`Turn::NotStarted`](crate::supervise::Turn)).
    pub silently: bool,
}

impl Ready {
    /// A sandbox that was brought so far, in a working directory, on ground that looked so before. If it is `open`, its mounts
    /// can still become more.
    pub(super) fn new(
        prepared: Prepared,
        staged: Staged,
        mounts: MountWatch,
        cwd: PathBuf,
        ground: Ground,
        serves: bool,
        open: bool,
    ) -> Ready {
        let Staged { running, plan, born_in_network, cgroup } = staged;
        let start = located(prepared.policy().process.workdir.as_deref().unwrap_or(&cwd));
        let halfway = open.then_some(cgroup);
        Ready { prepared, running, plan, serves, mounts, cwd, start, ground, born_in_network, halfway }
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
        let now = resolve(policy, cwd, MissingFolders::Create, self.prepared.layers())?;
        let same = self.prepared.resolved_as(&now) && self.ground == Ground::of(&now.points);
        Ok(same.then_some(Fit { workdir: now.workdir, rest: None }))
    }

    fn fit_halfway(&self, policy: &Policy, cwd: &Path) -> Result<Option<Fit>, Error> {
        let now = resolve(policy, cwd, MissingFolders::Create, self.prepared.layers())?;
        let opened = !self.plan.opening.is_empty();
        let job = self.prepared.set_up_of(policy, &now, (opened, self.born_in_network))?;
        let left = left_of_job(&self.plan.steps, &job);
        let same = self.ground == Ground::of(self.prepared.points());
        Ok(left.filter(|_| same).map(|left| Fit { workdir: None, rest: Some((now, left)) }))
    }

    /// Starts a command in it.
    ///
    /// # Errors
    /// When a late step fails or the command cannot be executed; nothing is left of the sandbox then.
    pub fn start(self, fit: Fit, late: Late) -> Result<Started, Error> {
        let Ready { mut prepared, mut running, mut plan, serves, halfway, .. } = self;
        let Late { policy, wanted, workdir, streams, mut watch, at_report, silently } = late;
        let workdir = workdir.or(fit.workdir);
        let finishes = fit.rest.is_some();
        let left = match fit.rest {
            Some((resolved, left)) => {
                prepared.become_that_of(Arc::clone(&policy), resolved);
                left
            }
            None => Vec::new(),
        };
        let arranged = LateStreams::new(&policy, streams)?;
        plan.command = prepared.command(&wanted, &policy, &arranged.caller)?;
        plan.command.starts_silently = silently;
        let steps = arranged.late_part(left, workdir.as_deref())?;
        let before = plan.steps.len();
        plan.steps.extend(steps);
        let steps = &plan.steps[before..];
        if finishes {
            let send = |running: &Running| running.set_up_late(steps);
            let cgroup = halfway.flatten();
            if let Err(error) = prepared.get_going(&mut running, steps, cgroup, send) {
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
        Ok(arranged.streams.attend(running, watch, options, prepared.not_enforced()))
    }
}

/// Whether nothing in a policy is about files of the host's: then only the mount table, and where the command starts, can look
/// different. The kernel's own files of which a sandbox shows copies (how many processors there are) count as fixed.
fn names_no_files(policy: &Policy) -> bool {
    policy.files == FilePolicy::default()
        && !policy.network.mode.is_gated()
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
            refuse_uncounted(policy, *number, false)?;
            if caller.arranges(*number) {
                continue;
            }
            let kept = numbered(number.cast_signed()).ok_or(rustix::io::Errno::BADF.into());
            let kept = kept.and_then(|kept| kept.try_clone_to_owned());
            sent.push((*number, kept.map_err(system("copying a kept descriptor"))?));
        }
        // PID 1 has the sandbox's own /dev/null there already.
        caller.devices.retain(|(name, _)| *name != "null");
        Ok(LateStreams { streams, caller, sent })
    }

    /// All steps that come late, after what is left of the set-up.
    pub(super) fn late_part(
        &self,
        left: Vec<Planned>,
        workdir: Option<&Path>,
    ) -> Result<Vec<Planned>, PlanError> {
        let numbers: Vec<u32> = self.sent.iter().map(|(number, _)| *number).collect();
        late_part(left, &numbers, &self.caller, workdir)
    }

    /// Sends the descriptors that the late part takes, in the same order.
    pub(super) fn send(&self, link: &OwnedFd) {
        for some in self.sent.chunks(MAX_FDS) {
            let fds: Vec<_> = some.iter().map(|(_, fd)| fd.as_fd()).collect();
            // An init that is gone is noticed where its report is waited for.
            let _ = link::send_descriptors(link, &fds);
        }
    }
}

impl Caller {
    /// What a sandbox is prepared with: its own /dev/null in the place of all three streams.
    pub(super) fn without_streams() -> Caller {
        Caller { devices: vec![("null", vec![0, 1, 2])], ..Caller::default() }
    }

    /// Whether something of the sandbox's own takes the place of this descriptor.
    fn arranges(&self, number: u32) -> bool {
        let terminal = self.tty.iter().flat_map(|tty| &tty.streams);
        let devices = self.devices.iter().flat_map(|(_, streams)| streams);
        terminal.chain(devices).any(|own| *own == number)
    }
}
