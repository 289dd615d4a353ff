//! From a policy to a command that runs: PID 1 is born, the disk is looked at meanwhile, the plan is made and performed,
//! on whichever tier this host gives.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_init::plan::{Command, Plan, Planned, Step};
use kennel_policy::environment::environment;
use kennel_policy::policy::{NetworkMode, Policy, RootFsWrite, SeccompProfile, TmpMode};

use super::request::{Counting, EarlyInit, Request};
use super::{Error, Show, system};
use crate::additions::Additions;
use crate::cgroup::{Cgroup, Controller};
use crate::guard::{GuardAssumptions, Rules, outer};
use crate::host;
use crate::landlock::{self, Abi};
use crate::launch::{Init, Launch, LaunchError};
use crate::plan::late::{covered_folders, steps_ahead};
use crate::plan::{Basis, Caller, PlanError, Tier, command, opening, set_up, without_cpu_limit};
use crate::resolve::created::MissingFolders;
use crate::resolve::{Point, Resolved, resolve};
use crate::supervise::{Refused, Running, StartError};

const NOT_WITH_USERS: &str = "a folder cannot be added later to a sandbox with several users\n\
                              help: leave out `process.users`, or prepare sandboxes without a workspace";
const NO_SESSION: &str = "a session needs namespaces, which this host denies\n\
                          help: allow user namespaces, or run each command in a sandbox of its own";

const OPEN_COMMANDS: &str =
    "commands of one session: without Landlock (Linux 5.13) they can trace each other";
const OPEN_COMMANDS_HELP: &str = "help: run each command in a sandbox of its own, or use `best_effort`";

/// A policy that has been looked at on this disk, ready to be planned for any tier and any command.
#[derive(Debug)]
pub struct Prepared {
    request: Request,
    resolved: Resolved,
    /// The caller's working directory.
    cwd: PathBuf,
    caller: Caller,
    abi: Abi,
    /// Whether the filter can ask the guard: not where an outer sandbox's does already.
    asks: bool,
    additions: Additions,
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

/// How far a sandbox is brought.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    /// Until this command runs.
    Command(&'a Wanted),
    /// Until it is ready for one.
    Ready,
    /// Until its mounts stand, and can still become more.
    Halfway,
    /// Until it is ready for any number of them.
    Session,
}

/// A sandbox that has come as far as it was to.
pub(super) struct Staged {
    pub(super) running: Running,
    pub(super) plan: Plan,
    pub(super) tier: Tier,
    /// Whether PID 1 was born in the sandbox's own network.
    pub(super) born_in_network: bool,
    /// The cgroup, if it has been made and is yet to be entered.
    pub(super) cgroup: Option<(Cgroup, bool)>,
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
        additions: Additions,
    ) -> Result<Prepared, Error> {
        let resolved = resolve(&request.policy, cwd, missing_folders)?;
        Ok(Prepared {
            request,
            resolved,
            cwd: cwd.to_path_buf(),
            caller,
            abi: Abi::of_this_kernel(),
            asks: true,
            additions,
        })
    }

    /// The plan for a tier and a command.
    ///
    /// # Errors
    /// When the tier cannot express the policy.
    pub fn plan(&self, tier: Tier, wanted: &Wanted) -> Result<Plan, PlanError> {
        let opening = opening(&self.request.policy, tier, self.request.network.as_ref());
        let steps = self.set_up(&opening, false, tier)?;
        Ok(Plan { opening, steps, command: self.command(tier, wanted, &self.request.policy, &self.caller)? })
    }

    /// The policy that was looked at.
    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.request.policy
    }

    fn set_up(
        &self,
        opening: &[Planned],
        born_in_network: bool,
        tier: Tier,
    ) -> Result<Vec<Planned>, PlanError> {
        let rlimits = self.request.stand_ins(tier).0;
        let basis = self.basis(&self.request.policy, &self.resolved, tier, &rlimits);
        let basis = Basis { born_in_network, ..basis };
        set_up(!opening.is_empty(), &basis)
    }

    fn basis<'a>(
        &'a self,
        policy: &'a Policy,
        resolved: &'a Resolved,
        tier: Tier,
        rlimits: &'a [(u32, u64)],
    ) -> Basis<'a> {
        let Request { counting, network, .. } = &self.request;
        Basis {
            policy,
            resolved,
            caller: &self.caller,
            abi: self.abi,
            tier,
            counted: counting.counted(),
            rlimits,
            network: network.as_ref(),
            asks: self.asks,
            born_in_network: false,
            users: self.request.several_users(),
            additions: &self.additions,
        }
    }

    /// The command, with the variables, the limits and the descriptors that `policy` gives it. It may say other than the
    /// sandbox's about these.
    pub(super) fn command(
        &self,
        tier: Tier,
        wanted: &Wanted,
        policy: &Policy,
        caller: &Caller,
    ) -> Result<Command, PlanError> {
        let network = &self.request.network;
        let mut added = Cow::Borrowed(network.as_ref().map_or(&[][..], |network| &network.variables));
        if !self.additions.variables.is_empty() {
            added.to_mut().extend_from_slice(&self.additions.variables);
        }
        let defaults = network.as_ref().map_or(&[][..], |network| &network.defaults);
        // The caller's may name a folder that is not writable, or not there, inside.
        let tmp = [("TMPDIR", OsStr::new("/tmp"))];
        let system = if policy.files.tmp == TmpMode::Private { &tmp[..] } else { &[] };
        let unset = &self.additions.unset;
        let inherited =
            each_variable(&wanted.environment).filter(|(name, _)| !unset.iter().any(|unset| unset == name));
        let mut variables = environment(policy, inherited, system, &added, defaults);
        if tier == Tier::LandlockOnly {
            self.share_the_hosts_network(&mut variables);
        }
        if let Some(root) = &self.resolved.root {
            let set = &policy.environment.set;
            root.settle_variables(&mut variables, |name| set.iter().any(|(own, _)| own == name));
        }
        if self.additions.without_secrets.is_none() {
            return command(policy, caller, &wanted.words, &variables);
        }
        for (_, value) in &mut variables {
            if let Some(cleaned) = self.additions.cleaned(value) {
                *value = cleaned;
            }
        }
        let clean = |word: &OsString| self.additions.cleaned(word).unwrap_or_else(|| word.clone());
        let words: Vec<OsString> = wanted.words.iter().map(clean).collect();
        command(policy, caller, &words, &variables)
    }

    /// The set-up of a job with this policy on a disk that looks so now, in a sandbox that has entered its network.
    pub(super) fn set_up_of(
        &self,
        policy: &Policy,
        resolved: &Resolved,
        (opened, born_in_network): (bool, bool),
        tier: Tier,
    ) -> Result<Vec<Planned>, PlanError> {
        let rlimits = self.request.stand_ins(tier).0;
        let basis = Basis { born_in_network, ..self.basis(policy, resolved, tier, &rlimits) };
        let mut steps = set_up(opened, &basis)?;
        steps.retain(|planned| planned.step != Step::EnterNetwork);
        Ok(steps)
    }

    /// Becomes that of another policy, for what is left to do.
    pub(super) fn become_that_of(&mut self, policy: Arc<Policy>, resolved: Resolved) {
        (self.request.policy, self.resolved) = (policy, resolved);
    }

    /// Where what the sandbox may do changes.
    pub(super) fn points(&self) -> &[Point] {
        &self.resolved.points
    }

    /// Where a command starts.
    pub(super) fn workdir(&self) -> Option<PathBuf> {
        self.resolved.workdir.clone()
    }

    /// Whether the disk looked the same, but for where a command starts.
    pub(super) fn resolved_as(&self, now: &Resolved) -> bool {
        let Resolved {
            points,
            links,
            covers,
            guard,
            handback,
            workdir: _,
            written,
            kernel_state,
            root,
            nested,
            user_files,
        } = now;
        let then = &self.resolved;
        (&then.points, &then.links, &then.covers) == (points, links, covers)
            && (&then.guard, &then.handback) == (guard, handback)
            && (&then.written, &then.kernel_state, then.nested) == (written, kernel_state, *nested)
            && (&then.root, &then.user_files) == (root, user_files)
    }

    /// What the controller guards while the sandbox runs.
    pub(super) fn guarded(&self) -> &Rules {
        &self.resolved.guard
    }

    /// The same.
    #[must_use]
    pub fn into_guarded(self) -> Rules {
        self.resolved.guard
    }

    /// Brings it to its goal on the best tier that this host gives: the full one, or with best effort the next. `early` is PID 1
    /// for the full one, and `launch` makes others; `show` is shown the plan before it is performed, and again for another
    /// tier.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub(super) fn start(
        &mut self,
        early: Result<EarlyInit, Error>,
        goal: Goal,
        mut launch: impl FnMut(&Launch) -> Result<Init, LaunchError>,
        mut show: Option<&mut Show>,
    ) -> Result<Staged, Error> {
        let mut tier = Tier::Full;
        let mut first = Some(early);
        loop {
            let early = first.take().unwrap_or_else(|| self.request.launch_early(tier, &mut launch));
            let error = match early.and_then(|early| self.start_on(tier, early, goal, show.as_deref_mut())) {
                Ok(staged) => return Ok(staged),
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
            if refused == Some(Refused::Layer) {
                let error = explain_layer(error);
                if !request.policy.best_effort {
                    return Err(error);
                }
                self.resolve_without_layer(&error)?;
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

    /// Best effort: the root is read-only where this kernel makes no layer above it.
    fn resolve_without_layer(&mut self, error: &Error) -> Result<(), Error> {
        let policy = Arc::make_mut(&mut self.request.policy);
        if let Some(rootfs) = &mut policy.files.rootfs {
            rootfs.write = RootFsWrite::None;
        }
        self.resolved = resolve(policy, &self.cwd, MissingFolders::Create)?;
        if let Some(root) = &mut self.resolved.root {
            let text = error.to_string();
            root.lacks = Some(format!("a writable root: {}", text.lines().next().unwrap_or_default()));
        }
        Ok(())
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
        goal: Goal,
        show: Option<&mut Show>,
    ) -> Result<Staged, Error> {
        let EarlyInit { mut running, opening, born_in_network, cgroup } = early;
        let policy = &self.request.policy;
        let mut steps = self.set_up(&opening, born_in_network, tier)?;
        let command = match goal {
            Goal::Command(wanted) => self.command(tier, wanted, policy, &self.caller)?,
            Goal::Ready => {
                let reason = "prepared before its command is known".to_owned();
                steps.push(Planned { step: Step::Later, reason });
                Command::default()
            }
            Goal::Halfway => {
                if self.request.several_users().is_some() {
                    return Err(Error::NotEnforced(NOT_WITH_USERS.into()));
                }
                if tier == Tier::LandlockOnly || !has_mount_setattr() {
                    return Err(Error::NotEnforced(NOT_HALFWAY.into()));
                }
                steps.truncate(steps_ahead(&steps));
                let held = covered_folders(&steps);
                let root = steps.iter().position(|one| matches!(one.step, Step::HostRoot { .. }));
                // Before anything is mounted over it.
                let at = root.map_or(steps.len(), |root| root + 1);
                steps.splice(at..at, held);
                if !opening.is_empty() {
                    let reason = "a network of the sandbox's own".to_owned();
                    steps.push(Planned { step: Step::EnterNetwork, reason });
                }
                let reason = "prepared before its command is known".to_owned();
                steps.push(Planned { step: Step::Later, reason });
                Command::default()
            }
            Goal::Session => {
                // Without namespaces nobody would be left to end what a killed leader leaves.
                if tier == Tier::LandlockOnly {
                    return Err(Error::NotEnforced(NO_SESSION.into()));
                }
                if self.commands_are_open() && !self.request.policy.best_effort {
                    return Err(Error::NotEnforced(format!("{OPEN_COMMANDS}\n{OPEN_COMMANDS_HELP}")));
                }
                without_cpu_limit(&mut steps);
                // Who may make namespaces may mount in them, which Landlock forbids.
                let layer = if self.resolved.nested { 0 } else { landlock::harmless_layer(self.abi) };
                let reason = "a session: commands come one by one".to_owned();
                steps.push(Planned { step: Step::Session { layer }, reason });
                Command::default()
            }
        };
        let plan = Plan { opening, steps, command };
        if let Some(show) = show {
            show(&plan, &self.resolved.guard);
        }
        if let Goal::Halfway = goal {
            running.set_up(&plan);
            running.await_ready(&plan)?;
            return Ok(Staged { running, plan, tier, born_in_network, cgroup });
        }
        // An init that has given up cannot be worked with any more: what it says comes before what that led to.
        let send = |running: &Running| running.set_up(&plan);
        if let Err(error) = self.get_going(tier, &mut running, &plan.steps, cgroup, send) {
            return Err(running.told_failure(&plan).map_or(error, Error::Start));
        }
        match goal {
            Goal::Command(_) => {
                running.command(&plan.command, &policy.limits);
                running.await_start(&plan)?;
            }
            Goal::Ready | Goal::Session | Goal::Halfway => running.await_ready(&plan)?,
        }
        Ok(Staged { running, plan, tier, born_in_network, cgroup: None })
    }

    /// Has `steps` performed, which `send` sends, with all that they wait for.
    pub(super) fn get_going(
        &self,
        tier: Tier,
        running: &mut Running,
        steps: &[Planned],
        cgroup: Option<(Cgroup, bool)>,
        send: impl FnOnce(&Running),
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
        send(running);
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
        let asks = steps.iter().any(|one| matches!(one.step, Step::Filter { listener: true, .. }));
        running.guard(guard, assumptions, asks)?;
        Ok(())
    }

    /// What is not enforced on this tier; nothing is said of it unless best effort was asked for.
    /// Whether commands of a session could reach into each other. With `nested`, which says so, they always can.
    fn commands_are_open(&self) -> bool {
        !self.resolved.nested && landlock::harmless_layer(self.abi) == 0
    }

    /// What is not enforced for a session, beyond what is not for every sandbox.
    pub(super) fn not_enforced_in_session(&self) -> Option<String> {
        self.commands_are_open().then(|| OPEN_COMMANDS.to_owned())
    }

    pub(super) fn not_enforced(&self, tier: Tier) -> Vec<String> {
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
        if let Some(missing) = self.resolved.root.as_ref().and_then(|root| root.lacks.as_ref()) {
            lacks(missing);
        }
        if self.abi == Abi::None {
            lacks("Landlock: only the mounts enforce the file rules");
        }
        if self.request.policy.best_effort { list } else { Vec::new() }
    }
}

const NOT_HALFWAY: &str =
    "a sandbox cannot be prepared for mounts that come later: this needs namespaces, and Linux 5.12";

/// Since Linux 5.12. What stands in for it has to see all mounts at once.
fn has_mount_setattr() -> bool {
    // SAFETY: fails, because there is no such descriptor, before it looks at anything else.
    let refused =
        unsafe { libc::syscall(libc::SYS_mount_setattr, -1, c"".as_ptr(), 0, std::ptr::null::<u8>(), 0) };
    refused != -1 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
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

/// Why there is no layer. The kernel tells it to its own log alone.
fn explain_layer(error: Error) -> Error {
    let Error::Start(StartError::Step { source, .. }) = &error else { return error };
    let why = match source.raw_os_error() {
        Some(libc::ESTALE) => return error,
        Some(libc::EOPNOTSUPP) => "before Linux 6.6 an in-memory file system cannot hold a writable layer",
        Some(libc::ENODEV) => "this kernel has no overlay file system",
        Some(libc::EPERM) => {
            "this host, or a kernel before 5.11, lets only root mount an overlay file system"
        }
        Some(libc::EINVAL) => {
            "the kernel refuses this folder: it lies on an overlay of an overlay or on a file system that cannot be \
             laid under one, or something is mounted below it"
        }
        _ => "this kernel makes no writable layer above that folder",
    };
    let remedy = "use `files.rootfs_write = \"none\"`: the root is read-only then".into();
    Error::Denied { error: error.to_string(), why: why.into(), remedy }
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
