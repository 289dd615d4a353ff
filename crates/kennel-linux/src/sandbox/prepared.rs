//! From a policy to a command that runs: PID 1 is born, the disk is looked at meanwhile, the plan is made and performed,
//! on whichever tier this host gives.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kennel_init::plan::{Command, Plan, Planned, Step};
use kennel_policy::environment::environment;
use kennel_policy::policy::{NetworkMode, Policy, RootFsWrite, SeccompProfile, TmpMode};

use super::attempt::{Attempt, Counting, Refusal, denies_namespaces, is_no_layer, next_attempt, refusal};
use super::launcher::Launcher;
use super::request::{EarlyInit, Request};
use super::{Error, Show, system};
use crate::additions::Additions;
use crate::caches::Layers;
use crate::cgroup::Cgroup;
use crate::guard::{GuardAssumptions, Rules, outer};
use crate::host;
use crate::landlock::{self, Abi};
use crate::network::NetworkPlan;
use crate::plan::end::{End, set_up_in_network, set_up_to};
use crate::plan::need::Need;
use crate::plan::{Basis, Caller, PlanError, Tier, command, opening};
use crate::resolve::created::MissingFolders;
use crate::resolve::{Point, Resolved, resolve, unmake};
use crate::supervise::{Running, StartError};
use crate::sys::processes::has_mount_setattr;

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
    /// When the start began.
    begun: Instant,
    request: Request,
    resolved: Resolved,
    /// The caller's working directory.
    cwd: PathBuf,
    caller: Caller,
    abi: Abi,
    /// What is being tried, or has succeeded.
    attempt: Attempt,
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
        let begun = Instant::now();
        let mut resolved = resolve(&request.policy, cwd, missing_folders, None)?;
        resolved.guard.explained = request.explained(&resolved);
        let mut attempt = request.first_attempt();
        attempt.leeway.guarded_outside = outer::suffices(&resolved.guard);
        Ok(Prepared {
            begun,
            request,
            resolved,
            cwd: cwd.to_path_buf(),
            caller,
            abi: Abi::of_this_kernel(),
            attempt,
            additions,
        })
    }

    /// The plan for a command, where the host gives everything.
    ///
    /// # Errors
    /// When the policy cannot be planned.
    pub fn plan(&self, wanted: &Wanted) -> Result<Plan, PlanError> {
        let opening = opening(&self.request.policy, self.attempt.tier, self.network());
        let steps = self.set_up(End::Command, &opening, false)?;
        Ok(Plan { opening, steps, command: self.command(wanted, &self.request.policy, &self.caller)? })
    }

    fn network(&self) -> Option<&NetworkPlan> {
        self.attempt.network(self.request.network.as_ref())
    }

    /// The policy that was looked at.
    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.request.policy
    }

    fn set_up(
        &self,
        end: End,
        opening: &[Planned],
        born_in_network: bool,
    ) -> Result<Vec<Planned>, PlanError> {
        let rlimits = self.request.stand_ins(&self.attempt).0;
        let basis = self.basis(&self.request.policy, &self.resolved, &rlimits);
        let basis = Basis { born_in_network, ..basis };
        set_up_to(end, !opening.is_empty(), &basis)
    }

    /// What the plan of a goal ends in, where this host lets it be reached.
    fn end_of(&self, goal: Goal, tier: Tier) -> Result<End, Error> {
        match goal {
            Goal::Command(_) => Ok(End::Command),
            Goal::Ready => Ok(End::Ready),
            Goal::Halfway if self.request.several_users().is_some() => {
                Err(Error::NotEnforced(NOT_WITH_USERS.into()))
            }
            Goal::Halfway if tier == Tier::LandlockOnly || !has_mount_setattr() => {
                Err(Error::NotEnforced(NOT_HALFWAY.into()))
            }
            Goal::Halfway => Ok(End::Halfway),
            // Without namespaces nobody would be left to end what a killed leader leaves.
            Goal::Session if tier == Tier::LandlockOnly => Err(Error::NotEnforced(NO_SESSION.into())),
            Goal::Session if self.commands_are_open() && !self.request.policy.best_effort => {
                Err(Error::NotEnforced(format!("{OPEN_COMMANDS}\n{OPEN_COMMANDS_HELP}")))
            }
            Goal::Session => Ok(End::Session),
        }
    }

    fn basis<'a>(
        &'a self,
        policy: &'a Policy,
        resolved: &'a Resolved,
        rlimits: &'a [(u32, u64)],
    ) -> Basis<'a> {
        let Attempt { tier, counting, asks, .. } = self.attempt;
        Basis {
            policy,
            resolved,
            caller: &self.caller,
            abi: self.abi,
            tier,
            counted: counting.counted(),
            rlimits,
            network: self.network(),
            asks,
            born_in_network: false,
            users: self.request.several_users(),
            additions: &self.additions,
        }
    }

    /// The command, with the variables, the limits and the descriptors that `policy` gives it. It may say other than the
    /// sandbox's about these.
    pub(super) fn command(
        &self,
        wanted: &Wanted,
        policy: &Policy,
        caller: &Caller,
    ) -> Result<Command, PlanError> {
        let network = self.network();
        let mut added = Cow::Borrowed(network.map_or(&[][..], |network| &network.variables));
        if !self.additions.variables.is_empty() {
            added.to_mut().extend_from_slice(&self.additions.variables);
        }
        let defaults = network.map_or(&[][..], |network| &network.defaults);
        // The caller's may name a folder that is not writable, or not there, inside.
        let tmp = [("TMPDIR", OsStr::new("/tmp"))];
        let system = if policy.files.tmp == TmpMode::Private { &tmp[..] } else { &[] };
        let unset = &self.additions.unset;
        let inherited =
            each_variable(&wanted.environment).filter(|(name, _)| !unset.iter().any(|unset| unset == name));
        let mut variables = environment(policy, inherited, system, &added, defaults);
        if self.attempt.tier == Tier::LandlockOnly {
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
    ) -> Result<Vec<Planned>, PlanError> {
        let rlimits = self.request.stand_ins(&self.attempt).0;
        let basis = Basis { born_in_network, ..self.basis(policy, resolved, &rlimits) };
        set_up_in_network(opened, &basis)
    }

    /// Becomes that of another policy, for what is left to do.
    pub(super) fn become_that_of(&mut self, policy: Arc<Policy>, resolved: Resolved) {
        (self.request.policy, self.resolved) = (policy, resolved);
    }

    /// Where what the sandbox may do changes.
    pub(super) fn points(&self) -> &[Point] {
        &self.resolved.points
    }

    /// The layers of caches that the sandbox holds.
    pub(super) fn layers(&self) -> Option<Arc<Layers>> {
        self.resolved.layers.clone()
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
            without_links,
            not_understood: _,
            handback,
            workdir: _,
            written,
            owns_kernel,
            root,
            nested,
            user_files,
            layers,
            without_layers: _,
            made: _,
        } = now;
        let then = &self.resolved;
        (&then.points, &then.links, &then.covers) == (points, links, covers)
            && (&then.guard, &then.without_links, &then.handback) == (guard, without_links, handback)
            && (&then.written, then.owns_kernel, then.nested) == (written, *owns_kernel, *nested)
            && (&then.root, &then.user_files, &then.layers) == (root, user_files, layers)
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

    /// Brings it to its goal by the first attempt that this host lets through. `early` is PID 1 for the first one, and `launcher`
    /// makes others; `show` is shown the plan before it is performed, and again for another attempt.
    ///
    /// # Errors
    /// When there is no sandbox; nothing is left of it then.
    pub(super) fn start(
        &mut self,
        early: Result<EarlyInit, Error>,
        goal: Goal,
        launcher: &Launcher,
        mut show: Option<&mut Show>,
    ) -> Result<Staged, Error> {
        let mut first = Some(early);
        loop {
            let early = first.take().unwrap_or_else(|| self.request.launch_early(&self.attempt, launcher));
            let error = match early.and_then(|early| self.start_on(early, goal, show.as_deref_mut())) {
                Ok(staged) => {
                    self.resolved.layers.iter().for_each(|layers| layers.keep());
                    return Ok(staged);
                }
                Err(error) => error,
            };
            let refusal = refusal(&error);
            let Some(next) = next_attempt(&self.attempt, &refusal) else {
                // They may be in folders that were made before.
                self.resolved.layers = None;
                unmake(&self.resolved.made);
                return Err(explained(error, refusal, self.attempt.tier));
            };
            let layer = std::mem::replace(&mut self.attempt, next).layer;
            if layer && !self.attempt.layer {
                self.resolve_without_layer(&explain_layer(&error))?;
            }
        }
    }

    /// Best effort: the root is read-only where this kernel makes no layer above it.
    fn resolve_without_layer(&mut self, error: &Error) -> Result<(), Error> {
        let policy = Arc::make_mut(&mut self.request.policy);
        if let Some(rootfs) = &mut policy.files.rootfs {
            rootfs.write = RootFsWrite::None;
        }
        self.resolved = resolve(policy, &self.cwd, MissingFolders::Create, self.resolved.layers.take())?;
        self.resolved.guard.explained = self.request.explained(&self.resolved);
        if let Some(root) = &mut self.resolved.root {
            let text = error.to_string();
            root.lacks = Some(format!("a writable root: {}", text.lines().next().unwrap_or_default()));
        }
        Ok(())
    }

    /// The proxy of an allow list is then found on the host's loopback.
    fn share_the_hosts_network(&self, variables: &mut [(OsString, OsString)]) {
        let Some(shared) = self.network().and_then(|network| network.shared.as_ref()) else { return };
        for (name, value) in &shared.variables {
            let said = self.request.policy.environment.set.iter().any(|(own, _)| own == name);
            if let Some((_, own)) = variables.iter_mut().find(|(own, _)| own == name)
                && !said
            {
                own.clone_from(value);
            }
        }
    }

    fn start_on(&self, early: EarlyInit, goal: Goal, show: Option<&mut Show>) -> Result<Staged, Error> {
        let EarlyInit { mut running, opening, born_in_network, cgroup } = early;
        let (policy, tier) = (&self.request.policy, self.attempt.tier);
        let end = self.end_of(goal, tier)?;
        let steps = self.set_up(end, &opening, born_in_network)?;
        let command = match goal {
            Goal::Command(wanted) => self.command(wanted, policy, &self.caller)?,
            Goal::Ready | Goal::Halfway | Goal::Session => Command::default(),
        };
        let plan = Plan { opening, steps, command };
        if let Some(show) = show {
            show(&plan, &self.resolved.guard);
        }
        if let Goal::Halfway = goal {
            running.set_up(&plan);
            running.await_ready(&plan)?;
            return Ok(Staged { running, plan, born_in_network, cgroup });
        }
        // An init that has given up cannot be worked with any more: what it says comes before what that led to.
        let send = |running: &Running| running.set_up(&plan);
        if let Err(error) = self.get_going(&mut running, &plan.steps, cgroup, send) {
            return Err(running.told_failure(&plan).map_or(error, Error::Start));
        }
        match goal {
            Goal::Command(_) => {
                running.command(&plan.command, &policy.limits);
                // What a start takes, earlier runs have a say in.
                running.counts_from(self.begun, &policy.limits);
                running.await_start(&plan)?;
            }
            Goal::Ready | Goal::Session | Goal::Halfway => running.await_ready(&plan)?,
        }
        Ok(Staged { running, plan, born_in_network, cgroup: None })
    }

    /// Has `steps` performed, which `send` sends, with all that they wait for.
    pub(super) fn get_going(
        &self,
        running: &mut Running,
        steps: &[Planned],
        cgroup: Option<(Cgroup, bool)>,
        send: impl FnOnce(&Running),
    ) -> Result<(), Error> {
        let (policy, tier) = (&self.request.policy, self.attempt.tier);
        let assumptions = GuardAssumptions {
            own_network: tier != Tier::LandlockOnly && policy.network.mode != NetworkMode::Host,
            // Every profile denies chroot, and all that mounts, unless that is what is asked for.
            one_root: policy.process.seccomp != SeccompProfile::None && !self.resolved.nested,
            own_mounts: tier != Tier::LandlockOnly,
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
        running.hold_layers(self.resolved.layers.clone());
        send(running);
        if self.attempt.counting.counted() {
            let cgroup = match cgroup {
                None => self.request.cgroup(self.attempt.counting)?.map(|cgroup| (cgroup, false)),
                some => some,
            };
            let entered = cgroup.map(|(cgroup, newborn)| running.enter(cgroup, newborn));
            match entered {
                Some(Ok(())) => {}
                Some(Err(error)) if self.attempt.counting == Counting::Cgroup => return Err(error.into()),
                None | Some(Err(_)) => running.go().map_err(system("telling init to continue"))?,
            }
        }
        let asks = steps.iter().any(|one| matches!(one.step, Step::Filter { listener: true, .. }));
        running.guard(guard, assumptions, asks)?;
        Ok(())
    }

    /// Whether commands of a session could reach into each other. With `nested`, which says so, they always can.
    fn commands_are_open(&self) -> bool {
        !self.resolved.nested && landlock::harmless_layer(self.abi) == 0
    }

    /// What is not enforced for a session, beyond what is not for every sandbox.
    pub(super) fn not_enforced_in_session(&self) -> Option<String> {
        self.commands_are_open().then(|| OPEN_COMMANDS.to_owned())
    }

    /// What is not enforced on this tier: of the tier itself nothing is said unless best effort was asked for.
    pub(super) fn not_enforced(&self) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        let mut lacks = |what: &str| list.push(what.to_owned());
        match self.attempt.tier {
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
                    NetworkMode::AllowList | NetworkMode::Public => {
                        let shared = self.network().and_then(|network| network.shared.as_ref());
                        let port = shared.map_or(0, |own| own.port);
                        lacks(&format!(
                            "a network of the sandbox's own: only programs that use the proxy variables reach the \
                             allowed hosts; a program that tries can connect to port {port} of any host, which is the proxy's port here"
                        ));
                    }
                    NetworkMode::Host => {}
                }
            }
        }
        self.request.stand_ins(&self.attempt).1.iter().for_each(|note| lacks(note));
        if let Some(missing) = self.resolved.root.as_ref().and_then(|root| root.lacks.as_ref()) {
            lacks(missing);
        }
        if self.abi == Abi::None {
            lacks("Landlock: only the mounts enforce the file rules");
        }
        if !self.request.policy.best_effort {
            list.clear();
        }
        // What nobody asked to be lenient about, and no policy can express.
        list.extend(self.resolved.not_understood.iter().cloned());
        let caches = self.resolved.without_layers.iter();
        list.extend(
            caches.map(|why| format!("no layers for caches, which are as the rules for files say: {why}")),
        );
        list
    }
}

const NOT_HALFWAY: &str =
    "a sandbox cannot be prepared for mounts that come later: this needs namespaces, and Linux 5.12";

/// Why there is no sandbox, in words that say what to do about it.
fn explained(error: Error, refusal: Refusal, tier: Tier) -> Error {
    match refusal {
        Refusal::Step(Need::Layer, errno) if is_no_layer(errno) => explain_layer(&error),
        Refusal::Step(Need::FreshProc, libc::EPERM | libc::EACCES) => Error::Denied {
            error: error.to_string(),
            why: "parts of /proc are masked here, as in containers, so the kernel refuses a fresh one".into(),
            remedy: "start the container with `--security-opt systempaths=unconfined`, or use `best_effort`"
                .into(),
        },
        refusal if tier != Tier::LandlockOnly && denies_namespaces(refusal) => {
            let (why, remedy) = host::namespace_denial();
            Error::Denied { error: error.to_string(), why, remedy }
        }
        _ => error,
    }
}

/// Why there is no layer. The kernel tells it to its own log alone.
fn explain_layer(error: &Error) -> Error {
    let errno = match error {
        Error::Start(StartError::Step { source, .. }) => source.raw_os_error(),
        _ => None,
    };
    let why = match errno {
        Some(libc::EOPNOTSUPP) => "before Linux 6.6 an in-memory file system cannot hold a writable layer",
        Some(libc::ENODEV) => "this kernel has no overlay file system",
        Some(libc::EPERM | libc::EACCES) => {
            "this host, or a kernel before 5.11, lets only root mount an overlay file system"
        }
        _ => {
            "the kernel refuses this folder: it lies on an overlay of an overlay or on a file system that cannot be \
             laid under one, or something is mounted below it"
        }
    };
    let remedy = "use `files.rootfs_write = \"none\"`: the root is read-only then".into();
    Error::Denied { error: error.to_string(), why: why.into(), remedy }
}
