//! The main line: from a policy to a running sandbox, on whichever tier this host gives.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

pub use kennel_init::child::Inherited as Memory;
use kennel_init::plan::Plan;
use kennel_policy::policy::{NetworkMode, Policy};

use crate::cgroup::{Cgroup, CgroupError, Controller, ControllerSet};
use crate::guard::Rules;
use crate::host;
use crate::landlock::Abi;
use crate::launch::{self, IdMaps, Init, Launch, LaunchError};
use crate::limits;
use crate::network::{Doors, NetworkPlan};
use crate::outcome::Outcome;
use crate::plan::{Caller, PlanError, Tier, plan};
use crate::resolve::{ResolveError, Resolved, resolve};
use crate::supervise::signals::Signals;
use crate::supervise::streams::Streams;
use crate::supervise::ticker::Ticker;
use crate::supervise::{Attended, Refused, Running, StartError, terminal};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy asks for what kennel cannot enforce yet.
    #[error("{0}")]
    NotEnforced(String),
    /// The policy does not fit this disk.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The policy cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host denies namespaces.
    #[error("{error}: {why}\nhelp: {remedy}\nhelp: `kennel doctor` shows what this host offers")]
    Denied {
        /// What the system said.
        error: String,
        /// Why, probably.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// A limit cannot be enforced.
    #[error("{}\nhelp: {}", .0, .0.help())]
    Cgroup(#[from] CgroupError),
    /// PID 1 could not be made.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// PID 1 could not set the sandbox up, or not start the command.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The network could not be arranged.
    #[error("{0}")]
    Network(String),
    /// The system failed this process.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// A policy that has been looked at on this disk, ready to be planned for any tier.
#[derive(Debug)]
pub struct Prepared<'a> {
    policy: &'a Policy,
    resolved: Resolved,
    command: &'a [OsString],
    variables: Vec<(OsString, OsString)>,
    caller: Caller,
    abi: Abi,
    ids: IdMaps,
    counting: Counting,
    /// Whether to count what is used even if nothing limits it.
    count: bool,
    network: Option<&'a NetworkPlan>,
}

/// How the limits on the whole sandbox are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counting {
    /// There are none.
    None,
    /// By a cgroup.
    Cgroup,
    /// There are none, but a cgroup is to count, if one can be had.
    ForStats,
    /// With best effort, by limits on each process, because these controllers are missing.
    StandIns(ControllerSet),
}

impl Counting {
    fn counted(&self) -> bool {
        matches!(self, Counting::Cgroup | Counting::ForStats)
    }
}

impl<'a> Prepared<'a> {
    /// Resolves `policy` for a caller in `cwd` with the environment `inherited`.
    ///
    /// # Errors
    /// When the policy does not fit this disk, or asks for what cannot be enforced.
    pub fn new<'e>(
        policy: &'a Policy,
        command: &'a [OsString],
        cwd: &Path,
        inherited: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        caller: Caller,
        network: Option<&'a NetworkPlan>,
    ) -> Result<Prepared<'a>, Error> {
        enforceable(policy, network)?;
        for fd in &policy.process.keep_fds {
            refuse_folder(*fd)?;
        }
        let counting = if limits::need_cgroup(&policy.limits) { Counting::Cgroup } else { Counting::None };
        let resolved = resolve(policy, cwd)?;
        let added = network.map_or(&[][..], |network| &network.variables);
        let variables = crate::plan::environment(policy, inherited, added);
        let ids = IdMaps::of_caller(policy.process.user);
        Ok(Prepared {
            policy,
            resolved,
            command,
            variables,
            caller,
            abi: Abi::of_this_kernel(),
            ids,
            counting,
            count: false,
            network,
        })
    }

    /// Has a cgroup count what is used even if nothing limits it, where one can be had without further ado.
    pub fn count(&mut self) {
        self.count = true;
        if self.counting == Counting::None {
            self.counting = Counting::ForStats;
        }
    }

    /// The plan for a tier.
    ///
    /// # Errors
    /// When the tier cannot express the policy.
    pub fn plan(&self, tier: Tier) -> Result<Plan, PlanError> {
        let Prepared { policy, resolved, caller, command, variables, abi, .. } = self;
        let rlimits = self.stand_ins(tier).0;
        plan(
            policy,
            resolved,
            caller,
            command,
            variables,
            *abi,
            tier,
            self.counting.counted(),
            &rlimits,
            self.network,
        )
    }

    /// What the controller guards while the sandbox runs.
    #[must_use]
    pub fn guarded(&self) -> &Rules {
        &self.resolved.guard
    }

    fn stand_ins(&self, tier: Tier) -> (Vec<(u32, u64)>, Vec<String>) {
        match self.counting {
            Counting::StandIns(missing) => {
                limits::stand_ins(&self.policy.limits, missing, tier != Tier::LandlockOnly)
            }
            _ => Default::default(),
        }
    }

    /// Starts it on the best tier that this host gives: the full one, or with best effort the next.
    /// `launch` makes PID 1. Returns what is not enforced.
    fn start(
        &mut self,
        mut launch: impl FnMut(&Launch) -> Result<Init, LaunchError>,
    ) -> Result<(Running, Vec<String>), Error> {
        let mut tier = Tier::Full;
        loop {
            let error = match self.start_on(tier, &mut launch) {
                Ok(running) => return Ok((running, self.not_enforced(tier))),
                Err(error) => error,
            };
            if let (Error::Cgroup(lack), true, Counting::Cgroup) =
                (&error, self.policy.best_effort, &self.counting)
            {
                let missing = lack.missing();
                let all = Controller::LIMITING.into_iter().collect();
                self.counting = Counting::StandIns(if missing.is_empty() { all } else { missing });
                continue;
            }
            let refused = match &error {
                Error::Start(StartError::Step { refused, .. }) => *refused,
                _ => None,
            };
            if let (Some(Refused::Netlink), Some(fallback)) =
                (refused, self.network.and_then(|network| network.fallback.as_deref()))
            {
                self.network = Some(fallback);
                continue;
            }
            tier = match (tier, &error) {
                (Tier::Full, _) if refused == Some(Refused::Proc) => Tier::HostProc,
                (Tier::Full | Tier::HostProc, error) if namespaces_denied(error) => Tier::LandlockOnly,
                _ => return Err(error),
            };
            if !self.policy.best_effort {
                return Err(explain(&error));
            }
            if tier == Tier::LandlockOnly {
                self.share_the_hosts_network();
            }
        }
    }

    /// The proxy of an allow list is then found on the host's loopback.
    fn share_the_hosts_network(&mut self) {
        let Some(unconfined) = self.network.and_then(|network| network.unconfined.as_ref()) else { return };
        for (name, value) in &unconfined.variables {
            let said = self.policy.environment.set.iter().any(|(own, _)| own == name);
            if let Some((_, own)) = self.variables.iter_mut().find(|(own, _)| own == name)
                && !said
            {
                own.clone_from(value);
            }
        }
    }

    fn start_on(
        &self,
        tier: Tier,
        launch: &mut impl FnMut(&Launch) -> Result<Init, LaunchError>,
    ) -> Result<Running, Error> {
        let plan = self.plan(tier)?;
        let encoded = plan.encode();
        let started = Instant::now();
        let namespaces = launch::namespaces(tier);
        let limits = &self.policy.limits;
        let counted = self.counting.counted();
        // On a unified host PID 1 is born in its cgroup; elsewhere the cgroup is made while PID 1 sets up.
        let early = limits::born_in_cgroup();
        let before = if early { self.cgroup()? } else { None };
        let birth = before.as_ref().and_then(Cgroup::birth_fd);
        let mut newborn = birth.is_some();
        let mut how = Launch { plan: &encoded, namespaces, ids: &self.ids, cgroup: birth };
        let init = match launch(&how) {
            // Before 5.7, and where a container filters clone3, it has to be moved.
            Err(LaunchError::Clone(_)) if newborn => {
                (newborn, how.cgroup) = (false, None);
                launch(&how)
            }
            other => other,
        }?;
        let mut running = Running::new(init, started, limits);
        let own_network = tier != Tier::LandlockOnly && self.policy.network.mode != NetworkMode::Host;
        running.guard(self.resolved.guard.clone(), own_network);
        if counted {
            if let Some(cgroup) = if early { before } else { self.cgroup()? } {
                let entered = running.enter(cgroup, newborn);
                if self.counting == Counting::Cgroup {
                    entered?;
                }
            }
            running.go().map_err(system("telling init to go on"))?;
        }
        running.await_start(&plan)?;
        Ok(running)
    }

    fn cgroup(&self) -> Result<Option<Cgroup>, CgroupError> {
        match self.counting {
            Counting::Cgroup => limits::cgroup(&self.policy.limits, self.count).map(Some),
            Counting::ForStats => Ok(limits::counting_cgroup()),
            Counting::None | Counting::StandIns(_) => Ok(None),
        }
    }

    fn not_enforced(&self, tier: Tier) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        let mut lacks = |what: &str| list.push(what.to_owned());
        match tier {
            Tier::Full => {}
            Tier::HostProc => lacks("a /proc of the sandbox's own: processes outside can be seen"),
            Tier::LandlockOnly => {
                lacks("namespaces: processes, IPC and host names of the host can be seen");
                lacks("a private /tmp: the host's shows, read-only unless a rule allows writing");
                match self.policy.network.mode {
                    NetworkMode::None => lacks(
                        "a network of the sandbox's own: sockets of the internet families are refused instead",
                    ),
                    NetworkMode::Whitelist => {
                        let port = self
                            .network
                            .and_then(|network| network.unconfined.as_ref())
                            .map_or(0, |own| own.port);
                        lacks(&format!(
                            "a network of the sandbox's own: only programs that use the proxy variables reach the \
                             allowed hosts; a program that seeks it can connect to port {port} of any host, which \
                             is the proxy's here"
                        ));
                    }
                    NetworkMode::Host => {}
                }
            }
        }
        self.stand_ins(tier).1.iter().for_each(|note| lacks(note));
        if self.abi == Abi::None {
            lacks("Landlock: the mounts alone hold the file rules");
        }
        if self.policy.best_effort { list } else { Vec::new() }
    }
}

/// Asking for what nothing would enforce fails closed.
fn enforceable(policy: &Policy, network: Option<&NetworkPlan>) -> Result<(), Error> {
    if policy.network.mode == NetworkMode::Whitelist && network.is_none() {
        return Err(Error::NotEnforced(
            "the policy asks for an allow list of hosts, and there is no gate".into(),
        ));
    }
    Ok(())
}

/// A descriptor of a folder leads past every mount: what is opened below it is opened in the host's tree.
fn refuse_folder(fd: u32) -> Result<(), Error> {
    let raw = i32::try_from(fd).unwrap_or(-1);
    // SAFETY: only asked about; a number that is not open makes the call fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(raw.max(0)) };
    let stat = if raw < 0 { Err(rustix::io::Errno::BADF) } else { rustix::fs::fstat(borrowed) };
    let stat = stat.map_err(|error| {
        Error::NotEnforced(format!(
            "keeping descriptor {fd}: {}\nhelp: open it before kennel starts, or drop --keep-fd {fd}",
            io::Error::from(error)
        ))
    })?;
    let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    let path_only =
        rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::PATH));
    if folder || path_only {
        return Err(Error::NotEnforced(format!(
            "descriptor {fd} is {}, which would lead past the file rules\nhelp: open it inside, or close it",
            if folder { "an open folder" } else { "an O_PATH handle" }
        )));
    }
    Ok(())
}

fn namespaces_denied(error: &Error) -> bool {
    let refused = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    match error {
        Error::Launch(error) => error.denied(),
        Error::Start(StartError::IdMaps(_)) => true,
        // AppArmor lets the clone through and denies what the new namespace is for.
        // And a limit of 0 network namespaces shows only when one is asked for.
        Error::Start(StartError::Step { source, .. }) => {
            refused(source) || source.raw_os_error() == Some(libc::ENOSPC)
        }
        _ => false,
    }
}

fn explain(error: &Error) -> Error {
    if let Error::Start(StartError::Step { refused: Some(Refused::Proc), .. }) = error {
        return Error::Denied {
            error: error.to_string(),
            why: "parts of /proc are masked here, as containers do, and the kernel then denies a fresh one"
                .into(),
            remedy:
                "start the container with `--security-opt systempaths=unconfined`, or use `--best-effort`"
                    .into(),
        };
    }
    let (why, remedy) = host::namespace_denial();
    Error::Denied { error: error.to_string(), why, remedy }
}

/// A filtered network: what is made inside, and who serves it.
pub struct Network<'a> {
    /// What is made inside.
    pub plan: &'a NetworkPlan,
    /// Listeners of this side, which the sandbox's are served with.
    pub outside: Doors,
    /// The one that takes the place of those inside where there are no namespaces.
    pub unconfined: Doors,
    /// Called with the sockets when the first client knocks.
    pub open: &'a mut dyn FnMut(Doors),
}

/// What the caller wants to know while a sandbox runs.
#[derive(Default)]
pub struct Watch<'a> {
    /// Count what is used even if nothing limits it.
    pub count: bool,
    /// Who is told meanwhile.
    pub ticker: Option<Ticker<'a>>,
}

/// Runs a command attached to this process's terminal and standard streams, and waits for it.
///
/// # Safety
/// This process must have a single thread, and `inherited` must describe its own memory (see
/// [`launch::copy::launch`]).
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub unsafe fn run_attached<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    inherited: Memory,
    network: Option<Network>,
    watch: Watch,
) -> Result<Outcome, Error> {
    let (caller, mut terminal) = terminal::caller();
    (0..3).try_for_each(refuse_folder)?;
    let (network, outside, unconfined, mut open_doors) = match network {
        Some(network) => (Some(network.plan), network.outside, network.unconfined, Some(network.open)),
        None => (None, Doors::new(), Doors::new(), None),
    };
    let mut prepared = Prepared::new(policy, command, cwd, environment, caller, network)?;
    if watch.count {
        prepared.count();
    }
    // Before the clone: a signal that comes meanwhile is forwarded once the command runs.
    let signals = Signals::take().map_err(system("taking signals over"))?;
    let (mut streams, ends) = match policy.limits.output {
        None => (None, None),
        Some(cap) => {
            let cap = usize::try_from(cap).unwrap_or(usize::MAX);
            let (streams, ends) = Streams::passing_on(cap).map_err(system("making pipes for the output"))?;
            (Some(streams), Some(ends))
        }
    };
    let outputs = ends.as_ref().map(|ends| [ends.fds[1].as_fd(), ends.fds[2].as_fd()]);
    let launched = prepared.start(|launch| {
        if launch.namespaces == 0 {
            adopt_orphans();
        }
        // SAFETY: the caller's promises.
        unsafe { launch::copy::launch(launch, inherited, outputs) }
    });
    drop(ends);
    let (mut running, not_enforced) = launched?;
    running.watch_too(if running.namespaced() { outside } else { unconfined });
    let mut open = |doors| {
        if let Some(open) = &mut open_doors {
            open(doors);
        }
    };
    let attended = Attended {
        signals: Some(&signals),
        terminal: terminal.as_mut(),
        streams: streams.as_mut(),
        open_doors: network.is_some().then_some(&mut open),
        ticker: watch.ticker,
    };
    let waited = running.wait(attended);
    terminal::end_conversation();
    let mut outcome = waited.map_err(system("waiting for the sandbox"))?;
    if !running.namespaced() {
        // What init left because it was killed itself.
        kennel_init::child::reaper::kill_descendants();
    }
    outcome.not_enforced = not_enforced;
    Ok(outcome)
}

/// Without a PID namespace nobody but its parent notices when init is killed: what was inside becomes this process's.
fn adopt_orphans() {
    // SAFETY: plain calls; the set is memory that they fill in.
    unsafe {
        let mut child = std::mem::zeroed();
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const child, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Starts a command from a program of any size and number of threads. `stdio` becomes its standard streams.
/// Returns the sandbox and what is not enforced.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub fn start<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    stdio: [BorrowedFd; 3],
    network: Option<&NetworkPlan>,
    count: bool,
) -> Result<(Running, Vec<String>), Error> {
    for fd in &stdio {
        refuse_folder(std::os::fd::AsRawFd::as_raw_fd(fd).cast_unsigned())?;
    }
    let mut prepared = Prepared::new(policy, command, cwd, environment, Caller::default(), network)?;
    if count {
        prepared.count();
    }
    let keep: Vec<i32> = policy.process.keep_fds.iter().filter_map(|fd| i32::try_from(*fd).ok()).collect();
    prepared.start(|launch| launch::exec::launch(launch, stdio, &keep))
}

/// Tries whether this host lets this process make every namespace that a sandbox has.
///
/// # Errors
/// What the kernel said when it did not.
pub fn try_namespaces() -> Result<(), LaunchError> {
    let policy = Policy::default();
    let ids = IdMaps::of_caller(policy.process.user);
    let namespaces = launch::namespaces(Tier::Full) | kennel_init::child::clone::flag::NEWNET;
    let plan = Plan { command: kennel_init::plan::Command::default(), ..Plan::default() }.encode();
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let init =
        launch::exec::launch(&Launch { plan: &plan, namespaces, ids: &ids, cgroup: None }, stdio, &[])?;
    // It has no command, so it ends by itself; dropping waits for that.
    drop(Running::new(init, Instant::now(), &policy.limits));
    Ok(())
}
