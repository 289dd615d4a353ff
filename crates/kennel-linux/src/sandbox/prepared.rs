//! From a policy to a command that runs: PID 1 is born, the disk is looked at meanwhile, the plan is made and performed,
//! on whichever tier this host gives.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

use kennel_init::child::clone::flag;
use kennel_init::plan::{Command, Plan, Planned, Step};
use kennel_policy::policy::{NetworkMode, Policy, SeccompProfile};

use super::{Error, Show, refuse_folder, system};
use crate::cgroup::{Cgroup, CgroupError, Controller, ControllerSet};
use crate::guard::{GuardAssumptions, Rules, outer};
use crate::host;
use crate::landlock::Abi;
use crate::launch::{self, IdMaps, Init, Launch, LaunchError};
use crate::limits;
use crate::network::NetworkPlan;
use crate::plan::{Basis, Caller, PlanError, Tier, command, environment, opening, set_up};
use crate::resolve::created::MissingFolders;
use crate::resolve::{Resolved, resolve};
use crate::supervise::{Refused, Running, StartError};
use crate::users::UserMaps;

/// What is known of a sandbox before the disk has been looked at; enough for PID 1 to be born.
#[derive(Debug)]
pub struct Request {
    policy: Arc<Policy>,
    ids: IdMaps,
    counting: Counting,
    /// Whether to count what is used even if nothing limits it.
    count: bool,
    network: Option<NetworkPlan>,
}

/// PID 1, busy with the opening of its plan.
pub struct EarlyInit {
    running: Running,
    opening: Vec<Planned>,
    /// The cgroup, where it is made beforehand, and whether PID 1 was born in it.
    cgroup: Option<(Cgroup, bool)>,
}

/// A policy that has been looked at on this disk, ready to be planned for any tier and any command.
#[derive(Debug)]
pub struct Prepared {
    request: Request,
    resolved: Resolved,
    caller: Caller,
    abi: Abi,
    /// Whether the filter can ask the guard: not where an outer sandbox's does already.
    asks: bool,
}

/// A command, as its caller says it.
pub struct Wanted {
    /// It and its arguments.
    pub words: Vec<OsString>,
    /// The caller's variables. What the command gets of them is up to the policy.
    pub environment: Environment,
}

/// Variables of the caller's. A command line has its own where the kernel put them, and copies none.
pub type Environment = Vec<(Cow<'static, OsStr>, Cow<'static, OsStr>)>;

/// The variables one by one.
pub fn each_variable(environment: &Environment) -> impl Iterator<Item = (&OsStr, &OsStr)> + Clone {
    environment.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
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

impl Request {
    /// With `count`, a cgroup counts what is used even if nothing limits it, where one can be had without further ado.
    ///
    /// # Errors
    /// When the policy asks for what nothing would enforce.
    pub fn new(policy: Arc<Policy>, network: Option<NetworkPlan>, count: bool) -> Result<Request, Error> {
        if policy.network.mode == NetworkMode::AllowList && network.is_none() {
            return Err(Error::NotEnforced(
                "the policy requires an allow list of hosts, but there is no network gate".into(),
            ));
        }
        for fd in &policy.process.keep_fds {
            refuse_folder(*fd)?;
        }
        let counting = match (limits::need_cgroup(&policy.limits), count) {
            (true, _) => Counting::Cgroup,
            (false, true) => Counting::ForStats,
            (false, false) => Counting::None,
        };
        let ids = match policy.process.users.is_empty() {
            true => IdMaps::of_caller(policy.process.user),
            false => IdMaps::Several(UserMaps::of(&policy.process).map_err(LaunchError::Users)?),
        };
        Ok(Request { policy, ids, counting, count, network })
    }

    /// Has `launch` make PID 1 for a tier, and sets it to work.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn launch_early(
        &self,
        tier: Tier,
        launch: &mut impl FnMut(&Launch) -> Result<Init, LaunchError>,
    ) -> Result<EarlyInit, Error> {
        let opening = opening(&self.policy, tier, self.network.as_ref());
        // On a unified host PID 1 is born in its cgroup; elsewhere the cgroup is made while PID 1 sets up.
        let cgroup = if self.counting.counted() && limits::born_in_cgroup() { self.cgroup()? } else { None };
        let birth = cgroup.as_ref().and_then(Cgroup::birth_fd);
        let mut newborn = birth.is_some();
        let mut how = Launch { namespaces: launch::namespaces(tier), ids: &self.ids, cgroup: birth };
        let mut launched = launch(&how);
        // Before 5.7, and where a container filters clone3, it has to be moved.
        if newborn && matches!(launched, Err(LaunchError::Clone(_))) {
            (newborn, how.cgroup) = (false, None);
            launched = launch(&how);
        }
        // Inside a sandbox that denies this one namespace, because the cgroup file system could be mounted with it. There the
        // names of the host's cgroups do not show anyway.
        if matches!(launched, Err(LaunchError::Clone(_))) && launch::is_in_cgroup_namespace() {
            how.namespaces &= !flag::NEWCGROUP;
            launched = launch(&how);
        }
        let init = launched?;
        let running = Running::new(init);
        running.open(&opening);
        running.let_it_open(&opening);
        Ok(EarlyInit { running, opening, cgroup: cgroup.map(|cgroup| (cgroup, newborn)) })
    }

    fn cgroup(&self) -> Result<Option<Cgroup>, CgroupError> {
        match self.counting {
            Counting::Cgroup => limits::cgroup(&self.policy.limits, self.count).map(Some),
            Counting::ForStats => Ok(limits::counting_cgroup()),
            Counting::None | Counting::StandIns(_) => Ok(None),
        }
    }

    fn several_users(&self) -> Option<&UserMaps> {
        match &self.ids {
            IdMaps::Several(maps) => Some(maps),
            IdMaps::Caller { .. } => None,
        }
    }

    fn stand_ins(&self, tier: Tier) -> (Vec<(u32, u64)>, Vec<String>) {
        match self.counting {
            Counting::StandIns(missing) => {
                limits::stand_ins(&self.policy.limits, missing, tier != Tier::LandlockOnly)
            }
            _ => Default::default(),
        }
    }
}

impl Prepared {
    /// Resolves the policy of `request` for a caller in `cwd` with these standard streams.
    ///
    /// # Errors
    /// When the policy does not fit this disk.
    pub fn new(
        request: Request,
        cwd: &Path,
        caller: Caller,
        missing_folders: MissingFolders,
    ) -> Result<Prepared, Error> {
        let resolved = resolve(&request.policy, cwd, missing_folders)?;
        Ok(Prepared { request, resolved, caller, abi: Abi::of_this_kernel(), asks: true })
    }

    /// The plan for a tier and a command.
    ///
    /// # Errors
    /// When the tier cannot express the policy.
    pub fn plan(&self, tier: Tier, wanted: &Wanted) -> Result<Plan, PlanError> {
        let opening = opening(&self.request.policy, tier, self.request.network.as_ref());
        let steps = self.set_up(&opening, tier)?;
        Ok(Plan { opening, steps, command: self.command(tier, wanted)? })
    }

    fn set_up(&self, opening: &[Planned], tier: Tier) -> Result<Vec<Planned>, PlanError> {
        let request = &self.request;
        let basis = Basis {
            policy: &request.policy,
            resolved: &self.resolved,
            caller: &self.caller,
            abi: self.abi,
            tier,
            counted: request.counting.counted(),
            rlimits: &request.stand_ins(tier).0,
            network: request.network.as_ref(),
            asks: self.asks,
            users: request.several_users(),
        };
        set_up(!opening.is_empty(), &basis)
    }

    fn command(&self, tier: Tier, wanted: &Wanted) -> Result<Command, PlanError> {
        let Request { policy, network, .. } = &self.request;
        let added = network.as_ref().map_or(&[][..], |network| &network.variables);
        let defaults = network.as_ref().map_or(&[][..], |network| &network.defaults);
        let mut variables = environment(policy, each_variable(&wanted.environment), added, defaults);
        if tier == Tier::LandlockOnly {
            self.share_the_hosts_network(&mut variables);
        }
        command(policy, &self.caller, &wanted.words, &variables)
    }

    /// What the controller guards while the sandbox runs.
    #[must_use]
    pub fn into_guarded(self) -> Rules {
        self.resolved.guard
    }

    /// Starts it on the best tier that this host gives: the full one, or with best effort the next. `born` is PID 1 for
    /// the full one, and `launch` makes others; `show` is shown the plan before it is performed, and again for another
    /// tier. Returns what is not enforced.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub fn start(
        mut self,
        early: Result<EarlyInit, Error>,
        wanted: &Wanted,
        mut launch: impl FnMut(&Launch) -> Result<Init, LaunchError>,
        mut show: Option<&mut Show>,
    ) -> Result<(Running, Vec<String>), Error> {
        let mut tier = Tier::Full;
        let mut first = Some(early);
        loop {
            let early = first.take().unwrap_or_else(|| self.request.launch_early(tier, &mut launch));
            let error = match early.and_then(|early| self.start_on(tier, early, wanted, show.as_deref_mut()))
            {
                Ok(running) => return Ok((running, self.not_enforced(tier))),
                Err(error) => error,
            };
            let request = &mut self.request;
            if let (Error::Cgroup(lack), true, Counting::Cgroup) =
                (&error, request.policy.best_effort, &request.counting)
            {
                let missing = lack.missing();
                let all = Controller::LIMITING.into_iter().collect();
                request.counting = Counting::StandIns(if missing.is_empty() { all } else { missing });
                continue;
            }
            if matches!(error, Error::Start(StartError::Nested(_)))
                && outer::suffices(&self.resolved.guard)
                && std::mem::take(&mut self.asks)
            {
                continue;
            }
            let refused = match &error {
                Error::Start(StartError::Step { refused, .. }) => *refused,
                _ => None,
            };
            if refused == Some(Refused::Netlink)
                && let Some(fallback) = request.network.as_mut().and_then(|network| network.fallback.take())
            {
                request.network = Some(*fallback);
                continue;
            }
            tier = match (tier, &error) {
                (Tier::Full, _) if refused == Some(Refused::Proc) => Tier::HostProc,
                (Tier::Full | Tier::HostProc, error) if namespaces_denied(error) => Tier::LandlockOnly,
                _ => return Err(error),
            };
            // Without namespaces there is one user.
            if !request.policy.best_effort || request.several_users().is_some() {
                return Err(explain(&error));
            }
        }
    }

    /// The proxy of an allow list is then found on the host's loopback.
    fn share_the_hosts_network(&self, variables: &mut [(OsString, OsString)]) {
        let network = self.request.network.as_ref();
        let Some(shared) = network.and_then(|network| network.shared.as_ref()) else { return };
        for (name, value) in &shared.variables {
            let said = self.request.policy.environment.set.iter().any(|(own, _)| own == name);
            if let Some((_, own)) = variables.iter_mut().find(|(own, _)| own == name)
                && !said
            {
                own.clone_from(value);
            }
        }
    }

    fn start_on(
        &self,
        tier: Tier,
        early: EarlyInit,
        wanted: &Wanted,
        show: Option<&mut Show>,
    ) -> Result<Running, Error> {
        let EarlyInit { mut running, opening, cgroup } = early;
        let policy = &self.request.policy;
        let steps = self.set_up(&opening, tier)?;
        let plan = Plan { opening, steps, command: self.command(tier, wanted)? };
        if let Some(show) = show {
            show(&plan, &self.resolved.guard);
        }
        // An init that has given up cannot be worked with any more: what it says comes before what that led to.
        if let Err(error) = self.get_going(tier, &mut running, &plan, cgroup) {
            return Err(running.told_failure(&plan).map_or(error, Error::Start));
        }
        running.command(&plan.command, &policy.limits);
        running.await_start(&plan)?;
        Ok(running)
    }

    /// Has the set-up performed, with all that it waits for.
    fn get_going(
        &self,
        tier: Tier,
        running: &mut Running,
        plan: &Plan,
        cgroup: Option<(Cgroup, bool)>,
    ) -> Result<(), Error> {
        let policy = &self.request.policy;
        let assumptions = GuardAssumptions {
            own_network: tier != Tier::LandlockOnly && policy.network.mode != NetworkMode::Host,
            // Every profile denies chroot, and all that mounts, unless that is what is asked for.
            one_root: policy.process.seccomp != SeccompProfile::None && !self.resolved.nested,
        };
        let guard = &self.resolved.guard;
        if !guard.covered.is_empty() && tier != Tier::LandlockOnly {
            running.hold_namespaces().map_err(system("opening the sandbox's namespaces"))?;
        }
        if self.request.several_users().is_some() {
            let roots = self.resolved.write_roots();
            running.give_back_to_caller(&roots).map_err(system("holding what several users can write"))?;
        }
        running.hold(self.resolved.handback.as_ref())?;
        running.set_up(plan);
        if self.request.counting.counted() {
            let cgroup = match cgroup {
                None => self.request.cgroup()?.map(|cgroup| (cgroup, false)),
                some => some,
            };
            let entered = cgroup.map(|(cgroup, newborn)| running.enter(cgroup, newborn));
            match entered {
                Some(Ok(())) => {}
                Some(Err(error)) if self.request.counting == Counting::Cgroup => return Err(error.into()),
                None | Some(Err(_)) => running.go().map_err(system("telling init to continue"))?,
            }
        }
        let asks = plan.steps.iter().any(|one| matches!(one.step, Step::Filter { listener: true, .. }));
        running.guard(guard, assumptions, asks)?;
        Ok(())
    }

    fn not_enforced(&self, tier: Tier) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        let mut lacks = |what: &str| list.push(what.to_owned());
        match tier {
            Tier::Full => {}
            Tier::HostProc => lacks("a /proc of the sandbox's own: processes outside can be seen"),
            Tier::LandlockOnly => {
                lacks("namespaces: processes, IPC and host names of the host can be seen");
                lacks("a private /tmp: the host's is visible, read-only unless a rule allows writing");
                let filtered = self.request.policy.process.seccomp != SeccompProfile::None;
                if self.resolved.writes_host() || !filtered {
                    lacks(
                        "modes, owners, times and extended attributes: those of all files of this user can be changed",
                    );
                }
                lacks("a /sys of the sandbox's own: the host's hardware and network interfaces can be seen");
                match self.request.policy.network.mode {
                    NetworkMode::None => lacks(
                        "a network of the sandbox's own: sockets of the internet families are refused instead",
                    ),
                    NetworkMode::AllowList => {
                        let port = self
                            .request
                            .network
                            .as_ref()
                            .and_then(|network| network.shared.as_ref())
                            .map_or(0, |own| own.port);
                        lacks(&format!(
                            "a network of the sandbox's own: only programs that use the proxy variables reach the \
                             allowed hosts; a program that tries can connect to port {port} of any host, which is the proxy's port here"
                        ));
                    }
                    NetworkMode::Host => {}
                }
            }
        }
        self.request.stand_ins(tier).1.iter().for_each(|note| lacks(note));
        if self.abi == Abi::None {
            lacks("Landlock: only the mounts enforce the file rules");
        }
        if self.request.policy.best_effort { list } else { Vec::new() }
    }
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
            why: "parts of /proc are masked here, as in containers, so the kernel refuses a fresh one".into(),
            remedy: "start the container with `--security-opt systempaths=unconfined`, or use `best_effort`"
                .into(),
        };
    }
    let (why, remedy) = host::namespace_denial();
    Error::Denied { error: error.to_string(), why, remedy }
}
